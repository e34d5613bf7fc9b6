//! Changes of jobs: of waiting ones all that was asked for, of running ones the time limit
//! and what is only recorded. Source: scontrol(1), "update" of jobs.

use crate::check::check_spec;
use crate::columns;
use crate::controller::Controller;
use crate::event::Caller;
use crate::job::{Job, Submitted};
use crate::record::HeldBy;
use crate::steer::runs_already;
use cosy_model::api::{JobChange, JobFilter, Reply};
use cosy_model::node::NodeOrder;
use cosy_model::{About, JobId, JobSpec, OsText, Program, Refusal, RefusalCode, Span, Time};
use std::sync::Arc;

impl Controller {
    /// Of a job that holds nodes only what does not concern them can be changed.
    pub(crate) fn change_running(
        &mut self,
        now: Time,
        caller: &Caller,
        id: JobId,
        change: &JobChange,
    ) -> Result<(), Refusal> {
        let Some(job) = self.jobs.get(&id) else {
            return Ok(());
        };
        let fine = JobChange {
            name: change.name.clone(),
            account: change.account.clone(),
            comment: change.comment.clone(),
            admin_comment: change.admin_comment.clone(),
            qos: change.qos.clone(),
            wckey: change.wckey.clone(),
            requeue: change.requeue,
            mail: change.mail.clone(),
            time_limit: change.time_limit,
            at_once: change.at_once,
            nodes: change.nodes,
            keep_nodes: change.keep_nodes.clone(),
            ..JobChange::default()
        };
        let left = match *change == fine {
            true => self.nodes_left(id, change)?,
            false => None,
        };
        let over = job.run().is_none_or(|run| run.after.is_some());
        if *change != fine || over && change.time_limit.is_some() {
            return Err(runs_already(&self.name_of(id)));
        }
        let plain = JobChange {
            at_once: change.at_once,
            ..JobChange::default()
        };
        if *change == plain {
            return Ok(()); // what belongs to the array is done
        }
        let mut spec = job.spec().clone();
        apply(&mut spec, change);
        check_spec(&spec)?;
        if let Some(limit) = change.time_limit {
            self.limit_running(caller, id, limit)?;
        }
        if let Some(left) = left {
            self.leave_nodes(now, caller, id, &left);
        }
        self.rewrite(id, change);
        self.save_job(id);
        let who = &caller.user.name;
        self.happened(now, "changed", who, format!("job {id}"), String::new());
        Ok(())
    }

