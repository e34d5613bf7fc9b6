//! The command `cosy-sim calibrate` as users call it.
#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use std::fs::File;
use std::process::{Command, Output, Stdio};

const MODEL: [&str; 9] = [
    "calibrate",
    "--model",
    "cirne",
    "--jobs",
    "60",
    "--machine",
    "32",
    "--choices",
    "1",
];

fn calibrate(options: &[&str], out: Stdio) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cosy-sim"));
    let command = command.args(MODEL).args(options).stdout(out);
    command
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap()
}

fn check(output: &Output, words: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains(words), "{errors}");
    assert_eq!(output.status.code(), Some(1), "{errors}");
}

#[test]
fn rows_and_configuration() {
    let output = calibrate(&[], Stdio::piped());
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(told.starts_with("60 jobs on 32 nodes, policy easy"), "{told}");
    assert!(told.contains("[reservations]\n") && told.contains("notice = [[0, 1.0]"), "{told}");
}

/// As with `| head`: an error, not a panic.
#[test]
fn nobody_reads() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    check(&calibrate(&[], writer.into()), "cannot write to standard output");
    if let Ok(full) = File::options().write(true).open("/dev/full") {
        check(&calibrate(&[], full.into()), "No space left");
    }
}

#[test]
fn a_window_has_some_length() {
    let output = calibrate(&["--window", "0"], Stdio::piped());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("it must be longer than 0"), "{errors}");
    assert!(!output.status.success());
}
