//! A reservation is made longer and the difference paid.

use crate::controller::Controller;
use crate::event::{Caller, ClientId};
use crate::reservations::appraisal::Pending;
use crate::reservations::ask::ReservationRequest;
use crate::reservations::extend::{Extension, merge};
use cosy_model::api::Reply;
use cosy_model::reservation::Pick;
use cosy_model::{Refusal, RefusalCode, ReservationId, Span, Su, Time};
use cosy_sched::appraise::{Appraisal, Listed, Starts};
use std::sync::Arc;

impl Controller {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn extend(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        key: Option<[u8; 16]>,
        id: ReservationId,
        by: Span,
        max_price: Option<Su>,
    ) -> Result<Option<Reply>, Refusal> {
        if let Some(key) = key
            && self.rejoin(caller.user.uid, key, client)
        {
            return Ok(None);
        }
        let wish = self.difference(now, caller, id, by, max_price)?;
        let shares = self.reservation(id)?.shares.clone();
        let mut inquiry = self.inquiry(
            now,
            &wish,
            Starts::At(vec![wish.earliest]),
            Listed::Everyone,
        );
        inquiry.fixed = Some(shares);
        let slot = (wish.earliest, wish.earliest + wish.ask.length);
        inquiry.joint = self.joint_job(caller, &wish, slot, &inquiry.job);
        let extension = Extension {
            client,
            caller: Box::new(caller.clone()),
            key,
            id,
            wish,
        };
        self.appraise(now, Pending::Extend(Box::new(extension)), inquiry)?;
        Ok(None)
    }

    /// The time from the present end on, as a request of its own.
    fn difference(
        &self,
        now: Time,
        caller: &Caller,
        id: ReservationId,
        by: Span,
        max_price: Option<Su>,
    ) -> Result<ReservationRequest, Refusal> {
        let found = self.own_promised(caller, id, "extend", "extended")?;
        let mut ask = found.row.ask.clone();
        ask.pick = Pick::At(found.row.end);
        (ask.earliest, ask.latest_end, ask.repeat) = (None, None, None);
        (ask.length, ask.max_price) = (by, max_price);
        ask.queue = Some(found.row.queue.clone());
        ask.account = found.row.account.clone();
        let mut wish = self.wish(now, caller, ask)?;
        wish.demand = Arc::new(self.demand_in(&wish.ask.request, wish.queue)?);
        Ok(wish)
    }

    pub(crate) fn appraised_extension(
        &mut self,
        now: Time,
        extension: Extension,
        result: &Appraisal,
    ) {
        let (client, uid, key) = (extension.client, extension.caller.user.uid, extension.key);
        let decided = self.take_extension(now, &extension, result);
        let reply = decided.unwrap_or_else(Reply::Refused);
        self.answer_late(now, client, uid, key, reply);
    }

    fn take_extension(
        &mut self,
        now: Time,
        extension: &Extension,
        result: &Appraisal,
    ) -> Result<Reply, Refusal> {
        let (id, wish, caller) = (extension.id, &extension.wish, &*extension.caller);
        let gone = || {
            Refusal::new(
                RefusalCode::Unavailable,
                "the figures of the extension could not be worked out; nothing was changed, try again",
            )
        };
        let estimate = result.slots.first().ok_or_else(gone)?;
        let found = self.reservation(id)?;
        if !found.is_live() || found.row.end != estimate.start {
            return Err(Refusal::new(
                RefusalCode::WrongState,
                format!("reservation {id} has changed meanwhile; it was not extended"),
            ));
        }
        self.admit_longer(now, caller, wish, result, estimate, found.row.start)?;
        if !self
            .planning
            .cluster()
            .are_free(now, &found.shares, estimate.start, wish.ask.length)
        {
            return Err(Refusal::new(
                RefusalCode::NotFree,
                format!("its nodes are taken from its end on; reservation {id} was not extended"),
            ));
        }
        let extra = self.extra_of(wish, result, estimate);
        self.pay_extension(now, id, (estimate.base, extra), &caller.user.name)?;
        let by = wish.ask.length;
        if let Some(reservation) = self.reservations.all.get_mut(&id) {
            let row = &mut reservation.row;
            row.end = row.end + by;
            row.ask.length = row.ask.length + by;
            merge(&mut row.delays, &estimate.delays.listed);
            let block = reservation.block();
            self.planning.cluster_mut().add_block(block);
        }
        self.keep_open(id);
        self.reservations.add_delays(&estimate.delays.listed);
        let who = caller.user.name.clone();
        self.happened(
            now,
            "extended",
            &who,
            format!("reservation {id}"),
            format!("by {by}"),
        );
        self.touch_reservation(id);
        Ok(self.reserved(caller, &[id], Vec::new()))
    }

    pub(crate) fn pay_extension(
        &mut self,
        now: Time,
        id: ReservationId,
        (base, extra): (Su, Su),
        who: &str,
    ) -> Result<(), Refusal> {
        let price = base.plus(extra);
        let account = self.reservation(id)?.row.account.clone();
        if let Some(account) = account {
            let books = &mut self.reservations.books;
            let mut records = books.hold(now, &account, id, price, who)?;
            records.extend(books.charge(now, &account, id, price, "extension", who));
            records.into_iter().for_each(|r| self.record(r));
        }
        if let Some(reservation) = self.reservations.all.get_mut(&id) {
            let row = &mut reservation.row;
            row.base = row.base.plus(base);
            row.extra = row.extra.plus(extra);
            row.charged = row.charged.plus(price);
        }
        Ok(())
    }
}
