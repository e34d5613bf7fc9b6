//! Priorities as they are shown, and what they are made of.

use super::usage::with_qos;
use super::*;
use cosy_view::words::priority_factors::{self, PriorityFactors};

/// Priority and factors of all jobs, by id.
fn priorities(
    world: &mut World,
) -> std::collections::BTreeMap<i64, (i64, Option<PriorityFactors>)> {
    use api::JobField as F;
    let request = Request::Jobs {
        filter: api::JobFilter::default(),
        fields: vec![F::Id, F::Priority, F::PriorityFactors],
        fold_arrays: true,
    };
    let reply = world.ask_as(user(0, "root"), None, request);
    let Reply::Jobs(table) = reply else {
        panic!("{reply:?}");
    };
    let number = |at, field| table.number(at, field).expect("every job has one");
    let row = |at: usize| {
        let factors = priority_factors::read(table.text(at, F::PriorityFactors));
        (number(at, F::Id), (number(at, F::Priority), factors))
    };
    (0..table.rows).map(row).collect()
}

/// What the columns of a priority say adds up to it, and it is what the order goes by.
#[test]
fn factors_add_up_to_the_priority_that_is_shown() {
    let mut priority = PriorityConfig {
        weights: Weights {
            age: 1000,
            fair_share: 10_000,
            size: 100,
            queue: 50,
            qos: 2000,
            association: 300,
        },
        tres_weights: [(Tres::Cpu, 500), (Tres::Node, 40)].into(),
        max_age: Span::from_secs(7200),
        ..PriorityConfig::default()
    };
    let queue = cosy_control::QueuePriority {
        factor: 7,
        ..cosy_control::QueuePriority::default()
    };
    priority.queues = [(config(2, 4).queues[0].name.clone(), queue)].into();
    let mut world = ordered(2, QueueOrder::Weights, priority);
    let with_priority = |priority| AssociationChange {
        priority: Some(Some(priority)),
        ..AssociationChange::default()
    };
    let key = |user: &str| AssociationKey {
        account: "physics".to_owned(),
        user: Some(user.to_owned()),
        queue: None,
    };
    let urgent = PolicyChange::AddQos {
        name: "urgent".to_owned(),
        set: QosChange {
            priority: Some(40),
            ..QosChange::default()
        },
    };
    let slow = PolicyChange::AddQos {
        name: "slow".to_owned(),
        set: QosChange {
            priority: Some(10),
            ..QosChange::default()
        },
    };
    let all = vec![
        account("physics", "root", 1),
        PolicyChange::AddAssociation {
            key: key("ann"),
            set: with_priority(30),
        },
        PolicyChange::AddAssociation {
            key: key("bob"),
            set: with_priority(15),
        },
        urgent,
        slow,
    ];
    changes(&mut world, all);
    let first = submit_as(&mut world, "ann", 2, |_| {});
    let slow = submit_as(&mut world, "bob", 1, |spec| {
        spec.qos = Some("slow".to_owned());
        spec.nice = 20;
    });
    let urgent = submit_as(&mut world, "bob", 2, with_qos("urgent"));
    let held = submit_as(&mut world, "ann", 1, |spec| spec.hold = true);
    world.pass(720);
    let told = priorities(&mut world);
    let ((shown, factors), running) = (&told[&(slow as i64)], &told[&(urgent as i64)]);
    assert!(world.store.ends().contains_key(&JobId(first)), "{}", world.queue());
    assert!(running.1.is_none(), "what runs has no factors: {told:?}");
    assert!(running.0 > 2000, "{told:?}");
    assert_eq!(told[&(held as i64)], (0, None));
    let factors = factors.clone().expect("it waits for its turn");
    let part = |ppb: u64| ppb as f64 / 1e9;
    assert!((part(factors.age) - 720.0 / 7200.0).abs() < 0.01, "{factors:?}");
    assert_eq!((factors.size, factors.queue), (312_500_000, 1_000_000_000));
    assert_eq!((factors.qos, factors.association), (250_000_000, 500_000_000));
    assert_eq!(factors.tres, [(Tres::Cpu, 125_000_000), (Tres::Node, 500_000_000)]);
    let sum = 1000.0 * part(factors.age)
        + 10_000.0 * part(factors.fair_share)
        + 100.0 * 0.3125
        + 50.0
        + 2000.0 * 0.25
        + 300.0 * 0.5
        + (500.0 / 8.0 + 40.0 / 2.0)
        - 20.0;
    assert!((sum - *shown as f64).abs() <= 1.0, "{sum} is shown as {shown}");
    let site = |points| Request::Change {
        filter: api::JobFilter {
            ids: vec![slow.to_string().parse().unwrap()],
            ..api::JobFilter::default()
        },
        change: Box::new(api::JobChange {
            site_factor: Some(points),
            ..api::JobChange::default()
        }),
    };
    let refused = world.ask_as(user(2098, "bob"), Some([77; 16]), site(5));
    assert!(format!("{refused:?}").contains("points of the site"), "{refused:?}");
    world.ask_as(user(0, "root"), Some([78; 16]), site(-200));
    let (after, factors) = &priorities(&mut world)[&(slow as i64)];
    assert_eq!(factors.as_ref().map(|factors| factors.site), Some(-200));
    assert!((sum - 200.0 - *after as f64).abs() <= 1.0, "{sum} less 200 is shown as {after}");
    let rank = columns_by_share();
    assert_eq!(rank, (2, 1), "the rank is the priority where fair share orders");
}

