//! Tasks that outlive their slots, or come late into them: slots grow while nothing is in
//! the way.
//!
//! ```text
//!   |---- slot ----------------|--- more ---|
//!   |== the task runs ========>|
//!                         ^ looked at here: before its node would end it
//! ```

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::jobs::job::Job;
use crate::jobs::save::save_job;
use crate::planning::Planning;
use crate::record::OfFlow;
use crate::reservations::Reservations;
use crate::reservations::ask::procedures::{reservation_policy, tariff};
use crate::reservations::inside::clearance::{holds_until, last_call};
use crate::reservations::inside::procedures::{keep_open, planner_of};
use crate::reservations::moves::ask_for_move;
use crate::reservations::procedures::touch_reservation;
use crate::rooms::Rooms;
use crate::turn::Turn;
use crate::workflows::Workflows;
use crate::workflows::replan::procedures::grow_over_own;
use cosy_model::node::NodeOrder;
use cosy_model::workflow::{FlowState, FlowTaskState, Overrun};
use cosy_model::{EventKind, EventObject, JobId, ReservationId, Span, Su, Time};

/// It is not worth growing by less.
const LEAST: Span = Span::from_secs(1);
/// Nodes hear of a longer limit so long before the old one is over, and not longer.
const LEADS: (Span, Span) = (Span::from_secs(3), Span::from_secs(30));
/// A slot grows by a part of the estimate, at least so much.
const STEP: Span = Span::from_secs(30);
const PART: i64 = 8;

/// Looks at all slots that have begun.
pub(crate) fn check_overruns(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    let active = rooms.reservations.active();
    let slots: Vec<(ReservationId, OfFlow)> = active
        .filter_map(|id| Some((id, rooms.reservations.get(id)?.row().flow?)))
        .collect();
    for (id, of) in slots {
        if let Some(by) =
            lacks(&rooms.config, &rooms.jobs, &rooms.reservations, &rooms.workflows, now, id, of)
            && !grow_slot(rooms, turn, id, of, by)
        {
            replan_instead(rooms, turn, id, of, by);
        }
    }
}

/// By how much a slot ought to grow now.
fn lacks(
    config: &ClusterConfig,
    jobs: &Jobs,
    reservations: &Reservations,
    workflows: &Workflows,
    now: Time,
    id: ReservationId,
    of: OfFlow,
) -> Option<Span> {
    let flow = workflows.get(of.flow)?;
    let task = workflows.task(of)?;
    let open = flow.row.state == FlowState::Running && task.state == FlowTaskState::Waiting;
    if flow.spec.overrun == Overrun::Kill || !open || task.replan {
        return None;
    }
    let rest = last_call(config, reservations.get(id)?).since(now);
    let estimate = task.estimate;
    let job = jobs.get(&task.job)?;
    let Some(run) = job.run() else {
        // It waits in its slot for a parent that is late.
        let lacks = estimate.ms() - rest.ms();
        return (lacks > 0).then(|| Span(lacks).max(LEAST));
    };
    let lead = Span(estimate.ms() / 20).max(LEADS.0).min(LEADS.1);
    let late = !run.is_over() && run.suspended().is_none() && rest < lead;
    late.then(|| Span(estimate.ms() / PART).max(STEP))
}

/// Makes a slot longer by as much of `by` as is free and can be paid; true when that is
/// anything.
pub(crate) fn grow_slot(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: ReservationId,
    of: OfFlow,
    by: Span,
) -> bool {
    let now = turn.now();
    let Some(by) = free_behind(&rooms.planning, &rooms.reservations, now, id, by) else {
        rooms
            .workflows
            .cannot_grow(of, "what it holds is taken from the end of its slot on");
        return false;
    };
    match pay_growth(rooms, turn, id, by) {
        Ok(()) => grown(rooms, turn, id, of, by),
        Err(refusal) => rooms.workflows.cannot_grow(of, &refusal.message),
    }
    true
}

/// Other slots of the workflow make room, if that is what its owner wants.
fn replan_instead(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId, of: OfFlow, by: Span) {
    let flow = rooms.workflows.get(of.flow);
    if flow.is_none_or(|flow| flow.spec.overrun != Overrun::Replan) {
        return;
    }
    let job = rooms.workflows.task(of).map(|task| task.job);
    let waits = job
        .and_then(|job| rooms.jobs.get(&job))
        .is_some_and(Job::is_waiting);
    if !waits {
        return grow_over_own(rooms, turn, id, of, by);
    }
    if let Some(task) = rooms.workflows.task_mut(of) {
        task.replan = true;
    }
    rooms.workflows.doubtful.insert(of.flow);
}

fn free_behind(
    planning: &Planning,
    reservations: &Reservations,
    now: Time,
    id: ReservationId,
    by: Span,
) -> Option<Span> {
    let reservation = reservations.get(id)?;
    let (end, shares) = (reservation.row().end, &reservation.shares());
    let halves = std::iter::successors(Some(by), |span| Some(Span(span.ms() / 2)));
    let mut worth = halves.take_while(|span| *span >= LEAST);
    let holds = reservation.holds(planning.pools());
    worth.find(|span| {
        planning
            .cluster()
            .are_all_free(now, (shares, &holds), end, *span)
    })
}

