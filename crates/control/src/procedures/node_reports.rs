//! What nodes report. Reports may come twice; what fits no present attempt is superseded and
//! told so.

use crate::clock::procedures::{end_on_our_clock, has_run_for, note_clock_of, start_on_our_clock};
use crate::event::{Effect, LinkId};
use crate::jobs::allocations::{awaits_addresses, order_awaiting, order_end_held};
use crate::jobs::job::Job;
use crate::jobs::resize::{goes_on_without, repeat_resizes};
use crate::jobs::steps::steps_ended;
use crate::machine::availability::{drain_by_itself, welcome};
use crate::machine::node_lost::after_loss;
use crate::machine::nodes::procedures::{note_figures, register_one, say_heard};
use crate::machine::older_store::procedures::no_longer_doubtful;
use crate::machine::passages::PassageRequest;
use crate::machine::passages::procedures::{asked_passage, tell_where};
use crate::machine::reports::{at_attempt, drain_if, health, launch_when_ready, repeat_kill, seen};
use crate::planning::late_starts::program_began;
use crate::planning::launch::procedures::{order_launch, order_prepare_on};
use crate::planning::suspension::repeat_suspensions;
use crate::procedures::end::{abandon, at_deadline, at_limit, give_back};
use crate::procedures::older_store::{compare_store, goes_on_unknown, unknown_is_over};
use crate::record::AfterRun;
use crate::rooms::Rooms;
use crate::set_aside::Object;
use crate::set_aside::procedures::is_aside_on;
use crate::triggers::run::{reconcile_programs, report_of_program};
use crate::turn::Turn;
use cosy_model::node::{
    AllocationKey, AttemptKey, AttemptPhase, InventoryItem, KillCause, NodeOrder, NodeReport,
    NodeSelf, PrepareFailure, StoreMark,
};
use cosy_model::{DeviceUse, End, EndCause, JobId, NodeId, Time, limits};

pub(crate) fn register(
    rooms: &mut Rooms,
    turn: &mut Turn,
    link: LinkId,
    (nodes, clock): (Vec<NodeSelf>, Option<Time>),
    inventory: &[InventoryItem],
) {
    let mut unknown = Vec::new();
    let mut ids = Vec::new();
    for node in nodes {
        let peer = rooms.machine.link(link).map(|l| l.peer.clone());
        if peer.is_some_and(|peer| rooms.machine.key_fits(&node.name, &peer)) {
            ids.push(register_one(rooms, turn, link, node));
        } else {
            unknown.push(node.name);
        }
    }
    let revoked = rooms.machine.keys().revoked().cloned().collect();
    let order = welcome(&rooms.config, &rooms.clocks, unknown, revoked);
    turn.effect(Effect::Order { link, order });
    for id in &ids {
        if let Some(told) = clock {
            note_clock_of(rooms, turn, *id, told);
        }
        reconcile(rooms, turn, *id, inventory);
        tell_where(&rooms.machine, &rooms.jobs, turn, *id);
    }
    rooms.machine.speak_through(link, ids);
}

pub(crate) fn link_reported(rooms: &mut Rooms, turn: &mut Turn, link: LinkId, report: NodeReport) {
    let now = turn.now();
    if rooms.machine.link(link).is_none() {
        return;
    }
    seen(&rooms.clocks, &mut rooms.machine, now, link);
    let Some(report) = report_of_program(&rooms.machine, &mut rooms.triggers, turn, link, report)
    else {
        return;
    };
    match report {
        NodeReport::Register {
            nodes,
            inventory,
            seen,
            clock,
        } => {
            let names = nodes
                .first()
                .map_or(String::new(), |node| node.name.clone());
            compare_store(rooms, turn, &names, StoreMark::from_bytes(&seen.0));
            register(rooms, turn, link, (nodes, clock), &inventory);
        }
        NodeReport::Heartbeat => {}
        NodeReport::Figures(figures) => {
            note_figures(rooms, turn, link, figures);
            say_heard(rooms, turn, link, figures.number);
        }
        NodeReport::Health { node, problem } => {
            if let Some(id) = rooms.machine.node_on_link(link, &node) {
                health(rooms, turn, id, problem);
            }
        }
        NodeReport::AskPassage { number, uid, job } => {
            let asked = PassageRequest {
                link,
                number,
                uid,
                job,
            };
            asked_passage(rooms, turn, asked);
        }
        NodeReport::Prepared { .. }
        | NodeReport::Started { .. }
        | NodeReport::Ended { .. }
        | NodeReport::Released { .. }
        | NodeReport::Steps { .. } => attempt_reported(rooms, turn, link, report),
        // Decoded and asked by the shell.
        NodeReport::RelayRequest { .. } | NodeReport::RelayClosed { .. } => {}
    }
}

