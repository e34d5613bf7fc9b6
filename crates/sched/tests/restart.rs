//! What survives a restart and a change of the configuration, and odd calls.
#![allow(clippy::unwrap_used)] // tests

mod common;

use common::{Pair, clusters, mask, steps};
use cosy_model::{
    Amounts, JobId, MiB, NodeId, NodeShare, QueueId, ReservationId, Span, Time, WaitReason,
};
use cosy_sched::{Block, Component, Demand, NodeMask, OrderKey, Policy, Scheduler, WaitingJob};
use proptest::prelude::*;
use std::sync::Arc;

fn cores(cores: u32) -> Amounts {
    Amounts {
        cores,
        memory: MiB(1000),
        ..Amounts::default()
    }
}

fn whole(id: u64, nodes: u32, limit: Span, allowed: NodeMask) -> WaitingJob {
    WaitingJob {
        holds: cosy_sched::Holds::NONE,
        key: OrderKey::first_come(JobId(id), Time(0)),
        queue: QueueId(0),
        demand: Arc::new(Demand::from(Component {
            nodes: Some(nodes),
            tasks: nodes,
            per_task: cores(1),
            exclusive: true,
            allowed: allowed.into(),
            ..Component::default()
        })),
        limit,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A planner that is filled with what another one holds plans the same.
    #[test]
    fn refilled_plans_the_same(cluster in clusters(), steps in prop::collection::vec(steps(2), 1..40)) {
        let mut pair = Pair::new(&cluster);
        for step in &steps {
            pair.step(step);
            pair.schedule()?;
        }
        let common::Cluster { policy, nodes, queues, .. } = cluster;
        let mut other = Scheduler::new(policy, nodes, queues);
        for (node, open) in pair.world.open.iter().enumerate() {
            other.set_available(NodeId(node as u32), *open);
        }
        for (queue, starts) in pair.world.starts.iter().enumerate() {
            other.set_queue_starts(QueueId(queue as u16), *starts);
        }
        for (job, end) in pair.scheduler.running_jobs() {
            let taken = pair.shares(job);
            let whole = taken[0].whole;
            let share = |t: &&common::oracle::Occupancy| NodeShare {
                component: 0,
                node: NodeId(t.node as u32),
                tasks: 1,
                amounts: t.amounts.clone(),
            };
            other.start_running(job, taken.iter().map(share).collect(), end, whole);
        }
        for block in pair.blocks.values() {
            other.add_block(block.clone());
        }
        for job in pair.scheduler.waiting_in_order() {
            other.enqueue(job.clone());
        }
        let now = Time(pair.now + 1);
        let mut again = pair.scheduler.clone();
        again.reconfigure(policy, pair.world.nodes.clone(), pair.world.queues.clone());
        prop_assert_eq!(other.plan(now, None), again.plan(now, None));
        prop_assert_eq!(other.schedule(now), again.schedule(now));
    }
}

#[test]
fn new_nodes_and_learned_amounts_are_used() {
    let mut scheduler = Scheduler::new(Policy::EASY, vec![cores(0); 1], vec![mask(0b1)]);
    let job = whole(1, 2, Span(50), mask(0b11));
    assert!(scheduler.could_ever_run(&job.demand).is_err());
    scheduler.enqueue(job);
    assert!(scheduler.schedule(Time(0)).is_empty());
    assert_eq!(scheduler.why(Time(0), JobId(1)), Some(WaitReason::NeverFits));
    scheduler.reconfigure(Policy::EASY, vec![cores(4); 2], vec![mask(0b11)]);
    assert_eq!(scheduler.schedule(Time(1)).len(), 1);
    assert_eq!(scheduler.free(NodeId(1)), Amounts::default());
    assert_eq!(scheduler.used(NodeId(1)), cores(4));
    scheduler.reconfigure(Policy::EASY, vec![cores(8); 2], vec![mask(0b11)]);
    scheduler.enqueue(whole(2, 1, Span(9), mask(0b11)));
    assert!(scheduler.schedule(Time(2)).is_empty(), "whole nodes stay whole");
}

#[test]
fn the_end_of_time_does_not_overflow() {
    let mut scheduler = Scheduler::new(Policy::CONSERVATIVE, vec![cores(1); 2], vec![mask(0b11)]);
    scheduler.enqueue(whole(1, 1, Span::UNLIMITED, mask(0b11)));
    for id in 2..6 {
        scheduler.enqueue(whole(id, 2, Span::UNLIMITED, mask(0b11)));
    }
    let block = Block {
        holds: Vec::new(),
        reservation: ReservationId(1),
        shares: Vec::new(),
        start: Time::EPOCH,
        end: Time::FAR,
    };
    scheduler.add_block(block);
    assert_eq!(scheduler.schedule(Time(5)).len(), 1);
    let plan = scheduler.plan(Time(5), None);
    assert!(plan.predictions.iter().all(|p| p.start.is_none()));
    scheduler.set_expected_end(JobId(1), Time(i64::MIN));
    let plan = scheduler.plan(Time(i64::MAX - 1), None);
    assert_eq!(plan.predictions.len(), 4);
}

#[test]
fn two_jobs_on_one_node_both_count() {
    let mut scheduler = Scheduler::new(Policy::EASY, vec![cores(4); 2], vec![mask(0b11)]);
    let share = |node, amounts| NodeShare {
        component: 0,
        node: NodeId(node),
        tasks: 1,
        amounts,
    };
    scheduler.start_running(JobId(1), vec![share(0, cores(4))], Time(50), true);
    scheduler.start_running(JobId(2), vec![share(0, cores(1))], Time(90), false);
    scheduler.enqueue(whole(3, 2, Span(9), mask(0b11)));
    assert!(scheduler.schedule(Time(1)).is_empty());
    let plan = scheduler.plan(Time(1), None);
    assert_eq!(plan.predictions[0].start, Some(Time(90)));
    scheduler.end(JobId(1));
    assert!(scheduler.schedule(Time(2)).is_empty());
    assert_eq!(scheduler.free(NodeId(0)).cores, 3);
    scheduler.end(JobId(2));
    assert_eq!(scheduler.schedule(Time(3)), [JobId(3)]);
}

#[test]
fn a_place_keeps_clear_of_reservations_and_jobs() {
    let mut scheduler = Scheduler::new(Policy::EASY, vec![cores(4); 3], vec![mask(0b111)]);
    let share = |node, count| NodeShare {
        component: 0,
        node: NodeId(node),
        tasks: 1,
        amounts: cores(count),
    };
    scheduler.add_block(Block {
        holds: Vec::new(),
        reservation: ReservationId(1),
        shares: vec![share(0, 1)],
        start: Time(50),
        end: Time(60),
    });
    scheduler.start_running(JobId(1), vec![share(1, 4)], Time(40), true);
    scheduler.start_running(JobId(2), vec![share(2, 1)], Time(55), false);
    let whole = |nodes| whole(9, nodes, Span(1), mask(0b111)).demand.first().clone();
    let place = |nodes, start, length| {
        let shares = scheduler.place(Time(10), &whole(nodes), Time(start), Span(length));
        shares.map(|s| s.iter().map(|s| s.node.0).collect::<Vec<_>>())
    };
    assert_eq!(place(1, 10, 40), Some(vec![0]), "until the reservation");
    assert_eq!(place(1, 10, 41), None);
    assert_eq!(place(2, 39, 5), None, "a job runs until 40");
    assert_eq!(place(2, 40, 5), Some(vec![0, 1]));
    assert_eq!(place(2, 50, 5), None);
    assert_eq!(place(2, 55, 5), Some(vec![1, 2]));
    assert_eq!(place(3, 55, 5), None);
    assert_eq!(place(3, 60, 5), Some(vec![0, 1, 2]));
}

#[test]
fn reservations_of_the_past_have_no_place() {
    let mut scheduler = Scheduler::new(Policy::EASY, vec![cores(4); 2], vec![mask(0b11)]);
    let demand = whole(1, 1, Span(9), mask(0b11)).demand.first().clone();
    let place = |start, length| scheduler.place(Time(10), &demand, Time(start), Span(length));
    assert_eq!(place(10, 1).map(|shares| shares.len()), Some(1));
    assert_eq!(place(9, 5), None);
    assert_eq!(place(10, 0), None);
    assert_eq!(place(20, -5), None);
    scheduler.add_block(Block {
        holds: Vec::new(),
        reservation: ReservationId(1),
        shares: place(10, 1).unwrap(),
        start: Time(3),
        end: Time(7),
    });
    scheduler.enqueue(whole(1, 2, Span(9), mask(0b11)));
    assert_eq!(scheduler.schedule(Time(10)), [JobId(1)]);
    assert!(!scheduler.remove_block(ReservationId(1)), "it is forgotten");
}

#[test]
fn unknown_ids_change_nothing() {
    let mut scheduler = Scheduler::new(Policy::EASY, vec![cores(1)], vec![mask(1)]);
    assert!(!scheduler.end(JobId(7)) && !scheduler.dequeue(JobId(7)));
    assert!(!scheduler.release_node(JobId(7), NodeId(9)));
    assert!(!scheduler.remove_block(ReservationId(7)));
    scheduler.set_available(NodeId(900), false);
    scheduler.set_queue_starts(QueueId(9), false);
    scheduler.set_expected_end(JobId(7), Time(1));
    scheduler.enqueue(WaitingJob {
        queue: QueueId(9),
        ..whole(1, 1, Span(1), mask(1))
    });
    assert!(scheduler.schedule(Time(0)).is_empty());
    assert_eq!(scheduler.why(Time(0), JobId(1)), Some(WaitReason::QueueClosed));
    assert_eq!(scheduler.predict(Time(0), JobId(1)).unwrap().start, None);
    assert_eq!(scheduler.predict(Time(0), JobId(8)), None);
    assert_eq!(scheduler.free(NodeId(9)), Amounts::default());
}

#[test]
fn shortages_have_figures() {
    let mut scheduler = Scheduler::new(Policy::EASY, vec![cores(4); 3], vec![mask(0b111)]);
    scheduler.set_available(NodeId(0), false); // does not count here
    let check = |change: &dyn Fn(&mut Component), words: &str| {
        let mut demand = Component {
            tasks: 1,
            per_task: cores(1),
            allowed: mask(0b111).into(),
            ..Component::default()
        };
        demand.per_task.memory = MiB(0);
        change(&mut demand);
        let got = scheduler.could_ever_run(&demand.into());
        let got = got.map_or_else(|shortage| shortage.to_string(), |()| "fits".into());
        assert_eq!(got, words);
    };
    check(&|_| {}, "fits");
    check(&|d| d.tasks = 12, "fits");
    check(&|d| d.tasks = 13, "needs room for 13 tasks, 3 nodes have room for 12");
    check(
        &|d| (d.nodes, d.tasks) = (Some(2), 9),
        "needs room for 9 tasks, 2 nodes have room for 8",
    );
    check(&|d| (d.nodes, d.tasks) = (Some(4), 4), "needs 4 nodes, only 3 may be used");
    check(
        &|d| (d.nodes, d.tasks) = (Some(3), 2),
        "2 tasks cannot be spread over 3 nodes: each node gets at least one",
    );
    check(&|d| d.per_task.cores = 5, "needs 5 cores on one node, the largest has 4");
    check(&|d| d.per_node.gpus = 1, "needs 1 gpus on one node, the largest has 0");
    check(
        &|d| d.required = mask(0b1000),
        "a node that is required by name (number 3) may not be used or is too small",
    );
    check(
        &|d| (d.nodes, d.tasks, d.required) = (Some(1), 1, mask(0b11)),
        "2 nodes are required by name, but only 1 are asked for",
    );
}
