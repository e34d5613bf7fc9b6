//! Nodes are switched off when they have been idle for long, and on in time for who is to have them.
//!
//! Who is to have them is what the plan says: it counts with nodes that are off as with nodes that are
//! free when they have come up. A node is told to come up when a job would begin on it as soon as it is
//! up, and before a reservation begins that has it. Jobs are not bound to the node that was switched on
//! for them: one that is served before them takes it, and one that does not come up harms nobody.
//!
//! What always holds: no more programs run at once than [`Powering::has_room`] says, so none waits for
//! others and acts on what has changed since; no node is off before the program that switches it off has
//! ended.
//!
//! [`Powering::has_room`]: crate::machine::power::Powering::has_room

use crate::event::{Effect, PowerEnd, PowerOrder, PowerProgram, ResumedJob, WakeQuestion};
use crate::jobs::limits::in_plans::tell_limits;
use crate::machine::availability::update_available;
use crate::machine::nodes::procedures::link_closed;
use crate::machine::nodes::{NOT_UP, RESUME_FAILED};
use crate::machine::power::{Direction, Footprint};
use crate::procedures::node_lost::give_up_node;
use crate::reservations::Reservation;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::reservation::ReservationState;
use cosy_model::{
    EventKind, JobId, NodeId, NodeState, PowerPhase, Refusal, RefusalCode, Span, Time,
};
use cosy_sched::PlannedStart;
use std::collections::{BTreeMap, BTreeSet};

/// Nodes are up for a reservation so much earlier than they would be by the time that they take.
const EARLIER: Span = Span::from_secs(10);
/// Nodes that one program is called with, at most: their names are one argument.
const NODES_AT_ONCE: usize = 1000;
/// A node that was silent for so many heartbeats after it was told to go off is off, though nobody has
/// closed its link: its power was cut.
const SILENT_BEATS: i64 = 3;

/// Tells the planner who is absent, before jobs start.
pub(crate) fn power_due(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    if !rooms.machine.powering().is_due(now) {
        return;
    }
    let (absent, again) = rooms.machine.absences(&rooms.config.power, now);
    rooms.planning.cluster_mut().set_absent(&absent);
    rooms.machine.powering_mut().is_told(again);
}

/// Once a second: what has taken too long, what is idle, what is wanted.
pub(crate) fn look_at_power(rooms: &mut Rooms, turn: &mut Turn) {
    if !rooms.config.power.is_on() {
        return;
    }
    overdue(rooms, turn);
    let again = rooms.machine.powering_mut().runs_again(turn.now());
    run_again(rooms, turn, &again);
    wake_for_reservations(rooms, turn);
    ask_who_wants(rooms, turn);
    clear_away(rooms, turn);
    switch_off(rooms, turn);
}

/// Nodes that should be off or up by now.
fn overdue(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    let off: Vec<NodeId> = rooms.machine.powering().off().iter().copied().collect();
    let mut failed = Vec::new();
    for id in off {
        let config = &rooms.config.power;
        match rooms.machine.node(id).power().phase {
            PowerPhase::TurningOff { since } if now >= since + config.suspend_time => {
                is_off(rooms, turn, id, since + config.suspend_time);
            }
            PowerPhase::Booting { since } if now >= since + config.resume_time => {
                let why = format!("{NOT_UP} {} of the resume program", config.resume_time);
                does_not_come_up(rooms, turn, id, &why);
                failed.push(id);
            }
            _ => {}
        }
    }
    run(rooms, turn, PowerProgram::ResumeFailed, &failed, Vec::new());
}

/// The time for going off was over at `until`.
fn is_off(rooms: &mut Rooms, turn: &mut Turn, id: NodeId, until: Time) {
    let now = turn.now();
    if rooms.machine.powering().is_busy(id) {
        return;
    }
    if let Some(link) = rooms.machine.node(id).link() {
        let silent = Span(rooms.config.policy.heartbeat.0.saturating_mul(SILENT_BEATS));
        match rooms.machine.node(id).last_seen() {
            // It goes on to speak.
            Some(seen) if seen > until => {
                let time = rooms.config.power.suspend_time;
                let why = format!("it is still there {time} after the suspend program was run");
                rooms.machine.power_is(turn, id, PowerPhase::On);
                return out_of_service(rooms, turn, id, &why);
            }
            Some(seen) if now < seen + silent => return,
            Some(_) | None => {
                turn.effect(Effect::CloseLink(link));
                link_closed(rooms, turn, link);
            }
        }
    }
    rooms
        .machine
        .power_is(turn, id, PowerPhase::Off { since: now });
    rooms.triggers.programs_lost(now, rooms.machine.name(id));
    if rooms.machine.powering_mut().is_to_come_back(id) {
        boot(rooms, turn, &[id], Vec::new());
    }
}

