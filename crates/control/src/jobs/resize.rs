//! Running jobs that give some of their nodes back and go on with the others.
//!
//! The job has the nodes that it keeps from that moment on; one that leaves is free for
//! others when it is clean. The first node runs the script and is where steps begin, so it
//! stays. It is told of the nodes that are left whenever it registers: it keeps nothing of
//! that itself.
//!
//! Source: scontrol(1), `NumNodes` and `NodeList` of running jobs.

use crate::conversations::messages::notify_job;
use crate::event::Caller;
use crate::jobs::Jobs;
use crate::jobs::arrays::procedures::name_of;
use crate::jobs::job::Job;
use crate::jobs::run::Run;
use crate::jobs::save::save_job;
use crate::machine::Machine;
use crate::machine::names::{node_list, serving_list};
use crate::planning::launch::procedures::order_prepare_on;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::JobChange;
use cosy_model::node::NodeOrder;
use cosy_model::{About, EventKind, EventObject, JobId, NodeId, Refusal, RefusalCode};
use std::collections::BTreeSet;

/// The nodes that a change leaves to a running job; `None` when it says nothing of
/// them.
pub(crate) fn nodes_left(
    machine: &Machine,
    jobs: &Jobs,
    id: JobId,
    change: &JobChange,
) -> Result<Option<BTreeSet<NodeId>>, Refusal> {
    let run = jobs.get(&id).and_then(Job::run);
    let Some(run) = run.filter(|_| change.nodes.is_some() || change.keep_nodes.is_some()) else {
        return Ok(None);
    };
    let name = name_of(jobs, id);
    if run.started().is_none() || run.is_over() || run.killed().is_some() {
        return Err(crate::jobs::steer::runs_already(&name));
    }
    if run.suspended().is_some() {
        let why = format!("job {name} is suspended: nodes can be given back once it runs on");
        return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Suspended));
    }
    let several = jobs
        .get(&id)
        .is_some_and(|job| job.spec().has_several_components());
    if several {
        let why = format!("job {name} has several parts: they keep their nodes until its end");
        return Err(Refusal::new(RefusalCode::WrongState, why).about(About::NodeCount));
    }
    let left: BTreeSet<NodeId> = match &change.keep_nodes {
        Some(names) => named_nodes(machine, run, &name, names)?,
        None => {
            let all = run.parts().iter().map(|part| part.node());
            all.take(change.nodes.unwrap_or(0) as usize).collect()
        }
    };
    let count = left.len();
    match change.nodes {
        Some(nodes) if nodes as usize != count || nodes == 0 => Err(Refusal::new(
            RefusalCode::NeverFits,
            format!(
                "job {name} has {} nodes and cannot have {nodes} while it runs: it can only give some back",
                run.parts().len()
            ),
        )
        .about(About::NodeCount)),
        Some(_) | None => Ok(Some(left)),
    }
}

/// Nodes of a job by name, the first one among them.
fn named_nodes(
    machine: &Machine,
    run: &Run,
    job: &str,
    names: &[String],
) -> Result<BTreeSet<NodeId>, Refusal> {
    let wrong = |why: String| Refusal::new(RefusalCode::Invalid, why).about(About::Node);
    let mut left = BTreeSet::new();
    for name in names {
        let node = machine.id_of(name);
        let node = node.filter(|node| run.parts().iter().any(|part| part.node() == *node));
        let Some(node) = node else {
            return Err(wrong(format!(
                "job {job} does not have node {name}, only {}: it cannot get more while it runs",
                node_list(machine, run)
            )));
        };
        left.insert(node);
    }
    let first = run.first().filter(|first| !left.contains(first));
    match first {
        None => Ok(left),
        Some(first) => Err(wrong(format!(
            "node {} is the first of job {job} and cannot be given back",
            machine.node(first).spec().name
        ))),
    }
}

