//! Changes of running jobs, and what a change leaves of a waiting one.

use crate::controller::Controller;
use crate::conversations::bulk::{BulkRequest, Work};
use crate::event::{Caller, ClientId};
use crate::jobs::job::{Job, Submitted};
use crate::procedures::change::apply;
use crate::procedures::check::check_spec;
use crate::procedures::steer::runs_already;
use crate::queues::order;
use crate::record::HeldBy;
use cosy_model::api::{JobChange, JobFilter, Reply};
use cosy_model::node::NodeOrder;
use cosy_model::{About, JobId, Refusal, RefusalCode, Span, Time};
use std::sync::Arc;

impl Controller {
    /// Of a job that holds nodes only what does not concern them can be changed.
    pub(crate) fn change_running(
        &mut self,
        now: Time,
        bulk: &mut BulkRequest,
        id: JobId,
        change: &JobChange,
    ) -> Result<(), Refusal> {
        let caller = &bulk.caller.clone();
        let Some(job) = self.jobs.get(&id) else {
            return Ok(());
        };
        // To hold what runs changes nothing.
        let change = &JobChange {
            priority: change.priority.filter(|priority| *priority > 0),
            ..change.clone()
        };
        self.may_prioritize(caller, &job.submitted, None, change)?;
        let fine = JobChange {
            name: change.name.clone(),
            account: change.account.clone(),
            comment: change.comment.clone(),
            admin_comment: change.admin_comment.clone(),
            qos: change.qos.clone(),
            wckey: change.wckey.clone(),
            priority: change.priority,
            nice: change.nice,
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
            return Ok(()); // nothing is left, or what belongs to the array, which is done
        }
        let old = job.submitted.clone();
        let new = self.rewritten(bulk, &old, change)?;
        if let Some(limit) = change.time_limit {
            self.limit_running(caller, id, limit)?;
        }
        if let Some(left) = left {
            self.leave_nodes(now, caller, id, &left);
        }
        self.join_body(&new);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.own |= !Arc::ptr_eq(&old, &new);
            job.submitted = new;
        }
        self.leave_body(&old, false);
        self.steered(bulk, id);
        Ok(())
    }

    /// What is asked for becomes another one, and nothing else: it stays where it is. Made once
    /// for all jobs that ask for the same.
    fn rewritten(
        &mut self,
        bulk: &mut BulkRequest,
        old: &Arc<Submitted>,
        change: &JobChange,
    ) -> Result<Arc<Submitted>, Refusal> {
        let key = (old.base, old.body);
        if let Some(number) = bulk.rewritten.get(&key)
            && let Some(group) = self.jobs.group(&old.base)
            && let Some(body) = group.bodies.get(number)
        {
            return Ok(body.submitted.clone());
        }
        let mut spec = old.spec.clone();
        let change = JobChange {
            at_once: None,
            nodes: None, // should it run again, then as at first
            ..change.clone()
        };
        apply(&mut spec, &change);
        check_spec(&spec)?;
        if spec == old.spec {
            return Ok(old.clone());
        }
        let new = self.new_body(old, spec, old.queue.clone(), old.place.clone());
        bulk.rewritten.insert(key, new.body);
        Ok(new)
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
        (run.limit, run.cut) = (limit, Span::ZERO);
        let nodes = run.shares();
        self.expect_held_end(id);
        self.plan_end_again(id);
        for share in nodes {
            self.order(share.node, |node| NodeOrder::Limit { key, node, limit });
        }
        Ok(())
    }

    /// A job that is held has none until it is released. A user may only give one that is lower
    /// than the present one.
    pub(crate) fn may_prioritize(
        &self,
        caller: &Caller,
        job: &Submitted,
        held: Option<HeldBy>,
        change: &JobChange,
    ) -> Result<(), Refusal> {
        let Some(priority) = change.priority.map(i64::from) else {
            return Ok(());
        };
        if priority == 0 {
            return Ok(());
        }
        if held.is_some() {
            let why = format!(
                "job {} is held: release it, then it can have a priority",
                job.base
            );
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Held));
        }
        if priority <= order::priority(&job.spec, job.base) {
            return Ok(());
        }
        self.require_admin(caller, "raise the priority of a job")
            .map_err(|refusal| refusal.about(About::Priority))
    }

    /// Priority 0 holds a job, another one lets it go. `None`: it stays as it is.
    pub(crate) fn held_by_priority(
        &self,
        caller: &Caller,
        held: Option<HeldBy>,
        change: &JobChange,
    ) -> Option<Option<HeldBy>> {
        let by = match self.is_admin(caller) {
            true => HeldBy::Admin,
            false => HeldBy::User,
        };
        let priority = change.priority?;
        Some((priority == 0).then(|| by.upon(held)))
    }

    /// Puts waiting jobs before the other waiting jobs of their users.
    pub(crate) fn top(
        &mut self,
        now: Time,
        client: (ClientId, Option<[u8; 16]>),
        caller: &Caller,
        filter: JobFilter,
    ) -> Result<Option<Reply>, Refusal> {
        self.require_admin(caller, "put jobs on top")
            .map_err(|refusal| refusal.about(About::Priority))?;
        self.each_in_pieces(now, client, caller, filter, Work::Top)
    }

    pub(crate) fn put_on_top(
        &mut self,
        now: Time,
        bulk: &mut BulkRequest,
        id: JobId,
    ) -> Result<(), Refusal> {
        let Some(job) = self.jobs.get(&id).filter(|job| job.is_waiting()) else {
            let why = format!("job {} does not wait", self.name_of(id));
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Running));
        };
        let key = (job.submitted.base, job.submitted.body);
        let priority = match bulk.tops.get(&key) {
            Some(priority) => *priority,
            None => self.above_others(job),
        };
        // Tasks that are alike go on top together, in the order of their indices.
        bulk.tops.insert(key, priority);
        let change = JobChange {
            priority,
            ..JobChange::default()
        };
        self.change_one(now, bulk, id, &change)
    }

    /// A priority above those of the other waiting jobs of the same user.
    fn above_others(&self, job: &Job) -> Option<u32> {
        let uid = job.submitted.uid;
        let others = self.jobs.all();
        let others = others.filter(|j| j.is_waiting() && j.submitted.uid == uid && j.id != job.id);
        let best = others.map(|j| order::priority(j.spec(), j.submitted.base));
        let above = best.max().unwrap_or(0).saturating_add(1);
        let own = order::priority(job.spec(), job.submitted.base).max(above);
        let priority = own.saturating_add(job.spec().nice);
        u32::try_from(priority.clamp(1, i64::from(u32::MAX))).ok()
    }
}
