//! A waiting job is looked at: what keeps it out of the planner's queue, and what its end means
//! for others.

use crate::config::ClusterConfig;
use crate::conversations::replies::seen_of_old;
use crate::conversations::requests::no_job;
use crate::conversations::visible::may_see;
use crate::event::{Caller, Facts};
use crate::jobs::Jobs;
use crate::jobs::components::procedures::planner_queue;
use crate::jobs::dependencies::{
    BEGINS, Met, Progress, Standing, Waiter, latest_start, met, target_of, waits_by_task,
};
use crate::jobs::job::{Group, Job, Member, Place, Submitted, TaskOutcome};
use crate::jobs::limits::guarantee::no_place;
use crate::jobs::losses::next_forgiven;
use crate::jobs::reviews::Again;
use crate::queues::order;
use crate::reservations::inside::clearance::with_clearance;
use crate::rooms::Rooms;
use crate::set_aside::Aside;
use cosy_model::api::JobRef;
use cosy_model::{
    Dependency, DependencyKind, Dialect, EndCause, JobId, JobSpec, QueueId, Refusal, Span,
    TaskIndices, Time,
};
use cosy_sched::{OrderKey, WaitingJob};
use cosy_view::words::end_note::NEVER_NOTE;
use std::collections::{BTreeMap, BTreeSet};

impl Jobs {
    /// First id of the submission that a job belongs to.
    pub(crate) fn base_of(&self, id: JobId) -> JobId {
        if let Some(job) = self.get(&id) {
            return job.submitted.base;
        }
        if let Some((base, group)) = self.groups.range(..=id).next_back()
            && id.0 - base.0 < group.fates.len() as u64
        {
            return *base; // a task that has ended
        }
        self.ended.get(id).map_or(id, |e| e.submitted.base)
    }
}

pub(crate) fn check_dependencies(
    config: &ClusterConfig,
    jobs: &Jobs,
    caller: &Caller,
    dependencies: &[Dependency],
    facts: &Facts,
) -> Result<(), Refusal> {
    let olds: BTreeMap<JobRef, Option<bool>> = seen_of_old(config, caller, facts)
        .map(|old| (old.job, old.ok))
        .collect();
    for dependency in dependencies {
        if dependency.kind == DependencyKind::Singleton {
            continue;
        }
        let job = target_of(None, dependency);
        let submitted = jobs.submitted_of(job);
        let visible = submitted.is_some_and(|job| may_see(config, caller, job));
        if !visible && olds.get(&job).is_none_or(Option::is_none) {
            return Err(no_job(job));
        }
    }
    Ok(())
}

/// Until when it is not looked at, so that jobs that come together are looked at
/// together.
fn fresh_until(config: &ClusterConfig, job: &Job) -> Option<Time> {
    let delay = config.policy.batch_delay;
    let batch = !job.spec().attended && !job.submitted.is_held();
    (batch && delay > Span::ZERO).then(|| job.submitted.submit + delay)
}

pub(crate) fn is_fresh(config: &ClusterConfig, now: Time, job: &Job) -> bool {
    // One that was submitted after now was so before the clock was set back.
    let known = job.submitted.submit <= now;
    fresh_until(config, job).is_some_and(|until| known && now < until)
}

/// Why a waiting job is given up.
pub(crate) fn hopeless(
    config: &ClusterConfig,
    jobs: &Jobs,
    aside: &Aside,
    now: Time,
    job: &Job,
) -> Option<(EndCause, &'static str)> {
    if is_fresh(config, now, job) {
        return None;
    }
    if latest_start(job.spec()).is_some_and(|latest| latest < now) {
        return Some((EndCause::Deadline, ""));
    }
    let gives_up = job.spec().end_if_never.unwrap_or(config.end_if_never);
    let never = gives_up && met_by(jobs, aside, now, job) == Met::Never;
    never.then_some((EndCause::Cancelled, NEVER_NOTE))
}

/// When a waiting job is to be looked at again although nothing happens.
pub(crate) fn next_look(
    config: &ClusterConfig,
    jobs: &Jobs,
    aside: &Aside,
    now: Time,
    job: &Job,
) -> Option<Time> {
    let latest = latest_start(job.spec()).map(|latest| latest + Span(1));
    let delayed = job
        .spec()
        .dependencies
        .iter()
        .filter_map(|d| delayed_until(jobs, aside, job.member, d));
    let fresh = fresh_until(config, job);
    let forgiven = next_forgiven(job.spec(), config.policy.requeue_avoids);
    let all = latest.into_iter().chain(delayed).chain(fresh);
    let all = all.chain(forgiven);
    all.filter(|at| *at > now).min()
}

pub(crate) fn met_by(jobs: &Jobs, aside: &Aside, now: Time, job: &Job) -> Met {
    dependencies_met(jobs, aside, now, &job.submitted, job.member)
}

