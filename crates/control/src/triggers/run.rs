//! Programs of triggers: ordered, followed, told to nodes again, given up.
//!
//! A node launches such a program as it launches the script of a job: as the user, under a
//! supervisor, with a ticket and a time limit. It holds nothing of the node, waits for no
//! queue, and its output goes nowhere. It gets no right that a job of that user has not, one
//! core, which it may have to share, and little memory; what it has used is told in the
//! history (`trigger_ended`).
//!
//! Which node: one that the job was on; for others a login host, on which administrators'
//! commands work; then one with nothing to do. Never one that somebody else's job or
//! reservation has as a whole, and only so many on one node.

use crate::config::ClusterConfig;
use crate::event::{Effect, LinkId};
use crate::jobs::Jobs;
use crate::machine::Machine;
use crate::machine::nodes::Node;
use crate::reservations::Reservations;
use crate::reservations::inside::procedures::may_use;
use crate::rooms::Rooms;
use crate::set_aside::Object;
use crate::triggers::watch::procedures::note_happened;
use crate::triggers::{Due, Occasion, TriggerRow, TriggerRun, Triggers};
use crate::turn::Turn;
use cosy_model::job::OpenMode;
use cosy_model::node::{
    Allocation, AllocationKey, AttemptPhase, KillCause, Launch, NodeOrder, NodeReport,
    PrepareFailure, ProgramKey,
};
use cosy_model::{
    Attempt, Dialect, End, EndCause, EventKind, EventObject, JobId, NodeId, NodeShare, NodeState,
    OsText, Program, Span, Time, TriggerId, TriggerTarget, Uid, User, limits, variables,
};
use std::collections::{BTreeMap, BTreeSet};

/// What cannot be ordered now is looked at again after so long.
const AGAIN: Span = Span::from_secs(1);
/// A ticket is good so long beyond the time limit.
const TICKET_MARGIN: Span = Span::from_secs(3600);
/// Where the program finds others.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Triggers that are due and looked at in one turn.
const LOOKS: usize = 64;

/// How many programs there are on each node.
type Crowd = BTreeMap<String, usize>;

pub(crate) fn load_triggers(
    machine: &mut Machine,
    jobs: &Jobs,
    triggers: &mut Triggers,
    now: Time,
    rows: Vec<TriggerRow>,
    next: u64,
) {
    *triggers = Triggers::load(rows, next, now);
    machine.idle_from(now);
    // Jobs are over that were there when the trigger was set: it waits for nothing.
    let watched: Vec<JobId> = triggers.of_jobs.keys().copied().collect();
    for job in watched.into_iter().filter(|job| !jobs.contains_key(job)) {
        for id in triggers.of_jobs.get(&job).cloned().unwrap_or_default() {
            triggers.unwatch(id);
        }
    }
    let runs = triggers.all.values().filter_map(|row| row.run.as_ref());
    let gone = runs.filter(|run| !machine.has_node(&run.node));
    let gone: BTreeSet<String> = gone.map(|run| run.node.clone()).collect();
    for node in gone {
        triggers.programs_lost(now, &node);
    }
}

/// Takes up what has happened and runs what is due.
pub(crate) fn triggers_due(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    note_happened(&rooms.jobs, &mut rooms.triggers, now);
    if rooms.triggers.next_due().is_none_or(|at| at > now) {
        return;
    }
    let mut running: BTreeMap<Uid, usize> = BTreeMap::new();
    let mut crowd: Crowd = BTreeMap::new();
    for row in rooms.triggers.all.values() {
        if let Some(run) = &row.run {
            *running.entry(row.uid).or_default() += 1;
            *crowd.entry(run.node.clone()).or_default() += 1;
        }
    }
    let mut looks = LOOKS;
    while let Some(&(at, id)) = rooms.triggers.due.first().filter(|(at, _)| *at <= now) {
        if looks == 0 {
            return; // the next ones in the next turn
        }
        looks -= 1;
        rooms.triggers.due.remove(&(at, id));
        rooms.aside.works_on(Object::Trigger(id));
        let Some(row) = rooms.triggers.all.get(&id) else {
            continue;
        };
        if row.run.is_some() {
            continue; // looked at again when that is over
        }
        let running = running.entry(row.uid).or_default();
        match row.due.iter().map(|due| due.at).min() {
            None => {}
            Some(at) if at > now => drop(rooms.triggers.due.insert((at, id))),
            Some(_) => {
                let may = *running < limits::TRIGGER_PROGRAMS_AT_ONCE;
                if may && run_program(rooms, turn, id, &mut crowd).is_some() {
                    *running += 1;
                } else {
                    rooms.triggers.due.insert((now + AGAIN, id));
                }
            }
        }
    }
}

