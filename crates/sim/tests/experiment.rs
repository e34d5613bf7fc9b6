//! `cosy-sim experiment whatif` and `pricing`: options, files, errors; and the papers' logs
//! where they are (COSY_TRACES).

#![allow(clippy::unwrap_used)] // tests

use cosy_sim::booking::logs::{MOST_ROWS, month, sound};
use cosy_sim::swf::{Record, records};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cosy-sim"));
    command.arg("experiment").args(args).output().unwrap()
}

fn told(args: &[&str]) -> String {
    let output = run(args);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// A log with a job every ten minutes, from number 9 on, and its folder.
fn log(jobs: u64) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.swf");
    let row = |at: u64| {
        let (submit, run, limit) = (at * 600, 1 + at * 7919 % 7000, 7200);
        let processors = 1 + at * 31 % 60;
        format!(
            "{} {submit} -1 {run} {processors} -1 -1 {processors} {limit} -1 1 1 1 1 1 -1 -1 -1\n",
            at + 9
        )
    };
    std::fs::write(&path, (0..jobs).map(row).collect::<String>()).unwrap();
    (dir, path.to_str().unwrap().to_owned())
}

#[test]
fn whatif_writes_what_it_found() {
    let (dir, log) = log(60);
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (json, svg) = (at("all.json"), at("figure.svg"));
    let small = [
        "whatif",
        "--workload",
        &log,
        "--machine",
        "64",
        "--seeds",
        "1",
    ];
    let more = ["--json", &json, "--svg", &svg, "--jobs", "50"];
    let text = told(&[&small[..], &more[..]].concat());
    assert!(text.starts_with("50 jobs on 64 nodes"), "{text}");
    assert!(text.contains("What the paper says"), "{text}");
    let all: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(all["table"]["what_if"].as_array().unwrap().len(), 6);
    assert!(all["success"]["load"]["all"]["mean"].as_f64().unwrap() <= 1.0);
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.contains("book-ahead 24 h") && svg.ends_with("</svg>\n"));
    // The same again, but for what the log would not let be.
    let again = told(&[&small[..], &["--jobs", "50"]].concat());
    assert_eq!(again, text);
}

#[test]
fn pricing_writes_what_it_found() {
    let (dir, log) = log(60);
    let svg = dir.path().join("figures.svg").to_str().unwrap().to_owned();
    let args = ["pricing", "--sp2", &log, "--seeds", "1", "--jobs", "50"];
    let text = told(&[&args[..], &["--svg", &svg]].concat());
    // Two of the fifty rows are below number 11.
    assert!(text.starts_with("SP2: 50 jobs that ran, on 128 nodes"), "{text}");
    assert!(text.contains("SP2, 40 % more jobs"), "{text}");
    assert!(std::fs::read_to_string(svg).unwrap().contains("alpha"));
    let json = told(&[&args[..], &["--json", "-", "--exact"]].concat());
    let all: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(all["systems"][0]["name"], "SP2");
    // Whoever pays nothing is below the rate of a high priority queue.
    let early = &all["systems"][0]["loads"][0]["by_alpha"][0];
    assert!(early["free"]["mean"].as_f64() <= early["below_priority"]["mean"].as_f64());
}