fn pay_growth(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: ReservationId,
    by: Span,
) -> Result<(), cosy_model::Refusal> {
    let Some(reservation) = rooms.reservations.get(id) else {
        return Ok(());
    };
    let pools = rooms.planning.pools();
    let policy = reservation_policy(&rooms.config, &reservation.row().queue);
    let tariff = tariff(&rooms.queues, pools, policy);
    let base = tariff.base(reservation.shares(), &reservation.holds(pools), by);
    let who = reservation.row().user.clone();
    rooms
        .reservations
        .pay_extension(turn, id, (base, Su::ZERO), &who)
}

fn grown(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId, of: OfFlow, by: Span) {
    let now = turn.now();
    let Some(reservation) = rooms.reservations.get_mut(id) else {
        return;
    };
    reservation.grows(by);
    let (block, price) = (reservation.block(rooms.planning.pools()), reservation.row().base);
    let price = price.plus(reservation.row().extra);
    rooms.planning.cluster_mut().add_block(block);
    keep_open(&rooms.config, &mut rooms.reservations, id);
    touch_reservation(&rooms.config, &mut rooms.reservations, id);
    rooms.workflows.doubtful.insert(of.flow);
    let mut job = None;
    if let Some(task) = rooms.workflows.task_mut(of) {
        let sum = task
            .slot
            .map_or(by, |slot| Span(slot.1.since(slot.0).ms() + by.ms()));
        task.note = format!("its slot was made longer by {by}: it is {sum} now");
        task.price = price;
        job = Some(task.job);
    }
    let detail = format!("by {by}: its task needs longer");
    let object = EventObject::Reservation(id);
    turn.happened(now, EventKind::Extended, "controller", object, detail);
    if let Some(job) = job {
        limit_to_slot(rooms, turn, id, job);
    }
}

/// A job that runs in a slot may go on until that is over.
fn limit_to_slot(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId, job: JobId) {
    let Some(call) = rooms
        .reservations
        .get(id)
        .map(|r| last_call(&rooms.config, r))
    else {
        return;
    };
    let Some(known) = rooms.jobs.get_mut(&job) else {
        return;
    };
    let key = known.key();
    let Some(run) = known.run_mut() else { return };
    let begun = run.started().unwrap_or(run.allocated()) + run.suspended_for();
    let limit = call.since(begun).max(run.limit());
    run.limit_to(limit);
    let nodes = run.shares();
    let run = rooms.jobs.get(&job).and_then(Job::run);
    let end = run.map_or(call, |run| holds_until(&rooms.config, &rooms.planning, job, run));
    planner_of(&mut rooms.planning, &mut rooms.reservations, job).set_expected_end(job, end);
    save_job(&rooms.machine, &mut rooms.jobs, turn, job);
    for share in nodes {
        rooms
            .machine
            .order(turn, share.node, |node| NodeOrder::Limit { key, node, limit });
    }
}

impl Workflows {
    fn cannot_grow(&mut self, of: OfFlow, why: &str) {
        let note = format!("its slot cannot be made longer: {why}");
        if self.task(of).is_some_and(|task| task.note != note)
            && let Some(task) = self.task_mut(of)
        {
            task.note = note;
        }
    }
}

/// Tasks that may begin before their slots, because their parents are done, are looked
/// at for an earlier place.
pub(crate) fn start_early(rooms: &mut Rooms, turn: &mut Turn, done: OfFlow) {
    let Some(flow) = rooms.workflows.get(done.flow).filter(|f| f.spec.early) else {
        return;
    };
    let children = flow.graph.children[done.task as usize].clone();
    for task in children {
        let of = OfFlow { task, ..done };
        let slot = rooms.workflows.task(of).and_then(|task| task.reservation);
        if let Some(slot) = slot.filter(|_| rooms.workflows.may_begin(of)) {
            ask_for_move(rooms, turn, slot);
        }
    }
}

impl Workflows {
    /// True when nothing but its slot keeps a task from starting.
    pub(crate) fn may_begin(&self, of: OfFlow) -> bool {
        let Some(flow) = self.get(of.flow) else {
            return false;
        };
        let parents = flow.graph.parents.get(of.task as usize);
        let done = |parent: &u32| flow.tasks[*parent as usize].state == FlowTaskState::Done;
        flow.row.state == FlowState::Running && parents.is_some_and(|all| all.iter().all(done))
    }
}

/// Whether what is left of its slot is enough for another attempt of a job.
pub(crate) fn fits_again(
    config: &ClusterConfig,
    reservations: &Reservations,
    now: Time,
    job: &Job,
    estimate: Span,
) -> bool {
    let slot = job.spec().reservation;
    match slot.and_then(|id| reservations.get(id)) {
        Some(slot) => last_call(config, slot).since(now) >= estimate,
        None => true,
    }
}
