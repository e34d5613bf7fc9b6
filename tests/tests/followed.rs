//! `cosy tail`, `cosy cat` and `csub --follow`: what jobs write.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::JobId;
use cosy_tests::run::Watched;
use cosy_tests::{Cluster, Options, wait};
use std::fs;

fn cluster() -> Cluster {
    Cluster::start(1, Options::default())
}

/// The job that was submitted with these words, which must be the first ones of the cluster.
fn submits(c: &Cluster, words: &[&str]) -> JobId {
    let said = c.run(&[&["csub"], words].concat()).expect(0);
    JobId(said.out.trim().rsplit(' ').next().unwrap().parse().unwrap())
}

#[test]
fn a_submission_is_followed_to_its_end() {
    let c = cluster();
    let text = "echo out; echo err >&2; sleep 0.3; echo more; exit 4";
    let said = c.run(&["csub", "-f", "-e", "err-%j", "--", "sh", "-c", text]);
    assert_eq!(said.out, "out\nmore\n");
    assert!(
        said.err
            .contains("submitted job 1; Ctrl-C leaves it running"),
        "{said:?}"
    );
    assert!(said.err.contains("\nerr\n"), "{said:?}");
    said.expect(4);
    // One file for both is shown once.
    let said = c
        .run(&["csub", "-f", "-Q", "--", "sh", "-c", text])
        .expect(4);
    assert_eq!((said.out.as_str(), said.err.as_str()), ("out\nerr\nmore\n", ""));
    for (words, why) in [
        (&["--json"][..], "leave out --json"),
        (&["-a", "1-2"][..], "shows one job"),
    ] {
        let said = c.run(&[&["csub", "-f"], words, &["--", "true"]].concat());
        assert!(said.err.contains(why), "{said:?}");
        said.expect(2);
    }
    assert!(
        c.run(&["cosy", "cat", "3"])
            .expect(1)
            .err
            .contains("there is no job 3")
    );
}

#[test]
fn a_job_is_followed_from_before_its_start() {
    let c = cluster();
    let text = "echo one; echo two; while [ ! -e go ]; do sleep 0.05; done; echo three; exit 7";
    let job =
        submits(&c, &["-H", "-o", "%x-%N", "-J", "watched", "--", "sh", "-c", text]).to_string();
    let tail = Watched::start(&mut c.command(&["cosy", "tail", "-n", "1", &job]), &c.work());
    let waits = "waits, its output begins when it starts: it is held by its user";
    wait::until_true("it says that the job waits", || tail.err().contains(waits));
    c.run(&["cosy", "release", &job]).expect(0);
    wait::until_true("the first lines are shown", || tail.out().contains("two\n"));
    fs::write(c.work().join("go"), "").unwrap();
    let said = tail.finish().expect(0);
    assert!(said.out.ends_with("two\nthree\n"), "{said:?}");
    // Of one that has ended the last lines are shown, or all.
    let shown = |words: &[&str]| c.run(&[&["cosy"], words, &[&job]].concat()).expect(0).out;
    assert_eq!(shown(&["tail", "-n", "2"]), "two\nthree\n");
    assert_eq!(shown(&["tail", "-n", "all"]), "one\ntwo\nthree\n");
    assert_eq!(shown(&["cat"]), "one\ntwo\nthree\n");
}

#[test]
fn a_file_that_is_begun_anew_is_shown_anew() {
    let c = cluster();
    let text =
        "echo first line; while [ ! -e go ]; do sleep 0.05; done; echo anew > other; mv other out";
    let job = submits(&c, &["-o", "out", "--", "sh", "-c", text]).to_string();
    let tail = Watched::start(&mut c.command(&["cosy", "tail", &job]), &c.work());
    wait::until_true("it is shown", || tail.out() == "first line\n");
    fs::write(c.work().join("go"), "").unwrap();
    let said = tail.finish().expect(0);
    assert_eq!(said.out, "first line\nanew\n");
    assert!(said.err.contains("out was begun anew"), "{said:?}");
}

#[test]
fn what_cannot_be_shown_is_told() {
    let c = cluster();
    let fails = |words: &[&str], why: &str| {
        let said = c.run(&[&["cosy"], words].concat());
        assert!(said.err.contains(why) && said.out.is_empty(), "{said:?}");
        said.expect(1);
    };
    fails(&["tail", "17"], "there is no job 17");
    let tasks = submits(&c, &["-a", "1-2", "--", "true"]);
    c.until_end(tasks);
    let name = tasks.to_string();
    fails(&["cat", &name], "has 2 tasks: name one, like");
    let held = submits(&c, &["-H", "--", "true"]).to_string();
    fails(&["cat", &held], "has not started");
    c.run(&["ccancel", &held]).expect(0);
    fails(&["tail", &held], "never ran");
    let null = submits(&c, &["-o", "/dev/null", "--", "true"]);
    c.until_end(null);
    fails(&["cat", &null.to_string()], "cannot read /dev/null: it is no regular file");
    // As on a node whose files are not seen here.
    let gone = submits(&c, &["-o", "gone", "--", "true"]);
    c.until_end(gone);
    fs::remove_file(c.work().join("gone")).unwrap();
    fails(&["tail", &gone.to_string()], "whose files are not seen here");
    let said = c.run(&["cosy", "tail", "1", "2"]);
    said.expect(2);
    let said = c.run(&["cosy", "tail", "-n", "x", "1"]);
    assert!(said.err.contains("neither a number of lines nor 'all'"), "{said:?}");
    said.expect(2);
}
