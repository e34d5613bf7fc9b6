//! What has not started of a workflow is planned again and moved.

use crate::controller::Controller;
use crate::record::OfFlow;
use crate::workflows::plan::{FlowPending, Planned, flow_refusal};
use crate::workflows::price;
use crate::workflows::replan::{AGAIN, Replan};
use crate::workflows::resolve::{ResolvedFlow, TaskPlace};
use cosy_model::reservation::ReservationState;
use cosy_model::workflow::{FlowDeadline, FlowState, FlowTaskState, Overrun};
use cosy_model::{AccessLevel, FlowId, Refusal, RefusalCode, ReservationId, Span, Su, Time};
use cosy_sched::Block;
use cosy_sched::workflow::live::{Fixed, LiveError, LiveFlow, LivePlan, LiveSlot};
use std::sync::Arc;

impl Controller {
    /// Asks for new plans where slots no longer fit.
    pub(crate) fn replan_due(&mut self, now: Time) {
        for id in self.workflows.doubtful.clone() {
            let pauses = self
                .workflows
                .pauses
                .get(&id)
                .is_some_and(|until| *until > now);
            if pauses || self.workflows.plans.replans(id) {
                continue;
            }
            if !self.must_replan(id) {
                self.workflows.doubtful.remove(&id);
                self.workflows.pauses.remove(&id);
            } else {
                self.workflows.pauses.insert(id, now + AGAIN);
                self.ask_replan(now, id, None, None);
            }
        }
    }

