//! The end of the daemon.

use super::{Daemon, Event, Nodes, Signals, Stop};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How long shepherds get to end their jobs after the lifeline's end.
const LAST_MOMENTS: Duration = Duration::from_secs(5);

impl Daemon {
    pub(super) async fn stop(
        &mut self,
        why: Stop,
        queue: &mut mpsc::Receiver<Event>,
        signals: &mut Signals,
    ) {
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        if let Some(relay) = &self.relay {
            relay.close();
        }
        if let Some(socket) = &self.step_socket {
            socket.close();
        }
        if let Some(socket) = &self.login_socket {
            socket.close();
        }
        match (why, &self.nodes) {
            (_, Nodes::Virtual(_)) => {}
            (Stop::Asked, Nodes::Real(node)) => {
                tracing::info!("stopping; jobs go on");
                node.leave();
            }
            (Stop::LifelineEnded, Nodes::Real(_)) => {
                self.wait_for_shepherds(queue, signals).await;
                if let Nodes::Real(node) = &self.nodes {
                    node.vanish();
                }
            }
        }
    }

    /// Shepherds hold the same lifeline and end by themselves.
    async fn wait_for_shepherds(
        &mut self,
        queue: &mut mpsc::Receiver<Event>,
        signals: &mut Signals,
    ) {
        let until = Instant::now() + LAST_MOMENTS;
        self.reap();
        while matches!(&self.nodes, Nodes::Real(node) if node.is_busy()) {
            tokio::select! {
                _ = signals.child.recv() => self.reap(),
                Some(event) = queue.recv() => match event {
                    // No new work any more.
                    Event::Link(_) | Event::Relay(_) => {}
                    Event::Step(event) if event.is_new_work() => {}
                    event => self.take(event),
                },
                () = sleep_until(until) => return,
            }
        }
    }
}
