//! What a site's accounts, limits and order of jobs cost the controller: `cargo run --release -p
//! cosy-sim --example policy [ROUNDS [WAITING]]` (5 rounds, 100,000 waiting jobs).
//!
//! The same jobs come to the same machine without any of it, with limits, and with limits in either
//! order, in turn. The machine is full, so all wait; then 64 running jobs end one by one. Limits bind:
//! with them other jobs start, and some wait outside of the planner. CPU time is the kernel's account of
//! this thread; the time of a turn is on the wall, as who waits for an answer has it. Writing to a disk
//! and the wire are not in it.
#![allow(clippy::disallowed_methods)] // this program is here to read the clock

#[path = "../common/mod.rs"]
mod common;
mod site;

use cosy_control::{Controller, ReservationPolicy};
use cosy_model::Time;
use cosy_model::api::{Reply, Request};
use cosy_sched::{Policy, Scheduler};
use cosy_sim::cosy::controller_replay::{self, Setup, Users, Work};
use cosy_sim::workload::Job;
use nix::time::{ClockId, clock_gettime};
use site::{MACHINE, Rules, USERS};
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The system's allocator, counting. This program has one thread, so plain loads and stores do.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.store(LIVE.load(Ordering::Relaxed) + layout.size(), Ordering::Relaxed);
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

/// Time this thread has run.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// CPU time of all pieces of one kind, and the longest of them on the wall.
#[derive(Clone, Copy, Default)]
struct Spent {
    cpu: Duration,
    longest: Duration,
}

/// What one round has shown.
#[derive(Clone, Default)]
struct Seen {
    /// Telling the accounts.
    accounts: Spent,
    /// Requests and turns until all jobs were there.
    coming: Spent,
    /// One change of one user's limits while all wait.
    change: Spent,
    /// What an end asks for, and turns after it until the next one.
    ending: Spent,
    /// CPU time of planning all that wait, on another thread in the daemon.
    plan: Duration,
    predicted: usize,
    refused: u64,
    /// Bytes for the accounts, and at the end for all.
    bytes: (usize, usize),
}

/// Where a round is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Accounts,
    Coming,
    Changing,
    Planning,
    Ending,
}

struct Watch<'a> {
    jobs: &'a [Job],
    rules: Rules,
    phase: Phase,
    began: (Duration, Instant),
    /// Live bytes before the accounts.
    before: Option<usize>,
    ends: u32,
    seen: Seen,
}

impl Users for Watch<'_> {
    fn first_request(&mut self, _: Time, at: usize, _: &Controller) -> Request {
        if at == 0 {
            self.phase = Phase::Coming;
            self.seen.bytes.0 = self.bytes();
        }
        let job = &self.jobs[at];
        let mut submission = controller_replay::submission(MACHINE, job);
        if self.rules != Rules::Off {
            submission.spec.qos = site::qos_of(job);
        }
        Request::Submit(Box::new(submission))
    }

    fn next_request(&mut self, at: usize, reply: &Reply) -> Option<Request> {
        self.seen.refused += u64::from(matches!(reply, Reply::Refused(_)));
        if at + 1 < self.jobs.len() {
            return None;
        }
        if self.phase == Phase::Coming && self.rules != Rules::Off {
            self.phase = Phase::Changing;
            return Some(Request::ChangePolicy {
                changes: vec![site::one_change()],
                dry_run: false,
            });
        }
        (self.phase != Phase::Planning).then(|| {
            self.phase = Phase::Planning;
            Request::PlanChart {
                until: None,
                most: 1,
            }
        })
    }

    fn begins(&mut self, work: Work) {
        if work == Work::Accounts && self.before.is_none() {
            self.before = Some(LIVE.load(Ordering::Relaxed));
        }
        if work == Work::End {
            self.phase = Phase::Ending;
        }
        self.began = (cpu(), Instant::now());
    }

    fn has_done(&mut self, work: Work) {
        let wall = self.began.1.elapsed();
        let spent = match self.phase {
            Phase::Accounts if self.before.is_none() => return, // nodes come
            Phase::Accounts => &mut self.seen.accounts,
            Phase::Coming => &mut self.seen.coming,
            Phase::Changing => &mut self.seen.change,
            Phase::Planning => return,
            Phase::Ending => &mut self.seen.ending,
        };
        spent.cpu += cpu().saturating_sub(self.began.0);
        spent.longest = spent.longest.max(wall);
        self.ends += u32::from(work == Work::End);
        if self.have_seen_all() {
            self.seen.bytes.1 = self.bytes();
        }
    }

    fn plans(&mut self, now: Time, scheduler: &Scheduler) {
        let before = cpu();
        let plan = scheduler.plan(now, None);
        self.seen.plan = cpu().saturating_sub(before);
        self.seen.predicted = plan.predictions.len();
    }

    fn have_seen_all(&self) -> bool {
        self.ends == MACHINE.nodes
    }
}

