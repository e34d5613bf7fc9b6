//! Components of jobs are checked, their queues joined for the planner and parted again.

use crate::controller::Controller;
use crate::jobs::components::{bundle_of, run_of};
use crate::jobs::job::{Job, Phase, Place};
use crate::queues::demand::over;
use cosy_model::job::{Bundle, ResourceRequest};
use cosy_model::{About, JobId, JobSpec, QueueId, Refusal, Span, Time, limits};
use cosy_sched::Demand;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Controller {
    /// Checks the parts of a submission beside their resources.
    ///
    /// # Errors
    /// Too many parts, or what parts cannot have.
    pub(crate) fn check_bundles(&self, spec: &JobSpec) -> Result<(), Refusal> {
        if spec.bundles.len() > limits::BUNDLES {
            return Err(Refusal::invalid(format!(
                "{} parts of a job are more than the {} allowed",
                spec.bundles.len() + 1,
                limits::BUNDLES + 1
            )));
        }
        for bundle in &spec.bundles {
            self.find_queue(bundle.queue.as_deref())?;
        }
        if !spec.bundles.is_empty() && !spec.queues.is_empty() {
            return Err(Refusal::invalid(
                "a job of several parts cannot choose among queues: name one queue for each part",
            ));
        }
        let one = |request: &ResourceRequest| !request.same_features.is_empty();
        let choosing = one(&spec.request) || spec.bundles.iter().any(|b| one(&b.request));
        if !spec.bundles.is_empty() && choosing {
            return Err(Refusal::invalid(
                "a job of several parts cannot leave it open which of several features all nodes have",
            ));
        }
        Ok(())
    }

    /// Gives a demand its further parts.
    ///
    /// # Errors
    /// What the queue of a part does not allow, or its nodes can never give.
    pub(crate) fn add_bundles(
        &self,
        spec: &JobSpec,
        limit: Span,
        demand: &mut Demand,
    ) -> Result<(), Refusal> {
        for bundle in &spec.bundles {
            let queue = self.queues.get(self.find_queue(bundle.queue.as_deref())?);
            if let Some(max) = queue.spec.max_time.filter(|max| limit > *max) {
                let asked = format!("a time limit of {limit}");
                return Err(over(queue, &asked, &max.to_string()).about(About::TimeLimit));
            }
            demand.more.push(self.demand(&bundle.request, queue)?);
        }
        Ok(())
    }

    /// The fewest nodes of all further parts.
    pub(crate) fn least_further(&self, spec: &JobSpec) -> u32 {
        let least = |bundle: &Bundle| {
            let queue = self.find_queue(bundle.queue.as_deref()).ok();
            queue.map_or(1, |queue| self.least_nodes(&bundle.request, queue))
        };
        let each = spec.bundles.iter().map(least);
        each.fold(0, u32::saturating_add)
    }

    /// The queues of a job's parts, where they are several.
    fn queues_of(&self, spec: &JobSpec, first: QueueId) -> Option<Vec<QueueId>> {
        if spec.bundles.is_empty() || spec.reservation.is_some() {
            return None;
        }
        let further = spec.bundles.iter();
        let further = further.filter_map(|b| self.find_queue(b.queue.as_deref()).ok());
        let all: BTreeSet<QueueId> = further.chain([first]).collect();
        (all.len() > 1).then(|| all.into_iter().collect())
    }

    /// The queue that the planner knows a job under.
    pub(crate) fn planner_queue(&self, spec: &JobSpec, first: QueueId) -> QueueId {
        let queues = self.queues_of(spec, first);
        let joint = queues.and_then(|all| self.queues.joint_of(&all));
        joint.unwrap_or(first)
    }

    /// Makes the planner know the queues of a job as one, before it is entered there.
    pub(crate) fn join_queues(&mut self, id: JobId) {
        let Some(job) = self
            .jobs
            .live
            .get(&id)
            .filter(|job| !job.spec().bundles.is_empty())
        else {
            return;
        };
        let Place::Good { queue, .. } = job.submitted.place else {
            return;
        };
        let Some(queues) = self.queues_of(job.spec(), queue) else {
            return;
        };
        if self.queues.join(queues, self.clocks.steady) {
            self.tell_planner();
        }
    }

    /// Parts the queues again when no job is left that spans several, and none was for a while.
    pub(crate) fn part_queues(&mut self) {
        let steady = self.clocks.steady;
        if !self.queues.may_part(steady) {
            return;
        }
        let spans = |job: &Job| match job.submitted.place {
            Place::Good { queue, .. } => self.queues_of(job.spec(), queue).is_some(),
            Place::Lost | Place::Beyond { .. } => false,
        };
        let spanning = self.jobs.live.values().any(spans);
        match spanning {
            true => self.queues.still_joined(steady),
            false => {
                self.queues.part();
                self.tell_planner();
            }
        }
    }

    /// Tells the planner which joint queues start jobs.
    pub(crate) fn open_joint_queues(&mut self) {
        let first = self.queues.len();
        for (at, (_, starts)) in self.queues.joint().into_iter().enumerate() {
            self.planning
                .cluster_mut()
                .set_queue_starts(QueueId((first + at) as u16), starts);
        }
    }

    /// The first id of the job that has this one, if that is a further part of it.
    pub(crate) fn whole_of(&self, id: JobId) -> Option<JobId> {
        let live = self.jobs.live.range(..id).next_back();
        let live = live.map(|(first, job)| (*first, job.spec()));
        let ended = self.jobs.ended.range(..id).next_back();
        let ended = ended.map(|(first, ended)| (first, &ended.submitted.spec));
        let has = |(first, spec): &(JobId, &JobSpec)| id.0 - first.0 <= spec.bundles.len() as u64;
        let found = [live, ended].into_iter().flatten().find(has);
        found.map(|(first, _)| first)
    }

    /// A job of several parts as one job for each part.
    pub(crate) fn by_bundle(&self, now: Time, job: &Job) -> Vec<Job> {
        let part = |bundle: u16| Job {
            id: JobId(job.id.0 + u64::from(bundle)),
            member: None,
            submitted: Arc::new(bundle_of(&job.submitted, bundle, |spec| {
                let queue = self.find_queue(spec.queue.as_deref()).ok();
                queue.map_or(1, |queue| self.least_nodes(&spec.request, queue))
            })),
            own: job.own,
            has_row: job.has_row,
            held: job.held,
            needs_user: job.needs_user,
            attempt: job.attempt,
            eligible: job.eligible,
            not_before: job.not_before,
            phase: match &job.phase {
                Phase::Waiting(reason) => {
                    // The planner knows the whole job only.
                    let reason = reason.clone();
                    let reason = reason.unwrap_or_else(|| self.planner_reason(now, job));
                    Phase::Waiting(Some(reason))
                }
                Phase::Run(run) => Phase::Run(Box::new(run_of(run, bundle))),
            },
        };
        (0..=job.spec().bundles.len() as u16).map(part).collect()
    }
}
