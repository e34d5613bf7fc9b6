//! Jobs that the planner starts get cores by number, and their nodes the orders.

use crate::config::ClusterConfig;
use crate::event::Effect;
use crate::jobs::Jobs;
use crate::jobs::check::procedures::entering;
use crate::jobs::job::Job;
use crate::jobs::run::{Part, Run};
use crate::jobs::variables::variables;
use crate::machine::Machine;
use crate::machine::names::node_list;
use crate::planning::Planning;
use crate::planning::launch::{files, ticket_expiry, warn_steps};
use crate::planning::suspension::lent_cores;
use crate::queues::Queues;
use crate::queues::scores::procedures::charge;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::job::OpenMode;
use cosy_model::node::{Allocation, Launch};
use cosy_model::{EventKind, EventObject, JobId, NodeId, OsText, Time, User};

/// A job that asked for a group which the directory does not give its user (any more)
/// runs with the user's own.
pub(crate) fn tell_other_group(jobs: &Jobs, turn: &mut Turn, id: JobId, user: &User) {
    let now = turn.now();
    let wanted = jobs[&id].submitted().gid;
    if !user.has_group(wanted) {
        let detail = format!("to {}: group {wanted} is none of user {}", user.gid, user.name);
        turn.happened(now, EventKind::Regrouped, "controller", EventObject::Job(id), detail);
    }
}

pub(crate) fn count_start(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &mut Queues,
    jobs: &mut Jobs,
    now: Time,
    base: JobId,
    id: JobId,
) {
    let touched = jobs.get(&id).is_some_and(|j| j.attempt().0 == 1);
    if let Some(group) = jobs.group_mut(&base) {
        group.task_started(now, touched);
    }
    count_running(config, machine, queues, jobs, id, true);
}

/// The job's part of a node.
pub(crate) fn take_share(
    machine: &mut Machine,
    jobs: &Jobs,
    planning: &Planning,
    id: JobId,
    share: cosy_model::NodeShare,
) -> Part {
    let lent = lent_cores(jobs, planning, share.node);
    machine.node_mut(share.node).gives_share(id, share, &lent)
}

/// One node: launch at once. Several: the others get ready first. Where nothing is
/// launched all get ready.
pub(crate) fn order_first_steps(rooms: &mut Rooms, turn: &mut Turn, id: JobId, user: &User) {
    if rooms.jobs[&id].submitted().is_held() {
        return order_hold(&rooms.machine, &rooms.jobs, turn, id, user);
    }
    let several = rooms.jobs[&id].run().is_some_and(|r| r.parts().len() > 1);
    if several {
        order_prepare(&rooms.machine, &rooms.jobs, turn, id, user);
    } else {
        order_launch(rooms, turn, id, user);
    }
}

fn order_prepare(machine: &Machine, jobs: &Jobs, turn: &mut Turn, id: JobId, user: &User) {
    let Some(run) = jobs[&id].run() else {
        return;
    };
    let others: Vec<NodeId> = run
        .parts()
        .iter()
        .skip(1)
        .filter(|p| p.is_ordered())
        .map(|p| p.node())
        .collect();
    for node in others {
        order_prepare_on(machine, jobs, turn, id, node, user);
    }
}

pub(crate) fn order_prepare_on(
    machine: &Machine,
    jobs: &Jobs,
    turn: &mut Turn,
    id: JobId,
    node: NodeId,
    user: &User,
) {
    let Some(link) = machine.node(node).link() else {
        return; // ordered again when it registers
    };
    let Some((allocation, expiry)) = allocation(machine, jobs, id, node, user) else {
        return;
    };
    turn.effect(Effect::Prepare {
        link,
        allocation: Box::new(allocation),
        expiry,
        holder: machine.key_of_link(link),
    });
}

