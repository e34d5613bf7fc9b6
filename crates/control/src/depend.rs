//! Dependencies, and everything else that keeps a job out of the planner's queue.

use crate::controller::Controller;
use crate::event::{Caller, Facts};
use crate::job::{Fate, Job, Phase, Place};
use crate::request::no_job;
use cosy_model::api::JobRef;
use cosy_model::{Dependency, DependencyKind, JobId, QueueId, Refusal, Time, WaitReason};
use cosy_sched::{OrderKey, WaitingJob};

/// How a dependency stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Met {
    Yes,
    NotYet,
    Never,
}

impl Controller {
    /// First id of the submission that a job belongs to.
    pub(crate) fn base_of(&self, id: JobId) -> JobId {
        match self.jobs.get(&id) {
            Some(job) => job.submitted.base,
            None => self.ended.get(&id).map_or(id, |e| e.submitted.base),
        }
    }

    pub(crate) fn check_dependencies(
        &self,
        caller: &Caller,
        dependencies: &[Dependency],
        facts: &Facts,
    ) -> Result<(), Refusal> {
        for dependency in dependencies {
            if dependency.kind == DependencyKind::Singleton {
                continue;
            }
            let job = JobRef {
                job: dependency.job,
                task: dependency.task,
            };
            let mut visible = self
                .ids_of(job)
                .into_iter()
                .filter(|id| self.may_depend(caller, *id))
                .peekable();
            let old = facts.old_jobs.iter().find(|o| o.job == job);
            if visible.peek().is_none() && old.is_none_or(|o| o.ok.is_none()) {
                return Err(no_job(job));
            }
        }
        Ok(())
    }

    fn may_depend(&self, caller: &Caller, id: JobId) -> bool {
        let submitted = match (self.jobs.get(&id), self.ended.get(&id)) {
            (Some(job), _) => &job.submitted,
            (None, Some(ended)) => &ended.submitted,
            (None, None) => return false,
        };
        self.may_see(caller, submitted)
    }

    /// Looks at a waiting job again: puts it into the planner's queue or takes it out.
    pub(crate) fn review(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        if !job.is_waiting() {
            return;
        }
        let reason = self.blocker(now, job);
        let throttled = reason == Some(WaitReason::ArrayLimit);
        let eligible = match reason {
            None | Some(WaitReason::ArrayLimit | WaitReason::Directory | WaitReason::NeverFits) => {
                Some(job.eligible.unwrap_or(now))
            }
            Some(_) => None,
        };
        let base = job.submitted.base;
        let queued = self.is_queued(id);
        let enqueue = reason.is_none() && !queued;
        let within = job.spec().reservation;
        let waiting = if enqueue { self.planner_job(job) } else { None };
        if let Some(job) = self.jobs.get_mut(&id) {
            job.eligible = eligible;
            job.phase = Phase::Waiting(reason.clone());
        }
        if let Some(group) = self.groups.get_mut(&base) {
            if throttled {
                group.throttled.insert(id);
            } else {
                group.throttled.remove(&id);
            }
        }
        if let Some(waiting) = waiting {
            if let Some(reservation) = within {
                self.inside.insert(id, reservation);
            }
            self.planner_of(id).enqueue(waiting);
            self.count_queued(base, true);
        } else if reason.is_some() && queued {
            self.planner_of(id).dequeue(id);
            self.inside.remove(&id);
            self.count_queued(base, false);
        }
    }

    fn blocker(&self, now: Time, job: &Job) -> Option<WaitReason> {
        use crate::record::HeldBy;
        match job.held {
            Some(HeldBy::User) => return Some(WaitReason::HeldByUser),
            Some(HeldBy::Admin) => return Some(WaitReason::HeldByAdmin),
            None => {}
        }
        match self.dependencies_met(job) {
            Met::Yes => {}
            Met::NotYet => return Some(WaitReason::Dependency),
            Met::Never => return Some(WaitReason::DependencyNever),
        }
        if job.spec().begin.is_some_and(|begin| begin > now) {
            return Some(WaitReason::BeginTime);
        }
        if matches!(job.submitted.place, Place::Lost) {
            return Some(WaitReason::NeverFits);
        }
        if let Some(reservation) = job.spec().reservation
            && let Some(reason) = self.reservation_blocks(reservation)
        {
            return Some(reason);
        }
        if self.array_is_full(job) {
            return Some(WaitReason::ArrayLimit);
        }
        job.needs_user.then_some(WaitReason::Directory)
    }

    fn dependencies_met(&self, job: &Job) -> Met {
        let mut met = Met::Yes;
        for dependency in &job.spec().dependencies {
            match self.dependency_met(job, dependency) {
                Met::Yes => {}
                Met::NotYet => met = Met::NotYet,
                Met::Never => return Met::Never,
            }
        }
        met
    }