/// Orders the program of a trigger that is due, if that can be now.
fn run_program(rooms: &mut Rooms, turn: &mut Turn, id: TriggerId, crowd: &mut Crowd) -> Option<()> {
    let now = turn.now();
    let row = rooms.triggers.all.get(&id)?;
    let (due, rest) = answered(row, now)?;
    let user = rooms
        .conversations
        .fresh_user(&rooms.config, turn, row.uid)?;
    let node = node_for(rooms, id, &due, &user, crowd)?;
    let name = rooms.machine.name(node).to_owned();
    *crowd.entry(name.clone()).or_default() += 1;
    let row = rooms.triggers.all.get_mut(&id)?;
    row.due = rest;
    row.attempt = Attempt(row.attempt.0 + 1);
    let detail = format!("{} on {name}", due.occasion.argument());
    row.run = Some(TriggerRun {
        node: name,
        due,
        started: false,
    });
    if !row.spec.permanent {
        rooms.triggers.unwatch(id);
    }
    rooms.triggers.dirty.insert(id);
    turn.happened(now, EventKind::Triggered, &user.name, EventObject::Trigger(id), detail);
    order_program(&rooms.config, &rooms.machine, &rooms.triggers, turn, id, node, &user);
    Some(())
}

/// The node that the program runs on.
fn node_for(rooms: &Rooms, id: TriggerId, due: &Due, user: &User, crowd: &Crowd) -> Option<NodeId> {
    let of_job = matches!(rooms.triggers.all.get(&id)?.spec.on, TriggerTarget::Job(_));
    let can = |node: &&(usize, &Node)| {
        let (_, node) = node;
        let open = !matches!(node.state(), NodeState::Down { .. });
        let anyone = node.only_uid().is_none_or(|uid| uid == user.uid);
        let there = crowd.get(&node.spec().name).copied().unwrap_or(0);
        let room = there < limits::TRIGGER_PROGRAMS_ON_NODE;
        node.link().is_some()
            && open
            && anyone
            && room
            && !is_anothers(
                &rooms.config,
                &rooms.machine,
                &rooms.jobs,
                &rooms.reservations,
                node,
                user,
            )
    };
    let nodes: Vec<(usize, &Node)> = rooms.machine.nodes().iter().enumerate().collect();
    // After a failure the others come first.
    let turn = due.tries as usize;
    let rank = |(at, node): &&(usize, &Node)| {
        let near = due.near.iter().position(|near| *near == node.spec().name);
        let near = near.filter(|_| turn == 0);
        (
            near.unwrap_or(due.near.len()),
            !node.takes_jobs(),
            of_job || !node.spec().login,
            !node.jobs().is_empty(),
            (*at + nodes.len() - turn % nodes.len()) % nodes.len(),
        )
    };
    let best = nodes.iter().filter(can).min_by_key(rank);
    best.map(|(at, _)| NodeId(*at as u32))
}

/// Whether somebody else has the node as a whole, for a job or in a reservation.
fn is_anothers(
    config: &ClusterConfig,
    machine: &Machine,
    jobs: &Jobs,
    reservations: &Reservations,
    node: &Node,
    user: &User,
) -> bool {
    let jobs = node.jobs().iter().filter_map(|id| jobs.get(id));
    let mut whole = jobs.filter(|job| job.holds_whole_nodes());
    if whole.any(|job| job.submitted().uid != user.uid) {
        return true;
    }
    let active = reservations.active();
    let mut active = active.filter_map(|id| reservations.get(id));
    active.any(|reservation| {
        let mut shares = reservation.shares().iter();
        let here = |share: &&NodeShare| machine.node(share.node).spec().name == node.spec().name;
        let all = shares.find(here);
        all.is_some_and(|share| share.amounts.cores >= node.amounts().cores)
            && !may_use(config, reservations, user, reservation)
    })
}

