//! Jobs that take between a least and a most number of nodes (`-N 2-4`).
//!
//! The planner knows such a job by the least. When it starts, the planner is asked where more
//! nodes would be if they were a job of their own behind everybody else: so they are nodes that
//! no waiting job could start on now and that no guaranteed place needs. What is found becomes
//! part of the job before anything else happens.
//!
//! Always holds: the nodes by which the job was started stay, whatever comes to them.
//! Source: sbatch(1), `--nodes`.

use crate::jobs::dependencies::procedures::planner_job;
use crate::jobs::job::Job;
use crate::planning::Planning;
use crate::queues::order;
use crate::reservations::Reservations;
use crate::reservations::inside::procedures::{planner_for, planner_of, starts_beside};
use crate::rooms::Rooms;
use cosy_model::device::ANY_GPU;
use cosy_model::{Amounts, JobId, NodeId, NodeShare, Span, Time};
use cosy_sched::{Component, Demand, NodeMask, WaitingJob};
use std::sync::Arc;

/// Gives a job that the planner has just started as many nodes as it may have. Gives back
/// which other jobs were started on the way.
pub(crate) fn widen(rooms: &mut Rooms, now: Time, id: JobId) -> Vec<JobId> {
    let mut others = Vec::new();
    let Some((job, most)) = further(rooms, id) else {
        return others;
    };
    let mut left = at_most(&rooms.planning, &rooms.reservations, id, job.demand.first(), most);
    let mut step = left;
    while step > 0 {
        if add_nodes(&mut rooms.planning, &mut rooms.reservations, now, id, &job, step, &mut others)
        {
            left -= step;
        } else {
            left = step - 1;
        }
        step = left.div_ceil(2);
    }
    others
}

/// The job as it waited, and how many nodes more it may have.
fn further(rooms: &Rooms, id: JobId) -> Option<(WaitingJob, u32)> {
    let job = of_one_component(rooms, id)?;
    let request = &job.spec().request;
    let most = request.max_nodes.filter(|_| request.tasks.is_none())?;
    let waiting = as_it_waited(rooms, job)?;
    let demand = waiting.demand.first();
    // Whether more nodes are as near as it asks for is not looked at.
    let near = request.switches.is_some() || demand.segment.is_some() || request.contiguous;
    let least = demand.nodes.filter(|_| !near)?;
    let most = demand.max_nodes.map_or(most, |n| n.min(most));
    let more = most.checked_sub(least).filter(|more| *more > 0)?;
    Some((waiting, more))
}

/// The job, if it has one component only.
fn of_one_component(rooms: &Rooms, id: JobId) -> Option<&Job> {
    let job = rooms.jobs.get(&id);
    job.filter(|job| !job.spec().has_several_components())
}

fn as_it_waited(rooms: &Rooms, job: &Job) -> Option<WaitingJob> {
    planner_job(rooms, job)
}

/// How many of them there can be at all.
fn at_most(
    planning: &Planning,
    reservations: &Reservations,
    id: JobId,
    demand: &Component,
    most: u32,
) -> u32 {
    let planner = planner_for(planning, reservations, id);
    let held = planner.held_by(id);
    let mut need: Amounts = demand.per_node.clone();
    need.give(&demand.per_task);
    let fits = |node: NodeId| {
        planner.is_available(node)
            && need.fits(&planner.free(node))
            && !held.iter().any(|share| share.node == node)
    };
    let free = demand.allowed.iter().filter(|n| fits(*n));
    free.take(most as usize).count() as u32
}

/// True when the job has so many nodes more than before.
fn add_nodes(
    planning: &mut Planning,
    reservations: &mut Reservations,
    now: Time,
    id: JobId,
    job: &WaitingJob,
    nodes: u32,
    others: &mut Vec<JobId>,
) -> bool {
    others.extend(starts_beside(planning, reservations, now, id));
    let planner = planner_of(planning, reservations, id);
    let held = planner.held_by(id);
    let Some(found) = planner.try_place(now, &further_nodes(id, job, &held, nodes)) else {
        return false;
    };
    let mut shares = held;
    shares.extend(found);
    shares.sort_by_key(|share| share.node);
    planner.end(id);
    let end = now + job.limit.max(Span(1));
    planner.start_running_holding(id, shares, end, job.demand.first().exclusive, &job.holds);
    true
}

/// A job that has just started gives back GPUs beyond what it asked for in all: those of its
/// last nodes, where one at least is left. It was planned with as many on each node. True when
/// there are such GPUs, which others may have.
pub(crate) fn leave_spare_gpus(rooms: &mut Rooms, now: Time, id: JobId) -> bool {
    let Some((waiting, all)) = gpus_in_all(rooms, id) else {
        return false;
    };
    let planner = planner_of(&mut rooms.planning, &mut rooms.reservations, id);
    let mut shares = planner.held_by(id);
    let held = shares
        .iter()
        .map(|s| u64::from(s.amounts.gpus))
        .sum::<u64>();
    let mut spare = u32::try_from(held.saturating_sub(all.into())).unwrap_or(u32::MAX);
    if spare == 0 {
        return false;
    }
    for share in shares.iter_mut().rev() {
        let given = spare.min(share.amounts.gpus.saturating_sub(1));
        share.amounts.gpus -= given;
        if share.amounts.other.get(ANY_GPU) > 0 {
            share.amounts.other.set(ANY_GPU, share.amounts.gpus);
        }
        spare -= given;
    }
    planner.end(id);
    let end = now + waiting.limit.max(Span(1));
    planner.start_running_holding(
        id,
        shares,
        end,
        waiting.demand.first().exclusive,
        &waiting.holds,
    );
    true
}

/// The job as it waited, and its GPUs in all where these are told.
fn gpus_in_all(rooms: &Rooms, id: JobId) -> Option<(WaitingJob, u32)> {
    let job = of_one_component(rooms, id)?;
    let all = job.spec().request.gpus_in_all?;
    let waiting = as_it_waited(rooms, job)?;
    (!waiting.demand.first().exclusive).then_some((waiting, all))
}

/// Further nodes as a job of their own, behind everybody else.
fn further_nodes(id: JobId, job: &WaitingJob, held: &[NodeShare], nodes: u32) -> WaitingJob {
    let demand = job.demand.first();
    let each = demand.tasks / demand.nodes.unwrap_or(1).max(1);
    let mut allowed = NodeMask::clone(&demand.allowed);
    for share in held {
        allowed.remove(share.node);
    }
    WaitingJob {
        key: order::behind_all(id),
        demand: Arc::new(Demand::from(Component {
            nodes: Some(nodes),
            tasks: nodes.saturating_mul(each.max(1)),
            required: demand.required.and(&allowed),
            counted: Vec::new(),
            allowed: allowed.into(),
            ..demand.clone()
        })),
        holds: job.holds.of_nodes(), // the others it has
        ..job.clone()
    }
}
