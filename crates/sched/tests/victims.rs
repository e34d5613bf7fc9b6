//! Who makes room for whom, against a search through all subsets.
#![allow(clippy::unwrap_used)] // tests

mod common;

use common::{Pair, Request, mask};
use cosy_model::{
    Amounts, JobId, MiB, NodeId, NodeShare, QueueId, ReservationId, Span, Time, WaitReason,
};
use cosy_sched::{
    Block, Candidate, Component, Hold, HoldAmount, Holds, Leaver, NodeMask, OrderKey, Policy,
    PoolId, PoolKind, PoolSpec, Scheduler, WaitingJob,
};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Without these jobs, or with what they keep; nobody waits but those before.
fn without(planner: &Scheduler, before: &[JobId], gone: &[&Candidate]) -> Scheduler {
    let mut planner = planner.clone();
    let waiting: Vec<JobId> = planner.waiting_in_order().map(|job| job.key.job).collect();
    for job in waiting.iter().filter(|job| !before.contains(job)) {
        planner.dequeue(*job);
    }
    for one in gone {
        match &one.keeps {
            None => {
                planner.end(one.job);
            }
            Some(keeps) => {
                planner.end(one.job);
                planner.start_running(one.job, keeps.clone(), Time::FAR, false);
            }
        }
    }
    planner
}

/// Cost and number of those who go; of equal ones the youngest, which is how `order` stands.
type Rank = (u128, usize, Vec<usize>);

fn rank(order: &[&Candidate], who: &[usize]) -> Rank {
    let cost = who.iter().map(|at| u128::from(order[*at].cost)).sum();
    (cost, who.len(), who.to_vec())
}

fn check(
    scheduler: &Scheduler,
    job: &WaitingJob,
    before: &[JobId],
    all: &[Candidate],
) -> Result<(), TestCaseError> {
    let now = Time(1000);
    let told = scheduler.victims(now, job, before, all);
    let mut order: Vec<&Candidate> = all.iter().collect();
    order.sort_by_key(|one| (one.cost, std::cmp::Reverse(one.since), std::cmp::Reverse(one.job)));
    let starts = |who: &[usize]| {
        let gone: Vec<&Candidate> = who.iter().map(|at| order[*at]).collect();
        let planner = without(scheduler, before, &gone);
        planner.try_place(now, job).is_some()
    };
    let subset =
        |bits: usize| -> Vec<usize> { (0..order.len()).filter(|at| bits >> at & 1 == 1).collect() };
    let enough = (0..1usize << order.len()).map(subset);
    let enough: Vec<Vec<usize>> = enough.filter(|who| starts(who)).collect();
    let best = enough.iter().map(|who| rank(&order, who)).min();

    let Some(told) = told else {
        prop_assert!(best.is_none() || !before.is_empty(), "best {:?}", best);
        return Ok(());
    };
    let place = |job: &JobId| order.iter().position(|one| one.job == *job).unwrap();
    let mut who: Vec<usize> = told.iter().map(place).collect();
    who.sort_unstable();
    prop_assert!(starts(&who), "{:?} are not enough, best {:?}", who, best);
    if before.is_empty() {
        prop_assert_eq!(Some(rank(&order, &who)), best);
    }
    for subset in enough.iter().filter(|subset| subset.len() < who.len()) {
        let part = subset.iter().all(|one| who.contains(one));
        prop_assert!(!part, "{:?} are more than needed: {:?}", who, subset);
    }
    Ok(())
}

/// A running job in small numbers: cost, age, nodes with cores and memory of each, whether it has
/// them alone, whether it is only stopped, pools, whether it may be made to go.
#[derive(Clone, Debug)]
struct Runs {
    cost: u64,
    since: i64,
    nodes: Vec<(u32, u32, u64)>,
    alone: bool,
    stops: bool,
    holds: Vec<(u32, u64)>,
    may_go: bool,
}

fn runs() -> impl Strategy<Value = Runs> {
    let nodes = prop::collection::vec((0u32..NODES, 1u32..=3, 0u64..=4), 1..=3);
    let holds = prop::collection::vec((0u32..3, 1u64..=2), 0..2);
    let bools = (prop::bool::weighted(0.2), prop::bool::weighted(0.2), prop::bool::weighted(0.9));
    (0u64..9, 0i64..3, nodes, bools, holds).prop_map(|(cost, since, nodes, bools, holds)| Runs {
        cost,
        since,
        nodes,
        alone: bools.0,
        stops: bools.1,
        holds,
        may_go: bools.2,
    })
}

