//! Limits on what runs, in the copies of planners on which starts are predicted.
//!
//! Beside its line the cluster's planner knows nothing of limits: who waits for one stands beside it
//! and holds back nobody. In such a copy each of these limits is a pool of its own ([`PoolKind::Own`]):
//! there is as much of it as is left now, and more from each expected end of a job that counts there.
//! Those who wait for it stand in the copy's line and take their part of it, and so do those in the
//! line that count with them. So a start is told that counts on the ends that free the limit, if
//! running jobs take their limits and nobody else comes.
//!
//! What always holds: only a copy is changed; how many jobs are put into it is bounded.

use crate::jobs::dependencies::procedures::planner_job;
use crate::jobs::job::Job;
use crate::jobs::limits::procedures::wanted_by;
use crate::policy::limits::party::Meter;
use crate::policy::limits::rules::{Rule, limits_running};
use crate::policy::limits::tally::{Amounts, Held, Rest};
use crate::rooms::Rooms;
use cosy_model::policy::{LimitKey, Tres};
use cosy_model::{JobId, NodeId, Time, WaitReason};
use cosy_sched::{Hold, HoldAmount, Holds, PoolId, PoolKind, PoolSpec, Scheduler, WaitingJob};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs that wait for limits which are put into a copy, at most: those of the limits in question, as many
/// that wait for others first, and as many of those in the line that count with them.
const MOST: usize = 500;
/// Among so many that wait for other limits those are looked for that count for the same ones, too.
const LOOKED_AT: usize = 5000;
/// Pools of limits have numbers from here on in a copy; those of licences are small.
const FIRST_POOL: u32 = 1 << 31;

/// A limit in a copy, and what is left of it over time.
struct LimitPool<'a> {
    id: PoolId,
    rule: &'a Rule,
}

type LimitPools<'a> = BTreeMap<(Meter, &'a LimitKey), LimitPool<'a>>;

/// Whether somebody waits for a limit of whom a copy could tell a start.
pub(crate) fn anybody_waits(rooms: &Rooms) -> bool {
    rooms.jobs.parked().ids().next().is_some()
}

/// Whether a job waits for a limit on what runs, and not for one inside of a reservation.
pub(crate) fn may_be_planned(rooms: &Rooms, id: JobId) -> bool {
    let waits = rooms.jobs.parked().get(id);
    let limit = waits.is_some_and(|waits| limits_running(waits.hit.key.kind));
    let job = rooms.jobs.get(&id);
    limit && job.is_some_and(|job| job.is_waiting() && job.spec().reservation.is_none())
}

/// Puts limits into a copy of the cluster's planner, with those who wait for them: those that matter for
/// one job, or the first of all. Those behind the first [`MOST`] of a limit are told no start.
pub(crate) fn tell_limits(rooms: &Rooms, scheduler: &mut Scheduler, only: Option<JobId>) {
    let counts = rooms.policy.counts();
    if !counts.is_on() {
        return;
    }
    let parked = rooms.jobs.parked();
    let (waiting, meters) = match only {
        Some(id) => {
            let of = counts.of(id);
            let meters = of.map(|of| of.rules.of_running()).unwrap_or_default();
            let own = meters.iter().flat_map(|meter| parked.waiting_for(*meter));
            let mut waiting: BTreeSet<JobId> = own.take(MOST).collect();
            // Others wait for another limit first, and count for one of these as well.
            let counts_there = |id: &JobId| {
                let of = counts.of(*id);
                of.is_some_and(|of| of.rules.meters.iter().any(|at| meters.contains(at)))
            };
            let others = parked.ids().take(LOOKED_AT).filter(counts_there);
            waiting.extend(others.take(MOST));
            (waiting, meters)
        }
        None => {
            let waiting = parked.ids().filter(|id| may_be_planned(rooms, *id));
            let waiting: BTreeSet<JobId> = waiting.take(MOST).collect();
            let rules = waiting.iter().filter_map(|id| counts.of(*id));
            let meters = rules.flat_map(|of| of.rules.of_running()).collect();
            (waiting, meters)
        }
    };
    if meters.is_empty() {
        return;
    }
    let queued = meters.iter().filter_map(|meter| counts.queued(*meter));
    let queued: BTreeSet<JobId> = queued
        .flat_map(|queued| queued.jobs.iter().copied())
        .filter(|id| scheduler.is_waiting(*id))
        .take(MOST)
        .collect();
    let waiting = waiting
        .into_iter()
        .filter(|id| may_be_planned(rooms, *id) && !scheduler.is_waiting(*id));
    let mut pools = LimitPools::new();
    let mut entering: Vec<WaitingJob> = Vec::new();
    for id in queued.into_iter().chain(waiting) {
        let Some(job) = rooms.jobs.get(&id) else {
            continue;
        };
        let known = scheduler.waiting(id).cloned();
        let Some(planned) = known.or_else(|| planner_job(rooms, job)) else {
            continue;
        };
        let holds = holds_of(rooms, job, &mut pools);
        let holds = planned
            .holds
            .iter()
            .copied()
            .chain(holds)
            .collect::<Holds>();
        entering.push(WaitingJob { holds, ..planned });
    }
    let ends = ends(rooms, scheduler, &meters);
    for pool in pools.values() {
        scheduler.set_pool(pool.id, what_is_left(rooms, pool.rule, &ends));
    }
    entering.into_iter().for_each(|job| scheduler.enqueue(job));
}

