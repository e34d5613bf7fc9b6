//! Resource pools one by one: who may pass whom, what is promised, what a waiting job is told.
#![allow(clippy::unwrap_used)] // tests

mod common;

use common::mask;
use cosy_model::{Amounts, JobId, MiB, QueueId, ReservationId, Span, Time, WaitReason};
use cosy_sched::{
    Block, Component, Demand, Hold, HoldAmount, Holds, OrderKey, Policy, PoolId, PoolKind,
    PoolSpec, Scheduler, WaitingJob,
};
use std::sync::Arc;

const LICENCE: PoolId = PoolId(7);
const USER: PoolId = PoolId(1000);

fn cores(cores: u32) -> Amounts {
    Amounts {
        cores,
        memory: MiB(1000),
        ..Amounts::default()
    }
}

/// A job of so many whole nodes.
fn job(id: u64, queue: u16, nodes: u32, limit: i64, holds: &[(PoolId, HoldAmount)]) -> WaitingJob {
    let hold = |(pool, amount): &(PoolId, HoldAmount)| Hold {
        pool: *pool,
        amount: *amount,
    };
    WaitingJob {
        key: OrderKey::first_come(JobId(id), Time(0)),
        queue: QueueId(queue),
        demand: Arc::new(Demand::from(Component {
            nodes: Some(nodes),
            tasks: nodes,
            per_task: cores(1),
            exclusive: true,
            allowed: mask(0b1111).into(),
            ..Component::default()
        })),
        limit: Span(limit),
        holds: holds.iter().map(hold).collect(),
    }
}

fn one(pool: PoolId) -> [(PoolId, HoldAmount); 1] {
    [(pool, HoldAmount::Fixed(1))]
}

/// Four nodes of four cores in two queues; `apart`: each queue has two of them.
fn planner(apart: bool) -> Scheduler {
    let queues = match apart {
        true => vec![mask(0b0011), mask(0b1100)],
        false => vec![mask(0b1111); 2],
    };
    Scheduler::new(Policy::EASY, vec![cores(4); 4], queues)
}

fn licence(capacity: u64) -> PoolSpec {
    PoolSpec::new(PoolKind::Shared, WaitReason::Licenses, capacity)
}

fn limit(capacity: u64) -> PoolSpec {
    PoolSpec::new(PoolKind::Own, WaitReason::ArrayLimit, capacity)
}

fn ids(jobs: &[u64]) -> Vec<JobId> {
    jobs.iter().copied().map(JobId).collect()
}

fn start_of(scheduler: &Scheduler, now: i64, id: u64) -> Option<i64> {
    let told = scheduler.predict(Time(now), JobId(id)).unwrap();
    told.start.map(|start| start.0)
}

#[test]
fn a_head_that_waits_for_a_licence_is_not_passed_by_a_longer_holder() {
    let mut scheduler = planner(false);
    scheduler.set_pool(LICENCE, licence(2));
    scheduler.enqueue(job(1, 0, 1, 50, &one(LICENCE)));
    scheduler.enqueue(job(2, 0, 1, 100, &[(LICENCE, HoldAmount::Fixed(2))]));
    scheduler.enqueue(job(3, 0, 1, 51, &one(LICENCE))); // would hold it beyond 50
    scheduler.enqueue(job(4, 0, 1, 50, &one(LICENCE)));
    assert_eq!(scheduler.schedule(Time(0)), ids(&[1, 4]));
    assert_eq!(start_of(&scheduler, 0, 2), Some(50));
    let why = scheduler.pool_shortage(Time(0), JobId(2)).unwrap();
    assert_eq!((why.pool, why.capacity, why.held, why.wanted), (LICENCE, 2, 2, 2));
    assert_eq!(why.frees, Some(Time(50)));
    assert_eq!(scheduler.why(Time(0), JobId(2)), Some(WaitReason::Licenses));
    scheduler.end(JobId(1));
    scheduler.end(JobId(4));
    assert_eq!(scheduler.schedule(Time(50)), ids(&[2]));
    assert_eq!(scheduler.pool_use(Time(50), LICENCE).unwrap().held, 2);
}

/// Queues without a node in common keep to what each other's heads are promised of a licence.
#[test]
fn a_promise_counts_for_queues_on_other_nodes() {
    let mut scheduler = planner(true);
    scheduler.set_pool(LICENCE, licence(2));
    scheduler.enqueue(job(1, 0, 1, 50, &one(LICENCE)));
    scheduler.enqueue(job(2, 0, 1, 100, &[(LICENCE, HoldAmount::Fixed(2))]));
    assert_eq!(scheduler.schedule(Time(0)), ids(&[1]));
    scheduler.enqueue(job(3, 1, 1, 51, &one(LICENCE)));
    scheduler.enqueue(job(4, 1, 1, 50, &one(LICENCE)));
    assert_eq!(scheduler.schedule(Time(0)), ids(&[4]));
    assert!(
        scheduler
            .try_place(Time(0), &job(5, 1, 1, 51, &one(LICENCE)))
            .is_none()
    );
    // Who is promised it goes: nobody is kept off any more.
    scheduler.end(JobId(4));
    assert!(scheduler.dequeue(JobId(2)));
    assert_eq!(scheduler.schedule(Time(1)), ids(&[3]));
}

