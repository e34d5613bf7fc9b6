//! What a waiting job knows of those who make room: for itself, or for one that comes first.

use crate::jobs::job::Job;
use crate::record::MovedRow;
use cosy_model::{JobId, Time};

impl Job {
    /// Since when running jobs make room for it, so that it stands before all others.
    pub fn room_is_made(&self) -> Option<Time> {
        self.room_is_made
    }

    /// Its guaranteed start was moved, since room was made for another job.
    pub fn moved(&self) -> Option<MovedRow> {
        self.moved
    }

    /// Others have made room for it since then, or do not any more.
    pub fn makes_others_go(&mut self, since: Option<Time>) {
        self.room_is_made = since;
    }

    /// Its guaranteed start is later since room is made for `by`; how much in all is kept.
    pub fn start_is_moved(&mut self, by: JobId, (from, to): (Time, Time)) {
        let from = self.moved.map_or(from, |moved| moved.from);
        self.moved = Some(MovedRow { by, from, to });
    }
}
