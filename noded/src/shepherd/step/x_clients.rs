//! What X clients and the command say to each other, on its way through a supervisor.

use super::frame_socket::ReceivedFrame;
use super::run::{LAST_WORDS, Supervisor};
use cosy_model::step::{DisplayFrame, UpFrame};
use std::time::Instant;

impl Supervisor<'_> {
    /// A client knocks.
    pub(super) fn let_client_in(&mut self, at: usize) {
        self.displays.accept(at);
        self.tell_displays();
    }

    /// A client can be read, or written to, which is done in every round.
    pub(super) fn hear_client(&mut self, connection: u32) {
        if self.has_room() {
            self.displays.read(connection, &mut self.buffer);
            self.tell_displays();
        }
    }

    /// The command has said something to a client here or below.
    pub(super) fn obey_display(&mut self, frame: &DisplayFrame, came: &ReceivedFrame) {
        if frame.node == self.node {
            return self.displays.obey(frame.connection, &frame.event);
        }
        let mut children = self.children.iter_mut().filter(|child| !child.over);
        if let Some(child) = children.find(|child| child.nodes.contains(&frame.node)) {
            child.way.queue.push(came.raw.clone());
        }
    }

    /// Nothing of the step is left here: what clients have said last is still read.
    pub(super) fn drain_displays(&mut self) {
        for number in self.displays.numbers() {
            while self.has_room() && self.displays.read(number, &mut self.buffer) {
                self.tell_displays();
            }
        }
        if self.up_gone || self.displays_late().is_some_and(|at| Instant::now() >= at) {
            self.displays.close();
        }
    }

    /// When clients that are not of the step, and do not go, are cut off.
    pub(super) fn displays_late(&self) -> Option<Instant> {
        let since = self.nothing_left_since;
        let since = since.filter(|_| !self.displays.is_left_alone());
        since.map(|since| since + LAST_WORDS)
    }

    /// Tells the command what has become of clients.
    pub(super) fn tell_displays(&mut self) {
        for frame in self.displays.take_events() {
            self.send_up(UpFrame::Display(frame));
        }
    }
}
