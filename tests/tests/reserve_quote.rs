//! What users learn before they book, and what the queue shows afterwards: quotes with
//! prices and delays, series, jobs that are pushed back, reserved nodes that are not idle.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::reservation::{ReservationFilter, ReservationInfo, ReservationState};
use cosy_model::{JobId, JobState};
use cosy_tests::people::{self, ANN, BOB};
use cosy_tests::{Cluster, Options, Output, system, wait};
use std::fs;
use std::os::unix::fs::PermissionsExt;

const RULES: &str = "[reservations]\nall_of = []\n\
    [reservations.per_user]\nopen = 9\nshare = \"off\"\n";

fn cluster(nodes: usize) -> Option<Cluster> {
    system::root_or_skip().then(|| {
        let options = Options {
            head: "admins = [\"cat\"]\n".into(),
            policy: "heartbeat = \"1s\"\ngrace = \"1s\"\nmail_command = [\"DIR/mail\"]\n".into(),
            controller: RULES.into(),
            ..Options::default()
        };
        let cluster = people::start(nodes, options);
        let mail = cluster.dir().join("mail");
        let text = "#!/bin/sh\necho \"$*\" >> \"${0%/*}/mails\"\n";
        fs::write(&mail, text).unwrap();
        fs::set_permissions(&mail, fs::Permissions::from_mode(0o755)).unwrap();
        cluster
    })
}

#[track_caller]
fn cosy(c: &Cluster, uid: u32, line: &str) -> Output {
    c.run_as(uid, &line.split(' ').collect::<Vec<_>>())
}

#[track_caller]
fn submit(c: &Cluster, uid: u32, line: &str) -> JobId {
    let output = cosy(c, uid, &format!("csub --parsable --exclusive {line}"));
    JobId(output.expect(0).out.trim().parse().unwrap())
}

fn all(c: &Cluster) -> Vec<ReservationInfo> {
    use cosy_model::api::{Reply, Request};
    let filter = ReservationFilter {
        ended: true,
        ..ReservationFilter::default()
    };
    match c.ask(Request::Reservations { filter }) {
        Reply::Reservations(all) => all,
        other => panic!("{other:?}"),
    }
}

/// One node, taken by bob's job for an hour, and ann's job of an hour behind it.
fn queue(c: &Cluster) -> JobId {
    let running = submit(c, BOB, "-t 1h --name secret -- sleep 1000");
    c.until_state(running, JobState::Running);
    submit(c, ANN, "-t 1h -- true")
}

#[test]
fn asked_then_chosen() {
    let Some(c) = cluster(1) else { return };
    let waiting = queue(&c);
    let ask = "-N 1 --exclusive -t 30m --until now+6h";
    let said = cosy(&c, ANN, &format!("cresv quote {ask}")).expect(0).out;
    assert!(!said.contains("secret"), "{said}");
    let json = cosy(&c, ANN, &format!("cresv quote {ask} --json"))
        .expect(0)
        .out;
    for word in [
        "plain_start_ms",
        "availability",
        "\"delayed_jobs\":1",
        "\"price\":2",
    ] {
        assert!(json.replace(": ", ":").contains(word), "{word}: {json}");
    }
    assert!(all(&c).is_empty(), "a quote keeps nothing");
    // The cheapest is the one that delays nobody: behind ann's own job.
    let chosen = format!("cresv quote {ask} --cheapest --choose");
    cosy(&c, ANN, &chosen).expect(0);
    let made = all(&c).remove(0);
    assert_eq!((made.state, made.delayed_jobs), (ReservationState::Confirmed, 0));
    assert_eq!((made.extra.0, made.base), (0, cosy_model::Su::whole(2)));
    assert!(made.start.0 > made.made.0 + 110 * 60_000, "{made:?}");
    // The soonest is in front of it, and it is told so.
    let soonest = format!("cresv book {ask} --soonest");
    cosy(&c, ANN, &soonest).expect(0);
    let first = all(&c).into_iter().min_by_key(|r| r.start).unwrap();
    assert_eq!(first.delayed_jobs, 1, "{first:?}");
    assert!(first.extra.0 > 0, "{first:?}");
    let why = cosy(&c, ANN, &format!("cstat {waiting}")).expect(0).out;
    assert!(why.contains(&format!("by reservation {}", first.id)), "{why}");
    let queue = cosy(&c, BOB, "cstat").expect(0).out;
    assert!(queue.contains("confirmed"), "{queue}");
}

