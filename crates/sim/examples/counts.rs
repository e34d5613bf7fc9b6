//! Fixed pieces of work, to be counted in instructions: `counts NAME` does one of them and prints what
//! came out; `counts` alone prints the names.
//!
//! It reads no clock and draws no chance. `make bench-counts` counts each from outside and compares: only
//! what happens in [`measured`] counts, not what it is done on.

mod common;

use common::{Dice, MACHINE, jobs};
use cosy_model::api::{Column, JobField, NO_NUMBER, Reply, Request, Submission, Table};
use cosy_model::{Amounts, JobId, JobSpec, MiB, OsText, Program, QueueId, Span, Su, Time, limits};
use cosy_proto::frame::{self, HEADER};
use cosy_sched::appraise::{Inquiry, Listed, Starts, Tariff};
use cosy_sched::{Component, Demand, Holds, NodeMask, OrderKey, Policy, Scheduler, WaitingJob};
use cosy_sim::cosy::controller_replay;
use cosy_slurm::job::{ClusterFacts, JobView};
use cosy_slurm::squeue::cells::ValueStyle;
use cosy_slurm::squeue::options::Query;
use cosy_slurm::squeue::report;
use cosy_slurm::times::{TimeFormat, TimeWriter};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

const HOUR: Span = Span::from_secs(3600);

