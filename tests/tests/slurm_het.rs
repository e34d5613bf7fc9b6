//! Heterogeneous jobs: components that differ in what they ask for, each with nodes of its own.
//! Texts and names of variables are those of the original.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::shell::{read, shell, submit};
use cosy_tests::{Cluster, Options};
use std::fs;

const SCRIPT: &str = "#!/bin/sh
#SBATCH -n1 -c2 -o het.out
#SBATCH hetjob
#SBATCH -N2 -n3 -c1
#SBATCH packjob
#SBATCH -J third -n2
squeue -h -j $SLURM_JOB_ID -o '%i %j %D %N %T' --sort=i
env | grep -E '^SLURM_' | sort
";

fn cluster(nodes: usize) -> Cluster {
    let c = Cluster::start(nodes, Options::default());
    fs::write(c.work().join("het.sh"), SCRIPT).unwrap();
    c
}

#[test]
fn components_of_a_script() {
    let c = cluster(4);
    let job = submit(&c, "het.sh");
    c.until(job, "it has ended", |row| row.state == JobState::Completed);
    let out = read(&c, "het.out");
    let JobId(id) = job;
    let (second, third) = (id + 1, id + 2);
    for line in [
        format!("{id}+0 het.sh 1 n1 RUNNING"),
        format!("{id}+1 het.sh 2 n[2-3] RUNNING"),
        format!("{id}+2 third 1 n4 RUNNING"),
        "SLURM_HET_SIZE=3".to_owned(),
        "SLURM_JOB_NODELIST=n1".to_owned(),
        format!("SLURM_JOB_ID_HET_GROUP_1={second}"),
        "SLURM_JOB_NODELIST_HET_GROUP_1=n[2-3]".to_owned(),
        "SLURM_CPUS_PER_TASK_HET_GROUP_0=2".to_owned(),
        "SLURM_CPUS_PER_TASK_HET_GROUP_1=1".to_owned(),
        "SLURM_NTASKS_HET_GROUP_1=3".to_owned(),
        "SLURM_TASKS_PER_NODE_PACK_GROUP_1=2,1".to_owned(),
        "SLURM_JOB_NAME_HET_GROUP_2=third".to_owned(),
        format!("SLURM_JOB_ID_PACK_GROUP_2={third}"),
    ] {
        assert!(out.lines().any(|l| l == line), "{line} is missing in\n{out}");
    }
    assert!(!out.contains("SLURM_CPUS_PER_TASK="), "{out}");
    let told = shell(&c, &format!("sacct -nPX -j {id} -o jobid,jobidraw,alloccpus,nodelist"));
    let want = format!("{id}+0|{id}|2|n1\n{id}+1|{second}|3|n[2-3]\n{id}+2|{third}|2|n4\n");
    assert_eq!(told.out, want);
}

#[test]
fn components_that_wait() {
    let c = cluster(2);
    let job = submit(&c, "--hold -n1 -J a : -n3 : -J b -N1 --wrap true");
    let JobId(id) = job;
    let list = |of: &str| shell(&c, &format!("squeue -h -o '%i %A %j %C' --sort=i -j {of}")).out;
    let component = |at: u64, rest: &str| format!("{id}+{at} {} {rest}\n", id + at);
    let all = [
        component(0, "a 1"),
        component(1, "a 3"),
        component(2, "b 1"),
    ];
    assert_eq!(list(&id.to_string()), all.concat());
    assert_eq!(list(&format!("{id}+1")), all[1]);
    assert_eq!(list(&(id + 2).to_string()), all[2]);
    let told = shell(&c, &format!("scontrol show job {id}+1")).out;
    let head = format!(
        "JobId={} HetJobId={id} HetJobOffset=1 JobName=a\n   HetJobIdSet={id}-{}\n",
        id + 1,
        id + 2
    );
    assert!(told.starts_with(&head), "{told}");
    assert!(told.contains("NumNodes=1 NumCPUs=3 NumTasks=3 "), "{told}");
    assert_eq!(told.matches("JobId=").count(), 2, "{told}");
    let json = shell(&c, "squeue --json").out;
    let set = format!("\"het_job_id_set\": \"{id}-{}\"", id + 2);
    assert!(json.contains(&set), "{json}");
    let got = shell(&c, &format!("scancel {id}+1"));
    assert_eq!(got.code, 60);
    assert!(
        got.err
            .contains("individual component of heterogeneous job"),
        "{}",
        got.err
    );
    assert_eq!(shell(&c, &format!("scancel {id}")).code, 0);
    assert_eq!(list(&id.to_string()), "");
}

#[test]
fn components_of_an_allocation() {
    let c = cluster(2);
    let got = shell(&c, "salloc -n1 : -n2 sh -c 'env | grep ^SLURM | sort'");
    assert_eq!(got.code, 0, "{}", got.err);
    for line in [
        "SLURM_HET_SIZE=2",
        "SLURM_NODELIST_HET_GROUP_0=n1",
        "SLURM_NODELIST_HET_GROUP_1=n2",
        "SLURM_NTASKS=3",
    ] {
        assert!(got.out.lines().any(|l| l == line), "{line}: {}", got.out);
    }
    assert!(!got.out.contains("SLURM_JOB_NODELIST="), "{}", got.out);
}

const STEPS: &str = "#!/bin/sh
srun sh -c 'echo first $SLURMD_NODENAME $SLURM_NTASKS'
srun --het-group=1 sh -c 'echo second $SLURMD_NODENAME $SLURM_PROCID' | sort
srun -l --het-group=0-2 sh -c 'echo $SLURMD_NODENAME $SLURM_NTASKS $SLURM_JOB_ID' | sort
srun -l --het-group=0,2 echo a : --het-group=1 echo b | sort
srun -l -n1 : -n1 echo c | sort
srun --het-group=3 true
srun --het-group=0 true : --het-group=0 true
";

#[test]
fn steps_in_components_and_over_them() {
    let c = cluster(3);
    fs::write(c.work().join("steps.sh"), STEPS).unwrap();
    let got = shell(&c, "salloc -n1 : -n2 : -n1 sh steps.sh");
    let job = got
        .err
        .split_whitespace()
        .find_map(|w| w.parse::<u64>().ok())
        .unwrap();
    let over = ["n1", "n2", "n2", "n3"].into_iter().enumerate();
    let over: String = over
        .map(|(rank, node)| format!("{rank}: {node} 4 {job}\n"))
        .collect();
    let want =
        format!("first n1 1\nsecond n2 0\nsecond n2 1\n{over}0: a\n1: b\n2: b\n3: a\n0: c\n1: c\n");
    assert_eq!(got.out, want, "{}", got.err);
    let what = "srun: error: Attempt to run a job step with het group value of 3, but the job \
        allocation has maximum value of 2\n";
    assert!(got.err.contains(what), "{}", got.err);
    let what = "srun: fatal: Duplicate het groups in single srun not supported\n";
    assert!(got.err.contains(what), "{}", got.err);
}

#[test]
fn a_step_with_a_job_of_several_components() {
    let c = cluster(2);
    let got =
        shell(&c, "srun -l -n1 echo a : -n2 sh -c 'echo $SLURMD_NODENAME $SLURM_NTASKS' | sort");
    assert_eq!(got.out, "0: a\n1: n2 3\n2: n2 3\n", "{}", got.err);
    let got = shell(&c, "salloc -n2 srun true : true");
    assert!(got.err.contains("heterogeneous job"), "{}", got.err);
}
