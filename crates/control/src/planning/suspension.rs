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

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::jobs::arrays::procedures::name_of;
use crate::jobs::job::Job;
use crate::jobs::run::Part;
use crate::jobs::save::save_job;
use crate::machine::Machine;
use crate::planning::Planning;
use crate::reservations::Reservations;
use crate::reservations::inside::clearance::last_call;
use crate::reservations::inside::procedures::{
    planner_for, planner_of, run_again, update_available_inside,
};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::node::NodeOrder;
use cosy_model::{
    About, Amounts, EventKind, EventObject, JobId, MiB, NodeId, Refusal, RefusalCode, Span, Time,
};
use std::collections::BTreeSet;

pub(crate) fn suspend_job(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: JobId,
    who: &str,
) -> Result<(), Refusal> {
    let now = turn.now();
    let name = name_of(&rooms.jobs, id);
    let run = rooms.jobs.get(&id).and_then(Job::run);
    let lacking = run.and_then(|run| rooms.machine.lacking(run, "suspend"));
    let lacking = lacking.map(|node| rooms.machine.name(node).to_owned());
    let Some(job) = rooms.jobs.get_mut(&id) else {
        return Ok(());
    };
    let whole = job.submitted().is_exclusive();
    let asked = job.submitted().asks_for_room();
    let runs = job.run_mut();
    let runs = runs.filter(|run| run.started().is_some() && !run.is_over());
    let Some(run) = runs else {
        let why = format!("job {name} does not run: only running jobs can be suspended");
        return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Waiting));
    };
    if run.stays_suspended() {
        suspension_changed(rooms, turn, id, EventKind::Suspended, who);
        return Ok(());
    }
    if run.suspended().is_some() {
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
    run.suspend(now, |amounts| kept(amounts, whole && !asked));
    if let Some(at) = end {
        rooms.jobs.end_held_no_more(at, id);
    }
    lend_cores(&mut rooms.machine, &rooms.jobs, &mut rooms.planning, id);
    suspension_changed(rooms, turn, id, EventKind::Suspended, who);
    Ok(())
}

/// What a running job would hold if it were suspended.
pub(crate) fn held_if_suspended(job: &Job) -> Vec<cosy_model::NodeShare> {
    let uncounted = job.submitted().is_exclusive() && !job.submitted().asks_for_room();
    let mut shares = job.run().map(|run| run.shares()).unwrap_or_default();
    for share in &mut shares {
        share.amounts = kept(&share.amounts, uncounted);
    }
    shares.retain(|share| share.amounts != Amounts::default());
    shares
}

/// Others may have the cores of a job from now on.
fn lend_cores(machine: &mut Machine, jobs: &Jobs, planning: &mut Planning, id: JobId) {
    planning.lending.insert(id);
    let Some(run) = jobs.get(&id).and_then(Job::run) else {
        return;
    };
    let held = run.parts().iter().filter(|p| !p.is_released());
    for part in held {
        let node = machine.node_mut(part.node());
        node.frees_cores(part.cores());
    }
}

/// Cores of a node that suspended jobs will want again.
pub(crate) fn lent_cores(jobs: &Jobs, planning: &Planning, node: NodeId) -> BTreeSet<u32> {
    let runs = planning.lending.iter().filter_map(|id| jobs.get(id)?.run());
    let parts = runs.filter_map(|run| run.part(node));
    let lent = parts.filter(|part| !part.is_released() && part.lends());
    lent.flat_map(|part| part.cores().iter().copied()).collect()
}

pub(crate) fn resume_job(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: JobId,
    who: &str,
) -> Result<(), Refusal> {
    let name = name_of(&rooms.jobs, id);
    let run = rooms.jobs.get_mut(&id).and_then(Job::run_mut);
    let Some(run) = run.filter(|run| run.suspended().is_some()) else {
        let why = format!("job {name} is not suspended");
        return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Suspended));
    };
    if run.is_resuming() {
        return Ok(());
    }
    if !run.lends() {
        runs_on(rooms, turn, id, who);
        return Ok(());
    }
    run.wants_on();
    if !takes_cores_back(rooms, turn, id, who) {
        suspension_changed(rooms, turn, id, EventKind::Resuming, who);
    }
    Ok(())
}

