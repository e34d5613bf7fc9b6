//! A reservation begins exactly when it was promised: under full load, over a crash of the
//! controller, and with a node lost on the way.
//!
//! Source: COSY paper, section 3.2 ("Exact start time").

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::reservation::{ReservationInfo, ReservationState};
use cosy_model::{JobId, JobState, ReservationId, Span, Time};
use cosy_tests::{Cluster, Options, resv, script, wait};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// No rule and no quota stands in the way.
const FREE: &str = "[reservations]\nall_of = []\ndelay_cap = \"off\"\n\
    [reservations.per_user]\nopen = \"off\"\nshare = \"off\"\n";
/// A script whose first line writes when it runs.
const BEGIN: &str = "#!/bin/sh\ndate +%s%N > began\nhostname > /dev/null\n";
/// The first line runs at most so long after the promised second.
const LATEST: Span = Span::from_secs(1);

fn options() -> Options {
    Options {
        policy: "heartbeat = \"1s\"\nnode_timeout = \"3s\"\ngrace = \"1s\"\n\
            mail_command = [\"DIR/mail\"]\n"
            .into(),
        controller: FREE.into(),
        ..Options::default()
    }
}

fn cluster(nodes: usize) -> Cluster {
    let mut c = Cluster::prepare(nodes, options());
    let mail = c.dir().join("mail");
    let text = format!("#!/bin/sh\necho \"$*\" >> {}/mails\n", c.dir().display());
    fs::write(&mail, text).unwrap();
    fs::set_permissions(&mail, fs::Permissions::from_mode(0o755)).unwrap();
    c.start_cosyd();
    (0..nodes).for_each(|at| c.start_noded(at));
    c.nodes.iter_mut().for_each(|n| n.await_ready());
    fs::write(c.work().join("begin.sh"), BEGIN).unwrap();
    c
}

/// Jobs that each take a whole node, all of their time, and more if they can: they do not
/// end when told to.
fn fill(c: &Cluster, jobs: usize) -> Vec<JobId> {
    fill_with(c, jobs, true)
}

/// The same with jobs of one core each, unless `whole`.
fn fill_with(c: &Cluster, jobs: usize, whole: bool) -> Vec<JobId> {
    let mut job = script(&c.work(), "trap '' TERM\nwhile :; do sleep 0.1; done");
    job.spec.request.nodes = Some(1);
    job.spec.request.exclusive = whole;
    job.spec.time_limit = Some(Span::from_secs(2));
    (0..jobs).map(|_| c.submit(&job)).collect()
}

/// Books whole nodes for a script, that many seconds ahead.
fn book(c: &Cluster, nodes: usize, ahead_secs: u32) -> ReservationInfo {
    let (nodes, at) = (nodes.to_string(), format!("now+{ahead_secs}s"));
    let words = [
        "cresv",
        "book",
        "-N",
        &nodes,
        "--exclusive",
        "-t",
        "20s",
        "--at",
        &at,
        "--parsable",
        "begin.sh",
    ];
    let id = c.run(&words).id();
    let made = c.reservation(id);
    assert_eq!(made.state, ReservationState::Confirmed, "{made:?}");
    assert_eq!(made.start.0 % 1000, 0, "a whole second: {made:?}");
    made
}

/// Waits for the script's first line; it ran within the promised second.
fn began_in_time(c: &Cluster, made: &ReservationInfo) -> Time {
    let file = c.work().join("began");
    let began = wait::until("the script's first line has run", || resv::written_time(&file));
    let late = began.0 - made.start.0;
    eprintln!("the first line ran {late} ms after the promised second");
    assert!(
        (0..LATEST.ms()).contains(&late),
        "{late} ms after the promised second: {:?}\n{}",
        c.reservation(made.id),
        c.logs()
    );
    began
}

/// The script came to its end, and with it the reservation.
fn ended_well(c: &Cluster, id: ReservationId) {
    let job = c.attached(id);
    assert_eq!(c.until_end(job).outcome(), (JobState::Completed, 0));
    c.until_resv_state(id, ReservationState::Ended);
}

/// The machine was full until shortly before, and there was more to do.
fn was_loaded(c: &Cluster, load: &[JobId], made: &ReservationInfo) {
    let rows: Vec<_> = load.iter().map(|job| c.row(*job)).collect();
    let before = |t: &Option<i64>| t.is_some_and(|t| t < made.start.0);
    let ran = rows.iter().filter(|r| before(&r.start)).count();
    let last = rows
        .iter()
        .filter(|r| before(&r.start))
        .filter_map(|r| r.end);
    let idle = made.start.0 - last.max().unwrap_or(0);
    eprintln!("{ran} jobs ran before, the last ended {idle} ms before the start");
    assert!(ran >= 4 && ran < load.len(), "{ran} of {} ran", load.len());
    assert!(idle < 12_000, "the machine lay idle for {idle} ms");
    for row in rows.iter().filter(|r| before(&r.start)) {
        assert!(row.end.is_some_and(|end| end <= made.start.0), "{row:?}");
        assert_eq!(row.state, JobState::TimedOut, "{row:?}");
    }
}

