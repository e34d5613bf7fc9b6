//! What always holds of who is in which planner.

use crate::reservations::inside::procedures::is_queued;
use crate::rooms::Rooms;

/// Checks the room.
///
/// # Errors
/// What does not hold, in words.
pub(crate) fn check(it: &Rooms) -> Result<(), String> {
    planner_and_jobs_agree(it)
}

fn planner_and_jobs_agree(it: &Rooms) -> Result<(), String> {
    for job in it.jobs.all() {
        let queued = is_queued(&it.planning, &it.reservations, job.id());
        let should = matches!(job.phase(), crate::jobs::job::Phase::Waiting(None));
        if queued != should {
            return Err(format!(
                "job {} is {}in the planner's queue but its phase is {:?}",
                job.id(),
                if queued { "" } else { "not " },
                job.phase()
            ));
        }
    }
    Ok(())
}
