//! Real jobs under a real noded: start, end, limits, strays, identity, bad input.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use cosy_model::node::*;
use cosy_model::{EndCause, OsText};
use std::os::unix::fs::MetadataExt;

#[test]
fn a_script_runs_and_its_exit_code_comes_back() {
    let mut bench = Bench::started();
    let job = bench
        .job(7, "echo \"$1 $X $COSY_JOB_ID $COSY_NODENAME\"; umask; cat; echo err >&2; exit 3");
    let end = bench.run(job);
    assert_eq!((end.cause, end.exit_code, end.signal), (EndCause::Exited, 3, 0));
    assert!(end.start.is_some() && end.peak_memory_bytes > 0);
    let want = format!("one 1 7 {}\n0027\nerr\n", bench.name);
    assert_eq!(bench.output(7), want);
    let mode = std::fs::metadata(bench.path("out.7")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn no_op_jobs_in_numbers() {
    let mut bench = Bench::started();
    let n = std::env::var("NODED_BENCH")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(50);
    let jobs: Vec<Launch> = (1..=n)
        .map(|j| {
            let mut job = bench.raw_job(j, b"#!/bin/sh\n");
            job.stdout = OsText::from("/dev/null");
            job
        })
        .collect();
    let begun = std::time::Instant::now();
    for job in &jobs {
        bench.launch(job);
    }
    for job in &jobs {
        let end = bench.ended(job.allocation.key.number());
        assert_eq!((end.cause, end.exit_code), (EndCause::Exited, 0));
    }
    eprintln!("{n} jobs in {:?}", begun.elapsed());
    for job in &jobs {
        bench.forget(job.allocation.key);
    }
}

/// Runs a job that cannot start and compares the reason.
fn fails(bench: &mut Bench, launch: Launch, want: &str) {
    let end = bench.run(launch);
    assert_eq!(end.cause, EndCause::LaunchFailed(want.to_owned()));
    assert_eq!(end.start, None);
}

#[test]
fn what_is_wrong_is_said() {
    let mut bench = Bench::started();
    let no_interpreter =
        "cannot execute the script job.sh: its first line is no '#!' with an interpreter";
    for (n, text) in [&b"echo hello\n"[..], b"\x7fELF\x01\0\0garbage\xff\xfe", b""]
        .into_iter()
        .enumerate()
    {
        let job = bench.raw_job(1 + n as u64, text);
        fails(&mut bench, job, no_interpreter);
    }
    let job = bench.raw_job(10, b"#!/nosuch/sh -x\n");
    fails(
        &mut bench,
        job,
        "cannot execute /nosuch/sh, the interpreter of job.sh: No such file or directory",
    );
    let mut job = bench.job(11, "true");
    job.stdout = "nosuch/out".into();
    fails(&mut bench, job, "cannot open the output file nosuch/out: No such file or directory");
    let mut job = bench.job(12, "true");
    job.stderr = "/nosuch/err".into();
    fails(&mut bench, job, "cannot open the error file /nosuch/err: No such file or directory");
    let mut job = bench.job(13, "true");
    job.stdin = "nosuch".into();
    fails(&mut bench, job, "cannot open the input file nosuch: No such file or directory");
    let mut job = bench.job(14, "true");
    job.workdir = "/nosuch".into();
    fails(&mut bench, job, "cannot enter the working directory /nosuch: No such file or directory");
    let job = bench.command(15, &["no-such-program", "x"]);
    fails(&mut bench, job, "cannot execute no-such-program: No such file or directory");
    let job = bench.command(16, &["/etc/passwd"]);
    fails(&mut bench, job, "cannot execute /etc/passwd: Permission denied");
    let job = bench.command(17, &[]);
    fails(&mut bench, job, "the job names no program");
    let job = bench.command(18, &["echo", "a\0b"]);
    fails(&mut bench, job, r"'a\0b' has a NUL byte inside");
}
