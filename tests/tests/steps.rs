//! Steps with real daemons: `cosy run` inside and outside an allocation, output, input,
//! exit codes, limits, what goes wrong, and that nothing is left behind.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::run::{finish, spawn};
use cosy_tests::{Cluster, Options, Output, people, run, script, system, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(90);

fn cluster(nodes: usize) -> Cluster {
    Cluster::start(nodes, Options::default())
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Submits a script that finds the commands, and waits for its end.
fn batch(c: &Cluster, nodes: u32, tasks: u32, text: &str) -> (JobId, String) {
    let job = submit(c, nodes, tasks, text);
    let row = c.until_end(job);
    let out = fs::read_to_string(c.work().join(format!("cosy-{job}.out"))).unwrap_or_default();
    assert_eq!(row.outcome(), (JobState::Completed, 0), "{row:?}\n{out}");
    (job, out)
}

fn submit(c: &Cluster, nodes: u32, tasks: u32, text: &str) -> JobId {
    let path = format!("PATH={}/bin:$PATH\n{text}", c.dir().display());
    let mut submission = script(&c.work(), &path);
    submission.spec.request.nodes = Some(nodes);
    submission.spec.request.tasks = Some(tasks);
    c.submit(&submission)
}

/// After everything has ended: no processes, nothing of attempts in any spool.
fn nothing_is_left(c: &Cluster) {
    c.until_no_job_processes();
    for at in 0..c.nodes.len() {
        let spool = c.node_dir(at).join(format!("spool/n{}", at + 1));
        wait::until_true("the spool is empty", || attempts_in(&spool).is_empty());
    }
}

fn attempts_in(spool: &Path) -> Vec<String> {
    let entries = fs::read_dir(spool).into_iter().flatten().flatten();
    entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .collect()
}

// ---- inside an allocation

#[test]
fn tasks_of_a_batch_job() {
    let c = cluster(2);
    let text = "cosy run -n 4 sh -c 'echo $COSY_TASK_RANK of $COSY_STEP_TASKS on $COSY_NODENAME'\n\
        cosy run -N 2 -n 2 -m cyclic sh -c 'echo cyclic $COSY_TASK_RANK $COSY_NODENAME'\n\
        cosy run -n 1 sh -c 'exit 9'; echo code $?";
    let (job, out) = batch(&c, 2, 4, text);
    let lines: BTreeSet<&str> = out.lines().collect();
    for rank in 0..4 {
        let start = format!("{rank} of 4 on n");
        assert!(lines.iter().any(|l| l.starts_with(&start)), "{out}");
    }
    for line in ["cyclic 0 n1", "cyclic 1 n2", "code 9"] {
        assert!(lines.contains(line), "{line}: {out}");
    }
    let steps = c.run(&["chist", "--steps", &job.to_string()]).expect(0).out;
    for step in 0..3 {
        assert!(steps.contains(&format!("{job}.{step}")), "{steps}");
    }
    nothing_is_left(&c);
}

#[test]
fn steps_side_by_side_share_the_allocation() {
    let c = cluster(1);
    // Each waits for all: they must run at once. A fifth finds no core until one ends.
    let text = "for i in 1 2 3 4; do\n\
        cosy run -n 1 sh -c \"touch up.$i; while [ \\$(ls up.* | wc -l) -lt 4 ]; do sleep 0.05; done\" &\n\
        done\nwait\n\
        cosy run -n 4 true && echo whole\n\
        cosy run --overlap -n 4 true && echo over";
    let (_, out) = batch(&c, 1, 4, text);
    assert!(out.contains("whole") && out.contains("over"), "{out}");
    nothing_is_left(&c);
}

#[test]
fn a_step_takes_no_more_than_its_job_has() {
    let c = cluster(2);
    let text = "cosy run -n 5 true; echo code $?\n\
        cosy run -w n9 true; echo code $?\n\
        cosy run -N 3 true; echo code $?\n\
        cosy run -n 1 -c 64 true; echo code $?";
    let job = submit(&c, 2, 4, text);
    c.until_end(job);
    let work = c.work();
    let out = fs::read_to_string(work.join(format!("cosy-{job}.out"))).unwrap();
    assert_eq!(out.matches("code 1").count(), 4, "{out}");
    for word in ["5 tasks", "n9", "3 nodes", "64"] {
        assert!(out.contains(word), "'{word}' is not said: {out}");
    }
    nothing_is_left(&c);
}

// ---- outside

#[test]
fn a_step_with_its_own_allocation() {
    let c = cluster(4);
    let out = c.run(&["cosy", "run", "-N", "4", "sh", "-c", "echo $COSY_NODENAME"]);
    let out = out.expect(0);
    assert_eq!(sorted(&out.out), ["n1", "n2", "n3", "n4"], "{out:?}");
    let table: &[(&str, i32)] = &[
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit $((COSY_TASK_RANK * 2))", 2),
        ("kill -9 $$", 128 + 9),
    ];
    for (text, code) in table {
        c.run(&["cosy", "run", "-n", "2", "sh", "-c", text])
            .expect(*code);
    }
    nothing_is_left(&c);
}

#[test]
fn programs_that_cannot_be_executed() {
    let c = cluster(2);
    let file = c.work().join("plain");
    fs::write(&file, "not a program").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let check = |words: &[&str], says: &str| {
        let out = c.run(words);
        assert_ne!(out.code, 0, "{out:?}");
        assert!(out.err.contains(says), "'{says}' is not said: {out:?}");
    };
    check(&["cosy", "run", "-N2", "/no/such/program"], "/no/such/program");
    check(&["cosy", "run", "-N2", "./plain"], "Permission denied");
    check(&["cosy", "run", "-w", "n7", "true"], "n7");
    check(&["cosy", "run", "-n", "99", "true"], "99");
    fs::write(c.work().join("both"), "0 true\n1 ./plain\n").unwrap();
    check(&["cosy", "run", "-n2", "--multi-prog", "both"], "task 1");
    nothing_is_left(&c);
}

#[test]
fn an_ordinary_user() {
    if !system::root_or_skip() {
        return;
    }
    let c = people::start(2, Options::default());
    let out = c
        .run_as(people::ANN, &["cosy", "run", "-N", "2", "id", "-u"])
        .expect(0);
    assert_eq!(out.out, "54321\n54321\n", "{out:?}");
    // Nobody starts steps in the job of another.
    let hold = c
        .run_as(people::ANN, &["calloc", "--no-shell", "-N", "2"])
        .expect(0);
    let job: String = hold.out.chars().filter(char::is_ascii_digit).collect();
    let other = c.run_as(people::BOB, &["cosy", "run", "--job", &job, "true"]);
    assert_ne!(other.code, 0, "{other:?}");
    let own = c.run_as(people::ANN, &["cosy", "run", "--job", &job, "-N", "2", "id", "-u"]);
    assert_eq!(own.expect(0).out, "54321\n54321\n");
    c.run_as(people::ANN, &["ccancel", &job]).expect(0);
    nothing_is_left(&c);
}

// ---- output and input

#[test]
fn long_output_comes_whole() {
    let c = cluster(2);
    // Every task writes the numbers; none may be lost or change places.
    let text = "seq -f \"$COSY_TASK_RANK %.0f\" 1 200000; seq 1 1000 >&2";
    let out = c
        .run(&["cosy", "run", "-N", "2", "-n", "4", "sh", "-c", text])
        .expect(0);
    let mut next = [1; 4];
    for line in out.out.lines() {
        let (rank, number) = line.split_once(' ').unwrap();
        let (rank, number): (usize, u32) = (rank.parse().unwrap(), number.parse().unwrap());
        assert_eq!(number, next[rank], "rank {rank}");
        next[rank] += 1;
    }
    assert_eq!(next, [200_001; 4]);
    assert_eq!(out.err.lines().count(), 4000);
    nothing_is_left(&c);
}

#[test]
fn labels_and_files_by_task() {
    let c = cluster(2);
    let out = c.run(&[
        "cosy",
        "run",
        "-l",
        "-N2",
        "-n",
        "2",
        "sh",
        "-c",
        "echo hi; printf end",
    ]);
    assert_eq!(sorted(&out.expect(0).out), ["0: end", "0: hi", "1: end", "1: hi"]);
    let words = [
        "cosy",
        "run",
        "-N2",
        "-n2",
        "-o",
        "out.%t",
        "sh",
        "-c",
        "echo $COSY_TASK_RANK",
    ];
    c.run(&words).expect(0);
    for rank in 0..2 {
        let text = fs::read_to_string(c.work().join(format!("out.{rank}"))).unwrap();
        assert_eq!(text, format!("{rank}\n"));
    }
    nothing_is_left(&c);
}

#[test]
fn input_for_all_and_for_one() {
    let c = cluster(2);
    let input: Vec<u8> = (0..300_000u32)
        .flat_map(|n| format!("{n}\n").into_bytes())
        .collect();
    let sum = |words: &[&str]| -> Output {
        let child = spawn(&mut c.command(words));
        finish(child, &input, TIMEOUT)
    };
    let all = sum(&["cosy", "run", "-N2", "-n", "4", "wc", "-c"]).expect(0);
    let length = input.len().to_string();
    assert_eq!(all.out.lines().filter(|l| l.trim() == length).count(), 4, "{all:?}");
    let one = sum(&["cosy", "run", "-N2", "-n", "4", "-i", "2", "wc", "-c"]).expect(0);
    let lengths: Vec<&str> = sorted(&one.out).into_iter().map(str::trim).collect();
    assert_eq!(lengths.iter().filter(|l| **l == "0").count(), 3, "{one:?}");
    assert!(lengths.contains(&length.as_str()), "{one:?}");
    nothing_is_left(&c);
}

#[test]
fn a_slow_reader_slows_the_tasks_only() {
    let c = cluster(1);
    let mut child = spawn(&mut c.command(&["cosy", "run", "-n", "1", "yes"]));
    let mut out = child.stdout.take().unwrap();
    let mut some = vec![0; 4096];
    out.read_exact(&mut some).unwrap();
    // Nobody reads on. Others are served as always.
    c.run(&[
        "cosy",
        "run",
        "--job",
        &only_running(&c),
        "--overlap",
        "echo",
        "fine",
    ])
    .expect(0);
    let node = c.nodes[0].pid();
    assert!(system::resident_kib(node) < 100 << 10, "noded keeps the flood");
    drop(out);
    let code = finish(child, &[], TIMEOUT).code;
    assert_ne!(code, 0, "a closed output ends the command");
    nothing_is_left(&c);
}

fn only_running(c: &Cluster) -> String {
    wait::until("a job runs", || {
        let out = c.run(&[
            "cstat",
            "--no-header",
            "--state",
            "running",
            "--format",
            "id",
        ]);
        let text = out.out.trim().to_owned();
        (!text.is_empty()).then_some(text)
    })
}

// ---- ends

#[test]
fn what_forks_and_detaches_is_ended() {
    let c = cluster(2);
    let text = "setsid sh -c 'sleep 1000 & exec sleep 1000' > /dev/null 2>&1 & sleep 0.2";
    c.run(&["cosy", "run", "-N2", "sh", "-c", text]).expect(0);
    nothing_is_left(&c);
}

#[test]
fn the_limit_of_a_step() {
    let c = cluster(1);
    let text = "cosy run -n1 -t 1s sh -c 'trap \"\" TERM; while :; do sleep 0.1; done'; echo code $?\n\
        cosy run -n1 echo next";
    let job = submit(&c, 1, 1, text);
    let row = c.until_end(job);
    let out = fs::read_to_string(c.work().join(format!("cosy-{job}.out"))).unwrap();
    assert_eq!(row.state, JobState::Completed, "{row:?} {out}");
    assert!(out.contains("time limit") && out.contains("next"), "{out}");
    assert!(!out.contains("code 0"), "{out}");
    nothing_is_left(&c);
}

#[test]
fn a_command_that_is_killed_takes_its_step_along() {
    let c = cluster(2);
    let mut child = start_sleepers(&c, &["-N2"]);
    child.kill().unwrap();
    child.wait().unwrap();
    nothing_is_left(&c);
    let running = c.run(&["cstat", "--no-header"]).expect(0);
    assert_eq!(running.out, "");
}

/// Tasks that run until they are ended; told when all are up.
fn start_sleepers(c: &Cluster, words: &[&str]) -> Child {
    let text = "touch up.$COSY_TASK_RANK; trap '' TERM; sleep 1000; sleep 1000";
    let all = [&["cosy", "run"], words, &["sh", "-c", text]].concat();
    let child = spawn(&mut c.command(&all));
    wait::until_true("the tasks are up", || c.work().join("up.0").exists());
    child
}

#[test]
fn a_cancelled_job_takes_its_steps_along() {
    let c = cluster(2);
    let child = start_sleepers(&c, &["-N2"]);
    c.run(&["ccancel", &only_running(&c)]).expect(0);
    let out = finish(child, &[], TIMEOUT);
    assert_ne!(out.code, 0, "{out:?}");
    assert!(out.err.contains("cancel"), "{out:?}");
    nothing_is_left(&c);
}

#[test]
fn a_lost_node_ends_the_step() {
    let mut c = Cluster::start(
        2,
        Options {
            policy: "heartbeat = \"1s\"\nnode_timeout = \"3s\"\ngrace = \"1s\"\n".into(),
            ..Options::default()
        },
    );
    let child = start_sleepers(&c, &["-N2"]);
    wait::until_true("both are up", || c.work().join("up.1").exists());
    c.lose_node(1);
    let out = finish(child, &[], TIMEOUT);
    assert_ne!(out.code, 0, "{out:?}");
    assert!(out.err.contains("lost"), "{out:?}");
}

/// The first node's supervisor is gone for good: the tasks of all others end long before
/// they would give a broken hop up, and the command is told.
fn without_the_first_supervisor(lose: impl Fn(&mut Cluster, Pid)) {
    let mut c = cluster(3);
    let task = "echo $$ > new.$COSY_TASK_RANK; mv new.$COSY_TASK_RANK pid.$COSY_TASK_RANK;\
        trap \"\" TERM; while :; do sleep 0.1; done";
    let text = format!("cosy run -N3 sh -c '{task}'\necho code $?; cosy run -N3 echo next");
    let job = submit(&c, 3, 3, &text);
    let pids: Vec<i32> = (0..3)
        .map(|rank| pid_in(&c, &format!("pid.{rank}")))
        .collect();
    let supervisor = Pid::from_raw(system::parent_of(pids[0]).unwrap());
    lose(&mut c, supervisor);
    for pid in pids {
        wait::until_within(WELL_BEFORE, "the task ends", || (!system::is_alive(pid)).then_some(()));
    }
    let row = c.until_end(job);
    let out = fs::read_to_string(c.work().join(format!("cosy-{job}.out"))).unwrap();
    assert_eq!(row.state, JobState::Completed, "{row:?} {out}");
    assert!(out.contains(&format!("step {job}.0: ")), "{out}");
    assert!(out.contains("code 1\n"), "{out}");
    assert_eq!(out.matches("next").count(), 3, "{out}");
    let steps = c.run(&["chist", "--steps", &job.to_string()]).expect(0);
    assert!(steps.out.contains(" node_failed "), "{steps:?}");
    nothing_is_left(&c);
}

#[test]
fn the_end_of_the_first_supervisor_ends_the_step() {
    without_the_first_supervisor(|_, supervisor| kill(supervisor, Signal::SIGKILL).unwrap());
}

#[test]
fn the_end_of_the_first_supervisor_is_told_by_the_next_daemon() {
    without_the_first_supervisor(|c, supervisor| {
        c.nodes[0].kill();
        kill(supervisor, Signal::SIGKILL).unwrap();
        c.start_noded(0);
    });
}

/// Half of the time after which a supervisor gives up a hop that broke.
const WELL_BEFORE: Duration = Duration::from_secs(15);

fn pid_in(c: &Cluster, name: &str) -> i32 {
    let path = c.work().join(name);
    let text = wait::until("the task is up", || fs::read_to_string(&path).ok());
    text.trim().parse().unwrap()
}

// ---- daemons that are killed

#[test]
fn node_daemons_are_killed_under_a_step() {
    let mut c = cluster(3);
    let text = "i=0; while [ $i -lt 2000 ]; do echo $COSY_TASK_RANK $i; i=$((i+1));\n\
        [ $i -ne 500 ] || { touch up.$COSY_TASK_RANK; while ! [ -e go ]; do sleep 0.05; done; }\n\
        done; exit $COSY_TASK_RANK";
    let child = spawn(&mut c.command(&["cosy", "run", "-N3", "sh", "-c", text]));
    // A job runs before its step does, and a daemon that is killed in between takes the step's
    // beginning with it.
    for rank in 0..3 {
        let up = c.work().join(format!("up.{rank}"));
        wait::until_true("the tasks are up", || up.exists());
    }
    for at in 0..3 {
        c.nodes[at].kill();
        c.start_noded(at);
        c.nodes[at].await_ready();
    }
    fs::write(c.work().join("go"), "").unwrap();
    let out = finish(child, &[], TIMEOUT).expect(2);
    let mut next = [0; 3];
    for line in out.out.lines() {
        let (rank, number) = line.split_once(' ').unwrap();
        let rank: usize = rank.parse().unwrap();
        assert_eq!(number, next[rank].to_string(), "rank {rank}");
        next[rank] += 1;
    }
    assert_eq!(next, [2000; 3]);
    nothing_is_left(&c);
}

/// The step may not have begun on each node then: it runs as if nothing had happened, or it is ended
/// everywhere and the command says so; nothing is left of it in either case.
#[test]
fn node_daemons_are_killed_while_a_step_begins() {
    let mut c = cluster(3);
    let text = "while ! [ -e go ]; do sleep 0.05; done; exit $COSY_TASK_RANK";
    let child = spawn(&mut c.command(&["cosy", "run", "-N3", "sh", "-c", text]));
    only_running(&c);
    for at in [2, 1, 0] {
        c.nodes[at].kill();
        c.start_noded(at);
        c.nodes[at].await_ready();
    }
    fs::write(c.work().join("go"), "").unwrap();
    let out = finish(child, &[], TIMEOUT);
    if out.code != 2 {
        let out = out.expect(1);
        assert!(out.err.contains("lost"), "{}", out.err);
    }
    nothing_is_left(&c);
}

/// With 18 nodes the 18th is reached through the 17th.
#[test]
fn a_node_whose_tasks_have_ended_still_stands_between_others() {
    let mut c = cluster(18);
    let text = "[ $COSY_TASK_RANK != 17 ] || { touch up; until [ -e go ]; do sleep 0.05; done; echo late; }";
    let child = spawn(&mut c.command(&["cosy", "run", "-N18", "-n18", "sh", "-c", text]));
    let job = only_running(&c);
    let outcome = c
        .node_dir(16)
        .join(format!("spool/n17/{job}.1/s.0/outcome"));
    wait::until_true("the 17th node's part ends", || outcome.exists());
    wait::until_true("the 18th node's begins", || c.work().join("up").exists());
    for at in [17, 16] {
        c.nodes[at].kill();
        c.start_noded(at);
        c.nodes[at].await_ready();
    }
    fs::write(c.work().join("go"), "").unwrap();
    assert_eq!(finish(child, &[], TIMEOUT).expect(0).out, "late\n");
    nothing_is_left(&c);
}

/// Its port is taken meanwhile: the step goes on, and further steps find it, too.
#[test]
fn a_node_daemon_comes_back_at_another_port() {
    let mut c = cluster(3);
    let task = "touch up.$COSY_TASK_RANK; while ! [ -e go ]; do sleep 0.05; done;\
        echo $COSY_NODENAME";
    let text = format!("cosy run -N3 sh -c '{task}'\ncosy run -N3 sh -c 'echo $COSY_NODENAME'");
    let job = submit(&c, 3, 3, &text);
    for rank in 0..3 {
        let up = c.work().join(format!("up.{rank}"));
        wait::until_true("the tasks are up", || up.exists());
    }
    c.nodes[1].kill();
    let memory = c.node_dir(1).join("spool/n2/port");
    let port: u16 = fs::read_to_string(&memory).unwrap().parse().unwrap();
    let taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    c.start_noded(1);
    c.nodes[1].await_ready();
    assert_ne!(fs::read_to_string(&memory).unwrap(), port.to_string());
    fs::write(c.work().join("go"), "").unwrap();
    let row = c.until_end(job);
    drop(taken);
    let out = fs::read_to_string(c.work().join(format!("cosy-{job}.out"))).unwrap();
    assert_eq!(row.outcome(), (JobState::Completed, 0), "{row:?} {out}");
    assert_eq!(sorted(&out), ["n1", "n1", "n2", "n2", "n3", "n3"], "{out}");
    nothing_is_left(&c);
}

#[test]
fn the_controller_is_killed_under_a_step() {
    let mut c = cluster(1);
    let text = "touch up; while ! [ -e go ]; do sleep 0.05; done; exit 4";
    let child = spawn(&mut c.command(&["cosy", "run", "sh", "-c", text]));
    wait::until_true("it is up", || c.work().join("up").exists());
    let job: u64 = only_running(&c).parse().unwrap();
    c.cosyd.kill();
    c.start_cosyd();
    fs::write(c.work().join("go"), "").unwrap();
    finish(child, &[], TIMEOUT).expect(4);
    let row = c.until_end(JobId(job));
    assert_eq!(row.outcome(), (JobState::Failed, 4), "{row:?}");
    nothing_is_left(&c);
}

// ---- allocations

#[test]
fn an_allocation_with_a_command() {
    let c = cluster(2);
    let text = "cosy run -N2 sh -c 'echo $COSY_NODENAME'; echo $COSY_NODES; exit 5";
    let out = c.run(&["calloc", "-N2", "sh", "-c", text]).expect(5);
    assert_eq!(sorted(&out.out), ["n1", "n2", "n[1-2]"], "{out:?}");
    nothing_is_left(&c);
}

#[test]
fn one_interactive_job_of_a_user_at_once() {
    let c = cluster(2);
    let first = spawn(&mut c.command(&[
        "calloc",
        "-N1",
        "sh",
        "-c",
        "touch a; while ! [ -e go ]; do sleep 0.05; done",
    ]));
    wait::until_true("the first is there", || c.work().join("a").exists());
    let second = spawn(&mut c.command(&["calloc", "-N1", "touch", "b"]));
    wait::until("the second waits", || {
        let list = c.run(&["cstat", "--no-header", "--format", "reason"]).out;
        list.contains("interactive_limit").then_some(())
    });
    // Batch jobs are not limited.
    batch(&c, 1, 1, "true");
    assert!(!c.work().join("b").exists());
    fs::write(c.work().join("go"), "").unwrap();
    finish(first, &[], TIMEOUT).expect(0);
    finish(second, &[], TIMEOUT).expect(0);
    assert!(c.work().join("b").exists());
    nothing_is_left(&c);
}

#[test]
fn an_allocation_ends_with_its_command_or_its_limit() {
    let c = cluster(1);
    let mut killed = spawn(&mut c.command(&["calloc", "sleep", "1000"]));
    let job = only_running(&c);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let row = c.until_end(JobId(job.parse().unwrap()));
    assert_eq!(row.state, JobState::Cancelled, "{row:?}");
    let out = c.run(&["calloc", "-t", "1s", "sleep", "1000"]);
    assert_ne!(out.code, 0, "{out:?}");
    assert!(out.err.contains("time limit"), "{out:?}");
    nothing_is_left(&c);
}

#[test]
fn a_file_for_all_nodes() {
    let c = cluster(3);
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    fs::write(c.work().join("data"), &bytes).unwrap();
    let text = "cbcast --force data copy.$$ && cosy run -N3 true && mv copy.$$ copied";
    c.run(&["calloc", "-N3", "sh", "-c", text]).expect(0);
    assert!(fs::read(c.work().join("copied")).unwrap() == bytes);
    let again = c.run(&["calloc", "-N3", "cbcast", "data", "copied"]);
    assert_ne!(again.code, 0, "what is there is not replaced: {again:?}");
    nothing_is_left(&c);
}

#[test]
fn output_of_a_running_step_is_seen_again() {
    let c = cluster(1);
    let text = "echo before; touch up; while ! [ -e go ]; do sleep 0.05; done; echo after";
    let child = spawn(&mut c.command(&["cosy", "run", "sh", "-c", text]));
    wait::until_true("it is up", || c.work().join("up").exists());
    let step = format!("{}.0", only_running(&c));
    let mut second = spawn(&mut c.command(&["cosy", "run", "--attach", &step]));
    let mut seen = BufReader::new(second.stdout.take().unwrap());
    let mut line = String::new();
    seen.read_line(&mut line).unwrap();
    assert_eq!(line, "before\n", "what is kept of the output comes first");
    fs::write(c.work().join("go"), "").unwrap();
    let mut rest = String::new();
    seen.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "after\n");
    assert_eq!(finish(child, &[], TIMEOUT).expect(0).out, "before\nafter\n");
    finish(second, &[], TIMEOUT).expect(0);
    nothing_is_left(&c);
}

// ---- terminals

#[test]
fn a_terminal() {
    let c = cluster(1);
    let mut command = c.command(&["cosy", "run", "--pty", "sh", "-c", "tty; stty size; exit 6"]);
    let out = run::run(&mut command);
    // Without a terminal here there is one there.
    assert!(out.out.contains("/dev/pts/"), "{out:?}");
    assert_eq!(out.code, 6, "{out:?}");
    nothing_is_left(&c);
}
