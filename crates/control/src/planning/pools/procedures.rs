//! What the planners are told of resource pools: what there is, and what jobs of each of them hold.
//!
//! The cluster's planner knows of all jobs what they hold, of those inside of reservations too. The
//! planner of a reservation is told before each pass what is left to it, over time: what there is,
//! less what jobs outside hold until their ends, other reservations keep and guaranteed places of
//! others will take. So no pool is given out twice, and what planners predict stays true.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::planning::Planning;
use crate::planning::pools::PoolOf;
use crate::reservations::Reservations;
use crate::rooms::Rooms;
use cosy_model::{CountedResources, JobId, ReservationId, Span, Time, WaitReason};
use cosy_sched::{Holder, PoolId, PoolKind, PoolSpec, Promises, Scheduler};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs or reservations that name these licences are known: their pools are, too, where there are
/// none any more.
pub(crate) fn know_licenses(planning: &mut Planning, licenses: &CountedResources) {
    for (name, _) in licenses.iter() {
        if planning.pools().license(name).is_none() {
            planning.set_pool(&PoolOf::License(name.to_owned()), license_spec(0));
        }
    }
}

/// A licence as planners know it: whoever waits for one is served in turn.
pub(crate) const fn license_spec(count: u64) -> PoolSpec {
    PoolSpec::new(PoolKind::Shared, WaitReason::Licenses, count)
}

/// The licences that there are by the configuration; those that it names no longer go as soon as
/// no job and no live reservation names them.
pub(crate) fn configure_licenses(rooms: &mut Rooms, now: Time) {
    let Rooms {
        config,
        jobs,
        reservations,
        planning,
        ..
    } = rooms;
    let named = planning.pools().iter().map(|(of, _)| of.clone());
    let gone: Vec<PoolOf> = named
        .filter(|PoolOf::License(name)| config.licenses.get(name) == 0)
        .collect();
    if !gone.is_empty() {
        let bodies = jobs.bodies();
        let of_jobs = bodies.iter().map(|body| &body.spec.licenses);
        let kept = reservations.live().map(|r| &r.row().ask.licenses);
        let wanted: BTreeSet<&str> = of_jobs
            .chain(kept)
            .flat_map(CountedResources::iter)
            .map(|(name, _)| name)
            .collect();
        for of in gone {
            let PoolOf::License(name) = &of;
            match wanted.contains(name.as_str()) {
                true => planning.set_pool(&of, license_spec(0)),
                false => planning.forget_pool(&of),
            }
        }
    }
    for (name, _) in config.licenses.iter() {
        tell_license_count(config, jobs, planning, now, name);
    }
}

/// Planners know of numbers that depend on the time of day for so long.
const KNOWN_AHEAD: Span = Span::from_secs(14 * 86_400);

/// From time to time planners are told of the days that have come nearer, and, where the clock was set,
/// what holds now.
pub(crate) fn license_times_pass(rooms: &mut Rooms, now: Time) {
    let Rooms {
        config,
        jobs,
        planning,
        ..
    } = rooms;
    if config.license_times.is_empty() || !planning.license_times_are_due(now) {
        return;
    }
    for name in config.license_times.keys() {
        tell_license_count(config, jobs, planning, now, name);
    }
}

/// Planners give out what there is of a licence less what is in use outside of the cluster. Where
/// others have all of it none is left: jobs that hold some keep it.
pub(crate) fn tell_license_count(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &mut Planning,
    now: Time,
    name: &str,
) {
    let outside = jobs.licenses().outside(name);
    let left = |count: u32| u64::from(count.saturating_sub(outside));
    let mut spec = license_spec(left(licenses_at(config, now, name)));
    if let Some(times) = config.license_times.get(name) {
        // Up to the end of a day, so that this is the same all day long.
        let until = times.day_of(now) + KNOWN_AHEAD;
        let later = times.changes(now, until).into_iter();
        spec.later = later.map(|(at, count)| (at, left(count))).collect();
    }
    planning.set_pool(&PoolOf::License(name.to_owned()), spec);
}

/// Number of licences that there are at that time.
pub(crate) fn licenses_at(config: &ClusterConfig, at: Time, name: &str) -> u32 {
    let times = config.license_times.get(name);
    times.map_or_else(|| config.licenses.get(name), |times| times.at(at))
}

/// What jobs inside of reservations hold has changed: the cluster's planner is told. What their
/// reservation keeps of a pool they take first.
pub(crate) fn tell_holders(planning: &mut Planning, reservations: &mut Reservations) {
    let active: Vec<ReservationId> = reservations.active().collect();
    for id in active {
        tell_holders_of(planning, reservations, id);
    }
}

