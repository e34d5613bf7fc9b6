//! What always holds of who is in which planner.

use crate::planning::pools::PoolOf;
use crate::reservations::inside::kept::license_kept;
use crate::reservations::inside::procedures::{is_queued, planner_for};
use crate::rooms::Rooms;
use cosy_model::Time;
use cosy_sched::{Holder, PoolId};
use std::collections::BTreeMap;

/// Checks the room.
///
/// # Errors
/// What does not hold, in words.
pub(crate) fn check(it: &Rooms) -> Result<(), String> {
    planner_and_jobs_agree(it)?;
    pools_hold_what_jobs_hold(it)?;
    pools_are_kept_for_reservations(it)?;
    pools_have_what_there_is(it)
}

/// Of a licence planners know what the configuration has, less what others have.
fn pools_have_what_there_is(it: &Rooms) -> Result<(), String> {
    for (of, pool) in it.planning.pools().iter() {
        let PoolOf::License(name) = of;
        let known = it.planning.cluster().pool_use(Time::EPOCH, pool);
        let known = known.and_then(|pool| pool.capacity);
        if let Some(times) = it.config.license_times.get(name) {
            // When they change planners look at with their next pass.
            if known.is_none_or(|known| known > times.most().into()) {
                return Err(format!("planners know {known:?} of licence '{name}'"));
            }
            continue;
        }
        let outside = it.jobs.licenses().outside(name);
        let count = it.config.licenses.get(name).saturating_sub(outside);
        if known != Some(count.into()) {
            return Err(format!("planners know {known:?} of licence '{name}', there are {count}"));
        }
    }
    Ok(())
}

/// What the planners say is held of each pool is what jobs hold that have nodes. What a job inside
/// of a reservation has from that is counted there.
fn pools_hold_what_jobs_hold(it: &Rooms) -> Result<(), String> {
    let mut held: BTreeMap<PoolId, u64> = BTreeMap::new();
    for job in it.jobs.all() {
        let Some(run) = job.run() else { continue };
        let holds = it.planning.pools().holds_of(job.spec());
        for (pool, amount) in holds.on(&run.planned_shares()) {
            *held.entry(pool).or_default() += amount;
        }
    }
    let cluster = it.planning.cluster();
    let told: BTreeMap<_, _> = cluster.holders_elsewhere().collect();
    for (of, pool) in it.planning.pools().iter() {
        let known = cluster.pool_use(Time::EPOCH, pool);
        let mut known = known.map_or(0, |pool| pool.held);
        for job in it.planning.all_inside().keys() {
            let inside = planner_for(&it.planning, &it.reservations, *job);
            let own = |holder: &Holder| -> u64 {
                let held = holder.held().filter(|(other, _)| *other == pool);
                held.map(|(_, amount)| amount).sum()
            };
            let all = inside.holder(*job).as_ref().map_or(0, own);
            let told = told.get(job).copied().map_or(0, own);
            known += all.saturating_sub(told);
        }
        let jobs = held.get(&pool).copied().unwrap_or(0);
        if known != jobs {
            return Err(format!("planners say that {known} of {of:?} are held, jobs hold {jobs}"));
        }
    }
    Ok(())
}

/// What planners keep of each pool for a reservation is what it has asked for, and jobs inside have of
/// that no more than there is of it.
fn pools_are_kept_for_reservations(it: &Rooms) -> Result<(), String> {
    let cluster = it.planning.cluster();
    for reservation in it.reservations.live() {
        let id = reservation.row().id;
        let asked = reservation.holds(it.planning.pools());
        let kept = cluster.amounts_kept(id);
        let named = reservation.row().ask.licenses.iter().count();
        if kept != asked || asked.len() != named {
            return Err(format!("planners keep {kept:?} for reservation {id}, not {asked:?}"));
        }
    }
    for (name, _) in it.config.licenses.iter() {
        let (kept, drawn) = license_kept(&it.planning, &it.reservations, name, None);
        if drawn > kept {
            return Err(format!("jobs have {drawn} of the {kept} '{name}' that reservations keep"));
        }
    }
    Ok(())
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
