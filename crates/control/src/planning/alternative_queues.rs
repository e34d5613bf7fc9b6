//! Jobs that may go to one of several queues (`sbatch -p short,long`).
//!
//! Such a job waits in one of them, where it stands as any other job does. About once a second
//! the planner is asked for each of the others whether the job could start there at once,
//! behind everybody who waits there: then it goes there. So it never holds places in two
//! queues, and a job that stays where it is leaves no trace elsewhere.
//!
//! Source: sbatch(1), `--partition`.

use crate::controller::Controller;
use crate::event::Caller;
use crate::jobs::job::{Job, Phase, Place};
use cosy_model::{JobId, QueueId, Refusal, Time};
use cosy_sched::WaitingJob;
use std::collections::BTreeSet;

/// So many jobs are looked at in a turn at most; the next ones in the next.
const LOOKS: usize = 16;

/// Jobs with several queues that wait.
#[derive(Debug, Default)]
pub(crate) struct Undecided {
    jobs: BTreeSet<JobId>,
    /// The last one that was looked at.
    last: JobId,
    /// It is time to look again.
    due: bool,
}

impl Undecided {
    /// A job waits anew.
    pub fn insert(&mut self, id: JobId) {
        self.jobs.insert(id);
    }

    /// Another second is over.
    pub fn tick(&mut self) {
        self.due = !self.jobs.is_empty();
    }

    /// The jobs whose turn it is.
    fn next(&mut self) -> Vec<JobId> {
        if !std::mem::take(&mut self.due) {
            return Vec::new();
        }
        let after = self.jobs.range(JobId(self.last.0 + 1)..);
        let all = after.chain(self.jobs.range(..=self.last));
        let ids: Vec<JobId> = all.take(LOOKS).copied().collect();
        self.last = ids.last().copied().unwrap_or(self.last);
        ids
    }
}

impl Controller {
    /// Checks the names of the queues that a job may go to.
    ///
    /// # Errors
    /// A queue that there is not.
    pub(crate) fn check_queues(&self, names: &[String]) -> Result<(), Refusal> {
        names
            .iter()
            .try_for_each(|name| self.find_queue(Some(name)).map(drop))
    }

    /// Moves jobs to queues in which they can start now. Gives back which jobs the planner has
    /// started.
    pub(crate) fn start_elsewhere(&mut self, now: Time) -> Vec<JobId> {
        let mut starts = Vec::new();
        for id in self.planning.undecided.next() {
            let job = self.jobs.get(&id);
            let Some(job) = job.filter(|j| j.is_waiting() && !j.spec().queues.is_empty()) else {
                self.planning.undecided.jobs.remove(&id);
                continue;
            };
            if matches!(job.phase, Phase::Waiting(None)) && self.planning.cluster().is_waiting(id) {
                starts.extend(self.try_queues(now, id));
            }
        }
        starts
    }

    fn try_queues(&mut self, now: Time, id: JobId) -> Vec<JobId> {
        let mut starts = Vec::new();
        for queue in self.other_queues(&self.jobs[&id]) {
            let Some((place, trial)) = self.trial(&self.jobs[&id], queue) else {
                continue;
            };
            if self.planning.cluster().try_place(now, &trial).is_none() {
                continue;
            }
            let old = self.jobs[&id].submitted.clone();
            let new = self.body_in(&old, queue, place);
            self.take_body(id, &new);
            if let Some(job) = self.jobs.get_mut(&id) {
                job.own = true;
            }
            self.save_job(id);
            let name = self.queues.name(queue).to_owned();
            let job = format!("job {id}");
            self.happened(now, "moved", "controller", job, format!("to queue {name}"));
            self.review(now, id);
            starts.extend(self.planning.cluster_mut().schedule(now));
            break;
        }
        starts
    }

    /// The other queues that it may go to, those of a higher priority first.
    fn other_queues(&self, job: &Job) -> Vec<QueueId> {
        let names = job.spec().queues.iter();
        let mut found: Vec<QueueId> = names
            .filter(|name| **name != job.submitted.queue)
            .filter_map(|name| self.queue_id(name))
            .collect();
        found.sort_by_key(|id| std::cmp::Reverse(self.queues.get(*id).spec.priority));
        found
    }

    /// The job as it would stand in `queue`, if it may go there and keeps its limits.
    fn trial(&self, job: &Job, queue: QueueId) -> Option<(Place, WaitingJob)> {
        let user = &self.conversations.user(&job.submitted.uid)?.user;
        if user.name.is_empty() || !self.queues.get(queue).state.starts_jobs() {
            return None;
        }
        let rights = Caller::known(user.clone());
        self.may_submit(&rights, queue, 1).ok()?;
        let place = self.place(job.spec(), queue, user).ok()?;
        let trial = self.planner_job_at(job, &place)?;
        Some((place, trial))
    }
}
