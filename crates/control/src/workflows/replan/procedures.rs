//! What has not started of a workflow is planned again and moved.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::planning::Planning;
use crate::record::OfFlow;
use crate::reservations::ask::procedures::{demand_in, reservation_policy, tariff};
use crate::reservations::{Reservation, Reservations};
use crate::rooms::Rooms;
use crate::turn::Turn;
use crate::workflows::Workflows;
use crate::workflows::plan::FlowPending;
use crate::workflows::plan::procedures::{grown_block, have_planned};
use crate::workflows::replan::{AGAIN, Replan};
use crate::workflows::resolve::procedures::{live_flow, set_names};
use crate::workflows::resolve::{ResolvedFlow, TaskPlace};
use cosy_model::workflow::{FlowDeadline, FlowState, FlowTaskState, Overrun};
use cosy_model::{AccessLevel, EventKind, FlowId, Refusal, ReservationId, Span, Su, Time};
use cosy_sched::Block;
use cosy_sched::workflow::live::{LiveFlow, LiveSlot, StartedSlot};
use std::sync::Arc;

/// Asks for new plans where slots no longer fit.
pub(crate) fn replan_due(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    for id in rooms.workflows.doubtful.clone() {
        let pauses = rooms
            .workflows
            .pauses
            .get(&id)
            .is_some_and(|until| *until > now);
        if pauses || rooms.workflows.plans.replans(id) {
            continue;
        }
        if !must_replan(&rooms.jobs, &rooms.workflows, id) {
            rooms.workflows.doubtful.remove(&id);
            rooms.workflows.pauses.remove(&id);
        } else {
            rooms.workflows.pauses.insert(id, now + AGAIN);
            ask_replan(rooms, turn, id, None, None);
        }
    }
}

/// True when a slot is of no use any more, or begins before what its task waits for.
fn must_replan(jobs: &Jobs, workflows: &Workflows, id: FlowId) -> bool {
    let Some(flow) = workflows.get(id) else {
        return false;
    };
    if flow.row.state != FlowState::Running || flow.row.deadline.is_none() {
        return false;
    }
    let end = |parent: &u32| {
        let task = &flow.tasks[*parent as usize];
        task.end.or(task.slot.map(|slot| slot.1))
    };
    let late = |task: u32| {
        let ready = flow.graph.parents[task as usize]
            .iter()
            .filter_map(end)
            .max();
        let start = flow.tasks[task as usize].slot.map(|slot| slot.0);
        flow.spec.overrun == Overrun::Replan && start < ready
    };
    let open = flow
        .tasks
        .iter()
        .filter(|task| is_unstarted(jobs, workflows, task.of));
    open.into_iter()
        .any(|task| task.replan || late(task.of.task))
}

fn is_unstarted(jobs: &Jobs, workflows: &Workflows, of: OfFlow) -> bool {
    let Some(task) = workflows.task(of) else {
        return false;
    };
    let job = jobs.get(&task.job);
    task.state == FlowTaskState::Waiting && job.is_some_and(|job| job.is_waiting())
}

/// A running task's slot is to grow over slots of its own workflow, which move.
pub(crate) fn grow_over_own(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: ReservationId,
    of: OfFlow,
    by: Span,
) {
    let now = turn.now();
    if rooms.workflows.plans.replans(of.flow) {
        return;
    }
    let Some(slot) = rooms.reservations.get(id) else {
        return;
    };
    let (end, shares) = (slot.row().end, slot.shares());
    let holds = slot.holds(rooms.planning.pools());
    let own = movable_blocks(
        &rooms.jobs,
        &rooms.planning,
        &rooms.reservations,
        &rooms.workflows,
        of.flow,
    );
    for block in &own {
        rooms.planning.cluster_mut().remove_block(block.reservation);
    }
    let cluster = rooms.planning.cluster();
    let free = cluster.are_all_free(now, (shares, &holds), end, by);
    own.into_iter()
        .for_each(|block| rooms.planning.cluster_mut().add_block(block));
    if free {
        ask_replan(rooms, turn, of.flow, Some((of, by)), None);
    }
}

fn movable_blocks(
    jobs: &Jobs,
    planning: &Planning,
    reservations: &Reservations,
    workflows: &Workflows,
    id: FlowId,
) -> Vec<Block> {
    let moved = movable(jobs, workflows, id).into_iter();
    let live = moved.filter_map(|(_, id)| reservations.get(id));
    live.filter(|r| r.is_live())
        .map(|r| r.block(planning.pools()))
        .collect()
}