/// Jobs that wait for the cores that they have lent.
pub(crate) fn resume_due(rooms: &mut Rooms, turn: &mut Turn) {
    let resuming = |id: &JobId| {
        let run = rooms.jobs.get(id).and_then(Job::run);
        run.is_some_and(|run| run.is_resuming())
    };
    let waiting: Vec<JobId> = rooms
        .planning
        .lending
        .iter()
        .copied()
        .filter(resuming)
        .collect();
    for id in waiting {
        takes_cores_back(rooms, turn, id, "controller");
    }
}

/// Lets a job run on if nobody has its cores and no reservation will have them before
/// its end. False when it has to wait.
fn takes_cores_back(rooms: &mut Rooms, turn: &mut Turn, id: JobId, who: &str) -> bool {
    let now = turn.now();
    let Some(limit) =
        limit_on_return(&rooms.config, &rooms.jobs, &rooms.planning, &rooms.reservations, now, id)
    else {
        return false;
    };
    let Some(job) = rooms.jobs.get(&id) else {
        return false;
    };
    let Some(run) = job.run() else { return false };
    let held = |p: &&Part| !p.is_released();
    let parts = || run.parts().iter().filter(held);
    if parts().any(|p| rooms.machine.node(p.node()).cores().holds_any(p.cores())) {
        return false;
    }
    let (shares, whole) = (run.shares(), job.submitted().is_exclusive());
    let rest = Span((limit.0 - run.elapsed(now).0).max(1));
    let end = match limit.is_unlimited() {
        true => Time::FAR,
        false => now + rooms.config.policy.clearance + rest,
    };
    let end = inside_until(&rooms.config, &rooms.planning, &rooms.reservations, id)
        .map_or(end, |call| end.min(call));
    let planner = planner_for(&rooms.planning, &rooms.reservations, id);
    let free = planner.may_stay(id, now, &shares, end, whole);
    if free {
        has_cores_again(&mut rooms.machine, &mut rooms.jobs, &mut rooms.planning, turn, id, limit);
        runs_on(rooms, turn, id, who);
    }
    free
}

/// The limit that a suspended job would go on with now: inside of a reservation it is
/// over by the reservation's end. `None` when there is no time left.
fn limit_on_return(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &Planning,
    reservations: &Reservations,
    now: Time,
    id: JobId,
) -> Option<Span> {
    let run = jobs.get(&id)?.run()?;
    match inside_until(config, planning, reservations, id) {
        Some(call) if call <= now => None,
        Some(call) => Some(run.limit().min(run.elapsed(now) + call.since(now))),
        None => Some(run.limit()),
    }
}

/// By when a job inside of a reservation is told to end.
fn inside_until(
    config: &ClusterConfig,
    planning: &Planning,
    reservations: &Reservations,
    id: JobId,
) -> Option<Time> {
    let within = planning.inside.get(&id)?;
    let reservation = reservations.get(*within)?;
    Some(last_call(config, reservation))
}

fn has_cores_again(
    machine: &mut Machine,
    jobs: &mut Jobs,
    planning: &mut Planning,
    turn: &mut Turn,
    id: JobId,
    limit: Span,
) {
    planning.lending.remove(&id);
    let Some(job) = jobs.get_mut(&id) else {
        return;
    };
    let key = job.key();
    let Some(run) = job.run_mut() else { return };
    let shorter = run.limit() != limit;
    run.limit_to(limit);
    run.lends_no_more();
    let mut nodes = Vec::new();
    for part in run.parts() {
        if !part.is_released() {
            machine.node_mut(part.node()).holds_cores(part.cores());
            nodes.push(part.node());
        }
    }
    for node in nodes.into_iter().filter(|_| shorter) {
        machine.order(turn, node, |node| NodeOrder::Limit { key, node, limit });
    }
}

