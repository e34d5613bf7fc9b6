//! What all that `scontrol` does has at hand.

use crate::slurm::messages::say;
use crate::{Context, exit};
use cosy_model::JobState;
use cosy_model::api::{JobField, Table};
use jiff::tz::TimeZone;

/// How it is to be done.
pub(crate) struct Session<'a> {
    /// The way to the controller.
    pub context: &'a Context,
    /// Zone of all times.
    pub zone: TimeZone,
    /// Each record on one line.
    pub one_line: bool,
    /// More of each job.
    pub details: bool,
    /// Only errors are said.
    pub quiet: bool,
    /// How many records there are, and of when.
    pub verbose: bool,
}

/// Whether nothing more happens to the job.
pub(super) fn has_ended(table: &Table, row: usize) -> bool {
    let state = table.text(row, JobField::State).parse();
    state.is_ok_and(JobState::is_end)
}

/// `scontrol update` alone.
pub(super) fn too_few_for_update() -> u8 {
    say("too few arguments for update keyword");
    exit::FAILED
}

/// `too few arguments for keyword:hold`.
pub(super) fn too_few(keyword: &str) -> u8 {
    say(&format!("too few arguments for keyword:{keyword}"));
    exit::FAILED
}
