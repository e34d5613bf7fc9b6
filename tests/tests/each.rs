//! `cosy each` with real daemons: tasks over the nodes of a job, what becomes of those that fail,
//! and going on after an end.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::run::{run_with, spawn};
use cosy_tests::{Cluster, Options, Output, run, script, system, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

fn submit(c: &Cluster, nodes: u32, tasks: u32, text: &str) -> JobId {
    let path = format!("PATH={}/bin:$PATH\n{text}", c.dir().display());
    let mut submission = script(&c.work(), &path);
    submission.spec.request.nodes = Some(nodes);
    submission.spec.request.tasks = Some(tasks);
    submission.spec.request.tasks_per_node = Some(tasks / nodes);
    c.submit(&submission)
}

fn output(c: &Cluster, job: JobId) -> String {
    fs::read_to_string(c.work().join(format!("cosy-{job}.out"))).unwrap_or_default()
}

/// The lines of a file of results after the first: columns by name.
fn results(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines
        .next()
        .unwrap()
        .trim_start_matches('#')
        .split('\t')
        .collect();
    let row = |line: &str| {
        let pairs = names.iter().zip(line.split('\t'));
        pairs
            .map(|(n, v)| ((*n).to_owned(), v.to_owned()))
            .collect()
    };
    lines.map(row).collect()
}

/// How each attempt ended, by task.
fn ends(path: &Path) -> Vec<String> {
    let rows = results(path);
    let line =
        |r: &BTreeMap<String, String>| format!("{}.{} {}", r["task"], r["attempt"], r["result"]);
    let mut all: Vec<String> = rows.iter().map(line).collect();
    all.sort();
    all
}

/// Outside of a job, in a folder.
fn alone(folder: &Path, words: &[&str], input: &str) -> Output {
    run_with(&mut command(folder, words), input.as_bytes())
}

fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(cosy_tests::programs::folder().join("cosy"));
    command
        .arg("each")
        .args(words)
        .current_dir(folder)
        .env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap());
    command
}

#[test]
fn tasks_run_on_all_nodes_of_a_job() {
    let c = Cluster::start(3, Options::default());
    // No task ends before one has begun on each node, so none can do all the work.
    let text = "mkdir seen\n\
        cosy each --numbers 1-60 -j 6 -- sh -c 'touch seen/$COSY_NODENAME; \
        until [ -e seen/n1 -a -e seen/n2 -a -e seen/n3 ]; do sleep 0.05; done; \
        echo $COSY_NODENAME $1 $COSY_EACH_TASK $COSY_EACH_SLOT' _";
    let job = submit(&c, 3, 6, text);
    let row = c.until_end(job);
    let out = output(&c, job);
    assert_eq!(row.outcome(), (JobState::Completed, 0), "{out}");
    assert!(out.contains("cosy each: 60 tasks done in "), "{out}");
    let lines = out.lines().filter(|line| line.starts_with('n'));
    let words: Vec<Vec<&str>> = lines.map(|line| line.split(' ').collect()).collect();
    let numbers: BTreeSet<u32> = words.iter().map(|w| w[1].parse().unwrap()).collect();
    assert_eq!(numbers, (1..=60).collect());
    assert_eq!(words.len(), 60);
    let slots: BTreeSet<&str> = words.iter().map(|w| w[3]).collect();
    assert_eq!(slots, BTreeSet::from(["1", "2"]));
    assert!(words.iter().all(|w| w[1] == w[2]), "{out}");
    let rows = results(&c.work().join(format!("each-{job}.tsv")));
    let nodes: BTreeSet<&str> = rows.iter().map(|r| r["node"].as_str()).collect();
    assert_eq!(nodes, BTreeSet::from(["n1", "n2", "n3"]));
    assert!(rows.iter().all(|r| r["result"] == "ok" && r["exit"] == "0"));
    c.until_no_job_processes();
}

/// What runs tasks on one node dies: its tasks are done by the others.
#[test]
fn a_node_that_is_lost_loses_no_task() {
    let c = Cluster::start(2, Options::default());
    let text = "cosy each --numbers 1-6 -j 4 -- sh -c 'touch begun.$1; \
        until [ -e go ]; do sleep 0.05; done; touch done.$1' _";
    let job = submit(&c, 2, 4, text);
    let work = c.work();
    let begun = |n: u32| work.join(format!("begun.{n}")).exists();
    wait::until_true("four tasks begin", || (1..=4).all(begun));
    let folder = c.dir().to_str().unwrap();
    let worker = wait::until("the worker of n2", || {
        let all = system::processes_where(|words| {
            let ours = words.have(folder) && words.have("COSY_NODENAME=n2\0");
            ours && words.have("\0each\0--worker\0")
        });
        all.into_iter().next()
    });
    worker.kill(Signal::SIGKILL);
    wait::until_true("it is told", || output(&c, job).contains("cosy each: node n2: "));
    fs::write(work.join("go"), "").unwrap();
    let row = c.until_end(job);
    let out = output(&c, job);
    assert_eq!(row.outcome(), (JobState::Completed, 0), "{out}");
    assert!((1..=6).all(|n| work.join(format!("done.{n}")).exists()), "{out}");
    let ends = ends(&work.join(format!("each-{job}.tsv")));
    let lost = ends.iter().filter(|end| end.ends_with(".1 lost")).count();
    assert_eq!((ends.len(), lost), (8, 2), "{ends:?}");
    c.until_no_job_processes();
}