    /// True when a slot is of no use any more, or begins before what its task waits for.
    fn must_replan(&self, id: FlowId) -> bool {
        let Some(flow) = self.workflows.get(id) else {
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
        let open = flow.tasks.iter().filter(|task| self.is_unstarted(task.of));
        open.into_iter()
            .any(|task| task.replan || late(task.of.task))
    }

    fn is_unstarted(&self, of: OfFlow) -> bool {
        let Some(task) = self.workflows.task(of) else {
            return false;
        };
        let job = self.jobs.get(&task.job);
        task.state == FlowTaskState::Waiting && job.is_some_and(|job| job.is_waiting())
    }

    /// A running task's slot is to grow over slots of its own workflow, which move.
    pub(crate) fn grow_over_own(&mut self, now: Time, id: ReservationId, of: OfFlow, by: Span) {
        if self.workflows.plans.replans(of.flow) {
            return;
        }
        let Some(slot) = self.reservations.get(id) else {
            return;
        };
        let (end, shares) = (slot.row.end, slot.shares.clone());
        let own = self.movable_blocks(of.flow);
        for block in &own {
            self.planning.cluster_mut().remove_block(block.reservation);
        }
        let free = self.planning.cluster().are_free(now, &shares, end, by);
        own.into_iter()
            .for_each(|block| self.planning.cluster_mut().add_block(block));
        if free {
            self.ask_replan(now, of.flow, Some((of, by)), None);
        }
    }

    fn movable_blocks(&self, id: FlowId) -> Vec<Block> {
        let moved = self.movable(id).into_iter();
        let live = moved.filter_map(|(_, id)| self.reservations.get(id));
        live.filter(|r| r.is_live()).map(|r| r.block()).collect()
    }

    fn movable(&self, id: FlowId) -> Vec<(u32, ReservationId)> {
        let tasks = self.workflows.get(id).map(|flow| &flow.tasks);
        let tasks = tasks.into_iter().flatten();
        let open = tasks.filter(|task| self.is_unstarted(task.of));
        open.filter_map(|task| Some((task.of.task, task.reservation?)))
            .collect()
    }

    /// `by`: another deadline than the workflow's own, which cannot be kept.
    fn ask_replan(
        &mut self,
        now: Time,
        id: FlowId,
        grows: Option<(OfFlow, Span)>,
        by: Option<Time>,
    ) {
        let asked = self.replan_wish(id).and_then(|wish| {
            let moved = self.movable(id);
            let flow = self.rest_of_flow(now, &wish, id, &moved, grows, by)?;
            Ok((wish, moved, flow))
        });
        let done = asked.and_then(|(wish, moved, flow)| {
            let replan = Replan {
                flow: id,
                wish,
                moved,
                grows,
            };
            self.have_planned(now, FlowPending::Replan(Box::new(replan)), flow)
        });
        if let Err(refusal) = done {
            self.cannot_replan(now, id, &refusal);
        }
    }

    fn replan_wish(&self, id: FlowId) -> Result<ResolvedFlow, Refusal> {
        let flow = self
            .workflows
            .get(id)
            .ok_or_else(|| crate::workflows::no_flow(id))?;
        let place = |task: &cosy_model::workflow::FlowTask| {
            let queue = self.find_queue(task.spec.queue.as_deref())?;
            Ok(TaskPlace {
                queue,
                level: AccessLevel::Allow,
                demand: Arc::new(self.demand_in(&task.spec.request, queue)?),
            })
        };
        let places: Result<Vec<TaskPlace>, Refusal> = flow.spec.tasks.iter().map(place).collect();
        Ok(ResolvedFlow {
            spec: flow.spec.clone(),
            places: places?,
            set_names: self.set_names(&flow.spec)?,
            account: flow.row.account.clone(),
        })
    }

    /// What is to be planned: what has begun keeps its place.
    fn rest_of_flow(
        &self,
        now: Time,
        wish: &ResolvedFlow,
        id: FlowId,
        moved: &[(u32, ReservationId)],
        grows: Option<(OfFlow, Span)>,
        by: Option<Time>,
    ) -> Result<LiveFlow, Refusal> {
        let mut live = self.live_flow(now, wish)?;
        let Some(flow) = self.workflows.get(id) else {
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
            live.tasks[task.of.task as usize].fixed = Some(Fixed {
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

    /// The block of a slot that grows, as it is going to be.
    pub(crate) fn grown_block(&self, replan: &Replan) -> Option<Block> {
        let (of, by) = replan.grows?;
        let slot = self.workflows.task(of)?.reservation?;
        let mut block = self.reservations.get(slot)?.block();
        block.end = block.end + by;
        Some(block)
    }

    pub(crate) fn replanned(&mut self, now: Time, replan: Replan, result: Planned) {
        let id = replan.flow;
        match result {
            Ok(plan) => match self.move_slots(now, &replan, plan) {
                Ok(()) => drop(self.workflows.pauses.remove(&id)),
                Err(refusal) => self.cannot_replan(now, id, &refusal),
            },
            // Late is better than not at all.
            Err(LiveError::TooEarly { shortest_end, .. }) => {
                self.ask_replan(now, id, replan.grows, Some(shortest_end));
            }
            Err(error) => {
                let refusal = flow_refusal(&replan.wish.spec, &error);
                self.cannot_replan(now, id, &refusal);
            }
        }
    }

    /// It is tried again after a while; everything stays as it is until then.
    fn cannot_replan(&mut self, now: Time, id: FlowId, refusal: &Refusal) {
        self.workflows.pauses.insert(id, now + AGAIN);
        let note = format!("it could not be planned again: {}", refusal.message);
        let known = self.workflows.get(id);
        if known.is_some_and(|f| f.row.is_live() && f.row.note != note) {
            self.tell_flow_owner(now, id, "not_replanned", &note);
        }
    }

    fn move_slots(&mut self, now: Time, replan: &Replan, plan: LivePlan) -> Result<(), Refusal> {
        let changed = || {
            Refusal::new(
                RefusalCode::NotFree,
                "the state has changed while it was planned",
            )
        };
        if self.movable(replan.flow) != replan.moved {
            return Err(changed());
        }
        let slots: Vec<(u32, ReservationId, &LiveSlot)> = replan
            .moved
            .iter()
            .map(|(task, id)| (*task, *id, &plan.slots[*task as usize]))
            .collect();
        let more = self.price_of_move(&slots);
        let account = self
            .workflows
            .get(replan.flow)
            .and_then(|f| f.row.account.clone());
        let left = account.and_then(|name| self.reservations.books().left(&name));
        if let Some(left) = left.filter(|left| *left < more) {
            return Err(Refusal::new(
                RefusalCode::Price,
                format!("it would cost {more} SU more, and the account has {left} SU left"),
            ));
        }
        if !self.fit_instead(now, replan, &slots) {
            return Err(changed());
        }
        for (task, id, slot) in &slots {
            let of = OfFlow {
                flow: replan.flow,
                task: *task,
            };
            self.move_slot(now, of, *id, slot, &replan.wish.set_names);
        }
        if let Some((of, by)) = replan.grows {
            let slot = self.workflows.task(of).and_then(|task| task.reservation);
            let grown = slot.map(|id| self.grow_slot(now, id, of, by));
            debug_assert!(grown.is_some(), "a running task has its slot");
        }
        self.tell_moved(now, replan.flow, slots.len(), plan.deadline);
        Ok(())
    }

    /// What the new slots cost beyond what is paid for the old ones.
    fn price_of_move(&self, slots: &[(u32, ReservationId, &LiveSlot)]) -> Su {
        let each = slots.iter().map(|(_, id, slot)| {
            let known = self.reservations.get(*id);
            known.map_or(Su::ZERO, |r| {
                let base = self.slot_base(&r.row.queue, slot);
                let paid = if r.is_live() { r.row.base } else { Su::ZERO };
                base.minus(paid).max(Su::ZERO)
            })
        });
        each.fold(Su::ZERO, Su::plus)
    }

    fn slot_base(&self, queue: &str, slot: &LiveSlot) -> Su {
        let tariff = &self.reservation_policy(queue).tariff;
        price::base(tariff, &slot.shares, slot.end.since(slot.start))
    }

    /// Whether all new slots are free once the old ones are gone. If not, nothing has
    /// changed; if so, the old blocks are gone.
    fn fit_instead(
        &mut self,
        now: Time,
        replan: &Replan,
        slots: &[(u32, ReservationId, &LiveSlot)],
    ) -> bool {
        let old = self.movable_blocks(replan.flow);
        let grown = self.grown_block(replan);
        let before = grown
            .as_ref()
            .and_then(|block| self.reservations.get(block.reservation));
        let before = before.map(|r| r.block());
        for block in &old {
            self.planning.cluster_mut().remove_block(block.reservation);
        }
        let mut fits = before
            .as_ref()
            .zip(grown.as_ref())
            .is_none_or(|(old, new)| {
                let by = new.end.since(old.end);
                self.planning
                    .cluster()
                    .are_free(now, &new.shares, old.end, by)
            });
        if let Some(block) = grown {
            self.planning.cluster_mut().add_block(block);
        }
        for (_, id, slot) in slots {
            let start = slot.start.max(now);
            let length = slot.end.since(start);
            fits = fits
                && self
                    .planning
                    .cluster()
                    .are_free(now, &slot.shares, start, length);
            self.planning.cluster_mut().add_block(Block {
                reservation: *id,
                shares: slot.shares.clone(),
                start,
                end: slot.end,
            });
        }
        // As it was: what is moved gets its block with its row.
        for (_, id, _) in slots {
            self.planning.cluster_mut().remove_block(*id);
        }
        before
            .into_iter()
            .for_each(|block| self.planning.cluster_mut().add_block(block));
        if !fits {
            old.into_iter()
                .for_each(|block| self.planning.cluster_mut().add_block(block));
        }
        fits
    }

    fn move_slot(
        &mut self,
        now: Time,
        of: OfFlow,
        id: ReservationId,
        slot: &LiveSlot,
        sets: &[String],
    ) {
        let base = self
            .reservations
            .get(id)
            .map(|r| self.slot_base(&r.row.queue, slot));
        let base = base.unwrap_or_default();
        let live = self.reservations.get(id).is_some_and(|r| r.is_live());
        if live {
            self.reservations.drop_delays(id);
        }
        let active = self.reservations.is_active(id);
        let Some(reservation) = self.reservations.get_mut(id) else {
            return;
        };
        let row = &mut reservation.row;
        let who = row.user.clone();
        let paid = if live { row.base } else { Su::ZERO };
        row.state = ReservationState::Confirmed;
        row.closed = None;
        (row.start, row.end) = (slot.start.max(now), slot.end);
        row.ask.length = slot.end.since(row.start);
        row.delays.clear();
        if live {
            row.base = paid;
        } else {
            (row.base, row.extra) = (Su::ZERO, Su::ZERO);
        }
        reservation.shares.clone_from(&slot.shares);
        let block = reservation.block();
        if active {
            self.close_inside(now, id);
        }
        self.planning.cluster_mut().add_block(block);
        let more = base.minus(paid);
        if more > Su::ZERO {
            // It was seen before that the account can pay.
            let _ = self.pay_extension(now, id, (more, Su::ZERO), &who);
        } else {
            let back = paid.minus(base);
            if let Some(reservation) = self.reservations.get_mut(id) {
                reservation.row.base = base;
            }
            self.give_money_back(now, id, back, &who);
        }
        self.touch_reservation(id);
        self.happened(
            now,
            "moved",
            "controller",
            format!("reservation {id}"),
            "its workflow was planned again".to_owned(),
        );
        let mut job = None;
        if let Some(task) = self.workflows.task_mut(of) {
            task.replan = false;
            task.slot = Some((slot.start.max(now), slot.end));
            task.estimate = slot.estimate;
            task.set = sets.get(slot.set).cloned().unwrap_or_default();
            task.price = base;
            task.note = "planned again".to_owned();
            job = Some(task.job);
        }
        if let Some(job) = job {
            self.review(now, job);
        }
    }

    fn tell_moved(&mut self, now: Time, id: FlowId, slots: usize, end: Time) {
        let Some(flow) = self.workflows.get(id) else {
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
        self.tell_flow_owner(now, id, "replanned", &note);
    }
}
