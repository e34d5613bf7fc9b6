//! Open MPI programs launched directly, over node daemons that are real ones: their tasks
//! find each other through PMIx.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_tests::run::{finish, spawn};
use cosy_tests::{Cluster, Options, Output, run, system, wait};
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Four nodes and the program with all classics; `None`: skipped.
fn start() -> Option<Cluster> {
    start_with("mpicc.openmpi")
}

fn start_with(compiler: &str) -> Option<Cluster> {
    let c = Cluster::start(4, Options::default());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../noded/tests/pmix/classic.c");
    let built = Command::new(compiler)
        .arg("-o")
        .arg(program(&c))
        .arg(source)
        .status();
    match built {
        Ok(status) => {
            assert!(status.success(), "classic.c cannot be compiled");
            Some(c)
        }
        Err(_) => {
            system::not_installed(&format!("there is no {compiler} to build programs with"));
            None
        }
    }
}

fn program(c: &Cluster) -> PathBuf {
    c.work().join("classic")
}

fn launch(c: &Cluster, options: &[&str], mode: &str) -> Command {
    let program = program(c);
    let first = ["cosy", "run", "--mpi", "pmix"];
    let last = [program.to_str().unwrap(), mode];
    let mut command = c.command(&[&first[..], options, &last].concat());
    // All nodes are on this host: nothing but the loopback joins them.
    command.env("OMPI_MCA_btl_tcp_if_include", "lo");
    command
}

fn go(c: &Cluster, options: &[&str], mode: &str) -> Output {
    run::run(&mut launch(c, options, mode))
}

#[test]
fn classics() {
    let Some(c) = start() else { return };
    let check = |options: &[&str], mode: &str, expected: &str| {
        let output = go(&c, options, mode).expect(0);
        assert_eq!(output.out, expected, "{options:?} {mode}: {}", output.err);
    };
    check(&["-N", "1", "-n", "2"], "ring", "ring 1\n");
    check(&["-N", "4", "-n", "8"], "ring", "ring 28\n");
    check(&["-N", "2", "-n", "2"], "pi", "pi 3.141593\n");
    check(&["-N", "4", "-n", "8"], "pi", "pi 3.141593\n");
    check(&["-N", "4", "-n", "8"], "alltoall", "alltoall 0 wrong\n");
    let cyclic = ["-N", "4", "-n", "8", "--distribution", "cyclic"];
    check(&cyclic, "alltoall", "alltoall 0 wrong\n");
    c.until_no_job_processes();
}

#[test]
fn failures() {
    let Some(c) = start() else { return };
    let check = |mode: &str, told: &str| {
        let output = go(&c, &["-N", "4", "-n", "8"], mode);
        assert_ne!(output.code, 0, "{mode}: {output:?}");
        assert!(output.err.contains(told), "{mode}: {output:?}");
        c.until_no_job_processes();
        output.code
    };
    assert_eq!(check("abort", "task 7"), 7);
    check("fail", "n4: task 7: exit code 3");
    check("leave", "it ended without MPI_Finalize");
}

/// The same over PMI: the others would wait for ever.
#[test]
fn leaving_early_over_pmi() {
    let Some(c) = start_with("mpicc.mpich") else {
        return;
    };
    let program = program(&c);
    let words = ["cosy", "run", "--mpi", "pmi", "-N", "2", "-n", "2"];
    let output = c.run(&[&words[..], &[program.to_str().unwrap(), "leave"]].concat());
    assert_ne!(output.code, 0, "{output:?}");
    assert!(output.err.contains("it ended without MPI_Finalize"), "{output:?}");
    c.until_no_job_processes();
}

#[test]
fn nothing_is_left_behind() {
    let Some(c) = start() else { return };
    let output = go(&c, &["-N", "4", "-n", "4"], "directory").expect(0);
    let directories: Vec<&str> = output.out.lines().collect();
    assert_eq!(directories.len(), 4, "{}", output.out);
    for directory in directories {
        assert!(directory.starts_with('/'), "{directory}");
        assert!(!Path::new(directory).exists(), "{directory}");
    }
}

#[test]
fn without_the_library() {
    let Some(c) = start() else { return };
    let mut command = launch(&c, &["-N", "2", "-n", "2"], "ring");
    let output = run::run(command.env("COSY_PMIX_LIBRARY", "/nowhere/libpmix.so.2"));
    assert_ne!(output.code, 0);
    for part in ["PMIx is not installed on n", "/nowhere/libpmix.so.2: "] {
        assert!(output.err.contains(part), "{}", output.err);
    }
    c.until_no_job_processes();
}

#[test]
fn a_killed_helper_ends_the_step() {
    let Some(c) = start() else { return };
    let child = spawn(&mut launch(&c, &["-N", "2", "-n", "2"], "stay"));
    let ready = wait::until("all tasks are there", || {
        let found = c.job_processes();
        let tasks = found.iter().filter(|p| p.name == "classic");
        (tasks.count() == 2).then_some(found)
    });
    let helper = ready.iter().find(|p| p.name == "cosy-pmix").unwrap();
    helper.kill(Signal::SIGKILL);
    let output = finish(child, b"", run::TIMEOUT);
    assert_ne!(output.code, 0, "{output:?}");
    assert!(output.err.contains("PMIx helper"), "{output:?}");
    c.until_no_job_processes();
}
