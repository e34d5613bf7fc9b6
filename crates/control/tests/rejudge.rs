//! Changes of the policy take effect at once on jobs that wait: those that may not have their account
//! or quality of service any more wait until they may, and running ones go on.

#![allow(clippy::unwrap_used)]

mod world;

use cosy_control::Event;
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::policy::*;
use cosy_model::{JobSpec, OsText};
use std::collections::BTreeSet;
use world::*;

const ALL: Enforce = Enforce {
    associations: true,
    limits: false,
    qos: true,
    safe: false,
};

fn key(account: &str, user: Option<&str>) -> AssociationKey {
    AssociationKey {
        account: account.to_owned(),
        user: user.map(str::to_owned),
        queue: None,
    }
}

fn change(w: &mut World, changes: Vec<PolicyChange>) {
    let id = w.id() as u8;
    let request = Request::ChangePolicy {
        changes,
        dry_run: false,
    };
    match w.ask_as(user(0, "root"), Some([id; 16]), request) {
        Reply::Done { .. } => {}
        other => panic!("{other:?}"),
    }
}

fn allow(w: &mut World, qos: &[&str]) {
    let names: BTreeSet<String> = qos.iter().map(|name| (*name).to_owned()).collect();
    let set = AssociationChange {
        qos: Some(QosListChange::Exactly(names)),
        ..AssociationChange::default()
    };
    let key = key("physics", None);
    change(w, vec![PolicyChange::ModifyAssociation { key, set }]);
}

/// One node with one core; u1000 is in physics, which may have `normal` and `high`.
fn site(enforce: Enforce) -> World {
    let mut w = World::new(cosy_control::ClusterConfig {
        enforce,
        ..config(1, 1)
    });
    w.connect_all();
    let add = PolicyChange::AddAccount {
        name: "physics".into(),
        parent: None,
        description: None,
        organization: None,
        set: AssociationChange::default(),
    };
    let member = PolicyChange::AddAssociation {
        key: key("physics", Some("u1000")),
        set: AssociationChange::default(),
    };
    let high = PolicyChange::AddQos {
        name: "high".into(),
        set: QosChange::default(),
    };
    change(&mut w, vec![add, member, high]);
    allow(&mut w, &["normal", "high"]);
    w
}

fn with_qos(qos: &str) -> JobSpec {
    JobSpec {
        qos: Some(qos.to_owned()),
        ..spec("job")
    }
}

fn turn(w: &mut World) {
    w.pass(1);
    w.deliver_all();
}

#[test]
fn a_list_shrinks_and_grows_again() {
    let mut w = site(ALL);
    let runs = w.submit(with_qos("high"));
    turn(&mut w);
    let waits = w.submit(with_qos("high"));
    let after = w.submit(with_qos("normal"));
    turn(&mut w);
    allow(&mut w, &["normal"]);
    let barred = format!("{waits}:waiting/qos_invalid");
    let told = w.queue();
    assert!(told.contains(&format!("{runs}:running")), "{told}");
    assert!(told.contains(&barred), "{told}");
    assert!(!told.contains(&format!("{after}:waiting/qos")), "{told}");
    // It is the same after a restart, and who came later is not held up by it.
    w.crash();
    w.connect_all();
    w.deliver_all();
    assert!(w.queue().contains(&barred), "{}", w.queue());
    for _ in 0..20 {
        w.pass(10);
        w.deliver_all();
    }
    assert_eq!(w.queue(), barred, "those before and behind it have run");
    allow(&mut w, &["high"]);
    turn(&mut w);
    let told = w.queue();
    assert!(told.contains(&format!("{waits}:running")), "{told}");
}

#[test]
fn a_quality_of_service_goes() {
    let mut w = site(ALL);
    w.submit(with_qos("normal"));
    turn(&mut w);
    let waits = w.submit(with_qos("high"));
    let remove = PolicyChange::RemoveQos {
        name: "high".into(),
    };
    change(&mut w, vec![remove]);
    let barred = format!("{waits}:waiting/qos_invalid");
    assert!(w.queue().contains(&barred), "{}", w.queue());
    let again = PolicyChange::AddQos {
        name: "high".into(),
        set: QosChange::default(),
    };
    change(&mut w, vec![again]);
    assert!(w.queue().contains(&barred), "{}", w.queue());
    allow(&mut w, &["high"]);
    assert!(!w.queue().contains(&barred), "{}", w.queue());
}

#[test]
fn without_enforcement_nobody_waits_for_it() {
    let mut w = site(Enforce::default());
    w.submit(with_qos("normal"));
    turn(&mut w);
    let waits = w.submit(with_qos("high"));
    allow(&mut w, &["normal"]);
    turn(&mut w);
    let told = w.queue();
    assert!(told.contains(&format!("{waits}:waiting/")), "{told}");
    assert!(!told.contains("invalid"), "{told}");
    // Enforced from now on.
    let config = cosy_control::ClusterConfig {
        enforce: ALL,
        ..w.config.clone()
    };
    w.config = config.clone();
    w.event(Event::Reconfigured(Box::new(config)));
    assert!(w.queue().contains(&format!("{waits}:waiting/qos_invalid")), "{}", w.queue());
}

#[test]
fn enforcement_finds_those_in_no_account() {
    let mut w = site(Enforce::default());
    w.submit(with_qos("normal"));
    turn(&mut w);
    let stranger = user(1001, "eve");
    let id = w.id() as u8;
    let submission = Submission {
        spec: spec("job"),
        script: OsText::default(),
        array: None,
    };
    let request = Request::Submit(Box::new(submission));
    let Reply::Submitted { job, .. } = w.ask_as(stranger, Some([id; 16]), request) else {
        panic!("refused");
    };
    let config = cosy_control::ClusterConfig {
        enforce: ALL,
        ..w.config.clone()
    };
    w.config = config.clone();
    w.event(Event::Reconfigured(Box::new(config)));
    let barred = format!("{}:waiting/account_invalid", job.0);
    assert!(w.queue().contains(&barred), "{}", w.queue());
    let member = PolicyChange::AddAssociation {
        key: key("physics", Some("eve")),
        set: AssociationChange::default(),
    };
    change(&mut w, vec![member]);
    assert!(!w.queue().contains("account_invalid"), "{}", w.queue());
}

/// Many thousand jobs are gone through in pieces; a change in between is not forgotten.
#[test]
fn many_are_looked_at_in_pieces() {
    let mut w = site(ALL);
    w.submit(with_qos("normal"));
    turn(&mut w);
    w.unchecked = true;
    let first = w.try_submit(with_qos("high"), Some("0-2999")).unwrap();
    for _ in 0..100 {
        w.submit(with_qos("high"));
    }
    let count = |w: &mut World| w.queue().matches("qos_invalid").count();
    assert_eq!(count(&mut w), 0);
    allow(&mut w, &["normal"]);
    assert_eq!(count(&mut w), 3100, "{first}");
    allow(&mut w, &["normal", "high"]);
    assert_eq!(count(&mut w), 0);
}
