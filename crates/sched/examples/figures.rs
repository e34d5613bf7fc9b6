//! Prints how fast the planner is: `cargo run --release -p cosy-sched --example figures`.
//!
//! Jobs come from a small generator with a fixed seed, so the same work is measured each
//! time; the last column changes when decisions change. A word as argument picks some.
#![allow(clippy::disallowed_methods)] // this program is here to read the clock

use cosy_model::{AccessLevel, Amounts, JobId, MiB, QueueId, Span, Time};
use cosy_sched::{Block, Demand, NodeMask, OrderKey, Policy, Scheduler, WaitingJob};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// Marsaglia's xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

#[derive(Clone)]
struct Job {
    waiting: WaitingJob,
    runs: Span,
}

fn job(id: u64, submit: i64, demand: &Arc<Demand>, limit: Span, runs: Span) -> Job {
    let key = OrderKey {
        queue_priority: 0,
        level: AccessLevel::Allow,
        nice: 0,
        submit: Time(submit),
        job: JobId(id),
    };
    let waiting = WaitingJob {
        key,
        queue: QueueId(0),
        demand: Arc::clone(demand),
        limit,
    };
    Job { waiting, runs }
}

fn amounts(cores: u32) -> Amounts {
    Amounts {
        cores,
        memory: MiB(4096 * u64::from(cores)),
        ..Amounts::default()
    }
}

fn whole(nodes: u32, of: usize) -> Arc<Demand> {
    Arc::new(Demand {
        nodes: Some(nodes),
        tasks: nodes,
        per_task: amounts(1),
        exclusive: true,
        allowed: NodeMask::all(of),
        ..Demand::default()
    })
}

fn shared(tasks: u32, cores: u32, of: usize) -> Arc<Demand> {
    Arc::new(Demand {
        tasks,
        per_task: amounts(cores),
        allowed: NodeMask::all(of),
        ..Demand::default()
    })
}

fn cluster(policy: Policy, nodes: usize) -> Scheduler {
    Scheduler::new(policy, vec![amounts(32); nodes], vec![NodeMask::all(nodes)])
}

/// A log like those of the archives: many small jobs, powers of two, bad estimates.
fn log(jobs: u64, nodes: usize, gap_ms: u64, limits: u64) -> Vec<Job> {
    let mut dice = Dice(88_172_645_463_325_252);
    let demands: Vec<_> = (0..=nodes as u32).map(|n| whole(n.max(1), nodes)).collect();
    let mut submit = 0;
    let draw = |id| {
        submit += dice.below(2 * gap_ms) as i64;
        let bits = dice.below(nodes.ilog2().into());
        let odd = dice.below(4) == 0;
        let nodes = if odd {
            1 + dice.below(1 << bits)
        } else {
            1 << bits
        };
        let limit = Span::from_secs((1 + dice.below(limits)) as i64 * (36_000 / limits) as i64);
        let runs = Span(limit.0 * (1 + dice.below(100)) as i64 / 100);
        job(id, submit, &demands[nodes as usize], limit, runs)
    };
    (0..jobs).map(draw).collect()
}

/// Plays a log; returns the number of passes and the sum of the waits in seconds.
fn simulate(scheduler: &mut Scheduler, jobs: &[Job]) -> (u64, i64) {
    let mut ends: std::collections::BinaryHeap<std::cmp::Reverse<(Time, u64)>> = Default::default();
    let (mut next, mut passes, mut waits) = (0, 0, 0);
    loop {
        let submit = jobs.get(next).map(|job| job.waiting.key.submit);
        let end = ends.peek().map(|end| end.0.0);
        let Some(now) = submit.into_iter().chain(end).min() else {
            return (passes, waits / 1000);
        };
        while let Some(over) = ends.peek().filter(|end| end.0.0 <= now) {
            scheduler.end(JobId(over.0.1));
            ends.pop();
        }
        while jobs
            .get(next)
            .is_some_and(|job| job.waiting.key.submit <= now)
        {
            scheduler.enqueue(jobs[next].waiting.clone());
            next += 1;
        }
        passes += 1;
        for start in scheduler.schedule(now) {
            let job = &jobs[start.0 as usize];
            waits += now.since(job.waiting.key.submit).0;
            ends.push(std::cmp::Reverse((now + job.runs, start.0)));
        }
    }
}

fn play_log(name: &str, policy: Policy, jobs: u64, gap_ms: u64) {
    let jobs = log(jobs, 128, gap_ms, 60);
    let mut scheduler = cluster(policy, 128);
    let begin = Instant::now();
    let (passes, waits) = simulate(&mut scheduler, &jobs);
    let took = begin.elapsed();
    let rate = jobs.len() as f64 / took.as_secs_f64();
    println!("{name}: {took:.1?}, {rate:.0} jobs/s, {passes} passes, waits {waits} s");
}

/// Up to 500 running jobs on most of the nodes, and a queue.
fn filled(
    policy: Policy,
    waiting: u64,
    nodes: usize,
    limits: u64,
    make: impl Fn(&mut Dice) -> Arc<Demand>,
) -> Scheduler {
    let mut dice = Dice(7);
    let mut scheduler = cluster(policy, nodes);
    let each = (nodes as u64 / 500).max(1);
    for id in 0..waiting + 500 {
        let limit = Span::from_secs(600 + (dice.below(limits) * 36_000 / limits) as i64);
        let demand = if id < 500 {
            whole((each + dice.below(2)) as u32, nodes)
        } else {
            make(&mut dice)
        };
        scheduler.enqueue(job(id, id as i64, &demand, limit, limit).waiting);
        if id == 499 {
            scheduler.schedule(Time(0));
        }
    }
    scheduler
}

