//! Submission: everything that can be refused is refused here, at once. COSY paper,
//! section 3.1: access lists and limits reject a job immediately.

pub(crate) mod procedures;

use crate::event::Caller;
use crate::jobs::job::Place;
use crate::record::Numbering;
use cosy_model::{Dialect, JobSpec, OsText, QueueId, TaskIndices};

/// A submission that was checked.
#[derive(Debug)]
pub(crate) struct Ready {
    pub spec: JobSpec,
    pub script: OsText,
    pub indices: Option<TaskIndices>,
    pub at_once: Option<u32>,
    pub queue: QueueId,
    pub place: Place,
}

/// The group of the asking process counts only if the directory knows of it.
fn group_note(caller: &Caller) -> String {
    if !caller.resolved || caller.user.has_group(caller.gid) {
        return String::new();
    }
    format!(
        "the directory does not give user {} group {}: it runs with group {}",
        caller.user.name,
        caller.gid,
        caller.group()
    )
}

pub(crate) fn numbering(dialect: Dialect) -> Numbering {
    match dialect {
        Dialect::Cosy => Numbering::InOrder,
        Dialect::Slurm => Numbering::LastFirst,
    }
}