const NODES: u32 = 6;

/// A machine that is rather full.
#[derive(Clone, Debug)]
struct Full {
    nodes: Vec<(u32, u64, u32, u32)>,
    runs: Vec<Runs>,
    blocks: Vec<(u32, u32, i64, i64)>,
    closed: Option<u32>,
    pools: Vec<(bool, u64)>,
    heads: Vec<Request>,
    asked: Request,
}

fn full(holds: bool, heads: usize) -> impl Strategy<Value = Full> {
    let node = (2u32..=6, 4u64..=10, 0u32..=1, 0u32..=1);
    let block = (0u32..NODES, 1u32..=3, 0i64..40, 1i64..20);
    let asked = prop_oneof![2 => common::single_requests(), 1 => common::requests()];
    (
        prop::collection::vec(node, 1..=NODES as usize),
        prop::collection::vec(runs(), 3..=11),
        prop::collection::vec(block, 0..3),
        prop_oneof![4 => Just(None), 1 => (0u32..NODES).prop_map(Some)],
        prop::collection::vec((prop::bool::weighted(0.3), 2u64..6), 3),
        prop::collection::vec(common::single_requests(), heads..=heads),
        (asked, prop::collection::vec((0u32..3, 1u64..=3), 0..2)),
    )
        .prop_map(move |(nodes, runs, blocks, closed, pools, heads, (mut asked, wants))| {
            if holds {
                let wants = wants.into_iter().map(|(id, n)| (id, HoldAmount::Fixed(n)));
                asked.holds = wants.collect();
            }
            asked.required &= asked.required >> 1;
            Full {
                nodes,
                runs,
                blocks,
                closed,
                pools,
                heads,
                asked,
            }
        })
}

impl Full {
    /// Reservations are of one component.
    fn asked_is_plain(&self) -> bool {
        let (_, job, ..) = self.build(false);
        job.demand.only().is_some()
    }

    /// The planner, the job that is asked about, the heads before it, and the candidates.
    fn build(&self, holds: bool) -> (Scheduler, WaitingJob, Vec<JobId>, Vec<Candidate>) {
        let all = mask((1 << self.nodes.len()) - 1);
        let cluster = common::Cluster {
            policy: Policy::EASY,
            nodes: self
                .nodes
                .iter()
                .map(|node| common::amounts(*node))
                .collect(),
            queues: vec![all; common::QUEUES],
            leaves: Vec::new(),
        };
        let mut pair = Pair::new(&cluster);
        let mut candidates = Vec::new();
        for (at, runs) in self.runs.iter().enumerate() {
            let job = JobId(500 + at as u64);
            if let Some(candidate) = start(&mut pair, job, runs, holds) {
                candidates.extend(runs.may_go.then_some(candidate));
            }
        }
        for (id, (own, capacity)) in self.pools.iter().enumerate().filter(|_| holds) {
            let kind = if *own {
                PoolKind::Own
            } else {
                PoolKind::Shared
            };
            let spec = PoolSpec::new(kind, WaitReason::Licenses, *capacity);
            pair.scheduler.set_pool(PoolId(id as u32), spec);
        }
        for (at, (node, cores, start, length)) in self.blocks.iter().enumerate() {
            let node = NodeId(node % self.nodes.len() as u32);
            let amounts = Amounts {
                cores: *cores,
                ..Amounts::default()
            };
            let start = Time(pair.now + start);
            pair.scheduler.add_block(Block {
                reservation: ReservationId(at as u64 + 1),
                shares: vec![NodeShare {
                    node,
                    tasks: 1,
                    amounts,
                    component: 0,
                }],
                start,
                end: start + Span(*length),
                holds: Vec::new(),
            });
        }
        if let Some(node) = self.closed {
            pair.scheduler
                .set_available(NodeId(node % self.nodes.len() as u32), false);
        }
        for head in &self.heads {
            let job = pair.job(head);
            pair.scheduler.enqueue(job);
        }
        let now = Time(pair.now);
        pair.scheduler.schedule(now);
        let before = pair.scheduler.waiting_in_order();
        let before: Vec<JobId> = before.map(|job| job.key.job).collect();
        let mut asked = pair.job(&self.asked);
        asked.key.queue_priority = if before.is_empty() { 99 } else { -99 };
        (pair.scheduler, asked, before, candidates)
    }
}

