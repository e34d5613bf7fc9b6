//! What always holds of queues.

use crate::controller::Controller;

/// Checks the room.
///
/// # Errors
/// What does not hold, in words.
pub(crate) fn check(it: &Controller) -> Result<(), String> {
    queues_count_their_jobs(it)
}

fn queues_count_their_jobs(it: &Controller) -> Result<(), String> {
    for queue in it.queues.all() {
        let name = &queue.spec.name;
        let of = |job: &crate::jobs::job::Job| {
            let first = it.queue_id(&job.submitted.queue)?;
            let all = it.entering(job.spec(), first);
            all.get(&it.queue_id(name)?).copied()
        };
        let jobs: usize = it.jobs.all().filter_map(of).sum();
        let by_user: u32 = queue.by_user.values().sum();
        if queue.jobs as usize != jobs || by_user as usize != jobs {
            return Err(format!(
                "queue {name} counts {} jobs, {by_user} by user; there are {jobs}",
                queue.jobs
            ));
        }
    }
    Ok(())
}
