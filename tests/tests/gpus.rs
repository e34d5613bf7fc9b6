//! GPUs that are found by themselves: offered with their types, watched, shared, bound to tasks. What
//! their vendors' libraries say comes from a file.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_model::{JobId, JobState};
use cosy_tests::fake_gpus::{CONFIGURED, FakeGpus};
use cosy_tests::terminal::lines_on;
use cosy_tests::{Cluster, Options, script, shell, wait};
use std::fs;

const TWO: &str =
    "nvidia|Tesla T4|GPU-aaaa|0|1b|97|1048576|0\nnvidia|Tesla T4|GPU-bbbb|1|3b|0|0|0\n";

fn watched(_: usize) -> String {
    format!("{CONFIGURED}health_interval = '1s'\n")
}

fn idle_ones_end(_: usize) -> String {
    format!("{CONFIGURED}sample_interval = '1s'\ngpu_idle_limit = '2s'\ngpu_idle_action = 'end'\n")
}

fn in_shards(_: usize) -> String {
    format!("{CONFIGURED}gpu_shards = 4\n")
}

/// A cluster of one node with these GPUs; `None` where none can be faked, which is said.
fn cluster(gpus: &str, noded: fn(usize) -> String) -> Option<(Cluster, FakeGpus)> {
    let options = Options {
        noded,
        ..Options::default()
    };
    let c = Cluster::prepare(1, options);
    let fake = FakeGpus::of_node_or_skip(&c, 0, gpus)?;
    Some((c.start_prepared(), fake))
}

/// The output of a batch script that is submitted so.
#[track_caller]
fn batch(c: &Cluster, options: &str, text: &str) -> String {
    shell::batch(c, options, text).1
}

const SEEN: &str = "echo \"${CUDA_VISIBLE_DEVICES-unset} ${ROCR_VISIBLE_DEVICES-unset}\"";

#[test]
fn gpus_of_all_kinds_are_found() {
    let gpus = "print\n\
        nvidia|NVIDIA A100-SXM4-40GB|GPU-aaaa|0|1b|0|0|0\n\
        nvidia|NVIDIA A100-SXM4-40GB|GPU-bbbb|1|3b|0|0|0\n\
        slice|NVIDIA A100-SXM4-40GB MIG 1g.5gb|MIG-cccc|7|0\n\
        slice|NVIDIA A100-SXM4-40GB MIG 1g.5gb|MIG-dddd|8|0\n\
        amd|AMD Instinct MI250X|123456789abcdef|128|c5|0|0\n";
    let Some((c, _fake)) = cluster(gpus, |_| CONFIGURED.to_owned()) else {
        return;
    };
    let node = &c.node_infos()[0];
    assert_eq!(node.gpu_types, ["a100", "a100.mig-1g.5gb", "a100.mig-1g.5gb", "mi250x"]);
    assert_eq!((node.amounts.gpus, node.state.as_str()), (4, "idle"));
    assert_eq!(batch(&c, "--gres=gpu:a100:1", SEEN), "GPU-aaaa \n");
    assert_eq!(batch(&c, "--gres=gpu:a100.mig-1g.5gb:2", SEEN), "MIG-cccc,MIG-dddd \n");
    assert_eq!(batch(&c, "--gpus-per-node=mi250x:1", SEEN), " GPU-0123456789abcdef\n");
    assert_eq!(batch(&c, "", SEEN), " \n");
    let got = c
        .run(&["sbatch", "--gres=gpu:h100:1", "script.sh"])
        .expect(1);
    let none = "Requested node configuration is not available";
    assert!(got.err.contains(none), "{}", got.err);
    assert!(
        c.logs()
            .contains("GPUs found: 4 (1 a100, 2 a100.mig-1g.5gb, 1 mi250x)")
    );
}

