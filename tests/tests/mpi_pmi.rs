//! Parallel programs that find each other by PMI, on four real node daemons: Debian's
//! MPICH (PMI-1) and a client of PMI-2; how they end when they do not end well.
//!
//! Programs are compiled from `tests/mpi`; without a compiler for them a test says so.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_tests::{Cluster, Options, Output, run, script, system};
use std::path::Path;
use std::process::Command;

/// Four nodes with such a program in the work folder; `None` without its compiler.
fn cluster_with(compiler: &str, name: &str) -> Option<Cluster> {
    let Ok(found) = Command::new(compiler).arg("--version").output() else {
        system::not_installed(&format!("no {compiler}"));
        return None;
    };
    assert!(found.status.success());
    let cluster = Cluster::start(4, Options::default());
    compile(&cluster, compiler, name);
    Some(cluster)
}

fn compile(cluster: &Cluster, compiler: &str, name: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("mpi")
        .join(format!("{name}.c"));
    let mut command = Command::new(compiler);
    command.arg("-o").arg(cluster.work().join(name)).arg(source);
    run::run(&mut command).expect(0);
}

fn mpich() -> Option<Cluster> {
    cluster_with("mpicc.mpich", "collectives")
}

/// Every rank says once that all was good.
#[track_caller]
fn all_good(output: &Output, tasks: usize) {
    for rank in 0..tasks {
        let line = format!("rank {rank} of {tasks}");
        let said = output
            .out
            .lines()
            .filter(|l| l.starts_with(&line) && l.ends_with(": good"));
        assert_eq!(said.count(), 1, "{line}: {output:?}");
    }
    assert_eq!(output.out.lines().count(), tasks, "{output:?}");
}

/// Eight ranks of `collectives` over four nodes that do what `words` say.
#[track_caller]
fn collectives(c: &Cluster, words: &[&str]) -> Output {
    let run = ["cosy", "run", "--mpi", "pmi", "-N4", "-n8", "./collectives"];
    c.run(&[&run[..], words].concat())
}

#[test]
fn mpich_runs_over_four_nodes() {
    let Some(c) = mpich() else { return };
    let layouts: [(usize, &[&str]); 5] = [
        (2, &["-N1"]),
        (2, &["-N2"]),
        (4, &["-N4"]),
        (8, &["-N4"]),
        (8, &["-N4", "-m", "cyclic"]),
    ];
    for (tasks, options) in layouts {
        let count = tasks.to_string();
        let words = [
            &["cosy", "run", "--mpi", "pmi", "-n", &count],
            options,
            &["./collectives"],
        ]
        .concat();
        all_good(&c.run(&words).expect(0), tasks);
    }
    c.until_no_job_processes();
}

#[test]
fn steps_of_one_job_side_by_side() {
    let Some(c) = mpich() else { return };
    let body = "for n in 1 2 3; do cosy run --mpi pmi -N4 -n4 ./collectives >out.$n & done\n\
                wait\ncosy run --mpi pmi -N4 -n 8 ./collectives >out.4";
    let path = format!("export PATH={}:$PATH\n{body}", c.dir().join("bin").display());
    let mut submission = script(&c.work(), &path);
    submission.spec.request.nodes = Some(4);
    submission.spec.request.tasks = Some(8);
    let job = c.submit(&submission);
    let row = c.until_end(job);
    assert_eq!(row.outcome().1, 0, "{row:?}\n{}", c.logs());
    for (n, tasks) in [(1, 4), (2, 4), (3, 4), (4, 8)] {
        let out = std::fs::read_to_string(c.work().join(format!("out.{n}"))).unwrap();
        let good = out.lines().filter(|l| l.ends_with(": good")).count();
        assert_eq!(good, tasks, "step {n}: {out}");
    }
}

#[test]
fn mpi_abort_ends_the_step() {
    let Some(c) = mpich() else { return };
    let output = collectives(&c, &["abort", "5", "17"]).expect(17);
    assert!(!output.out.contains("good"), "{output:?}");
    c.until_no_job_processes();
}

