//! What Slurm's options make of numbers of nodes, tasks and cores.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::JobId;
use cosy_tests::run::Output;
use cosy_tests::{Cluster, Options};
use std::fs;

fn cluster(nodes: usize) -> Cluster {
    Cluster::start(nodes, Options::default())
}

fn run(c: &Cluster, line: &str) -> Output {
    let words: Vec<&str> = line.split(' ').collect();
    c.run(&words)
}

/// Runs the script with these options and gives what it has written.
#[track_caller]
fn batch(c: &Cluster, options: &str, script: &str) -> String {
    let words: Vec<&str> = options.split(' ').collect();
    let words = [&["sbatch", "--parsable", "-o", "out"], &words[..]].concat();
    let said = c.run(&[&words[..], &["--wrap", script]].concat()).expect(0);
    let job = JobId(said.out.trim().parse().unwrap());
    c.until_end(job);
    fs::read_to_string(c.work().join("out")).unwrap()
}

#[test]
fn between_a_least_and_a_most_number_of_nodes() {
    let c = cluster(3);
    let told = "echo $SLURM_JOB_NUM_NODES $SLURM_NNODES $SLURM_JOB_NODELIST \
                $SLURM_TASKS_PER_NODE $SLURM_NTASKS.; srun true; srun -l hostname | wc -l";
    let check = |options: &str, want: &str| assert_eq!(batch(&c, options, told), want, "{options}");
    check("-N1-2", "2 2 n[1-2] 1(x2) .\n2\n");
    check("-N2-8", "3 3 n[1-3] 1(x3) .\n3\n");
    check("-N1-2 --ntasks-per-node=2", "2 2 n[1-2] 2(x2) 2.\n2\n");
    check("-N1-3 --use-min-nodes", "1 1 n1 1 .\n1\n");
    let said = c.run(&["srun", "-l", "-N1-2", "sh", "-c", "echo $SLURM_NNODES"]);
    let mut lines: Vec<&str> = said.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: 2", "1: 2"], "{}", said.err);
}

#[test]
fn more_tasks_than_cores() {
    let c = cluster(2);
    let told =
        "echo $SLURM_OVERCOMMIT $SLURM_NTASKS $SLURM_JOB_CPUS_PER_NODE; srun hostname | wc -l";
    assert_eq!(batch(&c, "-O -N1 -n9", told), "1 9 1\n9\n");
    assert_eq!(batch(&c, "-O -N2 -n10 -c2", told), "1 10 2(x2)\n10\n");
    // In a job that has enough for itself only.
    let step = "srun -O -n6 hostname | wc -l; srun -n6 true 2>&1 | head -1";
    let said = batch(&c, "-n1", step);
    assert!(said.starts_with("6\nsrun: error:"), "{said}");
    let said = run(&c, "srun -O -n12 -N2 -l hostname");
    assert_eq!((said.code, said.out.lines().count()), (0, 12), "{}", said.err);
}

