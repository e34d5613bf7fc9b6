//! Accounts, users in them and qualities of service: what changes are taken, who may make them,
//! what they mean for submissions, and that a crash loses none.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::ClusterConfig;
use cosy_model::api::{JobField, Reply, Request};
use cosy_model::policy::*;
use cosy_model::reservation::AccountAction;
use cosy_model::{About, JobSpec, Refusal, RefusalCode};
use std::collections::BTreeSet;
use world::*;

fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

fn account(name: &str, parent: Option<&str>) -> PolicyChange {
    PolicyChange::AddAccount {
        name: name.to_owned(),
        parent: parent.map(str::to_owned),
        description: None,
        organization: None,
        set: AssociationChange::default(),
    }
}

fn key(account: &str, user: Option<&str>, queue: Option<&str>) -> AssociationKey {
    AssociationKey {
        account: account.to_owned(),
        user: user.map(str::to_owned),
        queue: queue.map(str::to_owned),
    }
}

fn member(account: &str, user: &str) -> PolicyChange {
    PolicyChange::AddAssociation {
        key: key(account, Some(user), None),
        set: AssociationChange::default(),
    }
}

fn qos(name: &str) -> PolicyChange {
    PolicyChange::AddQos {
        name: name.to_owned(),
        set: QosChange::default(),
    }
}

fn preempts(name: &str, others: &[&str]) -> PolicyChange {
    PolicyChange::ModifyQos {
        name: name.to_owned(),
        set: QosChange {
            preempt: Some(QosListChange::Exactly(names(others))),
            ..QosChange::default()
        },
    }
}

fn moves(name: &str, parent: &str) -> PolicyChange {
    PolicyChange::ModifyAccount {
        name: name.to_owned(),
        parent: Some(parent.to_owned()),
        description: None,
        organization: None,
        set: AssociationChange::default(),
    }
}

fn sets(key: AssociationKey, set: AssociationChange) -> PolicyChange {
    PolicyChange::ModifyAssociation { key, set }
}

fn allows(qos: &[&str]) -> AssociationChange {
    AssociationChange {
        qos: Some(QosListChange::Exactly(names(qos))),
        ..AssociationChange::default()
    }
}

fn limits(all: &[(&str, u64)]) -> AssociationChange {
    let limit = |(key, value): &(&str, u64)| (key.parse().unwrap(), Some(*value));
    AssociationChange {
        limits: all.iter().map(limit).collect(),
        ..AssociationChange::default()
    }
}

