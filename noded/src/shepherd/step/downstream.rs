//! What comes from below: the supervisors of further nodes, or of one that cannot be
//! reached its daemon's word.

use super::frame_socket::ReceivedFrame;
use super::run::Supervisor;
use cosy_model::step::UpFrame;
use cosy_proto::step::{Link, StepFrame};

impl Supervisor<'_> {
    /// The hop to a child is ready.
    pub(super) fn hear_child(&mut self, at: usize) {
        if let Some(child) = self.children.get_mut(at) {
            child.way.fill(&mut self.buffer);
            self.listen_to_child(at);
        }
    }

    pub(super) fn listen_to_child(&mut self, at: usize) {
        while let Some(child) = self.children.get_mut(at) {
            match child.way.next() {
                Ok(None) => break,
                Ok(Some(came)) => {
                    if self.came_up(at, &came).is_none() {
                        // Both ends begin anew when it is brought again.
                        self.children[at].way.disconnect();
                    }
                }
                Err(_) => child.way.disconnect(),
            }
        }
        self.is_child_over(at);
    }

    fn is_child_over(&mut self, at: usize) {
        let child = &mut self.children[at];
        if self.whole.are_over(&child.nodes) {
            // It waits for this before it leaves.
            child.way.queue.acknowledge();
            child.way.flush();
            if !child.over {
                child.over = true;
                self.input.child_gone(at);
                self.exchange.child_gone(at);
            }
        }
    }

    /// `None`: not what may come from there.
    fn came_up(&mut self, at: usize, came: &ReceivedFrame) -> Option<()> {
        let way = &mut self.children[at].way;
        if came.is_output && !way.fresh {
            way.queue.received(came.raw.len());
            self.output(came.raw.clone());
            return Some(());
        }
        match came.frame().ok()? {
            StepFrame::Link(link) => {
                let first = std::mem::replace(&mut way.fresh, false);
                if first != matches!(link, Link::Resume(_)) {
                    return None;
                }
                way.queue.heard(link).ok()
            }
            // Before anything else only its daemon speaks: there is no child.
            StepFrame::Up(UpFrame::Lost { reason, .. }) if way.fresh => {
                self.child_lost(at, reason);
                Some(())
            }
            StepFrame::Up(_) if way.fresh => None,
            StepFrame::Up(up) => {
                way.queue.received(came.raw.len());
                self.heard_up(at, up, came);
                Some(())
            }
            StepFrame::Down(_) => None,
        }
    }

    fn heard_up(&mut self, at: usize, up: UpFrame, came: &ReceivedFrame) {
        match up {
            UpFrame::Output { .. }
            | UpFrame::Started { .. }
            | UpFrame::Abort { .. }
            | UpFrame::Ending { .. } => {
                self.pass_up(came.raw.clone());
            }
            UpFrame::TaskEnded { ref end, .. } => {
                self.whole.task(end);
                self.told_of_end(&up);
                self.pass_up(came.raw.clone());
            }
            UpFrame::NodeEnded { node, ref end } => {
                self.whole.node(node, end);
                self.told_of_end(&up);
                self.pass_up(came.raw.clone());
            }
            UpFrame::Lost { ref nodes, .. } => {
                self.whole.lost(nodes);
                self.told_of_end(&up);
                self.pass_up(came.raw.clone());
            }
            UpFrame::Display(frame) => {
                let of_it = |child: &super::run::Child| child.nodes.contains(&frame.node);
                if self.children.get(at).is_some_and(of_it) {
                    self.pass_up(came.raw.clone());
                }
            }
            UpFrame::StdinTaken { bytes } => self.input.child_took(at, bytes),
            UpFrame::Gather { round, parts } => self.exchange.child_gave(at, round, parts),
        }
    }

    /// Nothing more comes from a child.
    pub(super) fn child_lost(&mut self, at: usize, reason: String) {
        let child = &self.children[at];
        let left = child.nodes.iter().copied();
        let nodes: Vec<u32> = left.filter(|n| !self.whole.is_over(*n)).collect();
        if nodes.is_empty() {
            return;
        }
        self.whole.lost(&nodes);
        let up = UpFrame::Lost { nodes, reason };
        self.told_of_end(&up);
        self.send_up(up);
        self.children[at].way.disconnect();
        self.is_child_over(at);
    }

    /// Tells commands that only look on how tasks and nodes ended.
    pub(super) fn told_of_end(&mut self, up: &UpFrame) {
        if self.head {
            self.watchers.end(up);
        }
    }
}
