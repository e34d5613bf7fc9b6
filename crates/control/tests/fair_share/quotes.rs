//! What a quote says of a job that is not submitted: where it would stand if it were.

use super::*;
use cosy_control::ClusterConfig;
use cosy_model::api::{JobField, JobRef};
use cosy_model::reservation::{PlainTerms, ReservationSpec, StartChoice};

/// One node with a running job, and two users of one account each.
fn two_accounts(order: QueueOrder) -> World {
    two_accounts_with(order, false)
}

/// The same where jobs must have a quality of service that their users may have.
fn two_accounts_with(order: QueueOrder, enforce: bool) -> World {
    let mut config: ClusterConfig = config(1, 4);
    config.enforce.associations = enforce;
    config.enforce.qos = enforce;
    config.queues[0].order = order;
    config.reservations.all_of = Vec::new();
    config.priority = PriorityConfig {
        weights: Weights {
            fair_share: 10_000,
            age: 10,
            qos: 100_000,
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
    match asked(world, who, None) {
        Reply::Quote(quote) => quote.plain_start,
        other => panic!("{other:?}"),
    }
}

/// What is answered to that question, with what more is known of the job.
fn asked(world: &mut World, who: &str, as_job: Option<PlainTerms>) -> Reply {
    let ask = ReservationSpec::plain(whole_nodes(1), Span::from_secs(900), StartChoice::Soonest);
    let request = Request::Quote {
        ask: Box::new(ask),
        most: Some(1),
        as_job: as_job.map(Box::new),
    };
    let uid = 2000 + u32::from(who.as_bytes()[0]);
    world.ask_as(user(uid, who), None, request)
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

/// A job of ann's that runs, and three that wait, the last of them a nicer one.
fn with_a_nicer_last(order: QueueOrder) -> (World, Time) {
    let mut world = two_accounts(order);
    let urgent = PolicyChange::AddQos {
        name: "urgent".to_owned(),
        set: QosChange {
            priority: Some(40),
            ..QosChange::default()
        },
    };
    changes(&mut world, vec![urgent]);
    let all = [0, 0, 0, 100].map(|nice| submit_as(&mut world, "ann", 1, |spec| spec.nice = nice));
    world.pass(2);
    let last = predicted(&mut world, all[3]).expect("it has a place");
    (world, last)
}

/// What more is known of the job moves the place that is told, as it moves that of the job itself.
#[test]
fn a_newcomer_is_told_the_start_that_it_gets_with_its_terms() {
    for order in [QueueOrder::Fcfs, QueueOrder::FairShare, QueueOrder::Weights] {
        let by_weights = order == QueueOrder::Weights;
        for (qos, nice, passes) in [
            (None, 0, true),
            (None, 10_000, false),
            (Some("urgent"), 0, true),
            (Some("urgent"), 10_000, by_weights),
        ] {
            let (mut world, last) = with_a_nicer_last(order);
            let qos = qos.map(str::to_owned);
            let terms = PlainTerms {
                qos: qos.clone(),
                nice,
            };
            let told = match asked(&mut world, "ann", Some(terms)) {
                Reply::Quote(quote) => quote.plain_start,
                other => panic!("{other:?}"),
            };
            let what = format!("{qos:?} {nice} {order:?}: {told:?} {last:?}");
            let id = submit_as(&mut world, "ann", 1, |spec| {
                spec.qos = qos;
                spec.nice = nice;
            });
            assert_eq!(told, predicted(&mut world, id), "{what}");
            assert_eq!(told <= Some(last), passes, "{what}");
        }
    }
}

/// It is refused what its submission would be.
#[test]
fn terms_that_a_user_may_not_have_are_refused() {
    let mut world = two_accounts_with(QueueOrder::Weights, true);
    let refused = |world: &mut World, terms: PlainTerms| match asked(world, "ann", Some(terms)) {
        Reply::Refused(refusal) => refusal.message,
        other => panic!("{other:?}"),
    };
    let unknown = PlainTerms {
        qos: Some("nosuch".to_owned()),
        nice: 0,
    };
    let told = refused(&mut world, unknown);
    assert!(told.contains("nosuch"), "{told}");
    let negative = PlainTerms {
        qos: None,
        nice: -1,
    };
    let told = refused(&mut world, negative);
    assert!(told.contains("a negative nice value"), "{told}");
}
