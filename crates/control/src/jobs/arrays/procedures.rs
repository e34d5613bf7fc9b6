//! Tasks of arrays are found by id and index, and let go as others end.

use crate::jobs::Jobs;
use crate::jobs::arrays::Expanding;
use crate::jobs::ended::procedures::ended_job;
use crate::jobs::job::{Group, Job, Submitted, TaskOutcome};
use crate::jobs::reviews::Again;
use crate::planning::Planning;
use crate::reservations::Reservations;
use crate::reservations::inside::procedures::is_queued;
use crate::turn::Turn;
use cosy_model::api::JobRef;
use cosy_model::{JobId, WaitReason, limits};
use std::ops::Bound;

impl Jobs {
    /// At most so many more of the ids that a name stands for, and whether these were the last. Of
    /// some nothing may be known any more. Those of an array that ends between two pieces are told
    /// anew.
    pub(crate) fn some_of(&self, expanding: &mut Expanding, most: usize) -> (Vec<JobId>, bool) {
        let target = expanding.target;
        if most == 0 {
            return (Vec::new(), false);
        }
        if target.task.is_some() {
            return (self.ids_of(target), true);
        }
        if let Some(group) = self.group(&target.job) {
            let from = expanding.next;
            let to = group.fates.len().min(from.saturating_add(most));
            expanding.next = to;
            let ids = (from..to).map(|at| group.id_at(at)).collect();
            return (ids, to == group.fates.len());
        }
        let from = expanding
            .after
            .map_or(Bound::Included(target.job), Bound::Excluded);
        let all = self.ended.range((from, Bound::Unbounded));
        let of_it = all.take_while(|(_, ended)| ended.submitted.base == target.job);
        let ids: Vec<JobId> = of_it.map(|(id, _)| id).take(most).collect();
        match ids.last() {
            Some(last) => {
                expanding.after = Some(*last);
                let over = ids.len() < most;
                (ids, over)
            }
            None if expanding.after.is_some() => (ids, true),
            None => (vec![target.job], true),
        }
    }

    /// The ids that a reference stands for, live or ended moments ago.
    pub(crate) fn ids_of(&self, target: JobRef) -> Vec<JobId> {
        let known = |id: &JobId| self.live.contains_key(id) || self.ended.has(*id);
        if let Some(task) = target.task {
            if let Some(group) = self.group(&target.job) {
                return group
                    .task(task)
                    .map(|(id, _)| id)
                    .into_iter()
                    .filter(known)
                    .collect();
            }
            return self.ended_task(target.job, task).into_iter().collect();
        }
        if let Some(group) = self.group(&target.job) {
            return group.ids().filter(known).collect();
        }
        let ended_array: Vec<JobId> = self
            .ended
            .range(target.job..)
            .take_while(|(_, e)| e.submitted.base == target.job)
            .map(|(id, _)| id)
            .collect();
        if !ended_array.is_empty() {
            return ended_array;
        }
        Some(target.job).into_iter().filter(known).collect()
    }

    /// The task with that index of an array of which nothing lives any more, if it ended moments
    /// ago. Somebody may name each of 100,000: none is looked for among all.
    fn ended_task(&self, array: JobId, index: u32) -> Option<JobId> {
        let of = |id: JobId| {
            let ended = self.ended.get(id)?;
            (ended.submitted.base == array).then_some(ended.row.index)?
        };
        if of(array) == Some(index) {
            return Some(array); // the last one has the array's id in Slurm's numbering
        }
        // The ids of the others rise with their indices, which are at least their places.
        let mut from = array.0.saturating_add(1);
        let mut to = from.saturating_add(index.into());
        while from <= to {
            let middle = from + (to - from) / 2;
            let mut rest = self.ended.range(JobId(middle)..=JobId(to));
            let next = rest.next().and_then(|(id, _)| Some((id, of(id)?)));
            match next {
                Some((id, found)) if found == index => return Some(id),
                Some((id, found)) if found < index => from = id.0 + 1,
                Some(_) | None => to = middle - 1,
            }
        }
        None
    }

