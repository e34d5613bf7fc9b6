//! What jobs used of what they asked for: on the page of a job, in history, and at the next
//! submission.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::terminal::lines_on;
use cosy_tests::{Cluster, Options};

const SAME: [&str; 8] = ["csub", "-J", "train", "-t", "2:00:00", "--", "sleep", "600"];

fn train() -> Cluster {
    let c = Cluster::start(1, Options::default());
    let words = [
        "csub", "--wait", "-Q", "-J", "train", "-t", "60", "--", "true",
    ];
    c.run(&words).expect(0);
    c
}

#[test]
fn the_last_time_is_told_on_a_terminal() {
    let c = train();
    let lines = lines_on(200, &mut c.command(&SAME));
    assert_eq!(lines.len(), 2, "{lines:#?}");
    let said = lines
        .iter()
        .find(|line| line.starts_with("csub: "))
        .unwrap();
    assert!(said.starts_with("csub: last time 'train' (job 1, "), "{said}");
    assert!(said.contains(") used ") && said.ends_with(" of 2h"), "{said}");
    assert!(lines.contains(&"Submitted job 2".to_owned()), "{lines:#?}");
    let silent = |words: &[&str]| {
        let lines = lines_on(200, &mut c.command(words));
        assert!(!lines.iter().any(|line| line.contains("last time")), "{lines:#?}");
    };
    // Another name, no time named, and who does not want to hear of it.
    silent(&["csub", "-J", "other", "-t", "2:00:00", "--", "true"]);
    silent(&["csub", "-J", "train", "--", "true"]);
    for option in ["--quiet", "--parsable", "--json"] {
        silent(&[&["csub", option], &SAME[1..]].concat());
    }
    let lines = lines_on(200, c.command(&SAME).env("COSY_HINTS", "no"));
    assert!(!lines.iter().any(|line| line.contains("last time")), "{lines:#?}");
    // Elsewhere than on a terminal programs read it.
    let said = c.run(&SAME).expect(0);
    assert_eq!(said.err, "");
    let said = c
        .run(&["sbatch", "-J", "train", "-t", "120", "--wrap", "true"])
        .expect(0);
    assert_eq!(said.err, "");
}

#[test]
fn one_that_reached_its_limit_is_told() {
    let c = Cluster::start(1, Options::default());
    let words = |limit| ["csub", "-J", "long", "-t", limit, "--", "sleep", "600"];
    c.run(&words("1s")).expect(0);
    c.until_state(JobId(1), JobState::TimedOut);
    let lines = lines_on(200, &mut c.command(&words("1s")));
    let want = "was ended at its limit of 1s, and this one asks for no more";
    assert!(lines.iter().any(|line| line.ends_with(want)), "{lines:#?}");
    let lines = lines_on(200, &mut c.command(&words("1h")));
    assert!(!lines.iter().any(|line| line.contains("last time")), "{lines:#?}");
}

#[test]
fn what_was_used_of_what_was_asked_for() {
    let c = train();
    let used = |job: &str| {
        let lines = lines_on(120, &mut c.command(&["cstat", job]));
        lines.into_iter().find(|line| line.starts_with("  used  "))
    };
    let said = used("1").unwrap();
    assert!(said.contains(" of 1 core (") && said.ends_with(" of 1h"), "{said}");
    let lines = lines_on(200, &mut c.command(&["chist"]));
    assert!(lines[0].ends_with("CORES%  MEM%  TIME%"), "{lines:#?}");
    assert!(lines[1].ends_with("0%"), "{lines:#?}");
    c.run(&SAME).expect(0);
    c.until_state(JobId(2), JobState::Running);
    // Its node says what it uses now.
    let now = || used("2").filter(|said| said.contains(" of memory now, "));
    let said = cosy_tests::wait::until("its memory is told", now);
    assert!(said.ends_with(" of 2h"), "{said}");
}

/// On a terminal; elsewhere each has its line, as programs expect it.
#[test]
fn many_tasks_that_run_share_a_line() {
    let c = Cluster::start(2, Options::default());
    c.run(&[
        "csub", "-Q", "-a", "1-9", "-t", "60", "--mem", "1M", "--", "sleep", "600",
    ])
    .expect(0);
    let running = || {
        let mut lines = lines_on(120, &mut c.command(&["cstat"])).into_iter();
        lines.find(|line| line.contains(" 8 running "))
    };
    let line = cosy_tests::wait::until("they run", running);
    assert!(line.starts_with("1_[1-8]  ") && line.contains("  n[1-2]"), "{line}");
    let each = lines_on(120, &mut c.command(&["cstat", "-r"]));
    let alone = each.iter().filter(|line| line.contains("  running  "));
    assert_eq!(alone.count(), 8, "{each:#?}");
    let elsewhere = c.run(&["cstat"]).expect(0).out;
    assert_eq!(elsewhere.matches("  running  ").count(), 8, "{elsewhere}");
}

#[test]
fn efficiency_of_jobs_and_of_users() {
    let c = train();
    let said = c.run(&["cosy", "efficiency"]).expect(0).out;
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("NAME") && lines[0].ends_with("CORES%  MEM%  TIME%"), "{said}");
    assert!(lines[1].starts_with("train     1              0"), "{said}");
    let said = c
        .run(&["cosy", "efficiency", "-A", "--by", "month", "--json"])
        .expect(0)
        .out;
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&told["by"], &told["lines"][0]["jobs"]), (&"month".into(), &1.into()), "{said}");
    let said = c.run(&["cosy", "efficiency", "1"]).expect(0).out;
    assert!(said.starts_with("job 1 'train' of ") && said.contains(": completed\n"), "{said}");
    // An hour was asked for, and less than a second used.
    assert!(said.contains("  would do  csub ") && said.contains("-t 00:01:00"), "{said}");
    let said = c.run(&["cosy", "efficiency", "99"]).expect(1);
    assert!(said.err.contains("none of these has run and ended"), "{said:?}");
    c.run(&["cosy", "efficiency", "--by", "moon"]).expect(2);
    c.run(&["cosy", "efficiency", "--since", "moon"]).expect(2);
}

/// What is mailed goes to the site's program: subject as its argument, the rest on standard input.
#[test]
fn mail_tells_what_was_used() {
    let folder = tempfile::tempdir().unwrap();
    let mailed = folder.path().join("mail");
    let c = Cluster::start(1, Options::default().mailed_to(&mailed));
    let told = || cosy_tests::wait::until("a mail comes", || std::fs::read_to_string(&mailed).ok());
    let words = [
        "csub",
        "--mail-type",
        "END",
        "-J",
        "train",
        "-t",
        "60",
        "--mem",
        "1G",
        "--",
    ];
    c.run(&[&words[..], &["sleep", "1"]].concat()).expect(0);
    let text = told();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("job 1 (train) ended: completed, exit code 0"), "{text}");
    assert!(
        lines[1].starts_with("It ran 00:00:0") && lines[1].ends_with(" of 01:00:00."),
        "{text}"
    );
    assert!(lines[2].starts_with("Cores: 0.") && lines[2].contains(" of 1 were busy ("), "{text}");
    assert!(lines[3].starts_with("Memory: ") && lines[3].contains(" of 1G on the node"), "{text}");
    assert!(lines[4].starts_with("That is less than a 5th of what it asked for"), "{text}");
    std::fs::remove_file(&mailed).unwrap();
    c.run(&[&words[..], &["sleep", "600"]].concat()).expect(0);
    c.until_state(JobId(2), JobState::Running);
    c.run(&["ccancel", "2"]).expect(0);
    let text = told();
    assert!(
        text.lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("cancelled by ")),
        "{text}"
    );
}
