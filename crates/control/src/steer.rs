//! Cancel, hold, release, requeue, change.

use crate::controller::Controller;
use crate::event::{Caller, Facts};
use crate::job::{Job, Phase, Place, Submitted};
use crate::record::{AfterRun, HeldBy, Record};
use cosy_model::api::{JobChange, JobFilter, Reply};
use cosy_model::node::{KillCause, NodeOrder};
use cosy_model::{End, EndCause, JobId, JobSpec, Refusal, RefusalCode, Span, Time, User, limits};
use std::sync::Arc;

/// Which jobs a filter names, and what was named but cannot be touched.
struct Chosen {
    ids: Vec<JobId>,
    refused: Vec<(String, Refusal)>,
}

impl Controller {
    fn choose(&self, caller: &Caller, filter: &JobFilter) -> Result<Chosen, Refusal> {
        if filter.is_empty() {
            return Err(Refusal::invalid(
                "no job is named: give ids, or a user, queue, name or state",
            ));
        }
        if filter.ids.len() > limits::IDS_IN_REQUEST {
            return Err(Refusal::invalid("too many ids in one request"));
        }
        let mut chosen = Chosen {
            ids: Vec::new(),
            refused: Vec::new(),
        };
        if filter.ids.is_empty() {
            let passes = |j: &&Job| self.passes(filter, j) && self.may_touch(caller, &j.submitted);
            chosen.ids = self.jobs.values().filter(passes).map(|j| j.id).collect();
            return Ok(chosen);
        }
        for target in &filter.ids {
            let ids = self.ids_of(*target);
            let mut live = Vec::new();
            let mut why = None;
            for id in &ids {
                match self.touch(caller, *id) {
                    Ok(job) if self.passes(filter, job) => live.push(*id),
                    Ok(_) => {}
                    Err(refusal) => why = Some(refusal),
                }
            }
            if ids.is_empty() {
                why = Some(crate::request::no_job(*target));
            }
            if live.is_empty()
                && let Some(refusal) = why
            {
                chosen.refused.push((target.to_string(), refusal));
            }
            chosen.ids.extend(live);
        }
        Ok(chosen)
    }

    fn touch(&self, caller: &Caller, id: JobId) -> Result<&Job, Refusal> {
        let Some(job) = self.jobs.get(&id) else {
            return Err(Refusal::new(
                RefusalCode::WrongState,
                format!("job {} has already ended", self.name_of(id)),
            ));
        };
        if !self.may_touch(caller, &job.submitted) {
            return Err(Refusal::new(
                RefusalCode::Forbidden,
                format!("job {} belongs to somebody else", self.name_of(id)),
            ));
        }
        Ok(job)
    }

    pub(crate) fn cancel(
        &mut self,
        now: Time,
        caller: &Caller,
        filter: &JobFilter,
        signal: Option<i32>,
        script_only: bool,
    ) -> Result<Reply, Refusal> {
        if let Some(signal) = signal
            && !(1..=64).contains(&signal)
        {
            return Err(Refusal::invalid(format!("there is no signal {signal}")));
        }
        let Chosen { ids, mut refused } = self.choose(caller, filter)?;
        let mut changed = 0;
        for id in ids {
            let done = match signal {
                Some(signal) => self.signal_job(id, signal, script_only),
                None => {
                    self.cancel_job(now, id, &caller.user.name);
                    Ok(())
                }
            };
            match done {
                Ok(()) => changed += 1,
                Err(_) if filter.ids.is_empty() => {}
                Err(refusal) => refused.push((self.name_of(id), refusal)),
            }
        }
        Ok(Reply::Done { changed, refused })
    }

    fn signal_job(&mut self, id: JobId, signal: i32, script_only: bool) -> Result<(), Refusal> {
        let running = self
            .jobs
            .get(&id)
            .and_then(|j| Some((j.key(), j.run()?.first()?)));
        let Some((key, first)) = running else {
            return Err(Refusal::new(
                RefusalCode::WrongState,
                format!(
                    "job {} does not run: there is nothing to send a signal to",
                    self.name_of(id)
                ),
            ));
        };
        self.order(first, |node| NodeOrder::Signal {
            key,
            node,
            signal,
            script_only,
        });
        Ok(())
    }

