//! The planner and the brute-force oracle start the same jobs on the same nodes.
#![allow(clippy::unwrap_used)] // tests

mod common;

use common::{
    Cluster, Pair, QUEUES, Request, Step, amounts, clusters, mask, near_steps, policies,
    pool_steps, requests, steps, wired,
};
use cosy_model::{JobId, Time};
use cosy_sched::{Depth, HoldAmount, Policy};
use proptest::prelude::*;

/// Nodes that are alike, all in each queue.
fn alike_clusters() -> impl Strategy<Value = Cluster> {
    (1usize..=6, policies()).prop_map(|(nodes, policy)| Cluster {
        policy,
        nodes: vec![amounts((2, 8, 0, 0)); nodes],
        queues: vec![mask((1 << nodes) - 1); QUEUES],
        leaves: Vec::new(),
    })
}

/// The same steps for whole nodes, whichever they are.
fn of_whole_nodes(steps: Vec<Step>) -> Vec<Step> {
    let whole = |step| match step {
        Step::Submit(request) => Step::Submit(request.whole()),
        other => other,
    };
    steps.into_iter().map(whole).collect()
}

/// Both start the same after each step.
fn same_after_each(cluster: &Cluster, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut pair = Pair::new(cluster);
    for step in steps {
        pair.step(step);
        pair.schedule()?;
    }
    Ok(())
}

