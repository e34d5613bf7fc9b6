//! What rules at submission have decided is in the event: the controller tells it, and nothing
//! else of it.

mod world;

use cosy_control::*;
use cosy_model::api::{JobChange, JobFilter, JobRef, Reply, Request, Submission};
use cosy_model::policy::*;
use cosy_model::*;
use std::collections::{BTreeMap, BTreeSet};
use world::*;

fn submission(name: &str) -> Request {
    Request::Submit(Box::new(Submission {
        spec: spec(name),
        script: OsText::default(),
        array: None,
    }))
}

#[test]
fn a_refusal_is_told_and_nothing_is_carried_out() {
    let mut world = World::new(config(1, 4));
    world.rules_refuse = Some(Refusal::new(RefusalCode::Admission, "no"));
    let Reply::Refused(refusal) = world.ask(submission("a")) else {
        panic!("not refused");
    };
    assert_eq!(refusal.message, "no");
    assert_eq!(world.controller.live_jobs(), 0);
}

#[test]
fn what_was_carried_out_keeps_its_answer() {
    let mut world = World::new(config(1, 4));
    let (who, key) = (user(1000, "u1000"), Some([7; 16]));
    let first = world.ask_as(who.clone(), key, submission("a"));
    assert!(matches!(first, Reply::Submitted { .. }), "{first:?}");
    // Asked again after its answer was lost, when the rules have come to another judgement.
    world.rules_refuse = Some(Refusal::new(RefusalCode::Admission, "no"));
    assert_eq!(world.ask_as(who.clone(), key, submission("a")), first);
    world.crash();
    assert_eq!(world.ask_as(who, key, submission("a")), first);
    assert_eq!(world.controller.live_jobs(), 1);
}

#[test]
fn jobs_are_described_to_their_own_user() {
    let mut world = World::new(config(1, 4));
    let mine = world.submit(spec("mine"));
    let array = world.try_submit(spec("many"), Some("1-5")).unwrap();
    let all = [mine, mine, array, 999_999].map(|job| JobRef {
        job: JobId(job),
        task: None,
    });
    let mut described = |who: User| -> Vec<(String, Option<u64>)> {
        let client = ClientId(77_777);
        world.event(Event::DescriptionsWanted(Box::new(DescriptionRequest {
            client,
            caller: Caller::known(who),
            jobs: all.to_vec(),
            queues: true,
            accounts: true,
        })));
        let described = world.described.remove(&client).unwrap();
        let (jobs, queues) = (described.jobs, described.queues);
        assert!(queues.iter().any(|queue| queue.default));
        assert!(jobs.iter().all(|job| job.user == format!("u{}", job.uid)));
        assert!(jobs.iter().all(|job| job.spec.queue.is_some()));
        jobs.into_iter()
            .map(|job| (job.spec.name, job.array))
            .collect()
    };
    let both = [("mine".to_owned(), None), ("many".to_owned(), Some(5))];
    assert_eq!(described(user(1000, "u1000")), both);
    assert_eq!(described(user(0, "root")), both);
    assert_eq!(described(user(1001, "u1001")), []);
}

/// Asks to change a job.
fn changed(world: &mut World, job: u64, change: JobChange) -> Reply {
    let filter = JobFilter {
        ids: vec![job.to_string().parse().expect("the id of a job")],
        ..JobFilter::default()
    };
    let change = Box::new(change);
    world.ask(Request::Change { filter, change })
}

#[test]
fn what_rules_give_needs_no_administrator() {
    type Give = fn(&mut JobSpec);
    let all: [(AdminField, Give); 4] = [
        (AdminField::SiteFactor, |spec| spec.site_factor = 500),
        (AdminField::Nice, |spec| spec.nice = -5),
        (AdminField::Priority, |spec| spec.priority = Some(4_000_000_000)),
        (AdminField::AdminComment, |spec| spec.admin_comment = "x".into()),
    ];
    for (field, give) in all {
        let mut world = World::new(config(1, 4));
        let mut wanted = spec("a");
        give(&mut wanted);
        let others = all.iter().map(|(field, _)| *field);
        world.rules_give = others.filter(|other| *other != field).collect();
        let refused = world.try_submit(wanted.clone(), None).unwrap_err();
        assert_eq!(refused.code, RefusalCode::Forbidden, "{field:?}: {refused:?}");
        world.rules_give = vec![field];
        let job = world.submit(wanted.clone());
        // It is kept, and neither a restart nor the user's own changes ask for it again.
        world.crash();
        world.rules_give = Vec::new();
        let comment = JobChange {
            comment: Some("mine".into()),
            ..JobChange::default()
        };
        let done = changed(&mut world, job, comment);
        assert!(!matches!(done, Reply::Refused(_)), "{field:?}: {done:?}");
    }
}

#[test]
fn what_rules_give_to_a_change_needs_no_administrator() {
    let all = [
        (
            AdminField::SiteFactor,
            JobChange {
                site_factor: Some(500),
                ..JobChange::default()
            },
        ),
        (
            AdminField::Nice,
            JobChange {
                nice: Some(-5),
                ..JobChange::default()
            },
        ),
        (
            AdminField::Priority,
            JobChange {
                priority: Some(4_294_901_761),
                ..JobChange::default()
            },
        ),
        (
            AdminField::AdminComment,
            JobChange {
                admin_comment: Some("x".into()),
                ..JobChange::default()
            },
        ),
    ];
    for (field, change) in all {
        let mut world = World::new(config(1, 1));
        world.submit(spec("runs"));
        let job = world.submit(spec("waits"));
        let done = changed(&mut world, job, change.clone());
        let told = format!("{done:?}");
        assert!(told.contains("only administrators"), "{field:?}: {told}");
        world.rules_give = vec![field];
        let done = changed(&mut world, job, change);
        let told = format!("{done:?}");
        assert!(!told.contains("only administrators"), "{field:?}: {told}");
    }
}

