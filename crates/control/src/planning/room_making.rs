//! Who may ask that others make room, and who makes room for whom.
//!
//! What always holds: a job for which room is made waits, or those who stand still for it wait for
//! its end; whoever makes room says so in its own row, and all of this is made again of the rows.

use crate::record::Preemptor;
use cosy_model::{ClockStep, JobId, Span, Time};
use cosy_sched::OrderKey;
use std::collections::{BTreeMap, BTreeSet};

/// A job for which no room could be made is looked at again after so long.
const AGAIN: Span = Span::from_secs(5);
/// After a look in vain nobody is looked at for so long: what looks take of the controller's time
/// is bounded by that.
const PAUSE: Span = Span(250);
/// Among so many of the first the next one is chosen whose time has come.
const FIRST: usize = 64;

/// Of so many waiting jobs it is told whether they are a risk to a running one.
const MOST_TOLD: usize = 1000;

/// Who makes room for one job.
#[derive(Debug, Default)]
struct Makers {
    jobs: BTreeSet<JobId>,
    /// Some have ended for it.
    have_gone: bool,
    /// All have gone and it could not start: it stands where it stood and may ask for others.
    asks_again: bool,
}

/// Waiting jobs that may preempt others, and running ones that make room.
#[derive(Debug, Default)]
pub(crate) struct RoomMaking {
    /// In the order of service, with the time of the next look.
    asking: BTreeMap<OrderKey, Time>,
    keys: BTreeMap<JobId, OrderKey>,
    /// Nobody is looked at before.
    quiet_until: Option<Time>,
    /// When somebody of the first is to be looked at.
    next_look: Option<Time>,
    /// All waiting jobs are to be asked anew whether they may preempt.
    all_anew: bool,
    /// Who makes room, by whom they make it for.
    by_whom: BTreeMap<Preemptor, Makers>,
    /// When those are ended with force.
    forced: BTreeSet<(Time, JobId)>,
    /// Who may not have heard of it: the controller has died since.
    unheard: BTreeSet<JobId>,
}

impl RoomMaking {
    /// A waiting job that stands there may preempt others, or may not.
    pub fn stands(&mut self, key: OrderKey, may: bool, now: Time) {
        let before = self.keys.get(&key.job).copied();
        let again = before.and_then(|old| self.asking.remove(&old));
        self.keys.remove(&key.job);
        let makers = self.by_whom.get(&key.job.into());
        if may && makers.is_none_or(|makers| makers.asks_again) {
            self.keys.insert(key.job, key);
            self.asking.insert(key, again.unwrap_or(now));
            self.next_look = Some(
                self.next_look
                    .map_or(now, |at| at.min(again.unwrap_or(now))),
            );
        }
    }

    /// The job waits no more, or room is made for it.
    pub fn asks_no_more(&mut self, job: JobId) {
        if let Some(key) = self.keys.remove(&job) {
            self.asking.remove(&key);
        }
    }

    /// Rules have changed: who may preempt is found out anew.
    pub fn ask_all_anew(&mut self) {
        self.all_anew = true;
    }

    /// True once, when who may preempt is to be found out anew.
    pub fn takes_all_anew(&mut self) -> bool {
        if self.all_anew {
            self.asking.clear();
            self.keys.clear();
        }
        std::mem::take(&mut self.all_anew)
    }

    /// The job that is to be looked at now.
    pub fn next_asking(&mut self, now: Time) -> Option<JobId> {
        if self.quiet_until.is_some_and(|until| now < until) {
            return None;
        }
        let mut first = self.asking.iter().take(FIRST);
        let due = first.find(|(_, at)| **at <= now);
        if let Some((key, _)) = due {
            return Some(key.job);
        }
        self.next_look = self.asking.values().take(FIRST).min().copied();
        None
    }

    /// No room could be made for a job: it is looked at later.
    pub fn in_vain(&mut self, job: JobId, now: Time) {
        if let Some(at) = self.keys.get(&job).and_then(|key| self.asking.get_mut(key)) {
            *at = now + AGAIN;
        }
        self.quiet_until = Some(now + PAUSE);
        self.next_look = Some(now + PAUSE);
    }

