//! What few jobs have, and of it what a waiting job knows of those who make room: for itself, or for one that
//! comes first.

use crate::jobs::job::Job;
use crate::jobs::uncommon::Uncommon;
use crate::record::MovedRow;
use cosy_model::{JobId, Time};

impl Job {
    /// What few jobs have, of this one.
    pub(in crate::jobs) fn uncommon(&self) -> Uncommon {
        self.uncommon.as_deref().copied().unwrap_or_default()
    }

    /// Changes what few jobs have.
    pub(in crate::jobs) fn change_uncommon(&mut self, change: impl FnOnce(&mut Uncommon)) {
        let mut new = self.uncommon();
        change(&mut new);
        let differs = new != Uncommon::default();
        self.uncommon = differs.then(|| Box::new(new));
    }

    /// It waits again, and not before then.
    pub fn not_before(&self) -> Option<Time> {
        self.uncommon().not_before
    }

    /// Since when running jobs make room for it, so that it stands before all others.
    pub fn room_is_made(&self) -> Option<Time> {
        self.uncommon().room_is_made
    }

    /// Its guaranteed start was moved, since room was made for another job.
    pub fn moved(&self) -> Option<MovedRow> {
        self.uncommon().moved
    }

    /// Others have made room for it since then, or do not any more.
    pub fn makes_others_go(&mut self, since: Option<Time>) {
        self.change_uncommon(|it| it.room_is_made = since);
    }

    /// Its guaranteed start is later since room is made for `by`; how much in all is kept.
    pub fn start_is_moved(&mut self, by: JobId, (from, to): (Time, Time)) {
        let from = self.moved().map_or(from, |moved| moved.from);
        self.change_uncommon(|it| it.moved = Some(MovedRow { by, from, to }));
    }
}
