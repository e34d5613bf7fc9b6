//! Running jobs that give some of their nodes back and go on with the others.
//!
//! The job has the nodes that it keeps from that moment on; one that leaves is free for
//! others when it is clean. The first node runs the script and is where steps begin, so it
//! stays. It is told of the nodes that are left whenever it registers: it keeps nothing of
//! that itself.
//!
//! Source: scontrol(1), `NumNodes` and `NodeList` of running jobs.

use crate::controller::Controller;
use crate::event::Caller;
use crate::jobs::job::{Job, Part, Run};
use cosy_model::api::JobChange;
use cosy_model::node::NodeOrder;
use cosy_model::{About, JobId, NodeId, Refusal, RefusalCode, Time};
use std::collections::BTreeSet;

impl Controller {
    /// The nodes that a change leaves to a running job; `None` when it says nothing of
    /// them.
    pub(crate) fn nodes_left(
        &self,
        id: JobId,
        change: &JobChange,
    ) -> Result<Option<BTreeSet<NodeId>>, Refusal> {
        let run = self.jobs.get(&id).and_then(Job::run);
        let Some(run) = run.filter(|_| change.nodes.is_some() || change.keep_nodes.is_some())
        else {
            return Ok(None);
        };
        let name = self.name_of(id);
        if run.started.is_none() || run.after.is_some() || run.killed.is_some() {
            return Err(crate::procedures::steer::runs_already(&name));
        }
        if run.suspended.is_some() {
            let why = format!("job {name} is suspended: nodes can be given back once it runs on");
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Suspended));
        }
        let several = self
            .jobs
            .get(&id)
            .is_some_and(|job| !job.spec().bundles.is_empty());
        if several {
            let why = format!("job {name} has several parts: they keep their nodes until its end");
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::NodeCount));
        }
        let left: BTreeSet<NodeId> = match &change.keep_nodes {
            Some(names) => self.named_nodes(run, &name, names)?,
            None => {
                let all = run.parts.iter().map(|part| part.node);
                all.take(change.nodes.unwrap_or(0) as usize).collect()
            }
        };
        let count = left.len();
        match change.nodes {
            Some(nodes) if nodes as usize != count || nodes == 0 => Err(Refusal::new(
                RefusalCode::NeverFits,
                format!(
                    "job {name} has {} nodes and cannot have {nodes} while it runs: it can only give some back",
                    run.parts.len()
                ),
            )
            .about(About::NodeCount)),
            Some(_) | None => Ok(Some(left)),
        }
    }

    /// Nodes of a job by name, the first one among them.
    fn named_nodes(
        &self,
        run: &Run,
        job: &str,
        names: &[String],
    ) -> Result<BTreeSet<NodeId>, Refusal> {
        let wrong = |why: String| Refusal::new(RefusalCode::Invalid, why).about(About::Node);
        let mut left = BTreeSet::new();
        for name in names {
            let node = self.machine.id_of(name);
            let node = node.filter(|node| run.parts.iter().any(|part| part.node == *node));
            let Some(node) = node else {
                return Err(wrong(format!(
                    "job {job} does not have node {name}, only {}: it cannot get more while it runs",
                    self.node_list(run)
                )));
            };
            left.insert(node);
        }
        let first = run.first().filter(|first| !left.contains(first));
        match first {
            None => Ok(left),
            Some(first) => Err(wrong(format!(
                "node {} is the first of job {job} and cannot be given back",
                self.machine.node(first).spec.name
            ))),
        }
    }

    /// A running job goes on with these of its nodes.
    pub(crate) fn leave_nodes(
        &mut self,
        now: Time,
        caller: &Caller,
        id: JobId,
        left: &BTreeSet<NodeId>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let key = job.key();
        let Some(run) = job.run_mut() else { return };
        let parts = std::mem::take(&mut run.parts);
        let (kept, gone): (Vec<Part>, Vec<Part>) = parts
            .into_iter()
            .partition(|part| left.contains(&part.node));
        run.parts = kept;
        if gone.is_empty() {
            return;
        }
        let nodes: Vec<NodeId> = gone.iter().map(|part| part.node).collect();
        run.leaving.extend(gone);
        run.resized = Some(now);
        self.save_job(id);
        for node in nodes {
            self.order(node, |node| NodeOrder::Release { key, node });
        }
        self.tell_nodes_left(now, id);
        let list = self.jobs.get(&id).and_then(Job::run);
        let list = list.map(|run| self.node_list(run)).unwrap_or_default();
        let who = &caller.user.name;
        self.happened(
            now,
            "resized",
            who,
            format!("job {id}"),
            format!("to {list}"),
        );
    }

    /// The first node hears which nodes the job has: no step goes to others any more.
    fn tell_nodes_left(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let uid = job.submitted.uid;
        let Some(first) = job.run().and_then(Run::first) else {
            return;
        };
        match self.fresh_user(now, uid) {
            Some(user) => self.order_prepare_on(id, first, &user),
            None => self.machine.awaits_user(id, first),
        }
    }

    /// A node has registered: it may not have heard.
    pub(crate) fn repeat_resizes(&mut self, now: Time, node: NodeId) {
        let jobs: Vec<JobId> = self.machine.node(node).jobs.iter().copied().collect();
        for id in jobs {
            let run = self.jobs.get(&id).and_then(Job::run);
            let first = |run: &Run| run.first() == Some(node) && run.after.is_none();
            if run.is_some_and(|run| run.resized.is_some() && first(run)) {
                self.tell_nodes_left(now, id);
            }
        }
    }

    /// A job gives that node back while it goes on.
    pub(crate) fn gives_back(&self, id: JobId, node: NodeId) -> bool {
        let run = self.jobs.get(&id).and_then(Job::run);
        run.is_some_and(|run| run.leaves(node))
    }
}
