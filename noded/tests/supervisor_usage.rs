//! What supervisors use is the job's: memory, processes; and what comes of one that has no
//! memory left.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod common;

use common::steps::*;
use common::*;
use cosy_model::node::Allocation;
use cosy_model::step::{StepKey, StepSpec, Wireup};
use cosy_model::{EndCause, MiB};
use std::fs;
use std::path::PathBuf;

/// A task that puts so many keys without a value into the space of its step, and stays.
const PUTS: &str = "
import os, sys, time
f = int(os.environ['PMI_FD'])
def ask(lines, answers):
    os.write(f, lines.encode())
    while answers > 0:
        answers -= os.read(f, 65536).count(10)
ask('cmd=init pmi_version=1 pmi_subversion=1' + chr(10), 1)
for at in range(0, KEYS, 50):
    ask(''.join('cmd=put kvsname=x key=%x value=' % n + chr(10) for n in range(at, at + 50)), 50)
print('filled', flush=True)
time.sleep(1000)
";

fn puts(keys: u32) -> StepSpec {
    let program = PUTS.replace("KEYS", &keys.to_string());
    let mut spec = spec(&["/usr/bin/python3", "-c", &program]);
    spec.wireup = Wireup::Pmi;
    spec
}

/// A node and a job on it with so much memory; `None`, having said so, where memory or
/// processes cannot be limited.
fn job_with_memory(mib: u64) -> Option<(Bench, Allocation)> {
    let mut bench = Bench::started();
    let log = bench.log();
    if !is_root() || log.contains("cannot limit memory") || log.contains("to find a job's") {
        skip("memory cannot be limited here");
        return None;
    }
    if !PathBuf::from("/usr/bin/python3").exists() {
        not_installed("no python3");
        return None;
    }
    let mut allocation = bench.allocation(1);
    allocation.memory = Some(MiB(mib));
    bench.sign(&mut allocation);
    bench.hold(&allocation);
    Some((bench, allocation))
}

fn supervisor(bench: &Bench, key: StepKey) -> i32 {
    let path = bench.spooled(key.attempt);
    let path = path.join(noded::steps::directory_name(key.step));
    wait_for("supervisor", || {
        let file = noded::spool::open_launch(&path).ok()?;
        Some(noded::sys::lock_holder(&file).ok()??.as_raw())
    })
}

/// The groups of a process whose names end so.
fn groups_of(pid: i32, end: &str) -> usize {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    text.lines().filter(|line| line.ends_with(end)).count()
}

#[test]
fn what_tasks_leave_with_their_supervisor_is_their_jobs() {
    let Some((mut bench, allocation)) = job_with_memory(128) else {
        return;
    };
    let mut client = Client::start(&bench, 1, &puts(50_000));
    let (key, _) = client.created();
    client.until("all keys", |ended| ended.output.contains_key(&0));
    let supervisor = supervisor(&bench, key);
    // Once with version 2; with version 1 for memory and for processes.
    assert_eq!(groups_of(supervisor, "/1.1/keep"), 1);
    let keep: Vec<PathBuf> = bench.groups().iter().map(|g| g.join("1.1/keep")).collect();
    let used = keep.iter().find_map(|path| {
        let names = ["memory.current", "memory.usage_in_bytes"];
        let text = names
            .iter()
            .find_map(|n| fs::read_to_string(path.join(n)).ok())?;
        text.trim().parse::<u64>().ok()
    });
    assert!(used.unwrap() > 50_000 * 64, "{used:?} bytes in {keep:?}");
    drop(client);
    bench.release(&allocation);
    let gone = || keep.iter().all(|path| !path.exists()).then_some(());
    wait_for("end of the groups", gone);
}

#[test]
fn a_supervisor_without_memory_is_lost_and_nothing_else() {
    let Some((mut bench, allocation)) = job_with_memory(16) else {
        return;
    };
    let mut client = Client::start(&bench, 1, &puts(200_000));
    let (key, _) = client.created();
    let supervisor = supervisor(&bench, key);
    let ended = client.end();
    assert!(!ended.output.contains_key(&0), "{ended:?}");
    wait_gone(supervisor);
    let record = bench.records(1, 1).remove(0);
    let cause = record.end.cause;
    let killed = matches!(cause, EndCause::SupervisorLost | EndCause::OutOfMemory);
    assert!(killed, "{cause:?}");
    // The job goes on, and so does its node.
    let mut next = Client::start(&bench, 1, &shell("echo on"));
    next.created();
    assert_eq!(next.end().output[&0], "on\n");
    bench.release(&allocation);
}

#[test]
fn a_step_counts_among_the_processes_of_its_job() {
    let mut bench = Bench::with("job_processes = 12\n");
    let allocation = bench.allocation(1);
    bench.hold(&allocation);
    let probe = shell(
        "grep -c . /proc/self/cgroup; cat $(sed -n 's#^[0-9]*:pids:#/sys/fs/cgroup/pids#p' /proc/self/cgroup)/pids.max",
    );
    let mut client = Client::start(&bench, 1, &probe);
    client.created();
    let output = client.end().output.remove(&0).unwrap_or_default();
    let Some("12") = output.lines().nth(1) else {
        bench.release(&allocation);
        return skip("processes cannot be limited by version 1 here");
    };
    let bomb =
        "i=0; while [ $i -lt 20 ]; do sleep 1000 > /dev/null 2>&1 & i=$((i+1)); done; echo all";
    let mut client = Client::start(&bench, 1, &shell(bomb));
    client.created();
    let ended = client.end();
    let output = ended.output.get(&0).cloned().unwrap_or_default();
    assert!(output.contains("fork") && !output.contains("all"), "{ended:?}");
    bench.release(&allocation);
}
