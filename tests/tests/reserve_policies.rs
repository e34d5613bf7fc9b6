//! The ready policies of `etc/policies`, each in a real controller: what it refuses, what
//! it admits, and that administrators pass.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::reservation::ReservationState;
use cosy_model::{JobState, Su};
use cosy_tests::people::{self, ANN, BOB};
use cosy_tests::{Cluster, Options, system};
use std::path::Path;

/// A cluster of ten nodes that run nothing, under the policy in that file.
fn cluster(policy: &str) -> Option<Cluster> {
    start(policy, 10)
}

fn start(policy: &str, virtual_nodes: u32) -> Option<Cluster> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../etc/policies")
        .join(policy);
    system::root_or_skip().then(|| {
        let options = Options {
            virtual_nodes,
            controller: format!("[reservations]\npolicy = \"{}.toml\"\n", file.display()),
            ..Options::default()
        };
        people::start(1, options)
    })
}

fn words<'a>(nodes: &'a str, length: &'a str, at: &'a str) -> [&'a str; 10] {
    [
        "cresv",
        "book",
        "-N",
        nodes,
        "--exclusive",
        "-t",
        length,
        "--at",
        at,
        "--parsable",
    ]
}

/// A booking of so many whole nodes: admitted when `refusal` is empty.
#[track_caller]
fn check(c: &Cluster, uid: u32, nodes: &str, length: &str, at: &str, refusal: &str) {
    let output = c.run_as(uid, &words(nodes, length, at));
    if refusal.is_empty() {
        let made = c.reservation(output.id());
        assert_eq!(made.state, ReservationState::Confirmed);
    } else {
        output.expect(1).expect_refusal(refusal);
    }
}

#[test]
fn centre_with_96_hours() {
    let Some(c) = cluster("centre-96h") else {
        return;
    };
    let ann = |nodes, length, at, refusal| check(&c, ANN, nodes, length, at, refusal);
    ann("1", "1h", "now+95h", "user ann must reserve at least 4-00:00:00 ahead");
    ann("1", "169h", "now+100h", "user ann may reserve 7-00:00:00 at once");
    ann("1", "1h", "now+91d", "may reserve 90-00:00:00 ahead");
    ann("2", "1h", "now+100h", "20 % of the nodes");
    ann("1", "168h", "now+97h", "");
    // The share counts at one time, over all of a user's bookings.
    ann("1", "1h", "now+100h", "20 % of the nodes");
    ann("1", "1h", "now+300h", "");
    ann("1", "1h", "now+310h", "");
    ann("1", "1h", "now+89d", "");
    ann("1", "1h", "now+320h", "has 4 open reservations and may have 4");
    check(&c, BOB, "1", "1h", "now+320h", "");
    check(&c, 0, "5", "200h", "now+1h", "");
}

#[test]
fn centre_with_72_hours() {
    let Some(c) = cluster("centre-72h") else {
        return;
    };
    let ann = |nodes, length, at, refusal| check(&c, ANN, nodes, length, at, refusal);
    ann("1", "1h", "now+71h", "user ann must reserve at least 3-00:00:00 ahead");
    ann("1", "49h", "now+80h", "user ann may reserve 2-00:00:00 at once");
    ann("1", "1h", "now+15d", "may reserve 14-00:00:00 ahead");
    ann("3", "1h", "now+80h", "30 % of the nodes");
    ann("2", "48h", "now+73h", "");
    ann("1", "1h", "now+130h", "");
    ann("1", "1h", "now+140h", "has 2 open reservations and may have 2");
    check(&c, 0, "3", "1h", "now+1h", "");
}

#[test]
fn whole_period_is_charged() {
    let Some(c) = cluster("centre-72h") else {
        return;
    };
    c.run(&["cadm", "account", "create", "lab", "--budget", "100"])
        .expect(0);
    // An administrator's begins at once; nothing is given back of what is left.
    let made = c.reservation(c.run(&words("2", "5h", "now+1s")).id());
    assert_eq!(made.charged, Su::whole(2 * 4 * 5));
    c.until_resv_state(made.id, ReservationState::Active);
    let id = made.id.to_string();
    c.run(&["cresv", "cancel", &id]).expect(0);
    assert_eq!(c.reservation(made.id).charged, made.charged);
    // One that is given back long before costs nothing.
    let far = c.run_as(ANN, &words("2", "5h", "now+80h")).id();
    c.run_as(ANN, &["cresv", "cancel", &far.to_string()])
        .expect(0);
    assert_eq!(c.reservation(far).charged, Su::ZERO);
}