    fn dependency_met(&self, job: &Job, dependency: &Dependency) -> Met {
        if dependency.kind == DependencyKind::Singleton {
            let key = (job.submitted.uid, job.spec().name.clone());
            let earlier = self.names.get(&key).and_then(|bases| bases.first());
            return if earlier.is_some_and(|b| *b < job.submitted.base) {
                Met::NotYet
            } else {
                Met::Yes
            };
        }
        let target = JobRef {
            job: dependency.job,
            task: dependency.task,
        };
        match self.standing(target) {
            Some(standing) => met(dependency.kind, standing),
            None => Met::Never, // nothing is known of it any more
        }
    }

    /// How far a job, a task or a whole array is; `None` when it is not in memory.
    fn standing(&self, target: JobRef) -> Option<Standing> {
        if let Some(ok) = self.facts.get(&target) {
            return Some(Standing {
                started: true,
                ended: true,
                ok: *ok,
            });
        }
        if let Some(task) = target.task {
            let (id, fate) = self.groups.get(&target.job)?.task(task)?;
            return self.standing_of_task(id, fate);
        }
        if let Some(group) = self.groups.get(&target.job) {
            return Some(Standing {
                started: group.touched as usize == group.fates.len(),
                ended: group.live == 0,
                ok: !group.fates.contains(&Fate::NotOk),
            });
        }
        let base = self.base_of(target.job);
        if base != target.job
            && let Some(group) = self.groups.get(&base)
        {
            let fate = group.fates.get((target.job.0 - base.0) as usize).copied()?;
            return self.standing_of_task(target.job, fate);
        }
        let ended = self.ended.get(&target.job)?;
        Some(Standing {
            started: true,
            ended: true,
            ok: ended.state == cosy_model::JobState::Completed,
        })
    }

    fn standing_of_task(&self, id: JobId, fate: Fate) -> Option<Standing> {
        let started = self.jobs.get(&id).is_none_or(|j| !j.is_waiting());
        Some(Standing {
            started,
            ended: fate != Fate::Live,
            ok: fate == Fate::Ok,
        })
    }

    /// Keeps how the jobs ended that others wait for, before they leave memory.
    pub(crate) fn keep_facts(&mut self, base: JobId) {
        let Some(waiting) = self.dependents.get(&base) else {
            return;
        };
        let targets: Vec<JobRef> = waiting
            .iter()
            .filter_map(|id| self.jobs.get(id))
            .flat_map(|job| &job.spec().dependencies)
            .filter(|d| d.kind != DependencyKind::Singleton && self.base_of(d.job) == base)
            .map(|d| JobRef {
                job: d.job,
                task: d.task,
            })
            .collect();
        for target in targets {
            if let Some(standing) = self.standing(target)
                && standing.ended
            {
                self.facts.insert(target, standing.ok);
            }
        }
    }

    /// Takes what the shell has looked up of jobs that ended long ago.
    pub(crate) fn learn_facts(&mut self, dependencies: &[Dependency], facts: &Facts) {
        for d in dependencies {
            let target = JobRef {
                job: d.job,
                task: d.task,
            };
            let old = facts.old_jobs.iter().find(|o| o.job == target);
            if let Some(ok) = old.and_then(|o| o.ok)
                && self.ids_of(target).is_empty()
            {
                self.facts.insert(target, ok);
            }
        }
    }

    /// Looks again at all jobs that depend on one that has started or ended.
    pub(crate) fn review_dependents(&mut self, now: Time, base: JobId) {
        if let Some(waiting) = self.dependents.get(&base) {
            for id in waiting.clone() {
                self.review(now, id);
            }
        }
    }

    /// The job as the planner knows it.
    fn planner_job(&self, job: &Job) -> Option<WaitingJob> {
        let Place::Good {
            queue,
            level,
            demand,
            limit,
        } = &job.submitted.place
        else {
            return None;
        };
        let (queue_in, limit) = match job.spec().reservation {
            // Inside a reservation there is one queue.
            Some(_) => (QueueId(0), self.limit_inside(job, *limit)),
            None => (*queue, self.with_clearance(*limit)),
        };
        Some(WaitingJob {
            key: OrderKey {
                queue_priority: self.queues[queue.index()].spec.priority,
                level: *level,
                nice: job.spec().nice,
                submit: job.submitted.submit,
                job: job.id,
            },
            queue: queue_in,
            demand: demand.clone(),
            limit,
        })
    }

    /// Jobs whose begin time has come.
    pub(crate) fn begin_due(&mut self, now: Time) {
        while let Some(&(begin, id)) = self.begins.first()
            && begin <= now
        {
            self.begins.pop_first();
            self.review(now, id);
        }
    }
}

struct Standing {
    started: bool,
    ended: bool,
    ok: bool,
}

fn met(kind: DependencyKind, standing: Standing) -> Met {
    let after_end = |good: bool| match (standing.ended, good) {
        (false, _) => Met::NotYet,
        (true, true) => Met::Yes,
        (true, false) => Met::Never,
    };
    match kind {
        DependencyKind::After if standing.started => Met::Yes,
        DependencyKind::After => Met::NotYet,
        DependencyKind::AfterAny => after_end(true),
        DependencyKind::AfterOk => after_end(standing.ok),
        DependencyKind::AfterNotOk => after_end(!standing.ok),
        DependencyKind::Singleton => Met::Yes,
    }
}
