//! What it takes to plan a workflow on a live machine: 256 nodes of 16 cores in two sets,
//! half of them busy, with 200 reservations in the next days.

use crate::{Dice, Round, Table, timed};
use cosy_model::workflow::{FlowDeadline, FlowScheduler, FlowSlackPolicy};
use cosy_model::{Amounts, JobId, NodeId, NodeShare, ReservationId, Span, Time};
use cosy_sched::workflow::live::{LiveEdge, LiveFlow, LiveTask};
use cosy_sched::{Block, Component, NodeMask, Policy, Scheduler};
use std::sync::Arc;

const NODES: usize = 256;
const CORES: u32 = 16;
const HOUR_MS: i64 = 3_600_000;

/// A machine and a workflow.
struct Work {
    machine: Scheduler,
    flow: LiveFlow,
}

/// All figures of workflows on a live machine.
pub fn all(table: &Table) {
    for scheduler in FlowScheduler::ALL {
        for policy in FlowSlackPolicy::ALL {
            line(table, 100, false, scheduler, policy);
        }
    }
    for policy in [FlowSlackPolicy::REvenTime, FlowSlackPolicy::CpEvenPercent] {
        for scheduler in FlowScheduler::ALL {
            line(table, 10_000, false, scheduler, policy);
            line(table, 10_000, true, scheduler, policy);
        }
    }
}

fn line(table: &Table, tasks: usize, fan: bool, scheduler: FlowScheduler, policy: FlowSlackPolicy) {
    let shape = if fan { " in one fan" } else { "" };
    let name = format!("flow on a live machine: {tasks} tasks{shape}, {scheduler}, {policy}");
    table.line(&name, || work(tasks, fan, scheduler, policy), planned);
}

fn planned(work: &Work) -> Round {
    let plan = || work.machine.plan_flow(Time(0), &work.flow);
    timed(plan, |plan| {
        let plan = plan.expect("all tasks fit");
        let sum: i64 = plan
            .slots
            .iter()
            .map(|slot| slot.end.since(slot.start).0)
            .sum();
        (plan.slots.len(), format!("slots of {sum} ms"))
    })
}

fn amounts(cores: u32) -> Amounts {
    Amounts {
        cores,
        ..Amounts::default()
    }
}

fn machine(dice: &mut Dice) -> Scheduler {
    let nodes = vec![amounts(CORES); NODES];
    let mut machine = Scheduler::new(Policy::EASY, nodes, vec![NodeMask::all(NODES)]);
    let share = |node: usize| NodeShare {
        component: 0,
        node: NodeId(node as u32),
        tasks: CORES,
        amounts: amounts(CORES),
    };
    for node in 0..NODES / 2 {
        let end = Time(1 + dice.below(4 * HOUR_MS as u64) as i64);
        machine.start_running(JobId(node as u64 + 1), vec![share(node * 2)], end, true);
    }
    for at in 0..200u64 {
        let start = Time(dice.below(48 * HOUR_MS as u64) as i64);
        let length = Span(HOUR_MS);
        let first = dice.below(NODES as u64 - 8) as usize;
        let shares: Vec<NodeShare> = (first..first + 8).map(share).collect();
        if machine.are_free(Time(0), &shares, start, length) {
            machine.add_block(Block {
                holds: Vec::new(),
                reservation: ReservationId(at),
                shares,
                start,
                end: start + length,
            });
        }
    }
    machine
}

/// A sixteenth of the tasks asks for eight nodes, as many for two cores, the others for one
/// node. Levels of up to the root of all, or one.
fn work(tasks: usize, fan: bool, scheduler: FlowScheduler, policy: FlowSlackPolicy) -> Work {
    let mut dice = Dice(88_172_645_463_325_252);
    let machine = machine(&mut dice);
    let demand = |nodes: u32, exclusive: bool| {
        Arc::new(Component {
            nodes: Some(nodes),
            tasks: nodes,
            per_task: amounts(2),
            exclusive,
            allowed: NodeMask::all(NODES).into(),
            ..Component::default()
        })
    };
    let (wide, part, one) = (demand(8, true), demand(1, false), demand(1, true));
    let task = |_| {
        let slow = 60_000 + dice.below(1_200_000) as i64;
        LiveTask {
            demand: match dice.below(16) {
                0 => wide.clone(),
                1 => part.clone(),
                _ => one.clone(),
            },
            holds: cosy_sched::Holds::NONE,
            estimates: vec![Span(slow), Span(slow * 2 / 3)],
            tariff: 0,
            fixed: None,
        }
    };
    let all = (0..tasks).map(task).collect();
    let (mut edges, mut level) = (Vec::new(), 0..1);
    while level.end < tasks {
        let most = if fan {
            tasks
        } else {
            1 + dice.below(tasks.isqrt() as u64) as usize
        };
        let next = level.end..(level.end + most).min(tasks);
        for to in next.clone() {
            let from = level.start + dice.below(level.len() as u64) as usize;
            let data_bytes = dice.below(1 << 30);
            edges.push(LiveEdge {
                from,
                to,
                data_bytes,
            });
        }
        level = next;
    }
    let half = |from: usize| {
        (from..from + NODES / 2)
            .map(|node| NodeId(node as u32))
            .collect()
    };
    let flow = LiveFlow {
        tasks: all,
        edges,
        sets: vec![half(0), half(NODES / 2)],
        mib_us: vec![vec![0, 10_000], vec![10_000, 0]],
        earliest: Time(0),
        deadline: FlowDeadline::Slack(500),
        scheduler,
        policy,
        threshold_permille: 50,
        margin: Span::from_secs(5),
        replaces: Vec::new(),
        pricing: None,
    };
    Work { machine, flow }
}
