//! A start is looked for, admitted and taken.

use crate::controller::Controller;
use crate::event::{Caller, ClientId};
use crate::record::ReservationRow;
use crate::reservations::Reservation;
use crate::reservations::appraisal::Pending;
use crate::reservations::ask::ReservationRequest;
use crate::reservations::book::{
    Booking, Stage, TRIES, Taken, check_attached, series_refused, was_only_held,
};
use crate::reservations::quote::pick;
use cosy_model::api::{Reply, Submission};
use cosy_model::reservation::{Pick, ReservationState};
use cosy_model::{NodeShare, Refusal, RefusalCode, ReservationId, Su, Time, limits};
use cosy_sched::appraise::{Appraisal, Estimate, Listed, Starts};

impl Controller {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn reserve(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        key: Option<[u8; 16]>,
        ask: cosy_model::reservation::Ask,
        hold: bool,
        job: Option<Box<Submission>>,
    ) -> Result<Option<Reply>, Refusal> {
        if let Some(key) = key
            && self.rejoin(caller.user.uid, key, client)
        {
            return Ok(None);
        }
        let wish = self.wish(now, caller, ask)?;
        if let Some(job) = &job {
            check_attached(job)?;
        }
        if self.reservations.all.len() >= limits::RESERVATIONS {
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!(
                    "there are {} reservations, with those of the last day: try again later",
                    limits::RESERVATIONS
                ),
            ));
        }
        if hold {
            self.may_hold(caller, &wish)?;
        }
        let stage = match (&wish.ask.repeat, wish.ask.pick) {
            (Some(_), _) => Stage::Series,
            (None, Pick::At(_) | Pick::FinishBy) => Stage::Exact,
            (None, Pick::Soonest | Pick::Cheapest | Pick::Balance { .. }) => Stage::Search,
        };
        let start = match wish.ask.pick {
            Pick::FinishBy => wish.latest,
            Pick::At(_) | Pick::Soonest | Pick::Cheapest | Pick::Balance { .. } => wish.earliest,
        };
        let booking = Booking {
            client,
            caller: Box::new(caller.clone()),
            key,
            wish,
            hold,
            job,
            stage,
            tries: 0,
        };
        self.appraise_booking(now, booking, start)?;
        Ok(None)
    }

    fn appraise_booking(
        &mut self,
        now: Time,
        booking: Booking,
        start: Time,
    ) -> Result<(), Refusal> {
        let wish = &booking.wish;
        let (starts, listed) = match (booking.stage, &wish.ask.repeat) {
            (Stage::Search, _) => (
                self.candidates(now, &booking.caller, wish, None),
                Listed::Nobody,
            ),
            (Stage::Series, Some(repeat)) => {
                (Starts::Series(repeat.starts.clone()), Listed::Everyone)
            }
            (Stage::Exact | Stage::Series, _) => (Starts::At(vec![start]), Listed::Everyone),
        };
        let mut inquiry = self.inquiry(now, wish, starts, listed);
        if booking.stage == Stage::Exact {
            let slot = (start, start + wish.ask.length);
            inquiry.joint = self.joint_job(&booking.caller, wish, slot, &inquiry.job);
        }
        self.appraise(now, Pending::Book(Box::new(booking)), inquiry)
    }

    pub(crate) fn appraised_booking(&mut self, now: Time, booking: Booking, result: &Appraisal) {
        let (client, uid, key) = (booking.client, booking.caller.user.uid, booking.key);
        let reply = match booking.stage {
            Stage::Search => match self.found_start(now, &booking, result) {
                Ok(start) => {
                    let next = Booking {
                        stage: Stage::Exact,
                        tries: booking.tries + 1,
                        ..booking
                    };
                    match self.appraise_booking(now, next, start) {
                        Ok(()) => return,
                        Err(refusal) => Err(refusal),
                    }
                }
                Err(refusal) => Err(refusal),
            },
            Stage::Exact => match self.take_one(now, &booking, result) {
                // It was taken meanwhile: there may be another.
                Err(_) if (1..TRIES).contains(&booking.tries) => {
                    let start = booking.wish.earliest;
                    let next = Booking {
                        stage: Stage::Search,
                        ..booking
                    };
                    match self.appraise_booking(now, next, start) {
                        Ok(()) => return,
                        Err(refusal) => Err(refusal),
                    }
                }
                decided => decided,
            },
            Stage::Series => self.take_series(now, &booking, result),
        };
        let reply = reply.unwrap_or_else(Reply::Refused);
        self.answer_late(now, client, uid, key, reply);
    }

    /// The start in a window that the user's pick chooses among those that are admitted.
    fn found_start(
        &self,
        now: Time,
        booking: &Booking,
        result: &Appraisal,
    ) -> Result<Time, Refusal> {
        let wish = &booking.wish;
        let judged = self.judge_all(now, &booking.caller, wish, result);
        let admitted: Vec<&Estimate> = judged
            .iter()
            .filter(|(_, verdict)| verdict.is_ok())
            .map(|(estimate, _)| *estimate)
            .collect();
        match pick(wish.ask.pick, &admitted) {
            Some(at) => Ok(admitted[at].start),
            None => Err(self.none_admitted(&judged)),
        }
    }

    /// Why no start of a window is admitted: the reason of the latest, where rules are
    /// mildest.
    fn none_admitted(&self, judged: &[(&Estimate, Result<(), Refusal>)]) -> Refusal {
        let refused = |(_, verdict): &(&Estimate, Result<(), Refusal>)| verdict.clone().err();
        let rules = judged.iter().filter(|(e, _)| e.shares.is_some());
        let reason = rules.filter_map(refused).next_back();
        let any = || judged.iter().filter_map(refused).next_back();
        reason.or_else(any).unwrap_or_else(|| {
            Refusal::new(
                RefusalCode::NotFree,
                "the window has no start that could be",
            )
        })
    }

    fn take_one(
        &mut self,
        now: Time,
        booking: &Booking,
        result: &Appraisal,
    ) -> Result<Reply, Refusal> {
        let wish = &booking.wish;
        let Some(estimate) = result.slots.first() else {
            return Err(Refusal::new(
                RefusalCode::Unavailable,
                "the figures of the slot could not be worked out; nothing was booked, try again",
            ));
        };
        let booked = self.booked(&booking.caller, wish);
        self.admit(now, &booking.caller, wish, result, estimate, &booked)?;
        self.may_hold_as_asked(now, booking, estimate)?;
        let shares = self.free_now(now, wish, estimate)?;
        let extra = self.extra_of(wish, result, estimate);
        let taken = Taken {
            estimate,
            extra,
            shares,
        };
        let id = self.take(now, booking, taken, None)?;
        Ok(self.reserved(&booking.caller, &[id], Vec::new()))
    }

    /// The nodes that a slot gets as things are now.
    fn free_now(
        &self,
        now: Time,
        wish: &ReservationRequest,
        estimate: &Estimate,
    ) -> Result<Vec<NodeShare>, Refusal> {
        let start = estimate.start.max(now);
        let length = estimate.end.since(estimate.start);
        let shares = self
            .planning
            .cluster()
            .place(now, &wish.demand, start, length);
        shares.ok_or_else(|| {
            Refusal::new(
                RefusalCode::NotFree,
                "the slot was taken a moment ago; nothing was booked: ask for a new quote",
            )
        })
    }

    fn take_series(
        &mut self,
        now: Time,
        booking: &Booking,
        result: &Appraisal,
    ) -> Result<Reply, Refusal> {
        let wish = &booking.wish;
        let fits = wish.ask.repeat.as_ref().is_some_and(|r| r.as_many_as_fit);
        let mut conflicts: Vec<(Time, Refusal)> = Vec::new();
        let mut slots: Vec<&Estimate> = Vec::new();
        let booked = self.booked(&booking.caller, wish);
        for estimate in &result.slots {
            let admitted = self.admit(now, &booking.caller, wish, result, estimate, &booked);
            match admitted.and_then(|()| self.may_hold_as_asked(now, booking, estimate)) {
                Ok(()) => slots.push(estimate),
                Err(refusal) => conflicts.push((estimate.start, refusal)),
            }
        }
        if slots.is_empty() || (!conflicts.is_empty() && !fits) {
            return Err(series_refused(&conflicts, result.slots.len()));
        }
        let price = slots
            .iter()
            .fold(Su::ZERO, |sum, e| sum.plus(self.price_of(wish, result, e)));
        self.can_pay(wish, price)?;
        let mut ids: Vec<ReservationId> = Vec::new();
        for estimate in slots {
            // The delays of those that were taken before count already.
            let capped = self.keeps_delay_cap(now, &booking.caller, wish, result, estimate);
            let free = capped.and_then(|()| self.free_now(now, wish, estimate));
            let shares = match free {
                Ok(shares) => shares,
                Err(refusal) => {
                    conflicts.push((estimate.start, refusal));
                    continue;
                }
            };
            let extra = self.extra_of(wish, result, estimate);
            let taken = Taken {
                estimate,
                extra,
                shares,
            };
            match self.take(now, booking, taken, ids.first().copied()) {
                Ok(id) => ids.push(id),
                Err(refusal) => conflicts.push((estimate.start, refusal)),
            }
        }
        if ids.is_empty() || (!conflicts.is_empty() && !fits) {
            self.undo(now, &ids);
            return Err(series_refused(&conflicts, result.slots.len()));
        }
        conflicts.sort_by_key(|(start, _)| *start);
        Ok(self.reserved(&booking.caller, &ids, conflicts))
    }

    /// Takes slots back that were taken in this very turn.
    fn undo(&mut self, now: Time, ids: &[ReservationId]) {
        for id in ids {
            self.uncount(now, *id);
            self.close(
                now,
                *id,
                ReservationState::Cancelled,
                "not all of the series fits",
            );
            self.return_all(now, *id);
            self.drop_attached(now, *id, "its reservation was not possible");
            if let Some(reservation) = self.reservations.all.get_mut(id) {
                reservation.row.hold_until = None; // it never was a hold
            }
        }
    }

    /// Makes a reservation out of a slot: held, and confirmed at once unless only a hold
    /// was asked for.
    fn take(
        &mut self,
        now: Time,
        booking: &Booking,
        taken: Taken<'_>,
        series: Option<ReservationId>,
    ) -> Result<ReservationId, Refusal> {
        let id = ReservationId(self.reservations.next);
        let mut row = self.new_row(now, booking, &taken, id, series);
        let price = row.base.plus(row.extra);
        let who = booking.caller.user.name.clone();
        if let Some(account) = &row.account {
            let records = self
                .reservations
                .books
                .hold(now, account, id, price, &who)?;
            records.into_iter().for_each(|r| self.record(r));
            row.held = price;
        }
        self.reservations.next += 1;
        let reservation = Reservation {
            row,
            shares: taken.shares,
            short: false,
            planner: None,
        };
        self.planning.cluster_mut().add_block(reservation.block());
        self.reservations.all.insert(id, reservation);
        self.reservations.add_delays(&taken.estimate.delays.listed);
        if let Err(refusal) = self.attach(now, booking, id) {
            self.undo(now, &[id]);
            return Err(refusal);
        }
        let detail = self.slot_text(id);
        let word = if booking.hold { "held" } else { "booked" };
        self.happened(now, word, &who, format!("reservation {id}"), detail);
        if booking.hold {
            self.touch_reservation(id);
        } else {
            self.confirm_one(now, id, &who);
        }
        Ok(id)
    }

    fn new_row(
        &self,
        now: Time,
        booking: &Booking,
        taken: &Taken<'_>,
        id: ReservationId,
        series: Option<ReservationId>,
    ) -> ReservationRow {
        let (wish, user) = (&booking.wish, &booking.caller.user);
        let estimate = taken.estimate;
        let (start, length) = (estimate.start.max(now), estimate.end.since(estimate.start));
        let policy = self.policy_of(wish);
        let repeats = wish.ask.repeat.is_some();
        ReservationRow {
            id,
            series: series.or(repeats.then_some(id)),
            uid: user.uid,
            gid: booking.caller.group(),
            user: user.name.clone(),
            queue: self.queues.name(wish.queue).to_owned(),
            account: wish.account.clone(),
            ask: wish.ask.clone(),
            state: ReservationState::Held,
            degraded: false,
            start,
            end: start + length,
            closed: None,
            shares: Vec::new(),
            made: now,
            hold_until: booking.hold.then(|| (now + policy.hold).min(start)),
            free_until: None,
            base: estimate.base,
            extra: taken.extra,
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

    pub(crate) fn slot_text(&self, id: ReservationId) -> String {
        let Some(reservation) = self.reservations.get(id) else {
            return String::new();
        };
        format!(
            "{} for {}",
            self.names_of_shares(&reservation.shares),
            reservation.length()
        )
    }

    /// A user may have few holds, and none where one of the account has just lapsed: else
    /// slots could be kept for nothing for ever.
    pub(crate) fn may_hold(
        &self,
        caller: &Caller,
        wish: &ReservationRequest,
    ) -> Result<(), Refusal> {
        let policy = self.policy_of(wish);
        let uid = caller.user.uid;
        let mut open: Vec<ReservationId> = self
            .reservations
            .live()
            .filter(|r| r.row.state == ReservationState::Held && r.row.uid == uid)
            .map(Reservation::series)
            .collect();
        open.dedup();
        let asked = self.reservations.appraisals.bookings();
        let asked = asked.filter(|b| b.hold && b.caller.user.uid == uid).count();
        let have = open.len() + asked;
        if self.is_admin(caller) {
            return Ok(());
        }
        if let Some(most) = policy.holds.filter(|most| have >= *most as usize) {
            let which = open.first().map_or(String::new(), |id| {
                format!(": confirm or cancel reservation {id} first")
            });
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!(
                    "{have} of {most} holds of user {} are open{which}",
                    caller.user.name
                ),
            ));
        }
        Ok(())
    }

    fn may_hold_as_asked(
        &self,
        now: Time,
        booking: &Booking,
        slot: &Estimate,
    ) -> Result<(), Refusal> {
        match booking.hold {
            true => self.may_hold_again(now, &booking.caller, &booking.wish, slot),
            false => Ok(()),
        }
    }

    /// After a hold was not confirmed, its account gets no overlapping one for a while: else
    /// one hold after the other would keep a slot for nothing.
    pub(crate) fn may_hold_again(
        &self,
        now: Time,
        caller: &Caller,
        wish: &ReservationRequest,
        slot: &Estimate,
    ) -> Result<(), Refusal> {
        let Some(rehold) = self.policy_of(wish).rehold else {
            return Ok(());
        };
        if self.is_admin(caller) {
            return Ok(());
        }
        let same = |row: &ReservationRow| {
            row.uid == caller.user.uid || (row.account.is_some() && row.account == wish.account)
        };
        let lapsed = self.reservations.all.values().find(|r| {
            let row = &r.row;
            let until = row.hold_until.map(|at| at + rehold);
            was_only_held(row)
                && until.is_some_and(|until| now < until)
                && same(row)
                && row.start < slot.end
                && slot.start < row.start + row.ask.length
        });
        match lapsed {
            Some(lapsed) => Err(Refusal::new(
                RefusalCode::Admission,
                format!(
                    "hold {} of the same time lapsed unconfirmed less than {rehold} ago, or was given back: book it instead, or hold another time",
                    lapsed.row.id
                ),
            )),
            None => Ok(()),
        }
    }

    /// The script that starts with the reservation.
    fn attach(&mut self, now: Time, booking: &Booking, id: ReservationId) -> Result<(), Refusal> {
        let Some(job) = &booking.job else {
            return Ok(());
        };
        let mut submission = (**job).clone();
        let wish = &booking.wish;
        let spec = &mut submission.spec;
        spec.request = wish.ask.request.clone();
        spec.time_limit = Some(wish.ask.length);
        spec.queue = Some(self.queues.name(wish.queue).to_owned());
        spec.reservation = Some(id);
        spec.account = wish.account.clone();
        let facts = crate::event::Facts::default();
        let reply = self.submit_with(now, &booking.caller, submission, &facts, true)?;
        if let (Reply::Submitted { job, .. }, Some(reservation)) =
            (reply, self.reservations.all.get_mut(&id))
        {
            reservation.row.job = Some(job);
        }
        Ok(())
    }

    /// The answer with reservations as they are now.
    pub(crate) fn reserved(
        &self,
        caller: &Caller,
        ids: &[ReservationId],
        conflicts: Vec<(Time, Refusal)>,
    ) -> Reply {
        let all = ids.iter().filter_map(|id| self.reservations.get(*id));
        Reply::Reserved {
            reservations: all.map(|r| self.info(caller, r)).collect(),
            conflicts,
            note: String::new(),
        }
    }
}
