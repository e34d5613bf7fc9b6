//! Appraisals are handed out, a few at a time, and taken back with their figures.

use crate::event::Effect;
use crate::jobs::Jobs;
use crate::planning::Planning;
use crate::queues::order;
use crate::reservations::Reservations;
use crate::reservations::appraisal::{Lane, OF_ONE_USER, Pending, WAITING, start_no_earlier};
use crate::reservations::ask::JOBS_LOOKED_AT;
use crate::turn::{Asker, Turn};
use cosy_model::{Refusal, RefusalCode, Uid};
use cosy_sched::appraise::{Inquiry, Listed};
use std::collections::VecDeque;
use std::sync::Arc;

impl Reservations {
    /// True when a request with that key waits for its figures already: its answer goes to
    /// the new connection.
    pub(crate) fn rejoin(&mut self, asker: Asker<'_>) -> bool {
        let Some(key) = asker.key else { return false };
        let uid = asker.caller.user.uid;
        let appraisals = &mut self.appraisals;
        let mut all = appraisals.all_mut();
        match all.find(|p| p.key() == Some((uid, key))) {
            Some(pending) => {
                pending.set_client(asker.client);
                true
            }
            None => false,
        }
    }
}

/// Has something appraised; `pending` goes on with the answer.
pub(crate) fn appraise(
    jobs: &Jobs,
    planning: &Planning,
    reservations: &mut Reservations,
    turn: &mut Turn,
    pending: Pending,
    inquiry: Inquiry,
) -> Result<(), Refusal> {
    let appraisals = &mut reservations.appraisals;
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
    next_appraisal(jobs, planning, reservations, turn, lane);
    Ok(())
}

pub(crate) fn next_appraisal(
    jobs: &Jobs,
    planning: &Planning,
    reservations: &mut Reservations,
    turn: &mut Turn,
    lane: Lane,
) {
    let now = turn.now();
    let next = reservations.appraisals.next_of(lane);
    let Some((appraisal, mut inquiry)) = next else {
        return;
    };
    start_no_earlier(&mut inquiry, now);
    order::number_anew(&mut inquiry, jobs.next_id());
    if let Some(uid) = reservations.appraisals.quotes_for(appraisal) {
        inquiry.listed = own_in_line(jobs, planning, turn, uid);
    }
    turn.effect(Effect::Appraise {
        appraisal,
        now,
        scheduler: Box::new(planning.cluster().clone()),
        inquiry,
    });
}

/// A user's own among the jobs whose delays a snapshot of now looks at: those are the first
/// in line, and only they are looked through.
pub(crate) fn own_in_line(jobs: &Jobs, planning: &Planning, turn: &mut Turn, uid: Uid) -> Listed {
    let first = planning.cluster().first_in_line(JOBS_LOOKED_AT);
    turn.looked(first.len() as u64);
    let own = first.into_iter().filter(|id| {
        let job = jobs.get(id);
        job.is_some_and(|job| job.submitted().uid == uid)
    });
    Listed::Of(Arc::new(own.collect()))
}