/// The same up to the last steps, after which the plan is what the oracle decides.
fn same_plan_after(cluster: &Cluster, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut pair = Pair::new(cluster);
    for (at, step) in steps.iter().enumerate() {
        pair.step(step);
        if at + 3 < steps.len() {
            pair.schedule()?;
        }
    }
    check_plan(&pair)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(2000), // PROPTEST_CASES asks for more
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Everything at once: ends in any order, nodes that go down, reservations, overruns.
    #[test]
    fn same_starts(cluster in clusters(), steps in prop::collection::vec(steps(2), 1..60)) {
        same_after_each(&cluster, &steps)?;
    }

    /// Resource pools of both kinds, which come, change and go, and reservations of them.
    #[test]
    fn same_starts_with_pools(
        cluster in clusters(),
        steps in prop::collection::vec(pool_steps(), 1..60),
    ) {
        same_after_each(&cluster, &steps)?;
    }

    /// The same for whole nodes that are alike.
    #[test]
    fn same_starts_of_whole_nodes_with_pools(
        cluster in alike_clusters(),
        steps in prop::collection::vec(pool_steps(), 1..60),
    ) {
        same_after_each(&cluster, &of_whole_nodes(steps))?;
    }

    /// Whole nodes that are alike and nothing else, where much is decided by counting.
    #[test]
    fn same_starts_of_whole_nodes(
        cluster in alike_clusters(),
        steps in prop::collection::vec(steps(1), 1..60),
    ) {
        same_after_each(&cluster, &of_whole_nodes(steps))?;
    }

    /// Switches, and jobs that mind them or want nodes side by side.
    #[test]
    fn same_starts_by_switches(
        cluster in wired(clusters()),
        steps in prop::collection::vec(near_steps(2), 1..60),
    ) {
        same_after_each(&cluster, &steps)?;
    }

    /// The same for whole nodes that are alike.
    #[test]
    fn same_starts_of_whole_nodes_by_switches(
        cluster in wired(alike_clusters()),
        steps in prop::collection::vec(near_steps(1), 1..60),
    ) {
        same_after_each(&cluster, &of_whole_nodes(steps))?;
    }

    /// A whole plan by switches.
    #[test]
    fn same_plan_by_switches(
        cluster in wired(clusters()),
        steps in prop::collection::vec(near_steps(1), 1..25),
    ) {
        same_plan_after(&cluster, &steps)?;
    }

    /// Many changes between two passes.
    #[test]
    fn same_starts_after_many_changes(
        cluster in clusters(),
        rounds in prop::collection::vec(prop::collection::vec(steps(1), 1..12), 1..8),
    ) {
        let mut pair = Pair::new(&cluster);
        for round in &rounds {
            round.iter().for_each(|step| pair.step(step));
            pair.schedule()?;
        }
    }

    /// A whole plan is what the oracle decides when all jobs take their limits.
    #[test]
    fn same_plan(cluster in clusters(), steps in prop::collection::vec(steps(1), 1..25)) {
        same_plan_after(&cluster, &steps)?;
    }

    /// The same with resource pools.
    #[test]
    fn same_plan_with_pools(
        cluster in clusters(),
        steps in prop::collection::vec(pool_steps(), 1..25),
    ) {
        same_plan_after(&cluster, &steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(500),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A long line of few demands, of which those without room are told together.
    #[test]
    fn same_starts_of_few_demands(
        cluster in clusters(),
        demands in prop::collection::vec(requests(), 1..=2),
        line in prop::collection::vec(requests(), 20..100),
        steps in prop::collection::vec(steps(1), 1..30),
    ) {
        let mut pair = Pair::new(&cluster);
        let line = line.into_iter().map(Step::Submit);
        for step in line.chain(steps.iter().cloned()) {
            match step {
                Step::Submit(request) => pair.step(&Step::Submit(one_of(&demands, &request))),
                other => {
                    pair.step(&other);
                    pair.schedule()?;
                }
            }
        }
        pair.schedule()?;
        check_plan(&pair)?;
    }
}

/// A job would hold as many licences as its node has cores: when a reservation takes the larger node,
/// it can start on the smaller one.
#[test]
fn a_reservation_that_begins_lets_a_holder_start() {
    let cluster = Cluster {
        policy: Policy {
            depth: Depth::Count(1),
            backfill: false,
        },
        nodes: vec![amounts((1, 4, 0, 0)), amounts((3, 4, 0, 0))],
        queues: vec![mask(0b11), mask(0), mask(0)],
        leaves: Vec::new(),
    };
    let holder = Request {
        cores: 0,
        exclusive: true,
        holds: vec![(1, HoldAmount::Cores)],
        ..Request::plain(1)
    };
    let large = Request {
        tasks: 3,
        cores: 2,
        ..Request::plain(8)
    };
    let steps = [
        Step::Block(vec![(1, 1)], 7, 1),
        Step::Pool(1, true, 1, None),
        Step::Submit(large),
        Step::Submit(holder),
    ];
    same_plan_after(&cluster, &steps).unwrap();
}

/// One of some demands, with the order and the limit of another request, and as one of three sizes.
fn one_of(demands: &[Request], like: &Request) -> Request {
    let demand = &demands[usize::from(like.level) % demands.len()];
    let nodes = demand.nodes.map(|nodes| 1 + (nodes + like.tasks) % 3);
    Request {
        queue: demand.queue,
        level: like.level,
        nice: like.nice,
        limit: like.limit,
        nodes,
        tasks: nodes.unwrap_or(1 + like.tasks % 3),
        ..demand.clone()
    }
}

/// A plan is what the oracle decides when all jobs take their limits, as a whole, for one job and
/// for the first few.
fn check_plan(pair: &Pair) -> Result<(), TestCaseError> {
    let plan = pair.scheduler.plan(Time(pair.now), None);
    let played = play(pair.clone());
    for prediction in &plan.predictions {
        let start = played.iter().find(|(job, _)| *job == prediction.job);
        prop_assert_eq!(prediction.start, start.map(|s| Time(s.1)), "{:?}", prediction);
        let one = pair.scheduler.predict(Time(pair.now), prediction.job);
        prop_assert_eq!(one.as_ref(), Some(prediction));
    }
    prop_assert_eq!(plan.predictions.len(), pair.world.waiting.len());
    for most in 0..plan.predictions.len() {
        let some = pair.scheduler.plan(Time(pair.now), Some(most));
        prop_assert_eq!(&some.predictions[..], &plan.predictions[..most]);
    }
    Ok(())
}

/// Plays the oracle forward: jobs end at their expected ends.
fn play(mut pair: Pair) -> Vec<(JobId, i64)> {
    let mut started: Vec<(JobId, i64)> = Vec::new();
    let soon = pair.now + 1;
    loop {
        let decided = pair.decide();
        started.extend(decided.into_iter().map(|(job, _)| (job, pair.now)));
        for taken in &mut pair.world.taken {
            taken.end = if taken.job.is_some() {
                taken.end.max(soon)
            } else {
                taken.end
            };
        }
        for held in pair.world.held.iter_mut().filter(|h| h.running) {
            held.end = held.end.max(soon);
        }
        let bounds = pair.world.taken.iter().flat_map(|t| [t.start, t.end]);
        let bounds = bounds.chain(pair.world.held.iter().flat_map(|h| [h.start, h.end]));
        let changes = pair.world.resources.values().flat_map(|r| &r.later);
        let bounds = bounds.chain(changes.map(|(at, _)| *at));
        let Some(next) = bounds.filter(|at| *at > pair.now && *at < i64::MAX).min() else {
            return started;
        };
        pair.now = next;
        pair.expire();
    }
}