/// What a node reports of an attempt of a job.
fn attempt_reported(rooms: &mut Rooms, turn: &mut Turn, link: LinkId, report: NodeReport) {
    match report {
        NodeReport::Prepared {
            key: AllocationKey::Job(key),
            node,
            failure,
        } => {
            if let Some(id) = rooms.machine.node_on_link(link, &node) {
                prepared(rooms, turn, id, key, failure);
            }
        }
        NodeReport::Started {
            key: AllocationKey::Job(key),
            node,
            at,
        } => {
            if let Some(id) = rooms.machine.node_on_link(link, &node) {
                started(rooms, turn, id, key, at);
            }
        }
        NodeReport::Ended {
            key: AllocationKey::Job(key),
            node,
            end,
            drain,
        } => {
            if let Some(id) = rooms.machine.node_on_link(link, &node) {
                ended_on(rooms, turn, id, key, end);
                drain_if(rooms, turn, id, drain);
            }
        }
        NodeReport::Released {
            key: AllocationKey::Job(key),
            node,
            drain,
            devices,
        } => {
            if let Some(id) = rooms.machine.node_on_link(link, &node) {
                released(rooms, turn, id, key, devices);
                drain_if(rooms, turn, id, drain);
            }
        }
        NodeReport::Steps {
            key,
            node,
            before,
            records,
        } => {
            if let Some(id) = rooms.machine.node_on_link(link, &node)
                && !rooms.aside.has(key.job)
            {
                steps_ended(&rooms.machine, &mut rooms.jobs, turn, id, key, before, records);
            }
        }
        _ => {} // of a trigger, which has taken it
    }
}

pub(crate) fn prepared(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: NodeId,
    key: AttemptKey,
    failure: Option<PrepareFailure>,
) {
    rooms.aside.works_on(Object::Job(key.job));
    if is_aside_on(rooms, turn, id, key, failure.is_none()) {
        return;
    }
    if at_attempt(&mut rooms.jobs, id, key).is_none() {
        if failure.is_none() && goes_on_unknown(rooms, turn, id, key) {
            return;
        }
        return rooms.machine.order(turn, id, |node| NodeOrder::Release {
            key: key.into(),
            node,
        });
    }
    no_longer_doubtful(&mut rooms.jobs, key.job);
    if let Some(failure) = failure {
        return preparation_failed(rooms, turn, id, key, &failure);
    }
    let Some(run) = rooms.jobs.get_mut(&key.job).and_then(Job::run_mut) else {
        return;
    };
    run.made_ready(id);
    launch_when_ready(rooms, turn, key.job);
}

pub(crate) fn preparation_failed(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: NodeId,
    key: AttemptKey,
    failure: &PrepareFailure,
) {
    let now = turn.now();
    if failure.drain {
        drain_by_itself(rooms, turn, id, &failure.reason);
    }
    if rooms.jobs.gives_back(key.job, id) {
        return give_back(rooms, turn, key.job, id);
    }
    let attended = rooms.jobs.get(&key.job).is_some_and(|j| j.spec().attended);
    let after = if failure.drain && !attended {
        AfterRun::Requeue
    } else {
        let cause = EndCause::LaunchFailed(failure.reason.clone());
        AfterRun::End(End::never_ran(cause, now))
    };
    let killed = rooms
        .jobs
        .get(&key.job)
        .and_then(Job::run)
        .and_then(|r| r.killed());
    let after = match killed {
        Some(KillCause::Cancelled) => AfterRun::End(End::never_ran(EndCause::Cancelled, now)),
        Some(KillCause::Requeued) => AfterRun::Requeue,
        Some(KillCause::TimeLimit | KillCause::Superseded) | None => after,
    };
    rooms.machine.order(turn, id, |node| NodeOrder::Forget {
        key: key.into(),
        node,
    });
    abandon(rooms, turn, key.job, after, Some(id));
}