/// It takes no jobs until an administrator resumes it, and then it may be tried again.
fn does_not_come_up(rooms: &mut Rooms, turn: &mut Turn, id: NodeId, why: &str) {
    let since = turn.now();
    rooms.machine.power_is(turn, id, PowerPhase::Off { since });
    out_of_service(rooms, turn, id, why);
}

/// A node that does not do as it was told takes no jobs until an administrator has looked.
fn out_of_service(rooms: &mut Rooms, turn: &mut Turn, id: NodeId, why: &str) {
    let node = rooms.machine.node_mut(id);
    if *node.state() == NodeState::Open {
        node.is_set(NodeState::Drained {
            reason: why.to_owned(),
            by: "controller".to_owned(),
            since: Some(turn.now()),
        });
        rooms.machine.save_node(turn, id);
    }
    rooms
        .machine
        .power_event(turn, id, EventKind::PowerFailed, why);
    update_available(rooms, turn, id);
}

/// After a start of the controller nobody knows whether programs have run that were due.
fn run_again(rooms: &mut Rooms, turn: &mut Turn, nodes: &BTreeSet<NodeId>) {
    let (mut down, mut up) = (Vec::new(), Vec::new());
    for id in nodes {
        match rooms.machine.node(*id).power().phase {
            PowerPhase::TurningOff { .. } => down.push(*id),
            PowerPhase::Booting { .. } => up.push(*id),
            PowerPhase::On | PowerPhase::OffWhenIdle | PowerPhase::Off { .. } => {}
        }
    }
    run(rooms, turn, PowerProgram::Suspend, &down, Vec::new());
    run(rooms, turn, PowerProgram::Resume, &up, Vec::new());
}

/// The nodes of reservations that begin soon are to be up by then.
fn wake_for_reservations(rooms: &mut Rooms, turn: &mut Turn) {
    if rooms.machine.powering().off().is_empty() {
        return;
    }
    // Nobody is woken for what is only held.
    let confirmed = |of: &&Reservation| of.row().state != ReservationState::Held;
    let soon = reserved_soon(rooms, turn.now(), Span::ZERO, confirmed);
    wake(rooms, turn, &soon, Vec::new());
}

/// Nodes of reservations for which it is time to come up, or would be `within` that time.
fn reserved_soon(
    rooms: &Rooms,
    now: Time,
    within: Span,
    counts: impl Fn(&&Reservation) -> bool,
) -> BTreeSet<NodeId> {
    let config = &rooms.config.power;
    let mut soon = BTreeSet::new();
    for reservation in rooms.reservations.live().filter(counts) {
        let ahead = reservation.row().start.since(now);
        for share in reservation.shares() {
            let boot = rooms.machine.boot_time(config, share.node);
            if ahead <= boot + EARLIER + within {
                soon.insert(share.node);
            }
        }
    }
    soon
}

/// Asks for a plan of who would have which nodes as soon as they are up.
fn ask_who_wants(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    if rooms.machine.awaits_nodes(now) {
        return; // those that are on come first
    }
    let cluster = rooms.planning.cluster();
    let footprint = Footprint {
        waiting: cluster.waiting_count(),
        running: cluster.running_count(),
        off: rooms.machine.powering().off().len(),
        next_job: rooms.jobs.next_id().0,
    };
    if footprint.waiting == 0 {
        rooms.machine.powering_mut().nobody_wants();
        return;
    }
    if !rooms.machine.powering_mut().begins_plan(now, footprint) {
        return;
    }
    let mut scheduler = cluster.clone();
    tell_limits(rooms, &mut scheduler, None);
    turn.effect(Effect::PlanWakes(Box::new(WakeQuestion {
        now,
        until: now + longest_way(rooms),
        scheduler,
    })));
}

