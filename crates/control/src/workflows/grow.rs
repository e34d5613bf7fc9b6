//! Tasks that outlive their slots, or come late into them: slots grow while nothing is in
//! the way.
//!
//! ```text
//!   |---- slot ----------------|--- more ---|
//!   |== the task runs ========>|
//!                         ^ looked at here: before its node would end it
//! ```

use crate::controller::Controller;
use crate::jobs::job::Job;
use crate::record::OfFlow;
use cosy_model::node::NodeOrder;
use cosy_model::workflow::{FlowState, FlowTaskState, Overrun};
use cosy_model::{JobId, ReservationId, Span, Su, Time};

/// It is not worth growing by less.
const LEAST: Span = Span::from_secs(1);
/// Nodes hear of a longer limit so long before the old one is over, and not longer.
const LEADS: (Span, Span) = (Span::from_secs(3), Span::from_secs(30));
/// A slot grows by a part of the estimate, at least so much.
const STEP: Span = Span::from_secs(30);
const PART: i64 = 8;

impl Controller {
    /// Looks at all slots that have begun.
    pub(crate) fn check_overruns(&mut self, now: Time) {
        let active = self.reservations.active();
        let slots: Vec<(ReservationId, OfFlow)> = active
            .filter_map(|id| Some((id, self.reservations.get(id)?.row.flow?)))
            .collect();
        for (id, of) in slots {
            if let Some(by) = self.lacks(now, id, of)
                && !self.grow_slot(now, id, of, by)
            {
                self.replan_instead(now, id, of, by);
            }
        }
    }

    /// By how much a slot ought to grow now.
    fn lacks(&self, now: Time, id: ReservationId, of: OfFlow) -> Option<Span> {
        let flow = self.workflows.get(of.flow)?;
        let task = self.workflows.task(of)?;
        let open = flow.row.state == FlowState::Running && task.state == FlowTaskState::Waiting;
        if flow.spec.overrun == Overrun::Kill || !open || task.replan {
            return None;
        }
        let rest = self.last_call(self.reservations.get(id)?).since(now);
        let estimate = task.estimate;
        let job = self.jobs.get(&task.job)?;
        let Some(run) = job.run() else {
            // It waits in its slot for a parent that is late.
            let lacks = estimate.ms() - rest.ms();
            return (lacks > 0).then(|| Span(lacks).max(LEAST));
        };
        let lead = Span(estimate.ms() / 20).max(LEADS.0).min(LEADS.1);
        let late = run.after.is_none() && run.suspended.is_none() && rest < lead;
        late.then(|| Span(estimate.ms() / PART).max(STEP))
    }

    /// Makes a slot longer by as much of `by` as is free and can be paid; true when that is
    /// anything.
    pub(crate) fn grow_slot(&mut self, now: Time, id: ReservationId, of: OfFlow, by: Span) -> bool {
        let Some(by) = self.free_behind(now, id, by) else {
            self.cannot_grow(of, "its nodes are taken from the end of its slot on");
            return false;
        };
        match self.pay_growth(now, id, by) {
            Ok(()) => self.grown(now, id, of, by),
            Err(refusal) => self.cannot_grow(of, &refusal.message),
        }
        true
    }

    /// Other slots of the workflow make room, if that is what its owner wants.
    fn replan_instead(&mut self, now: Time, id: ReservationId, of: OfFlow, by: Span) {
        let flow = self.workflows.get(of.flow);
        if flow.is_none_or(|flow| flow.spec.overrun != Overrun::Replan) {
            return;
        }
        let job = self.workflows.task(of).map(|task| task.job);
        let waits = job
            .and_then(|job| self.jobs.get(&job))
            .is_some_and(Job::is_waiting);
        if !waits {
            return self.grow_over_own(now, id, of, by);
        }
        if let Some(task) = self.workflows.task_mut(of) {
            task.replan = true;
        }
        self.workflows.doubtful.insert(of.flow);
    }

    fn free_behind(&self, now: Time, id: ReservationId, by: Span) -> Option<Span> {
        let reservation = self.reservations.get(id)?;
        let (end, shares) = (reservation.row.end, &reservation.shares);
        let halves = std::iter::successors(Some(by), |span| Some(Span(span.ms() / 2)));
        let mut worth = halves.take_while(|span| *span >= LEAST);
        worth.find(|span| self.planning.cluster().are_free(now, shares, end, *span))
    }

    fn pay_growth(
        &mut self,
        now: Time,
        id: ReservationId,
        by: Span,
    ) -> Result<(), cosy_model::Refusal> {
        let Some(reservation) = self.reservations.get(id) else {
            return Ok(());
        };
        let tariff = self
            .reservation_policy(&reservation.row.queue)
            .tariff
            .clone();
        let base = crate::workflows::price::base(&tariff, &reservation.shares, by);
        let who = reservation.row.user.clone();
        self.pay_extension(now, id, (base, Su::ZERO), &who)
    }

