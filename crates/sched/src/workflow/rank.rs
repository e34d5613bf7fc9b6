//! Ranks of tasks: how much is still to do below them, on average over the machines.
//!
//! Averages are kept as sums over a common denominator, so that comparing them is exact.

use super::dag::{Dag, Machines};

/// Upward ranks (Topcuoglu et al., eq. 8): the mean estimate of a task and the longest way
/// below it, with mean transfer times. All are multiplied by the same number, so they can
/// be compared with each other only.
pub fn upward(dag: &Dag, machines: &Machines) -> Vec<i128> {
    let (units, pairs) = machines.units();
    let pairs = pairs.max(1);
    let mut rank = vec![0i128; dag.count()];
    for &task in dag.order().iter().rev() {
        let below = dag.tasks()[task].children.iter();
        let ways = below.map(|e| transfer(e.data, units).saturating_add(rank[e.task]));
        let below = ways.max().unwrap_or(0);
        rank[task] = mean(dag, task).saturating_mul(pairs).saturating_add(below);
    }
    rank
}

/// The transfer times of that much data between all pairs of machines together, in
/// milliseconds, times [`DENOMINATOR`].
fn transfer(data: i64, units_us: i128) -> i128 {
    let us = i128::from(data).saturating_mul(units_us);
    us.saturating_mul(DENOMINATOR) / 1000
}

/// A number that the counts of machines of one task usually divide.
const DENOMINATOR: i128 = 720_720;

/// The mean estimate of a task, times [`DENOMINATOR`].
fn mean(dag: &Dag, task: usize) -> i128 {
    let (sum, count) = dag
        .places(task)
        .fold((0, 0), |(sum, count), (_, ms)| (sum + i128::from(ms), count + 1));
    sum * DENOMINATOR / count.max(1)
}

/// Static levels (Sih and Lee, 1993): the longest way below a task, in median estimates,
/// without transfers; in milliseconds.
pub fn static_levels(dag: &Dag) -> Vec<i64> {
    let mut level = vec![0i64; dag.count()];
    for &task in dag.order().iter().rev() {
        let below = dag.tasks()[task].children.iter().map(|e| level[e.task]);
        level[task] = median_ms(dag, task).saturating_add(below.max().unwrap_or(0));
    }
    level
}

/// The median estimate of a task; the lower of two.
pub fn median_ms(dag: &Dag, task: usize) -> i64 {
    let mut all: Vec<i64> = dag.places(task).map(|(_, ms)| ms).collect();
    all.sort_unstable();
    all.get(all.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(0)
}

/// Tasks by falling rank; of equal ones those before that others wait for.
pub fn by_rank(dag: &Dag, rank: &[i128]) -> Vec<usize> {
    let mut place = vec![0; dag.count()];
    for (at, task) in dag.order().iter().enumerate() {
        place[*task] = at;
    }
    let mut tasks: Vec<usize> = (0..dag.count()).collect();
    tasks.sort_by_key(|task| (std::cmp::Reverse(rank[*task]), place[*task]));
    tasks
}
