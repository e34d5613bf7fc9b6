//! Slurm's commands that steer: scancel, scontrol, sacctmgr, strigger, and the import of a
//! `slurm.conf`. Texts and exit codes are those of captures of Slurm 22.05; ids and times
//! are put in by the tests.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::shell::submit_text;
use cosy_tests::{Cluster, Options, Output, run, script, wait};

const QUEUES: &str = "[[queue]]\nname = \"main\"\ndefault = true\nnodes = \"n[1-2]\"\n\
    default_time = \"1h\"\ndefault_memory_per_core = \"100M\"\n\
    [[queue]]\nname = \"short\"\nnodes = \"n1\"\nmax_time = \"30m\"\n\
    default_memory_per_core = \"100M\"\n";

fn cluster() -> Cluster {
    let options = Options {
        queues: Some(QUEUES.into()),
        ..Options::default()
    };
    Cluster::start(2, options)
}

/// What a command says and does.
fn check(c: &Cluster, words: &[&str], code: i32, out: &str, err: &str) {
    let got = c.run(words);
    let got = (got.code, got.out.as_str(), got.err.as_str());
    assert_eq!(got, (code, out, err), "{words:?}");
}

fn held(c: &Cluster, more: &[&str]) -> JobId {
    let words = [
        &["sbatch", "--parsable", "-H", "-o", "/dev/null"],
        more,
        &["--wrap", "true"],
    ];
    let got = c.run(&words.concat());
    JobId(got.out.trim().parse().unwrap())
}

fn show(c: &Cluster, job: JobId) -> String {
    c.run(&["scontrol", "show", "job", &job.to_string()]).out
}

#[test]
fn triggers_run_programs() {
    let options = Options {
        queues: Some(QUEUES.into()),
        noded: |_| "prolog = [\"DIR/prolog\"]".into(),
        ..Options::default()
    };
    let mut c = Cluster::prepare(2, options);
    let prologs = c.dir().join("prologs");
    let executable = |path: &std::path::Path, text: String| {
        std::fs::write(path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).unwrap();
    };
    let prolog = format!("#!/bin/sh\necho $COSY_JOB_ID >> {}\n", prologs.display());
    executable(&c.dir().join("prolog"), prolog);
    c.start_cosyd();
    (0..2).for_each(|at| c.start_noded(at));
    c.nodes.iter_mut().for_each(|n| n.await_ready());
    let tell = c.work().join("tell");
    let told = c.work().join("told");
    let text = format!(
        "#!/bin/sh\nsqueue -h -t all -o %i,%t -j ${{2#n*}} >> {0}\necho \"$1 $2 $SLURM_JOB_ID$COSY_JOB_ID\" >> {0}\n",
        told.display()
    );
    executable(&tell, text);
    let program = format!("{} is", tell.display());
    let until_told = |want: &str| {
        wait::until(want, || {
            let all = std::fs::read_to_string(&told).unwrap_or_default();
            all.ends_with(&format!("\n{want}\n")).then_some(())
        });
    };
    let out = c.run(&[
        "sbatch",
        "--parsable",
        "-o",
        "/dev/null",
        "--wrap",
        "sleep 600",
    ]);
    let job = out.out.trim().to_owned();
    let of_job = [
        "strigger", "--set", "-v", "--fini", "-j", &job, "-p", &program,
    ];
    check(&c, &of_job, 0, "", "strigger: trigger set\n");
    let again = "slurm_set_trigger: Duplicate event trigger\n";
    check(&c, &of_job, 1, "", again);
    let down = [
        "strigger",
        "--set",
        "--down",
        "--flags=perm",
        "--program",
        &program,
    ];
    check(&c, &down, 0, "", "");
    let user = run::run(std::process::Command::new("id").arg("-un")).out;
    let line = |id: u64, kind: &str, of: &str, event: &str, flags: &str| {
        let user = user.trim();
        format!("{id:>7} {kind:<9} {of:>7} {event:<35}      0 {user:<8} {flags:<5} {program}\n")
    };
    let first = line(1, "job", &job, "fini", "");
    let second = line(2, "node", "*", "down", "PERM");
    let both = format!("{first}{second}");
    check(&c, &["strigger", "--get", "-N"], 0, &both, "");
    check(&c, &["strigger", "--get", "-N", "--down"], 0, &second, "");
    // What was set is there after a crash of the controller, and what happens meanwhile.
    c.cosyd.signal(nix::sys::signal::Signal::SIGKILL);
    c.cosyd.await_end();
    c.start_cosyd();
    assert_eq!(c.run(&["scancel", &job]).code, 0);
    until_told(&format!("is {job} "));
    let seen = std::fs::read_to_string(&told).unwrap();
    assert!(seen.starts_with(&format!("{job},CA\n")), "{seen}");
    wait::until_true("the trigger is used up", || {
        c.run(&["strigger", "--get", "-N"]).out == second
    });
    let set_down = [
        "scontrol",
        "update",
        "nodename=n2",
        "state=down",
        "reason=x",
    ];
    check(&c, &set_down, 0, "", "");
    until_told("is n2 ");
    // Only the job had one: a program may run beside jobs of others.
    let ran = std::fs::read_to_string(&prologs).unwrap();
    assert_eq!(ran, format!("{job}\n"));
    let clear = ["strigger", "--clear", "-v", "--id=2"];
    check(&c, &clear, 0, "", "strigger: trigger 2 cleared\n");
    let none = "slurm_clear_trigger: No such process\n";
    check(&c, &clear, 1, "", none);
    check(&c, &["strigger", "--clear", "-Q", "--id=2"], 0, "", "");
    let nowhere = ["strigger", "--set", "--up", "--node=x", "-p", &program];
    let no_node = "slurm_set_trigger: Invalid node name specified\n";
    check(&c, &nowhere, 1, "", no_node);
    let no_program = "strigger: error: Invalid --program value, file not found\n";
    check(&c, &["strigger", "--set", "--up", "-p/nowhere"], 1, "", no_program);
}

