//! GPUs and other devices of a real node: who sees and opens which. Devices that every
//! machine has stand for GPUs.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod common;

use common::steps::*;
use common::*;
use cosy_model::step::StepSpec;
use cosy_model::{EndCause, MiB, OsText};
use std::path::PathBuf;

const TABLES: &str = "\
[[gpu]]
type = 'a'
file = '/dev/full'
[[gpu]]
type = 'b'
file = '/dev/zero'
[[device]]
name = 'fpga'
file = '/dev/random'
id = 'left'
[[device]]
name = 'fpga'
count = 1
id = 'right'
";

/// What a job says of the three files and of its variables.
const LOOK: &str = "for f in full zero random; do head -c 1 /dev/$f > /dev/null 2> e.$$ && echo $f ||
grep -o 'Operation not permitted' e.$$; done; echo \"[$CUDA_VISIBLE_DEVICES][${COSY_DEVICES_FPGA-}]\"";

fn log(bench: &Bench) -> String {
    std::fs::read_to_string(bench.path("log")).unwrap_or_default()
}

/// Whether this noded keeps jobs from devices; it says so where it cannot.
fn keeps(bench: &Bench) -> bool {
    let cannot = log(bench).contains("cannot keep jobs from devices by control groups");
    if cannot {
        skip("no control groups for devices here; the node says so");
    }
    !cannot
}

#[test]
fn a_node_tells_types_and_devices() {
    let mut bench = Bench::new();
    bench.extra = TABLES.to_owned();
    bench.start();
    let (nodes, _) = bench.accept();
    assert_eq!(nodes[0].amounts.gpus, 2);
    assert_eq!(nodes[0].gpu_types, ["a", "b"]);
    assert_eq!(nodes[0].amounts.other.get("fpga"), 2);
    assert_eq!(nodes[0].devices, ["fpga"]);
}

#[test]
fn a_job_opens_its_own_devices_only() {
    let mut bench = Bench::with(TABLES);
    let kept = keeps(&bench);
    if !is_root() {
        assert!(!kept, "an ordinary user's node says that it cannot");
    }
    let mut check = |number: u64, gpus: &[u32], fpgas: &[u32], opens: [bool; 3], says: &str| {
        let mut job = bench.job(number, LOOK);
        job.allocation.gpus = gpus.to_vec();
        if !fpgas.is_empty() {
            let fpgas = fpgas.to_vec();
            job.allocation.devices.insert("fpga".to_owned(), fpgas);
        }
        bench.run(job);
        let files = ["full", "zero", "random"].iter().zip(opens);
        let mut want: Vec<&str> = files
            .map(|(f, open)| match open || !kept {
                true => f,
                false => "Operation not permitted",
            })
            .collect();
        want.push(says);
        let output = bench.output(number);
        assert_eq!(output.lines().collect::<Vec<_>>(), want);
    };
    let alone = if kept { "[0][]" } else { "[1][]" };
    check(1, &[], &[], [false, false, false], "[][]");
    check(2, &[1], &[], [false, true, false], alone);
    check(3, &[0, 1], &[1], [true, true, false], "[0,1][right]");
    check(4, &[0, 1], &[0, 1], [true; 3], "[0,1][left,right]");
}

#[test]
fn a_file_that_is_not_there_is_said() {
    let bench = Bench::with("[[gpu]]\nfile = '/dev/no-such-gpu'");
    let text = "/dev/no-such-gpu is no device, or not there";
    wait_for("log line", || log(&bench).contains(text).then_some(()));
}

// ---- steps

/// Runs a step in a held job; what its tasks said, by rank.
fn output_lines(bench: &Bench, spec: &StepSpec) -> Vec<Vec<String>> {
    let mut spec = spec.clone();
    spec.workdir = OsText::from(bench.dir.path().to_str().unwrap());
    let mut client = Client::start(bench, 1, &spec);
    client.created();
    let ended = client.end();
    let lines = |text: &String| text.lines().map(str::to_owned).collect();
    ended.output.values().map(lines).collect()
}