/// The longest until a node could begin a job that goes off now: who begins by then keeps it on, or wakes
/// those that are off.
fn longest_way(rooms: &Rooms) -> Span {
    let config = &rooms.config.power;
    config.suspend_time + rooms.machine.longest_boot(config) + told_late(rooms)
}

/// When a node is up is told to the planner in steps, so that it may count on it so much later.
fn told_late(rooms: &Rooms) -> Span {
    let step = rooms.machine.absence_step(&rooms.config.power);
    step + step
}

/// The plan has come: who would begin on nodes that are off has them switched on.
pub(crate) fn wakes_planned(rooms: &mut Rooms, turn: &mut Turn, starts: Vec<PlannedStart>) {
    let now = turn.now();
    let mut wanted = BTreeSet::new();
    let mut nodes = BTreeSet::new();
    let mut jobs: Vec<(JobId, NodeId)> = Vec::new();
    for told in starts {
        wanted.extend(told.nodes.iter());
        for id in told.nodes.iter() {
            if rooms.machine.has_number(id) && is_time_to_wake(rooms, id, told.start, now) {
                nodes.insert(id);
                jobs.push((told.job, id));
            }
        }
    }
    rooms.machine.powering_mut().planned(wanted);
    if rooms.config.power.is_on() {
        wake(rooms, turn, &nodes, jobs);
    }
}

/// Whether a node that is off would be up no earlier than it is wanted.
fn is_time_to_wake(rooms: &Rooms, id: NodeId, start: Time, now: Time) -> bool {
    let boot = rooms.machine.boot_time(&rooms.config.power, id);
    start <= now + boot + told_late(rooms)
}

/// Switches nodes on that are off and in service, as many as may be, for these jobs.
fn wake(rooms: &mut Rooms, turn: &mut Turn, nodes: &BTreeSet<NodeId>, jobs: Vec<(JobId, NodeId)>) {
    let now = turn.now();
    if !rooms.machine.powering().has_room(Direction::On) {
        return; // they are looked at again
    }
    let is_off = |id: &&NodeId| {
        let node = rooms.machine.node(**id);
        matches!(node.power().phase, PowerPhase::Off { .. }) && *node.state() == NodeState::Open
    };
    let off = nodes.iter().filter(is_off).take(NODES_AT_ONCE);
    let off: Vec<NodeId> = off.copied().collect();
    let config = &rooms.config.power;
    let some = rooms.machine.within_rate(Direction::On, config, off, now);
    boot(rooms, turn, &some, jobs);
}

/// These nodes are told to come up, for those of the jobs that are to have them.
fn boot(rooms: &mut Rooms, turn: &mut Turn, nodes: &[NodeId], jobs: Vec<(JobId, NodeId)>) {
    let since = turn.now();
    let told: BTreeSet<NodeId> = nodes.iter().copied().collect();
    let mut of_nodes: BTreeMap<NodeId, JobId> = BTreeMap::new();
    let mut of_jobs: BTreeMap<JobId, Vec<NodeId>> = BTreeMap::new();
    for (job, node) in jobs.into_iter().filter(|(_, node)| told.contains(node)) {
        of_nodes.entry(node).or_insert(job);
        of_jobs.entry(job).or_default().push(node);
    }
    for id in nodes {
        let phase = PowerPhase::Booting { since };
        rooms.machine.power_is(turn, *id, phase);
        let why = of_nodes.get(id).map(|job| format!("for job {job}"));
        let why = why.unwrap_or_default();
        rooms
            .machine
            .power_event(turn, *id, EventKind::PoweredUp, &why);
        update_available(rooms, turn, *id);
    }
    let jobs = of_jobs.iter();
    let jobs = jobs.filter_map(|(id, resumed)| resumed_job(rooms, *id, resumed));
    let jobs = jobs.collect();
    run(rooms, turn, PowerProgram::Resume, nodes, jobs);
}

