//! `squeue`, `sinfo`, `sacct`, `sstat`, `seff` and the small reports: what they print of
//! real jobs, with which exit codes they end, and the mistakes that tools match literally.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::run::Output;
use cosy_tests::{Cluster, Options, wait};
use std::fs;

const QUEUES: &str = "[[queue]]\nname = \"main\"\ndefault = true\ndefault_time = \"1h\"\n\
    default_memory_per_core = \"100M\"\n\
    [[queue]]\nname = \"short\"\nnodes = \"n1\"\nmax_time = \"30m\"\n\
    default_memory_per_core = \"100M\"\n";

fn cluster() -> Cluster {
    let options = Options {
        queues: Some(QUEUES.to_owned()),
        entry: |_| "features = [\"fa\", \"fb\"]".into(),
        ..Options::default()
    };
    let c = Cluster::start(2, options);
    fs::write(c.work().join("sleep.sh"), "#!/bin/sh\nsleep 600\n").unwrap();
    fs::write(c.work().join("noop.sh"), "#!/bin/sh\ntrue\n").unwrap();
    c
}

/// The id that `sbatch` with these options prints.
#[track_caller]
fn submit(c: &Cluster, options: &[&str]) -> JobId {
    let words = [&["sbatch", "--parsable", "-o", "/dev/null"], options].concat();
    let output = c.run(&words).expect(0);
    JobId(output.out.trim().parse().unwrap())
}

/// Exit code, standard output and standard error.
#[track_caller]
fn check(c: &Cluster, words: &[&str], code: i32, out: &str, err: &str) {
    let Output {
        code: got,
        out: stdout,
        err: stderr,
    } = c.run(words);
    // The C library names the program as it was called.
    let stderr = stderr.replace(&format!("{}/bin/", c.dir().display()), "");
    assert_eq!((got, &*stdout, &*stderr), (code, out, err), "{words:?}");
}

/// A command line as words, blanks inside a word written as `~`.
fn words(line: &str) -> Vec<String> {
    line.split(' ').map(|w| w.replace('~', " ")).collect()
}

#[track_caller]
fn prints(c: &Cluster, line: &str, want: &str) {
    let words = words(line);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    check(c, &words, 0, want, "");
}

#[test]
fn queues_of_jobs() {
    let c = cluster();
    let filler = submit(&c, &["-J", "filler", "-N2", "--exclusive", "-t", "50", "sleep.sh"]);
    c.until_state(filler, JobState::Running);
    let held = submit(&c, &["-J", "heldjob", "-H", "-N2", "noop.sh"]);
    let array = submit(&c, &["-J", "arr", "--array=1-20%3", "-c4", "sleep.sh"]);

    prints(
        &c,
        "squeue -h -o %i|%j|%t|%D|%R",
        &format!(
            "{array}_[1-20%3]|arr|PD|1|(Resources)\n{held}|heldjob|PD|2|(JobHeldUser)\n{filler}|filler|R|2|n[1-2]\n"
        ),
    );
    prints(
        &c,
        "squeue -n filler -o %.10i~%10j~%.3t~%12P|%.2D|%5r|",
        &format!(
            "     JOBID NAME        ST PARTITION   |NO|REASO|\n{filler:>10} filler       R main        | 2|None |\n"
        ),
    );
    prints(
        &c,
        "squeue -h -n arr,filler -S i -O JobID,StateCompact:3,tres-alloc:###",
        &format!(
            "{filler:<20}R  cpu=8,mem=800M,node=2,billing=8###\n{array:<20}PD cpu=4,mem=400M,node=1,billing=4###\n"
        ),
    );
    let tasks: String = (1..=20).map(|t| format!("{array}_{t} PD\n")).collect();
    prints(&c, "squeue -r -n arr -h -o %i~%t", &tasks);
    prints(&c, &format!("squeue -h -j {array}_15 -o %i~%t"), &format!("{array}_15 PD\n"));
    // Some tools name a job twice, so that an unknown id is no error.
    prints(
        &c,
        &format!("squeue -h -j {array}_15,{filler},{array}_15,{filler} -o %i"),
        &format!("{array}_15\n{filler}\n"),
    );
    prints(&c, "squeue -ho %j -t PENDING,running -S -i", "arr\nheldjob\nfiller\n");
    prints(&c, "squeue --me -h -w n2 -o %j", "filler\n");
    prints(&c, "squeue -h -p short", "");
    let steps = format!(
        "         STEPID     NAME PARTITION     USER\n{:>15}    batch      main",
        format!("{filler}.batch")
    );
    let got = c
        .run(&["squeue", "-s", "-o", "%.15i %.8j %.9P %.8u"])
        .expect(0);
    assert!(got.out.starts_with(&steps), "{}", got.out);
}

