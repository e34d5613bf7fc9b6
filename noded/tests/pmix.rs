//! The PMIx helper with real Open MPI programs: on one node, on several nodes (several
//! helpers whose exchanges are carried here), and its failures.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

#[path = "pmix/step.rs"]
mod step;

use noded::pmix::PmixAct;
use noded::sys;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use step::{DEADLINE, Kind, Step, node_that, node_with, plan, wait_for_end};

fn check_output(plan: step::Plan, mode: &str, expected: &str) {
    check_program(Kind::Classic, plan, mode, expected);
}

fn check_program(kind: Kind, plan: step::Plan, mode: &str, expected: &str) {
    let Some(mut step) = Step::start_program(kind, plan, mode) else {
        return;
    };
    let codes = step.codes();
    assert!(step.acts.is_empty(), "{:?}", step.acts);
    assert_eq!(step.output(), expected, "{}", step.errors());
    assert!(codes.iter().all(|c| *c == 0), "{codes:?} {}", step.errors());
    assert_eq!(step.rounds > 0, step.plan.nodes > 1);
    for node in &mut step.nodes {
        assert!(node.helper.advance().is_empty());
        let mut ranks = 0..step.plan.nodes * step.plan.each;
        assert!(!ranks.any(|r| node.helper.is_unfinished(r)));
    }
    step.finish();
}

#[test]
fn classics_on_one_node() {
    check_output(plan(1, 2), "ring", "ring 1\n");
    check_output(plan(1, 4), "pi", "pi 3.141593\n");
    check_output(plan(1, 8), "alltoall", "alltoall 0 wrong\n");
}

#[test]
fn classics_on_several_nodes() {
    check_output(plan(2, 1), "ring", "ring 1\n");
    check_output(plan(2, 4), "pi", "pi 3.141593\n");
    check_output(plan(4, 2), "alltoall", "alltoall 0 wrong\n");
}

#[test]
fn python_programs() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pmix/hello.py");
    let expected = "mpi4py 6 of 4, Open MPI\n";
    check_program(Kind::Python, plan(1, 4), script, expected);
    check_program(Kind::Python, plan(2, 2), script, expected);
}

#[test]
fn places_and_programs() {
    let mut two = plan(2, 2);
    two.programs = vec![vec![(0, 0)], vec![(1, 3)]];
    let expected = "rank 0 of 4, app 0, 2 here\nrank 1 of 4, app 1, 2 here\n\
        rank 2 of 4, app 1, 2 here\nrank 3 of 4, app 1, 2 here\n";
    check_output(two, "where", expected);
}

/// Tasks of a step that has to end are killed, as its supervisor does.
fn kill_tasks(step: &mut Step) {
    for task in &mut step.tasks {
        let _ = task.child.kill();
    }
    let _ = step.codes();
}

#[test]
fn helpers_act_as_the_user() {
    const NOBODY: u32 = 65534;
    if sys::own_uid().0 != 0 {
        println!("skipped: only root can act as somebody else");
        return;
    }
    let mut plan = plan(1, 2);
    plan.uid = Some(NOBODY);
    let Some(mut step) = Step::start(plan, "ring") else {
        return;
    };
    let status = fs::read_to_string(format!("/proc/{}/status", step.nodes[0].helper.pid()));
    let status = status.unwrap();
    for expected in [
        format!("Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}\n"),
        format!("Gid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}\n"),
        format!("Groups:\t{NOBODY} \n"),
    ] {
        assert!(status.contains(&expected), "{expected}{status}");
    }
    assert_eq!(step.codes(), [0, 0], "{}", step.errors());
    assert_eq!(step.output(), "ring 1\n");
    step.finish();
}

#[test]
fn a_helper_that_is_stopped_before_its_exec_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let stop = || nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP);
    let program = PathBuf::from(env!("CARGO_BIN_EXE_noded"));
    let mut node = node_that(&program, &plan(1, 1), 0, folder.path(), stop);
    let late = node.helper.until_ready(Duration::from_millis(50));
    assert_eq!(late.unwrap_err(), "the PMIx helper is not ready after 50ms");
    sys::kill(node.helper.pid(), nix::libc::SIGKILL).unwrap();
    wait_for_end(&node.ended);
    nix::sys::wait::waitpid(node.helper.pid(), None).unwrap();
}

#[test]
fn abort_by_one_task() {
    for nodes in [1, 2] {
        let Some(mut step) = Step::start(plan(nodes, 2), "abort") else {
            return;
        };
        let last = nodes * 2 - 1;
        step.until(|_, acts, _| {
            acts.iter().any(|act| match act {
                PmixAct::Abort { rank, code, .. } => {
                    assert_eq!((*rank, *code), (last, 7), "{act:?}");
                    true
                }
                other => panic!("{other:?}"),
            })
        });
        kill_tasks(&mut step);
        step.finish();
    }
}

#[test]
fn who_has_not_taken_leave() {
    let Some(mut step) = Step::start(plan(1, 2), "leave") else {
        return;
    };
    // Rank 1 ends without MPI_Finalize, rank 0 waits for it.
    step.until(|step, acts, _| {
        assert!(acts.is_empty(), "{acts:?}");
        step.tasks.iter().any(|t| t.code.is_some())
    });
    assert!(step.nodes[0].helper.advance().is_empty());
    let codes: Vec<_> = step.tasks.iter().map(|t| (t.rank, t.code)).collect();
    assert_eq!(codes, [(0, None), (1, Some(0))]);
    assert!(step.nodes[0].helper.is_unfinished(1));
    kill_tasks(&mut step);
    step.finish();
}

