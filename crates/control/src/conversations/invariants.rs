//! What always holds of what commands are owed.

use crate::conversations::interactive::procedures::counts_as_interactive;
use crate::jobs::job::Job;
use crate::reservations::inside::procedures::is_queued;
use crate::rooms::Rooms;
use cosy_model::{JobId, Uid, limits};
use std::collections::{BTreeMap, BTreeSet};

/// Checks the room.
///
/// # Errors
/// What does not hold, in words.
pub(crate) fn check(it: &Rooms) -> Result<(), String> {
    interactive_jobs_are_attended(it)?;
    interactive_jobs_keep_to_their_limit(it)?;
    answers_have_a_most(it)?;
    it.conversations.predictions.check()?;
    it.conversations
        .waits
        .check(|job| it.jobs.contains_key(&job))
}

/// With each interactive job stays a command, or one may come again; nobody else is
/// waited for.
fn interactive_jobs_are_attended(it: &Rooms) -> Result<(), String> {
    let attended = it.jobs.all().filter(|j| j.spec().attended);
    let over = |job: &&Job| job.run().is_some_and(|run| run.is_over());
    let alive = attended.filter(|job| !over(job)).map(|job| job.id());
    it.conversations
        .attendance
        .check(|job| it.jobs.contains_key(&job), alive)
}

fn interactive_jobs_keep_to_their_limit(it: &Rooms) -> Result<(), String> {
    let most = it.config.policy.interactive_per_user as usize;
    let mut all: BTreeMap<Uid, BTreeSet<JobId>> = BTreeMap::new();
    let counts = |j: &&crate::jobs::job::Job| j.submitted().counts_as_interactive();
    for job in it.jobs.all().filter(counts) {
        all.entry(job.submitted().uid).or_default().insert(job.id());
    }
    it.conversations.interactive.check(&all)?;
    for (uid, jobs) in &all {
        let counted = jobs
            .iter()
            .filter(|id| counts_as_interactive(&it.jobs, &it.planning, &it.reservations, **id));
        let queued = jobs
            .iter()
            .filter(|id| is_queued(&it.planning, &it.reservations, **id))
            .count();
        let counted = counted.count();
        if most > 0 && queued > 0 && counted > most {
            return Err(format!("user {uid} has {counted} interactive jobs, not {most}"));
        }
        let limited = |id: &&JobId| {
            let waits = cosy_model::WaitReason::InteractiveLimit;
            matches!(&it.jobs[id].phase(), crate::jobs::job::Phase::Waiting(Some(r)) if *r == waits)
        };
        if counted < most && jobs.iter().any(|id| limited(&id)) {
            return Err(format!("an interactive job of user {uid} waits for nothing"));
        }
    }
    Ok(())
}

/// What is kept for who asks again has a most.
fn answers_have_a_most(it: &Rooms) -> Result<(), String> {
    let (count, bytes) = (it.conversations.answers.len(), it.conversations.answers.bytes());
    match count <= limits::ANSWERS && bytes <= limits::ANSWERS_BYTES {
        true => Ok(()),
        false => Err(format!("{count} answers of {bytes} bytes are kept")),
    }
}