    pub(crate) fn cancel_job(&mut self, now: Time, id: JobId, who: &str) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let note = format!("cancelled by {who}");
        match &mut job.phase {
            Phase::Waiting(_) => {
                let end = End::never_ran(EndCause::Cancelled, now);
                self.uncount_job(now, id);
                self.happened(now, "cancelled", who, format!("job {id}"), String::new());
                self.end_job(now, id, &end, &note);
            }
            Phase::Run(_) => {
                self.happened(now, "cancelled", who, format!("job {id}"), String::new());
                self.kill_job(now, id, KillCause::Cancelled);
            }
        }
    }

    /// Ends a job that holds nodes.
    fn kill_job(&mut self, now: Time, id: JobId, cause: KillCause) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let key = job.key();
        let Some(run) = job.run_mut() else { return };
        if let Some(AfterRun::Requeue) = &run.after
            && cause == KillCause::Cancelled
        {
            let end = End::never_ran(EndCause::Cancelled, now);
            run.after = Some(AfterRun::End(end));
            run.killed = Some(cause);
            return self.save_job(id);
        }
        if run.after.is_some() || run.killed == Some(KillCause::Cancelled) {
            return;
        }
        run.killed = Some(cause);
        let (launched, first) = (run.launched, run.first());
        self.save_job(id);
        match first {
            Some(first) if launched => {
                self.order(first, |node| NodeOrder::Kill { key, node, cause });
            }
            _ => {
                let after = match cause {
                    KillCause::Requeued => AfterRun::Requeue,
                    KillCause::Cancelled | KillCause::TimeLimit | KillCause::Superseded => {
                        AfterRun::End(End::never_ran(EndCause::Cancelled, now))
                    }
                };
                self.abandon(now, id, after, None);
            }
        }
    }

    pub(crate) fn requeue(
        &mut self,
        now: Time,
        caller: &Caller,
        filter: &JobFilter,
    ) -> Result<Reply, Refusal> {
        let Chosen { ids, mut refused } = self.choose(caller, filter)?;
        let mut changed = 0;
        for id in ids {
            if self.jobs.get(&id).is_some_and(Job::is_waiting) {
                let name = self.name_of(id);
                let why = format!("job {name} waits already");
                refused.push((name, Refusal::new(RefusalCode::WrongState, why)));
                continue;
            }
            let who = caller.user.name.clone();
            self.happened(now, "requeue", &who, format!("job {id}"), String::new());
            self.kill_job(now, id, KillCause::Requeued);
            changed += 1;
        }
        Ok(Reply::Done { changed, refused })
    }

    pub(crate) fn hold(
        &mut self,
        now: Time,
        caller: &Caller,
        filter: &JobFilter,
    ) -> Result<Reply, Refusal> {
        self.each_waiting(now, caller, filter, "held", |job, admin| {
            let by = if admin && job.submitted.uid != caller.user.uid {
                HeldBy::Admin
            } else {
                HeldBy::User
            };
            job.held = Some(by);
            Ok(())
        })
    }

    pub(crate) fn release(
        &mut self,
        now: Time,
        caller: &Caller,
        filter: &JobFilter,
    ) -> Result<Reply, Refusal> {
        self.each_waiting(now, caller, filter, "released", |job, admin| {
            if job.held == Some(HeldBy::Admin) && !admin {
                return Err(Refusal::new(
                    RefusalCode::Forbidden,
                    format!("job {} is held by an administrator", job.id),
                ));
            }
            job.held = None;
            Ok(())
        })
    }

    /// Changes waiting jobs one by one.
    fn each_waiting(
        &mut self,
        now: Time,
        caller: &Caller,
        filter: &JobFilter,
        word: &str,
        mut change: impl FnMut(&mut Job, bool) -> Result<(), Refusal>,
    ) -> Result<Reply, Refusal> {
        let admin = self.is_admin(caller);
        let Chosen { ids, mut refused } = self.choose(caller, filter)?;
        let mut changed = 0;
        for id in ids {
            let name = self.name_of(id);
            let Some(job) = self.jobs.get_mut(&id) else {
                continue;
            };
            let done = if job.is_waiting() {
                change(job, admin)
            } else {
                Err(runs_already(&name))
            };
            if let Err(refusal) = done {
                refused.push((self.name_of(id), refusal));
                continue;
            }
            changed += 1;
            self.save_job(id);
            self.happened(
                now,
                word,
                &caller.user.name,
                format!("job {id}"),
                String::new(),
            );
            self.review(now, id);
        }
        Ok(Reply::Done { changed, refused })
    }

    pub(crate) fn change(
        &mut self,
        now: Time,
        caller: &Caller,
        filter: &JobFilter,
        change: &JobChange,
        facts: &Facts,
    ) -> Result<Reply, Refusal> {
        if change.nice.is_some_and(|n| n < 0) {
            self.require_admin(caller, "use a negative nice value")?;
        }
        if let Some(dependencies) = &change.dependencies {
            self.check_dependencies(caller, dependencies, facts)?;
            self.learn_facts(dependencies, facts);
        }
        check_change(change)?;
        let Chosen { ids, mut refused } = self.choose(caller, filter)?;
        let mut changed = 0;
        self.change_throttles(now, &ids, change);
        for id in ids {
            match self.change_one(now, caller, id, change) {
                Ok(()) => changed += 1,
                Err(refusal) => refused.push((self.name_of(id), refusal)),
            }
        }
        Ok(Reply::Done { changed, refused })
    }

    /// `at_once` belongs to the array as a whole.
    fn change_throttles(&mut self, now: Time, ids: &[JobId], change: &JobChange) {
        let Some(at_once) = change.at_once else {
            return;
        };
        let mut bases: Vec<JobId> = ids.iter().map(|id| self.base_of(*id)).collect();
        bases.dedup();
        for base in bases {
            let Some(group) = self.groups.get_mut(&base) else {
                continue;
            };
            group.at_once = (at_once > 0).then_some(at_once);
            let row = group.row();
            self.record(Record::Changed(Box::new(row)));
            self.refill_array(now, base);
        }
    }

    fn change_one(
        &mut self,
        now: Time,
        caller: &Caller,
        id: JobId,
        change: &JobChange,
    ) -> Result<(), Refusal> {
        let Some(job) = self.jobs.get(&id) else {
            return Ok(());
        };
        if !job.is_waiting() {
            if *change
                == (JobChange {
                    at_once: change.at_once,
                    ..JobChange::default()
                })
            {
                return Ok(());
            }
            return Err(runs_already(&self.name_of(id)));
        }
        let old = job.submitted.clone();
        let mut spec = old.spec.clone();
        apply(&mut spec, change);
        let queue = self.find_queue(change.queue.as_deref().or(Some(&old.queue)))?;
        let moved = self.queues[queue.index()].spec.name != old.queue;
        let owner = self.owner(caller, &old);
        if moved {
            let as_owner = Caller {
                user: owner.clone(),
                resolved: true,
                via: None,
            };
            self.may_submit(&as_owner, queue, 1)?;
        }
        let place = self.place(&spec, queue, &owner)?;
        self.replace(id, &old, spec, queue, place);
        let who = caller.user.name.clone();
        self.happened(now, "changed", &who, format!("job {id}"), String::new());
        self.review(now, id);
        Ok(())
    }

    /// The job's user as far as known.
    fn owner(&self, caller: &Caller, job: &Submitted) -> User {
        if caller.user.uid == job.uid {
            return caller.user.clone();
        }
        match self.users.get(&job.uid) {
            Some(known) if !known.user.name.is_empty() => known.user.clone(),
            Some(_) | None => User {
                uid: job.uid,
                gid: job.gid,
                name: job.user.clone(),
                ..User::default()
            },
        }
    }

    fn replace(
        &mut self,
        id: JobId,
        old: &Arc<Submitted>,
        spec: JobSpec,
        queue: cosy_model::QueueId,
        place: Place,
    ) {
        if self.planner_of(id).dequeue(id) {
            self.count_queued(old.base, false);
        }
        self.inside.remove(&id);
        self.leave_queue(old);
        self.drop_dependencies_of(id, old);
        if let Some(begin) = old.spec.begin {
            self.begins.remove(&(begin, id));
        }
        let new = Arc::new(Submitted {
            base: old.base,
            uid: old.uid,
            gid: old.gid,
            user: old.user.clone(),
            submit: old.submit,
            queue: self.queues[queue.index()].spec.name.clone(),
            spec,
            place,
        });
        for dependency in &new.spec.dependencies {
            let target = self.base_of(dependency.job);
            self.dependents.entry(target).or_default().insert(id);
        }
        if let Some(begin) = new.spec.begin {
            self.begins.insert((begin, id));
        }
        self.count_in_queue(&new, 1);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.submitted = new;
            job.own = true;
        }
        self.save_job(id);
    }

    fn drop_dependencies_of(&mut self, id: JobId, old: &Submitted) {
        for dependency in &old.spec.dependencies {
            let base = self.base_of(dependency.job);
            if let Some(waiting) = self.dependents.get_mut(&base) {
                waiting.remove(&id);
            }
        }
    }
}