#[test]
fn scancel_says_what_slurm_says() {
    let c = cluster();
    let bad = |words: &[&str], code, err: &str| check(&c, words, code, "", err);
    bad(&["scancel", "foo"], 1, "scancel: error: Invalid job id foo\n");
    bad(&["scancel", ""], 1, "scancel: error: Invalid job id \n");
    bad(&["scancel", "-s", "FOO", "1"], 1, "Unknown job signal: FOO\n");
    bad(
        &["scancel", "-t", "FOO"],
        1,
        "Invalid job state specified: FOO\nValid job states are PENDING, RUNNING, and SUSPENDED\n",
    );
    bad(&["scancel"], 1, "scancel: error: No job identification provided\n");
    bad(&["scancel", "-u", "nosuchuser"], 1, "scancel: error: Invalid user name: nosuchuser\n");
    bad(&["scancel", "-p", "nosuch"], 0, "");
    bad(&["scancel", "-n", "nosuch"], 0, "");
    bad(&["scancel", "-w", "nosuch"], 0, "");
    bad(&["scancel", "9999999"], 0, "");
    bad(
        &["scancel", "-v", "9999999"],
        0,
        "scancel: Terminating job 9999999\n\
         scancel: error: Kill job error on job id 9999999: Invalid job id specified\n",
    );
    let job = held(&c, &[]);
    bad(&["scancel", &job.to_string()], 0, "");
    c.until_state(job, JobState::Cancelled);
    bad(&["scancel", &job.to_string()], 0, "");
    let text = show(&c, job);
    assert!(text.contains("JobState=CANCELLED Reason="), "{text}");
}

