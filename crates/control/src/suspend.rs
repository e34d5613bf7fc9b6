//! Jobs that are stopped for a while. They keep their nodes; the time in which they are
//! stopped does not count against their limit, and nothing is planned on its end.
//!
//! A node is told again when it registers: an order that was lost on the way is made good.
//! Source: scontrol(1), `suspend` and `resume`.

use crate::controller::Controller;
use crate::event::Caller;
use crate::job::Job;
use crate::steer::Chosen;
use cosy_model::api::{JobFilter, Reply};
use cosy_model::node::NodeOrder;
use cosy_model::{About, JobId, NodeId, Refusal, RefusalCode, Time};

impl Controller {
    pub(crate) fn suspend(
        &mut self,
        now: Time,
        caller: &Caller,
        filter: &JobFilter,
    ) -> Result<Reply, Refusal> {
        self.require_admin(caller, "suspend jobs")?;
        self.each_chosen(caller, filter, |it, id| {
            it.suspend_job(now, id, &caller.user.name)
        })
    }

    pub(crate) fn resume(
        &mut self,
        now: Time,
        caller: &Caller,
        filter: &JobFilter,
    ) -> Result<Reply, Refusal> {
        self.require_admin(caller, "resume jobs")?;
        self.each_chosen(caller, filter, |it, id| {
            it.resume_job(now, id, &caller.user.name)
        })
    }

    /// Does something to each chosen job.
    pub(crate) fn each_chosen(
        &mut self,
        caller: &Caller,
        filter: &JobFilter,
        mut act: impl FnMut(&mut Self, JobId) -> Result<(), Refusal>,
    ) -> Result<Reply, Refusal> {
        let Chosen { ids, mut refused } = self.choose(caller, filter)?;
        let mut changed = 0;
        for id in ids {
            match act(self, id) {
                Ok(()) => changed += 1,
                Err(refusal) => refused.push((self.name_of(id), refusal)),
            }
        }
        Ok(Reply::Done { changed, refused })
    }

    fn suspend_job(&mut self, now: Time, id: JobId, who: &str) -> Result<(), Refusal> {
        let name = self.name_of(id);
        let runs = self.jobs.get_mut(&id).and_then(Job::run_mut);
        let runs = runs.filter(|run| run.started.is_some() && run.after.is_none());
        let Some(run) = runs else {
            let why = format!("job {name} does not run: only running jobs can be suspended");
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Waiting));
        };
        if run.suspended.is_some() {
            let why = format!("job {name} is suspended already");
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Suspended));
        }
        let end = run.ends_at();
        run.suspended = Some(now);
        self.held_ends
            .retain(|held| Some(*held) != end.map(|at| (at, id)));
        self.suspension_changed(now, id, "suspended", who);
        Ok(())
    }

    fn resume_job(&mut self, now: Time, id: JobId, who: &str) -> Result<(), Refusal> {
        let name = self.name_of(id);
        let run = self.jobs.get_mut(&id).and_then(Job::run_mut);
        let Some((run, since)) = run.and_then(|run| run.suspended.map(|since| (run, since))) else {
            let why = format!("job {name} is not suspended");
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Suspended));
        };
        run.suspended = None;
        run.suspended_for = run.suspended_for + now.since(since);
        self.expect_held_end(id);
        self.suspension_changed(now, id, "resumed", who);
        Ok(())
    }

    /// The controller itself ends a job in which nothing is launched.
    pub(crate) fn expect_held_end(&mut self, id: JobId) {
        let held = self.jobs.get(&id).filter(|job| job.submitted.is_held());
        let run = held.and_then(Job::run).filter(|run| run.after.is_none());
        let end = run.and_then(|run| run.ends_at());
        self.held_ends.retain(|(_, held)| *held != id);
        self.held_ends.extend(end.map(|at| (at, id)));
    }

    fn suspension_changed(&mut self, now: Time, id: JobId, word: &str, who: &str) {
        self.plan_end_again(id);
        self.save_job(id);
        self.happened(now, word, who, format!("job {id}"), String::new());
        let run = self.jobs.get(&id).and_then(Job::run);
        let nodes = run.map(|run| run.shares()).unwrap_or_default();
        for share in nodes {
            self.order_suspension(share.node, id);
        }
    }

    /// The planner counts on another end of a running job.
    pub(crate) fn plan_end_again(&mut self, id: JobId) {
        let clearance = self.config.policy.clearance;
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let Some(run) = job.run() else { return };
        let begun = run.started.unwrap_or(run.allocated);
        let end = match run.suspended {
            Some(_) => Time::FAR,
            None => begun + run.limit + run.suspended_for + clearance,
        };
        let (shares, whole) = (run.shares(), job.submitted.is_exclusive());
        self.planner_of(id).end(id);
        self.run_again(id, shares, end, whole);
    }

    /// A node is told how a job on it stands.
    fn order_suspension(&mut self, node: NodeId, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let key = job.key();
        let stopped = job.run().is_some_and(|run| run.suspended.is_some());
        self.order(node, |node| match stopped {
            true => NodeOrder::Suspend { key, node },
            false => NodeOrder::Resume { key, node },
        });
    }

    /// A node has registered: orders may have been lost.
    pub(crate) fn repeat_suspensions(&mut self, node: NodeId) {
        let jobs: Vec<JobId> = self.nodes[node.index()].jobs.iter().copied().collect();
        for id in jobs {
            let run = self.jobs.get(&id).and_then(Job::run);
            let ever = run.is_some_and(|run| {
                run.after.is_none() && (run.suspended.is_some() || run.suspended_for.0 > 0)
            });
            if ever {
                self.order_suspension(node, id);
            }
        }
    }
}
