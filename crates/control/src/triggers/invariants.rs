//! What always holds of triggers.

use crate::rooms::Rooms;
use cosy_model::TriggerTarget;

/// Checks the room.
///
/// # Errors
/// What does not hold, in words.
pub(crate) fn check(it: &Rooms) -> Result<(), String> {
    triggers_agree(it)
}

/// What waits, is due or runs of a trigger is known where it is looked for, and none is kept
/// that is over.
fn triggers_agree(it: &Rooms) -> Result<(), String> {
    let triggers = &it.triggers;
    for (id, row) in &triggers.all {
        let watched = match &row.spec.on {
            TriggerTarget::Job(job) => triggers
                .of_jobs
                .get(job)
                .is_some_and(|ids| ids.contains(id)),
            TriggerTarget::Nodes(_) => triggers.of_nodes.contains(id),
        };
        if watched == row.spent || row.is_over() {
            return Err(format!("trigger {id} is kept and waits for nothing: {row:?}"));
        }
        let waits = !row.due.is_empty() && row.run.is_none();
        if waits && !triggers.due.iter().any(|(_, due)| due == id) {
            return Err(format!("trigger {id} is due and forgotten: {row:?}"));
        }
    }
    let watched = triggers
        .of_jobs
        .keys()
        .find(|job| !it.jobs.contains_key(job));
    watched.map_or(Ok(()), |job| Err(format!("job {job} is over and triggers wait for it")))
}
