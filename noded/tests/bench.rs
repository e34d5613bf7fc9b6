//! Figures, not checks: `cargo test --release -p noded --test bench -- --ignored --nocapture`.

// In a test an unwrap is an assertion.
#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use cosy_model::node::*;
use cosy_model::{EndCause, OsText};
use std::time::{Duration, Instant};

/// CPU time of a process, and of its children that it has waited for.
fn cpu(pid: i32) -> (Duration, Duration) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit_once(')').unwrap().1;
    let ticks: Vec<u64> = rest
        .split_whitespace()
        .skip(11)
        .take(4)
        .map(|t| t.parse().unwrap())
        .collect();
    let time = |t: u64| Duration::from_millis(t * 10);
    (time(ticks[0] + ticks[1]), time(ticks[2] + ticks[3]))
}

fn nursery(daemon: i32) -> i32 {
    wait_for("nursery", || {
        noded::shepherd::all_processes()
            .find(|pid| noded::shepherd::parent_of(*pid) == Some(daemon))
    })
}

fn rollup(pid: i32, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find(|l| l.starts_with(field)).unwrap();
    line.split_whitespace()
        .skip(1)
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
#[ignore = "a measurement"]
fn floor_of_a_shell() {
    let n = 2000u32;
    let begun = Instant::now();
    let before = cpu(std::process::id() as i32);
    for _ in 0..n {
        std::process::Command::new("/bin/sh")
            .args(["-c", ""])
            .status()
            .unwrap();
    }
    let after = cpu(std::process::id() as i32);
    eprintln!(
        "floor: /bin/sh alone {:?} wall, {:?} CPU in it, {:?} in its parent, each",
        begun.elapsed() / n,
        (after.1 - before.1) / n,
        (after.0 - before.0) / n
    );
}

fn jobs(extra: &str, memory: bool) {
    let mut bench = Bench::with(extra);
    let n = 2000u64;
    let jobs: Vec<Launch> = (1..=n)
        .map(|j| {
            let mut job = bench.raw_job(j, b"#!/bin/sh\n");
            job.stdout = OsText::from("/dev/null");
            if memory {
                job.allocation.memory = Some(cosy_model::MiB(64));
            }
            job
        })
        .collect();
    let pid = bench.daemon().pid();
    let idle = rollup(pid, "Rss");
    let nursery = nursery(pid);
    let before = (cpu(pid), cpu(nursery));
    let begun = Instant::now();
    // So many at once as a machine with that many cores would run.
    let (mut sent, mut ended) = (0, 0);
    while ended < n {
        while sent < n && sent < ended + 8 {
            bench.launch(&jobs[sent as usize]);
            sent += 1;
        }
        let end = bench.expect(|r| match r {
            NodeReport::Ended { key, end, .. } => Some((*key, end.clone())),
            _ => None,
        });
        assert_eq!(end.1.cause, EndCause::Exited);
        let node = bench.name.clone();
        bench.order(NodeOrder::Forget { key: end.0, node });
        ended += 1;
        bench.backlog.clear();
    }
    let wall = begun.elapsed();
    let after = (cpu(pid), cpu(nursery));
    eprintln!(
        "{:30} {:.0} jobs/s; CPU each: {:?} in noded, {:?} in the nursery, {:?} in shepherd and shell",
        format!("[{extra}{}]", if memory { " memory limit" } else { "" }),
        n as f64 / wall.as_secs_f64(),
        (after.0.0 - before.0.0) / n as u32,
        (after.1.0 - before.1.0) / n as u32,
        (after.1.1 - before.1.1) / n as u32
    );
    let job = bench.job(n + 1, "echo $$ > pid; sleep 1000");
    bench.launch(&job);
    pid_in(&bench.path("pid"));
    let shepherd = bench.shepherd(job.allocation.key);
    eprintln!(
        "    noded RSS {idle} before, {} after; shepherd PSS {}, private dirty {}",
        rollup(pid, "Rss"),
        rollup(shepherd, "Pss"),
        rollup(shepherd, "Private_Dirty")
    );
}

#[test]
#[ignore = "a measurement"]
fn figures() {
    jobs("cgroup = 'none'", false);
    jobs("", false);
    jobs("", true);
}

/// Steps one after another as seen by a command: at the half, the slowest, how many a
/// second.
fn row(what: &str, count: usize, mut step: impl FnMut()) {
    let mut times: Vec<Duration> = (0..count)
        .map(|_| {
            let begun = Instant::now();
            step();
            begun.elapsed()
        })
        .collect();
    let all: Duration = times.iter().sum();
    times.sort_unstable();
    eprintln!(
        "{what:30} p50 {:?}, p99 {:?}; {:.0}/s",
        times[count / 2],
        times[count * 99 / 100],
        count as f64 / all.as_secs_f64()
    );
}

#[test]
#[ignore = "a measurement"]
fn steps() {
    use common::steps::*;
    let mut bench = Bench::started();
    let allocation = bench.cores(1, 1);
    bench.hold(&allocation);
    let pid = bench.daemon().pid();
    let before = cpu(pid);
    let one = spec(&["/bin/true"]);
    row("one task, one node", 1000, || {
        let mut client = Client::start(&bench, 1, &one);
        client.created();
        assert_eq!(client.end().tasks[&0].exit_code, 0);
    });
    eprintln!("    CPU in noded {:?} each", (cpu(pid).0 - before.0) / 1000);
    for count in [4, 8] {
        let mut nodes = Nodes::started(count);
        let allocations = nodes.allocations(1, 2);
        nodes.hold(&allocations);
        let mut wide = spec(&["/bin/true"]);
        wide.tasks = Some(2 * count as u32);
        let what = format!("{} tasks, {count} nodes", 2 * count);
        row(&what, 100, || {
            let mut client = Client::start(&nodes.benches[0], 1, &wide);
            client.created();
            assert_eq!(client.end().tasks.len(), 2 * count);
        });
    }
}
