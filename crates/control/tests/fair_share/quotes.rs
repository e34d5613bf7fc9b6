//! What a quote says of a job that is not submitted: where it would stand if it were.

use super::*;
use cosy_control::ClusterConfig;
use cosy_model::api::{JobField, JobRef};
use cosy_model::reservation::{ReservationSpec, StartChoice};

/// One node with a running job, and two users of one account each.
fn two_accounts(order: QueueOrder) -> World {
    let mut config: ClusterConfig = config(1, 4);
    config.queues[0].order = order;
    config.reservations.all_of = Vec::new();
    config.priority = PriorityConfig {
        weights: Weights {
            fair_share: 10_000,
            age: 10,
            ..Weights::default()
        },
        ..PriorityConfig::default()
    };
    let mut world = World::new(config);
    world.run_time = Span::from_secs(600);
    let all = vec![
        account("physics", "root", 1),
        account("biology", "root", 1),
        member("physics", "ann", 1),
        member("biology", "bob", 1),
    ];
    changes(&mut world, all);
    world
}

/// When a plain job of a user would start, who has not submitted it.
fn quoted(world: &mut World, who: &str) -> Option<Time> {
    let ask = ReservationSpec::plain(whole_nodes(1), Span::from_secs(900), StartChoice::Soonest);
    let request = Request::Quote {
        ask: Box::new(ask),
        most: Some(1),
    };
    let uid = 2000 + u32::from(who.as_bytes()[0]);
    match world.ask_as(user(uid, who), None, request) {
        Reply::Quote(quote) => quote.plain_start,
        other => panic!("{other:?}"),
    }
}

/// The start that a job is told that waits.
fn predicted(world: &mut World, id: u64) -> Option<Time> {
    let job = JobRef {
        job: JobId(id),
        task: None,
    };
    match world.ask_as(user(0, "root"), None, Request::Explain { job }) {
        Reply::Explained { table, .. } => table.number(0, JobField::PredictedStart).map(Time),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_newcomer_is_told_the_start_that_it_gets() {
    for order in [QueueOrder::Fcfs, QueueOrder::FairShare, QueueOrder::Weights] {
        let mut world = two_accounts(order);
        let used = [submit_as(&mut world, "ann", 1, |_| {})];
        served(&mut world, &used);
        let waiting: Vec<u64> = (0..3)
            .map(|_| submit_as(&mut world, "ann", 1, |_| {}))
            .collect();
        world.pass(2);
        let last = predicted(&mut world, waiting[2]).expect("it has a place");
        for (who, passes) in [("ann", false), ("bob", order != QueueOrder::Fcfs)] {
            let told = quoted(&mut world, who);
            let id = submit_as(&mut world, who, 1, |_| {});
            assert_eq!(told, predicted(&mut world, id), "{who} {order:?}");
            assert!(told.is_some(), "{who} {order:?}");
            assert_eq!(told < Some(last), passes, "{who} {order:?}: {told:?} {last:?}");
        }
    }
}
