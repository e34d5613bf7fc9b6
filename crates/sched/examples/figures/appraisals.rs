//! What it takes to appraise reservations: on the queue of CTC-SP2 and on a long drawn one,
//! each also with 10,000 reservations accepted for the next three months.

use crate::{Dice, Job, Table, amounts, filled, job, shared, timed, whole};
use cosy_model::{Amounts, JobId, ReservationId, Span, Su, Time};
use cosy_sched::appraise::{Appraisal, Inquiry, JointRequest, Listed, Starts, Tariff};
use cosy_sched::{Block, Component, Demand, NodeMask, Policy, Scheduler, WaitingJob};
use std::collections::BTreeMap;
use std::sync::Arc;

const CTC_NODES: usize = 430;
const HOUR: Span = Span::from_secs(3600);
const DAY_MS: i64 = 86_400_000;

/// A state of a machine, and when.
struct State {
    scheduler: Scheduler,
    now: Time,
    nodes: usize,
    /// So many waiting jobs are looked at.
    most_jobs: usize,
}

/// All figures of appraisals.
pub fn all(table: &Table) {
    match std::env::var_os("COSY_TRACES") {
        None => eprintln!("skipped: figures on CTC-SP2 (COSY_TRACES names no folder)"),
        Some(folder) => ctc(table, &folder),
    }
    booking(table);
    let any = |d: &mut Dice| whole(1 + d.below(128) as u32, 1024);
    for reserved in [0, 10_000] {
        let build = || State {
            scheduler: filled(Policy::EASY, 10_000, 1024, 36_000, any),
            now: Time(1),
            nodes: 1024,
            most_jobs: usize::MAX,
        };
        let more = more(reserved);
        let name = format!("appraisal: 500 starts, 10,000 waiting, 1,024 nodes{more}");
        list(table, &name, || build().reserved(reserved), 500);
        let name = format!("appraisal: 500 starts, first 1,000 of 10,000 waiting{more}");
        let first = || State {
            most_jobs: 1000,
            ..build().reserved(reserved)
        };
        list(table, &name, first, 500);
        let name = format!("appraisal: one start, 10,000 waiting, 1,024 nodes{more}");
        one_start(table, &name, || vec![build().reserved(reserved)]);
    }
}

/// A node for an hour beside the long queue of a large cluster, as a user books it whose other
/// reservation ends as it begins.
fn booking(table: &Table) {
    let name = "booking: one node 200 h ahead, 60,000 waiting, 10,000 nodes";
    table.line(name, long_queue, |state| {
        let start = state.now + Span(201 * HOUR.0);
        let node = whole(1, state.nodes);
        let alone = job(1 << 40, 61_000, &node, HOUR, HOUR).waiting; // the last in line
        let both = WaitingJob {
            limit: Span(2 * HOUR.0),
            ..alone.clone()
        };
        let inquiry = Inquiry {
            job: alone,
            listed: Listed::Everyone,
            joint: Some(JointRequest {
                job: both,
                without: vec![ReservationId(1)],
            }),
            ..state.inquiry(Starts::At(vec![start]))
        };
        let plain = |told: &Appraisal| (told.plain_start, told.joint_start);
        timed(
            || state.scheduler.appraise(state.now, &inquiry),
            |told| (1, format!("plain starts {:?}; {}", plain(&told), Told::of(&told))),
        )
    });
}

/// 10,000 nodes that come free one job after the other, from two hours on; 60,000 jobs wait, and one
/// reservation has been made.
fn long_queue() -> State {
    let limits = [5, 10, 20, 30, 60, 90, 120, 240, 360, 480, 600];
    let (mut dice, nodes) = (Dice(7), 10_000);
    let mut scheduler =
        Scheduler::new(Policy::EASY, vec![amounts(16); nodes], vec![NodeMask::all(nodes)]);
    for id in 0..60_500 {
        let (demand, limit) = match id {
            ..500 => (whole(20, nodes), Span::from_secs(7200 + id as i64 * 60)),
            _ => {
                let limit = limits[dice.below(11) as usize];
                let demand = match dice.below(10) < 6 {
                    true => whole(1 + dice.below(128) as u32, nodes),
                    false => shared(1, 1, nodes),
                };
                (demand, Span::from_minutes(limit))
            }
        };
        scheduler.enqueue(job(id, id as i64, &demand, limit, limit).waiting);
        if id == 499 {
            scheduler.schedule(Time(0));
        }
    }
    let start = Time(1) + Span(200 * HOUR.0);
    let shares = scheduler.place(Time(1), whole(1, nodes).first(), start, HOUR);
    scheduler.add_block(Block {
        holds: Vec::new(),
        reservation: ReservationId(1),
        shares: shares.expect("a node is free then"),
        start,
        end: start + HOUR,
    });
    scheduler.schedule(Time(1));
    State {
        scheduler,
        now: Time(1),
        nodes,
        most_jobs: 1000,
    }
}

