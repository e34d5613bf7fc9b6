//! Orders of the controller, and what its silence means.

use super::{Daemon, Nodes};
use crate::node::Node;
use crate::virtual_nodes::VirtualNodes;
use crate::{clock, sys};
use cosy_model::Span;
use cosy_model::node::{KillOrder, NodeOrder};
use std::fs::File;
use std::io::Write;
use std::time::Duration;

impl Daemon {
    pub(super) fn obey(&mut self, order: NodeOrder) {
        match order {
            NodeOrder::Welcome {
                cluster,
                heartbeat,
                unknown,
                revoked,
                alone,
                now,
            } => {
                if let Some(now) = now {
                    self.clock.set(now);
                }
                self.refused_keys.add(revoked);
                if let Nodes::Real(_) = &self.nodes {
                    self.lease.welcomed(alone);
                }
                self.welcome(&cluster, heartbeat, &unknown);
            }
            NodeOrder::RelayReply { connection, frame } => {
                if let Some(relay) = &self.relay {
                    relay.answer(connection, frame);
                }
            }
            NodeOrder::Heard { number, mark } => self.lease.heard(number, mark),
            NodeOrder::Leaving => {
                // Another one may take its place before this word comes; it counts from then on.
                if self.config.controllers.len() == 1 {
                    self.lease.stops();
                }
            }
            // Waited in a buffer while this node was given up: it is ordered anew if it is
            // still wanted.
            NodeOrder::Prepare(_) | NodeOrder::Launch(_)
                if self.lease.is_over(sys::since_boot()) => {}
            order => match &mut self.nodes {
                Nodes::Real(node) => obey_real(node, order),
                Nodes::Virtual(nodes) => obey_virtual(nodes, order),
            },
        }
    }

    fn welcome(&mut self, cluster: &str, heartbeat: Span, unknown: &[String]) {
        tracing::info!("welcomed by the controller of cluster {cluster}");
        for name in unknown {
            tracing::warn!("node {name} is not in the controller's configuration: it gets no jobs");
        }
        self.heartbeat = Duration::from_millis(heartbeat.ms().clamp(100, 3_600_000) as u64);
        if let Some(fd) = self.options.ready.take() {
            let _ = File::from(fd).write_all(b"ready\n");
        }
    }

    pub(super) fn look_at_lease(&mut self) {
        let now = sys::since_boot();
        let awake = self.begun.1.elapsed();
        let slept = now.saturating_sub(self.begun.0).saturating_sub(awake);
        if self.lease.wakes(now, slept) {
            tracing::info!("this machine has slept");
            self.say_figures();
        }
        if self.lease.is_just_over(now) {
            let silence = self.lease.silence(now).as_secs();
            tracing::warn!(
                "no word from the controller for {silence} s: jobs that may run again elsewhere are ended here"
            );
        }
        if self.lease.is_over(now) {
            self.real(Node::end_alone);
        }
    }
}

fn obey_real(node: &mut Node, order: NodeOrder) {
    match order {
        NodeOrder::Prepare(allocation) => node.order_prepare(allocation),
        NodeOrder::Launch(launch) => node.order_launch(launch),
        NodeOrder::Kill {
            key,
            cause,
            preempted,
            ..
        } => node.order_kill(key, KillOrder { cause, preempted }),
        NodeOrder::Signal {
            key,
            signal,
            script_only,
            steps_only,
            ..
        } => node.order_signal(key, signal, script_only, steps_only),
        NodeOrder::Note { key, text, .. } => node.order_note(key, &text),
        NodeOrder::Suspend { key, .. } => node.order_suspend(key),
        NodeOrder::Resume { key, .. } => node.order_resume(key),
        NodeOrder::Limit { key, limit, .. } => node.order_limit(key, limit),
        NodeOrder::Release { key, .. } => node.order_release(key),
        NodeOrder::Forget { key, .. } => node.order_forget(key),
        NodeOrder::StepsTaken { key, count, .. } => node.order_steps_taken(key, count),
        NodeOrder::Passage { number, passage } => node.order_passage(number, passage),
        NodeOrder::Moved { peer, .. } => node.order_moved(peer),
        NodeOrder::Welcome { .. }
        | NodeOrder::RelayReply { .. }
        | NodeOrder::Heard { .. }
        | NodeOrder::Leaving => {}
    }
}

fn obey_virtual(nodes: &mut VirtualNodes, order: NodeOrder) {
    let now = clock::date();
    match order {
        NodeOrder::Prepare(allocation) => nodes.order_prepare(&allocation),
        NodeOrder::Launch(launch) => nodes.order_launch(&launch, now),
        NodeOrder::Kill {
            key, node, cause, ..
        } => nodes.order_kill(key, &node, cause, now),
        NodeOrder::Signal {
            key, node, signal, ..
        } => nodes.order_signal(key, &node, signal, now),
        NodeOrder::Release { key, node } => nodes.order_release(key, &node, now),
        NodeOrder::Forget { key, node } => nodes.order_forget(key, &node),
        // Programs that are only imagined run on, to the end that they began with.
        NodeOrder::Suspend { .. } | NodeOrder::Resume { .. } | NodeOrder::Limit { .. } => {}
        NodeOrder::Note { .. } => {}
        NodeOrder::StepsTaken { .. } | NodeOrder::Passage { .. } | NodeOrder::Moved { .. } => {}
        NodeOrder::Welcome { .. }
        | NodeOrder::RelayReply { .. }
        | NodeOrder::Heard { .. }
        | NodeOrder::Leaving => {}
    }
}