    /// What is asked for becomes another one, and nothing else.
    fn rewrite(&mut self, id: JobId, change: &JobChange) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let old = &job.submitted;
        let mut spec = old.spec.clone();
        // Its name may be one that others wait for.
        let change = JobChange {
            at_once: None,
            nodes: None, // should it run again, then as at first
            ..change.clone()
        };
        apply(&mut spec, &change);
        job.submitted = Arc::new(Submitted {
            base: old.base,
            uid: old.uid,
            gid: old.gid,
            user: old.user.clone(),
            submit: old.submit,
            spec,
            queue: old.queue.clone(),
            place: old.place.clone(),
            flow: old.flow,
            only: None,
        });
        job.own = true;
    }

    /// Another limit for a running job: a shorter one, or any from an administrator.
    fn limit_running(&mut self, caller: &Caller, id: JobId, limit: Span) -> Result<(), Refusal> {
        let old = self.jobs.get(&id).and_then(Job::run).map(|run| run.limit);
        if old.is_some_and(|old| limit > old) {
            self.require_admin(caller, "make the time limit of a running job longer")
                .map_err(|refusal| refusal.about(About::TimeLimit))?;
        }
        let Some(job) = self.jobs.get_mut(&id) else {
            return Ok(());
        };
        let key = job.key();
        let Some(run) = job.run_mut() else {
            return Ok(());
        };
        run.limit = limit;
        let nodes = run.shares();
        self.expect_held_end(id);
        self.plan_end_again(id);
        for share in nodes {
            self.order(share.node, |node| NodeOrder::Limit { key, node, limit });
        }
        Ok(())
    }

    /// A user may only give a priority that is lower than the present one.
    pub(crate) fn may_prioritize(
        &self,
        caller: &Caller,
        job: &Job,
        change: &JobChange,
    ) -> Result<(), Refusal> {
        let Some(priority) = change.priority.map(i64::from) else {
            return Ok(());
        };
        let present = columns::priority(job.spec(), job.submitted.base);
        if priority <= present && job.held.is_none() || priority == 0 {
            return Ok(());
        }
        self.require_admin(caller, "raise the priority of a job")
            .map_err(|refusal| refusal.about(About::Priority))
    }

    /// Priority 0 holds a job, another one lets it go.
    pub(crate) fn hold_by_priority(&mut self, caller: &Caller, id: JobId, change: &JobChange) {
        let by = match self.is_admin(caller) {
            true => HeldBy::Admin,
            false => HeldBy::User,
        };
        if let (Some(priority), Some(job)) = (change.priority, self.jobs.get_mut(&id)) {
            job.held = (priority == 0).then(|| by.upon(job.held));
            self.save_job(id);
        }
    }

    /// Puts waiting jobs before the other waiting jobs of their users.
    pub(crate) fn top(
        &mut self,
        now: Time,
        caller: &Caller,
        filter: &JobFilter,
    ) -> Result<Reply, Refusal> {
        self.require_admin(caller, "put jobs on top")
            .map_err(|refusal| refusal.about(About::Priority))?;
        self.each_chosen(caller, filter, |it, id| it.put_on_top(now, caller, id))
    }

    fn put_on_top(&mut self, now: Time, caller: &Caller, id: JobId) -> Result<(), Refusal> {
        let Some(job) = self.jobs.get(&id).filter(|job| job.is_waiting()) else {
            let why = format!("job {} does not wait", self.name_of(id));
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Running));
        };
        let uid = job.submitted.uid;
        let others = self.jobs.values();
        let others = others.filter(|j| j.is_waiting() && j.submitted.uid == uid && j.id != id);
        let best = others.map(|j| columns::priority(j.spec(), j.submitted.base));
        let above = best.max().unwrap_or(0).saturating_add(1);
        let nice = job.spec().nice;
        let own = columns::priority(job.spec(), job.submitted.base).max(above);
        let priority = own.saturating_add(nice).clamp(1, i64::from(u32::MAX));
        let change = JobChange {
            priority: u32::try_from(priority).ok(),
            ..JobChange::default()
        };
        self.change_one(now, caller, id, &change)
    }
}

/// Refuses what could be left of no job: the change is judged as what it makes of a plain one.
///
/// # Errors
/// As [`check_spec`].
pub(crate) fn check(change: &JobChange) -> Result<(), Refusal> {
    let mut plain = JobSpec::plain("job", Program::Allocation, OsText::from("/"));
    apply(&mut plain, change);
    check_spec(&plain)
}

pub(crate) fn apply(spec: &mut JobSpec, change: &JobChange) {
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
    if change.queue.is_some() {
        spec.queues.clear();
    }
    set_some(&mut spec.account, &change.account);
    set(&mut spec.comment, &change.comment);
    set(&mut spec.admin_comment, &change.admin_comment);
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
    let request = &mut spec.request;
    set(&mut request.require, &change.require);
    set(&mut request.exclusive, &change.exclusive);
    set_some(&mut request.max_nodes, &change.max_nodes);
    set_some(&mut request.tasks_per_node, &change.tasks_per_node);
    set(&mut request.disk_per_node, &change.disk_per_node);
    set(&mut request.gpus_per_node, &change.gpus_per_node);
    if change.gpus_per_node.is_some() {
        request.gpus_in_all = None;
    }
    set(&mut request.other_per_node, &change.other_per_node);
    set(&mut request.any_features, &change.any_features);
    set(&mut request.same_features, &change.same_features);
    set(&mut request.counted_features, &change.counted_features);
    set(&mut spec.licenses, &change.licenses);
    set_some(&mut spec.deadline, &change.deadline);
    set_some(&mut spec.time_min, &change.time_min);
    set_some(&mut spec.reservation, &change.reservation);
    set(&mut spec.any_dependency, &change.any_dependency);
    set_some(&mut spec.stdout, &change.stdout);
    set_some(&mut spec.stderr, &change.stderr);
    set_some(&mut spec.stdin, &change.stdin);
    set(&mut spec.workdir, &change.workdir);
    set(&mut spec.mail, &change.mail);
    if let Some(priority) = change.priority.filter(|p| *p > 0) {
        spec.priority = Some(priority);
    }
    for (to, from) in [
        (&mut spec.qos, &change.qos),
        (&mut spec.wckey, &change.wckey),
    ] {
        if let Some(word) = from {
            *to = Some(word.clone()).filter(|word| !word.is_empty());
        }
    }
}