fn more(reserved: u64) -> &'static str {
    if reserved > 0 {
        ", 10,000 reserved"
    } else {
        ""
    }
}

fn ctc(table: &Table, folder: &std::ffi::OsStr) {
    for reserved in [0, 10_000] {
        let more = more(reserved);
        let longest = || longest_of_ctc(folder).reserved(reserved);
        let middle = || middle_of_ctc(folder).into_iter();
        let name = format!("appraisal: one start, CTC, 9 states{more}");
        let states = || middle().map(|state| state.reserved(reserved)).collect();
        one_start(table, &name, states);
        let name = format!("appraisal: one start, CTC, longest queue{more}");
        one_start(table, &name, || vec![longest()]);
        let name = format!("appraisal: 100 starts, CTC, middle{more}");
        let state = || middle().nth(4).map(|state| state.reserved(reserved));
        list(table, &name, || state().expect("there are nine"), 100);
        let name = format!("appraisal: 100 starts, CTC, longest queue{more}");
        list(table, &name, longest, 100);
    }
}

impl State {
    /// With so many reservations more, of one to eight nodes for one to four hours, at any
    /// time of the next three months at which they find their nodes free.
    fn reserved(mut self, count: u64) -> Self {
        let mut dice = Dice(99);
        let demands: Vec<_> = (1..=8).map(|nodes| whole(nodes, self.nodes)).collect();
        let mut made = 0;
        while made < count {
            let start = self.now + Span(dice.below(90 * DAY_MS as u64) as i64);
            let length = Span(HOUR.0 * (1 + dice.below(4)) as i64);
            let demand = &demands[dice.below(8) as usize];
            let shares = self
                .scheduler
                .place(self.now, demand.first(), start, length);
            if let Some(shares) = shares {
                made += 1;
                self.scheduler.add_block(Block {
                    holds: Vec::new(),
                    reservation: ReservationId(made),
                    shares,
                    start,
                    end: start + length,
                });
            }
        }
        self.scheduler.schedule(self.now);
        self
    }

    /// An eighth of the nodes for two hours.
    fn inquiry(&self, starts: Starts) -> Inquiry {
        let demand = whole(self.nodes as u32 / 8, self.nodes);
        let length = Span(2 * HOUR.0);
        Inquiry {
            job: job(1 << 40, self.now.0, &demand, length, length).waiting,
            starts,
            tariff: Tariff::default(),
            makespan_weight_ppm: 500_000,
            most_jobs: self.most_jobs,
            plain_start: true,
            joint: None,
            leavers: Vec::new(),
            replaces: None,
            fixed: None,
            pushed: Arc::new(BTreeMap::new()),
            listed: Listed::Nobody,
        }
    }
}

/// A whole inquiry about one start, for each of 20 starts in the next two days.
fn one_start(table: &Table, name: &str, build: impl FnOnce() -> Vec<State>) {
    table.line(name, build, |states| {
        let start = |state: &State, at: i64| state.now + Span(DAY_MS / 10 * at);
        let each = |state: &State| -> Told {
            let all = (0..20).map(|at| {
                let starts = Starts::At(vec![start(state, at)]);
                Told::of(&state.scheduler.appraise(state.now, &state.inquiry(starts)))
            });
            all.fold(Told::default(), Told::plus)
        };
        let waiting: usize = states.iter().map(|s| s.scheduler.waiting_count()).sum();
        let waiting = waiting / states.len();
        timed(
            || states.iter().map(each).fold(Told::default(), Told::plus),
            |told| (20 * states.len(), format!("{waiting} waiting; {told}")),
        )
    });
}

