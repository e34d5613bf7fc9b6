//! Jobs that wait or run, by id: most of them are tasks of large arrays, which come in the order of their
//! ids, many at once.
//!
//! They lie one beside the other in runs of a few dozen, so that a job takes no more than its own size. What
//! always holds: ids rise within runs and from one to the next, no run is empty, and two neighbours have more
//! than half a run of jobs together, but for those that the last one was cut off from.

use crate::jobs::job::Job;
use cosy_model::JobId;
use std::ops::{Bound, RangeBounds};

/// Most jobs of a run.
const RUN: usize = 64;

/// Jobs by id.
#[derive(Debug, Default)]
pub(crate) struct LiveJobs {
    runs: Vec<Vec<Job>>,
    count: usize,
}

impl LiveJobs {
    /// The run in which that job is, or would be.
    fn run_of(&self, id: JobId) -> usize {
        let before = |run: &Vec<Job>| run.first().is_some_and(|first| first.id() <= id);
        self.runs.partition_point(before).saturating_sub(1)
    }

    /// Its run and its place in there.
    fn place(&self, id: JobId) -> Option<(usize, usize)> {
        let at = self.run_of(id);
        let run = self.runs.get(at)?;
        let within = run.binary_search_by_key(&id, Job::id).ok()?;
        Some((at, within))
    }

    pub fn get(&self, id: &JobId) -> Option<&Job> {
        let (run, at) = self.place(*id)?;
        self.runs.get(run)?.get(at)
    }

    pub fn get_mut(&mut self, id: &JobId) -> Option<&mut Job> {
        let (run, at) = self.place(*id)?;
        self.runs.get_mut(run)?.get_mut(at)
    }

    pub fn contains_key(&self, id: &JobId) -> bool {
        self.place(*id).is_some()
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn values(&self) -> impl Iterator<Item = &Job> {
        self.runs.iter().flatten()
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.runs.iter_mut().flatten()
    }

    /// Those with ids in that range, in the order of their ids.
    pub fn range(&self, ids: impl RangeBounds<JobId>) -> impl DoubleEndedIterator<Item = &Job> {
        let first = match ids.start_bound() {
            Bound::Included(id) | Bound::Excluded(id) => self.run_of(*id),
            Bound::Unbounded => 0,
        };
        let last = match ids.end_bound() {
            Bound::Included(id) | Bound::Excluded(id) => self.run_of(*id),
            Bound::Unbounded => self.runs.len().saturating_sub(1),
        };
        let runs = self.runs.get(first..=last).unwrap_or_default();
        let jobs = runs.iter().flatten();
        jobs.filter(move |job| ids.contains(&job.id()))
    }

    /// Puts a job in the place of the one with its id, if there is one.
    pub fn insert(&mut self, job: Job) {
        let last = self.runs.last().and_then(|run| run.last());
        if last.is_none_or(|last| last.id() < job.id()) {
            return self.append(job);
        }
        let at = self.run_of(job.id());
        let Some(run) = self.runs.get_mut(at) else {
            return;
        };
        match run.binary_search_by_key(&job.id(), Job::id) {
            Ok(place) => {
                if let Some(known) = run.get_mut(place) {
                    *known = job;
                }
            }
            Err(place) => {
                run.insert(place, job);
                self.count += 1;
                if run.len() > RUN {
                    let later = run.split_off(RUN / 2);
                    self.runs.insert(at + 1, later);
                }
            }
        }
    }

    /// All others have lesser ids. So a run that is full stays so.
    fn append(&mut self, job: Job) {
        self.count += 1;
        match self.runs.last_mut().filter(|run| run.len() < RUN) {
            Some(run) => run.push(job),
            None => {
                let mut run = Vec::with_capacity(RUN);
                run.push(job);
                self.runs.push(run);
            }
        }
    }

    pub fn remove(&mut self, id: &JobId) -> Option<Job> {
        let (at, place) = self.place(*id)?;
        let run = self.runs.get_mut(at)?;
        let job = run.remove(place);
        self.count -= 1;
        if run.is_empty() {
            self.runs.remove(at);
        } else {
            self.join(at);
            self.join(at.saturating_sub(1));
        }
        Some(job)
    }

    /// Two neighbours become one if they are small.
    fn join(&mut self, at: usize) {
        let lengths = self.runs.get(at).zip(self.runs.get(at + 1));
        if lengths.is_some_and(|(run, next)| run.len() + next.len() <= RUN / 2) {
            let next = self.runs.remove(at + 1);
            if let Some(run) = self.runs.get_mut(at) {
                run.extend(next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::job::{Place, Submitted};
    use cosy_model::{Gid, JobSpec, OsText, Program, Time, Uid};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn submitted() -> Arc<Submitted> {
        Arc::new(Submitted {
            base: JobId(1),
            body: 0,
            uid: Uid(1),
            gid: Gid(1),
            user: String::new(),
            submit: Time(0),
            spec: Arc::new(JobSpec::plain("x", Program::Allocation, OsText::default())),
            queue: String::new(),
            place: Place::Lost,
            flow: None,
            only: None,
        })
    }

    #[test]
    fn agrees_with_a_tree() {
        let (mut jobs, mut tree) = (LiveJobs::default(), BTreeSet::new());
        let submitted = submitted();
        let mut dice = 88_172_645_463_325_252u64;
        let mut roll = |below: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % below
        };
        for id in 2000..2000 + 5 * RUN as u64 {
            jobs.insert(Job::fresh(JobId(id), None, submitted.clone()));
            tree.insert(JobId(id));
        }
        assert_eq!(jobs.runs.len(), 5, "what comes in order fills its runs");
        for step in 0..20_000 {
            let id = JobId(roll(3000));
            // It grows, then shrinks to nothing.
            match roll(10) < if step < 9_000 { 6 } else { 2 } {
                true => {
                    jobs.insert(Job::fresh(id, None, submitted.clone()));
                    tree.insert(id);
                }
                false => {
                    let gone = jobs.remove(&id).map(|job| job.id());
                    assert_eq!(gone, tree.take(&id));
                }
            }
            let seen = JobId(roll(3000));
            assert_eq!(jobs.contains_key(&seen), tree.contains(&seen));
            assert_eq!(jobs.get(&seen).map(Job::id), tree.get(&seen).copied());
            assert_eq!(jobs.len(), tree.len());
            if step % 50 != 0 {
                continue;
            }
            let to = JobId(seen.0 + roll(300));
            let within = |ids: (Bound<JobId>, Bound<JobId>)| {
                let found: Vec<JobId> = jobs.range(ids).map(Job::id).collect();
                let back = jobs.range(ids).next_back().map(Job::id);
                (found, back)
            };
            for ids in [
                (Bound::Included(seen), Bound::Excluded(to)),
                (Bound::Unbounded, Bound::Excluded(to)),
                (Bound::Excluded(seen), Bound::Unbounded),
            ] {
                let all: Vec<JobId> = tree
                    .iter()
                    .filter(|id| ids.contains(*id))
                    .copied()
                    .collect();
                let last = all.last().copied();
                assert_eq!(within(ids), (all, last), "{ids:?}");
            }
        }
        let small = jobs.runs.windows(2);
        let small = small.filter(|two| two.iter().map(Vec::len).sum::<usize>() <= RUN / 2);
        assert_eq!(small.count(), 0);
    }
}