#[test]
fn what_finds_no_jobs_says_so() {
    let c = cluster();
    let say = |words: &[&str], code, err: &str| check(&c, words, code, "", err);
    say(
        &["scancel", "-v", "-n", "INVALID", "-q", "X"],
        0,
        "scancel: error: No active jobs match ALL job filters, including: \
         job_name=INVALID qos=x \n",
    );
    say(
        &["scancel", "-i", "77"],
        1,
        "scancel: error: Kill job error on job id 77: Invalid job id specified\n",
    );
    let update = ["scontrol", "update", "JobName=nope", "Priority=5"];
    say(&update, 1, "scontrol: error: No jobs with name 'nope'\n");
    let [a, b, d] = [0, 1, 2].map(|_| held(&c, &["-J", "x", "--begin=now+1hour"]));
    for job in [a, b, d] {
        say(&["scontrol", "release", &job.to_string()], 0, "");
    }
    say(&["scontrol", "top", &format!("{d},{b}")], 0, "");
    let order = c.run(&["squeue", "-h", "-o", "%i"]).out;
    let want: String = [d, b, a].map(|job| format!("{job}\n")).concat();
    assert_eq!(order, want, "the first that is named is the highest");
    say(&["scontrol", "update", "JobName=x", "Comment=new"], 0, "");
    assert!(show(&c, a).contains("Comment=new"));
    let text = c.run(&["scontrol", "-v", "show", "PartitionName=main"]).out;
    assert!(text.starts_with("last_update_time="), "{text}");
    assert!(text.contains(", records=2\nPartitionName=main\n"), "{text}");
}

#[test]
fn processes_tell_their_job() {
    let c = cluster();
    let text = "scontrol pidinfo $$; scontrol listpids $SLURM_JOB_ID.9; \
                scontrol listpids $SLURM_JOB_ID";
    let words = [
        "sbatch",
        "-W",
        "-t",
        "5",
        "-o",
        "%j.out",
        "--parsable",
        "--wrap",
        text,
    ];
    let got = c.run(&words);
    let job = got.out.trim().to_owned();
    let out = std::fs::read_to_string(c.work().join(format!("{job}.out"))).unwrap();
    for want in [
        format!("Slurm JobId={job} ends at "),
        "Job remaining time is ".to_owned(),
        format!("StepId={job}.9 does not exist on this node.\n"),
        format!(" {job:<8} batch    0       0       \n"),
    ] {
        assert!(out.contains(&want), "{want} in {out}");
    }
}

#[test]
fn scancel_chooses() {
    let c = cluster();
    let (a, b) = (held(&c, &["-J", "na"]), held(&c, &["-J", "nb", "-p", "short"]));
    let array = held(&c, &["-J", "nb", "--array=1-4"]);
    let done = |words: &[&str]| check(&c, words, 0, "", "");
    done(&["scancel", "-n", "na"]);
    c.until_state(a, JobState::Cancelled);
    done(&["scancel", "-p", "short"]);
    c.until_state(b, JobState::Cancelled);
    done(&["scancel", &format!("{array}_[1-2]")]);
    let text = show(&c, array);
    assert!(text.contains(&format!("ArrayJobId={array} ArrayTaskId=3-4 ")), "{text}");
    // A task that waits like the others has no number of its own, one that was changed has.
    let task = |index| {
        let line = ["scontrol", "show", "job", &format!("{array}_{index}")];
        c.run(&line).out.lines().next().map(str::to_owned)
    };
    let told =
        |id, index| Some(format!("JobId={id} ArrayJobId={array} ArrayTaskId={index} JobName=nb"));
    done(&[
        "scontrol",
        "update",
        &format!("jobid={array}_3"),
        "timelimit=2",
    ]);
    assert_eq!(task(3), told(array.0 + 3, 3));
    assert_eq!(task(4), told(array.0, 4));
    done(&["scancel", "-t", "PENDING", "-n", "nb"]);
    assert_eq!(c.run(&["squeue", "-h"]).out, "");
}

