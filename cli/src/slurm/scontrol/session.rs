//! The state of `scontrol` that all its commands use: connection, zone, options.

use crate::slurm::messages::say;
use crate::{Context, exit};
use cosy_model::JobState;
use cosy_model::api::{JobField, Table};
use jiff::tz::TimeZone;

/// Connection and options of one run of `scontrol`.
pub(crate) struct Session<'a> {
    /// The way to the controller.
    pub context: &'a Context,
    /// Zone of all times.
    pub zone: TimeZone,
    /// Prints each record on one line (`--oneliner`).
    pub one_line: bool,
    /// Prints more of each job (`--details`).
    pub details: bool,
    /// Prints only errors (`--quiet`).
    pub quiet: bool,
    /// Prints the number of records and their time before each list (`--verbose`).
    pub verbose: bool,
}

/// Whether the job of a row has ended.
pub(super) fn has_ended(table: &Table, row: usize) -> bool {
    let state = table.text(row, JobField::State).parse();
    state.is_ok_and(JobState::is_end)
}

/// Reports `scontrol update` without parameters; gives the exit code.
pub(super) fn too_few_for_update() -> u8 {
    say("too few arguments for update keyword");
    exit::FAILED
}

/// Reports `too few arguments for keyword:hold`; gives the exit code.
pub(super) fn too_few(keyword: &str) -> u8 {
    say(&format!("too few arguments for keyword:{keyword}"));
    exit::FAILED
}