#[test]
fn each_task_has_its_own_gpus() {
    let mut bench = Bench::with(TABLES);
    let kept = keeps(&bench);
    let mut allocation = bench.cores(1, 2);
    allocation.gpus = vec![0, 1];
    bench.sign(&mut allocation);
    bench.hold(&allocation);
    let check = |each: u32, all: Option<u32>, want: &[(&[&str], &str)]| {
        let mut spec = shell(LOOK);
        (spec.tasks, spec.cores_per_task) = (Some(want.len() as u32), Some(1));
        (spec.gpus_per_task, spec.gpus_per_node) = (each, all);
        let lines = output_lines(&bench, &spec);
        assert_eq!(lines.len(), want.len(), "{lines:?}");
        for (line, (files, variable)) in lines.iter().zip(want) {
            let opens: Vec<&str> = line[..3]
                .iter()
                .map(String::as_str)
                .filter(|f| *f != "Operation not permitted")
                .collect();
            if kept {
                assert_eq!((&opens[..], &*line[3]), (*files, *variable), "{each} {all:?}");
            } else {
                assert_eq!(opens, ["full", "zero", "random"]);
            }
        }
    };
    check(1, None, &[(&["full"], "[0][]"), (&["zero"], "[0][]")]);
    check(0, Some(1), &[(&["full"], "[0][]"), (&["full"], "[0][]")]);
    check(2, None, &[(&["full", "zero"], "[0,1][]")]);
    check(0, Some(0), &[(&[], "[][]")]);
    check(0, None, &[(&["full", "zero"], "[0,1][]")]);
}

/// Directories of this node's control groups that are there.
fn groups_of(bench: &Bench, attempt: &str) -> Vec<PathBuf> {
    let directory = bench.path("spool").join(&bench.name);
    let instance = noded::spool::instance(&directory, &bench.name);
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten();
    let all = hierarchies
        .flatten()
        .map(|e| e.path().join(&instance).join(attempt));
    all.filter(|p| p.exists()).collect()
}

#[test]
fn a_step_gets_no_more_memory_than_it_asked_for() {
    let mut bench = Bench::started();
    if !is_root() {
        return skip("control groups for memory need root");
    }
    let mut allocation = bench.cores(1, 2);
    allocation.memory = Some(MiB(64));
    bench.sign(&mut allocation);
    bench.hold(&allocation);
    let check = |memory: Option<u64>, uses: u64, cause: EndCause| {
        let script = format!("head -c {0}M /dev/zero | tail -c {0}M > /dev/null; exit $?", uses);
        let mut spec = shell(&script);
        spec.memory = memory.map(MiB);
        let mut client = Client::start(&bench, 1, &spec);
        client.created();
        let ended = client.end();
        let end = &ended.nodes[&0].end;
        assert_eq!(end.cause, cause, "{memory:?} {uses}: {ended:?}");
        let peak = end.peak_memory_bytes >> 20;
        let limit = memory.unwrap_or(64);
        assert!(peak <= limit && peak >= uses.min(limit) / 2, "{peak} MiB");
    };
    check(Some(32), 8, EndCause::Exited);
    check(Some(32), 48, EndCause::OutOfMemory);
    check(None, 48, EndCause::Exited);
    check(None, 200, EndCause::OutOfMemory);
    assert!(!groups_of(&bench, "1.1").is_empty(), "the job's groups");
    bench.release(&allocation);
    assert_eq!(groups_of(&bench, "1.1"), Vec::<PathBuf>::new());
}

#[test]
fn tasks_say_what_they_are_bound_to() {
    let mut bench = Bench::started();
    let processors = noded::detect::processors();
    if processors.len() < 2 {
        return skip("one processor is no choice");
    }
    let allocation = bench.cores(1, 2);
    bench.hold(&allocation);
    let mut spec = shell("grep Cpus_allowed_list /proc/self/status | cut -f 2");
    (spec.tasks, spec.cores_per_task) = (Some(2), Some(1));
    let want = |n: usize| vec![processors[n].to_string()];
    assert_eq!(output_lines(&bench, &spec), [want(0), want(1)]);
}
