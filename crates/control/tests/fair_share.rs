//! Queues that order by fair share and by weighted factors.

mod world;

use cosy_control::{PriorityConfig, UsageRow};
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::*;
use cosy_policy::weights::Weights;
use world::*;

/// One queue with that order; jobs run for ten minutes.
fn ordered(nodes: u32, order: QueueOrder, priority: PriorityConfig) -> World {
    let mut config = config(nodes, 4);
    config.queues[0].order = order;
    config.priority = priority;
    let mut world = World::new(config);
    world.run_time = Span::from_secs(600);
    world
}

fn submit_as(world: &mut World, who: &str, nodes: u32, change: impl FnOnce(&mut JobSpec)) -> u64 {
    let mut spec = JobSpec {
        request: whole_nodes(nodes),
        time_limit: Some(Span::from_secs(900)),
        ..spec("whole")
    };
    change(&mut spec);
    let submission = Submission {
        spec,
        script: OsText::default(),
        array: None,
    };
    let uid = 2000 + u32::from(who.as_bytes()[0]);
    let reply = world.ask_as(user(uid, who), None, Request::Submit(Box::new(submission)));
    match reply {
        Reply::Submitted { job, .. } => job.0,
        other => panic!("{other:?}"),
    }
}

/// Lets everything run to its end; the jobs in the order of their starts.
fn served(world: &mut World, jobs: &[u64]) -> Vec<u64> {
    let mut left = 200;
    while jobs
        .iter()
        .any(|id| !world.store.ends().contains_key(&JobId(*id)))
    {
        world.pass(60);
        left -= 1;
        assert!(left > 0, "some never end: {}", world.queue());
    }
    let start = |id: &u64| world.store.row(*id).end.as_ref().and_then(|end| end.start);
    let mut order = jobs.to_vec();
    order.sort_by_key(|id| (start(id), *id));
    order
}

/// What a user's ended jobs have used, in core-seconds at the time of the row.
fn used(world: &World, account: &str, user: &str) -> f64 {
    let key = (account.to_owned(), user.to_owned());
    world
        .store
        .usage
        .get(&key)
        .map_or(0.0, |row: &UsageRow| row.decay.worth(row.used(), row.at) as f64 / 1e6)
}

fn four_of_ann_one_of_bob(order: QueueOrder) -> (World, Vec<u64>) {
    let mut world = ordered(1, order, PriorityConfig::default());
    let mut jobs: Vec<u64> = (0..4)
        .map(|_| submit_as(&mut world, "ann", 1, |_| {}))
        .collect();
    jobs.push(submit_as(&mut world, "bob", 1, |_| {}));
    (world, jobs)
}

#[test]
fn who_has_used_less_goes_first() {
    let (mut world, jobs) = four_of_ann_one_of_bob(QueueOrder::FairShare);
    let order = served(&mut world, &jobs);
    assert_eq!(order, [jobs[0], jobs[4], jobs[1], jobs[2], jobs[3]]);
    let (ann, bob) = (used(&world, "", "ann"), used(&world, "", "bob"));
    assert!((9500.0..9800.0).contains(&ann), "{ann}");
    assert!((2300.0..2500.0).contains(&bob), "{bob}");
}

#[test]
fn first_come_first_served_counts_nothing() {
    let (mut world, jobs) = four_of_ann_one_of_bob(QueueOrder::Fcfs);
    assert_eq!(served(&mut world, &jobs), jobs);
    assert!(world.store.usage.is_empty());
}