pub(crate) fn movable(jobs: &Jobs, workflows: &Workflows, id: FlowId) -> Vec<(u32, ReservationId)> {
    let tasks = workflows.get(id).map(|flow| &flow.tasks);
    let tasks = tasks.into_iter().flatten();
    let open = tasks.filter(|task| is_unstarted(jobs, workflows, task.of));
    open.filter_map(|task| Some((task.of.task, task.reservation?)))
        .collect()
}

/// `by`: another deadline than the workflow's own, which cannot be kept.
pub(crate) fn ask_replan(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: FlowId,
    grows: Option<(OfFlow, Span)>,
    by: Option<Time>,
) {
    let now = turn.now();
    let asked = replan_wish(rooms, id).and_then(|wish| {
        let moved = movable(&rooms.jobs, &rooms.workflows, id);
        let flow = rest_of_flow(rooms, now, &wish, id, &moved, grows, by)?;
        Ok((wish, moved, flow))
    });
    let done = asked.and_then(|(wish, moved, flow)| {
        let replan = Replan {
            flow: id,
            wish,
            moved,
            grows,
        };
        have_planned(
            &rooms.jobs,
            &rooms.planning,
            &rooms.reservations,
            &mut rooms.workflows,
            turn,
            FlowPending::Replan(Box::new(replan)),
            flow,
        )
    });
    if let Err(refusal) = done {
        rooms
            .workflows
            .cannot_replan(&rooms.config, turn, id, &refusal);
    }
}

fn replan_wish(rooms: &Rooms, id: FlowId) -> Result<ResolvedFlow, Refusal> {
    let flow = rooms
        .workflows
        .get(id)
        .ok_or_else(|| crate::workflows::no_flow(id))?;
    let place = |task: &cosy_model::workflow::FlowTask| {
        let queue = rooms
            .queues
            .find_queue(&rooms.config, task.spec.queue.as_deref())?;
        Ok(TaskPlace {
            queue,
            level: AccessLevel::Allow,
            demand: Arc::new(demand_in(
                &rooms.config,
                &rooms.machine,
                &rooms.queues,
                &rooms.planning,
                &task.spec.request,
                queue,
            )?),
        })
    };
    let places: Result<Vec<TaskPlace>, Refusal> = flow.spec.tasks.iter().map(place).collect();
    Ok(ResolvedFlow {
        spec: flow.spec.clone(),
        places: places?,
        set_names: set_names(&rooms.config, &flow.spec)?,
        account: flow.row.account.clone(),
        user: flow.row.user.clone(),
    })
}

/// What is to be planned: what has begun keeps its place.
fn rest_of_flow(
    rooms: &Rooms,
    now: Time,
    wish: &ResolvedFlow,
    id: FlowId,
    moved: &[(u32, ReservationId)],
    grows: Option<(OfFlow, Span)>,
    by: Option<Time>,
) -> Result<LiveFlow, Refusal> {
    let mut live = live_flow(rooms, now, wish)?;
    let Some(flow) = rooms.workflows.get(id) else {
        return Err(crate::workflows::no_flow(id));
    };
    for task in &flow.tasks {
        if moved.iter().any(|(moved, _)| *moved == task.of.task) {
            continue;
        }
        let (start, end) = task.slot.unwrap_or((now, now));
        let more = grows.filter(|(of, _)| *of == task.of);
        let end = end + more.map_or(Span::ZERO, |(_, by)| by);
        let sets = wish.set_names.iter();
        let set = sets.into_iter().position(|name| *name == task.set);
        let start = task.start.unwrap_or(start);
        live.tasks[task.of.task as usize].fixed = Some(StartedSlot {
            start,
            end: task.end.unwrap_or(end).max(start),
            set: set.unwrap_or(wish.set_names.len().saturating_sub(1)),
        });
    }
    live.earliest = now;
    live.deadline = FlowDeadline::By(by.or(flow.row.deadline).unwrap_or(now));
    live.replaces = moved.iter().map(|(_, slot)| *slot).collect();
    Ok(live)
}

