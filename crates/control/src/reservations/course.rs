//! The course of a reservation in time: a hold that lapses, nodes that are cleared, the
//! begin, the end, and one that nobody uses.

use super::Reservation;
use crate::controller::Controller;
use crate::reservations::admission::cancel::{Ending, given_back};
use crate::set_aside::Object;
use cosy_model::node::{KillCause, NodeOrder};
use cosy_model::reservation::ReservationState;
use cosy_model::{JobId, NodeId, ReservationId, Time};

impl Controller {
    /// When something happens next to a reservation by itself.
    pub(crate) fn due_of(&self, reservation: &Reservation) -> Option<Time> {
        let row = &reservation.row;
        match row.state {
            ReservationState::Held => row.hold_until,
            ReservationState::Confirmed => Some(row.start - self.config.policy.clearance),
            ReservationState::Active => {
                let unused = self.no_show_at(reservation);
                Some(unused.map_or(row.end, |at| at.min(row.end)))
            }
            ReservationState::Ended
            | ReservationState::Cancelled
            | ReservationState::Expired
            | ReservationState::Unused
            | ReservationState::Failed => Some(row.closed.unwrap_or(row.end) + super::REMEMBER),
        }
    }

    /// When an active reservation is given back because nothing was started in it.
    fn no_show_at(&self, reservation: &Reservation) -> Option<Time> {
        let row = &reservation.row;
        let after = self.reservation_policy(&row.queue).no_show?;
        let unused = row.first_use.is_none() && row.job.is_none() && !row.degraded;
        unused.then(|| row.start + after)
    }

    /// Does everything whose time has come.
    pub(crate) fn reservations_due(&mut self, now: Time) {
        while let Some(id) = self.reservations.take_due(now) {
            self.works_on(Object::Reservation(id));
            self.reservation_due(now, id);
        }
    }

    fn reservation_due(&mut self, now: Time, id: ReservationId) {
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        let row = &reservation.row;
        match row.state {
            ReservationState::Held => self.expire(now, id),
            ReservationState::Confirmed if now < row.start => {
                let start = row.start;
                self.clear_nodes(now, id);
                self.reservations.set_due(id, Some(start));
            }
            ReservationState::Confirmed => self.begin_reservation(now, id),
            ReservationState::Active if now >= row.end => {
                let flow = row.flow;
                self.end_reservation(now, id, "its time is over");
                if let Some(of) = flow {
                    self.slot_over(now, of);
                }
            }
            ReservationState::Active => self.give_back_unused(now, id),
            ReservationState::Ended
            | ReservationState::Cancelled
            | ReservationState::Expired
            | ReservationState::Unused
            | ReservationState::Failed => self.reservations.forget(id),
        }
    }

    fn expire(&mut self, now: Time, id: ReservationId) {
        self.close(
            now,
            id,
            ReservationState::Expired,
            "it was not confirmed in time",
        );
        self.release_money(now, id, "controller");
        let object = format!("reservation {id}");
        self.happened(now, "expired", "controller", object, String::new());
        self.drop_attached(now, id, "its reservation was not confirmed");
    }

    /// Jobs from outside had their time when the clearance begins: those that are still
    /// there are ended.
    fn clear_nodes(&mut self, now: Time, id: ReservationId) {
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        let start = reservation.row.start;
        let nodes: Vec<NodeId> = reservation.shares.iter().map(|s| s.node).collect();
        let mut late: Vec<JobId> = Vec::new();
        for node in nodes {
            for job in &self.machine.node(node).jobs {
                let run = self.jobs.get(job).and_then(|j| j.run());
                let over = run.is_some_and(|r| {
                    let end = self.with_clearance_after(r.end_if_it_goes_on());
                    r.after.is_none() && end <= start
                });
                let outside = !self.planning.is_inside(*job);
                if over && outside && !late.contains(job) {
                    late.push(*job);
                }
            }
        }
        late.into_iter().for_each(|job| self.clear_of(now, job));
    }

    /// Ends a job whose time is over. Where the node of its program is silent, that node's
    /// daemon ends it; the others are cleaned up without waiting for its word.
    fn clear_of(&mut self, now: Time, job: JobId) {
        if self.jobs.get(&job).is_some_and(|j| j.submitted.is_held()) {
            return self.end_held(now, job, KillCause::TimeLimit);
        }
        let Some(job) = self.jobs.get(&job) else {
            return;
        };
        let (key, Some(run)) = (job.key(), job.run()) else {
            return;
        };
        let Some(first) = run.first() else { return };
        if self.machine.node(first).link.is_some() {
            return self.order(first, |node| NodeOrder::Kill {
                key,
                node,
                cause: KillCause::TimeLimit,
            });
        }
        if run.started.is_none() {
            return; // it may be launched yet
        }
        let others: Vec<NodeId> = run.parts.iter().skip(1).map(|part| part.node).collect();
        for node in others {
            self.order(node, |node| NodeOrder::Release { key, node });
        }
    }

