//! Jobs that may go to several queues are tried in the others.

use crate::controller::Controller;
use crate::event::Caller;
use crate::jobs::job::{Job, Phase, Place};
use cosy_model::{JobId, QueueId, Refusal, Time};
use cosy_sched::WaitingJob;

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
