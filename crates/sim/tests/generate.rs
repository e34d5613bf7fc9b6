//! The command `cosy-sim generate`: what it writes reads as the workload that the model
//! draws, and what it refuses.
#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_sim::models::{cirne, lublin};
use cosy_sim::swf::{self, Strictness};
use cosy_sim::workload::Workload;
use std::process::{Command, Output, Stdio};

fn generate(options: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cosy-sim"));
    command.arg("generate").args(options.split_whitespace());
    command
}

fn output(options: &str) -> Output {
    generate(options).output().unwrap()
}

/// The workload that was written; models know no lines.
fn read(written: &Output) -> Workload {
    let mut read = swf::read("-", written.stdout.as_slice(), Strictness::Strict).unwrap();
    for job in &mut read.jobs {
        job.line = 0;
    }
    read
}

#[test]
fn logs_read_as_the_model_draws() {
    let written = output("--model cirne --nodes 50 --jobs 700 --seed 9 --arrival kth --load 1.5");
    let drawn = cirne::generate(&cirne::Settings {
        nodes: 50,
        jobs: 700,
        seed: 9,
        arrival: cirne::Arrival::Kth,
        load: 1.5,
        ..cirne::Settings::default()
    });
    assert!(drawn.jobs.iter().any(|job| job.cancel.is_some()));
    assert_eq!(read(&written), drawn);
    let written = output("--model lublin --nodes 64 --jobs 700 --seed 9");
    let drawn = lublin::generate(&lublin::Settings {
        nodes: 64,
        jobs: 700,
        seed: 9,
        ..lublin::Settings::default()
    });
    assert_eq!(read(&written), drawn);
}

/// The comments on top say what repeats the log.
#[test]
fn logs_tell_how_they_were_made() {
    for options in [
        "--model cirne --nodes 32 --jobs 10 --seed 3 --arrival ctc --load 0.5",
        "--model lublin --nodes 32 --jobs 10 --seed 3 --kind typeless --load 2",
    ] {
        let text = String::from_utf8(output(options).stdout).unwrap();
        assert!(text.contains(&format!("; Note: {options}\n")), "{text}");
        assert!(text.contains("; Acknowledge: "), "{text}");
        assert!(text.contains("; MaxProcs: 32\n"), "{text}");
    }
}

/// What it says when it refuses `options`.
fn check(options: &str, words: &str) {
    let output = output(options);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains(words), "{options}: {error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn refused_options() {
    check("--nodes 4", "--model <MODEL>");
    check("--model cirne", "--nodes <N>");
    check("--model other --nodes 4", "possible values: cirne, lublin");
    check("--model cirne --nodes 0", "invalid value '0'");
    check("--model cirne --nodes 4 --jobs 0", "invalid value '0'");
    check("--model cirne --nodes 4 --jobs 50000001", "1..=50000000");
    check("--model cirne --nodes 4 --seed -1", "-1");
    check("--model cirne --nodes 4 --arrival ANL", "anl, ctc, kth, sdsc");
    check("--model cirne --nodes 4 --load inf", "from 0.01 to 100");
    check("--model cirne --nodes 4 --kind batch", "say --model lublin");
    check("--model lublin --nodes 4 --arrival anl", "say --model cirne");
}

/// That nobody reads on is no error.
#[test]
fn closed_pipe() {
    let mut command = generate("--model lublin --nodes 4 --jobs 20000");
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
