//! Jobs that are stopped for a while. They lend their cores to others and keep the rest:
//! memory, GPUs, licences. The time in which they are stopped does not count against their
//! limit, and nothing is planned on its end.
//!
//! A job that is to run on takes the same cores as before, as soon as nobody has them and
//! no reservation was promised them before the job's end. Until then nobody else is started
//! on them. So no core ever has two jobs, and promises hold.
//!
//! A node is told again when it registers: an order that was lost on the way is made good.
//! Source: scontrol(1), `suspend` and `resume`.

use crate::controller::Controller;
use crate::conversations::bulk::Work;
use crate::event::{Caller, ClientId};
use crate::jobs::job::{Job, Part, PartStep};
use cosy_model::api::{JobFilter, Reply};
use cosy_model::node::NodeOrder;
use cosy_model::{About, Amounts, JobId, MiB, NodeId, Refusal, RefusalCode, Span, Time};
use std::collections::BTreeSet;

impl Controller {
    pub(crate) fn suspend(
        &mut self,
        now: Time,
        client: (ClientId, Option<[u8; 16]>),
        caller: &Caller,
        filter: JobFilter,
    ) -> Result<Option<Reply>, Refusal> {
        self.require_admin(caller, "suspend jobs")?;
        self.each_in_pieces(now, client, caller, filter, Work::Suspend)
    }

    pub(crate) fn resume(
        &mut self,
        now: Time,
        client: (ClientId, Option<[u8; 16]>),
        caller: &Caller,
        filter: JobFilter,
    ) -> Result<Option<Reply>, Refusal> {
        self.require_admin(caller, "resume jobs")?;
        self.each_in_pieces(now, client, caller, filter, Work::Resume)
    }

