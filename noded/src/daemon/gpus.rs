//! Whether all GPUs are still there: looked at with the health of the node.

use super::{Daemon, Event, Nodes};
use crate::gpus::GpusFound;
use crate::gpus::ask::{PATIENCE, late, look};
use std::time::Duration;

impl Daemon {
    /// Looks whether all GPUs and other devices are still there; what libraries say of GPUs is an event.
    pub(super) fn look_at_gpus(&mut self) {
        if !matches!(self.nodes, Nodes::Real(_)) {
            return;
        }
        let search = self.config.gpu_search.clone();
        let mut new = self.gpus.note_gone(&self.config.devices, !search.off);
        if search.off {
            // What a library said of GPUs that are configured now is no matter any more.
            new |= self.gpus.note(None);
        }
        if new {
            self.say_health();
        }
        if self.gpus.begin(&search).is_none() {
            return;
        }
        let (events, reaper) = (self.events.clone(), self.reaper.clone());
        tokio::spawn(async move {
            let mut look = look(&search, PATIENCE, Some(&reaper)).await;
            let result = std::mem::replace(&mut look.result, Ok(GpusFound::default()));
            let _ = events.send(Event::GpuLook(result)).await;
            // One that has answered and does not end hangs in the kernel.
            if tokio::time::timeout(END, look.over()).await.is_err() {
                let _ = events.send(Event::GpuLook(Err(late(PATIENCE)))).await;
                look.over().await;
            }
            let _ = events.send(Event::GpuLookOver).await;
        });
    }

    /// A look has come to an end.
    pub(super) fn gpus_looked_at(&mut self, result: Result<GpusFound, String>) {
        if self.config.gpu_search.off {
            return;
        }
        let problem = self.gpus.problem_of(result);
        if self.gpus.note(problem) {
            self.say_health();
        }
    }
}

/// How long a helper that has answered may take to end.
const END: Duration = Duration::from_secs(10);
