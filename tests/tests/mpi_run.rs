//! MPI programs started by their own mpirun inside a job, over four nodes: where their
//! processes are, and that nothing of them is left, however the job ends.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState, Span};
use cosy_tests::mpi::{Mpi, python_or_skip};
use cosy_tests::mpi_jobs::{
    Innocent, options, options_with_losses, plugin_folder, plugin_line, ranks_by_node, read, story,
    submit, until_gone, until_nothing_is_left,
};
use cosy_tests::run::run;
use cosy_tests::{Cluster, Options, namespaces, people, system, wait};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

fn classic(c: &Cluster, mpi: Mpi, folder: &Path) {
    for (nodes, tasks) in [(2, 2), (4, 8)] {
        let launcher = mpi.launcher();
        let text = format!(
            "for p in hello ring pi alltoall; do {launcher} {}/$p || exit; done",
            folder.display()
        );
        let job = submit(c, nodes, tasks, &text, Span::from_minutes(5));
        let row = c.until_end(job);
        assert_eq!(row.outcome(), (JobState::Completed, 0), "{}", story(c));
        let out = read(c, "out");
        let by_node = ranks_by_node(&out);
        assert_eq!(by_node.len(), nodes as usize, "{out}");
        assert!(by_node.values().all(|n| *n == tasks / nodes), "{out}");
        for line in [
            format!("ring of {tasks}: token {}", 3 * tasks),
            format!("pi by {tasks}: 3.141593"),
            format!("all to all of {tasks}: 0 wrong"),
        ] {
            assert!(out.lines().any(|l| l == line), "'{line}' is not in\n{out}");
        }
    }
    c.until_no_job_processes();
}

fn classic_on_loopback(mpi: Mpi) {
    let Some(folder) = mpi.programs_or_skip() else {
        return;
    };
    let c = Cluster::start(4, options());
    classic(&c, mpi, &folder);
    python(&c, mpi, &folder);
}

fn python(c: &Cluster, mpi: Mpi, folder: &Path) {
    let Some(python) = python_or_skip() else {
        return;
    };
    let mut text = String::new();
    for (name, value) in mpi.python_variables(folder) {
        text.push_str(&format!("export {name}={value}\n"));
    }
    let program = folder.join("ring.py");
    text.push_str(&format!("exec {} {} {}", mpi.launcher(), python.display(), program.display()));
    let job = submit(c, 4, 8, &text, Span::from_minutes(5));
    let row = c.until_end(job);
    assert_eq!(row.outcome(), (JobState::Completed, 0), "{}", story(c));
    assert_eq!(read(c, "out"), "python ring of 8: token 24\n");
}

#[test]
fn classic_programs_with_openmpi() {
    classic_on_loopback(Mpi::OpenMpi);
}

#[test]
fn classic_programs_with_mpich() {
    classic_on_loopback(Mpi::Mpich);
}

fn classic_in_namespaces(mpi: Mpi) {
    let Some(folder) = mpi.programs_or_skip() else {
        return;
    };
    if !namespaces::enter_or_skip(4) {
        return;
    }
    let mut c = Cluster::prepare(
        4,
        Options {
            host: namespaces::HERE,
            noded: |n| {
                let address = namespaces::address(n);
                format!("listen = \"{address}:0\"\ncgroup = \"none\"\n{}", plugin_line())
            },
            ..options()
        },
    );
    for at in 0..4 {
        c.nodes[at].before = namespaces::before(at + 1);
    }
    let c = c.start_prepared();
    classic(&c, mpi, &folder);
    // Here a node is what its host says it is.
    for line in read(&c, "out").lines().filter(|l| l.starts_with("rank ")) {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[5], words[7], "{line}");
    }
}

#[test]
fn classic_programs_with_openmpi_in_namespaces() {
    classic_in_namespaces(Mpi::OpenMpi);
}

#[test]
fn classic_programs_with_mpich_in_namespaces() {
    classic_in_namespaces(Mpi::Mpich);
}

/// With daemons of root and a job of somebody else, as in production.
fn of_an_ordinary_user(mpi: Mpi) {
    let Some(folder) = mpi.programs_or_skip() else {
        return;
    };
    if !system::root_or_skip() {
        return;
    }
    let c = people::start(4, options());
    let hello = c.work().join("hello");
    fs::copy(folder.join("hello"), &hello).unwrap();
    let ours = [folder.join("hello"), plugin_folder().join("cosy-rsh")];
    for file in ours.iter().map(|f| f.to_str().unwrap()) {
        let mut look = Command::new("test");
        look.args(["-x", file]).uid(people::ANN).gid(people::GROUP);
        if run(&mut look).code != 0 {
            return system::skip(&format!("other users cannot reach {file}"));
        }
    }
    let words = [
        "csub",
        "--wait",
        "--quiet",
        "-N",
        "4",
        "-n",
        "8",
        "--tasks-per-node",
        "2",
    ];
    let more = [
        "-o",
        "out",
        "-e",
        "err",
        "--",
        mpi.launcher(),
        hello.to_str().unwrap(),
    ];
    let ann = c.run_as(people::ANN, &[&words[..], &more].concat());
    assert_eq!(ann.code, 0, "{ann:?}\n{}", story(&c));
    let by_node = ranks_by_node(&read(&c, "out"));
    assert_eq!(by_node.len(), 4, "{by_node:?}");
    assert!(by_node.values().all(|n| *n == 2), "{by_node:?}");
    until_nothing_is_left(&c, &[]);
}

#[test]
fn of_an_ordinary_user_with_openmpi() {
    of_an_ordinary_user(Mpi::OpenMpi);
}