fn resumed_job(rooms: &Rooms, id: JobId, resumed: &[NodeId]) -> Option<ResumedJob> {
    let job = rooms.jobs.get(&id)?;
    let names = |of: &NodeId| rooms.machine.name(*of).to_owned();
    Some(ResumedJob {
        job: id,
        nodes: resumed.iter().map(names).collect(),
        queue: job.submitted().queue.clone(),
        features: job.spec().request.features.clone(),
        exclusive: job.holds_whole_nodes(),
    })
}

/// Cloud nodes that are gone, because somebody else has taken them away, are told to go off: what is
/// left of them is cleaned up, and they can come up anew.
fn clear_away(rooms: &mut Rooms, turn: &mut Turn) {
    if rooms.config.power.cloud.is_empty() || !rooms.machine.powering().has_room(Direction::Off) {
        return;
    }
    let gone = |id: &NodeId| {
        let node = rooms.machine.node(*id);
        let open = *node.state() == NodeState::Open && node.power().phase == PowerPhase::On;
        open && node.is_gone() && rooms.config.power.cloud.contains(&node.spec().name)
    };
    let gone = rooms.machine.ids().filter(gone).take(NODES_AT_ONCE);
    let gone: Vec<NodeId> = gone.collect();
    let (config, now) = (&rooms.config.power, turn.now());
    let some = rooms.machine.within_rate(Direction::Off, config, gone, now);
    go_off(rooms, turn, &some);
}

/// Switches nodes off that were asked to be, and idle ones that nobody is to have soon.
fn switch_off(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    if !rooms.machine.powering().has_room(Direction::Off) {
        return;
    }
    let asked = rooms.machine.ids().filter(|id| {
        let node = rooms.machine.node(*id);
        node.power().phase == PowerPhase::OffWhenIdle && node.is_empty()
    });
    let mut all: Vec<NodeId> = asked.collect();
    let idle = rooms.machine.idle_too_long(&rooms.config.power, now);
    if !idle.is_empty() {
        let soon = rooms.config.power.suspend_time + EARLIER;
        let soon = reserved_soon(rooms, now, soon, |_| true);
        let busy = rooms.triggers.nodes_with_programs();
        let free = |id: &NodeId| {
            let used = soon.contains(id) || busy.contains(rooms.machine.name(*id));
            !used && !rooms.machine.powering().is_wanted(*id)
        };
        let idle = idle.into_iter().filter(free).collect();
        all.extend(rooms.machine.without_kept(&rooms.config.power, idle));
    }
    all.truncate(NODES_AT_ONCE);
    let config = &rooms.config.power;
    let some = rooms.machine.within_rate(Direction::Off, config, all, now);
    go_off(rooms, turn, &some);
}

/// These nodes, which have no jobs, are told to go off.
fn go_off(rooms: &mut Rooms, turn: &mut Turn, nodes: &[NodeId]) {
    let since = turn.now();
    for id in nodes {
        let phase = PowerPhase::TurningOff { since };
        rooms.machine.power_is(turn, *id, phase);
        rooms
            .machine
            .power_event(turn, *id, EventKind::PoweredDown, "");
        update_available(rooms, turn, *id);
    }
    run(rooms, turn, PowerProgram::Suspend, nodes, Vec::new());
}

/// Has a program run for these nodes, in pieces where there are very many.
fn run(
    rooms: &mut Rooms,
    turn: &mut Turn,
    program: PowerProgram,
    nodes: &[NodeId],
    mut jobs: Vec<ResumedJob>,
) {
    let config = &rooms.config.power;
    let (command, time) = match program {
        PowerProgram::Suspend => (config.suspend.clone(), config.suspend_time),
        PowerProgram::Resume => (config.resume.clone(), config.resume_time),
        PowerProgram::ResumeFailed => (config.resume_failed.clone(), config.resume_time),
    };
    if command.is_empty() {
        return;
    }
    for piece in nodes.chunks(NODES_AT_ONCE) {
        if let Some(direction) = direction(program) {
            rooms.machine.powering_mut().begins(direction, piece);
        }
        let names = piece.iter().map(|id| rooms.machine.name(*id).to_owned());
        turn.effect(Effect::Power(Box::new(PowerOrder {
            program,
            command: command.clone(),
            nodes: names.collect(),
            jobs: std::mem::take(&mut jobs),
            time,
        })));
    }
}

