//! Queues that order by fair share and by weighted factors.

mod priorities;
mod promises;
mod quotes;
mod usage;
#[path = "../world/mod.rs"]
mod world;

use cosy_control::{PriorityConfig, UsageRow};
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::policy::*;
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
    let row = UsageRow {
        account: account.to_owned(),
        user: user.to_owned(),
        ..UsageRow::default()
    };
    world
        .store
        .usage
        .get(&row.key())
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

/// Asks for changes of the policy as root.
fn changes(world: &mut World, changes: Vec<PolicyChange>) {
    let id = world.id() as u8;
    let request = Request::ChangePolicy {
        changes,
        dry_run: false,
    };
    let reply = world.ask_as(user(0, "root"), Some([id; 16]), request);
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
}

fn settings(shares: u32) -> AssociationChange {
    AssociationChange {
        shares: Some(Shares::Count(shares)),
        ..AssociationChange::default()
    }
}

fn account(name: &str, parent: &str, shares: u32) -> PolicyChange {
    PolicyChange::AddAccount {
        name: name.to_owned(),
        parent: Some(parent.to_owned()),
        description: None,
        organization: None,
        set: settings(shares),
    }
}

fn member(account: &str, user: &str, shares: u32) -> PolicyChange {
    let key = AssociationKey {
        account: account.to_owned(),
        user: Some(user.to_owned()),
        queue: None,
    };
    PolicyChange::AddAssociation {
        key,
        set: settings(shares),
    }
}

/// All associations with what they have used.
fn associations(world: &mut World) -> Vec<AssociationInfo> {
    let query = PolicyQuery::Associations {
        accounts: Vec::new(),
        users: Vec::new(),
        usage: true,
        skip: 0,
    };
    let reply = world.ask_as(user(0, "root"), None, Request::Policy(query));
    let Reply::Policy(PolicyAnswer::Associations { rows, .. }) = reply else {
        panic!("{reply:?}");
    };
    rows
}

/// Account, user, part of the siblings' shares and use in per cent, rank in per mille.
fn shares(world: &mut World) -> Vec<String> {
    let rows = associations(world);
    let line = |row: &AssociationInfo| {
        let usage = row.usage.clone().unwrap_or_default();
        let name = row.key.user.as_ref().unwrap_or(&row.key.account);
        let rank = usage.fair_share_ppb.map(|rank| rank / 1_000_000);
        let (shares, used) = (usage.norm_shares_ppb, usage.effective_usage_ppb);
        format!("{name} {} {} {rank:?}", shares / 10_000_000, used / 10_000_000)
    };
    rows.iter().map(line).collect()
}

/// Shares of the policy decide, and changing them counts at once, also after a crash.
#[test]
fn accounts_have_their_shares() {
    let mut world = ordered(1, QueueOrder::FairShare, PriorityConfig::default());
    let all = vec![
        account("physics", "root", 3),
        account("biology", "root", 1),
        member("physics", "ann", 1),
        member("biology", "bob", 1),
        member("biology", "eve", 1),
    ];
    changes(&mut world, all);
    // Each has used the same: physics, with three times the shares, goes first.
    let first = [
        submit_as(&mut world, "ann", 1, |_| {}),
        submit_as(&mut world, "bob", 1, |_| {}),
    ];
    served(&mut world, &first);
    let next = [
        submit_as(&mut world, "zoe", 1, |_| {}),
        submit_as(&mut world, "bob", 1, |_| {}),
        submit_as(&mut world, "ann", 1, |_| {}),
    ];
    world.crash();
    world.connect_all();
    world.deliver_all();
    let after = served(&mut world, &next[1..]);
    assert_eq!(after, [next[2], next[1]]);
    let told = shares(&mut world);
    // Zoe is in no account, and has one share beside those of the accounts.
    assert!(told[1].starts_with("biology 20 "), "{told:?}");
    assert_eq!(told[2..4], ["bob 50 100 Some(250)", "eve 50 0 Some(500)"]);
    assert!(told[4].starts_with("physics 60 "), "{told:?}");
    assert!(told[5].starts_with("ann 100 100 "), "{told:?}");
    let more = PolicyChange::ModifyAssociation {
        key: AssociationKey {
            account: "biology".to_owned(),
            user: None,
            queue: None,
        },
        set: settings(300),
    };
    changes(&mut world, vec![more]);
    world.pass(2);
    assert!(shares(&mut world)[2].starts_with("bob 50 100 "));
    let rank = |told: &[String], who: &str| {
        let line = told.iter().find(|line| line.starts_with(who));
        line.and_then(|line| line.split_once("Some("))
            .map(|(_, rank)| rank.to_owned())
    };
    let told = shares(&mut world);
    assert!(rank(&told, "bob") > rank(&told, "ann"), "{told:?}");
}
