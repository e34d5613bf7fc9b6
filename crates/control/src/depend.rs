//! Dependencies, and everything else that keeps a job out of the planner's queue.

use crate::controller::Controller;
use crate::event::{Caller, Facts};
use crate::job::{Fate, Job, Phase, Place};
use crate::request::no_job;
use cosy_model::api::JobRef;
use cosy_model::job::NEVER_NOTE;
use cosy_model::{
    Dependency, DependencyKind, Dialect, End, EndCause, JobId, JobSpec, QueueId, Refusal, Span,
    Time, WaitReason,
};
use cosy_sched::{OrderKey, WaitingJob};

/// How a dependency stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
        if let Some((cause, note)) = self.hopeless(now, job) {
            return self.end_hopeless(now, id, cause, note);
        }
        let reason = self.blocker(now, job);
        let next_look = self.next_look(now, job);
        let throttled = reason == Some(WaitReason::ArrayLimit);
        let eligible = match reason {
            None
            | Some(
                WaitReason::ArrayLimit
                | WaitReason::InteractiveLimit
                | WaitReason::Directory
                | WaitReason::Licenses
                | WaitReason::NeverFits
                | WaitReason::Fresh,
            ) => Some(job.eligible.unwrap_or(now)),
            Some(_) => None,
        };
        let base = job.submitted.base;
        let at = job.member.map_or(0, |member| member.at as usize);
        let queued = self.is_queued(id);
        let enqueue = reason.is_none() && !queued;
        let within = job.spec().reservation;
        if enqueue && !job.spec().bundles.is_empty() {
            self.join_queues(id);
        }
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let waiting = if enqueue { self.planner_job(job) } else { None };
        if let Some(job) = self.jobs.get_mut(&id) {
            job.eligible = eligible;
            job.phase = Phase::Waiting(reason.clone());
            if reason == Some(WaitReason::Directory) {
                job.needs_user = true;
                let uid = job.submitted.uid;
                self.ask_user(uid);
            }
        }
        self.begins.extend(next_look.map(|at| (at, id)));
        match reason {
            Some(WaitReason::Licenses) => drop(self.unlicensed.insert(id)),
            Some(_) | None => drop(self.unlicensed.remove(&id)),
        }
        if let Some(group) = self.groups.get_mut(&base) {
            if throttled {
                group.throttled.insert(at);
            } else {
                group.throttled.remove(&at);
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
            self.refill_interactive(now, id);
        }
    }

    fn blocker(&self, now: Time, job: &Job) -> Option<WaitReason> {
        use crate::record::HeldBy;
        match job.held {
            Some(HeldBy::User) => return Some(WaitReason::HeldByUser),
            Some(HeldBy::Admin) => return Some(WaitReason::HeldByAdmin),
            Some(HeldBy::Requeued) => return Some(WaitReason::HeldRequeued),
            Some(HeldBy::Special) => return Some(WaitReason::HeldSpecial),
            None => {}
        }
        match self.dependencies_met(now, job) {
            Met::Yes => {}
            Met::NotYet => return Some(WaitReason::Dependency),
            Met::Never => return Some(WaitReason::DependencyNever),
        }
        let begin = job.spec().begin.max(job.not_before);
        if begin.is_some_and(|begin| begin > now) {
            return Some(WaitReason::BeginTime);
        }
        if self.is_fresh(now, job) {
            return Some(match &job.submitted.place {
                Place::Good { .. } | Place::Lost => WaitReason::Fresh,
                Place::Beyond { .. } => WaitReason::QueueLimits,
            });
        }
        match &job.submitted.place {
            Place::Good { .. } => {}
            Place::Lost => return Some(WaitReason::NeverFits),
            Place::Beyond { reason, .. } => return Some(reason.clone()),
        }
        if self.flows.awaits_slot(job) {
            return Some(WaitReason::ReservationStart);
        }
        if let Some(reservation) = job.spec().reservation {
            if let Some(reason) = self.reservation_blocks(reservation) {
                return Some(reason);
            }
            match self.may_come_back(job, reservation) {
                Some(true) => {}
                Some(false) => return Some(WaitReason::ReservationGone),
                None => return Some(WaitReason::Directory),
            }
        }
        if self.array_is_full(job) {
            return Some(WaitReason::ArrayLimit);
        }
        if self.interactive_is_full(job) {
            return Some(WaitReason::InteractiveLimit);
        }
        if job.needs_user {
            return Some(WaitReason::Directory);
        }
        let short = !self.is_queued(job.id) && self.lacks_licenses(job.spec());
        short.then_some(WaitReason::Licenses)
    }

    /// Until when it is not looked at, so that jobs that come together are looked at
    /// together.
    fn fresh_until(&self, job: &Job) -> Option<Time> {
        let delay = self.config.policy.batch_delay;
        let batch = !job.spec().attended && !job.submitted.is_held();
        (batch && delay > Span::ZERO).then(|| job.submitted.submit + delay)
    }

    fn is_fresh(&self, now: Time, job: &Job) -> bool {
        self.fresh_until(job).is_some_and(|until| now < until)
    }

    /// Why a waiting job is given up.
    fn hopeless(&self, now: Time, job: &Job) -> Option<(EndCause, &'static str)> {
        if self.is_fresh(now, job) {
            return None;
        }
        if latest_start(job.spec()).is_some_and(|latest| latest < now) {
            return Some((EndCause::Deadline, ""));
        }
        let gives_up = job.spec().end_if_never.unwrap_or(self.config.end_if_never);
        let never = gives_up && self.dependencies_met(now, job) == Met::Never;
        never.then_some((EndCause::Cancelled, NEVER_NOTE))
    }

    fn end_hopeless(&mut self, now: Time, id: JobId, cause: EndCause, note: &str) {
        self.uncount_job(now, id);
        self.end_job(now, id, &End::never_ran(cause, now), note);
    }

    /// When a waiting job is to be looked at again although nothing happens.
    fn next_look(&self, now: Time, job: &Job) -> Option<Time> {
        let latest = latest_start(job.spec()).map(|latest| latest + Span(1));
        let delayed = job
            .spec()
            .dependencies
            .iter()
            .filter_map(|d| self.delayed_until(job, d));
        let fresh = self.fresh_until(job);
        let all = latest.into_iter().chain(delayed).chain(fresh);
        all.filter(|at| *at > now).min()
    }

    fn dependencies_met(&self, now: Time, job: &Job) -> Met {
        let spec = job.spec();
        let each = spec.dependencies.iter();
        let mut each = each.map(|dependency| self.dependency_met(now, job, dependency));
        if spec.any_dependency && !spec.dependencies.is_empty() {
            // The best of them counts.
            return each.min().unwrap_or(Met::Yes);
        }
        let mut all = Met::Yes;
        for met in each.by_ref() {
            all = all.max(met);
        }
        all
    }

    fn dependency_met(&self, now: Time, job: &Job, dependency: &Dependency) -> Met {
        if dependency.kind == DependencyKind::Singleton {
            let key = (job.submitted.uid, job.spec().name.clone());
            let earlier = self.names.get(&key).and_then(|bases| bases.first());
            return if earlier.is_some_and(|b| *b < job.submitted.base) {
                Met::NotYet
            } else {
                Met::Yes
            };
        }
        match self.standing(target_of(job, dependency)) {
            Some(standing) => {
                let until = self.delayed_until(job, dependency);
                met(
                    dependency.kind,
                    standing,
                    until.is_some_and(|until| until > now),
                )
            }
            None => Met::Never, // nothing is known of it any more
        }
    }

    /// What a waiting job still waits for: `afterok:12_*(unfulfilled),singleton(failed)`.
    pub(crate) fn dependency_text(&self, now: Time, job: &Job) -> String {
        let spec = job.spec();
        let open = spec.dependencies.iter().filter_map(|dependency| {
            let word = match self.dependency_met(now, job, dependency) {
                Met::Yes => return None,
                Met::NotYet => "unfulfilled",
                Met::Never => "failed",
            };
            Some(format!("{}({word})", self.dependency_name(dependency)))
        });
        let open: Vec<String> = open.collect();
        open.join(if spec.any_dependency { "?" } else { "," })
    }

    /// `afterok:12`, `after:12+5`, and `afterok:12_*` for a whole array.
    pub(crate) fn dependency_name(&self, dependency: &Dependency) -> String {
        let whole = dependency.task.is_none() && self.is_array(dependency.job);
        crate::show::dependency(dependency, whole)
    }

    fn is_array(&self, job: JobId) -> bool {
        let live = self.groups.get(&job).map(|group| group.indices.is_some());
        let ended = || {
            let ended = self.ended.get(&job);
            ended.is_some_and(|e| e.row.index.is_some() && e.row.base == job)
        };
        live.unwrap_or_else(ended)
    }

    /// In Slurm's words what nobody knows any more has happened.
    pub(crate) fn forget_unknown(&self, spec: &mut JobSpec, facts: &Facts) {
        if spec.dialect != Dialect::Slurm {
            return;
        }
        spec.dependencies.retain(|dependency| {
            let job = JobRef {
                job: dependency.job,
                task: dependency.task,
            };
            let old = facts.old_jobs.iter().find(|o| o.job == job);
            dependency.kind == DependencyKind::Singleton
                || !self.ids_of(job).is_empty()
                || old.is_some_and(|o| o.ok.is_some())
        });
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
            let fate = group.fates.get(group.place_of(target.job)).copied()?;
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

    /// The latest start of a job or of an array's tasks, as far as known.
    fn last_start(&self, target: JobRef) -> Option<Time> {
        let start = |id: JobId| {
            let run = self.jobs.get(&id).and_then(Job::run);
            let live = run.map(|run| run.started.unwrap_or(run.allocated));
            live.or_else(|| self.ended.get(&id)?.row.end.as_ref()?.start)
        };
        self.ids_of(target).into_iter().filter_map(start).max()
    }

    /// When what a job waits for is long enough ago.
    fn delayed_until(&self, job: &Job, dependency: &Dependency) -> Option<Time> {
        if dependency.delay <= Span::ZERO || dependency.kind != DependencyKind::After {
            return None;
        }
        let target = target_of(job, dependency);
        self.standing(target).filter(|standing| standing.started)?;
        self.last_start(target)
            .map(|start| start + dependency.delay)
    }

    /// Keeps how the jobs ended that others wait for, before they leave memory.
    pub(crate) fn keep_facts(&mut self, base: JobId) {
        let Some(waiting) = self.dependents.get(&base) else {
            return;
        };
        let jobs = waiting.iter().filter_map(|id| self.jobs.get(id));
        let targets: Vec<JobRef> = jobs
            .flat_map(|job| job.spec().dependencies.iter().map(move |d| (job, d)))
            .filter(|(_, d)| d.kind != DependencyKind::Singleton && self.base_of(d.job) == base)
            .map(|(job, d)| target_of(job, d))
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
    pub(crate) fn planner_job(&self, job: &Job) -> Option<WaitingJob> {
        self.planner_job_at(job, &job.submitted.place)
    }

    /// The same, if it stood elsewhere.
    pub(crate) fn planner_job_at(&self, job: &Job, place: &Place) -> Option<WaitingJob> {
        let Place::Good {
            queue,
            level,
            demand,
            limit,
            least: _,
        } = place
        else {
            return None;
        };
        let (queue_in, limit) = match job.spec().reservation {
            // Inside a reservation there is one queue.
            Some(_) => (QueueId(0), self.limit_inside(job, *limit)),
            None => (
                self.planner_queue(job.spec(), *queue),
                self.with_clearance(*limit),
            ),
        };
        Some(WaitingJob {
            key: OrderKey {
                queue_priority: self.queues[queue.index()].spec.priority,
                level: *level,
                nice: crate::columns::nice(job.spec(), job.submitted.base),
                submit: job.submitted.submit,
                rank: job.rank(),
                job: job.id,
            },
            queue: queue_in,
            demand: demand.clone(),
            limit,
        })
    }

    /// Jobs whose begin time has come, tasks of arrays in the order of their indices.
    pub(crate) fn begin_due(&mut self, now: Time) {
        let mut due = Vec::new();
        while let Some(&(begin, id)) = self.begins.first()
            && begin <= now
        {
            self.begins.pop_first();
            due.extend(self.jobs.get(&id).map(|job| (begin, job.rank(), id)));
        }
        due.sort_unstable();
        for (_, _, id) in due {
            self.review(now, id);
        }
    }
}

struct Standing {
    started: bool,
    ended: bool,
    ok: bool,
}

/// The job, or the task of an array that belongs to this one.
fn target_of(job: &Job, dependency: &Dependency) -> JobRef {
    let own = job.member.map(|member| member.index);
    let own = own.filter(|_| dependency.kind == DependencyKind::AfterCorr);
    JobRef {
        job: dependency.job,
        task: dependency.task.or(own),
    }
}

/// The last moment at which a job can start and still be over at its deadline.
pub(crate) fn latest_start(spec: &JobSpec) -> Option<Time> {
    let least = spec.time_min.or(spec.time_limit).unwrap_or(Span::ZERO);
    spec.deadline.map(|deadline| deadline - least)
}

fn met(kind: DependencyKind, standing: Standing, early: bool) -> Met {
    let after_end = |good: bool| match (standing.ended, good) {
        (false, _) => Met::NotYet,
        (true, true) => Met::Yes,
        (true, false) => Met::Never,
    };
    match kind {
        DependencyKind::After if standing.started && !early => Met::Yes,
        DependencyKind::After => Met::NotYet,
        DependencyKind::AfterAny => after_end(true),
        DependencyKind::AfterOk | DependencyKind::AfterCorr => after_end(standing.ok),
        DependencyKind::AfterNotOk => after_end(!standing.ok),
        DependencyKind::Singleton => Met::Yes,
    }
}