/// Where to a program switches; `None` of the one that is told of what has failed.
const fn direction(program: PowerProgram) -> Option<Direction> {
    match program {
        PowerProgram::Suspend => Some(Direction::Off),
        PowerProgram::Resume => Some(Direction::On),
        PowerProgram::ResumeFailed => None,
    }
}

/// A program that switches nodes has ended.
pub(crate) fn power_ended(rooms: &mut Rooms, turn: &mut Turn, end: PowerEnd) {
    let PowerEnd {
        program,
        nodes,
        failure,
    } = end;
    let ids = nodes.iter().filter_map(|name| rooms.machine.id_of(name));
    let ids: Vec<NodeId> = ids.collect();
    if let Some(direction) = direction(program) {
        rooms.machine.powering_mut().ends(direction, &ids);
    }
    let Some(failure) = failure else { return };
    let what = match program {
        PowerProgram::Resume => RESUME_FAILED,
        PowerProgram::Suspend => "the suspend program failed",
        PowerProgram::ResumeFailed => "the resume fail program failed",
    };
    let why = format!("{what}: {failure}");
    let mut failed = Vec::new();
    for id in ids {
        match (program, rooms.machine.node(id).power().phase) {
            (PowerProgram::Resume, PowerPhase::Booting { .. }) => {
                does_not_come_up(rooms, turn, id, &why);
                failed.push(id);
            }
            (PowerProgram::Suspend, PowerPhase::TurningOff { .. }) => {
                let phase = match rooms.machine.node(id).link() {
                    Some(_) => PowerPhase::On,
                    None => PowerPhase::Off { since: turn.now() },
                };
                rooms.machine.power_is(turn, id, phase);
                out_of_service(rooms, turn, id, &why);
            }
            _ => rooms
                .machine
                .power_event(turn, id, EventKind::PowerFailed, &why),
        }
    }
    run(rooms, turn, PowerProgram::ResumeFailed, &failed, Vec::new());
}

/// An administrator wants nodes to be on: at once, whatever the rate.
pub(crate) fn ask_on(rooms: &mut Rooms, turn: &mut Turn, ids: &[NodeId]) {
    let mut off = Vec::new();
    for id in ids {
        match rooms.machine.node(*id).power().phase {
            // Somebody else has taken it away.
            PowerPhase::On if rooms.machine.node(*id).is_gone() => off.push(*id),
            PowerPhase::On | PowerPhase::Booting { .. } => {}
            PowerPhase::OffWhenIdle => {
                rooms.machine.power_is(turn, *id, PowerPhase::On);
                update_available(rooms, turn, *id);
            }
            PowerPhase::TurningOff { .. } => rooms.machine.powering_mut().comes_back(*id),
            PowerPhase::Off { .. } => off.push(*id),
        }
    }
    boot(rooms, turn, &off, Vec::new());
}

/// An administrator wants nodes to be off: when their jobs have ended, or, with `force`, at once. Those
/// that come up are refused.
pub(crate) fn ask_off(
    rooms: &mut Rooms,
    turn: &mut Turn,
    ids: &[NodeId],
    force: bool,
) -> Vec<(String, Refusal)> {
    let (mut on, mut refused) = (Vec::new(), Vec::new());
    for id in ids {
        match rooms.machine.node(*id).power().phase {
            PowerPhase::On | PowerPhase::OffWhenIdle => on.push(*id),
            PowerPhase::TurningOff { .. } | PowerPhase::Off { .. } => {
                rooms.machine.powering_mut().is_to_come_back(*id);
            }
            PowerPhase::Booting { .. } => {
                let why = "it is on its way up: switch it off when it is there";
                let refusal = Refusal::new(RefusalCode::WrongState, why);
                refused.push((rooms.machine.name(*id).to_owned(), refusal));
            }
        }
    }
    for id in &on {
        if force {
            give_up_node(rooms, turn, *id, "it is switched off by an administrator");
        }
        rooms.machine.power_is(turn, *id, PowerPhase::OffWhenIdle);
        update_available(rooms, turn, *id);
    }
    on.retain(|id| rooms.machine.node(*id).is_empty());
    go_off(rooms, turn, &on);
    refused
}
