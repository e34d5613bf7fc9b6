//! The clocks are looked at in every turn: what happens when somebody has set one, and judging
//! those of nodes.

use crate::clock::{Clocks, LISTENS, TICK, WITNESSES, seconds, told_skew};
use crate::config::ClusterConfig;
use crate::event::LinkId;
use crate::jobs::Jobs;
use crate::jobs::job::Job;
use crate::jobs::run::Run;
use crate::machine::Machine;
use crate::machine::availability::{tell_policy, update_available};
use crate::planning::Planning;
use crate::planning::late_starts::keep_promise;
use crate::planning::suspension::plan_end_again;
use crate::record::{ClockRow, Record};
use crate::reservations::Reservations;
use crate::reservations::procedures::touch_reservation;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::{
    ClockReading, ClockStep, End, EventKind, EventObject, JobId, NodeId, Span, Time, limits,
};

impl Clocks {
    /// The store says how clocks stood, or nothing that is of use now.
    pub(crate) fn clocks_restored(&mut self, comparable: bool) {
        self.unsaved &= !comparable;
        self.unsure = !comparable;
    }

    /// How clocks stand is kept with what was counted from dates on them.
    pub(crate) fn save_clocks(&mut self, turn: &mut Turn) {
        if std::mem::take(&mut self.unsaved) {
            let row = ClockRow::of(self.agreed);
            turn.record(Record::Clock(row));
        }
    }
}

/// A node says how long a program has run. Where the store could not tell what its dates
/// mean on the clock as it is now, the attempt is counted from then.
pub(crate) fn has_run_for(rooms: &mut Rooms, turn: &mut Turn, id: JobId, ran: Span) {
    let now = turn.now();
    let run = rooms.jobs.get(&id).and_then(Job::run);
    let run = run.filter(|run| run.is_from_store() && rooms.clocks.unsure);
    let Some(from) = run.and_then(|run| run.started()) else {
        return;
    };
    let by = (now - ran).ahead_of(from);
    if by.abs() < limits::RUN_OFF {
        return;
    }
    let step = ClockStep { from, by };
    run_goes_on(
        &rooms.config,
        &mut rooms.jobs,
        &mut rooms.planning,
        &mut rooms.reservations,
        id,
        step,
    );
    if by > Span::ZERO && rooms.reservations.live().next().is_some() {
        keep_promise(rooms, turn, now, id, by);
    }
    let detail = format!(
        "it has run for {ran}: its dates were those of another clock, and are set by {} s",
        by.ms() / 1000
    );
    turn.happened(now, EventKind::DatesSet, "controller", EventObject::Job(id), detail);
}

/// Looks at the clocks; what was counted from dates is set right when one was set.
pub(crate) fn look_at_clocks(rooms: &mut Rooms, turn: &mut Turn, now: ClockReading) {
    if let Some((by, slept)) = rooms.clocks.look(now) {
        let from = Time(now.wall.0.saturating_sub(by.ms()));
        clock_set(rooms, turn, now.wall, ClockStep { from, by });
        tell_step(turn, now.wall, by, slept);
    }
}

fn tell_step(turn: &mut Turn, now: Time, by: Span, slept: Span) {
    let way = if by < Span::ZERO {
        "backward"
    } else {
        "forward"
    };
    let set = Span(by.ms() - slept.ms());
    let mut told = Vec::new();
    if slept >= limits::CLOCK_STEP {
        told.push(format!("the machine slept for {slept}"));
    }
    if slept < limits::CLOCK_STEP || set.abs() >= limits::CLOCK_STEP {
        let (set, way) = match slept < limits::CLOCK_STEP {
            true => (by, way),
            false if set < Span::ZERO => (set, "backward"),
            false => (set, "forward"),
        };
        told.push(format!("set {way} by {} s", seconds(set)));
    }
    let object = EventObject::ControllerClock;
    turn.happened(now, EventKind::ClockSet, "controller", object, told.join(", "));
}

