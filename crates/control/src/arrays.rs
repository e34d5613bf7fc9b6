//! Job arrays: ids of tasks, and how many run at once.

use crate::controller::Controller;
use crate::job::{Fate, Job};
use crate::reviews::{Again, REFILL};
use cosy_model::api::JobRef;
use cosy_model::{JobId, Time};

impl Controller {
    /// The ids that a reference stands for, live or ended moments ago.
    pub(crate) fn ids_of(&self, target: JobRef) -> Vec<JobId> {
        let known = |id: &JobId| self.jobs.contains_key(id) || self.ended.contains_key(id);
        if let Some(task) = target.task {
            if let Some(group) = self.groups.get(&target.job) {
                return group
                    .task(task)
                    .map(|(id, _)| id)
                    .into_iter()
                    .filter(known)
                    .collect();
            }
            return self
                .ended
                .range(target.job..)
                .take_while(|(_, e)| e.submitted.base == target.job)
                .filter(|(_, e)| e.row.index == Some(task))
                .map(|(id, _)| *id)
                .collect();
        }
        if let Some(group) = self.groups.get(&target.job) {
            return group.ids().filter(known).collect();
        }
        let ended_array: Vec<JobId> = self
            .ended
            .range(target.job..)
            .take_while(|(_, e)| e.submitted.base == target.job)
            .map(|(id, _)| *id)
            .collect();
        if !ended_array.is_empty() {
            return ended_array;
        }
        Some(target.job).into_iter().filter(known).collect()
    }

    /// The first live job that a reference stands for.
    pub(crate) fn first_of(&self, target: JobRef) -> Option<&Job> {
        match self.groups.get(&target.job) {
            Some(group) if target.task.is_none() => {
                let live = |at: &usize| group.fates[*at] == Fate::Live;
                let first = (0..group.fates.len()).find(live)?;
                self.jobs.get(&group.id_at(first))
            }
            Some(_) | None => {
                let ids = self.ids_of(target).into_iter();
                ids.filter_map(|id| self.jobs.get(&id)).next()
            }
        }
    }

    /// The first job that a reference stands for and the planner has in its queue.
    pub(crate) fn first_queued(&self, target: JobRef) -> Option<JobId> {
        let waits = |id: &JobId| self.sched.is_waiting(*id);
        match self.groups.get(&target.job) {
            Some(group) if target.task.is_none() && group.queued == 0 => None,
            Some(group) if target.task.is_none() => group.ids().find(waits),
            Some(_) | None => self.ids_of(target).into_iter().find(waits),
        }
    }

    /// The name that users have for a job.
    pub(crate) fn ref_of(&self, job: &Job) -> JobRef {
        match job.member {
            Some(member) => JobRef {
                job: job.submitted.base,
                task: Some(member.index),
            },
            None => JobRef {
                job: job.id,
                task: None,
            },
        }
    }

    /// The same by id, also for jobs that ended moments ago.
    pub(crate) fn name_of(&self, id: JobId) -> String {
        let ended = || {
            let ended = self.ended.get(&id)?;
            Some(self.ended_job(id, ended).job)
        };
        let job = self.jobs.get(&id).map(|job| self.ref_of(job));
        job.or_else(ended)
            .map_or_else(|| id.to_string(), |job| job.to_string())
    }

    /// True when as many tasks of the job's array run or are about to as may.
    pub(crate) fn array_is_full(&self, job: &Job) -> bool {
        let Some(group) = self.groups.get(&job.submitted.base) else {
            return false;
        };
        let full = group
            .at_once
            .is_some_and(|most| group.running + group.queued >= most);
        full && !self.is_queued(job.id)
    }

    pub(crate) fn count_queued(&mut self, base: JobId, more: bool) {
        if let Some(group) = self.groups.get_mut(&base) {
            group.queued = if more {
                group.queued + 1
            } else {
                group.queued.saturating_sub(1)
            };
            if !more && !group.throttled.is_empty() {
                self.reviews.push(Again::Throttled(base));
            }
        }
    }

    /// Lets as many tasks into the planner's queue as have become free, the rest of many a
    /// little later. Tells at how many it has looked.
    pub(crate) fn refill_array(&mut self, now: Time, base: JobId) -> usize {
        for looked in 0..REFILL {
            let Some(next) = self.next_throttled(base) else {
                return looked;
            };
            self.review(now, next);
            if self.next_throttled(base) == Some(next) {
                return looked; // it is stuck
            }
        }
        self.reviews.push(Again::Throttled(base));
        REFILL
    }

    /// The next task that waited for others of its array and need not any more.
    fn next_throttled(&self, base: JobId) -> Option<JobId> {
        let group = self.groups.get(&base)?;
        let busy = group.running + group.queued;
        let room = group.at_once.is_none_or(|most| busy < most);
        let next = group.throttled.first().filter(|_| room)?;
        Some(group.id_at(*next))
    }
}
