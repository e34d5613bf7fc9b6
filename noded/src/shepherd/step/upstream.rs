//! What comes from above: the command or the supervisor of the node above.

use super::frame_socket::ReceivedFrame;
use super::io_socket::IoConnection;
use super::run::Supervisor;
use crate::steps::{IoPurpose, UpKind};
use crate::sys;
use cosy_model::EndCause;
use cosy_model::step::DownFrame;
use cosy_proto::step::{Link, StepFrame};

/// Highest number of a signal.
const SIGNALS: i32 = 64;

impl Supervisor<'_> {
    /// The connection upwards is ready.
    pub(super) fn hear_up(&mut self) {
        self.up.fill(&mut self.buffer);
        self.listen_up();
    }

    fn listen_up(&mut self) {
        loop {
            match self.up.next() {
                Ok(None) => break,
                Ok(Some(came)) => {
                    if self.came_down(&came).is_none() {
                        return self.garbage_from_above();
                    }
                }
                Err(_) => return self.garbage_from_above(),
            }
        }
    }

    fn garbage_from_above(&mut self) {
        match self.task.up {
            UpKind::Command => self.command_gone(),
            // Both ends begin anew when it is brought again.
            UpKind::Hop => self.up.disconnect(),
        }
    }

    /// `None`: not what may come from there.
    fn came_down(&mut self, came: &ReceivedFrame) -> Option<()> {
        match came.frame().ok()? {
            StepFrame::Link(link) => {
                let first = std::mem::replace(&mut self.up.fresh, false);
                let resume = matches!(link, Link::Resume(_));
                if first != resume {
                    return None;
                }
                self.up.queue.heard(link).ok()
            }
            // Before anything else only the daemon above speaks: no supervisor is there.
            StepFrame::Down(DownFrame::Gone) if self.up.fresh && self.task.up == UpKind::Hop => {
                self.command_gone();
                Some(())
            }
            StepFrame::Down(_) if self.up.fresh && self.task.up == UpKind::Hop => None,
            StepFrame::Down(down) => {
                self.obey(&down, came)?;
                self.up.queue.received(came.raw.len());
                Some(())
            }
            StepFrame::Up(_) => None,
        }
    }

    fn obey(&mut self, down: &DownFrame, came: &ReceivedFrame) -> Option<()> {
        match down {
            DownFrame::Stdin { bytes } => {
                self.input.came(bytes).ok()?;
                self.pass_input(came);
            }
            DownFrame::StdinEnd => {
                self.input.end_came();
                self.pass_input(came);
            }
            DownFrame::Signal { signal } => {
                self.pass_down(&came.raw);
                if (1..=SIGNALS).contains(signal) {
                    self.signal_tasks(*signal);
                }
            }
            DownFrame::Kill => {
                self.pass_down(&came.raw);
                self.kill();
            }
            DownFrame::Window(window) => {
                self.pass_down(&came.raw);
                for terminal in self.tasks.iter().filter_map(|t| t.ends.terminal.as_ref()) {
                    let _ = sys::set_window(terminal, window.rows, window.columns);
                }
            }
            DownFrame::Spread { parts, .. } => {
                self.pass_down(&came.raw);
                self.exchange.spread(parts);
            }
            DownFrame::Display(frame) => self.obey_display(frame, came),
            DownFrame::Gone => self.command_gone(),
        }
        Some(())
    }

    fn pass_input(&mut self, came: &ReceivedFrame) {
        for at in 0..self.children.len() {
            if self.input.child_reads(at) {
                self.children[at].way.queue.push(came.raw.clone());
            }
        }
    }

    fn kill(&mut self) {
        self.told_to_end();
        self.kills = self.kills.saturating_add(1);
        match self.kills {
            1 => self.ending.finish(EndCause::Cancelled),
            _ => self.ending.kill(EndCause::Cancelled),
        }
    }

    /// Nobody wants to know of the step any more: it ends at once.
    pub(super) fn command_gone(&mut self) {
        if self.up_gone {
            return;
        }
        self.drop_up();
        if self.concluded.is_none() {
            self.told_to_end();
            self.ending.kill(EndCause::Cancelled);
        }
        self.send_down(&DownFrame::Gone);
    }

    /// What would go up is dropped from now on.
    pub(super) fn drop_up(&mut self) {
        self.up_gone = true;
        self.up.disconnect();
        self.up.queue.clear();
    }

    /// Takes in the connections that have said what they are for.
    pub(super) fn let_in(&mut self) {
        for IoConnection {
            what,
            socket,
            already,
        } in self.io_socket.hear()
        {
            match what {
                IoPurpose::Up if self.task.up == UpKind::Hop && !self.up_gone => {
                    let _ = self.up.connect(socket, already);
                    self.listen_up();
                }
                IoPurpose::Up => {}
                IoPurpose::Child(at) => {
                    let at = at as usize;
                    if let Some(child) = self.children.get_mut(at) {
                        let _ = child.way.connect(socket, already);
                        self.listen_to_child(at);
                    }
                }
                IoPurpose::Watch => self.watchers.add(socket),
            }
        }
    }
}