#[test]
fn the_end_of_one_rank_ends_the_step() {
    let Some(c) = mpich() else { return };
    // Of the rank that died, not of those that were ended for it.
    let output = collectives(&c, &["die", "3"]).expect(137);
    assert!(output.err.contains("task 3: ended by signal 9"), "{output:?}");
    c.until_no_job_processes();
}

#[test]
fn a_rank_that_leaves_without_finalize_ends_the_step() {
    let Some(c) = mpich() else { return };
    let output = collectives(&c, &["leave", "6"]);
    assert_ne!(output.code, 0, "{output:?}");
    assert!(output.err.contains("task 6"), "{output:?}");
    c.until_no_job_processes();
}

#[test]
fn a_time_limit_in_the_middle_ends_all() {
    let Some(c) = mpich() else { return };
    let stuck = c.work().join("stuck");
    // Rank 0 of two never comes: the other waits in MPI_Init.
    let body = "if [ $PMI_RANK = 0 ]; then exec sleep 1000; fi; exec ./collectives";
    std::fs::write(&stuck, body).unwrap();
    let words = [
        "cosy", "run", "-N2", "-n2", "--mpi", "pmi", "--time", "0:03", "sh", "./stuck",
    ];
    let output = c.run(&words);
    assert_ne!(output.code, 0, "{output:?}");
    assert!(output.err.contains("limit"), "{output:?}");
    c.until_no_job_processes();
}

#[test]
fn a_client_of_pmi_2_runs_over_four_nodes() {
    let Some(c) = cluster_with("cc", "pmi2_client") else {
        return;
    };
    for (tasks, options) in [(2, ["-N2"]), (8, ["-N4"])] {
        let count = tasks.to_string();
        let words = [
            &["cosy", "run", "--mpi", "pmi", "-n", &count][..],
            &options,
            &["./pmi2_client"],
        ];
        all_good(&c.run(&words.concat()).expect(0), tasks);
    }
    let abort = ["./pmi2_client", "abort", "1", "23"];
    let words = [&["cosy", "run", "--mpi", "pmi", "-N4", "-n8"][..], &abort].concat();
    let output = c.run(&words).expect(23);
    assert!(output.err.contains("as asked"), "{output:?}");
    c.until_no_job_processes();
}

#[test]
fn garbage_from_one_rank_ends_the_step_and_nothing_else() {
    let Some(c) = cluster_with("cc", "pmi2_client") else {
        return;
    };
    let body = "if [ $PMI_RANK != 1 ]; then exec ./pmi2_client; fi\n\
                head -c 300000 /dev/urandom >&$PMI_FD\nexec sleep 1000";
    std::fs::write(c.work().join("garbage"), body).unwrap();
    let words = [
        "cosy",
        "run",
        "--mpi",
        "pmi",
        "-N2",
        "-n4",
        "bash",
        "./garbage",
    ];
    let output = c.run(&words);
    assert_ne!(output.code, 0, "{output:?}");
    assert!(output.err.contains("task 1") && output.err.contains("PMI"), "{output:?}");
    c.until_no_job_processes();
    // The node daemons and the next step have taken no harm.
    let words = ["cosy", "run", "--mpi", "pmi", "-N4", "-n8", "./pmi2_client"];
    all_good(&c.run(&words).expect(0), 8);
}

/// The job's first node has no task: it only passes through what the others exchange.
#[test]
fn a_step_beside_the_first_node() {
    let Some(c) = cluster_with("cc", "pmi2_client") else {
        return;
    };
    let body = format!(
        "{}/cosy run --mpi pmi -N3 -n3 -x n1 ./pmi2_client >out 2>&1",
        c.dir().join("bin").display()
    );
    let mut submission = script(&c.work(), &body);
    submission.spec.request.nodes = Some(4);
    submission.spec.request.tasks = Some(8);
    let row = c.until_end(c.submit(&submission));
    let out = std::fs::read_to_string(c.work().join("out")).unwrap();
    assert_eq!(row.outcome().1, 0, "{row:?}\n{out}\n{}", c.logs());
    assert_eq!(out.lines().filter(|l| l.ends_with(": good")).count(), 3, "{out}");
}
