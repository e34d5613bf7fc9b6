//! What users and their tools read of jobs that make room, held to what Slurm 22.05.8 said in the
//! same situations (`crates/slurm/recordings/preempt.txt`): states, reasons, exit codes, records, and
//! the sentences in output files and of `srun` and `salloc`.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::{Cluster, Options, run, wait};
use std::fs;
use std::process::Child;

const RECORDED: &str = include_str!("../../crates/slurm/recordings/preempt.txt");

/// What stands in the recording of a case under a heading, which is told by its beginning.
fn recorded(case: &str, heading: &str) -> String {
    let (_, rest) = RECORDED.split_once(&format!("\n== {case}\n")).unwrap();
    let case = rest.split("\n== ").next().unwrap();
    let (_, text) = case.split_once(&format!("-- {heading}")).unwrap();
    let lines = text.lines().skip(1);
    let lines = lines.take_while(|line| !line.starts_with("-- ") && !line.is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}

/// Without what differs from run to run: the job's number, times, and nodes in the supervisor's name.
fn plain(text: &str, job: &str) -> String {
    let number = |word: &str| {
        let ends = |c: char| !c.is_ascii_alphanumeric();
        let parts: Vec<&str> = word.split_inclusive(ends).collect();
        let one = |part: &&str| match part.trim_end_matches(ends) == job {
            true => part.replacen(job, "JOB", 1),
            false => (*part).to_owned(),
        };
        parts.iter().map(one).collect::<String>()
    };
    let word = |word: &str| match word.as_bytes() {
        [b'0'..=b'9', _, _, _, b'-', .., b':', _, _] => "TIME".to_owned(),
        _ if word.starts_with("slurmstepd") => "slurmstepd:".to_owned(),
        _ => number(word),
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ") + "\n";
    text.lines().map(line).collect()
}

/// The same of a recording, whose job is the first one in its records.
fn recorded_plain(case: &str, heading: &str) -> String {
    let records = recorded(case, "sacct -nPD");
    let (job, _) = records.split_once('|').unwrap();
    plain(&recorded(case, heading), job)
}

fn cluster(mode: &str, grace: &str) -> Cluster {
    let options = Options {
        policy: "heartbeat = \"1s\"\nnode_timeout = \"60s\"\ngrace = \"3s\"\n".into(),
        head: "[preemption]\nby = [\"qos\"]\n".into(),
        queues: Some(
            "[[queue]]\nname = \"main\"\nnodes = \"n1\"\n[queue.preemption]\ninteractive = true\n"
                .into(),
        ),
        ..Options::default()
    };
    let c = Cluster::start(1, options);
    let (mode, grace) = (format!("preempt-mode={mode}"), format!("grace={grace}"));
    c.run(&["cadm", "qos", "create", "urgent", "preempt=normal"])
        .expect(0);
    c.run(&["cadm", "qos", "set", "normal", &mode, &grace])
        .expect(0);
    // So that no number in a text is that of a job by chance.
    for _ in 0..16 {
        let words = [
            "sbatch",
            "--parsable",
            "-H",
            "-o/dev/null",
            "--wrap",
            "true",
        ];
        let held = c.run(&words).expect(0).out;
        c.run(&["scancel", held.trim()]).expect(0);
    }
    c
}

/// A script on a whole node, once it is what it will be until it makes room.
fn victim(c: &Cluster, script: &str, options: &[&str]) -> JobId {
    let _ = fs::remove_file(c.work().join("begun"));
    fs::write(c.work().join("victim.sh"), format!("#!/bin/sh\n{script}\n")).unwrap();
    let words = [
        "sbatch",
        "--parsable",
        "-J",
        "victim",
        "-N1",
        "-n4",
        "-o",
        "out",
    ];
    let told = c.run(&[&words[..], options, &["victim.sh"]].concat());
    let job = JobId(told.expect(0).out.trim().parse().unwrap());
    c.until_state(job, JobState::Running);
    wait::until_true("it has begun", || c.work().join("begun").exists());
    job
}

/// The node is somebody else's.
fn preempt(c: &Cluster) -> JobId {
    let words = [
        "sbatch",
        "--parsable",
        "-qurgent",
        "-n4",
        "-o/dev/null",
        "--wrap",
        "sleep 600",
    ];
    let job = JobId(c.run(&words).expect(0).out.trim().parse().unwrap());
    c.until_state(job, JobState::Running);
    job
}

fn sacct(c: &Cluster, job: JobId, options: &[&str]) -> String {
    let job = job.to_string();
    c.run(&[&["sacct", "-nP", "-j", &job][..], options].concat())
        .expect(0)
        .out
}

/// All of its records, as they are in recordings.
fn records(c: &Cluster, job: JobId) -> String {
    let told = sacct(c, job, &["-D", "-o", "jobid,state,exitcode"]);
    plain(&told, &job.to_string())
}

fn squeue(c: &Cluster, job: JobId) -> String {
    let job = job.to_string();
    let words = ["squeue", "-h", "-j", &job, "-o", "%T|%t|%r|%R"];
    c.run(&words).expect(0).out
}

/// Every line of that recording is in what `scontrol show job` says.
#[track_caller]
fn shows(c: &Cluster, job: JobId, case: &str) {
    shows_lines(c, job, case, usize::MAX);
}

/// The same of so many of its first lines.
#[track_caller]
fn shows_lines(c: &Cluster, job: JobId, case: &str, most: usize) {
    let id = job.to_string();
    let told = c.run(&["scontrol", "show", "job", &id]).expect(0).out;
    let told = plain(&told, &id);
    for line in recorded_plain(case, "scontrol show job").lines().take(most) {
        // Times of preemption are words of one line here and in recordings.
        let stamps = |line: &str| {
            let field = |word: &str| match word.split_once("Time=") {
                Some((name, at)) if at.starts_with("20") => format!("{name}Time=TIME"),
                _ => word.to_owned(),
            };
            line.split(' ').map(field).collect::<Vec<_>>().join(" ")
        };
        let line = stamps(line);
        assert!(told.lines().any(|t| stamps(t) == line), "{case}: {line}\n{told}");
    }
}

fn output(c: &Cluster, job: JobId) -> String {
    let text = fs::read_to_string(c.work().join("out")).unwrap_or_default();
    plain(&text, &job.to_string())
}

/// Lines that come from several processes, in any order. `srun: got SIGCONT` and the shell's own
/// `Terminated` are told sometimes, in recordings too.
fn sorted(text: &str) -> Vec<&str> {
    let sometimes = ["srun: got SIGCONT", "Terminated"];
    let mut lines: Vec<&str> = text.lines().filter(|l| !sometimes.contains(l)).collect();
    lines.sort_unstable();
    lines
}

const SLEEPS: &str = "touch begun\nsleep 300";

#[test]
fn a_script_is_cancelled() {
    let c = cluster("cancel", "0s");
    let job = victim(&c, SLEEPS, &["--requeue"]);
    preempt(&c);
    assert_eq!(c.until_end(job).state, JobState::Preempted);
    for case in [
        "cancel: a script, sleep 300",
        "cancel partition: a script, sleep 300",
    ] {
        assert_eq!(output(&c, job), recorded_plain(case, "output"), "{case}");
        assert_eq!(records(&c, job), recorded_plain(case, "sacct -nPD"), "{case}");
        shows(&c, job, case);
    }
}

#[test]
fn a_script_is_requeued() {
    let c = cluster("requeue", "0s");
    let case = "requeue: a script, sleep 300";
    let job = victim(&c, SLEEPS, &["--requeue"]);
    preempt(&c);
    c.until(job, "waiting again", |row| row.state == JobState::Waiting);
    assert_eq!(output(&c, job), recorded_plain(case, "output"));
    assert_eq!(records(&c, job), recorded_plain(case, "sacct -nPD"));
    let told = sacct(&c, job, &["-o", "jobid,state,exitcode"]);
    assert_eq!(plain(&told, &job.to_string()), recorded_plain(case, "sacct -nP -o"));
    assert_eq!(squeue(&c, job), recorded(case, "squeue"));
    shows(&c, job, case);
    c.cancel(job);
}

#[test]
fn a_script_with_a_step_that_may_not_run_again() {
    let c = cluster("requeue", "0s");
    let case = "requeue, submitted with --no-requeue: a script with a step, trap 'echo batch TERM' \
                TERM";
    let script = "trap 'echo batch TERM' TERM\n\
                  srun -n1 --overlap sh -c 'touch begun; exec sleep 300'\n\
                  r=$?; echo \"srun rc=$r\"; sleep 2; exit $r";
    let job = victim(&c, script, &["--no-requeue"]);
    preempt(&c);
    assert_eq!(c.until_end(job).state, JobState::Preempted);
    // An `srun` that hears SIGTERM with its script before its step's supervisor has told it why says so
    // itself, and has the step killed, as Slurm's does: its SIGKILL may come before SIGTERM.
    let early = "STEP JOB.0 ON n1 CANCELLED AT TIME ***";
    let told = output(&c, job);
    let killed = told.contains("srun: forcing job termination\n") && told.contains("srun rc=137");
    let in_time = |text: String| match killed {
        true => text
            .replace("rc=137", "rc=143")
            .replace("task 0: Killed", "task 0: Terminated")
            .replace("|9:0", "|15:0")
            .replace("|0:9", "|0:15"),
        false => text,
    };
    let told = in_time(told.replace("srun: forcing job termination\n", ""));
    let told = told.replace(early, "STEP JOB.0 ON n1 CANCELLED AT TIME DUE TO PREEMPTION ***");
    let wanted = recorded_plain(case, "output");
    assert_eq!(sorted(&told), sorted(&wanted), "{told}");
    assert_eq!(in_time(records(&c, job)), recorded_plain(case, "sacct -nPD"));
    if !killed {
        shows(&c, job, case);
    }
}

/// With a grace, Cosy's scripts hear SIGTERM at its beginning: Slurm's at its end. How it ends is told alike.
#[test]
fn a_script_that_ends_within_its_grace() {
    let c = cluster("cancel", "5m");
    let case = "cancel with GraceTime=4: a script that exits with 3 when it hears SIGTERM, which it \
                does at the end only";
    let script = "trap 'echo got TERM; exit 3' TERM\ntouch begun\nwhile :; do sleep 0.1; done";
    let job = victim(&c, script, &["--requeue"]);
    preempt(&c);
    assert_eq!(c.until_end(job).state, JobState::Preempted);
    assert_eq!(records(&c, job), recorded_plain(case, "sacct -nPD"));
    shows(&c, job, case);
}

#[test]
fn a_script_is_suspended() {
    let c = cluster("suspend", "0s");
    let case = "suspend partition: a script, sleep 300";
    let job = victim(&c, SLEEPS, &["--requeue"]);
    let over = preempt(&c);
    c.until_state(job, JobState::Suspended);
    assert_eq!(squeue(&c, job), recorded(case, "squeue"));
    assert_eq!(records(&c, job), recorded_plain(case, "sacct -nPD"));
    shows(&c, job, case);
    c.cancel(over);
    c.cancel(job);
}

/// A command of the foreground, and its job once that runs.
fn foreground(c: &Cluster, words: &[&str]) -> (Child, JobId) {
    let child = run::spawn(&mut c.command(words));
    wait::until_true("it has begun", || c.work().join("begun").exists());
    let told = c
        .run(&["squeue", "-h", "-n", "v", "-o", "%i"])
        .expect(0)
        .out;
    (child, JobId(told.trim().parse().unwrap()))
}

#[test]
fn srun_is_told() {
    for mode in ["cancel", "requeue"] {
        let c = cluster(mode, "0s");
        let case = format!("{mode}: srun");
        let program = "touch begun; exec sleep 300";
        let (child, job) = foreground(&c, &["srun", "-J", "v", "-n1", "-c4", "sh", "-c", program]);
        preempt(&c);
        let told = run::finish(child, b"", run::TIMEOUT).expect(143).err;
        let told = plain(&told, &job.to_string());
        let wanted = recorded_plain(&case, "stderr, exit code 143");
        assert_eq!(sorted(&told), sorted(&wanted), "{mode}: {told}");
        assert_eq!(c.until_end(job).state, JobState::Preempted);
        assert_eq!(records(&c, job), recorded_plain(&case, "sacct -nPD"), "{mode}");
        // An `srun` that is ended has the exit code 0:0 here, as `docs/coming-from-slurm.md` says.
        shows_lines(&c, job, &case, 1);
    }
}

#[test]
fn salloc_is_told() {
    let c = cluster("cancel", "0s");
    let case = "cancel: salloc";
    let program = "touch begun; while ! [ -e go ]; do sleep 0.1; done";
    let (child, job) = foreground(&c, &["salloc", "-J", "v", "-n4", "sh", "-c", program]);
    preempt(&c);
    assert_eq!(c.until_end(job).state, JobState::Preempted);
    fs::write(c.work().join("go"), "").unwrap();
    let told = run::finish(child, b"", run::TIMEOUT).expect(0).err;
    let told = plain(&told, &job.to_string());
    assert_eq!(sorted(&told), sorted(&recorded_plain(case, "stderr, exit code 0")));
    assert_eq!(records(&c, job), recorded_plain(case, "sacct -nPD"));
    shows(&c, job, case);
}

/// A killed supervisor is the node's fault: what may run again is put back, with a record of its run.
#[test]
fn a_killed_supervisor() {
    let c = cluster("cancel", "0s");
    for (option, goes_on) in [("--requeue", true), ("--no-requeue", false)] {
        let case = format!(
            "kill -9 of slurmstepd, submitted with {option}: a script; noticed when slurmd registers \
             again"
        );
        let job = victim(&c, SLEEPS, &[option]);
        let shepherds = c.shepherds();
        assert_eq!(shepherds.len(), 1, "{shepherds:?}");
        shepherds[0].kill(nix::sys::signal::Signal::SIGKILL);
        let state = if goes_on {
            JobState::Waiting
        } else {
            JobState::NodeFailed
        };
        c.until(job, "put back or over", |row| row.state == state);
        let states = |text: &str| -> Vec<String> {
            let one = |line: &str| line.rsplit_once('|').unwrap().0.to_owned();
            text.lines().map(one).collect()
        };
        let wanted = recorded_plain(&case, "sacct -nPD");
        // What its exit code was nobody knows: Slurm tells 1:0.
        let whole = |all: Vec<String>| -> Vec<String> {
            all.into_iter()
                .filter(|line| !line.contains(".batch"))
                .collect()
        };
        assert_eq!(whole(states(&records(&c, job))), whole(states(&wanted)), "{option}");
        if goes_on {
            assert_eq!(squeue(&c, job), recorded(&case, "squeue"));
            c.cancel(job);
        }
    }
}