#[test]
fn pictures() {
    let Some(c) = cluster(1) else { return };
    queue(&c);
    let line = "cresv quote -N 1 --exclusive -t 30m --until now+6h --svg -";
    let svg = cosy(&c, ANN, line).expect(0).out;
    assert!(svg.starts_with("<svg") || svg.starts_with("<?xml"), "{svg:.200}");
    assert!(svg.trim_end().ends_with("</svg>") && !svg.contains("secret"));
    let plan = cosy(&c, ANN, "cstat plan").expect(0).out;
    assert!(plan.contains("n1"), "{plan}");
}

#[test]
fn series() {
    let Some(c) = cluster(1) else { return };
    let base = "cresv book -N 1 --exclusive -t 30m --parsable";
    let blocker = cosy(&c, BOB, &format!("{base} --at now+25h")).expect(0);
    let line = format!("{base} --at now+1h --repeat FREQ=DAILY;COUNT=4");
    // The second start is bob's: all or nothing.
    let refused = cosy(&c, ANN, &line).expect(1);
    let refused = refused.expect_refusal("1 of 4 starts of the series are not possible");
    assert!(refused.err.contains("--as-many-as-fit"), "{refused:?}");
    assert_eq!(all(&c).iter().filter(|r| r.state.is_live()).count(), 1);
    let some = cosy(&c, ANN, &format!("{line} --as-many-as-fit")).expect(0);
    assert_eq!(some.out.lines().count(), 3, "{some:?}");
    let made: Vec<_> = all(&c)
        .into_iter()
        .filter(|r| r.user == "ann" && r.state.is_live())
        .collect();
    assert!(made.windows(2).all(|w| w[0].series == w[1].series), "{made:?}");
    let first = some.out.lines().next().unwrap();
    let gone = cosy(&c, ANN, &format!("cresv cancel {first} --series")).expect(0);
    assert_eq!(gone.out, "Gave back 3 reservations.\n");
    cosy(&c, BOB, &format!("cresv cancel {}", blocker.out.trim())).expect(0);
    assert_eq!(cosy(&c, ANN, &line).expect(0).out.lines().count(), 4);
}

#[test]
fn reserved_nodes_are_not_idle() {
    let Some(c) = cluster(1) else { return };
    let book = "cresv book -N 1 --exclusive -t 6s --at now+20s --parsable";
    let id = cosy(&c, ANN, book).id();
    // One ends in time and runs at once, one does not and waits for the end.
    let long = submit(&c, BOB, "-t 1m -- true");
    let short = submit(&c, BOB, "-t 5s -- true");
    assert_eq!(c.until_end(short).outcome(), (JobState::Completed, 0));
    let made = c.reservation(id);
    assert!(c.row(short).end.unwrap() < made.start.0);
    assert_eq!(c.row(long).state, JobState::Waiting);
    // Something small runs in it, so it is used, but hardly.
    let id_text = id.to_string();
    let inside = ["csub", "--reservation", &id_text, "-c", "1", "--", "true"];
    c.run_as(ANN, &inside).expect(0);
    let row = c.until_end(long);
    assert!(row.start.unwrap() >= made.end.0, "{row:?} {made:?}");
    // Its owner and the administrator are told.
    wait::until_true("two mails about it", || {
        let mails = fs::read_to_string(c.dir().join("mails")).unwrap_or_default();
        ["ann", "cat"].iter().all(|who| {
            let about = format!("reservation {id}: only ");
            mails.lines().any(|l| l.contains(who) && l.contains(&about))
        })
    });
}
