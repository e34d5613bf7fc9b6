//! What the core thread is told: events, and that a commit has failed.

use crate::budget::Share;
use cosy_control::Event;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// What the core thread is told.
#[derive(Debug)]
pub enum Input {
    /// An event for the next turn.
    Event(Box<Event>),
    /// The same, counted until its turn comes.
    Counted(Box<Event>, Share),
    /// Nothing but a reason to look for a failed commit, or for the end of a large one.
    Wake,
    /// Finish what is under way and stop.
    Stop,
}

/// A commit that failed, on its way from the writer to the core.
///
/// The writer never waits for the core, since the core may be waiting for the writer: it
/// leaves word here, and the core looks here in every turn. A full mailbox wakes the core
/// as well as a message would.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// Generation, and why.
    last: Arc<Mutex<Option<(u64, String)>>>,
    core: mpsc::Sender<Input>,
}

impl Failure {
    pub(super) fn new(core: mpsc::Sender<Input>) -> Self {
        Self {
            last: Arc::default(),
            core,
        }
    }

    /// Leaves word; never waits.
    pub(super) fn tell(&self, generation: u64, why: String) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((generation, why));
        self.wake();
    }

    /// The core looks whether something has changed; never waits.
    pub(super) fn wake(&self) {
        let _ = self.core.try_send(Input::Wake);
    }

    /// Why that generation's commit failed, told once.
    pub(super) fn of(&self, generation: u64) -> Option<String> {
        let last = self
            .last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        last.filter(|(failed, _)| *failed == generation)
            .map(|(_, why)| why)
    }
}