#[test]
fn a_job_at_its_own_limit_holds_back_nobody_and_is_predicted() {
    let mut scheduler = planner(false);
    scheduler.set_pool(USER, limit(1));
    scheduler.enqueue(job(1, 0, 1, 50, &one(USER)));
    scheduler.enqueue(job(2, 0, 4, 10, &one(USER))); // as a head it would keep all nodes
    scheduler.enqueue(job(3, 0, 3, 999, &[]));
    assert_eq!(scheduler.schedule(Time(0)), ids(&[1, 3]));
    assert_eq!(scheduler.why(Time(0), JobId(2)), Some(WaitReason::ArrayLimit));
    assert_eq!(start_of(&scheduler, 0, 2), Some(999));
    scheduler.enqueue(job(4, 0, 1, 5, &one(USER)));
    assert_eq!(start_of(&scheduler, 0, 4), Some(50));
    // The pool is free again: those who wait for it are looked at in their order.
    scheduler.end(JobId(1));
    assert_eq!(scheduler.schedule(Time(50)), ids(&[4]));
    assert_eq!(scheduler.waiting_in_order().count(), 1);
    assert!(scheduler.dequeue(JobId(2)));
    assert!(!scheduler.is_waiting(JobId(2)));
}

/// 20,000 jobs of 200 users at their limits: no pass looks at them, and each comes back when it
/// is its user's turn.
#[test]
fn those_at_their_limits_come_back_in_order() {
    let mut scheduler = planner(false);
    for user in 0..200 {
        scheduler.set_pool(PoolId(user), limit(0));
    }
    for id in 0..20_000u64 {
        let user = PoolId((id % 200) as u32);
        scheduler.enqueue(job(id + 1, 0, 1, 10, &one(user)));
    }
    assert!(scheduler.first_in_line(9).is_empty());
    assert!(scheduler.schedule(Time(0)).is_empty());
    assert!(scheduler.set_pool_capacity(PoolId(5), 2));
    assert_eq!(scheduler.schedule(Time(1)), ids(&[6, 206]));
    scheduler.remove_pool(PoolId(3));
    assert_eq!(scheduler.schedule(Time(2)), ids(&[4, 204]));
    assert!(!scheduler.set_pool_capacity(PoolId(3), 9), "it has no limit any more");
}

/// 10,000 jobs wait for five licences: each end lets the next one in, in the order of service, and a
/// job behind them that wants none is not kept off.
#[test]
fn thousands_wait_for_few_licences() {
    let mut scheduler = Scheduler::new(Policy::EASY, vec![cores(4); 8], vec![mask(0xff); 2]);
    scheduler.set_pool(LICENCE, licence(5));
    let wide = |job: WaitingJob| WaitingJob {
        demand: Arc::new(Demand::from(Component {
            allowed: mask(0xff).into(),
            ..job.demand.first().clone()
        })),
        ..job
    };
    for id in 1..=10_000 {
        scheduler.enqueue(wide(job(id, 0, 1, 50 + (id % 7) as i64, &one(LICENCE))));
    }
    scheduler.enqueue(wide(job(10_001, 0, 1, 40, &[])));
    let mut first = ids(&[1, 2, 3, 4, 5, 10_001]);
    assert_eq!(scheduler.schedule(Time(0)), first);
    for id in 1..=200 {
        assert!(scheduler.end(JobId(id)));
        first = ids(&[id + 5]);
        assert_eq!(scheduler.schedule(Time(0)), first);
    }
    assert_eq!(scheduler.pool_use(Time(0), LICENCE).unwrap().held, 5);
}

/// What jobs of another planner hold and are promised counts here, and what is left is told there.
#[test]
fn two_planners_share_a_pool() {
    let (mut cluster, mut inside) = (planner(false), planner(false));
    let within = ReservationId(1);
    inside.watch_holders();
    cluster.set_pool(LICENCE, licence(3));
    cluster.enqueue(job(1, 0, 1, 100, &one(LICENCE)));
    assert_eq!(cluster.schedule(Time(0)), ids(&[1]));
    inside.enqueue(job(2, 0, 1, 50, &[(LICENCE, HoldAmount::Fixed(2))]));
    inside.enqueue(job(3, 0, 1, 50, &one(LICENCE)));
    let left = cluster.left_for(&inside, within, LICENCE, Time(0)).unwrap();
    assert_eq!(left.capacity, 2);
    inside.set_pool(LICENCE, left);
    assert_eq!(inside.schedule(Time(0)), ids(&[2]));
    assert_eq!(start_of(&inside, 0, 3), Some(50));
    for job in inside.take_changed_holders() {
        cluster.hold_elsewhere(job, inside.holder(job).unwrap());
    }
    assert_eq!(cluster.pool_use(Time(0), LICENCE).unwrap().held, 3);
    cluster.promise_elsewhere(inside.promises());
    // What is promised there from 50 on is not given away here.
    cluster.enqueue(job(4, 0, 1, 60, &[(LICENCE, HoldAmount::Fixed(2))]));
    assert!(cluster.schedule(Time(1)).is_empty());
    assert_eq!(start_of(&cluster, 1, 4), Some(100));
    inside.end(JobId(2));
    for job in inside.take_changed_holders() {
        cluster.let_go_elsewhere(job);
    }
    assert_eq!(cluster.pool_use(Time(1), LICENCE).unwrap().held, 1);
    // Job 4 is promised two of them from 100 on.
    let left = cluster.left_for(&inside, within, LICENCE, Time(1)).unwrap();
    assert_eq!(
        (left.capacity, left.later),
        (2, vec![(Time(2), 2), (Time(100), 1), (Time(160), 3)])
    );
}