#[test]
fn jobs_are_held_and_shown() {
    let c = cluster();
    let job = held(&c, &["-N2", "-J", "heldjob"]);
    let id = job.to_string();
    let text = show(&c, job);
    for line in [
        &format!("JobId={job} JobName=heldjob\n"),
        "\n   Priority=0 Nice=0 Account=(null) QOS=(null)\n",
        "\n   JobState=PENDING Reason=JobHeldUser Dependency=(null)\n",
        "\n   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n",
        "\n   RunTime=00:00:00 TimeLimit=01:00:00 TimeMin=N/A\n",
        "\n   NumNodes=2-2 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n",
        "\n   TRES=cpu=2,mem=200M,node=2,billing=2\n",
        "\n   MinCPUsNode=1 MinMemoryCPU=100M MinTmpDiskNode=0\n",
        "\n   StdErr=/dev/null\n   StdIn=/dev/null\n   StdOut=/dev/null\n   Power=\n   \n\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let one = c.run(&["scontrol", "-o", "show", "job", &id]).out;
    assert_eq!(one.lines().count(), 1, "{one}");
    check(
        &c,
        &["scontrol", "hold", "9999999"],
        1,
        "",
        "Invalid job id specified for job 9999999\n\
         slurm_suspend error: Invalid job id specified\n",
    );
    check(
        &c,
        &["scontrol", "requeue", "9999999"],
        1,
        "",
        "Invalid job id specified for job 9999999\n",
    );
    let pending = format!("Job is pending execution for job {job}\n");
    check(&c, &["scontrol", "requeue", &id], 1, "", &pending);
    check(&c, &["scontrol", "release", &id], 0, "", "");
    c.until_state(job, JobState::Completed);
    let missing = "slurm_load_jobs error: Invalid job id specified\n";
    check(&c, &["scontrol", "show", "job", "9999999"], 1, "", missing);
    let bad = "scontrol_print_job error: Invalid job id specified\n";
    check(&c, &["scontrol", "show", "job", "foo"], 1, "", bad);
}

#[test]
fn jobs_are_changed() {
    let c = cluster();
    let job = held(&c, &["-t", "20"]);
    let id = format!("jobid={job}");
    let fine = |word: &str| check(&c, &["scontrol", "update", &id, word], 0, "", "");
    let bad = |word: &str, err: &str| {
        let err = err.replace("JOB", &job.to_string());
        check(&c, &["scontrol", "update", &id, word], 1, "", &err);
    };
    fine("TimeLimit=10");
    fine("TimeLimit=+5");
    fine("JobName=new");
    fine("Comment=abc");
    fine("Partition=short");
    fine("Nice=10");
    bad("TimeLimit=foo", "scontrol: error: Invalid TimeLimit value\n");
    bad("NumNodes=99", "Node count specification invalid for job JOB\n");
    bad("Partition=nosuch", "Invalid partition name specified for job JOB\n");
    bad("Features=nosuch", "Invalid feature specification for job JOB\n");
    bad("Foo=1", "Update of this parameter is not supported: Foo=1\nRequest aborted\n");
    let text = show(&c, job);
    for line in [
        " JobName=new\n",
        " TimeLimit=00:15:00 ",
        "\n   Comment=abc \n",
        "\n   Partition=short ",
        " Nice=10 ",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    check(
        &c,
        &["scontrol", "update", "TimeLimit=5"],
        1,
        "",
        "No valid entity in update command\nInput line must include \"NodeName\", \
         \"PartitionName\", \"Reservation\", \"JobId\", or \"SlurmctldDebug\"\n",
    );
}

#[test]
fn nodes_and_partitions() {
    let c = cluster();
    check(
        &c,
        &["scontrol", "update", "nodename=n2", "state=drain"],
        1,
        "",
        "You must specify a reason when DOWNING or DRAINING a node. Request denied\n",
    );
    let drain = [
        "scontrol",
        "update",
        "nodename=n2",
        "state=drain",
        "reason=bad disk",
    ];
    check(&c, &drain, 0, "", "");
    let text = c.run(&["scontrol", "show", "node", "n2"]).out;
    assert!(text.contains("\n   State=IDLE+DRAIN "), "{text}");
    assert!(text.contains("\n   Reason=bad disk ["), "{text}");
    let resume = ["scontrol", "update", "nodename=n2", "state=resume"];
    check(&c, &resume, 0, "", "");
    let state = "slurm_update error: Invalid node state specified\n";
    check(&c, &resume, 1, "", state);
    let name = "slurm_update error: Invalid node name specified\n";
    check(&c, &["scontrol", "update", "nodename=nosuch", "state=idle"], 1, "", name);
    check(&c, &["scontrol", "show", "node", "nosuch"], 1, "Node nosuch not found\n", "");
    let partition = |state: &str| c.run(&["scontrol", "update", "partitionname=short", state]);
    assert_eq!(partition("state=down").code, 0);
    let text = c.run(&["scontrol", "show", "partition", "short"]).out;
    assert!(text.contains("\n   State=DOWN TotalCPUs="), "{text}");
    assert_eq!(
        c.run(&["sbatch", "-p", "short", "-H", "--wrap", "true"])
            .code,
        0
    );
    assert_eq!(partition("state=inactive").code, 0);
    check(
        &c,
        &["sbatch", "-p", "short", "--wrap", "true"],
        1,
        "",
        "sbatch: error: Batch job submission failed: \
         Required partition not available (inactive or drain)\n",
    );
    assert_eq!(partition("state=up").code, 0);
}

#[test]
fn partitions_are_made_and_removed() {
    let c = cluster();
    let say = |line: &str, code, err: &str| {
        let words: Vec<&str> = ["scontrol"].into_iter().chain(line.split(' ')).collect();
        check(&c, &words, code, "", err);
    };
    let done = |line: &str| say(line, 0, "");
    let bad = |line: &str, err: &str| say(line, 1, err);
    done("create PartitionName=qa Nodes=n[1-2]");
    bad(
        "create PartitionName=qa Nodes=n1",
        "Error creating the partition: Invalid partition name specified\n",
    );
    bad(
        "create PartitionName=qb Nodes=nx",
        "Error creating the partition: Invalid node name specified\n",
    );
    done("update PartitionName=qa MaxTime=1 AllowGroups=root Nodes=n2 Hidden=NO");
    bad(
        "update PartitionName=nope MaxTime=1",
        "slurm_update error: Invalid partition name specified\n",
    );
    bad(
        "update PartitionName=qa Hidden=YES",
        "Update of this parameter is not supported: Hidden=YES\nRequest aborted\n",
    );
    let text = c.run(&["scontrol", "show", "partition", "qa"]).out;
    for want in [
        "AllowGroups=root ",
        "MaxTime=00:01:00 ",
        "Nodes=n2\n",
        "TotalNodes=1 ",
    ] {
        assert!(text.contains(want), "{want} in {text}");
    }
    let job = held(&c, &["-p", "qa", "-t", "1"]);
    bad("delete PartitionName=qa", "delete_partition partitionname=qa: Partition is in use\n");
    assert_eq!(c.run(&["scancel", &job.to_string()]).code, 0);
    done("delete PartitionName=qa");
    bad(
        "delete PartitionName=qa",
        "delete_partition partitionname=qa: Invalid partition name specified\n",
    );
}

#[test]
fn reservations_are_made_and_removed() {
    let c = cluster();
    let create = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        c.run(&[&["scontrol", "create", "reservation"], words.as_slice()].concat())
    };
    let made = create("reservationname=r1 starttime=now+1hour duration=60 users=root nodes=n1");
    assert_eq!((made.code, made.out.as_str()), (0, "Reservation created: r1\n"), "{}", made.err);
    let text = c.run(&["scontrol", "show", "reservation"]).out;
    assert!(text.starts_with("ReservationName=r1 StartTime="), "{text}");
    assert!(text.contains(" Duration=01:00:00\n   Nodes=n1 NodeCnt=1 "), "{text}");
    assert!(text.contains("\n   Users=root Groups=(null) "), "{text}");
    let refused = |line: &str, err: &str| {
        let got = create(line);
        assert_eq!((got.code, got.err.as_str()), (1, err), "{line}");
    };
    refused(
        "reservationname=r1 starttime=now+3hour duration=60 users=root nodes=n1",
        "Error creating the reservation: Duplicate reservation name\n",
    );
    refused(
        "reservationname=r2 starttime=now+1hour duration=60 users=root nodes=n1",
        "Error creating the reservation: Requested reservation overlaps with another reservation\n",
    );
    refused(
        "duration=60",
        "scontrol: error: A start time must be given.  No reservation created.\n",
    );
    refused(
        "starttime=now duration=60 users=root nodecnt=99",
        "Error creating the reservation: Requested nodes are busy\n",
    );
    check(&c, &["scontrol", "delete", "reservationname=r1"], 0, "", "");
    // A name is what it says, also when it is one that the controller would have made.
    let made: Vec<Output> = (1..=4)
        .map(|n| {
            let start = 2 * n;
            create(&format!(
                "reservationname=resv{n} starttime=now+{start}hour duration=60 users=root nodes=n1"
            ))
        })
        .collect();
    for (n, got) in (1..).zip(made) {
        assert_eq!(got.out, format!("Reservation created: resv{n}\n"), "{}", got.err);
        let name = format!("resv{n}");
        let text = c.run(&["scontrol", "show", "reservation", &name]).out;
        assert!(text.starts_with(&format!("ReservationName={name} ")), "{text}");
        let job = held(&c, &["--reservation", &name]);
        assert!(show(&c, job).contains(&format!(" Reservation={name}\n")), "{}", show(&c, job));
        assert_eq!(c.run(&["scancel", &job.to_string()]).code, 0);
        let name = format!("reservationname={name}");
        check(&c, &["scontrol", "delete", &name], 0, "", "");
    }
    check(
        &c,
        &["scontrol", "delete", "reservationname=nosuch"],
        1,
        "",
        "delete_reservation reservationname=nosuch: Requested reservation is invalid\n",
    );
    let none = "No reservations in the system\n";
    check(&c, &["scontrol", "show", "reservation"], 0, none, "");
}

#[test]
fn small_things() {
    let c = cluster();
    let out = |words: &[&str], out: &str| check(&c, words, 0, out, "");
    out(&["scontrol", "show", "hostnames", "n[1-3,5]"], "n1\nn2\nn3\nn5\n");
    out(&["scontrol", "show", "hostlist", "n9,n2,n3"], "n[9,2-3]\n");
    out(&["scontrol", "show", "hostlist", "cn099,cn100"], "cn[099-100]\n");
    out(&["scontrol", "show", "hostlistsorted", "n9,n2,n3"], "n[2-3,9]\n");
    out(&["scontrol", "version"], "slurm 22.05.11\n");
    out(&["scontrol", "show", "daemons"], "slurmctld slurmd\n");
    let inside = run::run(
        c.command(&["scontrol", "show", "hostnames"])
            .env("SLURM_JOB_NODELIST", "n[7-8]"),
    );
    assert_eq!((inside.code, inside.out.as_str()), (0, "n7\nn8\n"));
    check(&c, &["scontrol", "show", "hostnames"], 1, "", "scontrol: error: host list is empty\n");
    check(&c, &["scontrol", "foo"], 1, "", "invalid keyword: foo\n");
    check(&c, &["scontrol", "hold"], 1, "", "too few arguments for keyword:hold\n");
    let entity = "invalid entity:foo for keyword:show \n";
    check(&c, &["scontrol", "show", "foo"], 1, "", entity);
    let config = c.run(&["scontrol", "show", "config"]).out;
    assert!(config.contains("\nMinJobAge               = 300 sec\n"), "{config}");
    assert!(config.contains("\nMaxArraySize            = 100001\n"), "{config}");
    let ping = c.run(&["scontrol", "ping"]);
    assert!(ping.out.starts_with("Slurmctld(primary) at ") && ping.out.ends_with(" is UP\n"));
    check(&c, &["strigger", "--get"], 0, "", "");
    assert_eq!(c.run(&["sacctmgr", "-i", "add", "account", "physics"]).code, 0);
    let add = ["sacctmgr", "-i", "add", "user", "ann", "account=physics"];
    assert_eq!(c.run(&add).code, 0);
    let list = ["sacctmgr", "-nP", "show", "assoc", "format=account,user"];
    out(&list, "root|\nphysics|\nphysics|ann\n");
    let tres = ["sacctmgr", "-nP", "list", "tres", "format=id,type"];
    out(&tres, "1|cpu\n2|mem\n3|energy\n4|node\n5|billing\n");
    // There are no limits per user: an empty cell, not a fault.
    let limit = "format=maxsubmitjobsperuser";
    out(&["sacctmgr", "list", "-nP", "qos", "normal", limit], "\n");
}

#[test]
fn scripts_come_back() {
    let c = cluster();
    let job = held(&c, &[]);
    let got = c.run(&["scontrol", "write", "batch_script", &job.to_string(), "-"]);
    assert_eq!(
        (got.code, got.out.as_str()),
        (0, "#!/bin/sh\n# This script was created by sbatch --wrap.\n\ntrue\n")
    );
}

/// A batch job that runs until it is told to stop.
fn running(c: &Cluster) -> JobId {
    let job = c.submit(&script(&c.work(), "exec sleep 600"));
    c.until_state(job, JobState::Running);
    job
}

#[test]
fn administrators_suspend() {
    let c = cluster();
    let job = running(&c);
    let id = job.to_string();
    let done = |words: &[&str]| check(&c, words, 0, "", "");
    done(&["scontrol", "suspend", &id]);
    c.until_state(job, JobState::Suspended);
    assert!(show(&c, job).contains("JobState=SUSPENDED "));
    // Others may have its cores.
    let state = ["sinfo", "-h", "-N", "-p", "short", "-o", "%t %C"];
    let used = |c: &Cluster| c.run(&state).out;
    let idle = used(&c);
    assert!(idle.starts_with("idle 0/"), "{idle}");
    done(&["scontrol", "resume", &id]);
    c.until_state(job, JobState::Running);
    assert!(used(&c).starts_with("mix 1/"), "{}", used(&c));
    // To hold a job that runs is no trouble in Slurm.
    done(&["scontrol", "hold", &id]);
    done(&["scancel", &id]);
    c.until_state(job, JobState::Cancelled);
    let end: Output = c.run(&["scontrol", "wait_job", &id]);
    assert_eq!(end.code, 1, "{}", end.err);
}

#[test]
fn a_slurm_conf_becomes_a_configuration() {
    let c = cluster();
    let conf = c.dir().join("slurm.conf");
    let text = "ClusterName=base\nKillWait=3\nLicenses=lic:2\nFoo=1\n\
        NodeName=n[1-8] CPUs=16 RealMemory=16000 Feature=fa\n\
        PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE\n\
        PartitionName=short Nodes=n[1-2] MaxTime=30\n";
    std::fs::write(&conf, text).unwrap();
    let to = c.dir().join("imported.toml");
    let words = [
        "cadm",
        "import-slurm",
        conf.to_str().unwrap(),
        "-o",
        to.to_str().unwrap(),
    ];
    let got = c.run(&words);
    assert_eq!(got.code, 0, "{}", got.err);
    assert!(got.err.contains("slurm.conf:4: Foo=1 is not carried over"), "{}", got.err);
    let checked = std::process::Command::new(cosy_tests::programs::folder().join("cosyd"))
        .args(["--check", "--config"])
        .arg(&to)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
}

/// The command is ended with the job that it puts back, and still says how it went: programs
/// that save their state and go on later take anything else for a failure.
#[test]
fn a_job_that_puts_itself_back_is_told() {
    let c = cluster();
    let script = "if [ -n \"$SLURM_RESTART_COUNT\" ]; then exit 0; fi\ntrap : TERM\n\
        scontrol requeue $SLURM_JOB_ID\necho $? >code\nsleep 600";
    let job = submit_text(&c, "", script);
    c.until_end(job);
    let code = std::fs::read_to_string(c.work().join("code")).unwrap();
    assert_eq!(code, "0\n");
}
