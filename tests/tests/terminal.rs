//! Lists on terminals: they fit, tell totals, and no name changes the terminal. Elsewhere they are
//! whole.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::JobState;
use cosy_tests::terminal::lines_on;
use cosy_tests::{Cluster, Options};
use unicode_width::UnicodeWidthStr;

/// A job that runs, one that waits for good, an array of many ranges, and one that has ended.
fn busy() -> Cluster {
    let c = Cluster::start(2, Options::default());
    let words = [
        "csub",
        "--wait",
        "-Q",
        "-o",
        "/dev/null",
        "-a",
        "1-6",
        "-J",
        "ended",
    ];
    let body = b"#!/bin/sh\ntest $COSY_ARRAY_TASK != 3 || exit 5\n";
    cosy_tests::run::run_with(&mut c.command(&words), body).expect(5);
    let name = "\u{8ba1}\u{7b97}\u{6d41}\u{4f53}\u{529b}\u{5b66}\u{6a21}\u{62df}\u{4f5c}\u{4e1a}";
    let submit = |words: &[&str]| {
        let sleep = ["--", "sh", "-c", "sleep 600 # \u{1b}[2J\u{7}"];
        let words = [&["csub", "-Q", "-t", "60"], words, &sleep].concat();
        c.run(&words).expect(0);
    };
    submit(&["-J", name]);
    let ranges = (1..60).map(|n| (2 * n).to_string()).collect::<Vec<_>>();
    submit(&[
        "--hold",
        "-a",
        &ranges.join(","),
        "-J",
        "a-very-long-name-of-an-array",
    ]);
    let running = cosy_model::JobId(7);
    c.until_state(running, JobState::Running);
    c
}

#[test]
fn lists_fit_the_terminal() {
    let c = busy();
    let lists: [&[&str]; 7] = [
        &["cstat"],
        &["cstat", "-A", "-E"],
        &["cstat", "-v"],
        &["cstat", "7"],
        &["cstat", "nodes"],
        &["cstat", "queues"],
        &["chist"],
    ];
    for columns in [30, 60, 80, 120, 300] {
        for words in lists {
            let lines = lines_on(columns, &mut c.command(words));
            assert!(lines.len() > 1, "{words:?}: {lines:#?}");
            for line in &lines {
                let width = line.width();
                assert!(width <= usize::from(columns), "{words:?} in {columns}: {line} ({width})");
                assert!(!line.contains(char::is_control), "{words:?}: {line:?}");
            }
        }
    }
    let lines = lines_on(80, &mut c.command(&["cstat"]));
    assert!(lines[1].contains("\u{8ba1}\u{7b97}") && !lines[1].contains(':'), "{lines:#?}");
    assert!(
        lines[2]
            .trim_start()
            .starts_with("8_[2,4,6,+]  a-very-long"),
        "{lines:#?}"
    );
    assert!(lines[3].starts_with("60 jobs: 59 waiting, 1 running on 1 core"), "{lines:#?}");
    let exact = lines_on(80, &mut c.command(&["cstat", "-v"]));
    assert!(exact[1].contains(':') && !exact[1].contains("ago"), "{exact:#?}");
}

#[test]
fn ended_arrays_and_nodes_that_are_alike_share_a_line() {
    let c = busy();
    let lines = lines_on(120, &mut c.command(&["chist"]));
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[1].starts_with("1_[1-6]  ended"), "{lines:#?}");
    assert!(lines[1].contains("1 failed, 5 completed     5  "), "{lines:#?}");
    assert_eq!(lines[2], "6 jobs: 5 completed, 1 failed");
    let each = lines_on(120, &mut c.command(&["chist", "--array"]));
    assert_eq!(each.len(), 8, "{each:#?}");
    let alike = lines_on(120, &mut c.command(&["chist", "-v"]));
    assert_eq!(alike.len(), 4, "{alike:#?}");
    c.run(&["ccancel", "7", "8"]).expect(0);
    c.until_no_job_processes();
    let idle = || lines_on(80, &mut c.command(&["cstat", "nodes"]));
    cosy_tests::wait::until_true("both nodes are idle", || {
        idle()
            .get(1)
            .is_some_and(|line| line.starts_with("n[1-2]      2  idle"))
    });
    let each = lines_on(80, &mut c.command(&["cstat", "nodes", "-v"]));
    assert_eq!(each.len(), 4, "{each:#?}");
}

/// What is not a terminal has neither of these, as programs expect it.
#[test]
fn elsewhere_nothing_is_short() {
    let c = busy();
    let text = c.run(&["cstat"]).expect(0).out;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[2].starts_with("8_[2,4,6,8,10,12,"), "{text}");
    assert!(lines[2].contains("  a-very-long-name-of-an-array  main   waiting"), "{text}");
    assert!(lines[2].contains("  01:00:00  "), "{text}");
    let nodes = c.run(&["cstat", "nodes"]).expect(0).out;
    let lines: Vec<&str> = nodes.lines().collect();
    assert!(lines.len() == 3 && lines[1].starts_with("n1 "), "{nodes}");
    let formatted = [
        "cstat",
        "--format",
        "ref,name,queue,state,time_limit,submit",
    ];
    let on_terminal = lines_on(40, &mut c.command(&formatted));
    let elsewhere = c.run(&formatted).expect(0).out;
    assert_eq!(on_terminal, elsewhere.lines().collect::<Vec<_>>());
}

