//! The command `try`, on histories of accounting that are made by hand.

#![allow(clippy::unwrap_used)] // tests

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HEADER: &str = "JobID|Account|Partition|AllocCPUS|Submit|Start|End|Timelimit|State\n";

/// Seconds since the begin of 2026, as `sacct` writes them.
fn time(secs: u64) -> String {
    let (day, rest) = (secs / 86_400, secs % 86_400);
    let (month, day) = (day / 28 + 1, day % 28 + 1); // February is the shortest
    let (h, m, s) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("2026-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}")
}

/// A job of one processor for each of ten weeks at two places of an hour: one of a long
/// account that comes first, and one of a short account right after. On a machine with one
/// processor the second waits for an hour. What was recorded is half an hour for each.
fn history(dir: &Path) -> PathBuf {
    let mut text = HEADER.to_owned();
    for week in 0..10 {
        let begin = week * 7 * 86_400 % (28 * 86_400) + week / 4 * 28 * 86_400;
        for (at, account, queue, run) in [(0, "long", "day", 3600), (1, "short", "fast", 60)] {
            let submit = begin + at;
            let start = submit + 1800;
            let (submit, start, end) = (time(submit), time(start), time(start + run));
            let id = week * 2 + at + 1;
            text +=
                &format!("{id}|{account}|{queue}|1|{submit}|{start}|{end}|02:00:00|COMPLETED\n");
        }
    }
    let path = dir.join("history.txt");
    std::fs::write(&path, text).unwrap();
    path
}

fn tried(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cosy-sim"));
    command.arg("try").args(args).output().unwrap()
}

fn figures(args: &[&str]) -> Value {
    let output = tried(&[args, &["--json", "-"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// (name, jobs, before, after, verdict)
fn lines(lines: &Value) -> Vec<(String, u64, f64, f64, String)> {
    let line = |line: &Value| {
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        let number = |key: &str| line[key].as_f64().unwrap();
        let (before, after) = (number("mean_wait_before"), number("mean_wait_after"));
        let jobs = line["jobs"].as_u64().unwrap();
        (text("name"), jobs, before, after, text("verdict"))
    };
    lines.as_array().unwrap().iter().map(line).collect()
}

#[test]
fn against_what_was_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let history = history(dir.path());
    let history = history.to_str().unwrap();
    let got = figures(&["--sacct", history, "--machine", "1", "--policy", "easy"]);
    let line = |name: &str, after: f64, verdict: &str| {
        (name.to_owned(), 10, 1800.0, after, verdict.to_owned())
    };
    let want = [
        line("long", 0.0, "shorter"),
        line("short", 3599.0, "longer"),
    ];
    assert_eq!(lines(&got["accounts"]), want);
    let want = [line("day", 0.0, "shorter"), line("fast", 3599.0, "longer")];
    assert_eq!(lines(&got["queues"]), want);
    assert_eq!(got["before"]["policy"], "recorded");
    assert_eq!(got["weeks"], 10);
    assert_eq!(got["all"]["difference"], 1799.5 - 1800.0);
    assert_eq!(got["all"]["jobs"], 20);
    assert_eq!(got["sizes"].as_array().unwrap().len(), 1);
}

#[test]
fn queues_with_priorities_against_another_policy() {
    let dir = tempfile::tempdir().unwrap();
    let history = history(dir.path());
    let history = history.to_str().unwrap();
    // All begin in the same second: the order of service decides.
    let text = std::fs::read_to_string(history).unwrap();
    std::fs::write(history, text.replace(":00:01|", ":00:00|")).unwrap();
    let file = dir.path().join("new.toml");
    std::fs::write(&file, "[policy]\nbackfill_depth = \"all\"\n[queues.fast]\npriority = 5\n")
        .unwrap();
    let file = file.to_str().unwrap();
    let got = figures(&[
        "--sacct",
        history,
        "--machine",
        "1",
        "--policy",
        file,
        "--against",
        "fcfs",
    ]);
    let line = |name: &str, before: f64, after: f64, verdict: &str| {
        (name.to_owned(), 10, before, after, verdict.to_owned())
    };
    let want = [
        line("long", 0.0, 60.0, "longer"),
        line("short", 3600.0, 0.0, "shorter"),
    ];
    assert_eq!(lines(&got["accounts"]), want);
    assert_eq!(got["before"]["policy"], "fcfs");
    assert_eq!(got["after"]["policy"], "conservative");
}

#[test]
fn tables_for_people() {
    let dir = tempfile::tempdir().unwrap();
    let history = history(dir.path());
    let history = history.to_str().unwrap();
    let args = ["--sacct", history, "--machine", "1", "--policy", "easy"];
    let first = tried(&args);
    let text = String::from_utf8(first.stdout).unwrap();
    for want in [
        "before       as recorded\n",
        "by account                    jobs",
        "short                           10     00:30:00     00:59:59     +00:29:59",
        "by queue",
        "A replay does not know what users would have done",
        "Recorded waits also hold what a replay does not know",
    ] {
        assert!(text.contains(want), "{want}\n{text}");
    }
    assert!(!text.contains("by processors"), "one line tells nothing: {text}");
    assert_eq!(String::from_utf8(tried(&args).stdout).unwrap(), text);
}

#[test]
fn short_histories_have_no_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("short.txt");
    let row = "1|a|q|1|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:01:00|60|COMPLETED\n";
    std::fs::write(&path, format!("{HEADER}{row}")).unwrap();
    let path = path.to_str().unwrap();
    let got = figures(&["--sacct", path, "--machine", "1", "--policy", "easy"]);
    assert_eq!(got["all"]["verdict"], "too few weeks to tell");
    assert_eq!(got["all"]["difference_from"], Value::Null);
}

#[test]
fn what_is_refused_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let history = history(dir.path());
    let history = history.to_str().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let log = file("log.swf", "1 0 -1 10 1 -1 -1 1 10 -1 1 1 1 -1 1 -1 -1 -1\n");
    let check = |args: &[&str], want: &str| {
        let output = tried(args);
        assert!(!output.status.success(), "{args:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(want), "{args:?}: {errors}");
    };
    let with = |policy: &str, want: &str| {
        check(&["--sacct", history, "--machine", "4", "--policy", policy], want);
    };
    with(&file("a.toml", "[policy]\nnice = 1\n"), "expected `backfill` or `backfill_depth`");
    with(&file("b.toml", "[queue.x]\n"), "expected `policy` or `queues`");
    with(&file("c.toml", "[queues.x]\npriority = 1\n"), "it has unknown, day, fast");
    with(&file("d.toml", "[policy]\nbackfill_depth = -3\n"), "backfill_depth is -3");
    with("depth=-1", "'depth=-1' is no policy");
    with("nowhere.toml", "'nowhere.toml' is neither fcfs");
    check(&["--sacct", history, "--policy", "easy"], "say it with --machine");
    check(&["--sacct", history, "--machine", "4"], "--policy <POLICY>");
    check(&["--policy", "easy", "--machine", "4"], "--sacct <DUMP>");
    let unknown = ["--sacct", &log, "--machine", "4", "--policy", "easy"];
    check(&unknown, "name the old policy with --against");
    check(&["--sacct", "/nowhere", "--machine", "4", "--policy", "easy"], "/nowhere");
}