fn runs_already(name: &str) -> Refusal {
    Refusal::new(
        RefusalCode::WrongState,
        format!("job {name} does not wait any more: only waiting jobs can be held or changed"),
    )
}

fn check_change(change: &JobChange) -> Result<(), Refusal> {
    let texts = [
        ("name", change.name.as_ref(), limits::NAME_BYTES),
        ("account", change.account.as_ref(), limits::NAME_BYTES),
        ("comment", change.comment.as_ref(), limits::COMMENT_BYTES),
    ];
    for (what, text, most) in texts {
        if text.is_some_and(|t| t.len() > most) {
            return Err(Refusal::invalid(format!(
                "the {what} is longer than the {most} bytes allowed"
            )));
        }
    }
    if change
        .name
        .as_ref()
        .is_some_and(|n| n.is_empty() || n.chars().any(char::is_control))
    {
        return Err(Refusal::invalid(
            "a job name must not be empty and must not have control characters",
        ));
    }
    if change.time_limit.is_some_and(|t| t <= Span::ZERO) {
        return Err(Refusal::invalid("a time limit of 0 cannot be asked for"));
    }
    if change
        .nice
        .is_some_and(|n| n.unsigned_abs() > limits::NICE.unsigned_abs())
    {
        return Err(Refusal::invalid(format!(
            "nice is limited to {}",
            limits::NICE
        )));
    }
    if change
        .dependencies
        .as_ref()
        .is_some_and(|d| d.len() > limits::DEPENDENCIES)
    {
        return Err(Refusal::invalid(format!(
            "more than {} dependencies",
            limits::DEPENDENCIES
        )));
    }
    Ok(())
}