/// A running job goes on with these of its nodes.
pub(crate) fn leave_nodes(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    id: JobId,
    left: &BTreeSet<NodeId>,
) {
    let now = turn.now();
    let Some(job) = rooms.jobs.get_mut(&id) else {
        return;
    };
    let key = job.key();
    let Some(run) = job.run_mut() else { return };
    let nodes = run.gives_back_all_but(left, now);
    if nodes.is_empty() {
        return;
    }
    save_job(&rooms.machine, &mut rooms.jobs, turn, id);
    for node in nodes {
        rooms.machine.order(turn, node, |node| NodeOrder::Release {
            key: key.into(),
            node,
        });
    }
    tell_nodes_left(rooms, turn, id);
    let list = rooms.jobs.get(&id).and_then(Job::run);
    let list = list
        .map(|run| node_list(&rooms.machine, run))
        .unwrap_or_default();
    let who = &caller.user.name;
    turn.happened(now, EventKind::Resized, who, EventObject::Job(id), format!("to {list}"));
}

/// A running job goes on without a node that is lost, where it says so or has one that stands by.
/// False where it does not: its first node, which runs the script, is never done without.
pub(crate) fn goes_on_without(rooms: &mut Rooms, turn: &mut Turn, id: JobId, node: NodeId) -> bool {
    let now = turn.now();
    let Some(job) = rooms.jobs.get_mut(&id) else {
        return false;
    };
    let (no_kill, several) = (job.spec().no_kill, job.spec().has_several_components());
    let Some(run) = job.run_mut() else {
        return false;
    };
    let runs = run.started().is_some() && !run.is_over() && run.killed().is_none();
    let free = runs && run.suspended().is_none() && !several && run.first() != Some(node);
    let spares = run.spares();
    let stood_by = run.serving().iter().all(|part| part.node() != node);
    if !free || (!no_kill && spares == 0) || !run.goes_on_without(node, now) {
        return false;
    }
    save_job(&rooms.machine, &mut rooms.jobs, turn, id);
    tell_nodes_left(rooms, turn, id);
    let run = rooms.jobs.get(&id).and_then(Job::run);
    let list = run.map_or_else(String::new, |run| serving_list(&rooms.machine, run));
    let name = rooms.machine.name(node);
    let lost = match (stood_by, spares) {
        (true, _) => ", which stood by, was lost;",
        (false, 0) => " was lost;",
        (false, _) => " was lost; a spare one takes its place,",
    };
    let text = format!("node {name}{lost} the job goes on with {list}");
    let object = EventObject::Job(id);
    turn.happened(now, EventKind::Resized, "controller", object, text.clone());
    // It runs: there is somebody to tell.
    drop(notify_job(&rooms.machine, &rooms.jobs, &mut rooms.conversations, turn, id, &text));
    true
}

/// The first node hears which nodes the job has: no step goes to others any more.
fn tell_nodes_left(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    let uid = job.submitted.uid;
    let Some(first) = job.run().and_then(Run::first) else {
        return;
    };
    match rooms.conversations.fresh_user(&rooms.config, turn, uid) {
        Some(user) => order_prepare_on(&rooms.machine, &rooms.jobs, turn, id, first, &user),
        None => rooms.machine.awaits_user(id, first),
    }
}

/// A node has registered: it may not have heard.
pub(crate) fn repeat_resizes(rooms: &mut Rooms, turn: &mut Turn, node: NodeId) {
    let here: Vec<JobId> = rooms.machine.node(node).jobs().iter().copied().collect();
    for id in here {
        let run = rooms.jobs.get(&id).and_then(Job::run);
        let first = |run: &Run| run.first() == Some(node) && !run.is_over();
        if run.is_some_and(|run| run.resized().is_some() && first(run)) {
            tell_nodes_left(rooms, turn, id);
        }
    }
}

impl Jobs {
    /// A job gives that node back while it goes on.
    pub(crate) fn gives_back(&self, id: JobId, node: NodeId) -> bool {
        let run = self.get(&id).and_then(Job::run);
        run.is_some_and(|run| run.leaves(node))
    }
}