pub(crate) fn started(rooms: &mut Rooms, turn: &mut Turn, id: NodeId, key: AttemptKey, at: Time) {
    let now = turn.now();
    rooms.aside.works_on(Object::Job(key.job));
    if is_aside_on(rooms, turn, id, key, true) {
        return;
    }
    let holds = |job: &&mut Job| {
        let part = job.run().and_then(|run| run.part(id));
        part.is_some_and(|part| !part.is_released())
    };
    if at_attempt(&mut rooms.jobs, id, key).is_none() && goes_on_unknown(rooms, turn, id, key) {
        return;
    }
    no_longer_doubtful(&mut rooms.jobs, key.job);
    let Some(job) = at_attempt(&mut rooms.jobs, id, key).filter(holds) else {
        return rooms.machine.order(turn, id, |node| NodeOrder::Kill {
            key: key.into(),
            node,
            cause: KillCause::Superseded,
            preempted: false,
        });
    };
    let base = job.submitted().base;
    if let Some(run) = job.run_mut() {
        run.runs_on(id);
    }
    let run = rooms.jobs.get(&key.job).and_then(Job::run);
    let run = run.filter(|run| run.started().is_none());
    let Some(at) = run.map(|run| start_on_our_clock(&rooms.machine, now, id, run, at)) else {
        return;
    };
    rooms.jobs.start_unsaved(key.job);
    if let Some(group) = rooms.jobs.group_mut(&base) {
        group.note_start(at);
    }
    program_began(rooms, turn, key.job, at);
}

/// The program has ended on the first node, or the attempt is gone from it.
pub(crate) fn ended_on(rooms: &mut Rooms, turn: &mut Turn, id: NodeId, key: AttemptKey, end: End) {
    let now = turn.now();
    rooms.aside.works_on(Object::Job(key.job));
    if is_aside_on(rooms, turn, id, key, false) {
        return; // the node keeps how it ended until somebody wants to know
    }
    rooms.machine.order(turn, id, |node| NodeOrder::Forget {
        key: key.into(),
        node,
    });
    if at_attempt(&mut rooms.jobs, id, key).is_none() {
        unknown_is_over(rooms, turn, id, key, Some(&end));
        return;
    }
    no_longer_doubtful(&mut rooms.jobs, key.job);
    let Some(job) = at_attempt(&mut rooms.jobs, id, key) else {
        return;
    };
    let deadline = job.spec().deadline;
    let Some(run) = job.run_mut() else { return };
    run.devices_used(id, end.devices);
    if run.leaves(id) {
        return give_back(rooms, turn, key.job, id);
    }
    let lost = end.cause == EndCause::NodeLost;
    if lost && goes_on_without(rooms, turn, key.job, id) {
        return give_back(rooms, turn, key.job, id);
    }
    let Some(run) = rooms.jobs.get_mut(&key.job).and_then(Job::run_mut) else {
        return;
    };
    if lost {
        run.note_lost(id);
    }
    if run.is_over() {
        return give_back(rooms, turn, key.job, id);
    }
    run.launch_sent();
    let Some(run) = rooms.jobs.get(&key.job).and_then(Job::run) else {
        return;
    };
    let end = end_on_our_clock(&rooms.machine, now, id, run, end);
    let Some(job) = rooms.jobs.get_mut(&key.job) else {
        return;
    };
    let Some(run) = job.run_mut() else { return };
    if let Some(start) = end.start {
        run.began(start);
    }
    let end = at_deadline(at_limit(end, run), deadline);
    run.program_ended(&end);
    let after = match (run.killed(), &end.cause) {
        (Some(KillCause::Requeued), _) => AfterRun::Requeue,
        // A supervisor that was killed is no more the job's doing than a lost node.
        (_, EndCause::SupervisorLost) if key.attempt.0 >= limits::ATTEMPTS_BY_SUPERVISORS => {
            AfterRun::End(end)
        }
        // Its node says that it had the order.
        (_, EndCause::NodeLost | EndCause::SupervisorLost) => match after_loss(job, now) {
            AfterRun::End(lost) if lost.cause == EndCause::NodeLost => AfterRun::End(end),
            after => after,
        },
        _ => AfterRun::End(end),
    };
    abandon(rooms, turn, key.job, after, Some(id));
}

pub(crate) fn released(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: NodeId,
    key: AttemptKey,
    devices: DeviceUse,
) {
    rooms.aside.works_on(Object::Job(key.job));
    if is_aside_on(rooms, turn, id, key, false) {
        return;
    }
    let run = at_attempt(&mut rooms.jobs, id, key).and_then(Job::run_mut);
    match run {
        Some(run) => {
            run.devices_used(id, devices);
            give_back(rooms, turn, key.job, id);
        }
        None => drop(unknown_is_over(rooms, turn, id, key, None)),
    }
}

