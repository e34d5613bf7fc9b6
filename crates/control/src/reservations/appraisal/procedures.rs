//! Appraisals are handed out, a few at a time, and taken back with their figures.

use crate::controller::Controller;
use crate::event::{ClientId, Effect};
use crate::reservations::appraisal::{Lane, OF_ONE_USER, Pending, WAITING, start_no_earlier};
use cosy_model::{Refusal, RefusalCode, Time, Uid};
use cosy_sched::appraise::{Appraisal, Inquiry};
use std::collections::VecDeque;

impl Controller {
    /// True when a request with that key waits for its figures already: its answer goes to
    /// the new connection.
    pub(crate) fn rejoin(&mut self, uid: Uid, key: [u8; 16], client: ClientId) -> bool {
        let appraisals = &mut self.reservations.appraisals;
        let mut all = appraisals.all_mut();
        match all.find(|p| p.key() == Some((uid, key))) {
            Some(pending) => {
                pending.set_client(client);
                true
            }
            None => false,
        }
    }

    /// Has something appraised; `pending` goes on with the answer.
    pub(crate) fn appraise(
        &mut self,
        now: Time,
        pending: Pending,
        inquiry: Inquiry,
    ) -> Result<(), Refusal> {
        let appraisals = &mut self.reservations.appraisals;
        let waiting: usize = appraisals.waiting.values().map(VecDeque::len).sum();
        if waiting >= WAITING {
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!("{WAITING} requests wait for their figures already: try again later"),
            ));
        }
        let uid = pending.uid();
        let own = |p: &&Pending| uid.is_some() && p.uid() == uid;
        if appraisals.all().filter(own).count() >= OF_ONE_USER {
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!(
                    "{OF_ONE_USER} requests of yours wait for their figures already: try again when one is answered"
                ),
            ));
        }
        let lane = Lane::of(&inquiry);
        appraisals.push(pending, inquiry);
        self.next_appraisal(now, lane);
        Ok(())
    }

    fn next_appraisal(&mut self, now: Time, lane: Lane) {
        let next = self.reservations.appraisals.next_of(lane);
        let Some((appraisal, mut inquiry)) = next else {
            return;
        };
        start_no_earlier(&mut inquiry, now);
        if let Some(uid) = self.reservations.appraisals.quotes_for(appraisal) {
            inquiry.listed = self.own_in_line(uid);
        }
        self.effect(Effect::Appraise {
            appraisal,
            now,
            scheduler: Box::new(self.planning.cluster().clone()),
            inquiry,
        });
    }

    pub(crate) fn appraised(&mut self, now: Time, appraisal: u64, result: Appraisal) {
        let under_way = &mut self.reservations.appraisals.under_way;
        let Some((lane, pending)) = under_way.remove(&appraisal) else {
            return;
        };
        self.next_appraisal(now, lane);
        match pending {
            Pending::Quote {
                client,
                caller,
                wish,
            } => self.quoted(now, client, &caller, &wish, &result),
            Pending::Book(booking) => self.appraised_booking(now, *booking, &result),
            Pending::Extend(extension) => self.appraised_extension(now, *extension, &result),
            Pending::Move(id) => self.appraised_move(now, id, &result),
        }
    }
}