/// The clock on the wall was set.
fn clock_set(rooms: &mut Rooms, turn: &mut Turn, now: Time, step: ClockStep) {
    rooms.clocks.clock_set(step);
    rooms.conversations.clock_set(step, rooms.clocks.steady);
    runs_go_on(rooms, turn, now, step);
    rooms.jobs.clock_set(step);
    rooms.planning.room_mut().clock_set(step);
    for id in rooms.reservations.clock_set(step) {
        touch_reservation(&rooms.config, &mut rooms.reservations, id);
    }
    rooms.workflows.clock_set(step);
    rooms.triggers.clock_set(step);
    nodes_set(&rooms.config, &rooms.clocks, &mut rooms.machine, turn, step);
    rooms.planning.cluster_mut().clock_set();
}

/// Attempts have had as much of their time as before.
fn runs_go_on(rooms: &mut Rooms, turn: &mut Turn, now: Time, step: ClockStep) {
    let holding: Vec<JobId> = rooms
        .jobs
        .all()
        .filter(|job| job.run().is_some())
        .map(|job| job.id())
        .collect();
    for id in holding.iter().copied() {
        run_goes_on(
            &rooms.config,
            &mut rooms.jobs,
            &mut rooms.planning,
            &mut rooms.reservations,
            id,
            step,
        );
    }
    if step.by > Span::ZERO && rooms.reservations.live().next().is_some() {
        for id in holding {
            keep_promise(rooms, turn, now, id, step.by);
        }
    }
}

fn run_goes_on(
    config: &ClusterConfig,
    jobs: &mut Jobs,
    planning: &mut Planning,
    reservations: &mut Reservations,
    id: JobId,
    step: ClockStep,
) {
    if let Some(run) = jobs.get_mut(&id).and_then(Job::run_mut) {
        run.clock_set(step);
        plan_end_again(config, jobs, planning, reservations, id);
        jobs.changed(id);
    }
}

fn nodes_set(
    config: &ClusterConfig,
    clocks: &Clocks,
    machine: &mut Machine,
    turn: &mut Turn,
    step: ClockStep,
) {
    machine.clock_set(step);
    tell_policy(config, clocks, machine, turn);
}

/// Silence is measured in time in which the controller listened. A turn that took long
/// counts as one look into the mailbox: what nodes said meanwhile is still in there, or
/// on its way. After a longer gap (the machine stood still), and after any sleep,
/// everybody has the whole of its time again.
pub(crate) fn listen(config: &ClusterConfig, clocks: &mut Clocks, machine: &mut Machine) {
    let (steady, slept) = (clocks.steady, clocks.slept);
    let (last, slept_then) = std::mem::replace(&mut clocks.last_turn, (steady, slept));
    let passed = steady.since(last);
    let slept = Span(slept.ms().saturating_sub(slept_then.ms()));
    let timeout = config.policy.node_timeout;
    let most = Span(timeout.0 / 4).clamp(TICK, LISTENS);
    clocks.listened = clocks.listened + passed.min(most);
    if passed > Span(timeout.0 / 2).max(TICK) || slept >= limits::CLOCK_STEP {
        hear_all(clocks, machine);
    }
}

fn hear_all(clocks: &Clocks, machine: &mut Machine) {
    machine.all_heard(clocks.listened);
}

// ---- nodes

/// The daemon of a link has told what its clock shows.
pub(crate) fn note_clock(rooms: &mut Rooms, turn: &mut Turn, link: LinkId, told: Time) {
    let nodes = rooms.machine.link(link).map(|link| link.nodes.clone());
    for id in nodes.unwrap_or_default() {
        note_clock_of(rooms, turn, id, told);
    }
}

pub(crate) fn note_clock_of(rooms: &mut Rooms, turn: &mut Turn, id: NodeId, told: Time) {
    let now = turn.now();
    rooms.machine.node_mut(id).clock_told(told.ahead_of(now));
    judge_clock(rooms, turn, id);
}

fn is_off(config: &ClusterConfig, machine: &Machine, id: NodeId) -> Option<bool> {
    let most = config.policy.clock_skew;
    let ahead = machine.node(id).clock().ahead();
    ahead.map(|ahead| ahead.abs() > most)
}

/// A node with a wrong clock takes no jobs; it comes back with a right one.
fn judge_clock(rooms: &mut Rooms, turn: &mut Turn, id: NodeId) {
    let now = turn.now();
    let Some(off) = is_off(&rooms.config, &rooms.machine, id) else {
        return;
    };
    let wrong = off && !rooms.clocks.doubted;
    let node = rooms.machine.node_mut(id);
    if !node.clock_is_wrong(wrong) {
        return;
    }
    let kind = match wrong {
        true => EventKind::ClockWrong,
        false => EventKind::ClockRight,
    };
    let told = node.clock().ahead().map(told_skew).unwrap_or_default();
    let object = EventObject::Node(node.spec().name.clone());
    turn.happened(now, kind, "controller", object, told);
    update_available(rooms, turn, id);
}