/// Waits until every task has said that it is there.
fn until_up(step: &mut Step) {
    let ranks = 0..step.plan.nodes * step.plan.each;
    let expected: String = ranks.map(|r| format!("up {r}\n")).collect();
    let deadline = Instant::now() + DEADLINE;
    while step.output() != expected {
        assert!(Instant::now() < deadline, "{}{}", step.output(), step.errors());
        let soon = Instant::now() + Duration::from_millis(20);
        let mut rest = Vec::new();
        step.wait(soon);
        for n in 0..step.nodes.len() {
            let got = step.nodes[n].helper.advance();
            step.carry(n as u32, got, &mut rest);
        }
        assert!(rest.is_empty(), "{rest:?}");
    }
}

#[test]
fn a_killed_helper_is_told_and_swept() {
    let Some(mut step) = Step::start(plan(2, 2), "stay") else {
        return;
    };
    until_up(&mut step);
    sys::kill(step.nodes[1].helper.pid(), 9).unwrap();
    let mut all = Vec::new();
    step.until(|_, acts, gone| {
        all.extend(acts);
        gone == [1] && !all.is_empty()
    });
    let ended = PmixAct::Failed("the PMIx helper has ended".to_owned());
    assert_eq!(all, [ended]);
    kill_tasks(&mut step);
    let node = &mut step.nodes[1];
    assert!(node.directory.exists(), "nobody has removed it yet");
    node.helper.sweep(|| Ok(()));
    assert!(!node.directory.exists());
    step.finish();
}

#[test]
fn killed_tasks_leave_nothing() {
    let Some(mut step) = Step::start(plan(1, 4), "stay") else {
        return;
    };
    until_up(&mut step);
    let common = fs::read_dir(&step.nodes[0].directory).unwrap();
    let common: Vec<PathBuf> = common.map(|e| e.unwrap().path()).collect();
    let shared = |path: &&PathBuf| path.to_string_lossy().contains("vader_segment");
    assert_eq!(common.iter().filter(shared).count(), 4, "{common:?}");
    kill_tasks(&mut step);
    step.finish();
}

#[test]
fn without_the_library() {
    let check = |library: &'static str, expected: &[&str]| {
        let mut plan = plan(2, 1);
        plan.library = library;
        let Some(mut step) = Step::start(plan, "ring") else {
            return;
        };
        let Some(PmixAct::Failed(reason)) = step.acts.pop() else {
            panic!("{:?}", step.acts);
        };
        for part in expected {
            assert!(reason.contains(part), "'{reason}' lacks '{part}'");
        }
        assert!(step.tasks.is_empty());
        step.finish();
    };
    let path = "/nowhere/libpmix.so.2";
    check(
        path,
        &[
            "PMIx is not installed on n",
            path,
            "No such file or directory",
        ],
    );
    check("libc.so.6", &["PMIx is not installed on n", "PMIx_Get_version"]);
}

#[test]
fn what_clients_are_told() {
    let Some(mut step) = Step::start_program(Kind::Client, plan(3, 2), "") else {
        return;
    };
    let codes = step.codes();
    let expected: String = (0..6).map(client_output).collect();
    assert_eq!(step.output(), expected, "{}", step.errors());
    assert_eq!(codes, [0; 6]);
    assert_eq!(step.rounds, 2);
    step.finish();
}

fn client_output(rank: u32) -> String {
    let first = rank / 2 * 2;
    let some = match rank {
        // Exchanges between some nodes only are not done, and that is said at once.
        1 | 2 => "\n some -47",
        _ => "",
    };
    format!(
        "{rank}: size=6 universe=6 nodes=3 peers={first},{} here=2\n \
         0: host=n1 local=0 app=0\n \
         3: host=n2 local=1 app=0\n \
         n1: peers=0,1 here=2\n \
         n3: peers=4,5 here=2\n \
         fence 0 word=w0 word=w1 word=w2 word=w3 word=w4 word=w5\n \
         fence 0 more=m{}\n \
         here 0{some}\n \
         publish -47\n \
         unknown?-46\n",
        first + 1,
        5 - rank
    )
}

/// What is said of a helper that does what this shell script does; its connection is
/// descriptor `$2`.
fn check_script(script: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("helper");
    fs::write(&program, format!("#!/bin/bash\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let mut node = node_with(&program, &plan(1, 1), 0, folder.path());
    let reason = node.helper.until_ready(DEADLINE).unwrap_err();
    assert!(reason.contains(expected), "{script}: {reason}");
    assert!(node.helper.advance().is_empty());
    wait_for_end(&node.ended);
    let _ = nix::sys::wait::waitpid(node.helper.pid(), None);
}

#[test]
fn helpers_that_are_none() {
    check_script("exit 3", "the PMIx helper has ended");
    check_script("head -c 20 <&$2 >/dev/null", "the PMIx helper has ended");
    check_script("printf '\\377\\377\\377\\377' >&$2", "talks nonsense");
    check_script("printf '\\003\\000\\000\\000abc' >&$2", "talks nonsense");
    check_script("printf '\\003\\000\\000\\000a' >&$2", "has ended");
}