pub(crate) fn dependencies_met(
    jobs: &Jobs,
    aside: &Aside,
    now: Time,
    job: &Submitted,
    member: Option<Member>,
) -> Met {
    let spec = &job.spec;
    let each = spec.dependencies.iter();
    let mut each = each.map(|dependency| dependency_met(jobs, aside, now, job, member, dependency));
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

/// How one dependency of a job stands.
pub(crate) fn dependency_met(
    jobs: &Jobs,
    aside: &Aside,
    now: Time,
    job: &Submitted,
    member: Option<Member>,
    dependency: &Dependency,
) -> Met {
    if dependency.kind == DependencyKind::Singleton {
        let key = (job.uid, job.spec.name.clone());
        let earlier = jobs.names.get(&key).and_then(|bases| bases.first());
        return if earlier.is_some_and(|b| *b < job.base) {
            Met::NotYet
        } else {
            Met::Yes
        };
    }
    match standing(jobs, aside, target_of(member, dependency)) {
        Some(standing) => {
            let until = delayed_until(jobs, aside, member, dependency);
            met(dependency.kind, standing, until.is_some_and(|until| until > now))
        }
        None => Met::Never, // nothing is known of it any more
    }
}

/// In Slurm's words what nobody knows any more has happened.
pub(crate) fn forget_unknown(
    config: &ClusterConfig,
    jobs: &Jobs,
    caller: &Caller,
    spec: &mut JobSpec,
    facts: &Facts,
) {
    if spec.dialect != Dialect::Slurm {
        return;
    }
    spec.dependencies.retain(|dependency| {
        let job = target_of(None, dependency);
        let mut olds = seen_of_old(config, caller, facts);
        let old = olds.find(|old| old.job == job);
        dependency.kind == DependencyKind::Singleton
            || jobs.submitted_of(job).is_some()
            || old.is_some_and(|o| o.ok.is_some())
    });
}

/// How far a job, a task or a whole array is; `None` when it is not in memory.
fn standing(jobs: &Jobs, aside: &Aside, target: JobRef) -> Option<Standing> {
    if let Some(ok) = jobs.dependencies.facts.get(&target) {
        return Some(Standing {
            started: true,
            ended: true,
            ok: *ok,
        });
    }
    if aside.has(target.job) {
        return Some(Standing {
            started: false,
            ended: false,
            ok: false,
        });
    }
    if let Some(task) = target.task {
        let (id, fate) = jobs.group(&target.job)?.task(task)?;
        return jobs.standing_of_task(id, fate);
    }
    if let Some(group) = jobs.group(&target.job) {
        return Some(Standing {
            started: group.all_touched(),
            ended: group.live == 0,
            ok: group.failed == 0,
        });
    }
    let base = jobs.base_of(target.job);
    if base != target.job
        && let Some(group) = jobs.group(&base)
    {
        let fate = group.fates.get(group.place_of(target.job)).copied()?;
        return jobs.standing_of_task(target.job, fate);
    }
    let ended = jobs.ended.get(target.job)?;
    Some(Standing {
        started: true,
        ended: true,
        ok: ended.state == cosy_model::JobState::Completed,
    })
}

impl Jobs {
    fn standing_of_task(&self, id: JobId, fate: TaskOutcome) -> Option<Standing> {
        let started = self.get(&id).is_none_or(|j| !j.is_waiting());
        Some(Standing {
            started,
            ended: fate != TaskOutcome::Live,
            ok: fate == TaskOutcome::Ok,
        })
    }

    /// The latest start of a job or of an array's tasks, as far as known.
    fn last_start(&self, target: JobRef) -> Option<Time> {
        if target.task.is_none() {
            let live = self.group(&target.job).map(|group| group.last_start);
            let over = || {
                self.dependencies
                    .last_starts
                    .get(&target.job)
                    .map(|start| Some(*start))
            };
            if let Some(start) = live.or_else(over) {
                return start;
            }
        }
        let start = |id: JobId| {
            let run = self.get(&id).and_then(Job::run);
            let live = run.map(|run| run.started().unwrap_or(run.allocated()));
            live.or_else(|| self.ended.get(id)?.row.end.as_ref()?.start)
        };
        let id = match target.task {
            Some(_) => self.ids_of(target).first().copied()?,
            None => target.job,
        };
        start(id)
    }
}

/// When what a job waits for is long enough ago.
fn delayed_until(
    jobs: &Jobs,
    aside: &Aside,
    member: Option<Member>,
    dependency: &Dependency,
) -> Option<Time> {
    if dependency.delay <= Span::ZERO || dependency.kind != DependencyKind::After {
        return None;
    }
    let target = target_of(member, dependency);
    standing(jobs, aside, target).filter(|standing| standing.started)?;
    jobs.last_start(target)
        .map(|start| start + dependency.delay)
}

/// Keeps how a submission ended that others wait for, before it leaves memory.
pub(crate) fn keep_facts(jobs: &mut Jobs, aside: &Aside, base: JobId) {
    let Some(awaited) = jobs.dependencies.dependents.get(&base) else {
        return;
    };
    let waiters: BTreeSet<Waiter> = awaited.whole.union(&awaited.tasks).copied().collect();
    for waiter in waiters {
        for target in jobs.targets_of(waiter, base) {
            if let Some(standing) = standing(jobs, aside, target)
                && standing.ended
            {
                jobs.dependencies.facts.insert(target, standing.ok);
            }
        }
    }
    let start = jobs.group(&base).and_then(|group| group.last_start);
    jobs.dependencies
        .last_starts
        .extend(start.map(|start| (base, start)));
}

impl Jobs {
    /// What a waiter waits for of a submission.
    fn targets_of(&self, waiter: Waiter, base: JobId) -> BTreeSet<JobRef> {
        let mut targets = BTreeSet::new();
        let Some((submitted, members)) = self.waiting(waiter) else {
            return targets;
        };
        let here = submitted.spec.dependencies.iter();
        let here = here.filter(|d| d.kind != DependencyKind::Singleton);
        let mut each = false;
        for dependency in here.filter(|d| self.base_of(d.job) == base) {
            match waits_by_task(dependency) {
                true => each = true,
                false => drop(targets.insert(target_of(None, dependency))),
            }
        }
        if each {
            let own = |index: u32| JobRef {
                job: base,
                task: Some(index),
            };
            targets.extend(members.into_iter().flat_map(TaskIndices::iter).map(own));
        }
        targets
    }

    /// What those who wait ask for, and the indices of their array.
    fn waiting(&self, waiter: Waiter) -> Option<(&Submitted, Option<&TaskIndices>)> {
        let group = self.group(&waiter.base)?;
        let body = group.bodies.get(&waiter.body)?;
        Some((&body.submitted, group.indices.as_ref()))
    }
}

/// From now on those who wait are looked at when something happens to what they wait for.
pub(crate) fn wait_for_others(
    jobs: &mut Jobs,
    aside: &Aside,
    waiter: Waiter,
    submitted: &Submitted,
) {
    for dependency in &submitted.spec.dependencies {
        if dependency.kind == DependencyKind::Singleton {
            continue;
        }
        let by = jobs.dependencies.named.entry(dependency.job).or_default();
        by.insert(waiter);
        let base = jobs.base_of(dependency.job);
        if !jobs.groups.contains_key(&base) {
            keep_fact(jobs, aside, dependency);
            continue; // nothing happens to it any more
        }
        let awaited = jobs.dependencies.dependents.entry(base).or_default();
        let task = dependency.task.is_some() || waits_by_task(dependency);
        match task || dependency.job != base {
            true => awaited.tasks.insert(waiter),
            false => awaited.whole.insert(waiter),
        };
    }
}

/// Keeps how a job ended that has just been named, before it leaves memory.
fn keep_fact(jobs: &mut Jobs, aside: &Aside, dependency: &Dependency) {
    let target = target_of(None, dependency);
    if waits_by_task(dependency) || jobs.dependencies.facts.contains_key(&target) {
        return;
    }
    if let Some(standing) = standing(jobs, aside, target).filter(|standing| standing.ended) {
        jobs.dependencies.facts.insert(target, standing.ok);
    }
}

impl Jobs {
    /// They wait no longer.
    pub(crate) fn wait_no_longer(&mut self, waiter: Waiter, submitted: &Submitted) {
        for dependency in &submitted.spec.dependencies {
            if let Some(by) = self.dependencies.named.get_mut(&dependency.job) {
                by.remove(&waiter);
                if by.is_empty() {
                    self.dependencies.named.remove(&dependency.job);
                }
            }
            let base = self.base_of(dependency.job);
            if let Some(awaited) = self.dependencies.dependents.get_mut(&base) {
                awaited.whole.remove(&waiter);
                awaited.tasks.remove(&waiter);
                if awaited.whole.is_empty() && awaited.tasks.is_empty() {
                    self.dependencies.dependents.remove(&base);
                }
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
                && self.submitted_of(target).is_none()
            {
                self.dependencies.facts.insert(target, ok);
            }
        }
    }

    /// Has all those looked at again that depend on a job that has started or ended.
    pub(crate) fn review_dependents(&mut self, progress: Progress) {
        let Some(awaited) = self.dependencies.dependents.get(&progress.base) else {
            return;
        };
        let mut again: Vec<Again> = Vec::new();
        if progress.whole {
            again.extend(awaited.whole.iter().map(|waiter| waiter.again()));
        }
        let tasks = awaited.tasks.iter();
        again.extend(tasks.filter_map(|waiter| self.concerned(*waiter, progress)));
        for again in again {
            self.reviews.push(again);
        }
    }

    /// Whom of those who wait for tasks of a submission the progress of one of them concerns.
    fn concerned(&self, waiter: Waiter, progress: Progress) -> Option<Again> {
        let group = self.group(&waiter.base)?;
        let submitted = &group.bodies.get(&waiter.body)?.submitted;
        let mut same_index = false;
        for dependency in &submitted.spec.dependencies {
            let task = dependency.task.filter(|_| dependency.job == progress.base);
            let named = task.is_some() && task == progress.index;
            if named || dependency.job == progress.id && dependency.task.is_none() {
                return Some(waiter.again());
            }
            same_index |= waits_by_task(dependency) && dependency.job == progress.base;
        }
        let (id, _) = group.task(progress.index.filter(|_| same_index)?)?;
        Some(Again::Job(id))
    }
}

/// A job that had ended waits again: how it ended is no longer true, and those who depend
/// on it wait for its next end, also those who waited for nothing any more.
pub(crate) fn lives_again(jobs: &mut Jobs, aside: &Aside, base: JobId) {
    let Some(group) = jobs.group(&base) else {
        return;
    };
    let ids = group.fates.len() + group.submitted.spec.further_components.len();
    let end = JobId(base.0 + ids as u64);
    let all = |job| JobRef { job, task: None };
    let known = jobs.dependencies.facts.range(all(base)..all(end));
    let known: Vec<JobRef> = known.map(|(target, _)| *target).collect();
    for target in known {
        jobs.dependencies.facts.remove(&target);
    }
    let by = jobs
        .dependencies
        .named
        .range(base..end)
        .flat_map(|(_, by)| by);
    let by: BTreeSet<Waiter> = by.copied().collect();
    for waiter in by {
        let group = jobs.group(&waiter.base);
        let body = group.and_then(|group| group.bodies.get(&waiter.body));
        if let Some(submitted) = body.map(|body| body.submitted.clone()) {
            wait_for_others(jobs, aside, waiter, &submitted);
            jobs.reviews.push(Again::Changed(waiter));
        }
    }
}

impl Jobs {
    /// Has those looked at that wait for a job that has just started.
    pub(crate) fn tell_of_start(&mut self, id: JobId) {
        let Some(job) = self.get(&id) else {
            return;
        };
        let base = job.submitted.base;
        self.review_dependents(Progress {
            base,
            id,
            index: job.member.map(|member| member.index),
            whole: self.group(&base).is_some_and(Group::all_touched),
        });
    }
}

/// The job as the planner knows it.
pub(crate) fn planner_job(rooms: &Rooms, job: &Job) -> Option<WaitingJob> {
    planner_job_at(rooms, job, &job.submitted.place)
}

/// Where a waiting job stands in the line of its queue; `None` where it can be in none.
pub(crate) fn key_at(rooms: &Rooms, job: &Job, place: &Place) -> Option<OrderKey> {
    let Place::Good { queue, level, .. } = place else {
        return None;
    };
    let queues = &rooms.queues;
    Some(order::of_job(
        queues.scores(),
        queues.get(*queue).spec(),
        *level,
        (job, no_place(queues, &rooms.policy, job).is_some()),
        queues.date_in_line(&job.submitted),
    ))
}

/// The same, if it stood elsewhere.
pub(crate) fn planner_job_at(rooms: &Rooms, job: &Job, place: &Place) -> Option<WaitingJob> {
    let (config, queues) = (&rooms.config, &rooms.queues);
    let Place::Good {
        queue,
        level: _,
        demand,
        limit,
        least: _,
    } = place
    else {
        return None;
    };
    let (queue_in, limit) = match job.spec().reservation {
        // Inside a reservation there is one queue.
        Some(_) => (QueueId(0), rooms.reservations.limit_inside(job, *limit)),
        None => (planner_queue(config, queues, job.spec(), *queue), with_clearance(config, *limit)),
    };
    Some(WaitingJob {
        key: key_at(rooms, job, place)?,
        queue: queue_in,
        demand: demand.clone(),
        limit,
        holds: rooms.planning.pools().holds_of(job.spec()),
    })
}

impl Jobs {
    /// Jobs whose begin time has come, tasks of arrays in the order of their indices.
    pub(crate) fn begin_due(&mut self, now: Time) {
        let mut due = Vec::new();
        while let Some(&(begin, id)) = self.begins.first()
            && begin <= now
            && due.len() < BEGINS
        {
            self.begins.pop_first();
            due.extend(self.get(&id).map(|job| (begin, job.rank(), id)));
        }
        due.sort_unstable();
        for (_, _, id) in due {
            self.reviews.push(Again::Job(id));
        }
    }
}
