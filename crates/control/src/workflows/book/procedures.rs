//! The slots of a workflow are checked and taken, all or none.

use crate::controller::Controller;
use crate::event::{Caller, ClientId};
use crate::procedures::submit::Ready;
use crate::record::{FlowRow, OfFlow, ReservationRow};
use crate::reservations::{Reservation, ReservationRequest};
use crate::workflows::book::{FlowBooking, FlowSlot, HOLD_LEAST, NotTaken, TRIES, slot_row};
use crate::workflows::check::Graph;
use crate::workflows::plan::{FlowPending, Planned, flow_refusal};
use crate::workflows::resolve::{ResolvedFlow, of_task};
use crate::workflows::{Flow, price};
use cosy_model::api::Reply;
use cosy_model::reservation::{Ask, Pick, ReservationState};
use cosy_model::workflow::{FlowSpec, FlowState};
use cosy_model::{FlowId, JobId, QueueId, Refusal, RefusalCode, ReservationId, Su, Time, limits};
use cosy_sched::appraise::{Appraisal, Delays, Estimate};
use cosy_sched::workflow::live::{LivePlan, LiveSlot};
use std::collections::{BTreeMap, BTreeSet};

impl Controller {
    /// Has a workflow planned, to be held or booked.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn submit_planned(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        key: Option<[u8; 16]>,
        spec: FlowSpec,
        graph: Graph,
        hold: bool,
    ) -> Result<Option<Reply>, Refusal> {
        if let Some(key) = key
            && self.workflows.plans.rejoin(caller.user.uid, key, client)
        {
            return Ok(None);
        }
        let wish = self.flow_wish(caller, spec)?;
        self.may_have_reservations(wish.spec.tasks.len())?;
        let booking = FlowBooking {
            client,
            caller: Box::new(caller.clone()),
            key,
            wish,
            graph,
            hold,
            tries: 0,
        };
        self.plan_to_book(now, booking)?;
        Ok(None)
    }

    fn may_have_reservations(&self, more: usize) -> Result<(), Refusal> {
        let have = self.reservations.len();
        if have + more > limits::RESERVATIONS {
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!(
                    "there are {have} reservations, with those of the last day: {more} more are beyond the {} allowed",
                    limits::RESERVATIONS
                ),
            ));
        }
        Ok(())
    }

    fn plan_to_book(&mut self, now: Time, booking: FlowBooking) -> Result<(), Refusal> {
        let flow = self.live_flow(now, &booking.wish)?;
        self.have_planned(now, FlowPending::Submit(Box::new(booking)), flow)
    }

    pub(crate) fn planned_to_book(&mut self, now: Time, mut booking: FlowBooking, result: Planned) {
        let (client, uid, key) = (booking.client, booking.caller.user.uid, booking.key);
        let plan = result.map_err(|error| flow_refusal(&booking.wish.spec, &error));
        let booked = match plan {
            Ok(plan) => self.book_flow(now, &mut booking, plan),
            Err(refusal) => Err(NotTaken::Refused(refusal)),
        };
        booking.tries += 1;
        let reply = match booked {
            Ok(reply) => reply,
            Err(NotTaken::Gone) if booking.tries < TRIES => match self.plan_to_book(now, booking) {
                Ok(()) => return,
                Err(refusal) => Reply::Refused(refusal),
            },
            Err(NotTaken::Gone) => Reply::Refused(Refusal::new(
                RefusalCode::NotFree,
                "slots of the plan were taken again and again while it was made; nothing was booked: try again",
            )),
            Err(NotTaken::Refused(refusal)) => Reply::Refused(refusal),
        };
        self.answer_late(now, client, uid, key, reply);
    }

    fn book_flow(
        &mut self,
        now: Time,
        booking: &mut FlowBooking,
        plan: LivePlan,
    ) -> Result<Reply, NotTaken> {
        self.may_have_flow()?;
        self.may_have_reservations(plan.slots.len())?;
        let deadline = plan.deadline;
        let slots = self.flow_slots(now, &booking.wish, plan);
        self.admit_slots(now, booking, &slots)?;
        // Scripts stay in the booking: it may have to be planned anew.
        let mut spec = booking.wish.spec.clone();
        let ready = self.ready_slot_jobs(&booking.caller, &mut spec, &booking.graph, &slots)?;
        let id = FlowId(self.workflows.next);
        let until = self.flow_hold_until(now, &slots);
        let reservations = self.place_slots(now, booking, id, until, &slots)?;
        self.workflows.next += 1;
        let user = &booking.caller.user;
        let row = FlowRow {
            id,
            uid: user.uid,
            gid: booking.caller.group(),
            user: user.name.clone(),
            state: match booking.hold {
                true => FlowState::Held,
                false => FlowState::Running,
            },
            made: now,
            deadline: Some(deadline),
            account: booking.wish.account.clone(),
            hold_until: booking.hold.then_some(until),
            closed: None,
            note: String::new(),
        };
        let jobs = self.job_ids(&booking.graph);
        let sets = &booking.wish.set_names;
        let task =
            |task: usize| slot_row(id, task, jobs[task], reservations[task], &slots[task], sets);
        let tasks = (0..slots.len()).map(task).collect();
        let word = if booking.hold { "held" } else { "booked" };
        self.add_flow(
            now,
            Flow::new(row, spec, booking.graph.clone(), tasks),
            word,
        );
        self.enter_tasks(now, &booking.caller, id, ready);
        self.slots_taken(now, booking, &reservations);
        Ok(self.flow_reply(id)?)
    }

    /// Each slot as if it were a reservation by itself, in the order of the tasks.
    pub(crate) fn flow_slots(
        &self,
        now: Time,
        of: &ResolvedFlow,
        mut plan: LivePlan,
    ) -> Vec<FlowSlot> {
        let slots = std::mem::take(&mut plan.slots).into_iter().enumerate();
        let slot = |(task, planned): (usize, LiveSlot)| {
            let mut planned = planned;
            planned.start = planned.start.max(now);
            let wish = self.slot_wish(of, task, &planned, plan.deadline);
            let figures = plan.figures_of(task);
            let figures = figures.unwrap_or_else(|| self.slot_figures(now, &wish, &planned));
            let extra = self.extra_of(&wish, &figures, &figures.slots[0]);
            FlowSlot {
                wish,
                figures,
                planned,
                extra,
            }
        };
        slots.map(slot).collect()
    }

    /// A slot of a task in the words of reservations.
    pub(crate) fn slot_wish(
        &self,
        wish: &ResolvedFlow,
        task: usize,
        slot: &LiveSlot,
        deadline: Time,
    ) -> ReservationRequest {
        let (asked, place) = (&wish.spec.tasks[task], &wish.places[task]);
        let early = wish.spec.early;
        let length = slot.end.since(slot.start);
        let pick = match early {
            true => Pick::FinishBy,
            false => Pick::At(slot.start),
        };
        ReservationRequest {
            ask: Ask {
                name: format!("{}.{}", wish.spec.name, asked.name),
                queue: Some(self.queues.name(place.queue).to_owned()),
                earliest: early.then_some(wish.spec.earliest).flatten(),
                latest_end: early.then_some(deadline),
                account: wish.account.clone(),
                comment: wish.spec.comment.clone(),
                ..Ask::plain(asked.spec.request.clone(), length, pick)
            },
            queue: place.queue,
            demand: place.demand.clone(),
            level: place.level,
            earliest: slot.start,
            latest: slot.start,
            account: wish.account.clone(),
        }
    }

    /// What a slot costs and does.
    pub(crate) fn slot_figures(
        &self,
        now: Time,
        wish: &ReservationRequest,
        slot: &LiveSlot,
    ) -> Appraisal {
        let tariff = self.tariff(self.policy_of(wish));
        let length = slot.end.since(slot.start);
        Appraisal {
            now,
            plain_start: None,
            joint_start: None,
            load_end: now,
            plan_end: now,
            slots: vec![Estimate {
                start: slot.start,
                end: slot.end,
                shares: Some(slot.shares.clone()),
                before_head: false,
                availability_ppm: 1_000_000,
                by_load: true,
                base: price::base(&tariff, &slot.shares, length),
                extra: Su::ZERO,
                delays: Delays::default(),
            }],
        }
    }

    /// The rules of admission, quotas and money, for all slots of a workflow.
    fn admit_slots(
        &self,
        now: Time,
        booking: &FlowBooking,
        slots: &[FlowSlot],
    ) -> Result<(), Refusal> {
        let (caller, of) = (&*booking.caller, &booking.wish);
        match self
            .refusals_of(now, caller, of, booking.hold, slots)
            .next()
        {
            Some(refusal) => Err(refusal),
            None => self.can_pay_all(of, slots),
        }
    }

    /// What the rules of admission and the quotas say against slots.
    pub(crate) fn refusals_of<'a>(
        &'a self,
        now: Time,
        caller: &'a Caller,
        of: &'a ResolvedFlow,
        hold: bool,
        slots: &'a [FlowSlot],
    ) -> impl Iterator<Item = Refusal> + 'a {
        // What counts against quotas is the same for all slots in a queue.
        let mut booked = BTreeMap::new();
        for slot in slots {
            let all = booked.entry(slot.wish.queue);
            all.or_insert_with(|| self.booked(caller, &slot.wish));
        }
        let first = slots.first().filter(|_| hold);
        let held = first.and_then(|first| self.may_hold(caller, &first.wish).err());
        let judge = move |slot: &FlowSlot| {
            let (wish, estimate) = (&slot.wish, slot.estimate());
            if hold {
                self.may_hold_again(now, caller, wish, estimate)?;
            }
            let booked = &booked[&wish.queue];
            self.admit(now, caller, wish, &slot.figures, estimate, booked)
        };
        let each = of.spec.tasks.iter().zip(slots);
        let each = each.filter_map(move |(task, slot)| {
            let refusal = judge(slot).err()?;
            Some(of_task(&task.name, refusal))
        });
        held.into_iter().chain(each)
    }

    /// Whether all slots together can be paid.
    pub(crate) fn can_pay_all(&self, of: &ResolvedFlow, slots: &[FlowSlot]) -> Result<(), Refusal> {
        let Some(first) = slots.first() else {
            return Ok(());
        };
        let price = slots.iter().fold(Su::ZERO, |sum, s| sum.plus(s.price()));
        let mut all = first.wish.clone();
        all.ask.max_price = of.spec.max_price;
        self.can_pay(&all, price)
    }

    /// The jobs of all tasks, each to be attached to its slot.
    fn ready_slot_jobs(
        &self,
        caller: &Caller,
        spec: &mut FlowSpec,
        graph: &Graph,
        slots: &[FlowSlot],
    ) -> Result<Vec<Ready>, Refusal> {
        for (task, slot) in spec.tasks.iter_mut().zip(slots) {
            // The slot is the limit; a user's own would only cut it.
            task.spec.time_limit = Some(slot.wish.ask.length);
            task.spec.queue.clone_from(&slot.wish.ask.queue);
        }
        let mut ready = self.ready_tasks(caller, spec, graph)?;
        let first = self.reservations.next_number();
        for (ready, task) in ready.iter_mut().zip(&graph.order) {
            ready.spec.reservation = Some(ReservationId(first + u64::from(*task)));
            ready.spec.begin = None;
        }
        Ok(ready)
    }

    /// A hold ends when the first slot begins, but leaves time to confirm it.
    fn flow_hold_until(&self, now: Time, slots: &[FlowSlot]) -> Time {
        let holds = slots.iter().map(|s| self.policy_of(&s.wish).hold);
        let longest = now + holds.min().unwrap_or(HOLD_LEAST);
        let first = slots.iter().map(|s| s.planned.start).min().unwrap_or(now);
        // Nothing can be held beyond the end of a slot.
        let over = slots.iter().map(|s| s.planned.end).min();
        let until = first.max(now + HOLD_LEAST).min(longest);
        until.min(over.unwrap_or(until))
    }

    /// Takes all slots, or none. Nothing is recorded yet but the money.
    fn place_slots(
        &mut self,
        now: Time,
        booking: &FlowBooking,
        flow: FlowId,
        until: Time,
        slots: &[FlowSlot],
    ) -> Result<Vec<ReservationId>, NotTaken> {
        let jobs = self.job_ids(&booking.graph);
        let limited = self.limited_queues(&booking.caller, slots);
        let mut taken = Vec::with_capacity(slots.len());
        for (task, slot) in slots.iter().enumerate() {
            let checked = match limited.contains(&slot.wish.queue) {
                true => self.keeps_shares(now, booking, task, slot),
                false => Ok(()),
            };
            let of = (flow, task, jobs[task]);
            match checked.and_then(|()| self.place_slot(now, booking, of, until, slot)) {
                Ok(id) => taken.push(id),
                Err(why) => {
                    self.take_back(&taken);
                    return Err(why);
                }
            }
        }
        if let Err(refusal) = self.hold_prices(now, &taken) {
            self.take_back(&taken);
            return Err(refusal.into());
        }
        let next = self.reservations.next_number() + taken.len() as u64;
        self.reservations.go_on_at(next);
        Ok(taken)
    }

    /// Queues in which a part of the machine is the most that the caller may have.
    fn limited_queues(&self, caller: &Caller, slots: &[FlowSlot]) -> BTreeSet<QueueId> {
        let queues: BTreeMap<QueueId, &ReservationRequest> =
            slots.iter().map(|s| (s.wish.queue, &s.wish)).collect();
        let limited = queues
            .iter()
            .filter(|(_, wish)| self.booked(caller, wish).limits_shares());
        limited.map(|(queue, _)| *queue).collect()
    }

    /// Whether the quotas hold with those slots of this workflow that are placed already.
    fn keeps_shares(
        &self,
        now: Time,
        booking: &FlowBooking,
        task: usize,
        slot: &FlowSlot,
    ) -> Result<(), NotTaken> {
        let booked = self.booked(&booking.caller, &slot.wish);
        // They count as one with it.
        let checked = booked.check_part(now, &slot.wish, slot.estimate(), task > 0);
        let name = &booking.wish.spec.tasks[task].name;
        Ok(checked.map_err(|refusal| of_task(name, refusal))?)
    }

    fn place_slot(
        &mut self,
        now: Time,
        booking: &FlowBooking,
        (flow, task, job): (FlowId, usize, JobId),
        until: Time,
        slot: &FlowSlot,
    ) -> Result<ReservationId, NotTaken> {
        let planned = &slot.planned;
        let length = planned.end.since(planned.start);
        if planned.start < now
            || !self
                .planning
                .cluster()
                .are_free(now, &planned.shares, planned.start, length)
        {
            return Err(NotTaken::Gone);
        }
        let of = OfFlow {
            flow,
            task: task as u32,
        };
        let first = ReservationId(self.reservations.next_number());
        let id = ReservationId(first.0 + task as u64);
        let row = ReservationRow {
            id,
            series: Some(first),
            job: Some(job),
            hold_until: booking.hold.then_some(until),
            flow: Some(of),
            ..self.slot_reservation(now, &booking.caller, slot)
        };
        let reservation = Reservation {
            row,
            shares: planned.shares.clone(),
            short: false,
            planner: None,
        };
        self.planning.cluster_mut().add_block(reservation.block());
        self.reservations.enter(reservation);
        Ok(id)
    }

    fn slot_reservation(&self, now: Time, caller: &Caller, slot: &FlowSlot) -> ReservationRow {
        let (user, wish, estimate) = (&caller.user, &slot.wish, slot.estimate());
        ReservationRow {
            id: ReservationId(0),
            series: None,
            uid: user.uid,
            gid: caller.group(),
            user: user.name.clone(),
            queue: self.queues.name(wish.queue).to_owned(),
            account: wish.account.clone(),
            ask: wish.ask.clone(),
            state: ReservationState::Held,
            degraded: false,
            start: slot.planned.start,
            end: slot.planned.end,
            closed: None,
            shares: Vec::new(),
            made: now,
            hold_until: None,
            free_until: None,
            base: estimate.base,
            extra: slot.extra,
            held: Su::ZERO,
            charged: Su::ZERO,
            delays: estimate.delays.listed.clone(),
            job: None,
            first_use: None,
            used_core_ms: 0,
            note: String::new(),
            flow: None,
        }
    }

    /// Holds the prices of reservations that are in memory only, of all or of none.
    fn hold_prices(&mut self, now: Time, ids: &[ReservationId]) -> Result<(), Refusal> {
        let before = self.reservations.books().clone();
        let mut records = Vec::new();
        for id in ids {
            match self.reservations.hold_price(now, *id) {
                Ok(lines) => records.extend(lines),
                Err(refusal) => {
                    *self.reservations.books_mut() = before;
                    return Err(refusal);
                }
            }
        }
        records.into_iter().for_each(|r| self.record(r));
        Ok(())
    }

    /// Takes reservations out of memory that nobody has been told of.
    fn take_back(&mut self, ids: &[ReservationId]) {
        for id in ids {
            self.planning.cluster_mut().remove_block(*id);
            self.reservations.take_back(*id);
        }
    }

    /// All slots are taken: from now on they are reservations like others.
    fn slots_taken(&mut self, now: Time, booking: &FlowBooking, ids: &[ReservationId]) {
        let who = booking.caller.user.name.clone();
        let word = if booking.hold { "held" } else { "booked" };
        for id in ids {
            let delays = self.reservations.get(*id).map(|r| r.row.delays.clone());
            self.reservations.add_delays(&delays.unwrap_or_default());
            let detail = self.slot_text(*id);
            self.happened(now, word, &who, format!("reservation {id}"), detail);
            match booking.hold {
                true => self.touch_reservation(*id),
                false => self.confirm_one(now, *id, &who),
            }
        }
    }
}