/// The core of a node that a program is bound to: one that nobody has, else the last one.
fn core_for_program(machine: &Machine, node: NodeId) -> Vec<u32> {
    let node = machine.node(node);
    let cores = node.amounts().cores.min(limits::NODE_CORES);
    let free = (0..cores).rev().find(|n| !node.cores().holds_any(&[*n]));
    free.or(cores.checked_sub(1)).into_iter().collect()
}

fn order_program(
    config: &ClusterConfig,
    machine: &Machine,
    triggers: &Triggers,
    turn: &mut Turn,
    id: TriggerId,
    node: NodeId,
    user: &User,
) {
    let now = turn.now();
    let on = machine.node(node);
    let (Some(link), Some(row)) = (on.link(), triggers.all.get(&id)) else {
        return;
    };
    let Some(run) = &row.run else { return };
    let allocation = Allocation {
        key: key_of(row).into(),
        node: run.node.clone(),
        nodes: run.node.clone(),
        uid: user.uid,
        gid: user.granted(row.gid),
        groups: user.gids(),
        user: user.name.clone(),
        home: user.home.clone(),
        shell: user.shell.clone(),
        memory: Some(limits::TRIGGER_MEMORY),
        cores: core_for_program(machine, node),
        gpus: Vec::new(),
        devices: BTreeMap::new(),
        switches: String::new(),
        tasks: 0,
        limit: limits::TRIGGER_PROGRAM,
        cores_per_task: 1,
        parts: Vec::new(),
        ticket: OsText::default(),
        warn_steps: None,
        runs_again: false,
    };
    let launch = Launch {
        program: Program::Command {
            argv: argv(row, &run.due.occasion),
        },
        script: OsText::default(),
        workdir: OsText::from("/"),
        stdout: OsText::from("/dev/null"),
        stderr: OsText::default(),
        stdin: OsText::default(),
        open_mode: OpenMode::Append,
        environment: variables_of_program(config, row, user),
        login_environment: false,
        umask: 0o022,
        rlimits: Default::default(),
        warn: None,
        grace: config.policy.grace,
        dialect: Dialect::Cosy,
        container: None,
        allocation,
    };
    let expiry = now + limits::TRIGGER_PROGRAM + TICKET_MARGIN;
    let launch = Box::new(launch);
    turn.effect(Effect::RunProgram {
        link,
        launch,
        expiry,
        holder: machine.key_of_link(link),
    });
}

fn variables_of_program(config: &ClusterConfig, row: &TriggerRow, user: &User) -> OsText {
    let own = [
        ("HOME", user.home.clone()),
        ("USER", user.name.clone()),
        ("LOGNAME", user.name.clone()),
        ("SHELL", user.shell.clone()),
        (variables::CLUSTER, config.name.clone()),
        (variables::TRIGGER_ID, row.id.to_string()),
    ];
    let line = |(name, value): (&str, String)| format!("{name}={value}\0");
    // Of two with the same name the last counts.
    let mut all = format!("PATH={PATH}\0").into_bytes();
    all.extend_from_slice(&row.spec.environment.0);
    all.push(0);
    all.extend(own.map(line).concat().into_bytes());
    OsText(all)
}

// --- what nodes tell

