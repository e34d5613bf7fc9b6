//! Figure 9: how long planning takes, over the number of tasks; random graphs, alpha 50.
//!
//! The clock is handed in and tells the processor time of the calling thread. Each set of
//! graphs is planned several times, and the least counts: others may use the machine.

use super::{SCHEDULERS, longer_ms, threshold_ms};
use crate::dag::{GraphKind, GraphSettings};
use cosy_sched::workflow::{Dag, FlowSlackPolicy, Machines, Schedule, schedule, share_out};
use serde::Serialize;
use std::time::Duration;

/// Numbers of tasks of the graphs that are timed.
pub const TASKS: [usize; 5] = [20, 40, 60, 80, 100];
/// Time to share out, in per cent of the first schedule.
const ALPHA: f64 = 50.0;
/// How often each set is planned.
const TIMES: usize = 3;

/// Mean times of planning a graph of some size, in microseconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Tasks of the graph.
    pub tasks: usize,
    /// First schedules alone, in the order of [`SCHEDULERS`].
    pub first_us: [f64; 4],
    /// First schedule and sharing out: by policy, then by first schedule.
    pub whole_us: [[f64; 4]; 6],
    /// Median number of ways through the first schedule with HBMCT, from any first task to
    /// any last one: what listing all of them would have to list.
    pub ways: f64,
}

/// All points, each over so many graphs; `progress` is called after each with their number.
pub fn points(
    graphs: u64,
    seed: u64,
    cpu: &dyn Fn() -> Duration,
    progress: &dyn Fn(u64),
) -> Vec<Point> {
    let point = |(at, tasks): (usize, &usize)| {
        let point = point(*tasks, graphs, seed, cpu);
        progress(at as u64 + 1);
        point
    };
    TASKS.iter().enumerate().map(point).collect()
}

fn point(tasks: usize, graphs: u64, seed: u64, cpu: &dyn Fn() -> Duration) -> Point {
    let settings = |seed| GraphSettings {
        tasks,
        ..GraphSettings::usual(GraphKind::Random, seed)
    };
    let seeds = seed..seed.saturating_add(graphs);
    let all: Vec<(Dag, Machines)> = seeds
        .filter_map(|seed| settings(seed).generate().planned().ok())
        .collect();
    let mean_us = |work: &mut dyn FnMut()| {
        let least = (0..TIMES).map(|_| spent(cpu, work)).min();
        let secs = least.unwrap_or_default().as_secs_f64();
        secs * 1e6 / all.len().max(1) as f64
    };
    let mut first_us = [0.0; 4];
    let mut whole_us = [[0.0; 4]; 6];
    let mut ways = Vec::new();
    for (at, scheduler) in SCHEDULERS.into_iter().enumerate() {
        let firsts = || {
            let first = all.iter().map(|(dag, on)| schedule(scheduler, dag, on));
            first.collect::<Vec<Schedule>>()
        };
        let mut made = firsts();
        first_us[at] = mean_us(&mut || made = firsts());
        for (row, policy) in FlowSlackPolicy::ALL.into_iter().enumerate() {
            let shared = mean_us(&mut || {
                for ((dag, machines), first) in all.iter().zip(&made) {
                    let deadline = longer_ms(first.end_ms(), ALPHA);
                    let threshold = threshold_ms(deadline);
                    std::hint::black_box(share_out(
                        policy, dag, machines, first, deadline, threshold,
                    ));
                }
            });
            whole_us[row][at] = first_us[at] + shared;
        }
        if at == 0 {
            ways = all
                .iter()
                .zip(&made)
                .map(|(one, s)| ways_of(&one.0, s))
                .collect();
        }
    }
    ways.sort_by(f64::total_cmp);
    Point {
        tasks,
        first_us,
        whole_us,
        ways: ways.get(ways.len() / 2).copied().unwrap_or(0.0),
    }
}

fn spent(cpu: &dyn Fn() -> Duration, work: &mut dyn FnMut()) -> Duration {
    let before = cpu();
    work();
    cpu().saturating_sub(before)
}

/// How many ways lead through a schedule, by the graph and along machines.
fn ways_of(dag: &Dag, schedule: &Schedule) -> f64 {
    let mut ways = vec![0.0; dag.count()];
    let mut all = 0.0;
    for &task in schedule.order() {
        let parents = dag.tasks()[task].parents.iter().map(|edge| edge.task);
        let mut before: Vec<usize> = parents
            .chain(schedule.before(task).iter().copied())
            .collect();
        before.sort_unstable();
        before.dedup();
        ways[task] = match before.is_empty() {
            true => 1.0,
            false => before.iter().map(|other| ways[*other]).sum(),
        };
        if dag.tasks()[task].children.is_empty() && schedule.next(task).is_empty() {
            all += ways[task];
        }
    }
    all
}