#[test]
fn gpus_of_tasks_and_nodes() {
    let options = Options {
        noded: |_| "gpus = 2".into(),
        ..Options::default()
    };
    let c = Cluster::start(2, options);
    let seen = |output: &str| {
        let mut lines: Vec<String> = output.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let each = ["sh", "-c", "echo $CUDA_VISIBLE_DEVICES"];
    // Whether the whole job is for the step or not, a task sees what it asked for.
    let outside = ["srun", "-n2", "-N1", "--gpus-per-task=1"];
    let got = c.run(&[&outside[..], &each].concat()).expect(0);
    assert_eq!(seen(&got.out), ["0", "1"]);
    let whole = ["srun", "--exclusive", "-n1", "--gpus-per-task=1"];
    let got = c.run(&[&whole[..], &each].concat()).expect(0);
    assert_eq!(got.out, "0\n");
    let script = "srun sh -c 'echo $CUDA_VISIBLE_DEVICES'; scontrol -d show job $SLURM_JOB_ID | grep GRES= | sed 's/ CPU.*GRES/ GRES/'";
    let got = batch(&c, "-n2 -w n1 --gpus-per-task=1", script);
    let want = [
        "     Nodes=n1 GRES=gpu:2(IDX:0-1)",
        "   JOB_GRES=gpu:2",
        "0",
        "1",
    ];
    assert_eq!(seen(&got), want);
    assert_eq!(run(&c, "sinfo -h -o %G").out, "gpu:2\n");
    // More than one node has.
    let got = run(&c, "srun --gpus=4 printenv SLURMD_NODENAME SLURM_GPUS_ON_NODE").expect(0);
    assert_eq!(seen(&got.out), ["2", "2", "n1", "n2"]);
    let got = run(&c, "srun --gpus=3 printenv SLURM_GPUS_ON_NODE").expect(0);
    assert_eq!(seen(&got.out), ["1", "2"]);
    let got = run(&c, "srun -n3 --gpus-per-task=1 printenv SLURM_NNODES").expect(0);
    assert_eq!(got.out, "2\n2\n2\n");
}

#[test]
fn features_that_are_preferred() {
    let c = cluster(3);
    run(&c, "scontrol update nodename=n3 features=fast").expect(0);
    let told = "echo $SLURM_JOB_NODELIST";
    assert_eq!(batch(&c, "-N1 --prefer=fast", told), "n3\n");
    assert_eq!(batch(&c, "-N2 --prefer=fast", told), "n[1,3]\n");
    assert_eq!(batch(&c, "-N3 --prefer=fast", told), "n[1-3]\n");
    assert_eq!(batch(&c, "-N1", told), "n1\n");
    run(&c, "sbatch -H --prefer=fast --wrap true").expect(0);
    assert_eq!(run(&c, "squeue -h -O prefer:.6").out, "  fast\n");
    let said = run(&c, "sbatch --prefer=slow --wrap true");
    let want = "sbatch: error: Batch job submission failed: \
                Invalid preferred feature specification\n";
    assert_eq!((said.code, said.err.as_str()), (1, want));
}

#[test]
fn features_that_too_few_nodes_have_are_refused() {
    let c = cluster(3);
    run(&c, "scontrol update nodename=n1 features=fa").expect(0);
    run(&c, "scontrol update nodename=n2 features=fb").expect(0);
    let submit = |options: &str| run(&c, &format!("sbatch -H -o /dev/null {options} --wrap true"));
    for options in ["-C [fa|fb] -N2", "-C fa -N2", "-C fa|fb -N3", "-x n1 -N3"] {
        let said = submit(options);
        let want = "sbatch: error: Batch job submission failed: \
                    Requested node configuration is not available\n";
        assert_eq!((said.code, &*said.err), (1, want), "{options}");
    }
    for options in ["-C [fa|fb] -N1", "-C fa|fb -N2", "-N9"] {
        submit(options).expect(0);
    }
}

#[test]
fn what_has_no_effect_is_told() {
    let c = cluster(1);
    let line = "sbatch -H -o /dev/null --qos=high --hint=nomultithread --hint=nomultithread \
                --threads-per-core=1 -A lab --mail-type=END --wrap true";
    let words: Vec<&str> = line.split_whitespace().collect();
    let told = c.run(&words).expect(0).err;
    let cores = "has no effect: tasks are given what their nodes count as cores, which may be \
                 hardware threads";
    let want = [
        format!("sbatch: --hint {cores}"),
        format!("sbatch: --threads-per-core {cores}"),
        "sbatch: there is no quality of service 'high'; the job is recorded with it all the same; \
         no mail will be sent: the cluster has no mail_command"
            .to_owned(),
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), want);
    // Where there are accounts, one that is none.
    run(&c, "sacctmgr -i add account physics").expect(0);
    let account = "there is no account 'lab'; the job is recorded with it all the same\n";
    let qos = "there is no quality of service 'high'; the job is recorded with it all the same\n";
    // Each once, also where it is asked for twice.
    let both = "-A lab --account=lab -q high --qos=high";
    for (program, rest) in [
        ("sbatch", "-H -o /dev/null --wrap true"),
        ("salloc", "true"),
    ] {
        let out = run(&c, &format!("{program} {both} {rest}")).expect(0);
        let said = |line: &str| out.err.matches(line.trim_end()).count();
        // An allocation that comes at once comes without a word.
        let least = usize::from(program == "sbatch");
        assert!((least..=1).contains(&said(qos)), "{out:?}");
        assert!((least..=1).contains(&said(account)), "{out:?}");
    }
    // Of one that there is nothing is told.
    run(&c, "sacctmgr -i add qos high").expect(0);
    let told = run(&c, "sbatch -H -o /dev/null --qos=high --wrap true").expect(0);
    assert_eq!(told.err, "");
}

/// Whole nodes get their tasks in turn; where a job has only what its tasks asked for, the first
/// node is filled.
#[test]
fn tasks_on_whole_nodes_go_round() {
    let c = cluster(2);
    let told = [
        "sh",
        "-c",
        "echo $SLURM_PROCID $SLURMD_NODENAME $SLURM_TASKS_PER_NODE",
    ];
    let check = |options: &str, want: &[&str]| {
        let words: Vec<&str> = options.split(' ').collect();
        let said = c.run(&[&["srun"][..], &words, &told].concat()).expect(0);
        let mut lines: Vec<&str> = said.out.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, want, "{options}");
    };
    let even = ["0 n1 2(x2)", "1 n1 2(x2)", "2 n2 2(x2)", "3 n2 2(x2)"];
    check("-N2 -n4 --exclusive", &even);
    check("-N2 -n4", &["0 n1 3,1", "1 n1 3,1", "2 n1 3,1", "3 n2 3,1"]);
    let round = ["0 n1 2,1", "1 n2 2,1", "2 n1 2,1"];
    check("-N2 -n3 --exclusive -m cyclic", &round);
    check(
        "-N2 -n5 --ntasks-per-node=4 -c1 --exclusive",
        &["0 n1 3,2", "1 n1 3,2", "2 n1 3,2", "3 n2 3,2", "4 n2 3,2"],
    );
    let script = "echo $SLURM_TASKS_PER_NODE; srun -l hostname | wc -l";
    assert_eq!(batch(&c, "-N2 -n6 --exclusive", script), "3(x2)\n6\n");
    assert_eq!(batch(&c, "-N2 -n6", script), "4,2\n6\n");
}