/// An inquiry about many starts in the next two weeks.
fn list(table: &Table, name: &str, build: impl FnOnce() -> State, most: usize) {
    table.line(name, build, |state| {
        let starts = Starts::Window {
            earliest: state.now,
            latest: state.now + Span(14 * DAY_MS),
            most,
            gap: Span::from_minutes(15),
        };
        let inquiry = state.inquiry(starts);
        let waiting = state.scheduler.waiting_count();
        timed(
            || Told::of(&state.scheduler.appraise(state.now, &inquiry)),
            |told| (told.starts, format!("{waiting} waiting; {told}")),
        )
    });
}

/// Sums of appraisals, to see that the same was told.
#[derive(Default)]
struct Told {
    starts: usize,
    possible: usize,
    delayed: u64,
    extra: Su,
}

impl Told {
    fn of(appraisal: &Appraisal) -> Self {
        let slots = &appraisal.slots;
        let extra = slots.iter().map(|slot| slot.extra);
        Self {
            starts: slots.len(),
            possible: slots.iter().filter(|slot| slot.shares.is_some()).count(),
            delayed: slots.iter().map(|slot| u64::from(slot.delays.jobs)).sum(),
            extra: extra.fold(Su::ZERO, Su::plus),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            starts: self.starts + other.starts,
            possible: self.possible + other.possible,
            delayed: self.delayed + other.delayed,
            extra: self.extra.plus(other.extra),
        }
    }
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hours = self.extra.0 / Su::ONE;
        let Self {
            starts, possible, ..
        } = self;
        let delayed = self.delayed;
        write!(f, "{possible} of {starts} possible, {delayed} delays, {hours} core-hours")
    }
}

/// The log's sound jobs: whole nodes of one processor.
fn ctc_log(folder: &std::ffi::OsStr) -> Vec<Job> {
    let path = std::path::Path::new(folder).join("CTC-SP2-1996-3.1-cln.swf.gz");
    let output = std::process::Command::new("gzip")
        .arg("-dc")
        .arg(&path)
        .output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| !line.starts_with(';'));
    let jobs: Vec<Job> = lines.filter_map(ctc_job).collect();
    let numbered = jobs
        .into_iter()
        .enumerate()
        .map(|(at, job)| renumbered(at, job));
    numbered.collect()
}

fn renumbered(at: usize, mut job: Job) -> Job {
    job.waiting.key.job = JobId(at as u64);
    job
}

fn ctc_job(line: &str) -> Option<Job> {
    let fields: Vec<f64> = line
        .split_whitespace()
        .map_while(|f| f.parse().ok())
        .collect();
    let (submit, run, nodes, estimate) =
        (*fields.get(1)?, *fields.get(3)?, *fields.get(4)?, *fields.get(8)?);
    let sound = run > 0.0 && nodes >= 1.0 && nodes <= CTC_NODES as f64;
    let limit = if estimate > 0.0 { estimate } else { run };
    let secs = |secs: f64| Span::from_secs(secs as i64);
    let demand = Arc::new(Demand::from(Component {
        nodes: Some(nodes as u32),
        tasks: nodes as u32,
        per_task: amounts(1),
        exclusive: true,
        allowed: NodeMask::all(CTC_NODES).into(),
        ..Component::default()
    }));
    sound.then(|| job(0, submit as i64 * 1000, &demand, secs(limit), secs(run.min(limit))))
}

/// The machine of CTC-SP2 after the first `count` jobs of the log have come.
fn after(jobs: &[Job], count: usize) -> State {
    let totals: Vec<Amounts> = vec![amounts(1); CTC_NODES];
    let mut scheduler = Scheduler::new(Policy::EASY, totals, vec![NodeMask::all(CTC_NODES)]);
    let now = jobs[count - 1].waiting.key.submit;
    crate::simulate_until(&mut scheduler, &jobs[..count], now);
    State {
        scheduler,
        now,
        nodes: CTC_NODES,
        most_jobs: usize::MAX,
    }
}

/// Nine states from the middle of the log.
fn middle_of_ctc(folder: &std::ffi::OsStr) -> Vec<State> {
    let jobs = ctc_log(folder);
    let part = |at: usize| after(&jobs, jobs.len() * at / 100);
    (46..=54).map(part).collect()
}

/// The state with the most waiting jobs.
fn longest_of_ctc(folder: &std::ffi::OsStr) -> State {
    let jobs = ctc_log(folder);
    let every = (1..=jobs.len() / 1000).map(|at| after(&jobs, at * 1000));
    let longest = every.max_by_key(|state| state.scheduler.waiting_count());
    longest.unwrap_or_else(|| after(&jobs, jobs.len()))
}