/// Compares what a node knows with what it should know.
pub(crate) fn reconcile(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: NodeId,
    inventory: &[InventoryItem],
) {
    let name = rooms.machine.name(id).to_owned();
    let (mut programs, mut attempts) = (Vec::new(), Vec::new());
    for item in inventory.iter().filter(|i| i.node == name) {
        match item.key {
            AllocationKey::Job(key) => attempts.push((key, &item.phase)),
            AllocationKey::Trigger(key) => programs.push((key, &item.phase)),
        }
    }
    reconcile_programs(&rooms.machine, &mut rooms.triggers, turn, id, &programs);
    for (key, phase) in &attempts {
        take_inventory(rooms, turn, id, *key, phase);
    }
    let missing: Vec<JobId> = rooms
        .machine
        .node(id)
        .jobs()
        .iter()
        .copied()
        .filter(|job| {
            let key = rooms.jobs.get(job).map(Job::key);
            !attempts.iter().any(|(known, _)| Some(*known) == key)
        })
        .collect();
    for job in missing {
        not_in_inventory(rooms, turn, id, job);
    }
    order_awaiting(
        &rooms.config,
        &mut rooms.machine,
        &rooms.jobs,
        &mut rooms.conversations,
        turn,
        id,
    );
    repeat_suspensions(&rooms.machine, &rooms.jobs, turn, id);
    repeat_resizes(rooms, turn, id);
}

pub(crate) fn take_inventory(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: NodeId,
    key: AttemptKey,
    phase: &AttemptPhase,
) {
    match phase {
        AttemptPhase::Ended(end) => ended_on(rooms, turn, id, key, end.clone()),
        AttemptPhase::Running { since, ran } => {
            started(rooms, turn, id, key, *since);
            if let Some(ran) = ran.filter(|_| at_attempt(&mut rooms.jobs, id, key).is_some()) {
                has_run_for(rooms, turn, key.job, ran);
            }
            repeat_kill(&rooms.machine, &mut rooms.jobs, turn, id, key);
        }
        AttemptPhase::Prepared => {
            prepared(rooms, turn, id, key, None);
            if rooms.aside.has(key.job) {
                return;
            }
            let over = at_attempt(&mut rooms.jobs, id, key)
                .and_then(|j| j.run())
                .is_some_and(|r| r.is_over());
            let held = rooms
                .jobs
                .get(&key.job)
                .is_some_and(|j| j.submitted().is_held());
            let leaves = rooms.jobs.gives_back(key.job, id);
            match (over || leaves, held && !leaves) {
                (true, true) => order_end_held(&rooms.machine, &rooms.jobs, turn, key.job, id),
                (true, false) => rooms.machine.order(turn, id, |node| NodeOrder::Release {
                    key: key.into(),
                    node,
                }),
                (false, _) => {}
            }
        }
    }
}

/// The node knows nothing of an attempt that it should have: the order got lost, or
/// the machine was restarted, or the attempt was over and forgotten already.
pub(crate) fn not_in_inventory(rooms: &mut Rooms, turn: &mut Turn, id: NodeId, job_id: JobId) {
    let now = turn.now();
    let boot = rooms.machine.node(id).boot_id();
    let Some(job) = rooms.jobs.get_mut(&job_id) else {
        return;
    };
    let (uid, held) = (job.submitted().uid, job.submitted().is_held());
    let Some(run) = job.run_mut() else { return };
    let Some(part) = run.part(id) else { return };
    if part.is_released() {
        return;
    }
    if run.leaves(id) {
        return give_back(rooms, turn, job_id, id);
    }
    let rebooted = part.boot_id() != boot;
    let was_there = part.is_ready() || run.started().is_some();
    if (rebooted || was_there) && goes_on_without(rooms, turn, job_id, id) {
        return give_back(rooms, turn, job_id, id);
    }
    let Some(job) = rooms.jobs.get_mut(&job_id) else {
        return;
    };
    let Some(run) = job.run_mut() else { return };
    if rebooted || (was_there && !run.is_over()) {
        run.note_lost(id);
    }
    if run.is_over() {
        return give_back(rooms, turn, job_id, id);
    }
    let first = run.first() == Some(id);
    if first && !was_there && !rebooted && !held {
        // The order to start it did not arrive, or was never sent.
        run.launch_not_there();
    }
    let launched = run.is_launched();
    let ends = matches!(run.killed(), Some(KillCause::Cancelled | KillCause::Requeued));
    if ends || was_there || rebooted || run.is_doubtful() {
        let after = after_loss(job, now);
        return abandon(rooms, turn, job_id, after, Some(id));
    }
    if held && first && awaits_addresses(&rooms.machine, &rooms.jobs, job_id) {
        return; // ordered when they have registered
    }
    let Some(user) = rooms.conversations.fresh_user(&rooms.config, turn, uid) else {
        rooms.machine.awaits_user(job_id, id);
        return;
    };
    if held || !first {
        order_prepare_on(&rooms.machine, &rooms.jobs, turn, job_id, id, &user);
    } else if launched {
        order_launch(rooms, turn, job_id, &user);
    }
}