/// Texts and exit codes that programs match.
/// Of alternatives each is told with how it stands, also where it has ended.
#[test]
fn what_jobs_wait_for_and_hold() {
    let c = Cluster::start(
        1,
        Options {
            head: "[licenses]\nlic = 4\n".to_owned(),
            ..Options::default()
        },
    );
    let failing = || submit(&c, &["-H", "-L", "lic:2", "--wrap", "false"]);
    let (one, other) = (failing(), failing());
    let either = format!("--dependency=afterok:{one}?afterok:{other}");
    let waits = submit(&c, &["--kill-on-invalid-dep=no", &either, "--wrap", "true"]);
    let shown = |one_stands: &str, other_stands: &str| {
        let want = format!("afterok:{one}({one_stands})?afterok:{other}({other_stands})\n");
        prints(&c, &format!("squeue -h -j {waits} -o %E"), &want);
        let sheet = c.run(&["scontrol", "show", "job", &waits.to_string()]);
        let sheet = sheet.expect(0).out;
        assert!(sheet.contains(&format!(" Dependency={want}")), "{sheet}");
    };
    shown("unfulfilled", "unfulfilled");

    // Licences are found by their names, and not by how many there are of them.
    prints(&c, "squeue -h -L lic -o %i|%W --sort=i", &format!("{one}|lic:2\n{other}|lic:2\n"));
    prints(&c, "squeue -h -L 2", "");
    prints(&c, "squeue -h -L lic:2", "");

    let ends = |job: JobId| {
        c.run(&["scontrol", "release", &job.to_string()]).expect(0);
        assert_eq!(c.until_end(job).outcome().0, JobState::Failed);
    };
    ends(one);
    shown("failed", "unfulfilled");
    ends(other);
    shown("failed", "failed");
    prints(&c, &format!("squeue -h -j {waits} -o %t|%r"), "PD|DependencyNeverSatisfied\n");
}

#[test]
fn mistakes() {
    let c = cluster();
    let job = submit(&c, &["-H", "noop.sh"]);
    let head =
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n";
    let unknown = "slurm_load_jobs error: Invalid job id specified\n";
    check(&c, &["squeue", "-j", "9999999"], 1, "", unknown);
    check(&c, &["squeue", "-h", "-j", "9999999,9999999"], 0, "", "");
    check(&c, &["squeue", "-h", "-j", &job.to_string(), "-t", "R"], 0, "", "");
    check(&c, &["squeue", "-j", "foo"], 1, "", "squeue: error: Invalid job id: foo\n");
    check(&c, &["squeue", "-w", "nosuch"], 1, "", "squeue: error: Invalid node name nosuch\n");
    check(
        &c,
        &["squeue", "-u", "nosuchuser"],
        0,
        head,
        "squeue: error: Invalid user: nosuchuser\n\n",
    );
    check(&c, &["squeue", "-S", "^"], 1, head, "squeue: error: Invalid sort specification: ^\n");
    check(
        &c,
        &["squeue", "-o", "%!%i"],
        0,
        &format!("%!JOBID\n%!{job}\n"),
        "squeue: error: Invalid job format specification: !\n",
    );
    check(
        &c,
        &["squeue", "-O", "nosuchfield"],
        0,
        "\n\n",
        "squeue: error: Invalid job format specification: nosuchfield\n",
    );
    for command in ["squeue", "sinfo", "sstat"] {
        let text = format!(
            "{command}: unrecognized option '--nosuch'\nTry \"{command} --help\" for more information\n"
        );
        check(&c, &[command, "--nosuch"], 1, "", &text);
    }
    check(&c, &["sacct", "--nosuch"], 1, "", "sacct: unrecognized option '--nosuch'\n");
    check(&c, &["sacct", "-1"], 1, "", "sacct: invalid option -- '1'\n");
    for command in [
        "squeue", "sinfo", "sacct", "sstat", "sprio", "sshare", "sdiag",
    ] {
        check(&c, &[command, "-V"], 0, "slurm 22.05.11\n", "");
        let help = c.run(&[command, "--help"]).expect(0);
        assert!(help.out.contains("--version"), "{}", help.out);
    }
    let bad = c.run(&["squeue", "-t", "BAD"]).expect(1);
    assert!(bad.err.starts_with("squeue: error: Invalid job state specified: BAD\nsqueue: error: Valid job states include: PENDING,RUNNING,"));
    let bad = c.run(&["sinfo", "-t", "foo"]).expect(1);
    assert!(bad.err.starts_with(
        "sinfo: error: Bad state string: \"foo\"\nsinfo: error: valid states: unknown,down,idle,"
    ));
}

