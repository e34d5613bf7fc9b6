//! Rights are looked up: of callers, in queues, and on links of nodes.

use crate::config::ClusterConfig;
use crate::event::{Caller, LinkId, Via};
use crate::jobs::Jobs;
use crate::jobs::job::Submitted;
use crate::machine::Machine;
use crate::queues::Queues;
use crate::queues::access::{forbidden, is_admin, level, may_come_from, no_job_there, shown};
use crate::triggers::Triggers;
use cosy_model::api::Request;
use cosy_model::{
    AccessLevel, NodeId, NodeSpec, QueueId, QueueSpec, Refusal, RefusalCode, Uid, User,
};

pub(crate) fn is_administrator(config: &ClusterConfig, caller: &Caller) -> bool {
    is_admin(config, caller)
}

/// The level that somebody has in a queue, for jobs and reservations alike. Administrators
/// may do everything: a `deny` keeps them from nothing, they only come after all others.
///
/// # Errors
/// [`RefusalCode::AccessDenied`].
pub(crate) fn may_enter(
    config: &ClusterConfig,
    rights: &Caller,
    queue: &QueueSpec,
) -> Result<AccessLevel, Refusal> {
    let level = level(queue, &rights.user);
    if level == AccessLevel::Deny && !is_administrator(config, rights) {
        let (user, queue) = (&rights.user.name, &queue.name);
        let why = format!("user {user} has no access to queue {queue}");
        return Err(Refusal::new(RefusalCode::AccessDenied, why));
    }
    Ok(level)
}

pub(crate) fn require_admin(
    config: &ClusterConfig,
    caller: &Caller,
    what: &str,
) -> Result<(), Refusal> {
    if is_administrator(config, caller) {
        return Ok(());
    }
    let name = &caller.user.name;
    let why = match caller.as_user {
        true => format!("{name} asks as an ordinary user here (COSY_AS_USER)"),
        false => format!("{name} is none"),
    };
    Err(Refusal::new(RefusalCode::Forbidden, format!("only administrators may {what}; {why}")))
}

pub(crate) fn may_touch(config: &ClusterConfig, caller: &Caller, job: &Submitted) -> bool {
    job.uid == caller.user.uid || is_administrator(config, caller)
}

/// Whether a node's daemon may pass on that request of that user: login hosts anyone's,
/// compute nodes only those of users who have a job there (docs/SECURITY.md), both
/// only as far as the node's `relay` goes. The group that the daemon names must be one
/// that the directory gives.
pub(crate) fn may_relay(
    config: &ClusterConfig,
    machine: &Machine,
    jobs: &Jobs,
    triggers: &Triggers,
    via: &Via,
    caller: &Caller,
    request: &Request,
) -> Result<(), Refusal> {
    let node = &via.node;
    let Some(id) = machine.node_on_link(via.link, node) else {
        return Err(forbidden(format!(
            "the daemon that passed this on does not speak for node {node}"
        )));
    };
    let spec = &machine.node(id).spec();
    may_pass_at_all(config, machine, spec, &caller.user)?;
    if !spec.login && !has_job_on(machine, jobs, triggers, id, caller.user.uid) {
        return Err(no_job_there(&caller.user.name, node));
    }
    if caller.resolved && !caller.user.has_group(caller.gid) {
        return Err(forbidden(format!(
            "node {node} names group {} for user {}, which the directory does not give that user: use a group of yours (newgrp)",
            caller.gid, caller.user.name
        )));
    }
    may_come_from(config, caller, request)
}

/// Whether a node's daemon may speak for that user at all.
fn may_pass_at_all(
    config: &ClusterConfig,
    machine: &Machine,
    spec: &NodeSpec,
    user: &User,
) -> Result<(), Refusal> {
    if !spec.relay.admits(user) {
        return Err(forbidden(format!(
            "requests of user {} are not taken from node {}: 'relay' in the controller's configuration says so",
            shown(user),
            spec.name
        )));
    }
    let root = user.uid.0 == 0 || user.uid == config.controller_uid;
    if root && !spec.login && !is_private(config, machine) {
        return Err(forbidden(format!(
            "requests of user {} are not taken from node {}, which is no login host: use the commands on a login host",
            shown(user),
            spec.name
        )));
    }
    Ok(())
}

