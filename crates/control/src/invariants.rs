//! What always holds between two events. Checked in tests and simulation.

use crate::controller::Controller;
use crate::jobs::job::{Job, Part, PartStep, TaskOutcome};
use cosy_model::reservation::ReservationState;
use cosy_model::{Amounts, JobId, NodeId, Su, Uid, Watched, limits};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Checks every invariant of the controller's state.
///
/// # Errors
/// The first one that does not hold, in words.
pub fn check(it: &Controller) -> Result<(), String> {
    no_node_is_overbooked(it)?;
    jobs_have_all_their_bundles(it)?;
    groups_count_their_tasks(it)?;
    jobs_share_their_bodies(it)?;
    queues_count_their_jobs(it)?;
    users_count_their_jobs(it)?;
    answers_have_a_most(it)?;
    planner_and_jobs_agree(it)?;
    reservations_agree(it)?;
    flows_agree(it)?;
    held_jobs_have_an_end(it)?;
    licenses_are_held_once(it)?;
    interactive_jobs_are_attended(it)?;
    interactive_jobs_keep_to_their_limit(it)?;
    triggers_agree(it)?;
    it.waits.check(|job| it.jobs.contains_key(&job))?;
    money_agrees(it)?;
    it.reservations.books.check()
}

/// What is held of an account is held for live reservations that are not confirmed yet.
fn money_agrees(it: &Controller) -> Result<(), String> {
    let mut held: BTreeMap<&str, Su> = BTreeMap::new();
    for reservation in it.reservations.all.values() {
        let row = &reservation.row;
        if row.held != Su::ZERO && row.state != ReservationState::Held {
            return Err(format!(
                "reservation {} is {} and holds {} SU",
                row.id, row.state, row.held
            ));
        }
        if let Some(account) = &row.account {
            let sum = held.entry(account).or_default();
            *sum = sum.plus(row.held);
        }
    }
    let books = &it.reservations.books;
    for account in books.infos(&[], |_| true) {
        let known = held.get(account.name.as_str());
        let known = known.copied().unwrap_or_default();
        // Holds made before there was any account are in no book.
        if account.held > known {
            return Err(format!(
                "account {} holds {} SU, its reservations {known} SU",
                account.name, account.held
            ));
        }
    }
    Ok(())
}