/// What a job takes of the limits on what runs that it is under.
fn holds_of<'a>(rooms: &'a Rooms, job: &Job, pools: &mut LimitPools<'a>) -> Vec<Hold> {
    let Some(of) = rooms.policy.counts().of(job.id()) else {
        return Vec::new();
    };
    let submitted = job.submitted();
    let wanted = wanted_by(rooms, of, &submitted.queue, &submitted.spec, &submitted.place);
    let mut holds = Vec::new();
    for rule in of.rules.all.iter().filter(|rule| rule.limits_running()) {
        let next = FIRST_POOL + u32::try_from(pools.len()).unwrap_or(0);
        let pool = pools.entry((rule.meter, &rule.key));
        let pool = pool.or_insert(LimitPool {
            id: PoolId(next),
            rule,
        });
        holds.push(Hold {
            pool: pool.id,
            amount: amount(rule, &wanted.amounts),
        });
    }
    holds
}

/// What a job takes of a limit: of resources on nodes what it gets there.
fn amount(rule: &Rule, wanted: &Amounts) -> HoldAmount {
    match &rule.key.tres {
        None => HoldAmount::Fixed(1),
        Some(Tres::Cpu) => HoldAmount::Cores,
        Some(Tres::Memory) => HoldAmount::Memory,
        Some(Tres::Node) => HoldAmount::Nodes,
        Some(tres) => HoldAmount::Fixed(wanted.get(tres).copied().unwrap_or(0)),
    }
}

/// A job that runs and counts for one of the limits, with its expected end.
struct Ends<'a> {
    at: Time,
    meters: &'a [Meter],
    held: &'a Held,
}

/// Running jobs that count there, by their expected ends.
fn ends<'a>(rooms: &'a Rooms, scheduler: &Scheduler, meters: &BTreeSet<Meter>) -> Vec<Ends<'a>> {
    let counts = rooms.policy.counts();
    let inside = rooms.planning.all_inside().keys().map(|id| (*id, None));
    let cluster = scheduler.running_jobs().map(|(id, end)| (id, Some(end)));
    let mut ends = Vec::new();
    for (id, end) in cluster.chain(inside) {
        let (Some(of), Some(held)) = (counts.of(id), counts.held_by(id)) else {
            continue;
        };
        if !of.rules.meters.iter().any(|meter| meters.contains(meter)) {
            continue;
        }
        let at = match (end, held.rest) {
            (Some(end), _) | (None, Rest::Until(end)) => end,
            (None, Rest::Of(_)) => continue, // nobody knows when it goes on
        };
        ends.push(Ends {
            at,
            meters: &of.rules.meters,
            held,
        });
    }
    ends.sort_by_key(|one| one.at);
    ends
}

/// What is left of a limit now and after each end.
fn what_is_left(rooms: &Rooms, rule: &Rule, ends: &[Ends<'_>]) -> PoolSpec {
    let tally = rooms.policy.counts().tally(rule.meter);
    let here = ends.iter().filter(|one| one.meters.contains(&rule.meter));
    let here: Vec<&Ends<'_>> = here.collect();
    let mut on_nodes: BTreeMap<NodeId, u32> = BTreeMap::new();
    for node in here.iter().flat_map(|one| &one.held.nodes) {
        *on_nodes.entry(*node).or_default() += 1;
    }
    let mut used = match &rule.key.tres {
        Some(tres) => tally.map_or(0, |tally| tally.held(tres)),
        None => tally.map_or(0, |tally| tally.running).into(),
    };
    let left = |used: u64| rule.value.saturating_sub(used);
    let reason = WaitReason::Limit(Box::new(rule.hit()));
    let mut spec = PoolSpec::new(PoolKind::Own, reason, left(used));
    for one in here {
        let freed = match &rule.key.tres {
            None => 1,
            Some(Tres::Node) => {
                let mut last = 0;
                for node in &one.held.nodes {
                    if let Some(jobs) = on_nodes.get_mut(node) {
                        *jobs -= 1;
                        last += u64::from(*jobs == 0);
                    }
                }
                last
            }
            Some(tres) => one.held.amounts.get(tres).copied().unwrap_or(0),
        };
        used = used.saturating_sub(freed);
        match spec.later.last_mut().filter(|(at, _)| *at == one.at) {
            Some((_, capacity)) => *capacity = left(used),
            None => spec.later.push((one.at, left(used))),
        }
    }
    spec
}
