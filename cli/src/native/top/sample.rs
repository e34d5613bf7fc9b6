//! Jobs, nodes and plans for tests.

use crate::native::top::event::{Answer, Ask, Event, Got, Listing, Moment};
use crate::native::top::state::{Page, Settings, Top};
use crate::times;
use cosy_model::api::{Column, JobField, NO_NUMBER, NodeInfo, Table};
use cosy_model::reservation::{BarKind, PlanBar, PlanChart};
use cosy_model::{Amounts, JobId, MiB, Span};
use jiff::Zoned;
use std::time::Duration;

const HOUR: i64 = 3_600_000;

/// When all of it is.
pub fn noon() -> Zoned {
    "2026-11-21T12:00:00+00:00[UTC]".parse().unwrap()
}

/// So many seconds after the beginning.
pub fn moment(seconds: u64) -> Moment {
    Moment {
        now: noon(),
        passed: Duration::from_secs(seconds),
    }
}

/// So many jobs: 1 and 3 run, 4 is held, 5 is an array.
pub fn listing(jobs: usize) -> Listing {
    named(jobs, |n| format!("job{n}"))
}

/// The same with names.
pub fn named(jobs: usize, name: impl Fn(usize) -> String) -> Listing {
    use JobField as F;
    let now = times::time_of(&noon()).0;
    let texts = |of: &dyn Fn(usize) -> String| Column::Texts((1..=jobs).map(of).collect());
    let numbers = |of: &dyn Fn(i64) -> i64| Column::Numbers((1..=jobs as i64).map(of).collect());
    let runs = |n: i64| n == 1 || n == 3;
    let word = |word: &str, is: bool| if is { word.to_owned() } else { String::new() };
    let columns = [
        (
            F::Ref,
            texts(&|n| {
                if n == 5 {
                    "5_[1-9]".into()
                } else {
                    n.to_string()
                }
            }),
        ),
        (F::Name, texts(&name)),
        (F::User, texts(&|n| if n % 2 == 0 { "bob" } else { "ann" }.to_owned())),
        (F::Queue, texts(&|_| "main".to_owned())),
        (F::State, texts(&|n| if runs(n as i64) { "running" } else { "waiting" }.to_owned())),
        (F::Reason, texts(&|n| word("resources", !runs(n as i64)))),
        (F::Nodes, texts(&|n| word(&format!("n{n}"), runs(n as i64)))),
        (F::HeldBy, texts(&|n| word("user", n == 4))),
        (F::Start, numbers(&|n| if runs(n) { now - n * HOUR } else { NO_NUMBER })),
        (F::PredictedStart, numbers(&|n| if n == 2 { now + HOUR } else { NO_NUMBER })),
        (F::Begin, numbers(&|_| NO_NUMBER)),
        (F::Elapsed, numbers(&|n| if runs(n) { n * HOUR } else { NO_NUMBER })),
        (F::TimeLimit, numbers(&|n| n * 4 * HOUR)),
        (F::NodeCount, numbers(&|_| 1)),
        (F::Cores, numbers(&|n| n)),
    ];
    let (fields, columns) = columns.into_iter().unzip();
    let table = Table::of(fields, columns, jobs);
    assert!(table.is_sound());
    Listing {
        table,
        cut: false,
        in_all: None,
    }
}

/// Job 12, which waits.
pub fn job() -> Table {
    use JobField as F;
    let now = times::time_of(&noon()).0;
    let texts = [
        (F::Ref, "12"),
        (F::Name, "train"),
        (F::User, "ann"),
        (F::Queue, "main"),
        (F::State, "waiting"),
        (F::Workdir, "/home/ann"),
        (F::Stdout, "cosy-12.out"),
        (F::Stderr, "cosy-12.err"),
        (F::Command, "./train.sh"),
    ];
    let numbers = [
        (F::Uid, 4711),
        (F::NodeCount, 2),
        (F::MinNodes, 2),
        (F::Place, 4),
        (F::TimeLimit, HOUR),
        (F::Submit, now - HOUR),
        (F::PredictedStart, now + 2 * HOUR),
    ];
    let fields = texts.iter().map(|t| t.0).chain(numbers.iter().map(|n| n.0));
    let text = |(_, text): &(F, &str)| Column::Texts(vec![(*text).to_owned()]);
    let number = |(_, n): &(F, i64)| Column::Numbers(vec![*n]);
    let columns = texts.iter().map(text).chain(numbers.iter().map(number));
    Table::of(fields.collect(), columns.collect(), 1)
}

/// So many nodes; every third is lost.
pub fn nodes(count: usize) -> Vec<NodeInfo> {
    let node = |n: usize| NodeInfo {
        name: format!("n{n}"),
        state: if n.is_multiple_of(3) { "lost" } else { "mixed" }.into(),
        reason: if n.is_multiple_of(3) { "fan" } else { "" }.into(),
        amounts: Amounts {
            cores: 4,
            memory: MiB(2048),
            ..Amounts::default()
        },
        used: Amounts {
            cores: 1,
            ..Amounts::default()
        },
        queues: vec!["main".into()],
        jobs: 1,
        ..NodeInfo::default()
    };
    (1..=count).map(node).collect()
}

/// A plan of so many nodes: on each a job runs, another is planned, and the last is reserved.
pub fn chart(nodes: u32) -> PlanChart {
    let now = times::time_of(&noon());
    let bar = |kind, label: String, from: i64, to: i64, node| PlanBar {
        kind,
        label,
        start: now + Span(from * HOUR),
        end: now + Span(to * HOUR),
        nodes: vec![node],
    };
    let mut bars = Vec::new();
    for node in 0..nodes {
        let id = i64::from(node) + 1;
        bars.push(bar(BarKind::Running, id.to_string(), 0, 2 + id % 5, node));
        bars.push(bar(BarKind::Planned, format!("{}", 1000 + id), 2 + id % 5, 12, node));
    }
    bars.push(bar(BarKind::Reserved, "r7".into(), 14, 20, nodes - 1));
    bars.push(bar(BarKind::Held, "r8".into(), 12, 20, 0));
    PlanChart {
        now,
        nodes: (1..=nodes).map(|n| format!("n{n}")).collect(),
        bars,
        beyond: 5,
    }
}

/// How the command is begun.
pub fn settings(page: Page) -> Settings {
    Settings {
        every: Duration::from_secs(2),
        colour: true,
        uid: 4711,
        all: true,
        line: String::new(),
        page,
        job: (page == Page::Job).then(|| "12".parse().unwrap()),
    }
}

/// The command at its beginning, on a terminal of that size.
pub fn top(page: Page, size: (u16, u16)) -> Top {
    Top::new(settings(page), size, moment(0))
}

/// The controller answers.
pub fn answer(ask: Ask, got: Got) -> Event {
    Event::Answered(Box::new(Answer {
        ask,
        got: Ok(got),
        took: Duration::from_millis(20),
    }))
}

/// A plan as it comes: the jobs of this user are 3 and 12.
pub fn plan_answer(nodes: u32) -> Got {
    Got::Plan {
        chart: Box::new(chart(nodes)),
        own: vec![JobId(3), JobId(12)],
    }
}
