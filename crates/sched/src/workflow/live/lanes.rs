//! Sets of nodes as machines that take one task at a time, for the list schedulers: a set
//! is as many machines, or lanes, as it takes tasks of the workflow at a time.
//!
//! From the schedule on lanes only the set of each task and the order of tasks are kept;
//! where and when they are on nodes is found out then. A set of one node that takes one task
//! at a time is one lane, and nothing is lost.

use super::LiveFlow;
use super::free_profile::{FreeProfile, NEVER};
use super::kinds::AllKinds;
use crate::workflow::dag::{Dag, DagError, Machines};
use cosy_model::{NodeId, Time};

/// Most lanes of all sets together: more would cost time and change little.
const LANES: u64 = 128;

/// The lanes, and the set of each.
pub(super) struct AllLanes {
    pub machines: Machines,
    pub set_of: Vec<usize>,
}

impl AllLanes {
    /// Lanes for the tasks that are still to be planned.
    pub fn new(
        flow: &LiveFlow,
        tasks: &[usize],
        kinds: &AllKinds,
        profile: &FreeProfile,
    ) -> Option<Self> {
        let wide = width(flow, tasks);
        let counts: Vec<u64> = (0..flow.sets.len())
            .map(|set| at_a_time(flow, tasks, kinds, set).min(wide))
            .collect();
        let sum: u64 = counts.iter().sum();
        let fewer = |count: u64| match sum > LANES {
            true => (count * LANES / sum).max(count.min(1)),
            false => count,
        };
        let mut set_of = Vec::new();
        let mut busy = Vec::new();
        for (set, count) in counts.into_iter().enumerate() {
            let count = fewer(count) as usize;
            set_of.extend(std::iter::repeat_n(set, count));
            busy.extend(busy_lanes(set, count, tasks, kinds, profile));
        }
        let unit = |from: &usize, to: &usize| {
            let us = if from == to {
                0
            } else {
                flow.mib_us[*from][*to]
            };
            i64::try_from(us).unwrap_or(i64::MAX)
        };
        let row = |from: &usize| set_of.iter().map(|to| unit(from, to)).collect();
        let units = set_of.iter().map(row).collect();
        Some(Self {
            machines: Machines::new(units, busy)?,
            set_of,
        })
    }

    /// The workflow's graph with the lanes as machines.
    ///
    /// # Errors
    /// It is none.
    pub fn dag(
        &self,
        flow: &LiveFlow,
        begin: Time,
        tasks: &[usize],
        kinds: &AllKinds,
    ) -> Result<Dag, DagError> {
        let mut place = vec![None; flow.tasks.len()];
        for (at, task) in tasks.iter().enumerate() {
            place[*task] = Some(at);
        }
        let estimate = |task: usize, set: usize| {
            kinds.kind(task).on[set].as_ref()?;
            Some(flow.length_ms(task, set))
        };
        let rows = tasks.iter().map(|task| {
            let row = self.set_of.iter().map(|set| estimate(*task, *set));
            row.collect()
        });
        let edges = flow.edges.iter().filter_map(|edge| {
            let (from, to) = (place[edge.from]?, place[edge.to]?);
            Some((from, to, mib(edge.data_bytes)))
        });
        let mut dag = Dag::new(rows.collect(), &edges.collect::<Vec<_>>(), &self.machines)?;
        for (at, releases) in flow.releases(begin, &place).into_iter().enumerate() {
            if let Some(by_set) = releases {
                let by_lane = self.set_of.iter().map(|set| by_set[*set]);
                dag.release(at, by_lane.collect());
            }
        }
        Ok(dag)
    }
}

/// Data in MiB, rounded up.
pub(super) fn mib(bytes: u64) -> i64 {
    bytes.div_ceil(1 << 20) as i64
}

/// The most tasks that are equally far from the begin of the graph: about as many could
/// run at a time.
fn width(flow: &LiveFlow, tasks: &[usize]) -> u64 {
    let mut depth = vec![0usize; flow.tasks.len()];
    let mut waits = vec![0usize; flow.tasks.len()];
    let mut children = vec![Vec::new(); flow.tasks.len()];
    for edge in &flow.edges {
        waits[edge.to] += 1;
        children[edge.from].push(edge.to);
    }
    let mut ready: Vec<usize> = (0..flow.tasks.len()).filter(|t| waits[*t] == 0).collect();
    while let Some(task) = ready.pop() {
        for &child in &children[task] {
            depth[child] = depth[child].max(depth[task] + 1);
            waits[child] -= 1;
            if waits[child] == 0 {
                ready.push(child);
            }
        }
    }
    let mut counts = vec![0u64; flow.tasks.len() + 1];
    tasks.iter().for_each(|task| counts[depth[*task]] += 1);
    counts.into_iter().max().unwrap_or(1).max(1)
}

/// How many tasks of the workflow a set takes at a time, on average: long ones count more.
fn at_a_time(flow: &LiveFlow, tasks: &[usize], kinds: &AllKinds, set: usize) -> u64 {
    let (mut work, mut used) = (0u128, 0u128);
    for &task in tasks {
        if let Some(place) = &kinds.kind(task).on[set] {
            let ms = flow.length_ms(task, set).max(1).unsigned_abs();
            work += u128::from(ms);
            used += u128::from(ms) * 1_000_000 / u128::from(place.at_a_time);
        }
    }
    match work {
        0 => 0,
        work => u64::try_from(work * 1_000_000 / used.max(1))
            .unwrap_or(u64::MAX)
            .max(1),
    }
}

/// When the lanes of a set are busy with work of others: as many as its nodes have no room
/// for the first task that fits the set.
fn busy_lanes(
    set: usize,
    count: usize,
    tasks: &[usize],
    kinds: &AllKinds,
    profile: &FreeProfile,
) -> Vec<Vec<(i64, i64)>> {
    let mut lanes: Vec<Vec<(i64, i64)>> = vec![Vec::new(); count];
    let usual = tasks.iter().map(|task| kinds.kind(*task));
    let usual = usual.filter_map(|kind| Some((kind, kind.on[set].as_ref()?)));
    let Some((kind, place)) = usual.min_by_key(|(_, place)| place.at_a_time) else {
        return lanes;
    };
    let nodes: &[NodeId] = &place.nodes;
    let mut changes: Vec<(i64, i64)> = Vec::new();
    for node in nodes {
        for (from, until) in profile.shut(*node, &kind.print) {
            changes.push((from.max(0), 1));
            changes.push((until.max(0), -1));
        }
    }
    changes.sort_unstable();
    let (mut shut, mut busy) = (0i64, 0usize);
    for step in changes.chunk_by(|a, b| a.0 == b.0) {
        shut += step.iter().map(|(_, change)| change).sum::<i64>();
        let free = (nodes.len() as i64 - shut).max(0) as usize;
        let next = count - (free * count / nodes.len().max(1)).min(count);
        let at = step[0].0;
        for lane in lanes.get_mut(busy..next).into_iter().flatten() {
            lane.push((at, NEVER));
        }
        for lane in lanes.get_mut(next..busy).into_iter().flatten() {
            if let Some(last) = lane.last_mut() {
                last.1 = at;
            }
        }
        busy = next;
    }
    lanes
}
