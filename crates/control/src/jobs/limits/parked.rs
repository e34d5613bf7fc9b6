//! Jobs that wait for a limit of which no planner knows: minutes, and what a job turned out to hold
//! on the nodes that were chosen for it. They are in no planner's queue, so they hold back nobody, and
//! are looked at again when a job that is counted with them has ended, and from time to time.
//!
//! What always holds: a job is here once; it waits.

use crate::policy::limits::party::Meter;
use cosy_model::policy::LimitHit;
use cosy_model::{JobId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// What is known of a job that waits here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Waits {
    /// Whose jobs have to end.
    pub meter: Meter,
    pub hit: LimitHit,
    /// At the latest then it is looked at again.
    pub until: Time,
    /// It was to start, and its nodes were beyond the limit: what is told of it.
    pub by_nodes: Option<String>,
}

/// Jobs that wait for limits.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    jobs: BTreeMap<JobId, Waits>,
    by_meter: BTreeMap<Meter, BTreeSet<JobId>>,
    dates: BTreeSet<(Time, JobId)>,
    /// Meters where somebody has ended: who waits there is looked at after that job.
    due: BTreeMap<Meter, JobId>,
    /// So many jobs were looked at one after the other for what was given back, and still wait.
    misses: u32,
    /// When running jobs were compared with limits on minutes last.
    compared: Option<Time>,
}

/// Jobs of one meter that are looked at in vain after something was given back.
const MISSES: u32 = 64;
/// Running jobs are compared with limits on minutes so often.
const COMPARED_EVERY: Span = Span::from_secs(30);

impl Parked {
    /// Why a job waits here, if it does.
    pub fn get(&self, id: JobId) -> Option<&Waits> {
        self.jobs.get(&id)
    }

    /// A job waits here from now on. That somebody is to be looked at there stays so.
    pub fn park(&mut self, id: JobId, waits: Waits) {
        let due = self.due.get(&waits.meter).copied();
        self.goes(id);
        self.due.extend(due.map(|after| (waits.meter, after)));
        self.by_meter.entry(waits.meter).or_default().insert(id);
        self.dates.insert((waits.until, id));
        self.jobs.insert(id, waits);
    }

    /// A job was looked at and still waits. After so many that do nobody else of that meter is looked at
    /// before the next that gives something back there.
    pub fn still_waits(&mut self, id: JobId, waits: Waits) {
        let meter = waits.meter;
        self.park(id, waits);
        if self.due.contains_key(&meter) {
            self.misses += 1;
            if self.misses >= MISSES {
                self.due.remove(&meter);
                self.misses = 0;
            }
        }
    }

    /// A job does not wait here any more.
    pub fn goes(&mut self, id: JobId) {
        let Some(waits) = self.jobs.remove(&id) else {
            return;
        };
        self.dates.remove(&(waits.until, id));
        if let Some(all) = self.by_meter.get_mut(&waits.meter) {
            all.remove(&id);
            if all.is_empty() {
                self.by_meter.remove(&waits.meter);
                self.due.remove(&waits.meter);
            }
        }
    }

    /// Something was given back there.
    pub fn freed(&mut self, meters: &[Meter]) {
        for meter in meters
            .iter()
            .filter(|meter| self.by_meter.contains_key(meter))
        {
            self.due.insert(*meter, JobId(0));
            self.misses = 0;
        }
    }

    /// Everybody is looked at again.
    pub fn all_freed(&mut self) {
        let all: Vec<Meter> = self.by_meter.keys().copied().collect();
        self.freed(&all);
    }

    /// The next that is to be looked at; it stays here.
    pub fn next(&mut self, now: Time) -> Option<JobId> {
        while let Some((meter, after)) = self.due.pop_first() {
            let own = self.by_meter.get(&meter);
            let from = (Bound::Excluded(after), Bound::Unbounded);
            if let Some(id) = own.and_then(|own| own.range(from).next().copied()) {
                self.due.insert(meter, id);
                return Some(id);
            }
        }
        let (_, id) = self.dates.first().filter(|(at, _)| *at <= now).copied()?;
        Some(id)
    }

    /// Whether running jobs are to be compared with limits on minutes now: twice a minute.
    pub fn minutes_are_due(&mut self, now: Time) -> bool {
        let last = self.compared.filter(|last| *last <= now);
        let due = last.is_none_or(|last| last + COMPARED_EVERY <= now);
        if due {
            self.compared = Some(now);
        }
        due
    }

    /// When somebody is to be looked at although nothing happens.
    pub fn next_due(&self) -> Option<Time> {
        self.dates.first().map(|(at, _)| *at)
    }

    /// Whether somebody is to be looked at.
    pub fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Those who wait until jobs there have ended, by id.
    pub fn waiting_for(&self, meter: Meter) -> impl Iterator<Item = JobId> {
        let own = self.by_meter.get(&meter).into_iter().flatten();
        own.copied()
    }

    /// All that wait here, by id.
    pub fn ids(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }
}