#[test]
fn capacities_change_with_time_and_below_what_is_held() {
    let mut scheduler = planner(false);
    let later = vec![(Time(100), 0), (Time(300), 2)];
    scheduler.set_pool(
        LICENCE,
        PoolSpec {
            later,
            ..licence(1)
        },
    );
    scheduler.enqueue(job(1, 0, 1, 101, &one(LICENCE))); // runs into the time without
    scheduler.enqueue(job(2, 0, 1, 100, &one(LICENCE)));
    assert_eq!(scheduler.schedule(Time(0)), ids(&[2]));
    assert_eq!(start_of(&scheduler, 0, 1), Some(300));
    assert!(scheduler.set_pool_capacity(LICENCE, 0));
    assert_eq!(scheduler.pool_use(Time(0), LICENCE).unwrap().held, 1);
    scheduler.end(JobId(2));
    assert!(scheduler.schedule(Time(200)).is_empty());
    assert_eq!(scheduler.schedule(Time(300)), ids(&[1]));
}

#[test]
fn reservations_keep_amounts() {
    let mut scheduler = planner(false);
    scheduler.set_pool(LICENCE, licence(2));
    let block = Block {
        reservation: ReservationId(1),
        shares: Vec::new(),
        start: Time(100),
        end: Time(200),
        holds: vec![(LICENCE, 2)],
    };
    let free = |scheduler: &Scheduler, start: i64| {
        scheduler.are_amounts_free(Time(0), &[(LICENCE, 1)], Time(start), Span(50))
    };
    assert_eq!(free(&scheduler, 80), Ok(()));
    scheduler.add_block(block);
    let short = free(&scheduler, 80).unwrap_err();
    assert_eq!((short.wanted, short.frees), (1, Some(Time(200))));
    assert_eq!(free(&scheduler, 50), Ok(()));
    scheduler.enqueue(job(1, 0, 1, 101, &one(LICENCE)));
    scheduler.enqueue(job(2, 0, 1, 100, &one(LICENCE)));
    assert_eq!(scheduler.schedule(Time(0)), ids(&[2]));
    assert_eq!(start_of(&scheduler, 0, 1), Some(200));
    assert!(scheduler.remove_block(ReservationId(1)));
    assert_eq!(scheduler.schedule(Time(1)), ids(&[1]));
}

/// Nothing happens when a reservation of an own pool is over but that time has passed: those who
/// wait for what it kept are looked at all the same, and their starts are told.
#[test]
fn a_reservation_of_an_own_pool_ends() {
    let mut scheduler = planner(false);
    scheduler.set_pool(USER, limit(3));
    scheduler.add_block(Block {
        reservation: ReservationId(9),
        shares: Vec::new(),
        start: Time(0),
        end: Time(10),
        holds: vec![(USER, 1)],
    });
    scheduler.enqueue(job(1, 0, 1, 5, &[(USER, HoldAmount::Fixed(3))]));
    assert!(scheduler.schedule(Time(0)).is_empty());
    assert_eq!(start_of(&scheduler, 0, 1), Some(10));
    assert!(scheduler.schedule(Time(9)).is_empty());
    assert_eq!(scheduler.schedule(Time(10)), ids(&[1]));
}

/// What jobs hold is known before their pool is set, and of jobs that run already.
#[test]
fn what_is_held_is_remembered() {
    let mut scheduler = planner(false);
    let waiting = job(1, 0, 2, 50, &[(USER, HoldAmount::Cores)]);
    let holds: Holds = waiting.holds.clone();
    scheduler.enqueue(waiting);
    assert_eq!(scheduler.schedule(Time(0)), ids(&[1]));
    let shares = scheduler.held_by(JobId(1));
    scheduler.set_pool(USER, limit(9));
    assert_eq!(scheduler.pool_use(Time(0), USER).unwrap().held, 8); // whole nodes of 4 cores
    scheduler.start_running_holding(JobId(1), shares.clone(), Time(60), true, &holds);
    assert_eq!(scheduler.pool_use(Time(0), USER).unwrap().held, 8);
    assert!(scheduler.release_node(JobId(1), shares[0].node));
    assert_eq!(scheduler.pool_use(Time(0), USER).unwrap().held, 4);
    assert_eq!(scheduler.pools_held_by(JobId(1)).collect::<Vec<_>>(), [(USER, 4)]);
    assert!(scheduler.end(JobId(1)));
    assert_eq!(scheduler.pool_use(Time(0), USER).unwrap().held, 0);
}