/// Whose clock is off now, one line each and so many at most: nodes, or the controller itself where most
/// of them say so.
pub(crate) fn clocks_off(rooms: &Rooms) -> Vec<String> {
    let machine = &rooms.machine;
    let is_off = |id: &NodeId| {
        let linked = machine.node(*id).link().is_some();
        linked && is_off(&rooms.config, machine, *id) == Some(true)
    };
    let off: Vec<NodeId> = machine.ids().filter(is_off).collect();
    if rooms.clocks.doubted {
        return vec![format!(
            "the controller's own clock is off, as {} nodes say",
            off.len()
        )];
    }
    let line = |id: &NodeId| {
        let node = machine.node(*id);
        let told = node.clock().ahead().map(told_skew).unwrap_or_default();
        format!("node {}: {told}", node.spec().name)
    };
    let mut lines: Vec<String> = off.iter().take(limits::CLOCKS_TOLD).map(line).collect();
    if let Some(more) = off
        .len()
        .checked_sub(limits::CLOCKS_TOLD)
        .filter(|n| *n > 0)
    {
        lines.push(format!("clocks of {more} more nodes are off"));
    }
    lines
}

/// Where most nodes say that the controller's clock is wrong, theirs are not.
pub(crate) fn check_clocks(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    let linked = rooms
        .machine
        .ids()
        .filter(|id| rooms.machine.node(*id).link().is_some());
    let telling: Vec<(NodeId, bool)> = linked
        .filter_map(|id| Some((id, is_off(&rooms.config, &rooms.machine, id)?)))
        .collect();
    let off = telling.iter().filter(|(_, off)| *off).count();
    let doubted = telling.len() >= WITNESSES && 2 * off > telling.len();
    if doubted != rooms.clocks.doubted {
        rooms.clocks.doubted = doubted;
        let (kind, told) = match doubted {
            true => (EventKind::ClockWrong, format!("{off} of {} nodes say so", telling.len())),
            false => (EventKind::ClockRight, String::new()),
        };
        let object = EventObject::ControllerClock;
        turn.happened(now, kind, "controller", object, told);
        for (id, _) in telling {
            judge_clock(rooms, turn, id);
        }
    }
}

/// A start as a node tells it, on the controller's clock: never before the nodes were
/// given, never after now.
pub(crate) fn start_on_our_clock(
    machine: &Machine,
    now: Time,
    id: NodeId,
    run: &Run,
    told: Time,
) -> Time {
    let date = machine.node(id).clock().date(told);
    date.within(run.allocated(), now)
}

/// The end of an attempt as a node tells it, on the controller's clock. Between its start
/// and its end the node has measured on a clock that nobody sets: that length is kept.
pub(crate) fn end_on_our_clock(
    machine: &Machine,
    now: Time,
    id: NodeId,
    run: &Run,
    told: End,
) -> End {
    let first = run.started().or_else(|| {
        let start = told.start?;
        Some(start_on_our_clock(machine, now, id, run, start))
    });
    let end = match (first, told.start) {
        (Some(first), Some(start)) => first + told.end.since(start),
        (Some(_) | None, None) | (None, Some(_)) => machine.node(id).clock().date(told.end),
    };
    End {
        start: first,
        end: end.within(first.unwrap_or(run.allocated()), now),
        ..told
    }
}

/// When a step was, on the controller's clock: as long as its node has measured, and not
/// before its job had the nodes, where that is known.
pub(crate) fn step_on_our_clock(
    machine: &Machine,
    now: Time,
    id: NodeId,
    run: Option<&Run>,
    told: &mut End,
) {
    let clock = &machine.node(id).clock();
    let first = told.start.unwrap_or(told.end);
    let length = told.end.since(first);
    let earliest = run.map_or(Time(i64::MIN), |run| run.allocated());
    let start = clock.date(first).within(earliest, now);
    told.start = told.start.map(|_| start);
    told.end = (start + length).min(now.max(start));
}