/// What waits, is due or runs of a trigger is known where it is looked for, and none is kept
/// that is over.
fn triggers_agree(it: &Controller) -> Result<(), String> {
    let triggers = &it.triggers;
    for (id, row) in &triggers.all {
        let watched = match &row.spec.on {
            Watched::Job(job) => triggers
                .of_jobs
                .get(job)
                .is_some_and(|ids| ids.contains(id)),
            Watched::Nodes(_) => triggers.of_nodes.contains(id),
        };
        if watched == row.spent || row.is_over() {
            return Err(format!(
                "trigger {id} is kept and waits for nothing: {row:?}"
            ));
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
    watched.map_or(Ok(()), |job| {
        Err(format!("job {job} is over and triggers wait for it"))
    })
}

/// Every live reservation is promised, an active one has its planner, and only jobs of
/// active ones are inside.
fn reservations_agree(it: &Controller) -> Result<(), String> {
    for (id, reservation) in &it.reservations.all {
        let active = reservation.row.state == ReservationState::Active;
        let closed = it.reservations.closed.contains(id);
        if reservation.planner.is_some() != (active || closed) || active && closed {
            return Err(format!("reservation {id} is {}", reservation.row.state));
        }
        if it.planning.cluster().has_block(*id) != reservation.is_live() {
            return Err(format!(
                "reservation {id} is {} and its nodes are {}promised",
                reservation.row.state,
                if reservation.is_live() { "not " } else { "" }
            ));
        }
    }
    let mut pushed = std::collections::BTreeMap::new();
    for (job, span) in it.reservations.live().flat_map(|r| &r.row.delays) {
        *pushed.entry(*job).or_insert(0) += span.ms();
    }
    if !it
        .reservations
        .pushed
        .iter()
        .map(|(j, s)| (*j, s.ms()))
        .eq(pushed)
    {
        return Err("the delays of reservations do not add up".to_owned());
    }
    for (job, reservation) in it.planning.all_inside() {
        let live = it
            .reservations
            .get(*reservation)
            .is_some_and(|r| r.planner.is_some());
        if !live || !it.jobs.contains_key(job) {
            return Err(format!("job {job} is inside of reservation {reservation}"));
        }
    }
    Ok(())
}

/// A workflow lives as long as one of its jobs, and a task that is not over has its job.
fn flows_agree(it: &Controller) -> Result<(), String> {
    for (id, flow) in &it.flows.all {
        let open = flow.tasks.iter().filter(|task| task.end.is_none());
        if flow.open as usize != open.clone().count() || flow.row.is_live() != (flow.open > 0) {
            return Err(format!(
                "workflow {id} counts {} open tasks of {}",
                flow.open,
                open.count()
            ));
        }
        for task in open {
            let of = it.jobs.get(&task.job).map(|job| job.submitted.flow);
            if of != Some(Some(task.of)) {
                return Err(format!(
                    "task {} of workflow {id} lacks its job {}",
                    task.of.task, task.job
                ));
            }
        }
    }
    let live = it.flows.all.values().filter(|flow| flow.row.is_live());
    if it.flows.live != live.count() {
        return Err(format!("{} workflows are counted as live", it.flows.live));
    }
    Ok(())
}

/// What is counted as held is what jobs that have nodes hold.
fn licenses_are_held_once(it: &Controller) -> Result<(), String> {
    let held = it.count_licenses();
    if *it.jobs.all_licenses_used() != held {
        return Err(format!(
            "{:?} licences are counted as held, jobs hold {held:?}",
            it.jobs.all_licenses_used()
        ));
    }
    Ok(())
}

/// The controller itself ends each job in which nothing is launched, at its limit.
fn held_jobs_have_an_end(it: &Controller) -> Result<(), String> {
    let end = |job: &crate::jobs::job::Job| {
        let run = job.run().filter(|r| r.after.is_none())?;
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

/// With each interactive job stays a command, or one may come again; nobody else is
/// waited for.
fn interactive_jobs_are_attended(it: &Controller) -> Result<(), String> {
    let attended = it.jobs.all().filter(|j| j.spec().attended);
    let over = |job: &&Job| job.run().is_some_and(|run| run.after.is_some());
    let alive = attended.filter(|job| !over(job)).map(|job| job.id);
    it.attendance.check(|job| it.jobs.contains_key(&job), alive)
}

fn interactive_jobs_keep_to_their_limit(it: &Controller) -> Result<(), String> {
    let most = it.config.policy.interactive_per_user as usize;
    let mut all: BTreeMap<Uid, BTreeSet<JobId>> = BTreeMap::new();
    let counts = |j: &&crate::jobs::job::Job| j.submitted.counts_as_interactive();
    for job in it.jobs.all().filter(counts) {
        all.entry(job.submitted.uid).or_default().insert(job.id);
    }
    it.interactive.check(&all)?;
    for (uid, jobs) in &all {
        let counted = jobs.iter().filter(|id| it.counts_as_interactive(**id));
        let queued = jobs.iter().filter(|id| it.is_queued(**id)).count();
        let counted = counted.count();
        if most > 0 && queued > 0 && counted > most {
            return Err(format!(
                "user {uid} has {counted} interactive jobs, not {most}"
            ));
        }
        let limited = |id: &&JobId| {
            let waits = cosy_model::WaitReason::InteractiveLimit;
            matches!(&it.jobs[id].phase, crate::jobs::job::Phase::Waiting(Some(r)) if *r == waits)
        };
        if counted < most && jobs.iter().any(|id| limited(&id)) {
            return Err(format!(
                "an interactive job of user {uid} waits for nothing"
            ));
        }
    }
    Ok(())
}

/// A job of several parts holds nodes for all of them or for none.
fn jobs_have_all_their_bundles(it: &Controller) -> Result<(), String> {
    for job in it.jobs.all() {
        let Some(run) = job.run() else { continue };
        let held: BTreeSet<u16> = run.parts.iter().map(|part| part.bundle).collect();
        let wanted = 0..=job.spec().bundles.len() as u16;
        if !held.iter().copied().eq(wanted) {
            return Err(format!(
                "job {} has nodes for its parts {held:?} only",
                job.id
            ));
        }
        let nodes: BTreeSet<NodeId> = run.parts.iter().map(|part| part.node).collect();
        if nodes.len() != run.parts.len() {
            return Err(format!("job {} has a node for two of its parts", job.id));
        }
    }
    Ok(())
}

/// What jobs hold of a node never exceeds what it has, and no core or GPU is held twice.
fn no_node_is_overbooked(it: &Controller) -> Result<(), String> {
    let mut held: BTreeMap<NodeId, (Amounts, Vec<u32>, Vec<&Part>)> = BTreeMap::new();
    for job in it.jobs.all() {
        for part in job.run().into_iter().flat_map(|run| run.all_parts()) {
            if part.step == PartStep::Released {
                continue;
            }
            let (sum, cores, parts) = held.entry(part.node).or_default();
            sum.give(part.held());
            cores.extend(part.held_cores());
            parts.push(part);
            if !it.machine.node(part.node).jobs.contains(&job.id) {
                let name = it.machine.name(part.node);
                return Err(format!(
                    "job {} is missing at its node {name}: {:?}",
                    job.id, job.phase
                ));
            }
        }
    }
    for (id, (sum, mut cores, parts)) in held {
        let node = it.machine.node(id);
        let name = &node.spec.name;
        if node.known && !sum.fits(&node.amounts) {
            return Err(format!("node {name} is overbooked: {sum:?}"));
        }
        let all = cores.len();
        cores.sort_unstable();
        cores.dedup();
        if cores.len() != all {
            return Err(format!("a core of {name} is held twice"));
        }
        if node.cores.held() != cores.len() {
            return Err(format!("cores of {name} leak"));
        }
        let devices = node.devices.check(&parts);
        devices.map_err(|why| format!("node {name}: {why}"))?;
    }
    Ok(())
}

fn groups_count_their_tasks(it: &Controller) -> Result<(), String> {
    let mut jobs: BTreeMap<JobId, (usize, usize, usize)> = BTreeMap::new();
    for job in it.jobs.all() {
        let (all, running, queued) = jobs.entry(job.submitted.base).or_default();
        *all += 1;
        *running += usize::from(!job.is_waiting());
        *queued += usize::from(it.is_queued(job.id));
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
    }
    Ok(())
}

/// What jobs ask for is kept once for all that ask for the same, and tasks without a row of
/// their own stand alike, but for those that a request under way has yet to come to.
fn jobs_share_their_bodies(it: &Controller) -> Result<(), String> {
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
        let under_way = it.bulk.concern(*base);
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
        for (number, body) in &group.bodies {
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

/// What is kept for who asks again has a most.
fn answers_have_a_most(it: &Controller) -> Result<(), String> {
    let (count, bytes) = (it.answers.len(), it.answers.bytes());
    match count <= limits::ANSWERS && bytes <= limits::ANSWERS_BYTES {
        true => Ok(()),
        false => Err(format!("{count} answers of {bytes} bytes are kept")),
    }
}

fn users_count_their_jobs(it: &Controller) -> Result<(), String> {
    let mut all: BTreeMap<Uid, u32> = BTreeMap::new();
    for job in it.jobs.all() {
        *all.entry(job.submitted.uid).or_default() += job.spec().bundles.len() as u32 + 1;
    }
    match *it.jobs.counts() == all {
        true => Ok(()),
        false => Err(format!(
            "jobs of users are {all:?}, not {:?}",
            it.jobs.counts()
        )),
    }
}

fn planner_and_jobs_agree(it: &Controller) -> Result<(), String> {
    for job in it.jobs.all() {
        let queued = it.is_queued(job.id);
        let should = matches!(job.phase, crate::jobs::job::Phase::Waiting(None));
        if queued != should {
            return Err(format!(
                "job {} is {}in the planner's queue but its phase is {:?}",
                job.id,
                if queued { "" } else { "not " },
                job.phase
            ));
        }
    }
    Ok(())
}