impl Watch<'_> {
    /// Live bytes since the accounts were told.
    fn bytes(&self) -> usize {
        let live = LIVE.load(Ordering::Relaxed);
        self.before.map_or(0, |before| live.saturating_sub(before))
    }
}

fn round(rules: Rules, users: &[String], jobs: &[Job]) -> Result<Seen, String> {
    let site = site::site(rules, users);
    let setup = Setup {
        machine: MACHINE,
        policy: Policy::default(),
        reservations: ReservationPolicy::default(),
        jobs,
        site: Some(&site),
    };
    let mut watch = Watch {
        jobs,
        rules,
        phase: Phase::Accounts,
        began: (Duration::ZERO, Instant::now()),
        before: None,
        ends: 0,
        seen: Seen::default(),
    };
    controller_replay::run_site(&setup, &mut watch)?;
    let seen = watch.seen;
    match (seen.refused, seen.predicted, watch.ends == MACHINE.nodes) {
        (0, 1.., true) => Ok(seen),
        (refused, planned, ended) => Err(format!(
            "{}: {refused} jobs refused, {planned} planned, all ended: {ended}",
            rules.name()
        )),
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).map(|word| word.parse::<u32>());
    let (rounds, waiting) = match (words.next(), words.next(), words.next()) {
        (None, ..) => (5, 100_000),
        (Some(Ok(rounds @ 1..)), None, _) => (rounds, 100_000),
        (Some(Ok(rounds @ 1..)), Some(Ok(waiting @ 1..)), None) => (rounds, waiting),
        _ => {
            eprintln!("usage: policy [ROUNDS [WAITING]], both at least 1");
            return ExitCode::from(2);
        }
    };
    let (users, jobs) = (site::users(), site::jobs(waiting));
    let mut all = vec![Vec::new(); Rules::ALL.len()];
    for _ in 0..rounds {
        for (seen, rules) in all.iter_mut().zip(Rules::ALL) {
            match round(rules, &users, &jobs) {
                Ok(one) => seen.push(one),
                Err(e) => {
                    eprintln!("policy: {e}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    table(&all, jobs.len());
    ExitCode::SUCCESS
}

/// One line for each figure, one column for each of the rules.
fn table(all: &[Vec<Seen>], jobs: usize) {
    let names: Vec<&str> = Rules::ALL.into_iter().map(Rules::name).collect();
    println!("| figure | {} |", names.join(" | "));
    println!("|---{}|", "|---".repeat(names.len()));
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (jobs, ends) = (jobs as f64, f64::from(MACHINE.nodes));
    line(all, "a submission with its turn: CPU, µs", &|s| ms(s.coming.cpu) * 1e3 / jobs);
    line(all, "the longest request or turn while jobs come: ms", &|s| ms(s.coming.longest));
    line(all, "an end and the turns until the next: CPU, ms", &|s| ms(s.ending.cpu) / ends);
    line(all, "the longest turn of these: ms", &|s| ms(s.ending.longest));
    line(all, "a plan of all that wait: CPU, ms", &|s| ms(s.plan));
    line(all, "jobs in the plan", &|s| s.predicted as f64);
    line(all, "one user's limit changed: CPU, ms", &|s| ms(s.change.cpu));
    line(all, "the longest turn of that: ms", &|s| ms(s.change.longest));
    line(all, "all accounts told at once: CPU, ms", &|s| ms(s.accounts.cpu));
    line(all, "the longest turn of that: ms", &|s| ms(s.accounts.longest));
    line(all, "bytes for each user, accounts and all", &|s| s.bytes.0 as f64 / f64::from(USERS));
}

fn line(all: &[Vec<Seen>], name: &str, figure: &dyn Fn(&Seen) -> f64) {
    let medians: Vec<f64> = all
        .iter()
        .map(|seen| median(seen.iter().map(figure).collect()))
        .collect();
    let off = medians.first().copied().unwrap_or(0.0);
    let shown = medians.iter().enumerate().map(|(at, value)| match at {
        0 => format!("{value:.2}"),
        _ if off > 0.0 => format!("{value:.2} ({:.2}x)", value / off),
        _ => format!("{value:.2}"),
    });
    println!("| {name} | {} |", shown.collect::<Vec<_>>().join(" | "));
}
