//! What `srun` does with a step: where it begins, how many tasks it has, what it says of it.
//! The texts are those that the original prints.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_tests::shell::{batch, check, shell, submit, submit_text};
use cosy_tests::{Cluster, Options, wait};
use std::fs;

fn cluster(nodes: usize) -> Cluster {
    Cluster::start(nodes, Options::default())
}

#[test]
fn verbose_tells_where_the_tasks_are() {
    let c = cluster(2);
    let said = shell(&c, "srun -v -t1 -N2 -n3 true").err;
    let line = |begin: &str| {
        let found = said.lines().find_map(|l| l.strip_prefix(begin));
        found.unwrap_or_else(|| panic!("no {begin} in\n{said}"))
    };
    assert_eq!(line("srun: time                : "), "00:01:00");
    let (job, nodes) = line("srun: jobid ").split_once(": ").unwrap();
    assert_eq!(nodes, "nodes(2):`n[1-2]', cpu counts: 2(x1),1(x1)");
    let step = format!("{job}.0");
    for (node, tasks) in [("n1", "2 tasks: [0-1]"), ("n2", "1 tasks: 2")] {
        let begin = format!("srun: launching StepId={step} on host {node}, ");
        assert_eq!(line(&begin), tasks);
    }
    line("srun: launch/slurm: _task_start: Node n1, 2 tasks started");
    line("srun: launch/slurm: _task_finish: n2: task 2: Completed");
    let by_variable = shell(&c, "SLURM_DEBUG=1 srun true").err;
    assert!(by_variable.contains("srun: jobid "), "{by_variable}");
}

#[test]
fn relative_to_a_node_of_the_job() {
    let c = cluster(3);
    let text = "for r in 0 1; do srun -N2 -n2 -r$r -l printenv SLURMD_NODENAME | sort; done
        srun -n1 -r2 -Q printenv SLURMD_NODENAME
        srun -N2 -n2 -r2 true; srun -r1 true; srun -r1 -n1 -Q -w n1 true; srun -r x true";
    let (_, out) = batch(&c, "-N3", text);
    assert_eq!(
        out,
        "0: n1\n1: n2\n0: n2\n1: n3\nn3\n\
         srun: error: --relative and --nodes option incompatible with count of allocated nodes (2+2>3)\n\
         srun: error: --relative and SLURM_JOB_NUM_NODES option incompatible with count of \
         allocated nodes (1+3>3)\n\
         srun: error: -r,--relative not allowed with -w,--nodelist or -x,--exclude.\n\
         srun: error: Invalid numeric value \"x\" for --relative.\n"
    );
    let fatal = "srun: fatal: --relative option invalid for job allocation request\n";
    check(&c, "srun -r1 true", 1, "", fatal);
}

#[test]
fn numbers_of_tasks_and_cores() {
    let c = cluster(2);
    let counts = "sh -c 'echo $SLURM_NNODES $SLURM_NTASKS $SLURM_STEP_NUM_TASKS'";
    let text = format!("srun -E -N1 -n1 {counts}; srun -N1 -n1 {counts}");
    let (_, out) = batch(&c, "-N2 -n4", &text);
    assert_eq!(out, "2 4 1\n1 1 1\n");
    // Whole nodes are filled with tasks.
    let line = "srun --exclusive -c1 sh -c 'test $SLURM_NTASKS = $SLURM_CPUS_ON_NODE' && echo full";
    check(&c, line, 0, "full\n", "");
    let line = "srun --mincpus=2 printenv SLURM_CPUS_ON_NODE";
    check(&c, line, 0, "2\n", "");
    for number in ["8000", "999999"] {
        let line = format!("srun --mincpus={number} true");
        let why = "srun: error: CPU count per node can not be satisfied\n\
            srun: error: Unable to allocate resources: Requested node configuration is not available\n";
        check(&c, &line, 1, "", why);
    }
}

#[test]
fn limits_of_steps() {
    let c = cluster(1);
    let text = "srun -t7 --mem=20 scontrol show step $SLURM_JOB_ID | grep -oE '(TimeLimit|TRES)=.*'
        srun --exact -n1 sh -c 'touch up; exec sleep 1000' & first=$!
        while [ ! -e up ]; do sleep 0.05; done
        srun --exact -n1 --immediate=1 echo never; echo $?
        kill $first; wait $first 2>/dev/null";
    let (job, out) = batch(&c, "-n1 --mem=50", text);
    let want = format!(
        "TimeLimit=UNLIMITED\nTRES=(null)\nTimeLimit=00:07:00\nTRES=cpu=1,mem=20M,node=1\n\
         srun: error: Unable to create step for job {job}: Requested nodes are busy\n1\n"
    );
    assert!(out.starts_with(&want), "{out}");
    let too_long = "srun: error: Unable to allocate resources: Invalid time-min specification \
                    (exceeds job's time or other limits)\n";
    let line = "srun --deadline now+1hour --time-min 120 true";
    check(&c, line, 1, "", too_long);
}

