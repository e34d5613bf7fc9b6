//! The planner's benchmark: `cargo run --release -p cosy-sched --example figures [WORD]`
//! prints a Markdown table; a word picks the figures with it in their names.
//!
//! Jobs come from a small generator with a fixed seed, so the same work is measured each
//! time; the last column changes when decisions change. Each figure is measured in several
//! rounds, and its median is also given for each job, placement, pass or appraisal. CPU time
//! is the kernel's account of this thread. Figures on the queue of CTC-SP2 need the folder
//! with the logs in COSY_TRACES.
#![allow(clippy::disallowed_methods)] // this program is here to read the clock

mod appraisals;
mod flows;
mod switches;
mod workflows;

use cosy_model::{Amounts, JobId, MiB, QueueId, Span, Time};
use cosy_sched::{
    Block, Component, Demand, Forecast, NodeMask, OrderKey, Plan, Policy, Scheduler, WaitingJob,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Most rounds of a figure, and how long it goes on once there are three.
const ROUNDS: usize = 9;
const LONG_ENOUGH: Duration = Duration::from_secs(3);

/// The system's allocator, counting. This program has one thread, so plain loads and stores
/// do and cost next to nothing.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.load(Ordering::Relaxed) + layout.size();
        LIVE.store(live, Ordering::Relaxed);
        PEAK.store(live.max(PEAK.load(Ordering::Relaxed)), Ordering::Relaxed);
        // SAFETY: the caller's promises about the layout are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        let live = LIVE.load(Ordering::Relaxed).wrapping_sub(layout.size());
        LIVE.store(live, Ordering::Relaxed);
        // SAFETY: `ptr` came from `alloc` above with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One round of a figure.
struct Round {
    wall: Duration,
    cpu: Duration,
    /// Jobs, placements or passes in it.
    parts: usize,
    /// What was done, the same in each round.
    note: String,
}

/// Runs a round's work, which tells its parts and a note.
fn timed<T>(work: impl FnOnce() -> T, tell: impl FnOnce(T) -> (usize, String)) -> Round {
    let (cpu_before, begin) = (cpu_time(), Instant::now());
    let done = work();
    let wall = begin.elapsed();
    let cpu = cpu_time().saturating_sub(cpu_before);
    let (parts, note) = tell(done);
    Round {
        wall,
        cpu,
        parts,
        note,
    }
}

/// Time this thread has run; zero where the kernel does not tell.
fn cpu_time() -> Duration {
    std::thread::yield_now(); // the kernel brings its account up to date
    let account = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let first = account.split_whitespace().next();
    Duration::from_nanos(first.and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

/// Median and least.
fn middle_and_least(times: impl Iterator<Item = Duration>) -> (Duration, Duration) {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    (times[times.len() / 2], times[0])
}

/// The table.
struct Table {
    /// A word that the names of figures must have in them.
    only: String,
}

impl Table {
    fn begin(&self) {
        println!("| figure | wall: median (least) | CPU: median (least) | median for each | |");
        println!("|---|---|---|---|---|");
    }

    /// One line of times: `round` does the work once on what `build` made.
    fn line<S>(&self, name: &str, build: impl FnOnce() -> S, round: impl Fn(&S) -> Round) {
        if !name.contains(&self.only) {
            return;
        }
        let (state, begin) = (build(), Instant::now());
        let mut rounds = Vec::new();
        while rounds.len() < 3 || (rounds.len() < ROUNDS && begin.elapsed() < LONG_ENOUGH) {
            rounds.push(round(&state));
        }
        let (wall, least) = middle_and_least(rounds.iter().map(|round| round.wall));
        let (cpu, least_cpu) = middle_and_least(rounds.iter().map(|round| round.cpu));
        let Round { parts, note, .. } = &rounds[0];
        let each = wall / (*parts).max(1) as u32;
        println!(
            "| {name} | {wall:.2?} ({least:.2?}) | {cpu:.2?} ({least_cpu:.2?}) | {each:.2?} | {note} |"
        );
    }

    /// One line of bytes.
    fn bytes(&self, name: &str, measure: impl FnOnce() -> Memory) {
        if !name.contains(&self.only) {
            return;
        }
        let Memory {
            at_the_end,
            worst,
            peak,
        } = measure();
        let note = format!("at most {worst} from 10,000 jobs on, {peak} while a table grows");
        println!("| {name} | - | - | {at_the_end} bytes | {note} |");
    }
}

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
    let key = OrderKey::first_come(JobId(id), Time(submit));
    let waiting = WaitingJob {
        holds: cosy_sched::Holds::NONE,
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
    Arc::new(Demand::from(Component {
        nodes: Some(nodes),
        tasks: nodes,
        per_task: amounts(1),
        exclusive: true,
        allowed: NodeMask::all(of).into(),
        ..Component::default()
    }))
}

fn shared(tasks: u32, cores: u32, of: usize) -> Arc<Demand> {
    Arc::new(Demand::from(Component {
        tasks,
        per_task: amounts(cores),
        allowed: NodeMask::all(of).into(),
        ..Component::default()
    }))
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
    simulate_until(scheduler, jobs, Time::FAR)
}

/// Plays a log up to some time.
fn simulate_until(scheduler: &mut Scheduler, jobs: &[Job], until: Time) -> (u64, i64) {
    let mut ends: std::collections::BinaryHeap<std::cmp::Reverse<(Time, u64)>> = Default::default();
    let (mut next, mut passes, mut waits) = (0, 0, 0);
    loop {
        let submit = jobs.get(next).map(|job| job.waiting.key.submit);
        let end = ends.peek().map(|end| end.0.0);
        let next_event = submit.into_iter().chain(end).min();
        let Some(now) = next_event.filter(|now| *now <= until) else {
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

fn play_log(table: &Table, name: &str, (policy, nodes): (Policy, usize), count: u64, gap_ms: u64) {
    let round = |jobs: &Vec<Job>| {
        let mut scheduler = cluster(policy, nodes);
        let tell = |(passes, waits)| (jobs.len(), format!("{passes} passes, waits {waits} s"));
        timed(|| simulate(&mut scheduler, jobs), tell)
    };
    table.line(name, || log(count, nodes, gap_ms, 60), round);
}

/// All nodes busy with up to 500 running jobs, and a queue.
fn filled(
    policy: Policy,
    waiting: u64,
    nodes: usize,
    limits: u64,
    make: impl Fn(&mut Dice) -> Arc<Demand>,
) -> Scheduler {
    let mut dice = Dice(7);
    let mut scheduler = cluster(policy, nodes);
    let running = nodes.min(500);
    for id in 0..waiting + running as u64 {
        let limit = Span::from_secs(600 + (dice.below(limits) * 36_000 / limits) as i64);
        let at = id as usize;
        let demand = match at < running {
            true => whole((nodes / running + usize::from(at < nodes % running)) as u32, nodes),
            false => make(&mut dice),
        };
        scheduler.enqueue(job(id, id as i64, &demand, limit, limit).waiting);
        if at + 1 == running {
            scheduler.schedule(Time(0));
        }
    }
    scheduler
}

fn plan(table: &Table, name: &str, build: impl FnOnce() -> Scheduler) {
    table.line(name, build, |scheduler| {
        let tell = |plan: Plan| {
            let starts = plan.predictions.iter().filter_map(|p| p.start);
            let last = starts.max().unwrap_or_default().secs();
            let running = scheduler.running_count();
            let note = format!("{running} running, last start {last} s");
            (plan.predictions.len(), note)
        };
        timed(|| scheduler.plan(Time(1), None), tell)
    });
}

/// Places for a reservation of a quarter of the nodes for an hour, all along a plan.
fn placements(scheduler: &Scheduler, nodes: usize, last: Time) -> Vec<Block> {
    let demand = whole(nodes as u32 / 4, nodes);
    let hour = Span::from_secs(3600);
    let block = |at: i64| {
        let start = Time(last.0 / 100 * at + 1000);
        let shares = scheduler.place(Time(1), demand.first(), start, hour)?;
        Some(Block {
            holds: Vec::new(),
            reservation: 1.into(),
            shares,
            start,
            end: start + hour,
        })
    };
    (0..100).filter_map(block).collect()
}

/// More placements of a reservation on a queue that is planned already, one by one.
fn what_if(table: &Table, name: &str, waiting: u64, nodes: usize) {
    let any = |d: &mut Dice| whole(1 + d.below(nodes as u64 / 8) as u32, nodes);
    let build = || {
        let scheduler = filled(Policy::EASY, waiting, nodes, 36_000, any);
        let forecast = scheduler.forecast(Time(1), None);
        let starts = forecast.plan().predictions.iter().filter_map(|p| p.start);
        let blocks = placements(&scheduler, nodes, starts.max().unwrap_or_default());
        (forecast, blocks)
    };
    table.line(name, build, |(forecast, blocks)| {
        let tell = |moved: usize| (blocks.len(), format!("{moved} starts moved"));
        timed(|| blocks.iter().map(|block| moved(forecast, block)).sum(), tell)
    });
}

/// How many starts one more reservation moves.
fn moved(forecast: &Forecast, block: &Block) -> usize {
    let with = forecast.with(std::slice::from_ref(block));
    let both = forecast.plan().predictions.iter().zip(&with.predictions);
    both.filter(|(a, b)| a.start != b.start).count()
}

fn array(table: &Table, name: &str, demand: &Arc<Demand>, nodes: usize) {
    let limit = Span::from_secs(3600);
    let task = |id: u64| job(id, 0, demand, limit, Span(1_000_000 + id as i64 * 7));
    let build = || (0..2000).map(task).collect();
    table.line(name, build, |jobs: &Vec<Job>| {
        let mut scheduler = cluster(Policy::EASY, nodes);
        let tell = |(passes, _)| (passes as usize, format!("{passes} passes"));
        timed(|| simulate(&mut scheduler, jobs), tell)
    });
}

/// Bytes that 100,000 waiting jobs take in the planner, each.
struct Memory {
    at_the_end: usize,
    /// The most at any count from 10,000 on: tables grow by doubling.
    worst: usize,
    /// The same with what is held for a moment while a table grows.
    peak: usize,
}

fn memory(make: impl Fn(&mut Dice) -> Arc<Demand>) -> Memory {
    let mut dice = Dice(7);
    let mut scheduler = filled(Policy::EASY, 0, 1024, 60, |_| whole(1, 1024));
    let before = LIVE.load(Ordering::Relaxed);
    let each = |bytes: &AtomicUsize, jobs: usize| (bytes.load(Ordering::Relaxed) - before) / jobs;
    let (mut worst, mut peak) = (0, 0);
    for count in 1..=100_000 {
        let id = 1000 + count as u64;
        let limit = Span::from_secs(600 + dice.below(36_000) as i64);
        PEAK.store(before, Ordering::Relaxed);
        scheduler.enqueue(job(id, id as i64, &make(&mut dice), limit, limit).waiting);
        if count >= 10_000 {
            worst = worst.max(each(&LIVE, count));
            peak = peak.max(each(&PEAK, count));
        }
    }
    Memory {
        at_the_end: each(&LIVE, 100_000),
        worst,
        peak,
    }
}

fn logs(table: &Table) {
    let (easy, all) = (Policy::EASY, Policy::CONSERVATIVE);
    let light = "log of 54,000 jobs, 128 nodes, EASY, light load";
    play_log(table, light, (easy, 128), 54_000, 1_900_000);
    let heavy = "log of 54,000 jobs, 128 nodes, EASY, heavy load";
    play_log(table, heavy, (easy, 128), 54_000, 1_300_000);
    let few = "log of 2,000 jobs, 128 nodes, conservative";
    play_log(table, few, (all, 128), 2_000, 1_300_000);
    // As many nodes as RICC and CEA-Curie have processors.
    let wide = "log of 100,000 jobs, 8,192 nodes, EASY, heavy load";
    play_log(table, wide, (easy, 8192), 100_000, 720_000);
    let widest = "log of 100,000 jobs, 80,640 nodes, EASY, heavy load";
    play_log(table, widest, (easy, 80_640), 100_000, 470_000);
}

fn plans(table: &Table) {
    let easy = Policy::EASY;
    let any = |d: &mut Dice| whole(1 + d.below(128) as u32, 1024);
    for (jobs, waiting) in [
        ("1,000", 1_000),
        ("10,000", 10_000),
        ("100,000", 100_000),
        ("1,000,000", 1_000_000),
    ] {
        let name = format!("plan of {jobs} whole-node jobs, 1,024 nodes, EASY");
        plan(table, &name, || filled(easy, waiting, 1024, 36_000, any));
    }
    let many = |d: &mut Dice| whole(1 + d.below(1250) as u32, 10_000);
    let name = "plan of 100,000 whole-node jobs, 10,000 nodes, EASY";
    plan(table, name, || filled(easy, 100_000, 10_000, 36_000, many));
    let name = "plan of 10,000 whole-node jobs with 60 different limits, EASY";
    plan(table, name, || filled(easy, 10_000, 1024, 60, any));
    let one = |d: &mut Dice| whole(1 + d.below(2) as u32, 1024);
    let name = "plan of 10,000 jobs of 1 or 2 nodes, EASY";
    plan(table, name, || filled(easy, 10_000, 1024, 36_000, one));
    let name = "plan of 10,000 whole-node jobs, FCFS";
    plan(table, name, || filled(Policy::FCFS, 10_000, 1024, 36_000, any));
    let small = |d: &mut Dice| shared(1 + d.below(16) as u32, 1 + d.below(8) as u32, 1024);
    let name = "plan of 10,000 jobs that share nodes, 1,024 nodes of 32 cores, EASY";
    plan(table, name, || filled(easy, 10_000, 1024, 36_000, small));
    let mixed = |d: &mut Dice| match d.below(10) < 6 {
        true => whole(1 + d.below(128) as u32, 10_000),
        false => shared(1, 1, 10_000),
    };
    let name =
        "plan of 60,000 jobs, six of ten with whole nodes, the others with one core, 10,000 nodes";
    plan(table, name, || filled(easy, 60_000, 10_000, 11, mixed));
    let name = "plan of 300 whole-node jobs, conservative";
    let all = Policy::CONSERVATIVE;
    plan(table, name, || filled(all, 300, 1024, 36_000, any));
}

fn main() {
    let only = std::env::args().nth(1).unwrap_or_default();
    let table = Table { only };
    table.begin();
    logs(&table);
    plans(&table);
    what_if(&table, "what-if on 1,000 planned jobs, 128 nodes", 1000, 128);
    what_if(&table, "what-if on 1,000 planned jobs, 1,024 nodes", 1000, 1024);
    appraisals::all(&table);
    workflows::all(&table);
    flows::all(&table);
    switches::switches(&table);
    let (core, node) = (shared(1, 1, 16), whole(1, 128));
    array(&table, "array of 2,000 one-core tasks, 16 nodes", &core, 16);
    array(&table, "array of 2,000 whole nodes, 128 nodes", &node, 128);
    let sizes: Vec<_> = (0..128).map(|n| whole(1 + n, 1024)).collect();
    let alike = |d: &mut Dice| Arc::clone(&sizes[d.below(128) as usize]);
    table.bytes("memory: a waiting job, demands in common", || memory(alike));
    let own = |d: &mut Dice| whole(1 + d.below(128) as u32, 1024);
    table.bytes("memory: a waiting job, each with its own demand", || memory(own));
}
