//! What it takes to plan a workflow: a first schedule, and the time until the deadline
//! shared out, half of the schedule's length.

use crate::{Dice, Round, Table, timed};
use cosy_sched::workflow::{Dag, FlowScheduler, FlowSlackPolicy, Machines, schedule, share_out};

const MACHINES: usize = 5;

/// A graph and the machines.
struct Work {
    dag: Dag,
    machines: Machines,
}

/// All figures of workflows.
pub fn all(table: &Table) {
    for scheduler in FlowScheduler::ALL {
        for policy in FlowSlackPolicy::ALL {
            line(table, 100, scheduler, policy);
        }
    }
    for scheduler in FlowScheduler::ALL {
        for policy in [FlowSlackPolicy::CpEvenTime, FlowSlackPolicy::CpEvenPercent] {
            line(table, 1000, scheduler, policy);
        }
    }
    line(table, 10_000, FlowScheduler::Heft, FlowSlackPolicy::REvenTime);
    for tasks in [100, 1000] {
        for scheduler in FlowScheduler::ALL {
            wide(table, tasks, scheduler, FlowSlackPolicy::CpEvenPercent);
        }
    }
}

fn line(table: &Table, tasks: usize, scheduler: FlowScheduler, policy: FlowSlackPolicy) {
    let most = tasks.isqrt();
    named(table, "", || layered(tasks, most), scheduler, policy, tasks);
}

/// All tasks but the first and the last wait for nothing else.
fn wide(table: &Table, tasks: usize, scheduler: FlowScheduler, policy: FlowSlackPolicy) {
    let fan = || layered(tasks, usize::MAX);
    named(table, " in one fan", fan, scheduler, policy, tasks);
}

fn named(
    table: &Table,
    shape: &str,
    build: impl FnOnce() -> Work,
    scheduler: FlowScheduler,
    policy: FlowSlackPolicy,
    tasks: usize,
) {
    let (first, second) = (scheduler.word(), policy.word());
    let name = format!("workflow: {tasks} tasks{shape}, {first}, {second}");
    table.line(&name, build, |work| planned(work, scheduler, policy));
}

fn planned(work: &Work, scheduler: FlowScheduler, policy: FlowSlackPolicy) -> Round {
    let Work { dag, machines } = work;
    let plan = || {
        let first = schedule(scheduler, dag, machines);
        let deadline = first.end_ms() / 2 * 3;
        share_out(policy, dag, machines, &first, deadline, deadline / 20)
    };
    timed(plan, |plan| {
        let sum: i64 = plan.slots().iter().map(|slot| slot.length_ms()).sum();
        (dag.count(), format!("slots of {sum} ms"))
    })
}

/// Levels of up to `most` tasks, each task with one to three children in the next; between
/// one task at the beginning and one at the end. `usize::MAX`: one level.
fn layered(tasks: usize, most: usize) -> Work {
    let mut dice = Dice(88_172_645_463_325_252);
    let units = |from: usize| (0..MACHINES).map(move |to| i64::from(from != to) * 1000);
    let units = (0..MACHINES).map(|from| units(from).collect()).collect();
    let machines = Machines::new(units, vec![Vec::new(); MACHINES]);
    let estimate = |dice: &mut Dice| Some(10_000 + dice.below(90_000) as i64);
    let row = |dice: &mut Dice| (0..MACHINES).map(|_| estimate(dice)).collect();
    let rows = (0..tasks).map(|_| row(&mut dice)).collect();
    let mut edges = Vec::new();
    let mut level = 0..1;
    while level.end < tasks {
        let rest = tasks - 1 - level.end;
        let wide = match most {
            usize::MAX => rest,
            most => 1 + dice.below(most as u64) as usize,
        };
        let next = level.end..level.end + wide.min(rest).max(1);
        for task in next.clone() {
            let parent = level.start + dice.below(level.len() as u64) as usize;
            edges.push((parent, task, dice.below(50_000) as i64));
        }
        for task in level {
            for _ in 0..1 + dice.below(3) {
                let child = next.start + dice.below(next.len() as u64) as usize;
                edges.push((task, child, dice.below(50_000) as i64));
            }
        }
        level = next;
    }
    edges.sort_unstable_by_key(|(from, to, _)| (*from, *to));
    edges.dedup_by_key(|(from, to, _)| (*from, *to));
    let machines = machines.expect("as many rows as machines");
    let dag = Dag::new(rows, &edges, &machines).expect("edges lead to the next level");
    Work { dag, machines }
}