/// Orders the program to start on the first node.
pub(crate) fn order_launch(rooms: &mut Rooms, turn: &mut Turn, id: JobId, user: &User) {
    let Some(run) = rooms.jobs.get_mut(&id).and_then(Job::run_mut) else {
        return;
    };
    run.launch_given();
    let Some(first) = run.first() else { return };
    let Some(link) = rooms.machine.node(first).link() else {
        return; // ordered again when it registers
    };
    let Some((allocation, expiry)) = allocation(&rooms.machine, &rooms.jobs, id, first, user)
    else {
        return;
    };
    if let Some(run) = rooms.jobs.get_mut(&id).and_then(Job::run_mut) {
        run.launch_sent();
    }
    let job = &rooms.jobs[&id];
    let Some(run) = job.run() else { return };
    let launch = launch(rooms, job, run, allocation);
    let submission = job.submitted().base;
    turn.effect(Effect::Launch {
        link,
        launch: Box::new(launch),
        submission,
        expiry,
        holder: rooms.machine.key_of_link(link),
    });
}

fn allocation(
    machine: &Machine,
    jobs: &Jobs,
    id: JobId,
    node: NodeId,
    user: &User,
) -> Option<(Allocation, Time)> {
    let job = jobs.get(&id)?;
    let run = job.run()?;
    let part = run.part(node)?;
    let limit = run.limit();
    let allocation = Allocation {
        key: job.key().into(),
        node: machine.name(node).to_owned(),
        nodes: node_list(machine, run),
        uid: user.uid,
        gid: user.granted(job.submitted().gid),
        groups: user.gids(),
        user: user.name.clone(),
        home: user.home.clone(),
        shell: user.shell.clone(),
        memory: part.memory(),
        cores: part.cores().to_vec(),
        gpus: part.gpus().to_vec(),
        devices: part.devices().clone(),
        switches: machine.switch_path(node).to_owned(),
        tasks: part.tasks(),
        limit,
        cores_per_task: job.spec().request.cores_per_task,
        parts: if run.first() == Some(node) {
            machine.job_parts(run)
        } else {
            Vec::new()
        },
        ticket: OsText::default(),
        warn_steps: warn_steps(job.spec()),
        runs_again: job.submitted().runs_again(true),
    };
    Some((allocation, ticket_expiry(run)))
}

fn launch(rooms: &Rooms, job: &Job, run: &Run, allocation: Allocation) -> Launch {
    let spec = job.spec();
    let files = files_of_run(&rooms.machine, job, run);
    Launch {
        program: spec.program.clone(),
        script: OsText::default(),
        workdir: spec.workdir.clone(),
        stdout: files.0,
        stderr: files.1,
        stdin: files.2,
        open_mode: if job.attempt().0 > 1 {
            OpenMode::Append
        } else {
            spec.open_mode
        },
        environment: variables(rooms, job, run, allocation.gid),
        login_environment: spec.login_environment,
        umask: spec.umask,
        rlimits: spec.rlimits.clone(),
        warn: spec.warn,
        grace: rooms.config.policy.grace,
        dialect: spec.dialect,
        container: spec.container.clone(),
        allocation,
    }
}

/// Output, error and input file with their patterns expanded.
pub(crate) fn files_of_run(machine: &Machine, job: &Job, run: &Run) -> (OsText, OsText, OsText) {
    let node = run
        .first()
        .map(|n| machine.node(n).spec().name.as_str())
        .unwrap_or_default();
    files(job.submitted(), job.id(), job.member().map(|m| m.index), node)
}

/// Every node of the job gets ready, the first too.
pub(crate) fn order_hold(machine: &Machine, jobs: &Jobs, turn: &mut Turn, id: JobId, user: &User) {
    let Some(run) = jobs.get(&id).and_then(Job::run) else {
        return;
    };
    let nodes: Vec<NodeId> = run.parts().iter().map(|p| p.node()).collect();
    for node in nodes {
        order_prepare_on(machine, jobs, turn, id, node, user);
    }
}

/// Counts a job among those that hold nodes, each of its components in its queue.
pub(crate) fn count_running(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &mut Queues,
    jobs: &Jobs,
    id: JobId,
    more: bool,
) {
    let Some(submitted) = jobs.get(&id).map(|job| job.submitted().clone()) else {
        return;
    };
    let Some(queue) = queues.queue_id(&submitted.queue) else {
        return;
    };
    if more {
        charge(config, machine, queues, jobs, id);
    }
    for (id, components) in entering(config, queues, &submitted.spec, queue) {
        let queue = queues.get_mut(id);
        match more {
            true => queue.started(components as u32),
            false => queue.stopped(components as u32),
        }
    }
}