#[test]
fn alike_gpus_have_numbers() {
    let Some((c, _fake)) = cluster(TWO, |_| format!("{CONFIGURED}gpu_types = {{'T4' = 'turing'}}"))
    else {
        return;
    };
    assert_eq!(c.node_infos()[0].gpu_types, ["turing", "turing"]);
    assert_eq!(batch(&c, "--gpus=2", SEEN), "0,1 unset\n");
    // Devices of others cannot be opened, or numbers are those of the node.
    let got =
        batch(&c, "-n2 --gpus=2", "srun --gpus-per-task=1 sh -c 'echo $CUDA_VISIBLE_DEVICES'");
    assert!(["0\n0\n", "0\n1\n", "1\n0\n"].contains(&got.as_str()), "{got}");
}

#[test]
fn a_gpu_that_is_gone_drains_its_node() {
    let Some((c, fake)) = cluster(TWO, watched) else {
        return;
    };
    let mut submission = script(&c.work(), "while ! [ -e go ]; do sleep 0.05; done");
    submission.spec.request.gpus_per_node = 1;
    let job = c.submit(&submission);
    c.until_state(job, JobState::Running);
    let (first, second) = TWO.split_once('\n').unwrap();
    fake.set(&format!("{first}\nlost\n"));
    let node = c.until_node("n1", "is drained", |n| n.reason.contains("is gone"));
    let want = "GPU 1 (Tesla T4, GPU-bbbb at 0000:3b:00.0) is gone; GPU number 1: nvmlDeviceGetHandleByIndex_v2: GPU is lost (15)";
    assert!(node.reason.contains(want), "{}", node.reason);
    // Its job goes on, and others wait.
    let next = c.submit(&submission);
    assert_eq!(c.row(next).state, JobState::Waiting);
    fake.set(&format!("{first}\n{second}"));
    c.run(&["cadm", "node", "resume", "n1"]).expect(0);
    fs::write(c.work().join("go"), "").unwrap();
    c.until_end(job).expect_state(JobState::Completed);
    c.until_end(next).expect_state(JobState::Completed);
    // A fault that the GPU itself tells.
    fake.set(&TWO.replace("97|1048576|0", "97|1048576|1"));
    let node = c.until_node("n1", "is drained", |n| n.reason.contains("rows of its memory"));
    assert!(node.reason.contains("GPU 0 (Tesla T4, GPU-aaaa"), "{}", node.reason);
}

#[test]
fn numbers_stay_while_jobs_run() {
    let Some((mut c, fake)) = cluster(TWO, watched) else {
        return;
    };
    let text = "while ! [ -e go ]; do sleep 0.05; done";
    let mut submission = script(&c.work(), text);
    submission.spec.request.gpus_per_node = 1;
    let jobs = [c.submit(&submission), c.submit(&submission)];
    for job in jobs {
        c.until_state(job, JobState::Running);
    }
    // The daemon starts anew while the first GPU does not answer: the second one stays the second.
    c.nodes[0].kill();
    fake.set(TWO.split_once('\n').unwrap().1);
    c.start_noded(0);
    let node = c.until_node("n1", "is drained", |n| n.reason.contains("is gone"));
    assert!(node.reason.contains("GPU 0 (Tesla T4, GPU-aaaa"), "{}", node.reason);
    assert_eq!(node.amounts.gpus, 2);
    fs::write(c.work().join("go"), "").unwrap();
    for job in jobs {
        c.until_end(job).expect_state(JobState::Completed);
    }
    // Without jobs too: one that is gone is missed until somebody says that it does not come back.
    c.nodes[0].kill();
    c.start_noded(0);
    let node = c.until_node("n1", "is here again", |n| n.state == "drained");
    assert_eq!((node.amounts.gpus, node.gpu_types.len()), (2, 2));
    c.nodes[0].kill();
    fs::remove_file(c.node_dir(0).join("spool/n1/gpus.toml")).unwrap();
    c.start_noded(0);
    c.until_node("n1", "has one GPU", |n| n.amounts.gpus == 1);
}