#[test]
fn one_job_begins_with_how_it_stands() {
    let c = busy();
    let text = lines_on(80, &mut c.command(&["cstat", "8"]));
    let text = text.join("\n");
    assert!(text.starts_with("job 8_[2,4"), "{text}");
    let order = [
        "held by its user",
        "submitted",
        "queue",
        "cosy release 8",
        "asked for",
        "size",
    ];
    let places = order.map(|word| text.find(word).unwrap_or_else(|| panic!("{word}: {text}")));
    assert!(places.is_sorted(), "{places:?}: {text}");
    for word in ["umask", "rlimits", "dialect", "apart"] {
        assert!(!text.contains(word), "{word}: {text}");
        let all = lines_on(80, &mut c.command(&["cstat", "--all", "8"])).join("\n");
        assert!(all.contains(word), "{word}: {all}");
        assert!(c.run(&["cstat", "8"]).expect(0).out.contains(word), "{word}");
    }
    let ended = lines_on(80, &mut c.command(&["cstat", "1_3"])).join("\n");
    assert!(ended.contains("failed\n"), "{ended}");
    assert!(ended.contains("its program ended with exit code 5"), "{ended}");
    let none = c.run(&["cstat", "4711"]);
    assert_ne!(none.code, 0, "{none:?}");
}

/// An account that pays, reservations, a plan and a workflow with slots.
fn booked() -> Cluster {
    let rules = "[reservations]\nall_of = []\n[account.a-long-name-of-an-account]\nbudget = 400\n";
    let c = Cluster::start(
        2,
        Options {
            controller: rules.to_owned(),
            ..Options::default()
        },
    );
    let account = "a-long-name-of-an-account";
    for at in ["now+2h", "now+5h"] {
        let words = [
            "cresv", "book", "-n", "1", "-t", "60", "-A", account, "--at", at,
        ];
        c.run(&[&words[..], &["-J", "a-long-name-of-a-slot"]].concat())
            .expect(0);
    }
    let flow = concat!(env!("CARGO_MANIFEST_DIR"), "/../etc/flows/diamond.toml");
    std::fs::copy(flow, c.work().join("flow.toml")).unwrap();
    c.run(&["cosy", "flow", "submit", "flow.toml"]).expect(0);
    c
}

#[test]
fn bookings_and_workflows_fit_the_terminal() {
    let c = booked();
    let lists: [&[&str]; 8] = [
        &["cresv", "quote", "-n", "1", "-t", "60"],
        &["cresv", "list", "--cost"],
        &["chist", "--cost", "-A"],
        &["cadm", "account", "list"],
        &["cadm", "account", "ledger"],
        &["cosy", "flow", "list", "--all"],
        &["cosy", "flow", "show", "1"],
        &["cosy", "flow", "plan", "flow.toml"],
    ];
    for words in lists {
        for columns in [40, 60, 80] {
            let lines = lines_on(columns, &mut c.command(words));
            let rows = lines.iter().filter(|line| {
                // Sentences below a table may be longer: the terminal breaks them.
                line.contains("  ")
            });
            for line in rows {
                let width = line.width();
                assert!(width <= usize::from(columns), "{words:?} in {columns}: {line} ({width})");
            }
        }
    }
    let head = |words: &[&str]| lines_on(80, &mut c.command(words))[0].clone();
    let ledger = head(&["cadm", "account", "ledger"]);
    assert!(ledger.contains("SU") && !ledger.contains("WHO"), "{ledger}");
    let bill = head(&["chist", "--cost", "-A"]);
    assert!(bill.contains("CHARGED") && !bill.contains("CORES"), "{bill}");
    let plan = lines_on(80, &mut c.command(&["cosy", "flow", "plan", "flow.toml"]));
    assert!(!plan.concat().contains("cp_even_percent"), "{plan:#?}");
    let plan = lines_on(80, &mut c.command(&["cosy", "flow", "plan", "-v", "flow.toml"]));
    assert!(plan.concat().contains("(hbmct, cp_even_percent)."), "{plan:#?}");
}

#[test]
fn help_is_broken_by_the_terminal_alone() {
    let c = Cluster::start(1, Options::default());
    let lines = lines_on(80, &mut c.command(&["cresv", "--help"]));
    let end = [
        "Exit codes: 0 done, 1 refused (the line says by what, and what would work), 2",
        "mistake on the command line, 3 no controller.",
    ];
    assert!(lines.ends_with(&end.map(str::to_owned)), "{lines:#?}");
    let lines = lines_on(80, &mut c.command(&["cosy", "--help"]));
    assert!(lines.iter().all(|line| line.width() <= 80), "{lines:#?}");
}
