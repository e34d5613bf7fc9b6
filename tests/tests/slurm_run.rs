//! `srun` and `salloc`, and what a batch script of Slurm's dialect finds and hears: texts,
//! exit codes, variables. The texts are those that the original prints.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::mpi::Mpi;
use cosy_tests::run::{finish, spawn};
use cosy_tests::shell::{batch, check, read, shell, shell_command, submit_text as submit};
use cosy_tests::{Cluster, Options, system, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Child;
use std::time::Duration;

fn cluster(nodes: usize) -> Cluster {
    Cluster::start(nodes, Options::default())
}

/// The value of a variable in the output of `env`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let of = |line: &'a str| line.strip_prefix(name)?.strip_prefix('=');
    text.lines().find_map(of)
}

#[test]
fn ends_of_tasks() {
    // One node: on several the next step may be placed elsewhere while the last job is leaving.
    let c = cluster(1);
    let failed = |how: &str| format!("srun: error: n1: task 0: {how}\n");
    check(&c, "srun echo hi", 0, "hi\n", "");
    check(&c, "srun sh -c 'exit 3'", 3, "", &failed("Exited with exit code 3"));
    check(&c, "srun sh -c 'kill -9 $$'", 137, "", &failed("Killed"));
    check(&c, "srun sh -c 'kill -SEGV $$'", 139, "", &failed("Segmentation fault"));
    check(
        &c,
        "srun -n4 sh -c 'exit $SLURM_PROCID'",
        3,
        "",
        "srun: error: n1: task 1: Exited with exit code 1\n\
         srun: error: n1: task 2: Exited with exit code 2\n\
         srun: error: n1: task 3: Exited with exit code 3\n",
    );
    check(
        &c,
        "srun nosuchcommand",
        2,
        "",
        "srun: error: n1: task 0: Exited with exit code 2\n\
         slurmstepd: error: execve(): nosuchcommand: No such file or directory\n",
    );
    check(
        &c,
        "srun -D /nonexistent pwd",
        0,
        "/tmp\n",
        &"slurmstepd: error: couldn't chdir to `/nonexistent': No such file or directory: going \
          to /tmp instead\n"
            .repeat(2),
    );
    let first = shell(&c, "srun -W 1 -n2 sh -c 'test $SLURM_PROCID = 0 || sleep 1000'");
    assert!(first.err.contains("srun: First task exited 1s ago\n"), "{}", first.err);
    let told = "task 1: running\nsrun: StepId=";
    assert!(first.err.contains(told), "{}", first.err);
    assert!(first.err.contains(" task 0: exited\n"), "{}", first.err);
    // Those left are not asked.
    let killed = "srun: error: n1: task 1: Killed\n";
    assert!(first.err.contains(killed), "{}", first.err);
    assert_eq!(first.code, 137);
    // Nor are those that an interrupt does not end.
    let deaf = "srun --quit-on-interrupt sh -c 'trap \"\" INT; echo > on; sleep 1000' & p=$!; \
                until test -e on; do sleep .05; done; kill -INT $p; wait $p";
    let killed = "srun: error: n1: task 0: Killed\n";
    let output = shell(&c, deaf);
    assert!(output.err.contains(killed), "{}", output.err);
}

#[test]
fn command_lines() {
    let c = cluster(1);
    let hint = "Try \"srun --help\" for more information\n";
    check(&c, "srun", 1, "", "srun: fatal: No command given to execute.\n");
    let bad = shell(&c, "srun --nosuch true");
    assert_eq!(bad.code, 255);
    assert!(
        bad.err
            .ends_with(&format!("unrecognized option '--nosuch'\n{hint}"))
    );
    check(&c, "srun -t foo true", 255, "", "srun: error: Invalid --time specification\n");
    check(&c, "srun -n 0 true", 1, "", "srun: error: Invalid numeric value \"0\" for --ntasks.\n");
    check(
        &c,
        "srun -p nosuch true",
        1,
        "",
        "srun: error: invalid partition specified: nosuch\n\
         srun: error: Unable to allocate resources: Invalid partition name specified\n",
    );
    check(
        &c,
        "srun --jobid=9999999 true",
        1,
        "",
        "srun: error: Unable to confirm allocation for job 9999999: Invalid job id specified\n\
         srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 9999999\n",
    );
    let foo = shell(&c, "srun --mpi=foo true");
    assert_eq!(foo.code, 1);
    assert!(
        foo.err
            .ends_with("Invalid MPI type 'foo', --mpi=list for acceptable types\n")
    );
    check(&c, "srun -V", 0, "slurm 22.05.11\n", "");
    check(
        &c,
        "sattach 1.0",
        1,
        "",
        "sattach: error: Could not get job step info: Job/step already completing or completed\n",
    );
    check(
        &c,
        "sbcast a b",
        1,
        "",
        "sbcast: error: Need a job id to run this command.  Run from within a Slurm job or use \
         the --jobid option.\n",
    );
}

