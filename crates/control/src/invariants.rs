//! What always holds between two events. Checked in tests and simulation.

use crate::controller::Controller;
use crate::job::{Fate, PartStep};
use cosy_model::reservation::ReservationState;
use cosy_model::{Amounts, NodeId, Su};
use std::collections::BTreeMap;

/// Checks every invariant of the controller's state.
///
/// # Errors
/// The first one that does not hold, in words.
pub fn check(it: &Controller) -> Result<(), String> {
    no_node_is_overbooked(it)?;
    groups_count_their_tasks(it)?;
    queues_count_their_jobs(it)?;
    planner_and_jobs_agree(it)?;
    reservations_agree(it)?;
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

/// Every live reservation is promised, an active one has its planner, and only jobs of
/// active ones are inside.
fn reservations_agree(it: &Controller) -> Result<(), String> {
    for (id, reservation) in &it.reservations.all {
        let active = reservation.row.state == ReservationState::Active;
        if reservation.planner.is_some() != active {
            return Err(format!("reservation {id} is {}", reservation.row.state));
        }
        if it.sched.has_block(*id) != reservation.is_live() {
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
    for (job, reservation) in &it.inside {
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

/// What jobs hold of a node never exceeds what it has, and no core or GPU is held twice.
fn no_node_is_overbooked(it: &Controller) -> Result<(), String> {
    let mut held: BTreeMap<NodeId, (Amounts, Vec<u32>, Vec<u32>)> = BTreeMap::new();
    for job in it.jobs.values() {
        for part in job.run().into_iter().flat_map(|r| &r.parts) {
            if part.step == PartStep::Released {
                continue;
            }
            let (sum, cores, gpus) = held.entry(part.node).or_default();
            sum.give(&part.amounts);
            cores.extend(&part.cores);
            gpus.extend(&part.gpus);
            if !it.nodes[part.node.index()].jobs.contains(&job.id) {
                let name = &it.nodes[part.node.index()].spec.name;
                return Err(format!(
                    "job {} is missing at its node {name}: {:?}",
                    job.id, job.phase
                ));
            }
        }
    }
    for (id, (sum, mut cores, mut gpus)) in held {
        let node = &it.nodes[id.index()];
        if node.known && !sum.fits(&node.amounts) {
            return Err(format!("node {} is overbooked: {sum:?}", node.spec.name));
        }
        for numbers in [&mut cores, &mut gpus] {
            let all = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            if numbers.len() != all {
                return Err(format!("a core or GPU of {} is held twice", node.spec.name));
            }
        }
        if node.cores.held() != cores.len() || node.gpus.held() != gpus.len() {
            return Err(format!("cores of {} leak", node.spec.name));
        }
    }
    Ok(())
}

fn groups_count_their_tasks(it: &Controller) -> Result<(), String> {
    for (base, group) in &it.groups {
        let live = group.fates.iter().filter(|f| **f == Fate::Live).count();
        let of = |job: &&crate::job::Job| job.submitted.base == *base;
        let jobs = it.jobs.values().filter(of).count();
        let running = it
            .jobs
            .values()
            .filter(of)
            .filter(|j| !j.is_waiting())
            .count();
        let queued = it
            .jobs
            .values()
            .filter(of)
            .filter(|j| it.is_queued(j.id))
            .count();
        let counted = (live, group.running as usize, group.queued as usize);
        if counted != (jobs, running, queued) || group.live as usize != live {
            return Err(format!(
                "submission {base} counts {counted:?} live, running, queued; there are {jobs}, {running}, {queued}"
            ));
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

fn queues_count_their_jobs(it: &Controller) -> Result<(), String> {
    for queue in &it.queues {
        let name = &queue.spec.name;
        let of = |job: &&crate::job::Job| {
            job.submitted.queue == *name
                && matches!(job.submitted.place, crate::job::Place::Good { .. })
        };
        let jobs = it.jobs.values().filter(of).count();
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

fn planner_and_jobs_agree(it: &Controller) -> Result<(), String> {
    for job in it.jobs.values() {
        let queued = it.is_queued(job.id);
        let should = matches!(job.phase, crate::job::Phase::Waiting(None));
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
