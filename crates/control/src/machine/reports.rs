//! What follows from reports of nodes and ends no attempt: launches, orders to clean up, health.
//! What may end one is in `procedures/node_reports.rs`.

use crate::clock::Clocks;
use crate::config::ClusterConfig;
use crate::event::{Effect, LinkId};
use crate::jobs::Jobs;
use crate::jobs::allocations::held_ready;
use crate::jobs::job::Job;
use crate::machine::Machine;
use crate::machine::availability::{drain_by_itself, update_available};
use crate::planning::launch::procedures::{order_launch, order_prepare_on};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::node::{AttemptKey, KillCause, NodeOrder};
use cosy_model::{JobId, NodeId, Span, Time, User};

/// A node that has not ended a job so long after its limit and grace is told again.
const LIMIT_MARGIN: Span = Span::from_secs(30);
/// Nodes and jobs on them of which one turn looks whether they are late, about.
const LIMITS_LOOKED_AT: usize = 2000;

pub(crate) fn seen(clocks: &Clocks, machine: &mut Machine, now: Time, link: LinkId) {
    machine.heard_from(link, now, clocks.listened);
}

pub(crate) fn drain_if(rooms: &mut Rooms, turn: &mut Turn, id: NodeId, drain: Option<String>) {
    if let Some(reason) = drain {
        drain_by_itself(rooms, turn, id, &reason);
    }
}

pub(crate) fn health(rooms: &mut Rooms, turn: &mut Turn, id: NodeId, problem: Option<String>) {
    if let Some(problem) = &problem {
        drain_by_itself(rooms, turn, id, problem);
    }
    rooms.machine.node_mut(id).problem = problem;
    update_available(rooms, turn, id);
}

/// The job, if that attempt is its present one and holds that node.
pub(crate) fn at_attempt(jobs: &mut Jobs, id: NodeId, key: AttemptKey) -> Option<&mut Job> {
    let job = jobs.get_mut(&key.job)?;
    let present = job.attempt() == key.attempt && job.run().is_some_and(|r| r.part(id).is_some());
    present.then_some(job)
}

/// Starts the program when every other node is ready.
pub(crate) fn launch_when_ready(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    if job.submitted().is_held() {
        return held_ready(rooms, turn, id);
    }
    let Some(run) = job.run() else { return };
    let ready = run.parts().iter().skip(1).all(|p| p.is_ready());
    if run.is_launched() || run.is_over() || !ready {
        return;
    }
    let uid = job.submitted().uid;
    if let Some(user) = rooms.conversations.fresh_user(&rooms.config, turn, uid) {
        order_launch(rooms, turn, id, &user);
    } else if let Some(first) = rooms.jobs[&id].run().and_then(|r| r.first()) {
        rooms.machine.awaits_user(id, first);
    }
}

pub(crate) fn order_clean_up(
    machine: &Machine,
    jobs: &Jobs,
    turn: &mut Turn,
    id: JobId,
    node: NodeId,
    runs_program: bool,
) {
    let Some(job) = jobs.get(&id) else {
        return;
    };
    let key = job.key();
    if runs_program {
        machine.order(turn, node, |node| NodeOrder::Kill {
            key: key.into(),
            node,
            cause: KillCause::Superseded,
            preempted: false,
        });
    } else {
        machine.order(turn, node, |node| NodeOrder::Release {
            key: key.into(),
            node,
        });
    }
}

impl Machine {
    /// Sends an order to a node if it is connected; else registration makes it good.
    pub(crate) fn order(
        &self,
        turn: &mut Turn,
        id: NodeId,
        order: impl FnOnce(String) -> NodeOrder,
    ) {
        let node = self.node(id);
        if let Some(link) = node.link {
            let order = order(node.spec.name.clone());
            turn.effect(Effect::Order { link, order });
        }
    }
}

/// A kill that was ordered while the link was down.
pub(crate) fn repeat_kill(
    machine: &Machine,
    jobs: &mut Jobs,
    turn: &mut Turn,
    id: NodeId,
    key: AttemptKey,
) {
    let run = at_attempt(jobs, id, key).and_then(|j| j.run());
    let cause = run.and_then(|r| match (&r.after(), r.killed()) {
        (Some(_), _) => Some(KillCause::Superseded),
        (None, killed) => killed,
    });
    if let Some(cause) = cause {
        let preempted = run.is_some_and(|r| r.ends_to_make_room(cause));
        machine.order(turn, id, |node| NodeOrder::Kill {
            key: key.into(),
            node,
            cause,
            preempted,
        });
    }
}

/// The user's groups are known: what could not be ordered without them is now.
pub(crate) fn order_late(rooms: &mut Rooms, turn: &mut Turn, user: &User) {
    for (job_id, id) in rooms.machine.awaiting_users() {
        let Some(job) = rooms.jobs.get(&job_id) else {
            rooms.machine.awaits_no_more(job_id, id);
            continue;
        };
        if job.submitted().uid != user.uid {
            continue;
        }
        rooms.machine.awaits_no_more(job_id, id);
        let Some(run) = job.run() else { continue };
        let open = !run.is_over() && run.started().is_none() && run.killed().is_none();
        let ordered = run.part(id).is_some_and(|p| p.is_ordered());
        let first = run.first() == Some(id) && !job.submitted().is_held();
        let several = run.parts().len() > 1;
        if run.resized().is_some() && !run.is_over() && run.first() == Some(id) {
            order_prepare_on(&rooms.machine, &rooms.jobs, turn, job_id, id, user);
            continue;
        }
        match (open && ordered, first) {
            (true, true) if several => launch_when_ready(rooms, turn, job_id),
            (true, true) => order_launch(rooms, turn, job_id, user),
            (true, false) => order_prepare_on(&rooms.machine, &rooms.jobs, turn, job_id, id, user),
            (false, _) => {}
        }
    }
}

/// Ends jobs whose node should have ended them long ago. So many nodes and jobs on them are looked at in one
/// turn; the next one goes on behind them.
pub(crate) fn check_limits(
    config: &ClusterConfig,
    machine: &mut Machine,
    jobs: &Jobs,
    turn: &mut Turn,
) {
    let now = turn.now();
    let grace = config.policy.grace;
    let mut late = Vec::new();
    for node in machine.next_for_limits(LIMITS_LOOKED_AT) {
        for id in &node.jobs {
            let Some(job) = jobs.get(id) else {
                continue;
            };
            let Some(run) = job.run() else { continue };
            if run.is_over() || job.submitted().is_held() {
                continue;
            }
            let Some(end) = run.ends_at() else { continue };
            if now > end + grace + grace + LIMIT_MARGIN {
                late.push((*id, run.first()));
            }
        }
    }
    // Of a job with several nodes its first one is told, once.
    late.sort_unstable();
    late.dedup();
    for (id, first) in late {
        let Some(key) = jobs.get(&id).map(Job::key) else {
            continue;
        };
        if let Some(first) = first {
            machine.order(turn, first, |node| NodeOrder::Kill {
                key: key.into(),
                node,
                cause: KillCause::TimeLimit,
                preempted: false,
            });
        }
    }
}

pub(crate) fn job_key(job: Option<&Job>) -> Option<AttemptKey> {
    job.map(Job::key)
}
