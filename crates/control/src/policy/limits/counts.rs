//! Jobs are counted where they belong. Nothing of it is stored: it is derived from jobs and policy, kept
//! at each submission, start and end, and counted anew when a controller starts.
//!
//! What always holds: while limits are enforced each live job is counted once, and as what it holds if
//! it runs; otherwise nothing is kept at all. Parties without jobs and empty tallies are forgotten, so
//! memory goes with the jobs there are.

mod keeping;

use super::party::{Meter, Party};
use super::rules::Rules;
use super::tally::{Amounts, Held, Tally};
use cosy_model::JobId;
use cosy_model::policy::Tres;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the jobs of a party share.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Counted {
    pub party: Party,
    pub rules: Rules,
}

/// A party and its running jobs with what they hold.
pub(crate) type Running<'a> = (&'a Counted, Vec<(JobId, &'a Held)>);

/// Jobs in planners' queues that count together for a limit on what runs.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Queued {
    pub jobs: BTreeSet<JobId>,
    /// What they want at least.
    pub amounts: Amounts,
}

/// How one job is counted.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    of: Arc<Counted>,
    /// What it holds while it runs.
    held: Option<Box<Held>>,
    /// It gathers age.
    accrues: bool,
    /// It is in a planner's queue, and wants this at least.
    queued: Option<Box<Amounts>>,
}

/// What is counted of jobs for the sake of limits.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    jobs: BTreeMap<JobId, Entry>,
    parties: BTreeMap<Party, Arc<Counted>>,
    tallies: BTreeMap<Meter, Tally>,
    /// Who is in planners' queues, where what runs is limited.
    queued: BTreeMap<Meter, Queued>,
    /// Who may not gather age because others do, by each limit that says so.
    to_age: BTreeMap<Meter, BTreeSet<JobId>>,
    /// Where fewer gather age than before: who waits there is looked at.
    age_freed: BTreeSet<Meter>,
    /// Resources that some limit is about.
    limited: BTreeSet<Tres>,
    /// Limits are enforced.
    on: bool,
}

impl Counts {
    /// Whether limits are enforced.
    pub const fn is_on(&self) -> bool {
        self.on
    }

    /// Whether some limit is about that resource.
    pub fn is_limited(&self, tres: &Tres) -> bool {
        self.limited.contains(tres)
    }

    /// What is counted there; `None` where nobody is.
    pub fn tally(&self, meter: Meter) -> Option<&Tally> {
        self.tallies.get(&meter)
    }

    /// The party that a job is counted with, and its limits.
    pub fn of(&self, id: JobId) -> Option<&Arc<Counted>> {
        self.jobs.get(&id).map(|entry| &entry.of)
    }

    /// What a running job is counted as.
    pub fn held_by(&self, id: JobId) -> Option<&Held> {
        self.jobs.get(&id)?.held.as_deref()
    }

    /// Jobs that are counted, by id.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }

    /// A job waits from now on.
    pub fn comes(&mut self, id: JobId, of: Arc<Counted>) {
        self.leaves(id);
        for meter in &of.rules.meters {
            self.tallies.entry(*meter).or_default().submitted += 1;
        }
        let entry = Entry {
            of,
            held: None,
            accrues: false,
            queued: None,
        };
        self.jobs.insert(id, entry);
    }

    /// A job is in a planner's queue from now on, and wants this at least.
    pub fn queues(&mut self, id: JobId, wanted: Amounts) {
        self.unqueues(id);
        let Some(entry) = self.jobs.get_mut(&id) else {
            return;
        };
        for meter in entry.of.rules.of_running() {
            let queued = self.queued.entry(meter).or_default();
            if queued.jobs.insert(id) {
                for (tres, amount) in &wanted {
                    let sum = queued.amounts.entry(tres.clone()).or_default();
                    *sum = sum.saturating_add(*amount);
                }
            }
        }
        entry.queued = Some(Box::new(wanted));
    }

    /// It is not any more. True when it was.
    pub fn unqueues(&mut self, id: JobId) -> bool {
        let Some(entry) = self.jobs.get_mut(&id) else {
            return false;
        };
        let Some(wanted) = entry.queued.take() else {
            return false;
        };
        for meter in entry.of.rules.of_running() {
            let Some(queued) = self.queued.get_mut(&meter) else {
                continue;
            };
            if queued.jobs.remove(&id) {
                for (tres, amount) in wanted.iter() {
                    if let Some(sum) = queued.amounts.get_mut(tres) {
                        *sum = sum.saturating_sub(*amount);
                    }
                }
            }
            if queued.jobs.is_empty() {
                self.queued.remove(&meter);
            }
        }
        true
    }

    /// Who of those that count there is in planners' queues.
    pub fn queued(&self, meter: Meter) -> Option<&Queued> {
        self.queued.get(&meter)
    }

    /// Whether a job is noted as one in a planner's queue.
    pub fn is_queued(&self, id: JobId) -> bool {
        self.jobs
            .get(&id)
            .is_some_and(|entry| entry.queued.is_some())
    }

    /// A job is over.
    pub fn leaves(&mut self, id: JobId) {
        self.stops(id);
        self.unqueues(id);
        self.accrues(id, false);
        self.waits_to_age_no_more(id);
        let Some(entry) = self.jobs.remove(&id) else {
            return;
        };
        self.change(&entry.of.rules.meters, |tally| {
            tally.submitted = tally.submitted.saturating_sub(1);
        });
        self.forget(&entry.of);
    }

