//! A node that the controller no longer hears: what may run again elsewhere ends here first.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use cosy_model::node::*;
use cosy_model::{EndCause, OsText, Span};

/// So long a node may be alone here.
const ALONE: Span = Span::from_secs(5);

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.alone = Some(ALONE);
    bench.start();
    bench.accept();
    bench
}

const STAYS: &str = "while ! [ -e go ]; do sleep 0.01; done; exit 6";

fn running(bench: &mut Bench, job: u64, runs_again: bool) -> (Launch, i32) {
    let mut launch = bench.job(job, &format!("echo $$ > pid.{job}\n{STAYS}"));
    launch.allocation.runs_again = runs_again;
    bench.launch(&launch);
    let pid = pid_in(&bench.path(&format!("pid.{job}")));
    (launch, pid)
}

/// When the controller last counted on the node, as the node keeps it, in milliseconds.
fn sign(bench: &Bench) -> i64 {
    let file = bench.path("spool").join(&bench.name).join("contact");
    let text = wait_for("sign", || std::fs::read_to_string(&file).ok());
    text.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn what_may_run_again_ends_and_the_rest_goes_on() {
    let mut bench = bench();
    let (again, first) = running(&mut bench, 1, true);
    let (_, second) = running(&mut bench, 2, false);
    // The link stays up, and nothing that the node says is heard.
    wait_gone(first);
    assert!(alive(second));
    bench.hang_up();
    let (_, inventory) = bench.accept();
    let of = |job: u64| {
        let found = inventory.iter().find(|item| item.key.number() == job);
        found.map(|item| item.phase.clone())
    };
    match of(1) {
        Some(AttemptPhase::Ended(end)) => assert_eq!(end.cause, EndCause::NodeLost),
        other => panic!("{other:?}"),
    }
    assert!(matches!(of(2), Some(AttemptPhase::Running { .. })));
    bench.forget(again.allocation.key);
    std::fs::write(bench.path("go"), "").unwrap();
    assert_eq!(bench.ended(2).exit_code, 6);
}

#[test]
fn who_is_heard_is_not_alone() {
    let mut bench = bench();
    let (_, pid) = running(&mut bench, 1, true);
    // For longer than it may be alone: it reports once a second.
    for _ in 0..ALONE.ms() / 1000 + 2 {
        let number = bench.figures();
        bench.order(NodeOrder::Heard {
            number,
            mark: OsText::default(),
        });
    }
    assert!(alive(pid));
    wait_gone(pid); // nothing more is heard
    assert_eq!(bench.ended(1).cause, EndCause::NodeLost);
}

#[test]
fn a_controller_that_is_not_there_gives_nothing_away() {
    let mut bench = bench();
    let (_, pid) = running(&mut bench, 1, true);
    let began = sign(&bench);
    let place = bench.close();
    wait_for("a sign of later", || (sign(&bench) > began + ALONE.ms() + 500).then_some(()));
    assert!(alive(pid), "{}", bench.log());
    bench.open(&place);
    bench.accept();
    std::fs::write(bench.path("go"), "").unwrap();
    assert_eq!(bench.ended(1).exit_code, 6);
}

#[test]
fn a_controller_that_stops_gives_nothing_away() {
    let mut bench = bench();
    let (_, pid) = running(&mut bench, 1, true);
    bench.order(NodeOrder::Leaving);
    for _ in 0..ALONE.ms() / 1000 + 2 {
        bench.figures();
    }
    assert!(alive(pid));
    bench.hang_up();
    bench.accept();
    wait_gone(pid);
}

/// An order that waited in a buffer for longer than the node may be alone is not carried out.
#[test]
fn old_orders_are_not_obeyed() {
    let mut bench = bench();
    let mut launch = bench.job(1, "echo x >> ran.1");
    launch.allocation.runs_again = true;
    let daemon = bench.daemon().pid();
    let stop = |signal| unsafe { nix::libc::kill(daemon, signal) };
    stop(nix::libc::SIGSTOP);
    bench.launch(&launch);
    let end = noded::sys::since_boot().as_millis() as i64 + ALONE.ms() + 500;
    wait_for("its end", || (noded::sys::since_boot().as_millis() as i64 > end).then_some(()));
    stop(nix::libc::SIGCONT);
    bench.figures();
    bench.figures();
    assert!(!bench.path("ran.1").exists());
    assert!(!bench.spooled(launch.allocation.key).exists());
}

#[test]
fn what_it_has_seen_of_the_store_is_told_at_each_registration() {
    let mut bench = bench();
    let mark = OsText(
        StoreMark {
            events: 7,
            ..StoreMark::default()
        }
        .to_bytes(),
    );
    let number = bench.figures();
    bench.order(NodeOrder::Heard {
        number,
        mark: mark.clone(),
    });
    bench.figures();
    bench.daemon().kill();
    bench.start();
    bench.accept();
    assert_eq!(bench.seen, mark);
}