    fn begin_reservation(&mut self, now: Time, id: ReservationId) {
        self.repair_one(now, id);
        self.clear_nodes(now, id);
        self.note_hour_price(id);
        let Some(reservation) = self.reservations.all.get_mut(&id) else {
            return;
        };
        reservation.row.state = ReservationState::Active;
        self.open_inside(id);
        let object = format!("reservation {id}");
        self.happened(now, "began", "controller", object, String::new());
        self.touch_reservation(id);
        self.review_within_at_once(now, id);
    }

    /// What the hour costs is learned when a reservation begins: one that was cancelled for
    /// nothing teaches nothing. Where f was the floor itself, the mean stays as it is.
    fn note_hour_price(&mut self, id: ReservationId) {
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        let row = &reservation.row;
        if self.reservation_policy(&row.queue).price_floor {
            let (start, core_ms, extra) = (row.start, reservation.core_ms(), row.extra);
            self.reservations.hours.record(start, core_ms, extra);
        }
    }

    fn give_back_unused(&mut self, now: Time, id: ReservationId) {
        let note = "nothing was started in it in time: its nodes were given back, it stays charged";
        self.close(now, id, ReservationState::Unused, note);
        self.tell_holder(now, id, "unused", note);
    }

    /// The end of an active reservation, at its time or because its job has ended.
    pub(crate) fn end_reservation(&mut self, now: Time, id: ReservationId, why: &str) {
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        let row = &reservation.row;
        let never = row.first_use.is_none() && row.degraded;
        let (whole, used) = (reservation.core_ms(), self.used_so_far(now, reservation));
        let state = if never {
            ReservationState::Failed
        } else {
            ReservationState::Ended
        };
        let terms = self.terms(now, reservation);
        self.close(now, id, state, why);
        if never {
            let back = given_back(&terms, Ending::Failed, now);
            self.give_money_back(now, id, back, "controller");
            self.tell_holder(
                now,
                id,
                "failed",
                "its nodes were not there: nothing is charged",
            );
            return;
        }
        let back = given_back(&terms, Ending::Given, now);
        self.give_money_back(now, id, back, "controller");
        let object = format!("reservation {id}");
        self.happened(now, "ended", "controller", object, why.to_owned());
        self.report_low_use(now, id, used, whole);
    }

    fn used_so_far(&self, now: Time, reservation: &Reservation) -> i128 {
        let inside = self.jobs_inside(reservation.row.id);
        let running = inside.filter_map(|job| self.jobs.get(&job)?.run());
        let used = running.map(|run| run.core_ms(now));
        i128::from(reservation.row.used_core_ms) + used.sum::<i128>()
    }

    /// True when less of it was used than what is reported.
    pub(crate) fn is_hardly_used(&self, now: Time, reservation: &Reservation) -> bool {
        let least = self.reservation_policy(&reservation.row.queue).low_use_ppm;
        let used = self.used_so_far(now, reservation);
        is_below(used, reservation.core_ms(), least.unwrap_or(0))
    }

    /// A reservation that was hardly used is told to its owner and the administrators.
    fn report_low_use(&mut self, now: Time, id: ReservationId, used: i128, whole: i128) {
        let Some(reservation) = self.reservations.get(id) else {
            return;
        };
        let Some(least) = self.reservation_policy(&reservation.row.queue).low_use_ppm else {
            return;
        };
        let attached = reservation.row.job.is_some();
        if attached || !is_below(used, whole, least) {
            return;
        }
        let permille = used.saturating_mul(1000) / whole.max(1);
        let note = format!(
            "only {}.{} % of it was used, less than {} %",
            permille / 10,
            permille % 10,
            least / 10_000
        );
        self.tell_holder(now, id, "low_use", &note);
        let subject = format!("{} reservation {id}: {note}", self.config.name);
        let admins = self.config.admins.iter().filter(|a| !a.starts_with('@'));
        let admins: Vec<String> = admins.cloned().collect();
        for to in admins {
            let subject = subject.clone();
            self.effect(crate::event::Effect::Mail { to, subject });
        }
    }

    /// Takes a live reservation off the machine. Its money is not touched.
    pub(crate) fn close(
        &mut self,
        now: Time,
        id: ReservationId,
        state: ReservationState,
        why: &str,
    ) {
        let active = self.reservations.active.contains(&id);
        self.reservations.drop_delays(id);
        let Some(reservation) = self.reservations.all.get_mut(&id) else {
            return;
        };
        reservation.row.state = state;
        reservation.row.closed = Some(now);
        if now > reservation.row.start {
            reservation.row.end = reservation.row.end.min(now);
        }
        reservation.row.note = why.to_owned();
        self.planning.cluster_mut().remove_block(id);
        if active {
            self.close_inside(now, id);
        } else {
            self.review_within_at_once(now, id);
        }
        self.touch_reservation(id);
    }

    /// Ends the job that was to start with a reservation, unless it has ended.
    pub(crate) fn drop_attached(&mut self, now: Time, id: ReservationId, why: &str) {
        let job = self.reservations.get(id).and_then(|r| r.row.job);
        if let Some(job) = job.filter(|job| self.jobs.contains_key(job)) {
            self.cancel_job(now, job, why);
        }
    }
}

/// True when `used` is less than `least_ppm` millionths of `whole`.
fn is_below(used: i128, whole: i128, least_ppm: u32) -> bool {
    used.saturating_mul(1_000_000) < whole.saturating_mul(i128::from(least_ppm))
}