#[test]
fn wrong_input_is_one_clear_line() {
    let (dir, log) = log(30);
    let empty = dir.path().join("empty.swf").to_str().unwrap().to_owned();
    std::fs::write(&empty, "; nothing\n").unwrap();
    let check = |args: &[&str], words: &str| {
        let output = run(args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{args:?}");
        assert!(error.contains(words), "{args:?}: {error}");
        assert!(output.stdout.is_empty(), "{args:?}");
    };
    check(&["pricing"], "no log: say --sp2 FILE, --ctc FILE, or both");
    check(&["whatif"], "--workload <FILE>");
    check(&["whatif", "--workload", "/no/such"], "/no/such: cannot be read");
    check(&["whatif", "--workload", &empty], "no jobs");
    let small = ["whatif", "--workload", &log, "--machine", "4"];
    check(&small, "had 32 processors, the machine has 4");
    check(&["pricing", "--sp2", &log, "--jobs", "0"], "--jobs");
    check(&["whatif", "--workload", &log, "--gap", "0s"], "--gap");
    check(&["pricing", "--ctc", &log, "--svg", &log], "would overwrite");
    check(&["pricing", "--ctc", &log, "--json", "/no/such/a"], "is no folder");
}

#[test]
fn help_has_examples() {
    for experiment in ["whatif", "pricing"] {
        let help = told(&[experiment, "--help"]);
        let example = format!("cosy-sim experiment {experiment} --");
        assert!(help.contains("Examples:") && help.contains(&example), "{help}");
    }
}

/// The first rows of a real log, if there is one.
fn real(name: &str) -> Option<(PathBuf, Vec<Record>)> {
    let folder = std::env::var_os("COSY_TRACES").map(PathBuf::from);
    let path = folder
        .map(|folder| folder.join(name))
        .filter(|path| path.is_file());
    let Some(path) = path else {
        cosy_skip::skip(&format!("COSY_TRACES names no folder with {name}"));
        return None;
    };
    let input = BufReader::new(File::open(&path).unwrap());
    let rows = records(name, input, MOST_ROWS).unwrap();
    Some((path, rows))
}

const BLUE: &str = "SDSC-BLUE-2000-4.2-cln.swf.gz";
const SP2: &str = "SDSC-SP2-1998-4.2-cln.swf.gz";
const CTC: &str = "CTC-SP2-1996-3.1-cln.swf.gz";

#[test]
fn blue_horizon_is_the_papers() {
    let Some((_, rows)) = real(BLUE) else { return };
    let jobs = sound(BLUE, &rows, 2000, (144, 8)).unwrap();
    assert_eq!(jobs.len(), 2000);
    // "The complete workload lasts about 12.5 days", and few jobs in the first 4.5.
    assert_eq!(jobs[1999].submit.secs(), 1_083_023);
    let early = jobs.iter().filter(|job| job.submit.secs() < 388_800);
    assert_eq!(early.count(), 4);
    // "Less than 10 jobs" of 89 and more.
    assert_eq!(jobs.iter().filter(|job| job.processors >= 89).count(), 8);
}

#[test]
fn the_months_are_the_papers() {
    let ratio = |jobs: &[cosy_sim::workload::Job]| {
        let part = |job: &cosy_sim::workload::Job| job.run.ms() as f64 / job.limit.ms() as f64;
        jobs.iter().map(part).sum::<f64>() / jobs.len() as f64
    };
    if let Some((_, rows)) = real(SP2) {
        let jobs = month(SP2, &rows, 11, 2888, 128).unwrap();
        assert_eq!(jobs.len(), 2732);
        // "33.9 % of the estimated run time".
        assert!((ratio(&jobs) - 0.339).abs() < 0.001, "{}", ratio(&jobs));
    }
    if let Some((_, rows)) = real(CTC) {
        let jobs = month(CTC, &rows, 4, 7588, 430).unwrap();
        assert_eq!(jobs.len(), 7588);
        assert!((ratio(&jobs) - 0.404).abs() < 0.006, "{}", ratio(&jobs));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn small_parts_of_the_papers_logs() {
    if let Some((path, _)) = real(BLUE) {
        let args = [
            "whatif",
            "--workload",
            text(&path),
            "--seeds",
            "1",
            "--jobs",
            "300",
        ];
        let json = told(&[&args[..], &["--json", "-"]].concat());
        let all: serde_json::Value = serde_json::from_str(&json).unwrap();
        let granted = |method: &str| all["success"][method]["all"]["mean"].as_f64().unwrap();
        assert!(granted("what_if") > granted("load"), "{}", all["success"]);
    }
    if let Some((path, _)) = real(SP2) {
        let args = [
            "pricing",
            "--sp2",
            text(&path),
            "--seeds",
            "1",
            "--jobs",
            "300",
        ];
        let json = told(&[&args[..], &["--json", "-"]].concat());
        let all: serde_json::Value = serde_json::from_str(&json).unwrap();
        let load = &all["systems"][0]["loads"][0]["by_alpha"];
        let wait = |at: usize| load[at]["wait_secs"]["mean"].as_f64().unwrap();
        assert!(wait(0) < wait(10), "{load}");
    }
}