fn runs_on(rooms: &mut Rooms, turn: &mut Turn, id: JobId, who: &str) {
    let now = turn.now();
    let run = rooms.jobs.get_mut(&id).and_then(Job::run_mut);
    if let Some(run) = run {
        run.goes_on(now);
    }
    expect_held_end(&mut rooms.jobs, id);
    suspension_changed(rooms, turn, id, EventKind::Resumed, who);
}

/// The controller itself ends a job in which nothing is launched.
pub(crate) fn expect_held_end(jobs: &mut Jobs, id: JobId) {
    let held = jobs.get(&id).filter(|job| job.submitted().is_held());
    let run = held.and_then(Job::run).filter(|run| !run.is_over());
    let end = run.and_then(|run| run.ends_at());
    jobs.end_held_at(end, id);
}

fn suspension_changed(rooms: &mut Rooms, turn: &mut Turn, id: JobId, kind: EventKind, who: &str) {
    let now = turn.now();
    plan_end_again(&rooms.config, &rooms.jobs, &mut rooms.planning, &mut rooms.reservations, id);
    save_job(&rooms.machine, &mut rooms.jobs, turn, id);
    turn.happened(now, kind, who, EventObject::Job(id), String::new());
    let run = rooms.jobs.get(&id).and_then(Job::run);
    let nodes = run.map(|run| run.shares()).unwrap_or_default();
    for share in nodes {
        order_suspension(&rooms.machine, &rooms.jobs, turn, share.node, id);
        let takes_jobs = rooms.machine.node(share.node).takes_jobs();
        update_available_inside(
            &rooms.machine,
            &rooms.jobs,
            &rooms.planning,
            &mut rooms.reservations,
            share.node,
            takes_jobs,
        );
    }
}

/// The planner counts on another end of a running job.
pub(crate) fn plan_end_again(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &mut Planning,
    reservations: &mut Reservations,
    id: JobId,
) {
    if jobs.get(&id).is_some_and(|job| job.run().is_some()) {
        planner_of(planning, reservations, id).end(id);
        run_as_it_is(config, jobs, planning, reservations, id);
    }
}

/// Enters a job that has nodes into its planner, with what it holds now.
pub(crate) fn run_as_it_is(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &mut Planning,
    reservations: &mut Reservations,
    id: JobId,
) {
    let Some(job) = jobs.get(&id) else {
        return;
    };
    let Some(run) = job.run() else { return };
    if run.lends() {
        planning.lending.insert(id);
    }
    let (shares, whole) = (run.planned_shares(), job.holds_whole_nodes());
    run_again(config, jobs, planning, reservations, id, shares, whole);
}

/// A node is told how a job on it stands.
fn order_suspension(machine: &Machine, jobs: &Jobs, turn: &mut Turn, node: NodeId, id: JobId) {
    let Some(job) = jobs.get(&id) else {
        return;
    };
    let key = job.key();
    let stopped = job.run().is_some_and(|run| run.suspended().is_some());
    machine.order(turn, node, |node| match stopped {
        true => NodeOrder::Suspend { key, node },
        false => NodeOrder::Resume { key, node },
    });
}

/// A node has registered: orders may have been lost.
pub(crate) fn repeat_suspensions(machine: &Machine, jobs: &Jobs, turn: &mut Turn, node: NodeId) {
    let here: Vec<JobId> = machine.node(node).jobs().iter().copied().collect();
    for id in here {
        let run = jobs.get(&id).and_then(Job::run);
        let ever = run.is_some_and(|run| {
            !run.is_over() && (run.suspended().is_some() || run.suspended_for().0 > 0)
        });
        if ever {
            order_suspension(machine, jobs, turn, node, id);
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