#[test]
fn libraries_that_misbehave_drain_the_node_and_nothing_else() {
    let Some((c, fake)) = cluster(TWO, watched) else {
        return;
    };
    let drained = |why: &str| {
        let node = c.until_node("n1", why, |n| n.reason.contains(why));
        assert_eq!(node.amounts.gpus, 2, "{}", node.reason);
        fake.set(TWO);
        c.until_node("n1", "is well", |n| n.state == "drained");
        c.run(&["cadm", "node", "resume", "n1"]).expect(0);
        c.until_node("n1", "takes jobs", |n| n.state == "idle");
    };
    fake.set("crash");
    drained("a library of their vendor has ended it");
    fake.set("broken");
    drained("nvmlInit_v2: Driver/library version mismatch (18)");
    fake.set("nonsense|||\n|||\n\u{1b}[31m\nnvidia\nslice\n");
    drained("is gone");
    assert_eq!(batch(&c, "--gpus=2", SEEN), "0,1 unset\n");
}

#[test]
fn gpus_in_shards() {
    let Some((c, _fake)) = cluster(TWO, in_shards) else {
        return;
    };
    let node = &c.node_infos()[0];
    assert_eq!((node.amounts.gpus, node.amounts.other.get("shard")), (0, 8));
    let text = "echo $CUDA_VISIBLE_DEVICES $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE > seen.$COSY_JOB_ID.new\n\
        mv seen.$COSY_JOB_ID.new seen.$COSY_JOB_ID\nwhile ! [ -e go ]; do sleep 0.05; done";
    let mut submission = script(&c.work(), text);
    let mut submit = |shards| {
        submission.spec.request.other_per_node.set("shard", shards);
        let job = c.submit(&submission);
        c.until_state(job, JobState::Running);
        job
    };
    let seen = |job: JobId| {
        let path = c.work().join(format!("seen.{job}"));
        wait::until("the job tells", || fs::read_to_string(&path).ok())
    };
    let jobs = [submit(2), submit(3), submit(2), submit(1)];
    let percent: Vec<String> = jobs
        .map(seen)
        .map(|t| t.trim().rsplit(' ').next().unwrap().to_owned())
        .into();
    assert_eq!(percent, ["50", "75", "50", "25"]);
    submission.spec.request.other_per_node.set("shard", 1);
    let waits = c.submit(&submission);
    assert_eq!(c.row(waits).state, JobState::Waiting, "all are given");
    fs::write(c.work().join("go"), "").unwrap();
    for job in jobs {
        c.until_end(job).expect_state(JobState::Completed);
    }
    c.until_end(waits).expect_state(JobState::Completed);
    assert_eq!(
        batch(
            &c,
            "--gres=shard:4",
            "echo $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE $SLURM_SHARDS_ON_NODE"
        ),
        "100 4\n"
    );
    let got = c.run(&["sbatch", "--gpus=1", "script.sh"]).expect(1);
    assert!(!got.err.is_empty());
}