pub(crate) fn tell_holders_of(
    planning: &mut Planning,
    reservations: &mut Reservations,
    id: ReservationId,
) {
    let Some(reservation) = reservations.get_mut(id) else {
        return;
    };
    let kept = reservation.holds(planning.pools());
    let Some(planner) = reservation.planner_mut() else {
        return;
    };
    let mut changed = planner.take_changed_holders();
    if changed.is_empty() {
        return;
    }
    if !kept.is_empty() {
        // Who draws how much of what is kept depends on all of them.
        changed.extend(inside_of(planning, id));
    }
    tell_drawn(planning, reservations, id, changed);
}

/// The reservation keeps something else: what jobs inside draw from that is told anew.
pub(crate) fn tell_all_holders_of(
    planning: &mut Planning,
    reservations: &mut Reservations,
    id: ReservationId,
) {
    tell_holders_of(planning, reservations, id);
    let all = inside_of(planning, id).collect();
    tell_drawn(planning, reservations, id, all);
}

/// The jobs that are in the planner of a reservation.
pub(crate) fn inside_of(planning: &Planning, id: ReservationId) -> impl Iterator<Item = JobId> {
    let inside = planning.all_inside().iter();
    inside
        .filter(move |(_, within)| **within == id)
        .map(|(job, _)| *job)
}

/// What these jobs inside hold, less what they draw from what their reservation keeps.
fn tell_drawn(
    planning: &mut Planning,
    reservations: &mut Reservations,
    id: ReservationId,
    changed: BTreeSet<JobId>,
) {
    let Some(reservation) = reservations.get_mut(id) else {
        return;
    };
    let kept = reservation.holds(planning.pools());
    let Some(planner) = reservation.planner_mut() else {
        return;
    };
    let holders = holders_beside(planner, &kept, changed);
    for (job, holder) in holders {
        let inside = planning.inside(job) == Some(id);
        holds_elsewhere(planning.cluster_mut(), job, holder.filter(|_| inside));
    }
}

/// The cluster's planner is told what a job of another planner holds, or that it holds nothing.
pub(crate) fn holds_elsewhere(cluster: &mut Scheduler, job: JobId, holder: Option<Holder>) {
    match holder {
        Some(holder) => cluster.hold_elsewhere(job, holder),
        None => cluster.let_go_elsewhere(job),
    }
}

/// What these jobs of a planner hold beside what is kept, from which the first of them draw first.
pub(crate) fn holders_beside(
    planner: &Scheduler,
    kept: &[(PoolId, u64)],
    jobs: impl IntoIterator<Item = JobId>,
) -> Vec<(JobId, Option<Holder>)> {
    let mut kept: BTreeMap<PoolId, u64> = kept.iter().copied().collect();
    let mut beside = |job| {
        let mut holder = planner.holder(job);
        if let Some(holder) = holder.as_mut().filter(|_| !kept.is_empty()) {
            let held: Vec<_> = holder.held().collect();
            for (pool, amount) in held {
                if let Some(left) = kept.get_mut(&pool) {
                    let drawn = amount.min(*left);
                    *left -= drawn;
                    holder.draws(pool, drawn);
                }
            }
        }
        (job, holder)
    };
    jobs.into_iter().map(&mut beside).collect()
}

/// The planner of a reservation is told what it may use of the pools that its waiting jobs want.
pub(crate) fn tell_what_is_left(
    planning: &Planning,
    planner: &mut Scheduler,
    id: ReservationId,
    now: Time,
) {
    for pool in planner.wanted_pools() {
        match planning.cluster().left_for(planner, id, pool, now) {
            Some(spec) => planner.set_pool(pool, spec),
            None => planner.remove_pool(pool),
        }
    }
}

/// The cluster's planner keeps to what planners of reservations have promised, beyond what their
/// reservations keep anyway.
pub(crate) fn tell_promises(planning: &mut Planning, reservations: &mut Reservations, now: Time) {
    let mut all = Promises::default();
    for id in reservations.active().collect::<Vec<_>>() {
        let Some(reservation) = reservations.get_mut(id) else {
            continue;
        };
        let kept = reservation.holds(planning.pools());
        let planner = reservation.planner_mut();
        if let Some(planner) = planner.filter(|planner| planner.has_holders()) {
            all.add(planner.promises_beyond(now, &kept));
        }
    }
    planning.cluster_mut().promise_elsewhere(all);
}