#[test]
fn priced() {
    let Some(c) = cluster("priced") else { return };
    c.run(&[
        "cadm",
        "account",
        "create",
        "lab",
        "--members",
        "ann",
        "--budget",
        "30",
    ])
    .expect(0);
    check(&c, BOB, "1", "1h", "now+1h", "bob may charge none of the 1 accounts");
    check(&c, ANN, "2", "4h", "now+1h", "costs 32 SU, and the account has 30 SU left");
    check(&c, ANN, "2", "3h", "now+1h", "");
    check(&c, ANN, "2", "1h", "now+10h", "costs 8 SU, and the account has 6 SU left");
    check(&c, ANN, "1", "1h", "now+10h", "");
    // Quotas and the account bind as well.
    c.run(&["cadm", "account", "grant", "lab", "1000"])
        .expect(0);
    check(&c, ANN, "1", "1h", "now+20h", "has 2 open reservations and may have 2");
    // An administrator passes the rules, not the price limit.
    let dear = c.run(&[&words("3", "1h", "now+30h")[..], &["--max-price", "11"]].concat());
    dear.expect(1)
        .expect_refusal("costs 12 SU, at most 11 SU were allowed");
}

/// Fills all ten nodes for a long time; virtual jobs take as long as they are told.
fn fill(c: &Cluster, limit: &str) {
    let words = [
        "csub",
        "--parsable",
        "-N",
        "10",
        "--exclusive",
        "-t",
        limit,
        "--",
        "true",
    ];
    let mut command = c.command(&words);
    let output = cosy_tests::run::run(command.env("COSY_VIRTUAL_SECONDS", "36000")).expect(0);
    let job = cosy_model::JobId(output.out.trim().parse().unwrap());
    c.until_state(job, JobState::Running);
}

#[test]
fn priced_delays() {
    let Some(c) = cluster("priced") else { return };
    c.run(&["cadm", "account", "create", "lab", "--budget", "1000"])
        .expect(0);
    fill(&c, "1h");
    let waiting = [
        "csub",
        "--parsable",
        "-N",
        "10",
        "--exclusive",
        "-t",
        "1h",
        "--",
        "true",
    ];
    c.run_as(BOB, &waiting).expect(0);
    // Right behind the running job: bob's would start three hours later, on 40 cores.
    let made = c.reservation(c.run_as(ANN, &words("2", "2h", "now+61m")).id());
    assert_eq!(made.delayed_jobs, 1, "{made:?}");
    let hours = made.total_delay.ms() as f64 / 3.6e6;
    assert!((2.0..2.1).contains(&hours), "{made:?}");
    assert_eq!(made.base, Su::whole(16));
    let extra = made.extra.0 as f64 / 1e6;
    assert!((extra - 40.0 * hours).abs() < 0.1, "{made:?}");
    // Together more than four hours: nobody may buy that.
    check(&c, ANN, "1", "3h", "now+182m", "delay cap");
}

#[test]
fn academic_has_no_quotas() {
    let Some(c) = cluster("academic") else { return };
    // Nobody has waited yet: no notice is needed. Nothing else binds.
    for at in ["now+1s", "now+1h", "now+400d", "now+800d", "now+1200d"] {
        check(&c, ANN, "10", "50m", at, "");
    }
    check(&c, BOB, "1", "50m", "now+1h", "not enough nodes are free");
    // Holds as many as one likes.
    for at in ["now+10h", "now+20h"] {
        let held = [
            "cresv",
            "hold",
            "-N",
            "1",
            "-t",
            "300h",
            "--at",
            at,
            "--parsable",
        ];
        let held = c.reservation(c.run_as(ANN, &held).id());
        assert_eq!(held.state, ReservationState::Held);
        assert_eq!(held.hold_until.unwrap().0 - held.made.0, 300_000);
    }
}

#[test]
fn academic_asks_for_notice() {
    let Some(c) = start("academic", 1) else {
        return;
    };
    // Six jobs, five of which waited for three seconds.
    let first = ["csub", "-N", "1", "--exclusive", "-t", "5", "--", "true"];
    let mut command = c.command(&first);
    cosy_tests::run::run(command.env("COSY_VIRTUAL_SECONDS", "8")).expect(0);
    let next = ["csub", "--parsable", "-c", "1", "-t", "5", "--", "true"];
    let ids: Vec<_> = (0..5).map(|_| c.run_as(BOB, &next).expect(0).out).collect();
    for id in ids {
        let job = cosy_model::JobId(id.trim().parse().unwrap());
        assert_eq!(c.until_end(job).outcome(), (JobState::Completed, 0));
    }
    check(&c, ANN, "1", "1h", "now+1s", "notice: the start");
    check(&c, ANN, "1", "1h", "now+30s", "");
    // Four of 21 requests are reservations: too many.
    for _ in 0..11 {
        c.run_as(BOB, &next).expect(0);
    }
    for at in ["now+3h", "now+5h", "now+7h"] {
        check(&c, ANN, "1", "1h", at, "");
    }
    check(&c, ANN, "1", "1h", "now+9h", "above 15 % no reservation is accepted");
    check(&c, 0, "1", "1h", "now+9h", "");
}