#[test]
fn a_cancelled_job_leaves_nothing() {
    let c = Cluster::start(2, Options::default());
    let job = submit(&c, 2, 4, "cosy each --numbers 1-100 -j 4 -- sh -c 'touch b.$1; sleep 600' _");
    let begun = |n: u32| c.work().join(format!("b.{n}")).exists();
    wait::until_true("four tasks begin", || (1..=4).all(begun));
    c.run(&["ccancel", &job.to_string()]).expect(0);
    c.until_state(job, JobState::Cancelled);
    c.until_no_job_processes();
    let rows = results(&c.work().join(format!("each-{job}.tsv")));
    assert!(rows.iter().all(|r| r["result"] != "ok"), "{rows:?}");
}

#[test]
fn a_run_goes_on_where_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (at, file) = (folder.path(), folder.path().join("run.tsv"));
    let words = [
        "-r",
        "run.tsv",
        "-j",
        "2",
        "--resume",
        "--",
        "sh",
        "-c",
        "test -e ok.$1",
        "_",
    ];
    let inputs = "1\n2\n3\n4\n";
    for n in [1, 3] {
        fs::write(at.join(format!("ok.{n}")), "").unwrap();
    }
    let said = alone(at, &words, inputs).expect(1);
    assert!(
        said.err
            .contains("cosy each: task 2 (2) failed on localhost: exit code 1"),
        "{said:?}"
    );
    assert_eq!(ends(&file), ["1.1 ok", "2.1 failed", "3.1 ok", "4.1 failed"]);
    for n in [2, 4] {
        fs::write(at.join(format!("ok.{n}")), "").unwrap();
    }
    let said = alone(at, &words, inputs).expect(0);
    assert!(said.err.contains("2 tasks done, 2 done before in "), "{said:?}");
    assert_eq!(results(&file).len(), 6);
    let said = alone(at, &words, inputs).expect(0);
    assert!(said.err.contains("0 tasks done, 4 done before in "), "{said:?}");
    // Other inputs than then, and results that nobody said may be gone on with.
    let said = alone(at, &words, "1\nx\n").expect(1);
    assert!(
        said.err
            .contains("input 2 is 'x', and the file of results has it done with"),
        "{said:?}"
    );
    let said = alone(at, &["-r", "run.tsv", "--", "true"], inputs).expect(1);
    assert!(
        said.err
            .contains("--resume goes on with it, --overwrite begins anew"),
        "{said:?}"
    );
    alone(at, &["-r", "run.tsv", "--overwrite", "--", "true"], "1\n").expect(0);
    assert_eq!(ends(&file), ["1.1 ok"]);
}

#[test]
fn what_fails_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let (at, file) = (folder.path(), folder.path().join("run.tsv"));
    // The first attempt of `a` fails, all of `b`; `c` takes too long.
    let text = "test $COSY_EACH_ATTEMPT -ge 2\nfalse\nsleep 600\nkill -9 $$\n";
    let words = [
        "--commands",
        "--retries",
        "1",
        "--timeout",
        "1s",
        "-r",
        "run.tsv",
        "-j",
        "4",
        "-Q",
    ];
    let said = alone(at, &words, text).expect(1);
    let want = [
        "1.1 failed",
        "1.2 ok",
        "2.1 failed",
        "2.2 failed",
        "3.1 timeout",
        "3.2 timeout",
        "4.1 failed",
        "4.2 failed",
    ];
    assert_eq!(ends(&file), want);
    assert!(
        said.err
            .contains("task 2 (false) failed on localhost: exit code 1, attempt 2"),
        "{said:?}"
    );
    assert!(
        said.err
            .contains("task 3 (sleep 600) failed on localhost: took longer than"),
        "{said:?}"
    );
    assert!(
        said.err
            .contains("failed on localhost: ended by KILL, attempt 2"),
        "{said:?}"
    );
    // Enough is enough: with one place nothing is begun after the second failure.
    let words = [
        "--max-failures",
        "2",
        "-j",
        "1",
        "-r",
        "few.tsv",
        "--",
        "false",
    ];
    alone(at, &words, "1\n2\n3\n4\n5\n").expect(1);
    let few = results(&at.join("few.tsv"));
    assert_eq!(few.len(), 2, "{few:?}");
}