#[test]
fn output_and_input() {
    let c = cluster(2);
    check(&c, "echo hi | srun -n2 -l cat | sort", 0, "0: hi\n1: hi\n", "");
    check(&c, "echo hi | srun -n2 -i 1 -l cat", 0, "1: hi\n", "");
    check(&c, "echo hi | srun -i none cat", 0, "", "");
    check(&c, "srun -n2 -o 'p-%j-%s' echo y; cat p-*", 0, "y\ny\n", "");
    check(&c, "srun -n2 -e 'e-%t' sh -c 'echo E >&2'; cat e-*", 0, "E\nE\n", "");
    let list = "printf '0 echo zero\\n1-2 echo task %%t off %%o\\n* echo other\\n' >mp; \
                srun -n4 -l --multi-prog mp | sort";
    check(&c, list, 0, "0: zero\n1: task 1 off 0\n2: task 2 off 1\n3: other\n", "");
    let prolog = "printf '#!/bin/sh\\necho export SAID=yes; echo print hello\\n' >pro.sh; \
                  chmod +x pro.sh; srun --task-prolog=$PWD/pro.sh sh -c 'echo $SAID'";
    check(&c, prolog, 0, "hello\nyes\n", "");
}

#[test]
fn variables_of_a_script_and_its_steps() {
    let c = cluster(2);
    let text = "env | sort; echo ==; srun sh -c 'test $SLURM_PROCID = 2 && env'";
    let (job, out) = batch(&c, "-N2 --ntasks-per-node=2 -J nm --mem=50 -A acct", text);
    let (own, step) = out.split_once("==\n").unwrap();
    let job = job.to_string();
    let both: [(&str, &str); 9] = [
        ("SLURM_JOB_ID", &job),
        ("SLURM_JOBID", &job),
        ("SLURM_JOB_NAME", "nm"),
        ("SLURM_JOB_NODELIST", "n[1-2]"),
        ("SLURM_NODELIST", "n[1-2]"),
        ("SLURM_TASKS_PER_NODE", "2(x2)"),
        ("SLURM_JOB_CPUS_PER_NODE", "2(x2)"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_MEM_PER_NODE", "50"),
    ];
    for (name, want) in both {
        assert_eq!(value(own, name), Some(want), "{name} in\n{own}");
        assert_eq!(value(step, name), Some(want), "{name} of the step in\n{step}");
    }
    for (name, want) in [
        ("ENVIRONMENT", "BATCH"),
        ("SLURMD_NODENAME", "n1"),
        ("SLURM_PROCID", "0"),
        ("SLURM_NTASKS_PER_NODE", "2"),
    ] {
        assert_eq!(value(own, name), Some(want), "{name}");
    }
    assert!(value(own, "SLURM_TASK_PID").is_some() && value(own, "SLURM_STEP_ID").is_none());
    for (name, want) in [
        ("SLURMD_NODENAME", "n2"),
        ("SLURM_PROCID", "2"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_NODEID", "1"),
        ("SLURM_GTIDS", "2,3"),
        ("SLURM_STEP_ID", "0"),
        ("SLURM_STEP_NUM_TASKS", "4"),
        ("SLURM_STEP_NODELIST", "n[1-2]"),
    ] {
        assert_eq!(value(step, name), Some(want), "{name}");
    }
}

/// Tools that drop everything of Slurm's but the job's number still run steps.
#[test]
fn steps_without_slurms_variables() {
    let c = cluster(2);
    let text = "for v in $(env | grep -o '^SLURM_[A-Z_]*' | grep -v SLURM_JOB_ID); do unset $v; done\n\
                srun -n1 --cpu-bind=q --cpus-per-task=2 --nodes=1 sh -c 'echo $SLURM_JOB_NODELIST'";
    let (_, out) = batch(&c, "-N2 -n4", text);
    assert_eq!(out, "n[1-2]\n");
}

#[test]
fn steps_in_a_job() {
    let c = cluster(2);
    let text = "srun -n2 -l echo b | sort; srun -n5 echo c; srun -N2 echo d; srun -n1 sh -c 'exit 7'; \
                echo $?; srun --overlap -n4 echo f";
    let (job, out) = batch(&c, "-N1 -n4", text);
    let want = format!(
        "0: b\n1: b\n\
         srun: error: Unable to create step for job {job}: More processors requested than permitted\n\
         srun: error: Only allocated 1 nodes asked for 2\n\
         srun: error: n1: task 0: Exited with exit code 7\n7\nf\nf\nf\nf\n"
    );
    assert_eq!(out, want);
}

#[test]
fn what_a_cancelled_job_hears() {
    let c = cluster(1);
    let text = "trap 'echo TERM; exit 9' TERM; touch up; while :; do sleep 0.05; done";
    let job = submit(&c, "", text);
    wait::until_true("the script runs", || c.work().join("up").exists());
    assert_eq!(shell(&c, &format!("scancel {job}")).code, 0);
    assert_eq!(c.until_end(job).state, JobState::Cancelled);
    let out = read(&c, &format!("slurm-{job}.out"));
    let first = out.lines().next().unwrap_or_default();
    let begin = format!("slurmstepd: error: *** JOB {job} ON n1 CANCELLED AT 20");
    assert!(first.starts_with(&begin) && first.ends_with(" ***"), "{out}");
    assert!(out.ends_with("TERM\n"), "{out}");
}

#[test]
fn a_program_that_is_not_there_fails() {
    let c = cluster(1);
    fs::write(c.work().join("bad.sh"), "#!/no/such/interp\n").unwrap();
    let job = shell(&c, "sbatch --parsable bad.sh").out;
    let job = JobId(job.trim().parse().unwrap());
    let row = c.until_end(job);
    assert_eq!(row.outcome(), (JobState::Failed, 2));
    let want = "slurmstepd: error: execve(): bad interpreter(/no/such/interp): No such file or directory\n";
    assert_eq!(read(&c, &format!("slurm-{job}.out")), want);
}

/// `srun` in the background, and its process number when its task runs.
fn background(c: &Cluster, line: &str) -> (Child, Pid) {
    let child = spawn(&mut shell_command(c, &format!("exec {line}")));
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    (child, pid)
}

#[test]
fn signals_to_srun() {
    let c = cluster(1);
    let up = "touch up; while :; do sleep 0.05; done";
    let (child, pid) = background(&c, &format!("srun sh -c \"trap 'exit 4' USR1; {up}\""));
    wait::until_true("the task runs", || c.work().join("up").exists());
    kill(pid, Signal::SIGUSR1).unwrap();
    let output = finish(child, b"", Duration::from_secs(60));
    assert_eq!(output.code, 4, "{}", output.err);
    fs::remove_file(c.work().join("up")).unwrap();
    let (child, pid) = background(&c, &format!("srun sh -c \"trap '' TERM; {up}\""));
    wait::until_true("the task runs", || c.work().join("up").exists());
    kill(pid, Signal::SIGTERM).unwrap();
    let output = finish(child, b"", Duration::from_secs(60));
    assert_eq!(output.code, 137, "{}", output.err);
    let lines: Vec<&str> = output.err.lines().collect();
    assert_eq!(lines.len(), 4, "{}", output.err);
    assert_eq!(
        lines[..2],
        [
            "srun: forcing job termination",
            "srun: Job step aborted: Waiting up to 5 seconds for job step to finish.",
        ]
    );
    assert!(lines[2].starts_with("slurmstepd: error: *** STEP ") && lines[2].ends_with(" ***"));
    assert_eq!(lines[3], "srun: error: n1: task 0: Killed");
}

#[test]
fn allocations() {
    let c = cluster(2);
    let output = shell(&c, "salloc -n1 sh -c 'echo in $SLURM_JOB_NAME; exit 6'");
    assert_eq!((output.code, output.out.as_str()), (6, "in interactive\n"));
    let job = JobId(1);
    let told = format!(
        "salloc: Granted job allocation {job}\nsalloc: Relinquishing job allocation {job}\n"
    );
    assert_eq!(output.err, told);
    let output = shell(&c, "salloc -Q -N2 -n4 sh -c 'srun -l echo $SLURM_JOB_NODELIST | sort'");
    let want: String = (0..4).map(|n| format!("{n}: n[1-2]\n")).collect();
    assert_eq!((output.out, output.err.as_str()), (want, ""));
    let output = shell(&c, "salloc -n1 /no/such");
    assert_eq!(output.code, 1);
    let missing = "salloc: error: _fork_command: Unable to find command \"/no/such\"\n";
    assert!(output.err.contains(missing), "{}", output.err);
    let output = shell(&c, "salloc -n1 --no-shell");
    assert_eq!(output.code, 0);
    let id = output.err.trim().rsplit(' ').next().unwrap_or_default();
    let job = JobId(id.parse().unwrap());
    assert_eq!(c.until_state(job, JobState::Running).state, JobState::Running);
}

#[test]
fn a_job_that_waits_says_so() {
    let c = cluster(1);
    let first = submit(&c, "--exclusive", "touch up; while test ! -e go; do sleep 0.05; done");
    wait::until_true("the script runs", || c.work().join("up").exists());
    let (child, _) = background(&c, "srun echo ran");
    let second = JobId(first.0 + 1);
    wait::until_true("the step's job waits", || {
        let only = cosy_model::api::JobRef {
            job: second,
            task: None,
        };
        c.rows(only).is_some_and(|rows| !rows.is_empty())
    });
    // It says so after a moment: the first job goes on until that is over.
    std::thread::sleep(Duration::from_millis(900));
    fs::write(c.work().join("go"), "").unwrap();
    let output = finish(child, b"", Duration::from_secs(60));
    assert_eq!((output.code, output.out.as_str()), (0, "ran\n"));
    let told = format!(
        "srun: job {second} queued and waiting for resources\n\
         srun: job {second} has been allocated resources\n"
    );
    assert_eq!(output.err, told);
}

#[test]
fn a_job_that_is_beyond_its_partition_says_so() {
    let c = cluster(1);
    for (line, job) in [("salloc -N9 true", "salloc"), ("srun -N9 true", "srun")] {
        let line = format!(
            "rm -f err; {line} 2>err & p=$!\n\
             until grep -qs 'queued and waiting' err; do sleep 0.05; done\nkill $p; wait $p"
        );
        let output = shell(&c, &line);
        assert_ne!(output.code, 0, "{line}");
        let err = read(&c, "err");
        let first = format!("{job}: Requested partition configuration not available now\n");
        assert!(err.starts_with(&first), "{err}");
    }
}

#[test]
fn tasks_learn_where_the_controller_is() {
    let c = cluster(1);
    let (_, out) =
        batch(&c, "", "echo $SLURM_WORKING_CLUSTER; srun sh -c 'echo $SLURM_WORKING_CLUSTER'");
    let address = fs::read_to_string(c.dir().join("state/listen.addr")).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    for line in lines {
        let rest = line.split_once(':').map(|(_, rest)| rest);
        assert_eq!(rest, Some(&*format!("{}:9728:109", address.trim())));
    }
}

/// MPI libraries find their nodes by Slurm's variables and start their helpers by `srun`.
fn mpi(mpi: Mpi) {
    let Some(folder) = mpi.programs_or_skip() else {
        return;
    };
    let c = cluster(2);
    let root = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
    // What a launcher hands on hides what its helpers' steps found, but for what only they have.
    let (launcher, folder) = (mpi.launcher(), folder.display());
    let text = format!(
        "{root}\n{launcher} {folder}/hello | grep -c ' of 4 '\n\
         {launcher} sh -c 'echo rank node $COSY_NODE_RANK'"
    );
    let job = submit(&c, "-N2 --ntasks-per-node=2", &text);
    let row = c.until_end(job);
    let out = read(&c, &format!("slurm-{job}.out"));
    assert_eq!(row.outcome(), (JobState::Completed, 0), "{out}");
    assert!(out.lines().any(|l| l == "4"), "{out}");
    let by_node = cosy_tests::mpi_jobs::ranks_by_node(&out);
    assert!(by_node.len() == 2 && by_node.values().all(|n| *n == 2), "{out}");
    c.until_no_job_processes();
}

#[test]
fn open_mpi_in_a_script() {
    mpi(Mpi::OpenMpi);
}

#[test]
fn mpich_in_a_script() {
    mpi(Mpi::Mpich);
}

#[test]
fn what_a_job_hears_when_memory_or_its_node_is_gone() {
    let c = cluster(2);
    let eat = "dd if=/dev/zero of=/dev/null bs=400M count=1";
    let (job, text) = batch(&c, "--mem=60 -o slurm-%j.out", eat);
    if c.nodes[0].log().contains("memory limits are not enforced") {
        system::skip("there are no control groups for memory here");
    } else {
        let want = format!(
            "slurmstepd: error: Detected 1 oom_kill event in StepId={job}.batch. Some of the \
             step tasks have been OOM Killed.\n"
        );
        assert!(text.ends_with(&want), "{text}");
        let line = format!("srun --mem=60 -n1 {eat}");
        let said = shell(&c, &line);
        assert!(
            said.err
                .contains("slurmstepd: error: Detected 1 oom_kill event in StepId="),
            "{}",
            said.err
        );
        assert!(said.err.contains("task 0: Out Of Memory"), "{}", said.err);
    }
    let (begun, _) = loses_its_node(&c, "", true);
    assert!(begun.starts_with("begun\n"), "{begun}");
    // This one has not opened its output when its node goes.
    shell(&c, "mkfifo fifo");
    let (text, mode) = loses_its_node(&c, "-i fifo", false);
    assert!(text.starts_with("slurmstepd: error: "), "{text}");
    assert_eq!(mode & 0o777, 0o640);
}

/// Submits a job whose node is taken down once its state is running, and its program runs
/// where that is wanted. Gives what its output says and the file's mode.
fn loses_its_node(c: &Cluster, options: &str, runs: bool) -> (String, u32) {
    let line = format!(
        "umask 027; sbatch --parsable --no-requeue -w n2 {options} --wrap 'echo begun; sleep 600'"
    );
    let job: JobId = JobId(shell(c, &line).expect(0).out.trim().parse().unwrap());
    c.until_state(job, JobState::Running);
    let file = format!("slurm-{job}.out");
    if runs {
        wait::until("its program", || (!read(c, &file).is_empty()).then_some(()));
    }
    let down = "scontrol update nodename=n2 state=down reason=test";
    check(c, down, 0, "", "");
    assert_eq!(c.until_end(job).state, JobState::NodeFailed);
    let want = format!("slurmstepd: error: *** JOB {job} ON n2 CANCELLED AT ");
    let cause = " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n";
    let text = wait::until("the job's last words", || {
        let text = read(c, &file);
        (text.contains(&want) && text.ends_with(cause)).then_some(text)
    });
    check(c, "scontrol update nodename=n2 state=resume", 0, "", "");
    let file = fs::metadata(c.work().join(file)).unwrap();
    (text, file.permissions().mode())
}

#[test]
fn sattach_shows_one_task() {
    let c = cluster(1);
    let text = "until [ -e stop ]; do echo out$SLURM_PROCID; echo err$SLURM_PROCID >&2; \
                sleep 0.1; done";
    let job = submit(&c, "-n2", &format!("srun -n2 sh -c '{text}'"));
    let layout = format!("sattach --layout {job}.0");
    wait::until("the step", || (shell(&c, &layout).code == 0).then_some(()));
    let line = format!("sattach --output-filter=x {job}.0");
    let bad = "sattach: error: --output-filter=x is no task: use its number, or 'all'\n";
    check(&c, &line, 1, "", bad);
    let line = format!("sattach --output-filter=1 --error-filter=0 {job}.0 >so 2>se");
    let attached = spawn(&mut shell_command(&c, &line));
    let some = |name| !read(&c, name).is_empty();
    wait::until("what it shows", || (some("so") && some("se")).then_some(()));
    fs::write(c.work().join("stop"), "").unwrap();
    finish(attached, b"", Duration::from_secs(60));
    for (file, want) in [("so", "out1"), ("se", "err0")] {
        let text = read(&c, file);
        assert!(text.lines().all(|line| line == want), "{file}: {text}");
    }
}