    /// A job holds this from now on, perhaps something else than before. Tells what it held before.
    pub fn runs(&mut self, id: JobId, held: Held) -> Option<Held> {
        let known = self.jobs.get(&id)?;
        if known.held.as_deref() == Some(&held) {
            return Some(held);
        }
        let before = self.stops(id);
        self.unqueues(id);
        self.accrues(id, false);
        self.waits_to_age_no_more(id);
        let entry = self.jobs.get_mut(&id)?;
        let meters = entry.of.rules.meters.clone();
        self.change(&meters, |tally| tally.takes(&held));
        if let Some(entry) = self.jobs.get_mut(&id) {
            entry.held = Some(Box::new(held));
        }
        before
    }

    /// A job holds nothing any more. Tells what it held.
    pub fn stops(&mut self, id: JobId) -> Option<Held> {
        let entry = self.jobs.get_mut(&id)?;
        let held = entry.held.take()?;
        let meters = entry.of.rules.meters.clone();
        self.change(&meters, |tally| tally.gives(&held));
        Some(*held)
    }

    /// A waiting job gathers age, or does not.
    pub fn accrues(&mut self, id: JobId, accrues: bool) {
        let Some(entry) = self.jobs.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut entry.accrues, accrues) == accrues {
            return;
        }
        let of = entry.of.clone();
        self.change(&of.rules.meters, |tally| match accrues {
            true => tally.accruing += 1,
            false => tally.accruing = tally.accruing.saturating_sub(1),
        });
        if !accrues {
            self.age_freed.extend(of.rules.of_age());
        }
    }

    /// Whether a waiting job gathers age under limits.
    pub fn is_accruing(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|entry| entry.accrues)
    }

    /// Whether one more job like it may gather age.
    pub fn may_accrue(&self, id: JobId) -> bool {
        let Some(entry) = self.jobs.get(&id) else {
            return false;
        };
        let mut rules = entry.of.rules.all.iter().filter(|rule| rule.limits_age());
        rules.all(|rule| {
            let accruing = self.tally(rule.meter).map_or(0, |tally| tally.accruing);
            u64::from(accruing) < rule.value
        })
    }

    /// It waits until it may gather age.
    pub fn waits_to_age(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get(&id) else {
            return;
        };
        for meter in entry.of.rules.of_age() {
            self.to_age.entry(meter).or_default().insert(id);
        }
    }

    /// It does not wait for that any more.
    pub fn waits_to_age_no_more(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get(&id).filter(|entry| entry.of.rules.limits_age) else {
            return;
        };
        for meter in entry.of.rules.of_age() {
            if let Some(all) = self.to_age.get_mut(&meter) {
                all.remove(&id);
                if all.is_empty() {
                    self.to_age.remove(&meter);
                }
            }
        }
    }

    /// Whether somebody may gather age who could not.
    pub fn age_is_due(&self) -> bool {
        !self.age_freed.is_empty()
    }

    /// A place where fewer gather age than before, once, with the first who wait for it.
    pub fn next_age_freed(&mut self, most: usize) -> Option<Vec<JobId>> {
        let meter = self.age_freed.pop_first()?;
        let waiting = self.to_age.get(&meter).into_iter().flatten();
        Some(waiting.copied().take(most).collect())
    }

    /// Running jobs with what they hold, by party, of those whose limits may end jobs.
    pub fn running_by_party(&self) -> Vec<Running<'_>> {
        if !self.parties.values().any(|of| of.rules.may_end_jobs()) {
            return Vec::new();
        }
        let mut all: BTreeMap<&Party, Running<'_>> = BTreeMap::new();
        for (id, entry) in &self.jobs {
            if let Some(held) = entry
                .held
                .as_deref()
                .filter(|_| entry.of.rules.may_end_jobs())
            {
                let own = all.entry(&entry.of.party);
                let (_, jobs) = own.or_insert_with(|| (&entry.of, Vec::new()));
                jobs.push((*id, held));
            }
        }
        all.into_values().collect()
    }

    fn change(&mut self, meters: &[Meter], change: impl Fn(&mut Tally)) {
        for meter in meters {
            let tally = self.tallies.entry(*meter).or_default();
            change(tally);
            if tally.is_empty() {
                self.tallies.remove(meter);
            }
        }
    }

    /// A party without jobs is kept no longer: the map and the one at hand are all that have it.
    fn forget(&mut self, of: &Arc<Counted>) {
        if Arc::strong_count(of) <= 2 {
            self.parties.remove(&of.party);
        }
    }

    /// The same jobs, counted anew one by one: what incremental counting has to agree with.
    pub fn recounted(&self) -> BTreeMap<Meter, Tally> {
        let mut tallies: BTreeMap<Meter, Tally> = BTreeMap::new();
        for entry in self.jobs.values() {
            for meter in &entry.of.rules.meters {
                let tally = tallies.entry(*meter).or_default();
                tally.submitted += 1;
                tally.accruing += u32::from(entry.accrues);
                if let Some(held) = &entry.held {
                    tally.takes(held);
                }
            }
        }
        tallies
    }

    /// What is counted everywhere.
    pub const fn tallies(&self) -> &BTreeMap<Meter, Tally> {
        &self.tallies
    }
}