/// Accounts by login name, as they are told.
fn described(
    world: &mut World,
    who: User,
    jobs: &[u64],
    accounts: bool,
) -> Option<BTreeMap<String, UserAccounts>> {
    let client = ClientId(77_778);
    let jobs = jobs.iter().map(|job| JobRef {
        job: JobId(*job),
        task: None,
    });
    world.event(Event::DescriptionsWanted(Box::new(DescriptionRequest {
        client,
        caller: Caller::known(who),
        jobs: jobs.collect(),
        queues: false,
        accounts,
    })));
    world.described.remove(&client).map(|all| all.accounts)
}

/// All that accounts are told of, and nothing of whom nobody asks for.
#[test]
fn accounts_are_described() {
    let mut world = World::new(config(1, 4));
    let key = |account: &str, user: Option<&str>, queue: Option<&str>| AssociationKey {
        account: account.to_owned(),
        user: user.map(str::to_owned),
        queue: queue.map(str::to_owned),
    };
    let account = |name: &str, qos: &[&str]| PolicyChange::AddAccount {
        name: name.to_owned(),
        parent: None,
        description: None,
        organization: None,
        set: AssociationChange {
            qos: Some(QosListChange::Exactly(qos.iter().map(|q| (*q).to_owned()).collect())),
            ..AssociationChange::default()
        },
    };
    let member = |key| PolicyChange::AddAssociation {
        key,
        set: AssociationChange::default(),
    };
    let qos = |name: &str| PolicyChange::AddQos {
        name: name.to_owned(),
        set: QosChange {
            priority: Some(50),
            ..QosChange::default()
        },
    };
    let changes = vec![
        qos("high"),
        account("zoo", &["high", "normal"]),
        account("lab", &["high"]),
        member(key("zoo", Some("u1000"), None)),
        PolicyChange::AddAssociation {
            key: key("lab", Some("u1000"), None),
            set: AssociationChange {
                // Longer than what is told, with an end between two bytes of a letter.
                comment: Some(format!("x{}", "\u{fc}".repeat(3000))),
                ..AssociationChange::default()
            },
        },
        member(key("lab", Some("u1001"), None)),
    ];
    change(&mut world, changes);
    let mine = world.submit(spec("mine"));
    let mut described = |who, jobs: &[u64], accounts| described(&mut world, who, jobs, accounts);
    assert_eq!(described(user(1000, "u1000"), &[], false), Some([].into()));
    let one = |account: &str, default_qos: &str, qos: &[&str]| UserAccount {
        account: account.to_owned(),
        queue: None,
        default_qos: Some(default_qos.to_owned()),
        qos: qos.iter().map(|q| (*q).to_owned()).collect(),
        comment: String::new(),
    };
    let qos_priorities = [("high".to_owned(), 50), ("normal".to_owned(), 0)];
    let own = UserAccounts {
        default_account: Some("zoo".to_owned()),
        accounts: vec![
            one("zoo", "normal", &["high", "normal"]),
            UserAccount {
                comment: format!("x{}", "\u{fc}".repeat(2047)),
                ..one("lab", "high", &["high"])
            },
        ],
        qos_priorities: qos_priorities.clone().into(),
        priorities_left_out: false,
    };
    let want = BTreeMap::from([("u1000".to_owned(), own)]);
    assert_eq!(described(user(1000, "u1000"), &[], true), Some(want.clone()));
    // Of a change those of the job's owner, whoever changes it.
    assert_eq!(described(user(0, "root"), &[mine], true), Some(want));
    let stranger = described(user(1002, "u1002"), &[], true).unwrap_or_default();
    let nobody = UserAccounts {
        qos_priorities: qos_priorities.into(),
        ..UserAccounts::default()
    };
    assert_eq!(stranger["u1002"], nobody);
}

/// Makes changes of the policy as root.
fn change(world: &mut World, changes: Vec<PolicyChange>) {
    let request = Request::ChangePolicy {
        changes,
        dry_run: false,
    };
    let made = world.ask_as(user(0, "root"), None, request);
    assert!(!matches!(made, Reply::Refused(_)), "{made:?}");
}

#[test]
fn of_many_qualities_of_service_those_of_the_own_accounts_are_told_first() {
    let mut world = World::new(config(1, 4));
    let qos = (0..limits::TOLD_PRIORITIES as u32).map(|n| PolicyChange::AddQos {
        name: format!("q{n:04}"),
        set: QosChange {
            priority: Some(n),
            ..QosChange::default()
        },
    });
    let member = PolicyChange::AddAssociation {
        key: AssociationKey {
            account: ROOT.to_owned(),
            user: Some("u1000".to_owned()),
            queue: None,
        },
        set: AssociationChange {
            qos: Some(QosListChange::Exactly(BTreeSet::from(["q0999".to_owned()]))),
            ..AssociationChange::default()
        },
    };
    change(&mut world, qos.chain([member]).collect());
    let all = described(&mut world, user(1000, "u1000"), &[], true).unwrap();
    let told = &all["u1000"];
    assert!(told.priorities_left_out);
    assert_eq!(told.qos_priorities.len(), limits::TOLD_PRIORITIES);
    assert_eq!(told.qos_priorities.get("q0999"), Some(&999));
    assert_eq!(told.qos_priorities.get("q0998"), None);
}