#[test]
fn of_an_ordinary_user_with_mpich() {
    of_an_ordinary_user(Mpi::Mpich);
}

/// One rank of eight ends badly: mpirun ends the others, and the job with it.
fn a_bad_rank(mpi: Mpi, program: &str, code: Option<i64>) {
    let Some(folder) = mpi.programs_or_skip() else {
        return;
    };
    let c = Cluster::start(4, options());
    let text = format!("exec {} {}/{program}", mpi.launcher(), folder.display());
    let job = submit(&c, 4, 8, &text, Span::from_minutes(5));
    let row = c.until_end(job);
    assert_eq!(row.state, JobState::Failed, "{}", story(&c));
    assert!(code.is_none() || row.exit_code == code, "{row:?}\n{}", story(&c));
    assert!(!read(&c, "out").contains("went on"), "{}", story(&c));
    c.until_no_job_processes();
}

#[test]
fn one_rank_exits_with_openmpi() {
    a_bad_rank(Mpi::OpenMpi, "exit3", Some(3));
}

#[test]
fn one_rank_is_killed_with_openmpi() {
    a_bad_rank(Mpi::OpenMpi, "killed", Some(128 + 9));
}

/// Killed, not exited: Hydra 4.0 does not notice a rank on another node that exits
/// without MPI_Finalize, whoever started it. Which exit code it gives is a matter of chance.
#[test]
fn one_rank_is_killed_with_mpich() {
    a_bad_rank(Mpi::Mpich, "killed", None);
}

#[test]
fn one_rank_aborts_with_openmpi() {
    a_bad_rank(Mpi::OpenMpi, "abort", Some(5));
}

#[test]
fn one_rank_aborts_with_mpich() {
    a_bad_rank(Mpi::Mpich, "abort", Some(5));
}

/// Eight ranks over four nodes that wait for ever; the job, and their processes.
fn waiting(c: &Cluster, mpi: Mpi, folder: &Path, limit: Span) -> (JobId, Vec<i32>) {
    let text = format!("exec {} {}/waits", mpi.launcher(), folder.display());
    let job = submit(c, 4, 8, &text, limit);
    let up = |rank: u32| {
        wait::until(&format!("rank {rank} is up"), || {
            fs::read_to_string(c.work().join(format!("up.{rank}"))).ok()
        })
    };
    let pids = (0..8).map(|r| up(r).trim().parse().unwrap()).collect();
    (job, pids)
}

fn cancelled_and_timed_out(mpi: Mpi) {
    let Some(folder) = mpi.programs_or_skip() else {
        return;
    };
    let c = Cluster::start(4, options());
    let (job, pids) = waiting(&c, mpi, &folder, Span::from_minutes(5));
    c.cancel(job);
    assert_eq!(c.until_end(job).state, JobState::Cancelled, "{}", story(&c));
    until_nothing_is_left(&c, &pids);
    for rank in 0..8 {
        fs::remove_file(c.work().join(format!("up.{rank}"))).unwrap();
    }
    let (job, pids) = waiting(&c, mpi, &folder, Span::from_secs(12));
    let row = c.until_end(job);
    assert_eq!(row.state, JobState::TimedOut, "{row:?}\n{}", story(&c));
    until_nothing_is_left(&c, &pids);
}

#[test]
fn cancelled_and_timed_out_with_openmpi() {
    cancelled_and_timed_out(Mpi::OpenMpi);
}

#[test]
fn cancelled_and_timed_out_with_mpich() {
    cancelled_and_timed_out(Mpi::Mpich);
}

/// All of n3 dies: its daemon, its supervisors, its tasks. The others' tasks end too.
fn a_lost_node(mpi: Mpi) {
    let Some(folder) = mpi.programs_or_skip() else {
        return;
    };
    let mut c = Cluster::start(4, options_with_losses());
    let (job, pids) = waiting(&c, mpi, &folder, Span::from_minutes(5));
    c.lose_node(2);
    let row = c.until_end(job);
    let ends = [JobState::Failed, JobState::NodeFailed];
    assert!(ends.contains(&row.state), "{row:?}\n{}", story(&c));
    c.until_no_job_processes();
    until_gone(&pids);
}

#[test]
fn a_lost_node_with_openmpi() {
    a_lost_node(Mpi::OpenMpi);
}

#[test]
fn a_lost_node_with_mpich() {
    a_lost_node(Mpi::Mpich);
}

fn implicit(mpi: Mpi) {
    let Some(folder) = mpi.programs_or_skip() else {
        return;
    };
    let c = Cluster::start(4, options());
    let user = Innocent {
        cluster: &c,
        folder: &folder,
        mpi,
    };
    let four = user.run(&["-n", "4", "./ring"]);
    assert_eq!(four.expect(0).out, "ring of 4: token 12\n");
    let on_each = match mpi {
        Mpi::OpenMpi => "-N",
        Mpi::Mpich => "-ppn",
    };
    let spread = user.run(&["-np", "8", on_each, "2", "./hello"]);
    assert_eq!(spread.code, 0, "{spread:?}");
    assert_eq!(ranks_by_node(&spread.out).values().sum::<u32>(), 8, "{spread:?}");
    assert_eq!(ranks_by_node(&spread.out).len(), 4, "{spread:?}");
    user.run(&["-n", "4", "./abort"]).expect(5);
    c.until_no_job_processes();
}

#[test]
fn implicit_scheduling_with_openmpi() {
    implicit(Mpi::OpenMpi);
}

#[test]
fn implicit_scheduling_with_mpich() {
    implicit(Mpi::Mpich);
}