#[test]
fn a_crash_neither_counts_twice_nor_loses() {
    let (mut world, jobs) = four_of_ann_one_of_bob(QueueOrder::FairShare);
    let mut left = 120;
    while jobs
        .iter()
        .any(|id| !world.store.ends().contains_key(&JobId(*id)))
    {
        world.pass(37);
        world.crash();
        world.connect_all();
        world.deliver_all();
        left -= 1;
        assert!(left > 0, "some never end: {}", world.queue());
    }
    let order = served(&mut world, &jobs);
    assert_eq!(order, [jobs[0], jobs[4], jobs[1], jobs[2], jobs[3]]);
    let ran = |id: &u64| {
        let end = world.store.row(*id).end.clone().expect("it has ended");
        end.end.since(end.start.expect("it ran")).secs() as f64
    };
    let ann: f64 = jobs[..4].iter().map(ran).sum();
    let counted = used(&world, "", "ann");
    assert!((counted / (4.0 * ann) - 1.0).abs() < 0.02, "{counted} of {}", 4.0 * ann);
}

#[test]
fn an_account_counts_for_its_users() {
    let mut world = ordered(1, QueueOrder::FairShare, PriorityConfig::default());
    let in_account = |account: &str| {
        let account = account.to_owned();
        move |spec: &mut JobSpec| spec.account = Some(account)
    };
    let mut submit = |who, account| submit_as(&mut world, who, 1, in_account(account));
    let jobs = [
        submit("ann", "physics"),
        submit("ann", "physics"),
        submit("cyd", "physics"),
        submit("bob", "biology"),
    ];
    // cyd has used nothing, yet physics has; within physics cyd comes before ann
    let order = served(&mut world, &jobs);
    assert_eq!(order, [jobs[0], jobs[3], jobs[2], jobs[1]]);
    assert!(used(&world, "physics", "cyd") > 2000.0);
}

fn weights(age: u32, size: u32) -> PriorityConfig {
    PriorityConfig {
        weights: Weights {
            age,
            size,
            ..Weights::default()
        },
        max_age: Span::from_secs(3600),
        period: Span::from_secs(60),
        ..PriorityConfig::default()
    }
}

#[test]
fn weighted_factors_and_nice() {
    let mut world = ordered(2, QueueOrder::Weights, weights(0, 1000));
    let jobs = [
        submit_as(&mut world, "ann", 2, |_| {}),
        submit_as(&mut world, "bob", 1, |_| {}),
        submit_as(&mut world, "cyd", 2, |spec| spec.nice = 600),
        submit_as(&mut world, "dan", 2, |_| {}),
    ];
    let order = served(&mut world, &jobs);
    // 1,000 points for both nodes, half for one
    assert_eq!(order, [jobs[0], jobs[3], jobs[1], jobs[2]]);
}

/// Half an hour is worth 500 points, the larger size 100: the older is ahead until both are too old to
/// age. Keys made when they came would keep the older one ahead for ever.
#[test]
fn who_ages_no_more_is_overtaken() {
    let mut world = ordered(2, QueueOrder::Weights, weights(1000, 100));
    world.run_times.insert(JobId(1), Span::from_secs(2 * 3600));
    // nobody is so short that it could pass while one of two nodes is free
    let long = |spec: &mut JobSpec| spec.time_limit = Some(Span::from_secs(3 * 3600));
    let first = submit_as(&mut world, "ann", 2, long);
    let small = submit_as(&mut world, "bob", 1, long);
    world.pass(1800);
    let large = submit_as(&mut world, "cyd", 2, |_| {});
    let order = served(&mut world, &[first, small, large]);
    assert_eq!(order, [first, large, small]);
}

#[test]
fn the_older_is_ahead_while_both_age() {
    let mut world = ordered(2, QueueOrder::Weights, weights(1000, 100));
    world.run_times.insert(JobId(1), Span::from_secs(3000));
    // nobody is so short that it could pass while one of two nodes is free
    let long = |spec: &mut JobSpec| spec.time_limit = Some(Span::from_secs(3 * 3600));
    let first = submit_as(&mut world, "ann", 2, long);
    let small = submit_as(&mut world, "bob", 1, long);
    world.pass(1800);
    let large = submit_as(&mut world, "cyd", 2, |_| {});
    let order = served(&mut world, &[first, small, large]);
    assert_eq!(order, [first, small, large]);
}