    /// `victim` makes room for somebody; it is ended with force then, if it is to end.
    pub fn makes_room(&mut self, victim: JobId, whom: Preemptor, forced: Option<Time>) {
        self.by_whom.entry(whom).or_default().jobs.insert(victim);
        self.forced.extend(forced.map(|at| (at, victim)));
    }

    /// Whether it has heard that it makes room is not known.
    pub fn may_not_have_heard(&mut self, victim: JobId) {
        self.unheard.insert(victim);
    }

    /// Whether it may not have heard of it.
    pub fn is_unheard(&self, victim: JobId) -> bool {
        self.unheard.contains(&victim)
    }

    /// It has heard that it makes room.
    pub fn has_heard(&mut self, victim: JobId) {
        self.unheard.remove(&victim);
    }

    /// Room is made for the job, also when nobody has to go.
    pub fn room_is_made_for(&mut self, job: JobId) {
        let makers = self.by_whom.entry(job.into()).or_default();
        (makers.have_gone, makers.asks_again) = (false, false);
        self.asks_no_more(job);
    }

    /// The same of the rows, which do not say who has gone: when nobody is left who still goes, all
    /// have.
    pub fn room_was_made_for(&mut self, job: JobId) {
        let makers = self.by_whom.entry(job.into()).or_default();
        makers.have_gone = makers.jobs.is_empty();
    }

    /// It has ended for somebody.
    pub fn has_gone(&mut self, victim: JobId, whom: Preemptor) {
        self.makes_none(victim, whom);
        if let Some(makers) = self.by_whom.get_mut(&whom) {
            makers.have_gone = true;
        }
    }

    /// All have gone and the job could not start, because others for which room is made needed more
    /// of it than was thought. True the first time: then it may ask for others.
    pub fn is_short_of_room(&mut self, job: JobId) -> bool {
        let makers = self.by_whom.get_mut(&job.into());
        makers.is_some_and(|makers| !std::mem::replace(&mut makers.asks_again, true))
    }

    /// Whether some have ended for the job.
    pub fn have_gone(&self, job: JobId) -> bool {
        let makers = self.by_whom.get(&job.into());
        makers.is_some_and(|makers| makers.have_gone)
    }

    /// It makes no room for anybody.
    pub fn makes_none(&mut self, victim: JobId, whom: Preemptor) {
        if let Some(makers) = self.by_whom.get_mut(&whom) {
            makers.jobs.remove(&victim);
        }
        self.forced.retain(|(_, id)| *id != victim);
        self.unheard.remove(&victim);
    }

    /// It concerns nobody any more.
    pub fn is_settled(&mut self, whom: Preemptor) {
        self.by_whom.remove(&whom);
    }

    /// For whom others make room.
    pub fn all(&self) -> impl Iterator<Item = Preemptor> {
        self.by_whom.keys().copied()
    }

    /// Who makes room for somebody.
    pub fn for_whom(&self, whom: Preemptor) -> impl Iterator<Item = JobId> {
        let makers = self.by_whom.get(&whom);
        makers.into_iter().flat_map(|makers| &makers.jobs).copied()
    }

    /// A job that is to be ended with force by now; it is told once.
    pub fn next_forced(&mut self, now: Time) -> Option<JobId> {
        let (at, _) = self.forced.first()?;
        if *at > now {
            return None;
        }
        self.forced.pop_first().map(|(_, id)| id)
    }

    /// Waiting jobs that may ask for room, the first of them.
    pub fn first_asking(&self) -> impl Iterator<Item = JobId> {
        self.asking.keys().take(MOST_TOLD).map(|key| key.job)
    }

    /// When there is something to do.
    pub fn next_due(&self) -> Option<Time> {
        let forced = self.forced.first().map(|(at, _)| *at);
        let look = self.next_look.filter(|_| !self.asking.is_empty());
        let look = look.map(|at| self.quiet_until.map_or(at, |until| at.max(until)));
        forced.into_iter().chain(look).min()
    }

    /// The clock on the wall was set.
    pub fn clock_set(&mut self, step: ClockStep) {
        let forced = std::mem::take(&mut self.forced);
        let forced = forced.into_iter().map(|(at, id)| (at.set_by(step), id));
        self.forced = forced.collect();
        self.quiet_until = None;
        self.asking.values_mut().for_each(|at| *at = Time(i64::MIN));
        self.next_look = Some(Time(i64::MIN));
    }
}
