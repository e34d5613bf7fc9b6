//! What few switches cost and bring: the same log on nodes whose switches nobody minds, and on
//! nodes with 32 on each leaf switch and eight of those under one more.

use crate::{Job, Table, cluster, log, timed};
use cosy_model::{JobId, NodeId, Time};
use cosy_sched::{Component, Demand, NodeMask, Policy, Topology};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

const LEAF: usize = 32;
const LEAVES_UNDER_ONE: usize = 8;

fn tree(nodes: usize) -> Arc<Topology> {
    let leaves = nodes.div_ceil(LEAF);
    let nodes_of = |leaf: usize| -> NodeMask {
        let own = leaf * LEAF..((leaf + 1) * LEAF).min(nodes);
        own.map(|node| NodeId(node as u32)).collect()
    };
    let all: Vec<u32> = (0..leaves as u32).collect();
    let above = all
        .chunks(LEAVES_UNDER_ONE)
        .map(|under| (1, under.to_vec()));
    Arc::new(Topology::new(nodes, (0..leaves).map(nodes_of).collect(), above.collect()))
}

fn minding(demand: &Demand, tree: &Arc<Topology>) -> Arc<Demand> {
    let one = demand.first();
    let several = one.nodes.is_some_and(|nodes| nodes > 1);
    Arc::new(Demand::from(Component {
        topology: several.then(|| Arc::clone(tree)),
        ..one.clone()
    }))
}

/// Plays a log. How many jobs of several nodes there were, and on how many leaf switches.
fn play(jobs: &[Job], nodes: usize, tree: &Topology) -> (u64, u64) {
    let mut scheduler = cluster(Policy::EASY, nodes);
    let mut ends: BinaryHeap<Reverse<(Time, u64)>> = BinaryHeap::new();
    let (mut next, mut wide, mut switches) = (0, 0, 0);
    loop {
        let submit = jobs.get(next).map(|job| job.waiting.key.submit);
        let end = ends.peek().map(|end| end.0.0);
        let Some(now) = submit.into_iter().chain(end).min() else {
            return (wide, switches);
        };
        while let Some(over) = ends.peek().filter(|end| end.0.0 <= now) {
            scheduler.end(JobId(over.0.1));
            ends.pop();
        }
        while let Some(job) = jobs.get(next).filter(|job| job.waiting.key.submit <= now) {
            scheduler.enqueue(job.waiting.clone());
            next += 1;
        }
        for start in scheduler.schedule(now) {
            let own = scheduler.held_by(start);
            if own.len() > 1 {
                wide += 1;
                let on = own.iter().map(|share| share.node);
                switches += u64::from(tree.switches_of(on));
            }
            ends.push(Reverse((now + jobs[start.0 as usize].runs, start.0)));
        }
    }
}

/// Both, in turn.
pub fn switches(table: &Table) {
    for nodes in [1000, 10_000] {
        let tree = tree(nodes);
        let plain = log(20_000, nodes, 600_000, 60);
        let mut known: std::collections::BTreeMap<u32, Arc<Demand>> = Default::default();
        let minding = |job: &Job| {
            let mut job = job.clone();
            let count = job.waiting.demand.first().nodes.unwrap_or(1);
            let demand = known
                .entry(count)
                .or_insert_with(|| minding(&job.waiting.demand, &tree));
            job.waiting.demand = Arc::clone(demand);
            job
        };
        let near: Vec<Job> = plain.iter().map(minding).collect();
        for (what, jobs) in [("any switches", &plain), ("few switches", &near)] {
            let round = |jobs: &&Vec<Job>| {
                let tell = |(wide, switches): (u64, u64)| {
                    let each = switches as f64 / wide.max(1) as f64;
                    (
                        jobs.len(),
                        format!("{wide} jobs of several nodes, {each:.2} leaf switches each"),
                    )
                };
                timed(|| play(jobs, nodes, &tree), tell)
            };
            table.line(&format!("switches: {nodes} nodes, {what}"), || jobs, round);
        }
    }
}