#[test]
fn an_interrupt_ends_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let words = [
        "--numbers",
        "1-9",
        "-j",
        "2",
        "-r",
        "run.tsv",
        "--",
        "sh",
        "-c",
    ];
    let words = [&words[..], &["touch b.$1; exec sleep 600", "_"]].concat();
    let child = spawn(&mut command(folder.path(), &words));
    let begun = |n: u32| folder.path().join(format!("b.{n}")).exists();
    wait::until_true("two tasks begin", || (1..=2).all(begun));
    let pid = i32::try_from(child.id()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGINT).unwrap();
    let said = run::finish(child, b"", std::time::Duration::from_secs(60)).expect(130);
    assert!(
        said.err
            .contains("cosy each: INT: 2 tasks are ended, no more are begun"),
        "{said:?}"
    );
    let ends = ends(&folder.path().join("run.tsv"));
    assert_eq!(ends, ["1.1 stopped", "2.1 stopped"]);
}

/// An input is one word, whatever it holds, and comes out as it went in.
#[test]
fn inputs_are_no_shell() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let bad = "$(touch hit)\n`touch hit`\n; touch hit\n-n --help\n\n* ? ~ \\ ' \"\n\u{1b}[31m\n";
    let said =
        alone(at, &["-j", "1", "--no-results", "-Q", "--", "printf", "<%s>\\n"], bad).expect(0);
    let want: String = bad.lines().map(|line| format!("<{line}>\n")).collect();
    assert_eq!(said.out, want);
    assert_eq!(fs::read_dir(at).unwrap().count(), 0);
    // What a task writes without end is cut, and the task goes on to its end.
    let words = [
        "--commands",
        "--no-results",
        "--max-output",
        "1M",
        "-j",
        "1",
    ];
    let said = alone(at, &words, "head -c 3000000 /dev/zero; echo end >&2\n").expect(0);
    assert_eq!(said.out.len(), 1 << 20);
    assert!(
        said.err
            .contains("task 1: 1951424 bytes of its output are not shown"),
        "{said:?}"
    );
    assert!(said.err.starts_with("end\n"), "{said:?}");
}

#[test]
fn a_file_for_each_output() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let words = ["-o", "out/{2}/{1}.txt", "-C", ",", "--no-results", "--"];
    let words = [
        &words[..],
        &["sh", "-c", "echo $0; echo $1 >&2", "{2}", "{1}"],
    ]
    .concat();
    let said = alone(at, &words, "a,x\nb,y\n").expect(0);
    assert_eq!(said.out, "");
    assert_eq!(fs::read_to_string(at.join("out/x/a.txt")).unwrap(), "x\na\n");
    assert_eq!(fs::read_to_string(at.join("out/y/b.txt")).unwrap(), "y\nb\n");
}

#[test]
fn mistakes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let check = |words: &[&str], input: &str, code: i32, want: &str| {
        let said = alone(folder.path(), words, input).expect(code);
        assert!(said.err.contains(want), "{words:?}: {said:?}");
    };
    check(&[], "", 2, "a command is needed");
    check(&["--commands", "--", "true"], "", 2, "the inputs are the commands");
    check(&["--", "echo", "{1}"], "a\n", 2, "--columns says what stands between columns");
    check(&["-o", "all.txt", "--", "echo"], "a\n", 2, "all tasks would write to one file");
    check(&["--from", "gone", "--", "echo"], "", 1, "cannot read the inputs in gone");
    check(
        &["--from", "f", "--", "echo", ":::", "a"],
        "",
        2,
        "inputs come from --from or stand after",
    );
    check(&["--resume", "--", "echo"], "", 2, "--results");
    check(&["-c", "4096", "--", "echo"], "", 2, "no node of the job has more than");
    check(&["-j", "5000", "--", "echo"], "", 2, "at most 4096 run on one");
    check(&["--gpus-per-task", "1", "-j", "1", "--", "echo"], "a\n", 1, "no GPUs are given");
    check(&["-Q", "--", "echo {}"], "a\n", 1, "there is no program 'echo a' (a line for a shell?");
    let long = "x".repeat(200_000);
    check(&["--", "echo"], &long, 1, "input 1 has more than 131071 bytes");
    check(&["--worker"], "garbage", 1, "a message");
    // Nothing to do is no mistake.
    check(&["--", "echo"], "", 0, "0 tasks done");
}