fn apply(spec: &mut JobSpec, change: &JobChange) {
    fn set<T: Clone>(to: &mut T, from: &Option<T>) {
        if let Some(value) = from {
            *to = value.clone();
        }
    }
    fn set_some<T: Clone>(to: &mut Option<T>, from: &Option<T>) {
        if from.is_some() {
            *to = from.clone();
        }
    }
    set(&mut spec.name, &change.name);
    set_some(&mut spec.queue, &change.queue);
    set_some(&mut spec.account, &change.account);
    set(&mut spec.comment, &change.comment);
    set_some(&mut spec.time_limit, &change.time_limit);
    set_some(&mut spec.request.nodes, &change.nodes);
    set_some(&mut spec.request.tasks, &change.tasks);
    set(&mut spec.request.cores_per_task, &change.cores_per_task);
    set(&mut spec.request.memory, &change.memory);
    set_some(&mut spec.begin, &change.begin);
    set(&mut spec.nice, &change.nice);
    set(&mut spec.requeue, &change.requeue);
    set(&mut spec.request.features, &change.features);
    set(&mut spec.request.prefer, &change.prefer);
    set(&mut spec.request.avoid, &change.avoid);
    set(&mut spec.request.sets, &change.sets);
    set(&mut spec.dependencies, &change.dependencies);
}