/// Priorities of the job of a new user and of the job of one who runs.
fn columns_by_share() -> (i64, i64) {
    let mut world = ordered(1, QueueOrder::FairShare, PriorityConfig::default());
    submit_as(&mut world, "ann", 1, |_| {});
    let again = submit_as(&mut world, "ann", 1, |_| {});
    let new = submit_as(&mut world, "bob", 1, |_| {});
    world.pass(400);
    let told = priorities(&mut world);
    (told[&(new as i64)].0, told[&(again as i64)].0)
}

/// Who is ahead at which level with what use, and when one overtakes.
#[test]
fn a_user_is_told_who_is_ahead() {
    let mut world = ordered(1, QueueOrder::FairShare, PriorityConfig::default());
    let all = vec![
        account("physics", "root", 1),
        account("biology", "root", 1),
        member("physics", "ann", 1),
        member("biology", "bob", 1),
    ];
    changes(&mut world, all);
    let first = submit_as(&mut world, "ann", 1, |_| {});
    served(&mut world, &[first]);
    submit_as(&mut world, "bob", 1, |_| {});
    let waits = submit_as(&mut world, "ann", 1, |_| {});
    world.pass(120);
    let ask = |world: &mut World, who: &str, about: Option<&str>| {
        let uid = 2000 + u32::from(who.as_bytes()[0]);
        let about = about.map(str::to_owned);
        let more = Some(MoreUse {
            cores: 4,
            length: Span::from_secs(1000),
            queue: None,
        });
        let query = Request::Policy(PolicyQuery::Standing { user: about, more });
        world.ask_as(user(uid, who), None, query)
    };
    let Reply::Policy(PolicyAnswer::Standing(told)) = ask(&mut world, "ann", None) else {
        panic!("ann may know where ann stands");
    };
    assert_eq!((told.len(), told[0].rank, told[0].users), (1, 1, 2), "{told:?}");
    let (account, own) = (&told[0].levels[0], &told[0].levels[1]);
    assert_eq!((account.name.as_str(), account.ahead, account.of), ("physics", 1, 2));
    assert_eq!((own.name.as_str(), own.ahead, own.next.as_ref()), ("ann", 0, None));
    let next = account.next.as_ref().expect("biology is ahead");
    assert_eq!((next.name.as_str(), next.shares), ("biology", Some(1)));
    assert!(next.used < account.used, "{account:?}");
    let more = next.until_overtaken.expect("both have shares");
    assert!(more.abs_diff(account.used - next.used) <= 1, "{account:?}");
    let after = told[0].after.clone().expect("it was asked for");
    assert_eq!((after.used, after.rank, after.behind_as.as_str()), (4000, 1, "physics"));
    assert_eq!(after.next.map(|next| next.name), Some("biology".to_owned()));
    let Reply::Policy(PolicyAnswer::Standing(first)) = ask(&mut world, "bob", None) else {
        panic!("bob may know where bob stands");
    };
    let after = first[0].after.clone().expect("it was asked for");
    assert_eq!((first[0].rank, after.rank, after.behind_as.as_str()), (2, 1, "biology"));
    assert_eq!(after.next.map(|next| next.name), Some("physics".to_owned()));
    // bob's job goes on with four cores
    let at = next.overtaken_at.expect("bob's job runs");
    let secs = at.since(world.now).secs() as u64;
    assert!(secs.abs_diff(more / 4) < 30, "{secs} for {more}");
    let refused = ask(&mut world, "ann", Some("bob"));
    assert!(matches!(refused, Reply::Refused(_)), "{refused:?}");
    let reply = world.ask_as(
        user(2097, "ann"),
        None,
        Request::Explain {
            job: waits.to_string().parse().unwrap(),
        },
    );
    let Reply::Explained { lines, .. } = reply else {
        panic!("{reply:?}");
    };
    let text = lines.join("\n");
    assert!(text.contains("only by a job that overtakes it"), "{text}");
    assert!(text.contains("1 of 2 come before it, at last biology"), "{text}");
}

/// The place after one more job needs a queue by whose weights the job is billed.
#[test]
fn one_more_job_is_billed_by_the_only_queue_that_orders_by_use() {
    let mut config = config(2, 4);
    config.default_queue = None;
    let queue = |name: &str, order, others| QueueSpec {
        name: name.to_owned(),
        order,
        others,
        ..config.queues[0].clone()
    };
    config.queues = vec![
        queue("plain", QueueOrder::Fcfs, AccessLevel::Allow),
        queue("shared", QueueOrder::FairShare, AccessLevel::Allow),
        queue("closed", QueueOrder::Weights, AccessLevel::Deny),
    ];
    let mut world = World::new(config);
    changes(&mut world, vec![account("physics", "root", 1), member("physics", "ann", 1)]);
    let ask = |world: &mut World, who: User, queue: Option<&str>| {
        let more = Some(MoreUse {
            cores: 4,
            length: Span::from_secs(1000),
            queue: queue.map(str::to_owned),
        });
        let about = Some("ann".to_owned());
        let query = Request::Policy(PolicyQuery::Standing { user: about, more });
        world.ask_as(who, None, query)
    };
    let used = |reply: Reply| match reply {
        Reply::Policy(PolicyAnswer::Standing(told)) => Ok(told[0].after.as_ref().map(|a| a.used)),
        Reply::Refused(refusal) => Err(refusal.message),
        other => panic!("{other:?}"),
    };
    let (ann, root) = (user(2097, "ann"), user(0, "root"));
    assert_eq!(used(ask(&mut world, ann.clone(), None)), Ok(Some(4000)));
    assert_eq!(used(ask(&mut world, ann, Some("plain"))), Ok(Some(4000)));
    // Who may use both has to say which.
    let why = used(ask(&mut world, root.clone(), None)).unwrap_err();
    assert!(why.contains("choose one with --queue (shared, closed)"), "{why}");
    assert_eq!(used(ask(&mut world, root, Some("closed"))), Ok(Some(4000)));
}
