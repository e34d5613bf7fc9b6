//! Where `cosy-sim run` takes its workload from: files and standard input, packed or not,
//! of either format whatever they are called.
#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

const SWF: &str = "; MaxProcs: 4\n\
    1 0 -1 60 2 -1 -1 2 60 -1 1 1 1 -1 1 -1 -1 -1\n\
    2 5 -1 60 2 -1 -1 2 60 -1 1 1 1 -1 1 -1 -1 -1\n";

const SACCT: &str = "JobID|Submit|Start|End|NCPUS|Timelimit|State\n\
    1|2026-01-05T10:00:00|2026-01-05T10:00:00|2026-01-05T10:01:00|2|1:00|COMPLETED\n\
    1.batch|2026-01-05T10:00:00|2026-01-05T10:00:00|2026-01-05T10:01:00|2||COMPLETED\n\
    2|2026-01-05T10:00:05|2026-01-05T10:00:05|2026-01-05T10:01:05|2|1:00|COMPLETED\n";

fn packed(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

/// `cosy-sim run` with `options` and the file at `input` as its standard input.
fn run(options: &[&str], input: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cosy-sim"));
    command
        .args(["run", "--machine", "4", "--json", "-"])
        .args(options);
    if let Some(path) = input {
        command.stdin(File::open(path).unwrap());
    }
    command.output().unwrap()
}

/// Two jobs of a minute, five seconds apart, from `content` as a file and on standard input.
fn check(content: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.dat");
    std::fs::write(&path, content).unwrap();
    for output in [
        run(&["--workload", path.to_str().unwrap()], None),
        run(&["--workload", "-"], Some(&path)),
    ] {
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(figures["jobs"], 2);
        assert_eq!(figures["makespan"], 65.0);
    }
}

#[test]
fn formats_are_known_by_their_content() {
    check(SWF.as_bytes());
    check(&packed(SWF));
    check(SACCT.as_bytes());
    check(&packed(SACCT));
}

fn check_refused(options: &[&str], words: &str) {
    let output = run(options, None);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains(words), "{options:?}: {told}");
    assert!(output.stdout.is_empty(), "{options:?}");
}

#[test]
fn refused_options() {
    check_refused(&[], "no workload: say --workload FILE");
    check_refused(&["--workload", "x", "--model", "cirne"], "cannot be used with");
    check_refused(&["--workload", "x", "--jobs", "5"], "cannot be used with");
    check_refused(&["--model", "lublin", "--arrival", "anl"], "say --model cirne");
    check_refused(&["--workload", "/nowhere/x.swf"], "/nowhere/x.swf: cannot be read: ");
}

/// A packed log that ends within its first line, and one that is no gzip after all.
#[test]
fn damaged_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let whole = packed(SWF);
    for damaged in [&whole[..12], b"\x1f\x8bnothing", &whole[..whole.len() - 4]] {
        std::fs::write(&path, damaged).unwrap();
        let name = path.to_str().unwrap();
        check_refused(&["--workload", name], "cut off or damaged");
    }
    std::fs::write(&path, &whole[..whole.len() - 4]).unwrap();
    let output = run(&["--lenient", "--workload", path.to_str().unwrap()], None);
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures["jobs"], 2);
    assert_eq!(figures["dropped"][0]["rows"], 1);
}