#[test]
fn partitions_and_nodes() {
    let c = cluster();
    let job = submit(&c, &["-n1", "-w", "n1", "sleep.sh"]);
    c.until_state(job, JobState::Running);
    let head = "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n";
    prints(
        &c,
        "sinfo",
        &format!(
            "{head}main*        up   infinite      1    mix n1\nmain*        up   infinite      1   idle n2\nshort        up      30:00      1    mix n1\n"
        ),
    );
    prints(&c, "sinfo -h -N -o %N~%t", "n1 mix\nn1 mix\nn2 idle\n");
    prints(&c, "sinfo -ho %P~%C~%c~%m -p short", "short 1/3/0/4 4 2048\n");
    prints(&c, "sinfo -h -o %D~%N", "2 n[1-2]\n");
    prints(&c, "sinfo -p nosuch", head);
    prints(&c, "sinfo -T", "No reservations in the system\n");
    c.run(&["cadm", "node", "drain", "n2", "-r", "bad disk"])
        .expect(0);
    c.until_node("n2", "drained", |n| n.state == "drained");
    prints(&c, "sinfo -h -R -o %E|%N", "bad disk|n2\n");
    prints(&c, "sinfo -h -t drain -o %N~%T -p main", "n2 drained\n");
    let json = c.run(&["sinfo", "--json"]).expect(0).out;
    assert!(json.contains("\"state_flags\": [\n        \"DRAIN\"\n      ]"), "{json}");
}

#[test]
fn records_of_jobs_and_steps() {
    let c = cluster();
    let good = submit(&c, &["-J", "good", "noop.sh"]);
    let bad = submit(&c, &["-J", "bad", "--wrap", "exit 3"]);
    let waits = submit(&c, &["-J", "waits", "-H", "noop.sh"]);
    let killed = submit(&c, &["-J", "killed", "sleep.sh"]);
    c.until_state(killed, JobState::Running);
    c.run(&["scancel", &killed.to_string()]).expect(0);
    for job in [good, bad, killed] {
        c.until_end(job);
    }
    let records = || c.run(&["sacct", "-n", "-P", "-o", "jobid,jobname,state,exitcode"]);
    // The store is written before anybody is told of an end; the row of its end may be in
    // the next batch.
    wait::until_true("all records", || records().out.contains("killed|CANCELLED"));
    let uid = own_uid();
    let want = format!(
        "{good}|good|COMPLETED|0:0\n{good}.batch|batch|COMPLETED|0:0\n\
         {bad}|bad|FAILED|3:0\n{bad}.batch|batch|FAILED|3:0\n\
         {waits}|waits|PENDING|0:0\n\
         {killed}|killed|CANCELLED by {uid}|0:0\n{killed}.batch|batch|CANCELLED|0:15\n"
    );
    assert_eq!(records().expect(0).out, want);
    prints(
        &c,
        &format!("sacct -X -j {bad} -o JOBID,state%12"),
        &format!(
            "JobID               State \n------------ ------------ \n{:<12}       FAILED \n",
            bad.to_string()
        ),
    );
    prints(
        &c,
        &format!("sacct -nP -j {bad}.batch -o jobidraw,elapsedraw"),
        &format!("{bad}.batch|0\n"),
    );
    prints(&c, "sacct -nXP -s F -o jobname", "bad\n");
    let submitted = c.run(&["sacct", "-nXP", "-j", &bad.to_string(), "-o", "submitline"]);
    let line = submitted.expect(0).out;
    assert!(line.contains("sbatch ") && line.contains(" bad "), "{line}");
    prints(&c, "sacct -n -j 9999999", "");
    check(
        &c,
        &["sacct", "-o", "nosuch"],
        1,
        "",
        "sacct: error: Invalid field requested: \"nosuch\"\n",
    );
    let fields = c.run(&["sacct", "--helpformat"]).expect(0).out;
    let all: Vec<&str> = fields.split_whitespace().collect();
    let line = c
        .run(&[
            "sacct",
            "-nPX",
            "-j",
            &bad.to_string(),
            "-o",
            &all.join(","),
        ])
        .expect(0)
        .out;
    assert_eq!(line.matches('|').count() + 1, all.len(), "{line}");
    c.run(&["seff", "-h"]).expect(1);
    let seff = c.run(&["seff", &bad.to_string()]).expect(0).out;
    assert!(seff.contains("State: FAILED (exit code 3)\nCores: 1\n"), "{seff}");
    let none = format!("sstat: error: No steps running for job {bad}\n");
    check(&c, &["sstat", "-n", "-j", &bad.to_string()], 0, "", &none);
    let sdiag = c.run(&["sdiag"]).expect(0).out;
    assert!(sdiag.contains("Jobs completed: 1\nJobs canceled:  1\nJobs failed:    1\n"), "{sdiag}");
    let lines = format!("squeue -h -t all -o %i|%t|%r -S i -j {bad}");
    prints(&c, &lines, &format!("{bad}|F|NonZeroExitCode\n"));
}

