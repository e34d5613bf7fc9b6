//! `cosy top` on a terminal: what is seen, what keys do, and that the terminal is as before on every way
//! out.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::screen::{OnScreen, hang_up_after};
use cosy_tests::{Cluster, Options, wait};
use nix::sys::signal::Signal;
use std::fs;

const SIZE: (u16, u16) = (80, 24);
const UP: &str = "\u{1b}[A";
const DOWN: &str = "\u{1b}[B";
const ENTER: &str = "\r";
const ESC: &str = "\u{1b}";

fn cluster() -> Cluster {
    Cluster::start(2, Options::default())
}

fn submits(c: &Cluster, words: &[&str]) -> JobId {
    let said = c.run(&[&["csub", "-t", "60"], words].concat()).expect(0);
    JobId(said.out.trim().rsplit(' ').next().unwrap().parse().unwrap())
}

fn top(c: &Cluster, words: &[&str]) -> OnScreen {
    let words = [&["cosy", "top", "-d", "1"], words].concat();
    let top = OnScreen::start(&mut c.command(&words), SIZE);
    top.until("q quit");
    top
}

/// It ends with that code, and the terminal is as it was.
#[track_caller]
fn ends(mut top: OnScreen, code: i32) {
    assert_eq!(top.finish(), code, "{}", top.text());
    assert!(top.is_as_before(), "{}", top.text());
}

#[test]
fn jobs_are_seen_and_steered() {
    let c = cluster();
    let runs = submits(&c, &["-J", "first", "--", "sleep", "600"]);
    let waits = submits(
        &c,
        &[
            "-J",
            "second",
            "-N",
            "2",
            "--exclusive",
            "--",
            "sleep",
            "600",
        ],
    );
    c.until_state(runs, JobState::Running);
    let mut top = top(&c, &[]);
    assert!(!top.is_as_before());
    top.until("2 jobs: 1 waiting, 1 running on 1 core");
    top.until("first");
    // Without a yes nothing is done.
    top.keys("c");
    top.until("cancel job 1 'first' of ");
    top.keys("n");
    top.until("nothing was changed");
    assert_eq!(c.row(runs).state, JobState::Running);
    top.keys(DOWN);
    top.keys("h");
    top.until("hold job 2 'second' of ");
    top.keys("y");
    top.until("held job 2");
    top.until("(held_by_user)");
    top.keys("h");
    top.until("release job 2");
    top.keys("y");
    top.until("released job 2");
    top.keys(UP);
    top.keys("c");
    top.until("cancel job 1");
    top.keys("y");
    top.until("cancelled job 1");
    c.until_state(runs, JobState::Cancelled);
    c.until_state(waits, JobState::Running);
    top.until("1 job: 1 running");
    top.keys("/nothing like it");
    top.until("no job here for 'nothing like it'");
    top.keys(ESC);
    top.until("second");
    top.keys("q");
    ends(top, 0);
}

#[test]
fn pages() {
    let c = cluster();
    let job = submits(&c, &["-J", "first", "--", "sleep", "600"]);
    c.until_state(job, JobState::Running);
    let mut top = top(&c, &[]);
    top.keys("2");
    top.until("2 nodes: 1 mixed, 1 idle");
    top.keys(ENTER);
    top.until("/node=n1");
    top.until("first");
    top.keys("3");
    top.until("# running  - planned");
    top.until("|*1#");
    top.keys("+");
    top.keys("?");
    top.until("cancel the job; asks before it does");
    top.keys("q");
    top.until_seen("the plan again", |text| !text.contains("Everywhere"));
    top.keys("4");
    top.until("job 1 'first' of ");
    top.keys("Q");
    top.until("A reservation of the shape of job 1:");
    top.until("A plain job of this size would start now");
    top.keys(ESC);
    top.until("asked for");
    top.keys("\u{3}");
    ends(top, 0);
}

#[test]
fn output_is_followed() {
    let c = cluster();
    let text = "echo one; while [ ! -e go ]; do sleep 0.05; done; printf 'two \\033[31mred\\033[0m \
                \\033]0;title\\007\\n'; while [ ! -e end ]; do sleep 0.05; done; exit 3";
    let job = submits(&c, &["-J", "writes", "-o", "out", "--", "sh", "-c", text]);
    let mut top = top(&c, &[&job.to_string()]);
    top.until("job 1 'writes' of ");
    top.until_seen("the first line", |text| text.lines().any(|line| line == "one"));
    fs::write(c.work().join("go"), "").unwrap();
    top.until("two red ?]0;title?");
    top.keys("o");
    top.until_seen("the output alone", |text| {
        text.lines().nth(2) == Some("one") && !text.contains("asked for")
    });
    top.keys("o");
    fs::write(c.work().join("end"), "").unwrap();
    top.until("its program ended with exit code 3");
    assert!(!String::from_utf8_lossy(&top.bytes()).contains("\u{1b}]"), "a title was set");
    top.keys("c");
    top.until("job 1 has ended");
    top.keys("q");
    ends(top, 0);
}

/// Files of others, and what is no file.
#[test]
fn what_may_not_be_read_is_told() {
    let c = cluster();
    let job = submits(&c, &["-o", "/dev/null", "--", "sleep", "600"]);
    c.until_state(job, JobState::Running);
    let mut top = top(&c, &["1"]);
    top.until("cannot read /dev/null: it is no regular file");
    top.keys("q");
    ends(top, 0);
    let gone = submits(&c, &["-o", "gone", "--", "true"]);
    c.until_end(gone);
    fs::remove_file(c.work().join("gone")).unwrap();
    let mut top = self::top(&c, &["2"]);
    top.until("files are not seen here");
    top.keys("q");
    ends(top, 0);
}

