//! What always holds of jobs and submissions.

use crate::jobs::job::TaskOutcome;
use crate::reservations::inside::procedures::is_queued;
use crate::rooms::Rooms;
use cosy_model::{JobId, NodeId, Uid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Checks the room.
///
/// # Errors
/// What does not hold, in words.
pub(crate) fn check(it: &Rooms) -> Result<(), String> {
    licenses_are_held_once(it)?;
    held_jobs_have_an_end(it)?;
    jobs_have_all_their_components(it)?;
    groups_count_their_tasks(it)?;
    jobs_share_their_bodies(it)?;
    users_count_their_jobs(it)
}

/// What is counted as held is what jobs that have nodes hold.
fn licenses_are_held_once(it: &Rooms) -> Result<(), String> {
    let held = it.jobs.count_licenses();
    if *it.jobs.licenses().all_used() != held {
        return Err(format!(
            "{:?} licences are counted as held, jobs hold {held:?}",
            it.jobs.licenses().all_used()
        ));
    }
    Ok(())
}

/// The controller itself ends each job in which nothing is launched, at its limit.
fn held_jobs_have_an_end(it: &Rooms) -> Result<(), String> {
    let end = |job: &crate::jobs::job::Job| {
        let run = job.run().filter(|r| !r.is_over())?;
        let end = run.ends_at().filter(|_| job.submitted.is_held())?;
        Some((end, job.id))
    };
    let want: BTreeSet<_> = it.jobs.all().filter_map(end).collect();
    if *it.jobs.held_ends() != want {
        return Err(format!(
            "jobs that the controller ends are {:?}, not {want:?}",
            it.jobs.held_ends()
        ));
    }
    Ok(())
}

/// A job of several components holds nodes for all of them or for none.
fn jobs_have_all_their_components(it: &Rooms) -> Result<(), String> {
    for job in it.jobs.all() {
        let Some(run) = job.run() else { continue };
        let held: BTreeSet<u16> = run.parts().iter().map(|part| part.component()).collect();
        let wanted = 0..job.spec().component_count() as u16;
        if !held.iter().copied().eq(wanted) {
            return Err(format!("job {} has nodes for its parts {held:?} only", job.id));
        }
        let nodes: BTreeSet<NodeId> = run.parts().iter().map(|part| part.node()).collect();
        if nodes.len() != run.parts().len() {
            return Err(format!("job {} has a node for two of its parts", job.id));
        }
    }
    Ok(())
}

fn groups_count_their_tasks(it: &Rooms) -> Result<(), String> {
    let mut jobs: BTreeMap<JobId, (usize, usize, usize)> = BTreeMap::new();
    for job in it.jobs.all() {
        let (all, running, queued) = jobs.entry(job.submitted.base).or_default();
        *all += 1;
        *running += usize::from(!job.is_waiting());
        *queued += usize::from(is_queued(&it.planning, &it.reservations, job.id));
    }
    for (base, group) in it.jobs.groups() {
        let count = |fate: TaskOutcome| group.fates.iter().filter(|f| **f == fate).count();
        let live = count(TaskOutcome::Live);
        let (jobs, running, queued) = jobs.get(base).copied().unwrap_or_default();
        let counted = (live, group.running as usize, group.queued as usize);
        if counted != (jobs, running, queued) || group.live as usize != live {
            return Err(format!(
                "submission {base} counts {counted:?} live, running, queued; there are {jobs}, {running}, {queued}"
            ));
        }
        if group.failed as usize != count(TaskOutcome::NotOk) {
            return Err(format!("submission {base} counts {} failed", group.failed));
        }
        if group.at_once.is_some_and(|most| {
            group.running + group.queued > most && group.queued > 0 && group.running < most
        }) && group.running + group.queued > group.at_once.unwrap_or(u32::MAX)
        {
            return Err(format!("array {base} runs more tasks than it may"));
        }
        if !group.throttled.is_empty()
            && it.jobs.are_reviewed()
            && it.jobs.next_throttled(*base).is_some()
        {
            return Err(format!("a task of array {base} waits for others of it without need"));
        }
    }
    Ok(())
}

/// What jobs ask for is kept once for all that ask for the same, and tasks without a row of
/// their own stand alike, but for those that a request under way has yet to come to.
fn jobs_share_their_bodies(it: &Rooms) -> Result<(), String> {
    let mut have: BTreeMap<(JobId, u32), u32> = BTreeMap::new();
    let mut plain: BTreeMap<JobId, u32> = BTreeMap::new();
    for job in it.jobs.all() {
        let (base, number) = (job.submitted.base, job.submitted.body);
        *have.entry((base, number)).or_default() += 1;
        *plain.entry(base).or_default() += u32::from(!job.has_row);
        let body = it.jobs.group(&base).and_then(|g| g.bodies.get(&number));
        let shared = body.is_some_and(|body| Arc::ptr_eq(&body.submitted, &job.submitted));
        if !shared && !it.machine.changes().under_way() {
            return Err(format!("job {} has a body {number} of its own", job.id));
        }
        if job.has_row && number > 0 && !body.is_some_and(|body| body.stored) {
            return Err(format!("body {number} of job {} is not stored", job.id));
        }
    }
    for (base, group) in it.jobs.groups() {
        let under_way = it.conversations.changes_under_way(*base);
        let alike = |job: &crate::jobs::job::Job| {
            job.has_row || job.held == group.held && job.submitted.body == group.submitted.body
        };
        let mut jobs = group.ids().filter_map(|id| it.jobs.get(&id));
        if !under_way && !jobs.all(alike) {
            return Err(format!("tasks of {base} without a row are not alike"));
        }
        if group.plain != plain.get(base).copied().unwrap_or(0) {
            return Err(format!("{base} counts {} jobs without a row", group.plain));
        }
        for (number, body) in group.bodies.iter() {
            let jobs = have.get(&(*base, *number)).copied().unwrap_or(0);
            if body.jobs != jobs || jobs == 0 && *number != group.submitted.body {
                return Err(format!(
                    "body {number} of {base} counts {} jobs, there are {jobs}",
                    body.jobs
                ));
            }
        }
    }
    Ok(())
}

fn users_count_their_jobs(it: &Rooms) -> Result<(), String> {
    let mut all: BTreeMap<Uid, u32> = BTreeMap::new();
    for job in it.jobs.all() {
        *all.entry(job.submitted.uid).or_default() += job.spec().component_count() as u32;
    }
    match *it.jobs.counts() == all {
        true => Ok(()),
        false => Err(format!("jobs of users are {all:?}, not {:?}", it.jobs.counts())),
    }
}