#[test]
fn records_of_a_time() {
    let c = cluster();
    let over = submit(&c, &["-J", "over", "noop.sh"]);
    c.until_end(over);
    let runs = submit(&c, &["-J", "runs", "-C", "fa&fb", "-t", "10", "sleep.sh"]);
    c.until_state(runs, JobState::Running);
    submit(&c, &["-J", "waits", "-H", "noop.sh"]);
    let records = |line: &str| {
        let line = format!("sacct -n -P -X -o jobname {line}");
        let line = words(&line);
        c.run(&line.iter().map(String::as_str).collect::<Vec<_>>())
    };
    wait::until_true("all records", || records("").out == "over\nruns\nwaits\n");
    let check = |line: &str, want: &str| {
        let got = records(line).expect(0).out;
        assert_eq!(got.lines().collect::<Vec<_>>().join(" "), want, "{line}");
    };
    check("-s R", "runs");
    check("-s PD", "waits");
    check("-s CD", "over");
    check("-S now-1hour -E now+1hour", "over runs waits");
    check("-S now-1hour -E now+1hour -s R", "over runs");
    check("-S now-2hour -E now-1hour -s R", "");
    check("-S now-2hour -E now-1hour", "");
    check("-S now-1hour -E now+1hour -s CD,F", "over");
    check("-S now+1hour -E now+2hour -s CD", "");
    check(&format!("-j {over} -s R"), "over");
    check("-C fa", "runs");
    check("-C fa,fb", "runs");
    check("-C f", "runs");
    check("-C fa,other", "");
    check("-k 10", "runs");
    check("-k 9:30", "runs");
    check("-k 5 -K 20", "runs");
    check("-k 20", "");
    check("-R JobHeldUser", "waits");
    check("-R Resources", "");
    let refused = |line: &str, want: &str| {
        let got = records(line);
        assert_eq!((got.code, got.out.as_str(), got.err.as_str()), (1, "", want), "{line}");
    };
    refused(
        "-S 2026-11-24T10:00:00 -E 2026-11-23T10:00:00",
        "sacct: error: Start time (2026-11-24T10:00:00) requested is after end time \
         (2026-11-23T10:00:00).\n",
    );
    refused("-c", "Slurm job completion is disabled\n");
    refused("-F SchedMain,foo", "sacct: error: str_2_job_flags: Invalid job flag foo\n");
    refused(
        "-F SchedMain",
        "sacct: error: --flags is not supported: there are no records of that kind here\n",
    );
    refused("-g nosuchgroup", "sacct: error: Invalid group id: nosuchgroup\n");
    refused("-j foo", "sacct: fatal: Bad job/step specified: foo\n");
    refused("-s CD,foo", "sacct: fatal: unrecognized job state value 'foo'\n");
    refused("-k 0", "sacct: fatal: Invalid time limit specification\n");
}

/// What the documentation of the simulator asks for: all fields, in the order of `--helpformat`.
#[test]
fn all_fields_at_once() {
    let c = cluster();
    let job = submit(&c, &["-J", "all", "noop.sh"]);
    c.until_end(job);
    let fields = c.run(&["sacct", "--helpformat"]).expect(0).out;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    for word in ["ALL", "all", "al", "a"] {
        let text = c
            .run(&["sacct", "-a", "-X", "-P", "-o", word])
            .expect(0)
            .out;
        let head: Vec<&str> = text.lines().next().unwrap().split('|').collect();
        assert_eq!(head, fields, "{word}");
    }
    let refused = c.run(&["sstat", "-o", "ALL", "-j", &job.to_string()]);
    let want = "sstat: error: Invalid field requested: \"ALL\"\n";
    assert_eq!((refused.code, refused.err.as_str()), (1, want));
}

/// Number of the user who runs the tests.
fn own_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid()
}