impl Workflows {
    /// It is tried again after a while; everything stays as it is until then.
    pub(crate) fn cannot_replan(
        &mut self,
        config: &ClusterConfig,
        turn: &mut Turn,
        id: FlowId,
        refusal: &Refusal,
    ) {
        let now = turn.now();
        self.pauses.insert(id, now + AGAIN);
        let note = format!("it could not be planned again: {}", refusal.message);
        let known = self.get(id);
        if known.is_some_and(|f| f.row.is_live() && f.row.note != note) {
            self.tell_flow_owner(config, turn, id, EventKind::NotReplanned, &note);
        }
    }
}

/// What the new slots cost beyond what is paid for the old ones.
pub(crate) fn price_of_move(rooms: &Rooms, slots: &[(u32, ReservationId, &LiveSlot)]) -> Su {
    let each = slots.iter().map(|(_, id, slot)| {
        let known = rooms.reservations.get(*id);
        known.map_or(Su::ZERO, |r| {
            let base = slot_base(rooms, r, slot);
            let paid = if r.is_live() { r.row().base } else { Su::ZERO };
            base.minus(paid).max(Su::ZERO)
        })
    });
    each.fold(Su::ZERO, Su::plus)
}

/// The price of a reservation in that slot, by the tariff.
pub(crate) fn slot_base(rooms: &Rooms, reservation: &Reservation, slot: &LiveSlot) -> Su {
    let pools = rooms.planning.pools();
    let policy = reservation_policy(&rooms.config, &reservation.row().queue);
    let tariff = tariff(&rooms.queues, pools, policy);
    let length = slot.end.since(slot.start);
    tariff.base(&slot.shares, &reservation.holds(pools), length)
}

/// Whether all new slots are free once the old ones are gone. If not, nothing has
/// changed; if so, the old blocks are gone.
pub(crate) fn fit_instead(
    jobs: &Jobs,
    planning: &mut Planning,
    reservations: &Reservations,
    workflows: &Workflows,
    now: Time,
    replan: &Replan,
    slots: &[(u32, ReservationId, &LiveSlot)],
) -> bool {
    let old = movable_blocks(jobs, planning, reservations, workflows, replan.flow);
    let grown = grown_block(planning, reservations, workflows, replan);
    let before = grown
        .as_ref()
        .and_then(|block| reservations.get(block.reservation));
    let before = before.map(|r| r.block(planning.pools()));
    for block in &old {
        planning.cluster_mut().remove_block(block.reservation);
    }
    let mut fits = before
        .as_ref()
        .zip(grown.as_ref())
        .is_none_or(|(old, new)| {
            let by = new.end.since(old.end);
            let wanted = (&new.shares[..], &new.holds[..]);
            planning.cluster().are_all_free(now, wanted, old.end, by)
        });
    if let Some(block) = grown {
        planning.cluster_mut().add_block(block);
    }
    for (_, id, slot) in slots {
        let start = slot.start.max(now);
        let length = slot.end.since(start);
        let known = reservations.get(*id);
        let holds = known.map_or(Vec::new(), |r| r.holds(planning.pools()));
        let wanted = (&slot.shares[..], &holds[..]);
        fits = fits && planning.cluster().are_all_free(now, wanted, start, length);
        planning.cluster_mut().add_block(Block {
            reservation: *id,
            shares: slot.shares.clone(),
            start,
            end: slot.end,
            holds,
        });
    }
    // As it was: what is moved gets its block with its row.
    for (_, id, _) in slots {
        planning.cluster_mut().remove_block(*id);
    }
    before
        .into_iter()
        .for_each(|block| planning.cluster_mut().add_block(block));
    if !fits {
        old.into_iter()
            .for_each(|block| planning.cluster_mut().add_block(block));
    }
    fits
}

impl Workflows {
    pub(crate) fn tell_moved(
        &mut self,
        config: &ClusterConfig,
        turn: &mut Turn,
        id: FlowId,
        slots: usize,
        end: Time,
    ) {
        let Some(flow) = self.get(id) else {
            return;
        };
        let due = flow.row.deadline.unwrap_or(end);
        let last = flow
            .tasks
            .iter()
            .filter_map(|task| Some(task.slot?.1))
            .max();
        let late = last.unwrap_or(end).since(due);
        let what = match late > Span::ZERO {
            true => format!("it is going to be late by {late}"),
            false => "the deadline is kept".to_owned(),
        };
        let note = format!("{slots} slots were planned again: {what}");
        self.tell_flow_owner(config, turn, id, EventKind::Replanned, &note);
    }
}