    pub(crate) fn suspend_job(&mut self, now: Time, id: JobId, who: &str) -> Result<(), Refusal> {
        let name = self.name_of(id);
        let run = self.jobs.get(&id).and_then(Job::run);
        let lacking = run.and_then(|run| self.lacking(run, "suspend"));
        let lacking = lacking.map(|node| self.machine.name(node).to_owned());
        let Some(job) = self.jobs.get_mut(&id) else {
            return Ok(());
        };
        let whole = job.submitted.is_exclusive();
        let asked = job.submitted.asks_for_room();
        let runs = job.run_mut();
        let runs = runs.filter(|run| run.started.is_some() && run.after.is_none());
        let Some(run) = runs else {
            let why = format!("job {name} does not run: only running jobs can be suspended");
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Waiting));
        };
        if std::mem::take(&mut run.resuming) {
            self.suspension_changed(now, id, "suspended", who);
            return Ok(());
        }
        if run.suspended.is_some() {
            let why = format!("job {name} is suspended already");
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Suspended));
        }
        if let Some(node) = lacking {
            let why = format!(
                "job {name} runs on node {node}, whose noded is of a release that cannot suspend jobs: upgrade it"
            );
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Node));
        }
        let end = run.ends_at();
        run.suspended = Some(now);
        for part in &mut run.parts {
            part.kept = Some(kept(&part.amounts, whole && !asked));
        }
        if let Some(at) = end {
            self.jobs.end_held_no_more(at, id);
        }
        self.lend_cores(id);
        self.suspension_changed(now, id, "suspended", who);
        Ok(())
    }

    /// Others may have the cores of a job from now on.
    fn lend_cores(&mut self, id: JobId) {
        self.planning.lending.insert(id);
        let Some(run) = self.jobs.get(&id).and_then(Job::run) else {
            return;
        };
        let held = run.parts.iter().filter(|p| p.step != PartStep::Released);
        for part in held {
            let node = self.machine.node_mut(part.node);
            node.cores.give(&part.cores);
        }
    }

    /// Cores of a node that suspended jobs will want again.
    pub(crate) fn lent_cores(&self, node: NodeId) -> BTreeSet<u32> {
        let runs = self
            .planning
            .lending
            .iter()
            .filter_map(|id| self.jobs.get(id)?.run());
        let parts = runs.filter_map(|run| run.part(node));
        let lent = parts.filter(|part| part.step != PartStep::Released && part.kept.is_some());
        lent.flat_map(|part| part.cores.iter().copied()).collect()
    }

    pub(crate) fn resume_job(&mut self, now: Time, id: JobId, who: &str) -> Result<(), Refusal> {
        let name = self.name_of(id);
        let run = self.jobs.get_mut(&id).and_then(Job::run_mut);
        let Some(run) = run.filter(|run| run.suspended.is_some()) else {
            let why = format!("job {name} is not suspended");
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Suspended));
        };
        if run.resuming {
            return Ok(());
        }
        if !run.lends() {
            self.runs_on(now, id, who);
            return Ok(());
        }
        run.resuming = true;
        if !self.takes_cores_back(now, id, who) {
            self.suspension_changed(now, id, "resuming", who);
        }
        Ok(())
    }

    /// Jobs that wait for the cores that they have lent.
    pub(crate) fn resume_due(&mut self, now: Time) {
        let resuming = |id: &JobId| {
            let run = self.jobs.get(id).and_then(Job::run);
            run.is_some_and(|run| run.resuming)
        };
        let waiting: Vec<JobId> = self
            .planning
            .lending
            .iter()
            .copied()
            .filter(resuming)
            .collect();
        for id in waiting {
            self.takes_cores_back(now, id, "controller");
        }
    }

    /// Lets a job run on if nobody has its cores and no reservation will have them before
    /// its end. False when it has to wait.
    fn takes_cores_back(&mut self, now: Time, id: JobId, who: &str) -> bool {
        let Some(limit) = self.limit_on_return(now, id) else {
            return false;
        };
        let Some(job) = self.jobs.get(&id) else {
            return false;
        };
        let Some(run) = job.run() else { return false };
        let held = |p: &&Part| p.step != PartStep::Released;
        let parts = || run.parts.iter().filter(held);
        if parts().any(|p| self.machine.node(p.node).cores.holds_any(&p.cores)) {
            return false;
        }
        let (shares, whole) = (run.shares(), job.submitted.is_exclusive());
        let rest = Span((limit.0 - run.elapsed(now).0).max(1));
        let end = match limit.is_unlimited() {
            true => Time::FAR,
            false => now + self.config.policy.clearance + rest,
        };
        let end = self.inside_until(id).map_or(end, |call| end.min(call));
        let planner = self.planner_of(id);
        planner.end(id);
        let free = planner.is_free(now, &shares, end, whole);
        if free {
            self.has_cores_again(id, limit);
            self.runs_on(now, id, who);
        } else {
            self.plan_end_again(id);
        }
        free
    }

    /// The limit that a suspended job would go on with now: inside of a reservation it is
    /// over by the reservation's end. `None` when there is no time left.
    fn limit_on_return(&self, now: Time, id: JobId) -> Option<Span> {
        let run = self.jobs.get(&id)?.run()?;
        match self.inside_until(id) {
            Some(call) if call <= now => None,
            Some(call) => Some(run.limit.min(run.elapsed(now) + call.since(now))),
            None => Some(run.limit),
        }
    }

    /// By when a job inside of a reservation is told to end.
    fn inside_until(&self, id: JobId) -> Option<Time> {
        let within = self.planning.inside.get(&id)?;
        let reservation = self.reservations.get(*within)?;
        Some(self.last_call(reservation))
    }

    fn has_cores_again(&mut self, id: JobId, limit: Span) {
        self.planning.lending.remove(&id);
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let key = job.key();
        let Some(run) = job.run_mut() else { return };
        let shorter = run.limit != limit;
        (run.limit, run.resuming) = (limit, false);
        let mut nodes = Vec::new();
        for part in &mut run.parts {
            part.kept = None;
            if part.step != PartStep::Released {
                self.machine.node_mut(part.node).cores.mark(&part.cores);
                nodes.push(part.node);
            }
        }
        for node in nodes.into_iter().filter(|_| shorter) {
            self.order(node, |node| NodeOrder::Limit { key, node, limit });
        }
    }

    fn runs_on(&mut self, now: Time, id: JobId, who: &str) {
        let run = self.jobs.get_mut(&id).and_then(Job::run_mut);
        if let Some((run, since)) = run.and_then(|run| run.suspended.take().map(|at| (run, at))) {
            run.suspended_for = run.suspended_for + now.since(since);
        }
        self.expect_held_end(id);
        self.suspension_changed(now, id, "resumed", who);
    }

    /// The controller itself ends a job in which nothing is launched.
    pub(crate) fn expect_held_end(&mut self, id: JobId) {
        let held = self.jobs.get(&id).filter(|job| job.submitted.is_held());
        let run = held.and_then(Job::run).filter(|run| run.after.is_none());
        let end = run.and_then(|run| run.ends_at());
        self.jobs.end_held_at(end, id);
    }

    fn suspension_changed(&mut self, now: Time, id: JobId, word: &str, who: &str) {
        self.plan_end_again(id);
        self.save_job(id);
        self.happened(now, word, who, format!("job {id}"), String::new());
        let run = self.jobs.get(&id).and_then(Job::run);
        let nodes = run.map(|run| run.shares()).unwrap_or_default();
        for share in nodes {
            self.order_suspension(share.node, id);
            let takes_jobs = self.machine.node(share.node).takes_jobs();
            self.update_available_inside(share.node, takes_jobs);
        }
    }

    /// The planner counts on another end of a running job.
    pub(crate) fn plan_end_again(&mut self, id: JobId) {
        if self.jobs.get(&id).is_some_and(|job| job.run().is_some()) {
            self.planner_of(id).end(id);
            self.run_as_it_is(id);
        }
    }

    /// Enters a job that has nodes into its planner, with what it holds now.
    pub(crate) fn run_as_it_is(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let Some(run) = job.run() else { return };
        if run.lends() {
            self.planning.lending.insert(id);
        }
        let (shares, whole) = (run.planned_shares(), job.holds_whole_nodes());
        self.run_again(id, shares, whole);
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
        let jobs: Vec<JobId> = self.machine.node(node).jobs.iter().copied().collect();
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

/// What a suspended job keeps of `amounts`. One that has its nodes as a whole and asked for
/// neither memory nor disk does not count them.
fn kept(amounts: &Amounts, uncounted: bool) -> Amounts {
    let mut kept = Amounts {
        cores: 0,
        ..amounts.clone()
    };
    if uncounted {
        (kept.memory, kept.disk) = (MiB(0), MiB(0));
    }
    kept
}
