//! A reservation is made shorter: its end comes earlier, as far as that costs nobody
//! anything.
//!
//! Only one that nothing was paid for: what is given back of a paid one is settled when it
//! is cancelled. Jobs inside keep the time that they were given.

use super::Reservation;
use crate::controller::Controller;
use crate::event::Caller;
use crate::jobs::job::Run;
use cosy_model::api::Reply;
use cosy_model::{Refusal, RefusalCode, ReservationId, Su, Time};

impl Controller {
    pub(crate) fn shorten(
        &mut self,
        now: Time,
        caller: &Caller,
        id: ReservationId,
        end: Time,
    ) -> Result<Reply, Refusal> {
        let found = self.own_promised(caller, id, "shorten", "made shorter")?;
        self.may_end_at(now, found, end)?;
        let before = found.row.end;
        if let Some(reservation) = self.reservations.all.get_mut(&id) {
            let row = &mut reservation.row;
            row.end = end;
            row.ask.length = end.since(row.start);
            let block = reservation.block();
            self.planning.cluster_mut().add_block(block);
        }
        self.keep_open(id);
        let who = caller.user.name.clone();
        let (object, by) = (format!("reservation {id}"), before.since(end));
        self.happened(now, "shortened", &who, object, format!("by {by}"));
        self.touch_reservation(id);
        Ok(self.reserved(caller, &[id], Vec::new()))
    }

    fn may_end_at(&self, now: Time, found: &Reservation, end: Time) -> Result<(), Refusal> {
        let (row, id) = (&found.row, found.row.id);
        let wrong = |text: String| Err(Refusal::new(RefusalCode::WrongState, text));
        if row.flow.is_some() {
            return wrong(format!(
                "reservation {id} is a slot of a workflow, which plans it"
            ));
        }
        if row.account.is_some() && row.charged != Su::ZERO {
            return wrong(format!(
                "reservation {id} was paid with {} SU and is not made shorter: when it is cancelled, what is left is given back",
                row.charged
            ));
        }
        if end >= row.end || end <= row.start.max(now) {
            return Err(Refusal::invalid(format!(
                "an earlier end of reservation {id} is later than its start and than now, and earlier than its end; to end it at once, cancel it"
            )));
        }
        let last_call = self.last_call_of(end, end.since(row.start));
        let longest = self
            .jobs_inside(id)
            .filter_map(|job| Some((self.time_of(self.jobs.get(&job)?.run()?), job)))
            .max();
        match longest {
            Some((until, job)) if until > last_call => wrong(format!(
                "job {job} inside of reservation {id} has time beyond that end: give the job a shorter limit or cancel it"
            )),
            _ => Ok(()),
        }
    }

    /// Until when an attempt may be on its nodes.
    fn time_of(&self, run: &Run) -> Time {
        self.with_clearance_after(run.end_if_it_goes_on())
    }
}