    fn grown(&mut self, now: Time, id: ReservationId, of: OfFlow, by: Span) {
        let Some(reservation) = self.reservations.get_mut(id) else {
            return;
        };
        let before = reservation.row.end;
        reservation.row.end = before + by;
        reservation.row.ask.length = reservation.row.ask.length + by;
        let (block, price) = (reservation.block(), reservation.row.base);
        let price = price.plus(reservation.row.extra);
        self.planning.cluster_mut().add_block(block);
        self.keep_open(id);
        self.touch_reservation(id);
        self.workflows.doubtful.insert(of.flow);
        let mut job = None;
        if let Some(task) = self.workflows.task_mut(of) {
            let sum = task
                .slot
                .map_or(by, |slot| Span(slot.1.since(slot.0).ms() + by.ms()));
            task.note = format!("its slot was made longer by {by}: it is {sum} now");
            task.price = price;
            job = Some(task.job);
        }
        let detail = format!("by {by}: its task needs longer");
        let object = format!("reservation {id}");
        self.happened(now, "extended", "controller", object, detail);
        if let Some(job) = job {
            self.limit_to_slot(id, job);
        }
    }

    /// A job that runs in a slot may go on until that is over.
    fn limit_to_slot(&mut self, id: ReservationId, job: JobId) {
        let Some(call) = self.reservations.get(id).map(|r| self.last_call(r)) else {
            return;
        };
        let Some(known) = self.jobs.get_mut(&job) else {
            return;
        };
        let key = known.key();
        let Some(run) = known.run_mut() else { return };
        let begun = run.started.unwrap_or(run.allocated) + run.suspended_for;
        let limit = call.since(begun).max(run.limit);
        run.limit = limit;
        let nodes = run.shares();
        let run = self.jobs.get(&job).and_then(Job::run);
        let end = run.map_or(call, |run| self.holds_until(job, run));
        self.planner_of(job).set_expected_end(job, end);
        self.save_job(job);
        for share in nodes {
            self.order(share.node, |node| NodeOrder::Limit { key, node, limit });
        }
    }

    fn cannot_grow(&mut self, of: OfFlow, why: &str) {
        let note = format!("its slot cannot be made longer: {why}");
        if self
            .workflows
            .task(of)
            .is_some_and(|task| task.note != note)
            && let Some(task) = self.workflows.task_mut(of)
        {
            task.note = note;
        }
    }

    /// A slot is over. A task that could not start in it gets another one, or has failed.
    pub(crate) fn slot_over(&mut self, now: Time, of: OfFlow) {
        let Some(flow) = self.workflows.get(of.flow) else {
            return;
        };
        let again = flow.spec.overrun == Overrun::Replan && flow.row.state == FlowState::Running;
        let job = self.workflows.task(of).filter(|task| task.end.is_none());
        let Some(task) = job else { return };
        let (job, replan) = (task.job, task.replan);
        if replan || self.jobs.get(&job).is_none_or(|job| !job.is_waiting()) {
            return;
        }
        match self.workflows.task_mut(of) {
            Some(task) if again => {
                task.replan = true;
                task.note = "its slot was over before it could start".to_owned();
                self.workflows.doubtful.insert(of.flow);
            }
            Some(_) | None => {
                self.cancel_job(now, job, "the end of its slot: it could not start before")
            }
        }
    }

    /// Tasks that may begin before their slots, because their parents are done, are looked
    /// at for an earlier place.
    pub(crate) fn start_early(&mut self, now: Time, done: OfFlow) {
        let Some(flow) = self.workflows.get(done.flow).filter(|f| f.spec.early) else {
            return;
        };
        let children = flow.graph.children[done.task as usize].clone();
        for task in children {
            let of = OfFlow { task, ..done };
            let slot = self.workflows.task(of).and_then(|task| task.reservation);
            if let Some(slot) = slot.filter(|_| self.may_begin(of)) {
                self.ask_for_move(now, slot);
            }
        }
    }

    /// True when nothing but its slot keeps a task from starting.
    pub(crate) fn may_begin(&self, of: OfFlow) -> bool {
        let Some(flow) = self.workflows.get(of.flow) else {
            return false;
        };
        let parents = flow.graph.parents.get(of.task as usize);
        let done = |parent: &u32| flow.tasks[*parent as usize].state == FlowTaskState::Done;
        flow.row.state == FlowState::Running && parents.is_some_and(|all| all.iter().all(done))
    }

    /// Whether what is left of its slot is enough for another attempt of a job.
    pub(crate) fn fits_again(&self, now: Time, job: &Job, estimate: Span) -> bool {
        let slot = job.spec().reservation;
        match slot.and_then(|id| self.reservations.get(id)) {
            Some(slot) => self.last_call(slot).since(now) >= estimate,
            None => true,
        }
    }
}