#[test]
fn under_full_load() {
    let c = cluster(2);
    let load = fill(&c, 30);
    let made = book(&c, 2, 20);
    began_in_time(&c, &made);
    was_loaded(&c, &load, &made);
    ended_well(&c, made.id);
    // The queue goes on behind it.
    let later = |r: &cosy_tests::Row| r.start.is_some_and(|t| t > made.start.0);
    wait::until_true("a waiting job has started behind it", || {
        load.iter().any(|job| later(&c.row(*job)))
    });
}

#[test]
fn under_full_load_of_small_jobs() {
    let c = cluster(2);
    let load = fill_with(&c, 100, false);
    let made = book(&c, 2, 20);
    began_in_time(&c, &made);
    was_loaded(&c, &load, &made);
    ended_well(&c, made.id);
}

#[test]
fn over_a_crash_of_the_controller() {
    let mut c = cluster(2);
    let load = fill(&c, 30);
    let made = book(&c, 2, 20);
    for _ in 0..2 {
        c.cosyd.kill();
        c.start_cosyd();
        let now = c.reservation(made.id);
        assert_eq!(
            (now.start, now.end, now.state),
            (made.start, made.end, ReservationState::Confirmed)
        );
    }
    began_in_time(&c, &made);
    was_loaded(&c, &load, &made);
    ended_well(&c, made.id);
}

/// The node that a reservation has, counted from 0.
fn node_of(r: &ReservationInfo) -> usize {
    let number = r.nodes.strip_prefix('n').and_then(|n| n.parse().ok());
    number.map_or_else(|| panic!("one node: {r:?}"), |n: usize| n - 1)
}

/// It has another node, its holder was told, and it begins in time.
fn replaced(c: &Cluster, made: &ReservationInfo) {
    let moved = c.until_reservation(made.id, "replaced", |r| r.nodes != made.nodes);
    assert_eq!((moved.start, moved.end), (made.start, made.end));
    assert!(!moved.degraded && moved.note.contains("cannot serve"), "{moved:?}");
    assert!(resv::now() < made.start, "it was replaced too late to show anything");
    told(c, "cannot serve");
    began_in_time(c, made);
    let job = c.attached(made.id);
    assert_eq!(c.row(job).nodes, moved.nodes);
    ended_well(c, made.id);
}

fn told(c: &Cluster, text: &str) {
    wait::until_true(&format!("a mail that says '{text}'"), || {
        fs::read_to_string(c.dir().join("mails")).is_ok_and(|mails| mails.contains(text))
    });
}

#[test]
fn drained_node_is_replaced() {
    let c = cluster(3);
    fill(&c, 30);
    let made = book(&c, 1, 25);
    let drain = ["cadm", "node", "drain", &made.nodes, "--reason", "disk"];
    c.run(&drain).expect(0);
    replaced(&c, &made);
}

#[test]
fn silent_node_is_replaced() {
    let mut c = cluster(3);
    fill(&c, 30);
    let made = book(&c, 1, 25);
    c.nodes[node_of(&made)].kill();
    replaced(&c, &made);
}

#[test]
fn degraded_without_another_node() {
    let mut c = cluster(2);
    let made = book(&c, 2, 15);
    c.nodes[1].kill();
    let lost = c.until_reservation(made.id, "degraded", |r| r.degraded);
    assert!(lost.note.contains("n2 cannot serve"), "{lost:?}");
    assert_eq!(lost.state, ReservationState::Confirmed);
    told(&c, "no other nodes are free");
    let listed = c.run(&["cresv", "list"]).expect(0);
    assert!(listed.out.contains("degraded"), "{listed:?}");
    // It comes back before the start: all is well again.
    c.start_noded(1);
    let back = c.until_reservation(made.id, "whole", |r| !r.degraded);
    assert!(back.note.contains("there again"), "{back:?}");
    began_in_time(&c, &made);
    ended_well(&c, made.id);
}

#[test]
fn nodes_that_come_late_still_serve() {
    let mut c = cluster(2);
    let made = book(&c, 2, 8);
    c.nodes[1].kill();
    c.until_reservation(made.id, "begun degraded", |r| {
        r.degraded && r.state == ReservationState::Active
    });
    assert_eq!(c.row(c.attached(made.id)).state, JobState::Waiting);
    c.start_noded(1);
    let file = c.work().join("began");
    let began = wait::until("the script has run", || resv::written_time(&file));
    assert!(made.start < began && began < made.end, "{began:?} {made:?}");
    ended_well(&c, made.id);
}

#[test]
fn nodes_that_never_come() {
    let mut c = cluster(2);
    c.run(&["cadm", "account", "create", "lab", "--budget", "100"])
        .expect(0);
    let made = book(&c, 2, 8);
    assert!(made.charged.0 > 0, "{made:?}");
    c.nodes[1].kill();
    let over = c.until_resv_state(made.id, ReservationState::Failed);
    assert_eq!(over.charged.0, 0, "{over:?}");
    told(&c, "nothing is charged");
    let books = resv::books(&c.ledger());
    assert_eq!(books["lab"], cosy_model::Su::whole(100), "{books:?}");
}