/// True when controller and node daemons are all of one ordinary user: nobody gains
/// anything from another's key then.
fn is_private(config: &ClusterConfig, machine: &Machine) -> bool {
    let own = config.controller_uid;
    own.0 != 0
        && machine
            .nodes()
            .iter()
            .all(|node| node.only_uid() == Some(own))
}

fn has_job_on(machine: &Machine, jobs: &Jobs, triggers: &Triggers, id: NodeId, uid: Uid) -> bool {
    let node = machine.node(id);
    let here = node.jobs().iter();
    here.filter_map(|job| jobs.get(job))
        .any(|job| job.submitted().uid == uid)
        || triggers.runs_on(&node.spec().name, uid)
}

/// The same for what a daemon asks on a user's behalf, on any of its nodes.
pub(crate) fn may_pass(
    config: &ClusterConfig,
    machine: &Machine,
    jobs: &Jobs,
    triggers: &Triggers,
    link: LinkId,
    user: &User,
) -> Result<(), Refusal> {
    let mut may = may_come(machine, jobs, triggers, link, user.uid);
    for id in nodes_where(machine, jobs, triggers, link, user.uid) {
        may = may_pass_at_all(config, machine, machine.node(id).spec(), user);
        if may.is_ok() {
            break;
        }
    }
    may
}

/// Whether one of a daemon's nodes is a login host, or that user has a job there.
pub(crate) fn may_come(
    machine: &Machine,
    jobs: &Jobs,
    triggers: &Triggers,
    link: LinkId,
    uid: Uid,
) -> Result<(), Refusal> {
    if !nodes_where(machine, jobs, triggers, link, uid).is_empty() {
        return Ok(());
    }
    let nodes = nodes_on(machine, link);
    let first = nodes.first().map(|id| machine.name(*id));
    let name = first.unwrap_or("of that daemon");
    Err(no_job_there(&uid.to_string(), name))
}

fn nodes_where(
    machine: &Machine,
    jobs: &Jobs,
    triggers: &Triggers,
    link: LinkId,
    uid: Uid,
) -> Vec<NodeId> {
    let mut nodes = nodes_on(machine, link);
    nodes.retain(|id| {
        machine.node(*id).spec().login || has_job_on(machine, jobs, triggers, *id, uid)
    });
    nodes
}

fn nodes_on(machine: &Machine, link: LinkId) -> Vec<NodeId> {
    let nodes = machine.link(link).map_or(&[][..], |l| &l.nodes);
    let there = |id: &NodeId| machine.node(*id).link() == Some(link);
    nodes.iter().copied().filter(there).collect()
}

/// Whether a user on a login host with that link is an administrator.
pub(crate) fn is_admin_there(
    config: &ClusterConfig,
    machine: &Machine,
    link: LinkId,
    user: &User,
) -> bool {
    let nodes = nodes_on(machine, link);
    let mut login = nodes.iter().map(|id| machine.node(*id).spec());
    let Some(login) = login.find(|node| node.login) else {
        return false;
    };
    let via = Some(Via {
        node: login.name.clone(),
        link,
    });
    is_administrator(
        config,
        &Caller {
            via,
            ..Caller::known(user.clone())
        },
    )
}

/// Whether somebody may be in a queue, and has room there for so many jobs more.
pub(crate) fn may_submit(
    config: &ClusterConfig,
    queues: &Queues,
    rights: &Caller,
    id: QueueId,
    jobs: usize,
) -> Result<(), Refusal> {
    let queue = queues.get(id);
    let name = &queue.spec().name;
    let mine = queue.jobs_of(rights.user.uid);
    may_enter(config, rights, queue.spec())?;
    if !queue.state().takes_jobs() {
        let word = queue.state().word();
        return Err(Refusal::new(
            RefusalCode::QueueClosed,
            format!("queue {name} is {word}: it takes no jobs now"),
        ));
    }
    let limits = [
        (queue.spec().max_jobs, queue.jobs(), "jobs at once"),
        (queue.spec().max_jobs_per_user, mine, "jobs of one user at once"),
    ];
    for (max, have, what) in limits {
        if let Some(max) = max
            && u64::from(have) + jobs as u64 > u64::from(max)
        {
            return Err(Refusal::new(
                RefusalCode::QueueLimit,
                format!("queue {name} allows {max} {what}; there are {have} and {jobs} would come"),
            ));
        }
    }
    Ok(())
}