#[test]
fn tasks_see_the_gpus_that_they_are_bound_to() {
    let gpus = "nvidia|NVIDIA A100-SXM4-40GB|GPU-a|0|1b|0|0|0\n\
        nvidia|NVIDIA H100 80GB HBM3|GPU-b|1|3b|0|0|0\n\
        nvidia|NVIDIA L40S|GPU-c|2|5e|0|0|0\n";
    let Some((c, _fake)) = cluster(gpus, |_| CONFIGURED.to_owned()) else {
        return;
    };
    let all = "--gres=gpu:a100:1,gpu:h100:1,gpu:l40s:1 -n2";
    let seen = |options: &str| {
        let step = format!("srun --label {options} sh -c 'echo $CUDA_VISIBLE_DEVICES' | sort");
        batch(&c, all, &step)
    };
    assert_eq!(seen(""), "0: GPU-a,GPU-b,GPU-c\n1: GPU-a,GPU-b,GPU-c\n");
    assert_eq!(seen("--gpu-bind=single:1"), "0: GPU-a\n1: GPU-b\n");
    assert_eq!(seen("--gpu-bind=map_gpu:2,0"), "0: GPU-c\n1: GPU-a\n");
    assert_eq!(seen("--gpu-bind=verbose,mask_gpu:0x5,2"), "0: GPU-a,GPU-c\n1: GPU-b\n");
    assert_eq!(seen("--gpu-bind=per_task:1"), "0: GPU-a\n1: GPU-b\n");
    assert_eq!(seen("--gpus-per-task=1 --gpu-bind=none"), "0: GPU-a,GPU-b\n1: GPU-a,GPU-b\n");
    // Nothing is near here: all are seen.
    assert_eq!(seen("--accel-bind=g"), seen(""));
    // What the script was submitted with is for its steps.
    let step = "srun --label sh -c 'echo $CUDA_VISIBLE_DEVICES' | sort; echo $SLURM_GPU_BIND";
    let got = batch(&c, &format!("{all} --gpu-bind=map_gpu:1"), step);
    assert_eq!(got, "0: GPU-b\n1: GPU-b\nmap_gpu:1\n");
    let own = "cosy run --gpu-bind map_gpu:2 sh -c 'echo $CUDA_VISIBLE_DEVICES'";
    assert_eq!(batch(&c, all, own), "GPU-c\nGPU-c\n");
    let wrong = batch(&c, all, "srun --gpu-bind=map_gpu:3 true 2>&1; true");
    assert!(
        wrong.contains(
            "to see GPU 3, counted from 0 among those of the step, which has 3 on a node"
        ),
        "{wrong}"
    );
    let got = c
        .run(&["sbatch", "--gpu-bind=single:0", "script.sh"])
        .expect(1);
    assert!(got.err.contains("Invalid --gpu-bind argument: single:0"), "{}", got.err);
}

#[test]
fn idle_gpus_are_seen_and_their_job_ended() {
    let Some((c, fake)) = cluster(TWO, idle_ones_end) else {
        return;
    };
    let mut submission = script(&c.work(), "exec sleep 600");
    submission.spec.request.gpus_per_node = 1;
    submission.spec.stdout = Some("out.%j".into());
    // The first GPU is busy, the second one is not.
    let jobs = [c.submit(&submission), c.submit(&submission)];
    c.until_state(jobs[1], JobState::Cancelled);
    let said = fs::read_to_string(c.work().join(format!("out.{}", jobs[1]))).unwrap();
    assert!(
        said.contains(": its GPU has been idle for ") && said.contains("It is ended"),
        "{said}"
    );
    let line = wait::until("its use is told", || {
        let lines = lines_on(120, &mut c.command(&["cstat", &jobs[0].to_string()]));
        lines.into_iter().find(|line| line.contains("GPU  "))
    });
    assert!(line.ends_with("97% busy now, 1.0M of 16.0G of memory"), "{line}");
    fake.set(&TWO.replace("|97|", "|0|"));
    c.until_state(jobs[0], JobState::Cancelled);
    // A job without GPUs leaves none idle.
    assert_eq!(batch(&c, "", "sleep 4; echo done"), "done\n");
}

/// Many tasks and long lists are refused before anything is made of them.
#[test]
fn too_many_tasks_are_not_bound_to_gpus() {
    let Some((c, _fake)) = cluster(TWO, |_| CONFIGURED.to_owned()) else {
        return;
    };
    let step = "srun -O -n 5000 --gpu-bind=map_gpu:0 true 2>&1; echo ended";
    let got = batch(&c, "--gpus=1", step);
    assert!(got.starts_with("srun: error: ") && got.ends_with("ended\n"), "{got}");
    let long = "srun --gpu-bind=map_gpu:0*1024,0 true 2>&1; echo ended";
    let got = batch(&c, "--gpus=1", long);
    assert!(got.contains("more than 1024 places"), "{got}");
}

/// A driver that is loaded after the daemon: its GPUs are told, not offered.
#[test]
fn gpus_that_come_late() {
    let Some((mut c, fake)) = cluster("", watched) else {
        return;
    };
    assert_eq!(c.node_infos()[0].amounts.gpus, 0);
    fake.set(TWO);
    let late = "2 GPUs were not there at the start: restart noded";
    c.until_node("n1", "is drained", |n| n.reason.contains(late));
    c.nodes[0].kill();
    c.start_noded(0);
    c.until_node("n1", "has its GPUs", |n| n.amounts.gpus == 2);
}

