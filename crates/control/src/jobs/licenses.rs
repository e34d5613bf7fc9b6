//! Licences: counted over the whole cluster, held by a job from its start until its nodes
//! are clean.
//!
//! The planner knows nothing of them: what it would start and what has no licence then
//! leaves its queue and comes back when there are enough again. So a job that waits for a
//! licence never holds back others. Those that wait stand in lines, one for each licence, in
//! the planner's order; when licences come back, only so many are entered as could start with
//! them, and when those cannot start for another reason a few more each second. How long a
//! line is costs nobody anything. Always holds: what jobs hold is at most what there is,
//! unless the configuration has become smaller under them.
//! Source: sbatch(1), `--licenses`.

pub(crate) mod procedures;

use cosy_model::{CountedResources, JobId};
use cosy_sched::OrderKey;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// So many jobs more than there are licences free may be in planners' queues for each
/// licence: the first of them may have to wait for nodes while the next can start.
pub(crate) const AHEAD: u64 = 64;
/// Jobs in lines that are looked at in one turn.
pub(crate) const LOOKS: usize = 256;

/// Licences that jobs hold, and jobs that want some and do not run.
#[derive(Debug)]
pub(crate) struct Licenses {
    /// What jobs hold.
    used: CountedResources,
    /// Who waits for a licence, the first in line first.
    lines: BTreeMap<String, BTreeSet<OrderKey>>,
    /// In which line a job stands, and where.
    places: BTreeMap<JobId, (String, OrderKey)>,
    /// Jobs in planners' queues, with what they want.
    entered: BTreeMap<JobId, CountedResources>,
    /// What all of those want.
    wanted: BTreeMap<String, u64>,
    /// Licences that have come back, and the last place in the line that was looked at since.
    due: BTreeMap<String, Option<OrderKey>>,
    /// How often a job was entered in all.
    entries: u64,
    /// So many jobs more than could start may be in planners' queues now for each licence.
    ahead: u64,
}

impl Default for Licenses {
    fn default() -> Self {
        Self {
            used: CountedResources::default(),
            lines: BTreeMap::new(),
            places: BTreeMap::new(),
            entered: BTreeMap::new(),
            wanted: BTreeMap::new(),
            due: BTreeMap::new(),
            entries: 0,
            ahead: AHEAD,
        }
    }
}

impl Licenses {
    /// How many of that licence jobs hold.
    pub fn used(&self, name: &str) -> u32 {
        self.used.get(name)
    }

    /// All that jobs hold.
    pub fn all_used(&self) -> &CountedResources {
        &self.used
    }

    pub fn wait(&mut self, name: &str, key: OrderKey) {
        self.leave_line(key.job);
        self.lines.entry(name.to_owned()).or_default().insert(key);
        self.places.insert(key.job, (name.to_owned(), key));
    }

    /// The job waits for no licence.
    pub fn leave_line(&mut self, id: JobId) {
        let Some((name, key)) = self.places.remove(&id) else {
            return;
        };
        if let Some(line) = self.lines.get_mut(&name) {
            line.remove(&key);
            if line.is_empty() {
                self.lines.remove(&name);
                self.due.remove(&name);
            }
        }
    }

    /// The job has entered a planner's queue.
    pub fn enter(&mut self, id: JobId, wants: &CountedResources) {
        if wants.is_empty() {
            return;
        }
        self.leave(id);
        for (name, count) in wants.iter() {
            *self.wanted.entry(name.to_owned()).or_default() += u64::from(count);
        }
        self.entered.insert(id, wants.clone());
        self.entries += 1;
    }

    /// The job is in no planner's queue.
    pub fn leave(&mut self, id: JobId) {
        let Some(wants) = self.entered.remove(&id) else {
            return;
        };
        for (name, count) in wants.iter() {
            if let Some(sum) = self.wanted.get_mut(name) {
                *sum = sum.saturating_sub(u64::from(count));
                if *sum == 0 {
                    self.wanted.remove(name);
                }
            }
        }
    }

    pub fn wanted(&self, name: &str) -> u64 {
        self.wanted.get(name).copied().unwrap_or(0)
    }

    /// The next in a line after that place.
    pub fn next(&self, name: &str, after: Option<OrderKey>) -> Option<OrderKey> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.lines.get(name)?.range((from, Bound::Unbounded));
        rest.next().copied()
    }

    /// Licences that have come back since their lines were looked along.
    pub fn due(&self) -> Vec<String> {
        self.due.keys().cloned().collect()
    }

    /// Licences for which somebody waits.
    pub fn waited_for(&self) -> Vec<String> {
        self.lines.keys().cloned().collect()
    }

    /// Jobs in planners' queues that want licences.
    pub fn entered(&self) -> impl Iterator<Item = JobId> {
        self.entered.keys().copied()
    }

    /// After which place the line of that licence is to be looked along; `None` where it need not be.
    pub fn due_after(&self, name: &str) -> Option<Option<OrderKey>> {
        self.due.get(name).copied()
    }

    /// The line is to be looked along after that place.
    pub fn go_on_after(&mut self, name: &str, after: Option<OrderKey>) {
        self.due.insert(name.to_owned(), after);
    }

    /// The line was looked along.
    pub fn looked_along(&mut self, name: &str) {
        self.due.remove(name);
    }

    /// So many jobs more than could start may be in planners' queues from now on.
    pub fn let_ahead(&mut self, ahead: u64) {
        self.ahead = ahead;
    }

    /// How often a job was entered in all.
    pub fn entries(&self) -> u64 {
        self.entries
    }
}