fn change(w: &mut World, who: &str, changes: &[PolicyChange]) -> Result<u64, Refusal> {
    let id = w.id() as u8;
    let request = Request::ChangePolicy {
        changes: changes.to_vec(),
        dry_run: false,
    };
    match w.ask_as(person(who), Some([id; 16]), request) {
        Reply::Done { changed, .. } => Ok(changed),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn person(name: &str) -> cosy_model::User {
    match name {
        "root" => user(0, "root"),
        "ann" => user(1000, "ann"),
        "bob" => user(1001, "bob"),
        _ => user(1002, name),
    }
}

fn tree(w: &mut World, who: &str) -> String {
    let request = Request::Policy(PolicyQuery::Associations {
        accounts: Vec::new(),
        users: Vec::new(),
        usage: false,
        skip: 0,
    });
    let Reply::Policy(PolicyAnswer::Associations { rows, .. }) =
        w.ask_as(person(who), None, request)
    else {
        panic!("no associations");
    };
    let line = |row: &AssociationInfo| {
        let user = row.key.user.clone().unwrap_or_default();
        format!("{}{}:{user} ", row.depth, row.key.account)
    };
    rows.iter().map(line).collect()
}

fn site(enforce: Enforce) -> World {
    let config = ClusterConfig {
        enforce,
        ..config(4, 4)
    };
    let mut w = World::new(config);
    w.connect_all();
    let all = [
        account("science", None),
        account("physics", Some("science")),
        account("biology", Some("science")),
        qos("high"),
        member("physics", "ann"),
        member("biology", "ann"),
        member("physics", "bob"),
    ];
    change(&mut w, "root", &all).unwrap();
    w
}

const ALL: Enforce = Enforce {
    associations: true,
    limits: true,
    qos: true,
    safe: false,
};

#[test]
fn the_tree_outlives_a_crash() {
    let mut w = site(Enforce::default());
    let want = "0root: 1science: 2biology: 3biology:ann 2physics: 3physics:ann 3physics:bob ";
    assert_eq!(tree(&mut w, "root"), want);
    w.crash();
    assert_eq!(tree(&mut w, "root"), want);
    // Bob sees his own place and what is above it.
    assert_eq!(tree(&mut w, "bob"), "0root: 1science: 2physics: 3physics:bob ");
    assert_eq!(tree(&mut w, "eve"), "");
}

#[test]
fn all_changes_or_none() {
    let mut w = site(Enforce::default());
    let before = tree(&mut w, "root");
    let check = |w: &mut World, changes: &[PolicyChange], words: &str| {
        let refusal = change(w, "root", changes).unwrap_err();
        assert!(refusal.message.contains(words), "{}", refusal.message);
        assert_eq!(tree(w, "root"), before);
        w.crash();
        assert_eq!(tree(w, "root"), before);
    };
    let fresh = account("fresh", None);
    let after_good = |bad: PolicyChange| [fresh.clone(), bad];
    check(
        &mut w,
        &after_good(account("physics", None)),
        "change 2 of 2: there is an account physics",
    );
    check(&mut w, &after_good(account("a b", None)), "no name of an account");
    check(&mut w, &after_good(account("x", Some("nowhere"))), "no account 'nowhere'");
    check(&mut w, &after_good(moves("science", "physics")), "circle");
    check(&mut w, &after_good(moves("physics", "physics")), "circle");
    check(&mut w, &after_good(moves("root", "physics")), "root account is below no other");
    check(&mut w, &after_good(member("nowhere", "ann")), "no account 'nowhere'");
    check(&mut w, &after_good(member("physics", "ann")), "already");
    check(&mut w, &after_good(member("physics", "@staff")), "no login name");
    check(&mut w, &after_good(preempts("high", &["high"])), "cannot preempt itself");
    check(&mut w, &after_good(preempts("high", &["low"])), "no quality of service 'low'");
    check(
        &mut w,
        &after_good(PolicyChange::RemoveQos {
            name: "normal".into(),
        }),
        "stays",
    );
    let bad = sets(key("physics", None, None), allows(&["low"]));
    check(&mut w, &after_good(bad), "no quality of service 'low'");
    let bad = sets(key("physics", None, None), limits(&[("MaxJobsPerUser", 1)]));
    check(&mut w, &after_good(bad), "is set on a quality of service");
    let default = AssociationChange {
        default_qos: Some(Some("high".into())),
        ..AssociationChange::default()
    };
    let bad = sets(key("physics", None, None), default);
    check(&mut w, &after_good(bad), "is not among those allowed (normal)");
    let queue = PolicyChange::AddAssociation {
        key: key("physics", Some("eve"), Some("nowhere")),
        set: AssociationChange::default(),
    };
    check(&mut w, &after_good(queue), "no queue 'nowhere'");
    let circle = [
        qos("low"),
        preempts("high", &["low"]),
        preempts("low", &["high"]),
    ];
    check(&mut w, &circle, "in turn");
    let least = PolicyChange::AddQos {
        name: "odd".into(),
        set: QosChange {
            limits: limits(&[("MinTRESPerJob=cpu", 9), ("MaxTRESPerJob=cpu", 8)]).limits,
            ..QosChange::default()
        },
    };
    check(&mut w, &after_good(least), "no job at all");
    let deep: Vec<PolicyChange> = (0..40)
        .map(|at| account(&format!("d{at}"), (at > 0).then(|| format!("d{}", at - 1)).as_deref()))
        .collect();
    check(&mut w, &deep, "levels below the root");
}

#[test]
fn who_may_change_what() {
    let mut w = site(Enforce::default());
    let check = |w: &mut World, who: &str, one: PolicyChange, may: bool| {
        let done = change(w, who, std::slice::from_ref(&one));
        assert_eq!(done.is_ok(), may, "{who} {one:?} {done:?}");
        if let Err(refusal) = done {
            assert_eq!(refusal.code, RefusalCode::Forbidden, "{}", refusal.message);
        }
    };
    check(&mut w, "ann", member("physics", "eve"), false);
    let coordinator = PolicyChange::AddCoordinator {
        account: "physics".into(),
        user: "ann".into(),
    };
    check(&mut w, "ann", coordinator.clone(), false);
    check(&mut w, "root", coordinator, true);
    check(&mut w, "ann", member("physics", "eve"), true);
    check(&mut w, "ann", account("lab", Some("physics")), true);
    check(&mut w, "ann", member("lab", "bob"), true);
    check(&mut w, "ann", member("biology", "eve"), false);
    check(&mut w, "ann", account("other", None), false);
    check(&mut w, "ann", qos("mine"), false);
    // A coordinator gives no more than the account has, and does not change the account itself.
    let lab = key("lab", None, None);
    check(&mut w, "ann", sets(lab.clone(), allows(&["high"])), false);
    check(&mut w, "ann", sets(key("physics", None, None), limits(&[("GrpJobs", 9)])), false);
    check(&mut w, "root", sets(key("physics", None, None), allows(&["high", "normal"])), true);
    check(&mut w, "ann", sets(lab, allows(&["high"])), true);
    check(&mut w, "ann", moves("lab", "biology"), false);
    let level = |level| PolicyChange::SetUser {
        name: "bob".into(),
        default_account: None,
        admin_level: Some(level),
        default_wckey: None,
        add_wckeys: BTreeSet::new(),
        remove_wckeys: BTreeSet::new(),
    };
    check(&mut w, "bob", level(AdminLevel::Administrator), false);
    check(&mut w, "root", level(AdminLevel::Operator), true);
    check(&mut w, "bob", qos("low"), true);
    check(&mut w, "bob", level(AdminLevel::Administrator), false);
    check(&mut w, "root", level(AdminLevel::Administrator), true);
    check(&mut w, "bob", level(AdminLevel::None), true);
    check(&mut w, "bob", qos("other"), false);
}

fn charged(account: Option<&str>, qos: Option<&str>) -> JobSpec {
    JobSpec {
        account: account.map(str::to_owned),
        qos: qos.map(str::to_owned),
        ..spec("job")
    }
}

fn submit_as(w: &mut World, who: &str, spec: JobSpec) -> Result<u64, Refusal> {
    let id = w.id() as u8;
    let submission = cosy_model::api::Submission {
        spec,
        script: cosy_model::OsText::default(),
        array: None,
    };
    match w.ask_as(person(who), Some([id; 16]), Request::Submit(Box::new(submission))) {
        Reply::Submitted { job, .. } => Ok(job.0),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn of_job(w: &mut World, id: u64) -> String {
    let table = w.jobs(&[JobField::Id, JobField::Account, JobField::Qos]);
    let mut rows = 0..table.rows;
    let row = rows.find(|row| table.number(*row, JobField::Id) == Some(id as i64));
    let row = row.unwrap();
    format!("{} {}", table.text(row, JobField::Account), table.text(row, JobField::Qos))
}

#[test]
fn jobs_get_what_their_user_has() {
    let mut w = site(ALL);
    let check = |w: &mut World, who: &str, account, qos, want: Result<&str, About>| {
        let done = submit_as(w, who, charged(account, qos));
        match (done, want) {
            (Ok(id), Ok(want)) => assert_eq!(of_job(w, id), want),
            (Err(refusal), Err(about)) => assert_eq!(refusal.about, Some(about)),
            (done, want) => panic!("{who} {account:?} {qos:?}: {done:?}, not {want:?}"),
        }
    };
    let both = |account: &str, qos: &str| format!("{account} {qos}");
    check(&mut w, "ann", None, None, Ok(&both("physics", "normal")));
    check(&mut w, "ann", Some("biology"), None, Ok(&both("biology", "normal")));
    check(&mut w, "bob", Some("biology"), None, Err(About::Account));
    check(&mut w, "bob", Some("nowhere"), None, Err(About::Account));
    check(&mut w, "eve", None, None, Err(About::Account));
    check(&mut w, "root", Some("nowhere"), None, Err(About::Account));
    check(&mut w, "root", None, None, Ok(&both("root", "normal")));
    check(&mut w, "bob", None, Some("high"), Err(About::Qos));
    check(&mut w, "bob", None, Some("nothing"), Err(About::Qos));
    let high = sets(key("science", None, None), allows(&["high"]));
    change(&mut w, "root", &[high]).unwrap();
    check(&mut w, "bob", None, Some("high"), Ok(&both("physics", "high")));
    check(&mut w, "bob", None, None, Ok(&both("physics", "high")));
    check(&mut w, "bob", None, Some("normal"), Err(About::Qos));
}

/// The default of an account is none of a user whose own list is without it.
#[test]
fn a_default_that_is_not_allowed_is_not_given() {
    for (enforce, given) in [(ALL, false), (Enforce::default(), true)] {
        let mut w = site(enforce);
        let default = AssociationChange {
            default_qos: Some(Some("normal".into())),
            ..AssociationChange::default()
        };
        let all = [
            sets(key("physics", None, None), default),
            sets(key("physics", Some("ann"), None), allows(&["high"])),
        ];
        change(&mut w, "root", &all).unwrap();
        submit_as(&mut w, "ann", charged(Some("physics"), Some("high"))).unwrap();
        let without = submit_as(&mut w, "ann", charged(Some("physics"), None));
        assert_eq!(without.is_ok(), given, "{without:?}");
        if let Err(refusal) = without {
            assert_eq!(refusal.about, Some(About::Qos));
            assert!(refusal.message.contains("'normal' cannot be had"), "{}", refusal.message);
        }
    }
}

#[test]
fn without_enforcement_nobody_needs_an_account() {
    let mut w = site(Enforce::default());
    for (who, account) in [
        ("eve", None),
        ("eve", Some("nowhere")),
        ("bob", Some("biology")),
    ] {
        submit_as(&mut w, who, charged(account, Some("nothing"))).unwrap();
    }
}

/// Slurm asks for a reservation whatever it enforces.
#[test]
fn only_for_reservations_is_said_whatever_is_enforced() {
    for enforce in [Enforce::default(), ALL] {
        let mut w = site(enforce);
        let reserved = PolicyChange::ModifyQos {
            name: "normal".to_owned(),
            set: QosChange {
                add_flags: [QosFlag::RequiresReservation].into(),
                ..QosChange::default()
            },
        };
        submit_as(&mut w, "ann", charged(None, Some("normal"))).unwrap();
        change(&mut w, "root", &[reserved]).unwrap();
        let refusal = submit_as(&mut w, "ann", charged(None, Some("normal"))).unwrap_err();
        assert_eq!(refusal.about, Some(About::Qos), "{}", refusal.message);
        assert!(refusal.message.contains("--reservation"), "{}", refusal.message);
    }
}

#[test]
fn what_is_used_stays() {
    let mut w = site(ALL);
    let id = submit_as(&mut w, "ann", charged(None, None)).unwrap();
    let removes = |name: &str| PolicyChange::RemoveAccount { name: name.into() };
    for bad in [
        removes("physics"),
        removes("science"),
        PolicyChange::RemoveUser { name: "ann".into() },
        PolicyChange::RemoveAssociation {
            key: key("physics", Some("ann"), None),
        },
    ] {
        let refusal = change(&mut w, "root", &[bad]).unwrap_err();
        assert_eq!(refusal.code, RefusalCode::WrongState, "{}", refusal.message);
        let words = format!("jobs wait or run there ({id}): 'cosy cancel {id}'");
        assert!(refusal.message.contains(&words), "{}", refusal.message);
    }
    change(&mut w, "root", &[removes("biology")]).unwrap();
    assert_eq!(tree(&mut w, "ann"), "0root: 1science: 2physics: 3physics:ann ");
    w.ask(cancels(ids(&[id])));
    w.settle();
    w.deliver_all();
    w.pass(1);
    w.deliver_all();
    change(&mut w, "root", &[removes("science")]).unwrap();
    assert_eq!(tree(&mut w, "root"), "0root: ");
    w.crash();
    assert_eq!(tree(&mut w, "root"), "0root: ");
}

/// An account of the books is one of the tree, and the other way round.
#[test]
fn one_account_for_money_and_shares() {
    let mut w = site(Enforce::default());
    let books = |w: &mut World, who: &str| {
        let request = Request::Accounts { names: Vec::new() };
        let Reply::Accounts(all) = w.ask_as(person(who), None, request) else {
            panic!("no accounts");
        };
        let all: Vec<String> = all.into_iter().map(|account| account.name).collect();
        all.join(" ")
    };
    assert_eq!(books(&mut w, "root"), "biology physics science");
    assert_eq!(books(&mut w, "bob"), "physics");
    let control = |w: &mut World, name: &str, action| {
        let id = w.id() as u8;
        let request = Request::AccountControl {
            name: name.into(),
            action,
        };
        match w.ask_as(person("root"), Some([id; 16]), request) {
            Reply::Done { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    let create = AccountAction::Create {
        members: Vec::new(),
        budget: None,
    };
    control(&mut w, "gifts", create);
    assert!(tree(&mut w, "root").contains("1gifts: "));
    control(&mut w, "science", AccountAction::Remove);
    assert_eq!(tree(&mut w, "root"), "0root: 1gifts: ");
    assert_eq!(books(&mut w, "root"), "gifts");
    w.crash();
    assert_eq!(tree(&mut w, "root"), "0root: 1gifts: ");
    assert_eq!(books(&mut w, "bob"), "gifts");
}