/// Starts a job where it fits.
fn start(pair: &mut Pair, job: JobId, runs: &Runs, holds: bool) -> Option<Candidate> {
    let mut shares: Vec<NodeShare> = Vec::new();
    for (node, cores, memory) in &runs.nodes {
        let node = NodeId(node % pair.world.nodes.len() as u32);
        let free = pair.scheduler.free(node);
        let mut amounts = common::amounts((*cores, *memory, 0, 0));
        amounts.disk = MiB(0);
        if runs.alone {
            if pair.scheduler.used(node) != Amounts::default() {
                continue;
            }
            amounts = free.clone();
        }
        if amounts.fits(&free) && !shares.iter().any(|share| share.node == node) {
            shares.push(NodeShare {
                node,
                tasks: 1,
                amounts,
                component: 0,
            });
        }
    }
    if shares.is_empty() {
        return None;
    }
    let hold = |(pool, amount): &(u32, u64)| Hold {
        pool: PoolId(*pool),
        amount: HoldAmount::Fixed(*amount),
    };
    let held: Holds = runs.holds.iter().filter(|_| holds).map(hold).collect();
    let end = Time(pair.now + 25 + runs.since);
    pair.scheduler
        .start_running_holding(job, shares.clone(), end, runs.alone, &held);
    let keeps = |mut share: NodeShare| {
        share.amounts.cores = 0;
        share
    };
    let keeps = (runs.stops && !holds).then(|| shares.into_iter().map(keeps).collect());
    Some(Candidate {
        job,
        cost: runs.cost,
        since: Time(runs.since),
        keeps,
    })
}

fn check_full(full: &Full, holds: bool) -> Result<(), TestCaseError> {
    let (planner, job, before, candidates) = full.build(holds);
    check(&planner, &job, &before, &candidates)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1000), // PROPTEST_CASES asks for more
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Nodes shared and whole, several components, reservations, nodes that are down, jobs that
    /// are stopped and keep their memory.
    #[test]
    fn the_cheapest_set(full in full(false, 0)) {
        check_full(&full, false)?;
    }

    /// The same with resource pools.
    #[test]
    fn the_cheapest_set_with_pools(full in full(true, 0)) {
        check_full(&full, true)?;
    }

    /// Jobs that must not be pushed back stand before.
    #[test]
    fn nobody_before_is_pushed_back(full in full(false, 2)) {
        check_full(&full, false)?;
    }
}

/// A slot of the length that a job asks for, against all sets of those who could leave for it.
fn check_slot(full: &Full, ahead: i64, holds: bool) -> Result<(), TestCaseError> {
    let (planner, mut job, _, candidates) = full.build(holds);
    job.key.queue_priority = 0;
    let (now, start) = (Time(1000), Time(1000 + ahead));
    let leaver = |one: &Candidate| Leaver {
        job: one.job,
        cores: one.cost,
        unsafe_from: start - Span::from_secs(1 + one.since.0),
        since: one.since,
        gone_from: now + Span(one.since.0 * 10),
    };
    let leavers: Vec<Leaver> = candidates.iter().map(leaver).collect();
    let told = planner.place_vacated(now, &job, start, &leavers, 1);
    let ends: BTreeMap<JobId, Time> = planner.running_jobs().collect();
    let mut order: Vec<&Leaver> = leavers.iter().collect();
    order.retain(|one| one.gone_from <= start && ends[&one.job] > start);
    order.sort_by_key(|one| (one.loses(start), Reverse(one.since), Reverse(one.job)));
    let could_be = |who: &[usize]| {
        let mut planner = planner.clone();
        for at in who {
            planner.set_expected_end(order[*at].job, start);
        }
        let shares = planner.place(now, job.demand.first(), start, job.limit);
        shares.is_some_and(|shares| {
            let wants = job.holds.on(&shares);
            planner
                .are_amounts_free(now, &wants, start, job.limit)
                .is_ok()
        })
    };
    let all = (0..1usize << order.len())
        .map(|bits| -> Vec<usize> { (0..order.len()).filter(|at| bits >> at & 1 == 1).collect() });
    let rank = |who: &[usize]| {
        let cost = who.iter().map(|at| u128::from(order[*at].loses(start)));
        (cost.sum::<u128>(), who.len(), who.to_vec())
    };
    let best = all.filter(|who| could_be(who)).map(|who| rank(&who)).min();
    let place = |job: &JobId| order.iter().position(|one| one.job == *job);
    let told = told.map(|told| {
        let mut who: Vec<usize> = told.leave.iter().map(|job| place(job).unwrap()).collect();
        who.sort_unstable();
        rank(&who)
    });
    prop_assert_eq!(told, best);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(1000), // PROPTEST_CASES asks for more
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whoever leaves for a reservation: nobody else would be cheaper, and nobody is too many.
    #[test]
    fn the_cheapest_leave_for_a_slot(full in full(false, 0), ahead in 1i64..30) {
        if full.asked_is_plain() {
            check_slot(&full, ahead, false)?;
        }
    }

    /// The same with resource pools.
    #[test]
    fn the_cheapest_leave_for_a_slot_with_pools(full in full(true, 0), ahead in 1i64..30) {
        if full.asked_is_plain() {
            check_slot(&full, ahead, true)?;
        }
    }
}

