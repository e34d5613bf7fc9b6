//! What always holds of queues.

use crate::jobs::check::procedures::entering;
use crate::rooms::Rooms;

/// Checks the room.
///
/// # Errors
/// What does not hold, in words.
pub(crate) fn check(it: &Rooms) -> Result<(), String> {
    queues_count_their_jobs(it)?;
    use_is_counted_once(it)
}

fn use_is_counted_once(it: &Rooms) -> Result<(), String> {
    let scores = it.queues.scores();
    let running = it
        .jobs
        .all()
        .filter(|job| scores.is_on() && job.run().is_some());
    if !running.map(|job| job.id()).eq(scores.shares().jobs()) {
        return Err("jobs that are charged are not those that hold nodes".to_owned());
    }
    if !scores.stops_are_right() {
        return Err("dates when jobs stop ageing are not those of jobs in planners".to_owned());
    }
    for (id, score) in scores.shares_in_keys() {
        let planned = it.planning.cluster().order_of(id);
        if planned.is_some_and(|key| key.score != score) {
            return Err(format!("job {id} stands at {planned:?}, its user at {score}"));
        }
    }
    match scores.shares().sums_are_right() {
        true => Ok(()),
        false => Err("sums of running jobs are not those of each of them".to_owned()),
    }
}

fn queues_count_their_jobs(it: &Rooms) -> Result<(), String> {
    for queue in it.queues.all() {
        let name = &queue.spec().name;
        let of = |job: &crate::jobs::job::Job| {
            let first = it.queues.queue_id(&job.submitted().queue)?;
            let all = entering(&it.config, &it.queues, job.spec(), first);
            all.get(&it.queues.queue_id(name)?).copied()
        };
        let jobs: usize = it.jobs.all().filter_map(of).sum();
        let by_user: u32 = queue.jobs_of_all_users();
        if queue.jobs() as usize != jobs || by_user as usize != jobs {
            return Err(format!(
                "queue {name} counts {} jobs, {by_user} by user; there are {jobs}",
                queue.jobs()
            ));
        }
    }
    Ok(())
}