fn plan(
    name: &str,
    policy: Policy,
    waiting: u64,
    limits: u64,
    make: impl Fn(&mut Dice) -> Arc<Demand>,
) {
    let scheduler = filled(policy, waiting, 1024, limits, make);
    let running = scheduler.running_count();
    let begin = Instant::now();
    let plan = scheduler.plan(Time(1), None);
    let took = begin.elapsed();
    let starts: BTreeMap<_, _> = plan.predictions.iter().map(|p| (p.start, p.job)).collect();
    let last = starts.last_key_value().and_then(|(start, _)| *start);
    println!(
        "{name}: {took:.1?}, {running} running, last start {} s",
        last.unwrap_or_default().secs()
    );
}

/// One more placement of a reservation on a queue that is planned already.
fn what_if(name: &str, waiting: u64, nodes: usize, placements: i64) {
    let scheduler = filled(Policy::EASY, waiting, nodes, 36_000, |d| {
        whole(1 + d.below(nodes as u64 / 8) as u32, nodes)
    });
    let forecast = scheduler.forecast(Time(1), None);
    let plan = forecast.plan();
    let last = plan.predictions.iter().filter_map(|p| p.start).max();
    let last = last.unwrap_or_default().0;
    let (mut took, mut moved) = (Vec::new(), 0);
    for at in 0..placements {
        let start = Time(last / placements * at + 1000);
        let demand = whole(nodes as u32 / 4, nodes);
        let hour = Span::from_secs(3600);
        let Some(shares) = scheduler.place(Time(1), &demand, start, hour) else {
            continue;
        };
        let block = Block {
            reservation: 1.into(),
            shares,
            start,
            end: start + hour,
        };
        let begin = Instant::now();
        let with = forecast.with(&[block]);
        took.push(begin.elapsed());
        let both = plan.predictions.iter().zip(&with.predictions);
        moved += both.filter(|(a, b)| a.start != b.start).count();
    }
    took.sort();
    println!(
        "{name}: median {:.1?}, longest {:.1?}, {moved} moved starts",
        took[took.len() / 2],
        took[took.len() - 1],
    );
}

fn array(name: &str, demand: &Arc<Demand>, nodes: usize) {
    let mut scheduler = cluster(Policy::EASY, nodes);
    let limit = Span::from_secs(3600);
    let jobs: Vec<Job> = (0..2000)
        .map(|id| job(id, 0, demand, limit, Span(1_000_000 + id as i64 * 7)))
        .collect();
    let begin = Instant::now();
    let (passes, _) = simulate(&mut scheduler, &jobs);
    let took = begin.elapsed();
    println!(
        "{name}: {took:.1?}, {:.1?} for each of {passes} passes",
        took / passes as u32
    );
}

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let run = |name: &str, what: &dyn Fn(&str)| {
        if name.contains(&only) {
            what(name);
        }
    };
    let (easy, all) = (Policy::EASY, Policy::CONSERVATIVE);
    run("log of 54,000 jobs, 128 nodes, EASY, light load", &|n| {
        play_log(n, easy, 54_000, 1_900_000)
    });
    run("log of 54,000 jobs, 128 nodes, EASY, heavy load", &|n| {
        play_log(n, easy, 54_000, 1_300_000)
    });
    run("log of 2,000 jobs, 128 nodes, conservative", &|n| {
        play_log(n, all, 2_000, 1_300_000)
    });
    let any = |d: &mut Dice| whole(1 + d.below(128) as u32, 1024);
    let one = |d: &mut Dice| whole(1 + d.below(2) as u32, 1024);
    let small = |d: &mut Dice| shared(1 + d.below(16) as u32, 1 + d.below(8) as u32, 1024);
    run("plan of 10,000 whole-node jobs, 1,024 nodes, EASY", &|n| {
        plan(n, easy, 10_000, 60, any)
    });
    run("plan of 10,000 such jobs, all limits different", &|n| {
        plan(n, easy, 10_000, 36_000, any)
    });
    run("plan of 10,000 such jobs, FCFS", &|n| {
        plan(n, Policy::FCFS, 10_000, 36_000, any)
    });
    run("plan of 10,000 jobs of 1 or 2 nodes, EASY", &|n| {
        plan(n, easy, 10_000, 36_000, one)
    });
    run("plan of 10,000 jobs that share nodes, EASY", &|n| {
        plan(n, easy, 10_000, 36_000, small)
    });
    run("plan of 300 whole-node jobs, conservative", &|n| {
        plan(n, all, 300, 36_000, any)
    });
    run("what-if on 1,000 whole-node jobs, 128 nodes", &|n| {
        what_if(n, 1000, 128, 100)
    });
    run("what-if on 1,000 whole-node jobs, 1,024 nodes", &|n| {
        what_if(n, 1000, 1024, 100)
    });
    run("array of 2,000 one-core tasks, 16 nodes", &|n| {
        array(n, &shared(1, 1, 16), 16)
    });
    run("array of 2,000 whole nodes, 128 nodes", &|n| {
        array(n, &whole(1, 128), 128)
    });
}