/// A machine with a job on each of ten thousand nodes, and every one may go: the answer is exact where
/// nodes are alike, and nobody is in it too many.
#[test]
fn a_large_machine() {
    const NODES: u32 = 10_000;
    let check = |whole: bool, nodes: u32, tasks: u32, each: u32, holds: Holds| {
        let amounts = Amounts {
            cores: 64,
            memory: MiB(1000),
            ..Amounts::default()
        };
        let all = NodeMask::all(NODES as usize);
        let mut planner =
            Scheduler::new(Policy::EASY, vec![amounts.clone(); NODES as usize], vec![all.clone()]);
        let mut candidates = Vec::new();
        for node in 0..NODES {
            let job = JobId(u64::from(node) + 1);
            let share = NodeShare {
                node: NodeId(node),
                tasks: 1,
                amounts: amounts.clone(),
                component: 0,
            };
            planner.start_running_holding(job, vec![share], Time(1_000_000), true, &holds);
            let cost = u64::from(node) * 7919 % u64::from(NODES);
            candidates.push(Candidate {
                job,
                cost,
                since: Time(0),
                keeps: None,
            });
        }
        let demand = Component {
            nodes: (nodes > 0).then_some(nodes),
            tasks,
            per_task: Amounts {
                cores: each,
                ..Amounts::default()
            },
            exclusive: whole,
            allowed: all.into(),
            ..Component::default()
        };
        if !holds.is_empty() {
            let spec = PoolSpec::new(PoolKind::Shared, WaitReason::Licenses, u64::from(NODES));
            planner.set_pool(PoolId(1), spec);
        }
        let key = OrderKey {
            queue_priority: 9,
            ..OrderKey::first_come(JobId(99_999), Time(0))
        };
        let limit = Span::from_secs(60);
        let job = WaitingJob {
            key,
            queue: QueueId(0),
            demand: Arc::new(demand.into()),
            limit,
            holds,
        };
        let found = planner.victims(Time(10), &job, &[], &candidates);
        let mut costs: Vec<u64> = found
            .unwrap()
            .iter()
            .map(|job| candidates[job.0 as usize - 1].cost)
            .collect();
        costs.sort_unstable();
        costs
    };
    let cheapest = |count: u64| (0..count).collect::<Vec<u64>>();
    assert_eq!(check(true, 1, 1, 1, Holds::NONE), cheapest(1));
    assert_eq!(check(true, 5_000, 5_000, 1, Holds::NONE), cheapest(5_000));
    assert_eq!(check(true, 10_000, 10_000, 1, Holds::NONE).len(), 10_000);
    assert_eq!(check(false, 0, 640, 1, Holds::NONE), cheapest(10));
    assert_eq!(check(false, 200, 3_200, 4, Holds::NONE), cheapest(200));
    let licence = [Hold {
        pool: PoolId(1),
        amount: HoldAmount::Fixed(1),
    }];
    assert_eq!(check(true, 100, 100, 1, licence.into_iter().collect()), cheapest(100));
}