/// A piece of work: its name, and what does it.
type Work = (&'static str, fn() -> String);

const ALL: [Work; 9] = [
    ("plan of 10,000 whole-node jobs, 1,024 nodes", plan_whole),
    ("plan of 2,000 jobs that share nodes, 1,024 nodes", plan_shared),
    ("plan of 10,000 mixed jobs, 2,000 nodes", plan_mixed),
    ("conservative plan of 60 jobs, 1,024 nodes", plan_conservative),
    ("appraisal of 20 starts, first 1,000 of 5,000 jobs, 1,024 nodes", appraisal),
    ("10,000 jobs through the controller: submitted, started, ended", controller),
    ("1,000 submissions encoded and decoded", submissions),
    ("a list of 2,000 jobs encoded and decoded", list),
    ("2,000 lines of squeue", squeue),
];

/// What is counted.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        ALL.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    };
    match ALL.iter().find(|(known, _)| *known == name) {
        Some((_, work)) => {
            println!("{}", work());
            ExitCode::SUCCESS
        }
        None => {
            eprintln!("counts: there is no '{name}'; without a name it prints all");
            ExitCode::FAILURE
        }
    }
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

fn waiting(id: u64, demand: Arc<Demand>, limit: Span) -> WaitingJob {
    WaitingJob {
        key: OrderKey::first_come(JobId(id), Time(id.cast_signed())),
        queue: QueueId(0),
        demand,
        limit,
        holds: Holds::NONE,
    }
}

/// Nodes of 32 cores that 500 jobs have taken, and a queue.
fn filled(
    policy: Policy,
    nodes: usize,
    jobs: u64,
    make: impl Fn(&mut Dice) -> Arc<Demand>,
) -> Scheduler {
    const RUNNING: u64 = 500;
    let mut dice = Dice(18);
    let totals = vec![amounts(32); nodes];
    let mut scheduler = Scheduler::new(policy, totals, vec![NodeMask::all(nodes)]);
    for id in 0..RUNNING + jobs {
        let limit = Span::from_secs(600 + 300 * dice.below(120) as i64);
        let demand = match id < RUNNING {
            true => whole(nodes as u32 / RUNNING as u32, nodes),
            false => make(&mut dice),
        };
        scheduler.enqueue(waiting(id, demand, limit));
        if id + 1 == RUNNING {
            scheduler.schedule(Time(0));
        }
    }
    scheduler
}

fn plan(scheduler: &Scheduler) -> String {
    let plan = measured(|| scheduler.plan(Time(1), None));
    let starts = plan.predictions.iter().filter_map(|told| told.start);
    format!("last start {} s", starts.max().unwrap_or_default().secs())
}

fn plan_whole() -> String {
    let any = |d: &mut Dice| whole(1 + d.below(128) as u32, 1024);
    plan(&filled(Policy::EASY, 1024, 10_000, any))
}

fn plan_shared() -> String {
    let small = |d: &mut Dice| shared(1 + d.below(16) as u32, 1 + d.below(8) as u32, 1024);
    plan(&filled(Policy::EASY, 1024, 2_000, small))
}

fn plan_mixed() -> String {
    let mixed = |d: &mut Dice| match d.below(10) < 6 {
        true => whole(1 + d.below(128) as u32, 2_000),
        false => shared(1, 1, 2_000),
    };
    plan(&filled(Policy::EASY, 2_000, 10_000, mixed))
}

fn plan_conservative() -> String {
    let any = |d: &mut Dice| whole(1 + d.below(128) as u32, 1024);
    plan(&filled(Policy::CONSERVATIVE, 1024, 60, any))
}

fn appraisal() -> String {
    let any = |d: &mut Dice| whole(1 + d.below(128) as u32, 1024);
    let scheduler = filled(Policy::EASY, 1024, 5_000, any);
    let inquiry = Inquiry {
        job: waiting(1 << 40, whole(64, 1024), HOUR),
        starts: Starts::At((0..20).map(|at| Time(1 + at * HOUR.ms())).collect()),
        tariff: Tariff::default(),
        makespan_weight_ppm: 500_000,
        most_jobs: 1000,
        replaces: None,
        fixed: None,
        pushed: Arc::default(),
        listed: Listed::Everyone,
        plain_start: true,
        joint: None,
        leavers: Vec::new(),
    };
    let told = measured(|| scheduler.appraise(Time(1), &inquiry));
    let extra = told.slots.iter().map(|slot| slot.extra);
    format!("{} in all, plain start {:?}", extra.fold(Su::ZERO, Su::plus), told.plain_start)
}

fn controller() -> String {
    let jobs = jobs(10_000);
    let starts = measured(|| controller_replay::starts(MACHINE, Policy::default(), &jobs));
    format!("{} jobs started", starts.iter().flatten().count())
}

/// There and back.
fn sent<T: serde::Serialize + serde::de::DeserializeOwned>(message: &T) -> (usize, T) {
    let bytes = frame::encode(message, limits::FRAME_BYTES).expect("it is short enough");
    let body = bytes.get(HEADER..).unwrap_or_default();
    (bytes.len(), frame::decode(body).expect("it was encoded a moment ago"))
}

fn submissions() -> String {
    let script = Program::Script {
        name: OsText::from("solve.sh"),
        args: vec![OsText::from("input.dat")],
    };
    let spec = JobSpec {
        time_limit: Some(HOUR),
        account: Some("physics".to_owned()),
        environment: OsText::from("PATH=/usr/bin:/bin\0HOME=/home/user\0LANG=C.UTF-8\0".repeat(10)),
        ..JobSpec::plain("simulation", script, OsText::from("/home/user/work"))
    };
    let request = Request::Submit(Box::new(Submission {
        spec,
        script: OsText::from("#!/bin/bash\nmodule load solver\nsrun solver input.dat\n".repeat(20)),
        array: None,
    }));
    let lengths = measured(|| {
        (0..1000)
            .map(|_| sent(black_box(&request)).0)
            .sum::<usize>()
    });
    format!("{lengths} bytes")
}

/// What `squeue` asks for of 2,000 jobs.
fn table() -> Table {
    use JobField as F;
    let fields = [
        F::Id,
        F::Queue,
        F::Name,
        F::User,
        F::State,
        F::Reason,
        F::Elapsed,
        F::NodeCount,
        F::Nodes,
        F::Submit,
    ];
    let mut table = Table::new(&fields);
    let mut dice = Dice(3);
    for row in 0..2000 {
        let runs = row < 500;
        for (field, column) in fields.iter().zip(&mut table.columns) {
            let number = match field {
                F::Id => row + 1,
                F::Elapsed if runs => dice.below(90_000_000).cast_signed(),
                F::NodeCount => 1 + dice.below(128).cast_signed(),
                F::Submit => 1_795_227_628_000 + row * 1000,
                _ => NO_NUMBER,
            };
            let text = match field {
                F::Queue => "main",
                F::Name => "simulation",
                F::User => "researcher",
                F::State if runs => "running",
                F::State => "waiting",
                F::Reason if !runs => "priority",
                F::Nodes if runs => "node[0017-0023]",
                _ => "",
            };
            match column {
                Column::Numbers(all) => all.push(number),
                Column::Texts(all) => all.push(text.to_owned()),
                Column::Words { .. } => {}
            }
        }
        table.rows += 1;
    }
    table
}

fn list() -> String {
    let reply = Reply::Jobs(table());
    let (length, _) = measured(|| sent(black_box(&reply)));
    format!("{length} bytes")
}

fn squeue() -> String {
    let (table, around) = (table(), ClusterFacts::default());
    let now: jiff::Zoned = "2026-11-21T02:20:31+00:00[+00:00]"
        .parse()
        .expect("it is a point of time");
    let look = ValueStyle {
        now: Time(now.timestamp().as_millisecond()),
        stamps: TimeWriter::new(&now, TimeFormat::Standard),
        raw_sizes: false,
        bits: None,
    };
    let rows: Vec<JobView<'_>> = (0..2000)
        .map(|row| JobView::new(&table, row, &around))
        .collect();
    let lines = measured(|| report::lines(&report::layout(&Query::default()), &rows, &look));
    format!("{} lines, {} bytes", lines.lines().count(), lines.len())
}