/// A driver that hangs when the daemon starts anew: what is known holds, and jobs go on.
#[test]
fn a_start_beside_a_driver_that_hangs() {
    let Some((mut c, fake)) = cluster(TWO, watched) else {
        return;
    };
    let mut submission = script(&c.work(), "while ! [ -e go ]; do sleep 0.05; done");
    submission.spec.request.gpus_per_node = 1;
    let job = c.submit(&submission);
    c.until_state(job, JobState::Running);
    c.nodes[0].kill();
    fake.set("hang");
    c.start_noded(0);
    c.until_node("n1", "is here", |n| n.state == "mixed" && n.amounts.gpus == 2);
    fs::write(c.work().join("go"), "").unwrap();
    c.until_end(job).expect_state(JobState::Completed);
}

#[test]
fn a_driver_that_hangs_holds_nobody_up() {
    let Some((c, fake)) = cluster(TWO, watched) else {
        return;
    };
    fake.set("hang");
    wait::until("it hangs", || {
        let all = c.processes();
        all.iter()
            .any(|p| p.command.contains("--find-gpus"))
            .then_some(())
    });
    assert_eq!(batch(&c, "--gpus=1", "echo works"), "works\n");
    let all = c.processes();
    let helpers = all.iter().filter(|p| p.command.contains("--find-gpus"));
    assert_eq!(helpers.count(), 1, "one at a time");
}

/// What GPUs did while a job had them is told after its end too.
#[test]
fn how_gpus_were_used_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mailed = folder.path().join("mail");
    let options = Options {
        noded: |_| format!("{CONFIGURED}sample_interval = '1s'\n"),
        ..Options::default()
    };
    let c = Cluster::prepare(1, options.mailed_to(&mailed));
    // Busy for 27 %, with 3 GiB of its memory in use.
    let gpu = "nvidia|Tesla T4|GPU-aaaa|0|1b|27|3221225472|0\n";
    let Some(_fake) = FakeGpus::of_node_or_skip(&c, 0, gpu) else {
        return;
    };
    let c = c.start_prepared();
    let options = "--gres=gpu:1 --mail-type=END";
    let job =
        shell::submit(&c, &format!("{options} --wrap 'while ! [ -e go ]; do sleep 0.05; done'"));
    c.until_state(job, JobState::Running);
    wait::until("its GPU was measured", || {
        let words = ["sstat", "-anPo", "TRESUsageInMax", "-j", &job.to_string()];
        let said = c.run(&words).expect(0).out;
        said.contains("gres/gpuutil").then_some(())
    });
    fs::write(c.work().join("go"), "").unwrap();
    c.until_end(job).expect_state(JobState::Completed);
    let id = job.to_string();
    let told = c.run(&["cosy", "efficiency", &id]).expect(0).out;
    assert!(told.contains("1 GPU 27% busy with 3.0G of their memory at most"), "{told}");
    let seff = c.run(&["seff", &id]).expect(0).out;
    let want = "GPU Efficiency: 27.00% of 1 GPU\nGPU Memory Utilized: 3.00 GB\n";
    assert!(seff.contains(want), "{seff}");
    let words = ["sacct", "-nPo", "TRESUsageInMax", "-j", &id];
    let sacct = c.run(&words).expect(0).out;
    assert!(sacct.contains(",gres/gpumem=3G,gres/gpuutil=27\n"), "{sacct}");
    let lines = lines_on(200, &mut c.command(&["cosy", "efficiency"]));
    assert!(lines[0].contains("  GPU%") && lines[1].contains(" 27%"), "{lines:#?}");
    let mail = wait::until("a mail comes", || fs::read_to_string(&mailed).ok());
    let want =
        "1 GPU: busy for 27 % of the time, with 3G of memory on the node where they used most.";
    assert!(mail.contains(want), "{mail}");
}