/// Takes what a node tells of a trigger's program; gives everything else back.
pub(crate) fn report_of_program(
    machine: &Machine,
    triggers: &mut Triggers,
    turn: &mut Turn,
    link: LinkId,
    report: NodeReport,
) -> Option<NodeReport> {
    let (key, node) = match &report {
        NodeReport::Prepared { key, node, .. }
        | NodeReport::Started { key, node, .. }
        | NodeReport::Ended { key, node, .. }
        | NodeReport::Released { key, node, .. } => (*key, node),
        _ => return Some(report),
    };
    let AllocationKey::Trigger(key) = key else {
        return Some(report);
    };
    let id = machine.node_on_link(link, node)?;
    match report {
        NodeReport::Started { .. } => program_started(machine, triggers, turn, id, key),
        NodeReport::Ended { end, .. } => program_ended(machine, triggers, turn, id, key, &end),
        NodeReport::Prepared {
            failure: Some(failure),
            ..
        } => program_refused(machine, triggers, turn, id, key, &failure),
        _ => {}
    }
    None
}

/// The trigger whose present run this is.
fn present_run<'a>(
    machine: &'a Machine,
    triggers: &'a mut Triggers,
    id: NodeId,
    key: ProgramKey,
) -> Option<&'a mut TriggerRow> {
    let name = machine.name(id);
    let row = triggers.all.get_mut(&key.trigger)?;
    let here = row.run.as_ref().is_some_and(|run| run.node == *name);
    (here && row.attempt == key.attempt).then_some(row)
}

fn program_started(
    machine: &Machine,
    triggers: &mut Triggers,
    turn: &mut Turn,
    id: NodeId,
    key: ProgramKey,
) {
    let Some(row) = present_run(machine, triggers, id, key) else {
        return machine.order(turn, id, |node| NodeOrder::Kill {
            key: key.into(),
            node,
            cause: KillCause::Superseded,
            preempted: false,
        });
    };
    let first = row.run.as_mut();
    let first = first.is_some_and(|run| !std::mem::replace(&mut run.started, true));
    if first {
        triggers.dirty.insert(key.trigger);
    }
}

fn program_ended(
    machine: &Machine,
    triggers: &mut Triggers,
    turn: &mut Turn,
    id: NodeId,
    key: ProgramKey,
    end: &End,
) {
    let now = turn.now();
    machine.order(turn, id, |node| NodeOrder::Forget {
        key: key.into(),
        node,
    });
    let Some(row) = present_run(machine, triggers, id, key) else {
        return;
    };
    let started = row.run.as_ref().is_some_and(|run| run.started) || end.start.is_some();
    if started {
        let user = row.user.clone();
        let object = EventObject::Trigger(key.trigger);
        turn.happened(now, EventKind::TriggerEnded, &user, object, used(end));
    }
    match &end.cause {
        EndCause::NodeLost if !started => triggers.run_elsewhere(now, key.trigger),
        EndCause::LaunchFailed(why) => triggers.run_failed(turn, key.trigger, &why.clone()),
        _ => triggers.run_is_over(now, key.trigger),
    }
}

/// The node would not run it: another may.
fn program_refused(
    machine: &Machine,
    triggers: &mut Triggers,
    turn: &mut Turn,
    id: NodeId,
    key: ProgramKey,
    failure: &PrepareFailure,
) {
    let now = turn.now();
    machine.order(turn, id, |node| NodeOrder::Forget {
        key: key.into(),
        node,
    });
    let Some(row) = present_run(machine, triggers, id, key) else {
        return;
    };
    let tries = row.run.as_mut().map_or(0, |run| {
        run.due.tries += 1;
        run.due.tries
    });
    if tries >= limits::TRIGGER_TRIES {
        return triggers.run_failed(turn, key.trigger, &failure.reason);
    }
    triggers.run_elsewhere(now, key.trigger);
}

impl Triggers {
    /// It has not begun and will not: what it was to answer is due again.
    fn run_elsewhere(&mut self, now: Time, trigger: TriggerId) {
        let Some(row) = self.all.get_mut(&trigger) else {
            return;
        };
        if let Some(run) = row.run.take() {
            row.due.insert(0, run.due);
            self.due.insert((now + AGAIN, trigger));
            self.dirty.insert(trigger);
        }
    }

    fn run_failed(&mut self, turn: &mut Turn, trigger: TriggerId, why: &str) {
        let now = turn.now();
        let object = EventObject::Trigger(trigger);
        turn.happened(now, EventKind::TriggerFailed, "controller", object, why.to_owned());
        self.run_is_over(now, trigger);
    }