#[test]
fn limits_of_steps_are_changed_while_they_run() {
    let c = cluster(1);
    let text = "srun --exact -n1 -t30 sleep 1000 & srun --exact -n1 sleep 1000 & wait";
    let job = submit_text(&c, "-n2 -t60", text);
    // The script is a step, too; which of the others is first is chance.
    let line = format!("squeue -hs -j {job} -o '%i %l' | grep -v batch");
    let steps = || Some(shell(&c, &line).out).filter(|s| s.lines().count() == 2);
    let both = wait::until("both steps", steps);
    let own = both.lines().find_map(|line| line.strip_suffix(" 30:00"));
    let own = own.unwrap_or_else(|| panic!("{both}"));
    let other = both
        .lines()
        .find_map(|line| line.strip_suffix(" UNLIMITED"));
    let other = other.unwrap_or_else(|| panic!("{both}"));
    let has = |step: &str, limit: &str| {
        let line = format!("scontrol show step {step} | grep -o 'TimeLimit=[^ ]*'");
        check(&c, &line, 0, &format!("TimeLimit={limit}\n"), "");
    };
    let update = |step: &str, limit: &str, code: i32, said: &str| {
        let line = format!("scontrol update StepId={step} TimeLimit={limit}");
        check(&c, &line, code, "", said);
    };
    update(own, "20", 0, "");
    has(own, "00:20:00");
    update(own, "+5", 0, "");
    update(own, "-3", 0, "");
    has(own, "00:22:00");
    let less = "scontrol: error: TimeLimit decrement larger than current time limit (60 > 22)\n";
    update(own, "-60", 1, less);
    let without = "scontrol: error: Cannot increment/decrement TimeLimit when set to UNLIMITED.\n";
    update(other, "+5", 1, without);
    update(&format!("{job}"), "10", 0, "");
    has(own, "00:10:00");
    has(other, "00:10:00");
    update(other, "UNLIMITED", 0, "");
    has(other, "UNLIMITED");
    let none = "slurm_update error: Invalid job id specified\n";
    update(&format!("{job}.7"), "5", 1, none);
    update("99999.0", "5", 1, none);
    let begun = submit(&c, "-H --wrap true");
    update(&format!("{begun}"), "5", 1, none);
    let line = format!("scontrol update StepId={own}");
    check(&c, &line, 1, "", "No changes specified\n");
}

#[test]
fn programs_around_tasks() {
    let c = cluster(1);
    let script = "#!/bin/sh\nexit 3\n";
    fs::write(c.work().join("three.sh"), script).unwrap();
    shell(&c, "chmod +x three.sh");
    check(
        &c,
        "srun --task-epilog=$PWD/three.sh echo ran",
        0,
        "ran\n",
        "slurmstepd: error: TaskEpilog failed status=768\n",
    );
    check(
        &c,
        "srun --task-epilog=/nonexist echo ran",
        0,
        "ran\n",
        "slurmstepd: error: Could not run user task_epilog [/nonexist]: access denied\n\
         slurmstepd: error: TaskEpilog failed status=-1\n",
    );
    let before = shell(&c, "srun --task-prolog=$PWD/three.sh echo ran");
    assert_eq!((before.code, before.out.as_str()), (3, ""));
    let why = "slurmstepd: error: --task-prolog failed status=3\n";
    assert!(before.err.contains(why), "{}", before.err);
}

#[test]
fn variables_that_srun_sets() {
    let c = cluster(1);
    let port = shell(&c, "srun printenv SLURM_SRUN_COMM_PORT").out;
    assert!(port.trim().parse::<u16>().is_ok_and(|p| p > 0), "{port}");
    let named = "A=1 srun --export=A,B=2 /usr/bin/env | grep -c 'B=2'";
    check(&c, named, 0, "1\n", "");
    let user = "unset USER; srun -o u.%u true; ls u.*";
    let name = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap();
    let name = name.unwrap().name;
    check(&c, user, 0, &format!("u.{name}\n"), "");
    let account = "sbatch -H -Q --parsable -A MyAcct --wrap true >/dev/null; squeue -h -o %a";
    check(&c, account, 0, "myacct\n", "");
}

/// A script gives nodes of its job back, and steps begin on those that are left.
#[test]
fn a_job_becomes_smaller_while_it_runs() {
    let c = Cluster::start(3, Options::default());
    let text = "srun -N3 -n3 sleep 100 2>/dev/null &\n\
        until squeue -h -s -j $SLURM_JOB_ID | grep -q '\\.0 '; do sleep 0.05; done\n\
        scontrol update JobId=$SLURM_JOB_ID NumNodes=2; echo rc=$?\n\
        . ./slurm_job_${SLURM_JOB_ID}_resize.sh\n\
        echo $SLURM_NNODES $SLURM_JOB_NODELIST ${SLURM_NTASKS-none} $COSY_TASKS\n\
        scancel $SLURM_JOB_ID.0; wait\n\
        srun -l printenv SLURMD_NODENAME | sort\n\
        srun -N3 true; echo rc=$?\n\
        scontrol update JobId=$SLURM_JOB_ID NodeList=n2; echo rc=$?\n\
        scontrol update JobId=$SLURM_JOB_ID NumNodes=3; echo rc=$?\n\
        scontrol show job $SLURM_JOB_ID | grep -c ResizeTime=";
    let (job, out) = batch(&c, "-N3 --exclusive", text);
    let want = format!(
        "To reset Slurm environment variables, execute\n  \
         For bash or sh shells:  . ./slurm_job_{job}_resize.sh\n  \
         For csh shells:         source ./slurm_job_{job}_resize.csh\n\
         rc=0\n2 n[1-2] none 2\n0: n1\n1: n2\n"
    );
    assert!(out.starts_with(&want), "{out}");
    assert!(out.contains("\nrc=1\nInvalid node name specified"), "{out}");
    assert!(out.contains("\nNode count specification invalid for job "), "{out}");
    assert!(out.ends_with("\nrc=1\n1\n"), "{out}");
}
