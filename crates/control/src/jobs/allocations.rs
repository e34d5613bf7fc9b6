//! Allocations in which nothing is launched: every node holds its share ready, and their
//! owners start steps in them until they are given back.
//!
//! There is no program whose node would enforce the limit, so the controller does: it ends
//! such a job at its limit, when it is cancelled, and when its owner gives it back. What
//! follows is settled at that moment; the job has ended when the last node is clean.

use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::jobs::Jobs;
use crate::jobs::job::Job;
use crate::jobs::run::Part;
use crate::machine::Machine;
use crate::planning::late_starts::program_began;
use crate::planning::launch::procedures::order_prepare_on;
use crate::planning::suspension::expect_held_end;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::node::NodeOrder;
use cosy_model::{End, JobId, NodeId, Time};

/// After a restart of the controller it is not known where nodes listen until they have
/// registered; the job's first node is to be told of all of them.
pub(crate) fn awaits_addresses(machine: &Machine, jobs: &Jobs, id: JobId) -> bool {
    let parts = jobs.get(&id).and_then(Job::run).map(|r| r.parts());
    let unheard = |part: &Part| {
        let node = machine.node(part.node());
        node.link().is_none() && !node.lost()
    };
    parts.into_iter().flatten().any(unheard)
}

/// A node has registered: first nodes that had to wait for it get their orders.
pub(crate) fn order_awaiting(
    config: &ClusterConfig,
    machine: &mut Machine,
    jobs: &Jobs,
    conversations: &mut Conversations,
    turn: &mut Turn,
    registered: NodeId,
) {
    let held: Vec<JobId> = machine.node(registered).jobs().iter().copied().collect();
    for id in held {
        let Some(job) = jobs.get(&id).filter(|j| j.submitted.is_held()) else {
            continue;
        };
        let (uid, first) = (job.submitted.uid, job.run().and_then(|r| r.parts().first()));
        let Some(first) = first.filter(|p| p.is_ordered()) else {
            continue;
        };
        let first = first.node();
        let over = job.run().is_some_and(|r| r.is_over());
        if over || first == registered || awaits_addresses(machine, jobs, id) {
            continue;
        }
        match conversations.fresh_user(config, turn, uid) {
            Some(user) => order_prepare_on(machine, jobs, turn, id, first, &user),
            None => machine.awaits_user(id, first),
        }
    }
}

/// The job runs as soon as every node is ready.
pub(crate) fn held_ready(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let now = turn.now();
    let Some(run) = rooms.jobs.get_mut(&id).and_then(Job::run_mut) else {
        return;
    };
    let ready = run.parts().iter().all(|p| p.is_ready());
    if !ready || run.started().is_some() || run.is_over() {
        return;
    }
    // When an earlier controller had all of them ready, nobody knows any more.
    let start = if run.is_from_store() {
        run.allocated()
    } else {
        now
    };
    rooms.jobs.start_unsaved(id);
    program_began(rooms, turn, id, start);
    expect_held_end(&mut rooms.jobs, id);
}

/// Tells a node what is still to be done with its share of a job that comes to its end:
/// its steps are killed with grace, or the share is only given back.
pub(crate) fn order_end_held(
    machine: &Machine,
    jobs: &Jobs,
    turn: &mut Turn,
    id: JobId,
    node: NodeId,
) {
    let Some(job) = jobs.get(&id) else {
        return;
    };
    let key = job.key();
    let run = job.run();
    match run.and_then(|run| run.killed()) {
        Some(cause) => machine.order(turn, node, |node| NodeOrder::Kill {
            key: key.into(),
            node,
            cause,
            preempted: run.is_some_and(|run| run.ends_to_make_room(cause)),
        }),
        None => machine.order(turn, node, |node| NodeOrder::Release {
            key: key.into(),
            node,
        }),
    }
}

/// The end of an attempt with what its steps have used.
///
/// Where a script ran, its own figures may hold those of its steps on the first node
/// (control groups are nested): the larger of both is told, never a sum of the same.
pub(crate) fn with_steps(now: Time, job: &Job, mut end: End) -> End {
    let Some(run) = job.run() else { return end };
    end.user_cpu_us = end.user_cpu_us.max(run.steps().user_cpu_us);
    end.system_cpu_us = end.system_cpu_us.max(run.steps().system_cpu_us);
    end.peak_memory_bytes = end.peak_memory_bytes.max(run.steps().peak_memory_bytes);
    end.devices = run.devices();
    if job.submitted.is_held() && run.killed().is_some() {
        end.end = now; // when its steps were over, too
    }
    end
}
