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
    with(&file("a.toml", "[policy]\nnice = 1\n"), "expected one of `backfill`, `backfill_depth`");
    with(&file("b.toml", "[queue.x]\n"), "expected one of `policy`, `priority`, `queues`");
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

const LINE: &str = "JobID|User|Account|QOS|Partition|AllocCPUS|Submit|Start|End|Timelimit|State\n";

/// One user has ten jobs of an hour in the line of one processor, another's comes a second later.
/// Both have waited for half an hour.
fn heavy_and_light(dir: &Path) -> PathBuf {
    let mut text = LINE.to_owned();
    let users = (0..10)
        .map(|at| (at, "hal", "big"))
        .chain([(10, "lea", "small")]);
    for (at, user, account) in users {
        let submit = if at == 10 { 1 } else { 0 };
        let (start, end) = (submit + 1800, submit + 1800 + 3600);
        let (submit, start, end) = (time(submit), time(start), time(end));
        text += &format!(
            "{at}|{user}|{account}|normal|day|1|{submit}|{start}|{end}|01:00:00|COMPLETED\n"
        );
    }
    let path = dir.join("line.txt");
    std::fs::write(&path, text).unwrap();
    path
}

const DUMP: &str = "Cluster - 'c'\nParent - 'root'\nAccount - 'big':Fairshare=1\n\
    Account - 'small':Fairshare=1\nParent - 'big'\nUser - 'hal':DefaultAccount='big'\n\
    Parent - 'small'\nUser - 'lea':DefaultAccount='small'\n";

/// Mean waits after, and what was told of accounts.
fn waits(args: &[&str]) -> (Vec<(String, f64)>, Vec<String>) {
    let got = figures(args);
    let users = got["users"].as_array().unwrap().iter();
    let wait = |line: &Value| {
        let name = line["name"].as_str().unwrap().to_owned();
        (name, line["mean_wait_after"].as_f64().unwrap())
    };
    let remarks = got["remarks"].as_array().unwrap().iter();
    let remarks = remarks.map(|text| text.as_str().unwrap().to_owned());
    let mut users: Vec<(String, f64)> = users.map(wait).collect();
    users.sort_by(|a, b| a.0.cmp(&b.0));
    (users, remarks.collect())
}

#[test]
fn accounts_and_orders() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let history = heavy_and_light(dir.path());
    let history = history.to_str().unwrap();
    let dump = file("a.dump", DUMP);
    let with = |policy: &str, more: &[&str]| {
        let args = ["--sacct", history, "--machine", "1", "--policy", policy];
        waits(&[&args[..], more].concat())
    };
    let accounts = ["--accounts", dump.as_str()];
    let hal = |hours: f64| ("hal".to_owned(), hours * 3600.0);
    let lea = |hours: f64| ("lea".to_owned(), hours * 3600.0 - 1.0);
    // First come, first served: the ten wait 0 to 9 hours, the last for all of them.
    assert_eq!(with("easy", &[]), (vec![hal(4.5), lea(10.0)], vec![]));
    // Who has used nothing comes when the first of the ten has ended.
    let fair = (vec![hal(5.4), lea(1.0)], vec![]);
    assert_eq!(with("fair-share", &accounts), fair);
    let shares = file(
        "w.toml",
        "[queues.day]\norder = \"weights\"\n[priority.weights]\nfair_share = 1000\n",
    );
    assert_eq!(with(&shares, &accounts), fair);
    // An account with no shares stands behind.
    let none = file("n.dump", &DUMP.replace("'small':Fairshare=1", "'small':Fairshare=0"));
    assert_eq!(with("fair-share", &["--accounts", &none]).0, [hal(4.5), lea(10.0)]);
    // Who is in no account is refused where accounts bind, and told.
    let bound = file("b.toml", "[policy]\nenforce = [\"associations\"]\n");
    let only_hal = file("h.dump", &DUMP.replace("User - 'lea'", "User - 'leo'"));
    let (users, remarks) = with(&bound, &["--accounts", &only_hal]);
    assert_eq!(users, [hal(4.5)]);
    let told = remarks.join("\n");
    assert!(told.contains("1 jobs of users who are not in the account"), "{told}");
    assert!(told.contains("1 jobs were refused; the first: user lea is in no account"), "{told}");
}

#[test]
fn medians_and_what_is_not_modelled() {
    let dir = tempfile::tempdir().unwrap();
    let history = heavy_and_light(dir.path());
    let history = history.to_str().unwrap();
    let args = [
        "--sacct",
        history,
        "--machine",
        "1",
        "--policy",
        "fair-share",
        "--against",
        "easy",
    ];
    let got = figures(&args);
    let lea = &got["users"][0];
    assert_eq!(
        (lea["name"].as_str(), lea["difference"].as_f64()),
        (Some("lea"), Some(-9.0 * 3600.0))
    );
    let hal = &got["users"][1];
    let hours = |key: &str| hal[key].as_f64().unwrap() / 3600.0;
    assert_eq!((hours("median_wait_before"), hours("p95_wait_before")), (4.0, 9.0));
    assert_eq!((hours("median_wait_after"), hours("p95_wait_after")), (5.0, 10.0));
    let text = String::from_utf8(tried(&args).stdout).unwrap();
    assert!(text.contains("\nlea                              1     09:59:59     00:59:59      09:59:59     00:59:59     -09:00:00"), "{text}");
    assert!(text.contains("Not modelled: memory, GPUs and licences; held jobs"), "{text}");
}

#[test]
fn accounts_that_are_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let history = heavy_and_light(dir.path());
    let history = history.to_str().unwrap();
    let check = |policy: &str, dump: &str, want: &str| {
        let (path, file) = (dir.path().join("x.dump"), dir.path().join("x.toml"));
        std::fs::write(&path, dump).unwrap();
        std::fs::write(&file, policy).unwrap();
        let (path, file) = (path.to_str().unwrap(), file.to_str().unwrap());
        let args = [
            "--sacct",
            history,
            "--machine",
            "1",
            "--policy",
            file,
            "--accounts",
            path,
        ];
        let output = tried(&args);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && errors.contains(want), "{errors}");
    };
    check("", "nonsense", "x.dump:1: 'nonsense' is no line of a dump");
    check("", "Cluster - 'c'\nAccount - 'a':Fairshare=-1x\n", "x.dump:2: Fairshare=-1x");
    check("[policy]\nenforce = [\"limits\"]", DUMP, "name it with --qos");
    check("[policy]\norder = \"sjf\"", DUMP, "order is 'sjf': use fcfs, fair-share, weights");
}