    fn run_is_over(&mut self, now: Time, trigger: TriggerId) {
        let Some(row) = self.all.get_mut(&trigger) else {
            return;
        };
        row.run = None;
        let next = row.due.iter().map(|due| due.at.max(now)).min();
        self.due.extend(next.map(|at| (at, trigger)));
        self.dirty.insert(trigger);
    }

    /// A node is given up: what has begun there has happened, the rest runs elsewhere.
    pub(crate) fn programs_lost(&mut self, now: Time, node: &str) {
        for (trigger, started) in self.programs_on(node) {
            match started {
                true => self.run_is_over(now, trigger),
                false => self.run_elsewhere(now, trigger),
            }
        }
    }

    /// Names of the nodes on which programs of triggers run or are ordered.
    pub(crate) fn nodes_with_programs(&self) -> BTreeSet<&str> {
        let runs = self.all.values().filter_map(|row| row.run.as_ref());
        runs.map(|run| run.node.as_str()).collect()
    }

    fn programs_on(&self, node: &str) -> Vec<(TriggerId, bool)> {
        let runs = self.all.values();
        let runs = runs.filter_map(|row| row.run.as_ref().map(|run| (row.id, run)));
        let here = runs.filter(|(_, run)| run.node == node);
        here.map(|(id, run)| (id, run.started)).collect()
    }
}

/// A node has come: what it knows of programs, and what it should know.
pub(crate) fn reconcile_programs(
    machine: &Machine,
    triggers: &mut Triggers,
    turn: &mut Turn,
    id: NodeId,
    known: &[(ProgramKey, &AttemptPhase)],
) {
    let now = turn.now();
    for (key, phase) in known {
        let key = *key;
        match phase {
            AttemptPhase::Running { .. } => program_started(machine, triggers, turn, id, key),
            AttemptPhase::Ended(end) => program_ended(machine, triggers, turn, id, key, end),
            AttemptPhase::Prepared if present_run(machine, triggers, id, key).is_some() => {}
            AttemptPhase::Prepared => machine.order(turn, id, |node| NodeOrder::Kill {
                key: key.into(),
                node,
                cause: KillCause::Superseded,
                preempted: false,
            }),
        }
    }
    let name = machine.name(id).to_owned();
    for (trigger, started) in triggers.programs_on(&name) {
        let key = triggers.all.get(&trigger).map(key_of);
        if known.iter().any(|(there, _)| Some(*there) == key) {
            continue;
        }
        match started {
            true => triggers.run_is_over(now, trigger),
            false => triggers.run_elsewhere(now, trigger),
        }
    }
}

/// What a program has used, in words.
fn used(end: &End) -> String {
    let cpu = end.user_cpu_us.saturating_add(end.system_cpu_us) / 1000;
    format!(
        "{}, exit code {}, {}.{:03} s of a core, {} MiB",
        end.state(),
        end.exit_code,
        cpu / 1000,
        cpu % 1000,
        end.peak_memory_bytes >> 20
    )
}

/// What one run of the program answers of all that is due, and what is left.
fn answered(row: &TriggerRow, now: Time) -> Option<(Due, Vec<Due>)> {
    let mut first: Option<Due> = None;
    let mut rest = Vec::new();
    for due in &row.due {
        let joined = match &mut first {
            _ if due.at > now => false,
            Some(first) => first.occasion.join(&due.occasion),
            None => {
                first = Some(due.clone());
                true
            }
        };
        if !joined {
            rest.push(due.clone());
        }
    }
    Some((first?, rest))
}

/// The program and its arguments; what has happened is the last.
fn argv(row: &TriggerRow, occasion: &Occasion) -> Vec<OsText> {
    let words = row.spec.program.0.split(u8::is_ascii_whitespace);
    let words = words.filter(|word| !word.is_empty());
    let last = occasion.argument();
    let all = words.chain([last.as_bytes()]);
    all.map(|word| OsText(word.to_vec())).collect()
}

fn key_of(row: &TriggerRow) -> ProgramKey {
    ProgramKey {
        trigger: row.id,
        attempt: row.attempt,
    }
}