    /// Whose a reference is: what it stands for all belongs to one submission.
    pub(crate) fn submitted_of(&self, target: JobRef) -> Option<&Submitted> {
        let group = self.group(&target.job);
        if let Some(group) = group.filter(|_| target.task.is_none()) {
            return Some(&group.submitted);
        }
        let first = || {
            let mut of_array = self.ended.range(target.job..);
            let first = of_array
                .next()
                .filter(|(_, e)| e.submitted.base == target.job);
            first.map_or(target.job, |(id, _)| id)
        };
        let id = match target.task {
            Some(_) => *self.ids_of(target).first()?,
            None => first(),
        };
        let live = self.get(&id).map(|job| &*job.submitted);
        live.or_else(|| self.ended.get(id).map(|ended| &*ended.submitted))
    }

    /// The first live job that a reference stands for.
    pub(crate) fn first_of(&self, target: JobRef) -> Option<&Job> {
        match self.group(&target.job) {
            Some(group) if target.task.is_none() => {
                let live = |at: &usize| group.fates[*at] == TaskOutcome::Live;
                let first = (0..group.fates.len()).find(live)?;
                self.get(&group.id_at(first))
            }
            Some(_) | None => {
                let ids = self.ids_of(target).into_iter();
                ids.filter_map(|id| self.get(&id)).next()
            }
        }
    }
}

/// The first job that a reference stands for and the planner has in its queue.
pub(crate) fn first_queued(jobs: &Jobs, planning: &Planning, target: JobRef) -> Option<JobId> {
    let waits = |id: &JobId| planning.cluster().is_waiting(*id);
    match jobs.group(&target.job) {
        Some(group) if target.task.is_none() && group.queued == 0 => None,
        Some(group) if target.task.is_none() => group.ids().find(waits),
        Some(_) | None => jobs.ids_of(target).into_iter().find(waits),
    }
}

/// The name that users have for a job.
pub(crate) fn ref_of(job: &Job) -> JobRef {
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
pub(crate) fn name_of(jobs: &Jobs, id: JobId) -> String {
    let ended = || {
        let ended = jobs.ended.get(id)?;
        Some(ended_job(id, ended).job)
    };
    let job = jobs.get(&id).map(ref_of);
    job.or_else(ended)
        .map_or_else(|| id.to_string(), |job| job.to_string())
}

/// Why a task waits for others of its array: as many run or are about to as may, or as many stand in the
/// planner's queue as are put there at once.
pub(crate) fn waits_for_its_array(
    jobs: &Jobs,
    planning: &Planning,
    reservations: &Reservations,
    job: &Job,
) -> Option<WaitReason> {
    let group = jobs.group(&job.submitted.base)?;
    let reason = group.is_full_for(job)?;
    (!is_queued(planning, reservations, job.id)).then_some(reason)
}

impl Group {
    fn is_full_for(&self, job: &Job) -> Option<WaitReason> {
        let busy = self.running + self.queued;
        if self.at_once.is_some_and(|most| busy >= most) {
            return Some(WaitReason::ArrayLimit);
        }
        // One that was changed alone may come before all others; those of a reservation go with it.
        let alike = !job.own && job.spec().reservation.is_none();
        (alike && self.queued >= limits::QUEUED_TASKS).then_some(WaitReason::Priority)
    }
}

impl Jobs {
    pub(crate) fn count_queued(&mut self, turn: &mut Turn, base: JobId, more: bool) {
        turn.looked(1);
        if let Some(group) = self.group_mut(&base) {
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

    /// The next task that waited for others of its array and need not any more.
    pub(crate) fn next_throttled(&self, base: JobId) -> Option<JobId> {
        let group = self.group(&base)?;
        let next = group.id_at(group.throttled.first()?);
        let job = self.get(&next)?;
        group.is_full_for(job).is_none().then_some(next)
    }
}