#[test]
fn a_controller_that_is_killed_is_waited_for() {
    let mut c = cluster();
    let job = submits(&c, &["-J", "first", "--", "sleep", "600"]);
    c.until_state(job, JobState::Running);
    let mut top = top(&c, &[]);
    top.until("first");
    c.cosyd.kill();
    top.until("no answer since");
    // The picture stays, and keys do what they do.
    top.until("first");
    top.keys("?");
    top.until("Everywhere");
    top.keys(ESC);
    top.until("first");
    top.keys("1\r");
    top.until("job 1 is being asked for");
    c.start_cosyd();
    top.until("job 1 'first' of ");
    top.until_seen("no trouble", |text| !text.contains("no answer"));
    top.keys("q");
    ends(top, 0);
}

#[test]
fn a_controller_that_is_silent_holds_nothing_up() {
    let c = cluster();
    submits(&c, &["-J", "first", "--", "sleep", "600"]);
    let mut top = top(&c, &[]);
    top.until("first");
    c.cosyd.signal(Signal::SIGSTOP);
    top.until("no answer since");
    top.keys("/fir");
    top.until("/fir_");
    top.keys(ESC);
    top.keys("q");
    ends(top, 0);
    let top = OnScreen::start(&mut c.command(&["ctop"]), SIZE);
    top.until("the jobs are being asked for");
    top.until("no answer since");
    c.cosyd.signal(Signal::SIGCONT);
    top.until("1 job: 1 running");
    top.signal(Signal::SIGTERM);
    ends(top, 143);
}

#[test]
fn the_terminal_is_given_back() {
    let mut c = cluster();
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGINT, 130),
        (Signal::SIGQUIT, 131),
    ] {
        let top = top(&c, &[]);
        top.signal(signal);
        ends(top, code);
    }
    let mut top = top(&c, &[]);
    c.cosyd.kill();
    top.until("no answer since");
    top.keys("q");
    ends(top, 0);
}

/// As when a connection is cut and nobody sends a signal.
#[test]
fn it_ends_with_its_terminal() {
    let c = cluster();
    let code = hang_up_after(&mut c.command(&["ctop"]), "q quit");
    assert!(code == 129 || code == 1, "{code}");
}

#[test]
fn it_stops_and_goes_on() {
    let c = cluster();
    let mut top = top(&c, &[]);
    for ctrl_z in [true, false] {
        top.until("q quit");
        match ctrl_z {
            true => top.keys("\u{1a}"),
            false => top.signal(Signal::SIGTSTP),
        }
        top.until_stopped();
        wait::until_true("the terminal is as before", || top.is_as_before());
        top.signal(Signal::SIGCONT);
        wait::until_true("the terminal is taken again", || !top.is_as_before());
    }
    top.until("q quit");
    top.keys("q");
    ends(top, 0);
}

#[test]
fn terminals_of_every_size() {
    let c = cluster();
    submits(&c, &["-J", "first", "--", "sleep", "600"]);
    let mut top = top(&c, &[]);
    top.until("first");
    for size in [(120, 40), (40, 10), (20, 5), (80, 24)] {
        top.resize(size);
        match size {
            (20, 5) => top.until("too small"),
            _ => top.until_seen("the last line", |text| {
                let last = usize::from(size.1) - 1;
                text.contains("first")
                    && text.lines().nth(last).is_some_and(|l| l.contains("q quit"))
            }),
        }
    }
    top.keys("q");
    ends(top, 0);
}

/// Names of other users reach the terminal as text.
#[test]
fn names_change_no_terminal() {
    let c = cluster();
    let name = "\u{8ba1}\u{7b97}\u{202e}\u{2066}txet";
    submits(
        &c,
        &[
            "-J",
            name,
            "-o",
            "/dev/null",
            "--",
            "sh",
            "-c",
            "sleep 600 # \u{1b}[2J\u{7}\u{9b}31m",
        ],
    );
    let mut top = top(&c, &[]);
    top.until("\u{8ba1}\u{7b97}??");
    top.keys(ENTER);
    top.until("sleep 600 # ?[2J?");
    let text = String::from_utf8_lossy(&top.bytes()).into_owned();
    for bad in ['\u{202e}', '\u{2066}', '\u{7}', '\u{9b}'] {
        assert!(!text.contains(bad), "{bad:?}");
    }
    top.keys("q");
    ends(top, 0);
}

#[test]
fn without_a_terminal() {
    let mut c = cluster();
    let job = submits(&c, &["-J", "first", "--", "sleep", "600"]);
    c.until_state(job, JobState::Running);
    for command in [&["cosy", "top"][..], &["ctop", "1"]] {
        let said = c.run(command).expect(2);
        assert!(said.err.contains("'cosy top --once'") && said.err.contains("'cstat'"), "{said:?}");
        assert_eq!(said.out, "");
    }
    let once = |words: &[&str]| {
        c.run(&[&["cosy", "top", "--once"], words].concat())
            .expect(0)
            .out
    };
    for (words, what) in [
        (&[][..], "1 job: 1 running on 1 core | yours"),
        (&["-A"], "| everyone's"),
        (&["-q", "main"], "/queue=main"),
        (&["--page", "nodes"], "2 nodes: 1 mixed, 1 idle"),
        (&["--page", "plan"], "|*1##"),
        (&["1"], "-- output "),
    ] {
        let text = once(words);
        assert!(text.contains(what), "{words:?}: {text}");
        assert!(text.lines().count() == 24 && !text.contains('\u{1b}'), "{text}");
    }
    c.run(&["cosy", "top", "--once", "17"]).expect(1);
    c.cosyd.kill();
    c.run(&["cosy", "top", "--once"]).expect(3);
}
