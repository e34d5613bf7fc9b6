//! `cosy flow plan`: asks for the plan and shows it.

use crate::native::flow::request::{self, FlowRequest};
use crate::native::flow::{json, picture};
use crate::native::record::{self, TimeStyle};
use crate::native::resv::words;
use crate::native::stat;
use crate::native::table::{TableStyle, broken, sentences};
use crate::{Context, exit, output};
use anyhow::Context as _;
use clap::ArgMatches;
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::PlanChart;
use cosy_model::workflow::{FlowPlan, FlowSpec};
use cosy_model::{Span, Time};
use cosy_view::flow_plan::{booked_and_estimated, columns, end, method, rows};
use jiff::Zoned;
use std::ffi::OsString;

/// Most waiting jobs in a picture.
const DRAWN_JOBS: u32 = 2000;
/// The user's own delayed jobs that are named, at most.
const SHOWN_JOBS: usize = 10;
/// Refusals that are told, at most: most tasks of a workflow are refused for the same.
const SHOWN_REFUSALS: usize = 3;
/// Slots that are so many times as long as the work are told of.
const STRETCHED: i64 = 4;
/// Characters of a line where the output is no terminal.
const USUAL_WIDTH: usize = 100;

/// Runs `cosy flow plan`.
///
/// # Errors
/// Bad input, a refusal, no controller, or a picture that cannot be written.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let FlowRequest {
        spec,
        now,
        source_lines,
    } = request::read(context, matches)?;
    if spec.deadline.is_none() {
        return Err(exit::usage(
            "by when is it to be done? Give --finish-by TIME or --slack 50%, or deadline or slack \
             in [workflow]; without a deadline there are no slots to plan",
        ));
    }
    let request = Request::PlanFlow {
        spec: Box::new(spec.clone()),
    };
    let reply = context
        .ask(request)
        .map_err(|e| source_lines.with_line(e))?;
    let Reply::FlowPlan(plan) = reply else {
        return Err(cosy_client::CallError::Unexpected.into());
    };
    if let Some(file) = matches.get_one::<OsString>("svg") {
        let around = machine_plan(context, &plan)?;
        let drawn = picture::draw(&spec, &plan, &around, &now);
        if file == "-" {
            output::print(&drawn);
            return Ok(exit::OK);
        }
        let path = std::path::Path::new(file);
        std::fs::write(path, drawn)
            .with_context(|| format!("cannot write '{}'", path.display()))?;
    }
    output::print(&if matches.get_flag("json") {
        stat::json_text(&json::plan(&spec, &plan))
    } else {
        let mut text = text(&spec, &plan, &now, stat::table_style(matches));
        if matches.get_flag("chart") {
            text.push('\n');
            text.push_str(&chart(&spec, &plan, &now));
        }
        text
    });
    Ok(exit::OK)
}

/// The plan of the machine until the deadline, to draw behind the slots.
fn machine_plan(context: &Context, plan: &FlowPlan) -> anyhow::Result<PlanChart> {
    let request = Request::PlanChart {
        until: Some(end(plan).max(plan.deadline)),
        most: DRAWN_JOBS,
    };
    match context.ask(request)? {
        Reply::PlanChart(chart) => Ok(*chart),
        _ => Err(cosy_client::CallError::Unexpected.into()),
    }
}

/// The plan as a table, with what it comes to below.
pub fn text(spec: &FlowSpec, plan: &FlowPlan, now: &Zoned, style: TableStyle) -> String {
    let clock = TimeStyle::in_words(now);
    let table = record::list(&columns(plan), &rows(spec, plan), clock, style);
    let below = sentences(&summary(plan, now), style.width);
    format!("{}\n{table}{below}", heading(spec, style))
}

/// What is planned, and how; the names of the methods only for who wants everything.
fn heading(spec: &FlowSpec, style: TableStyle) -> String {
    let tasks = words::count(spec.tasks.len() as u64, "task", "tasks");
    let edges = words::count(spec.edges.len() as u64, "dependency", "dependencies");
    let mut text = format!(
        "Workflow {}: {tasks}, {edges}. Placed to be done as early as possible; the time that is left \
         until the deadline is shared out {}",
        words::clean(&spec.name),
        method(spec.slack_policy)
    );
    text.push_str(&match style.exact {
        true => format!(" ({}, {}).", spec.scheduler, spec.slack_policy),
        false => ".".to_owned(),
    });
    broken(&text, style.width.unwrap_or(USUAL_WIDTH)).join("\n")
}

/// What the plan comes to, in sentences.
pub fn summary(plan: &FlowPlan, now: &Zoned) -> String {
    let end = end(plan);
    let shortest = plan.shortest_end.since(plan.start);
    let spare = plan.deadline.since(plan.shortest_end);
    let mut text = format!(
        "* on the critical path: if one of these is late, all is\n\
         Starts at {}, done by {} ({}), deadline {}.\n\
         Without spare time it would take {} and be done at {}, {} before the deadline.\n",
        words::clock(plan.start, now),
        words::clock(end, now),
        words::span(end.since(plan.start)),
        words::clock(plan.deadline, now),
        words::span(shortest),
        words::clock(plan.shortest_end, now),
        words::span(spare),
    );
    text.push_str(&stretched_line(plan, now));
    text.push_str(&format!("It costs {} in all.\n", words::su(plan.price)));
    text.push_str(&delays(plan));
    for refusal in plan.refusals.iter().take(SHOWN_REFUSALS) {
        text.push_str(&format!("It would be refused: {}\n", words::local_times(refusal, now)));
    }
    let more = plan.refusals.len().saturating_sub(SHOWN_REFUSALS);
    if more > 0 {
        text.push_str(&format!("There are {more} more such reasons: --json has all.\n"));
    }
    text
}

/// Slots are stretched up to the deadline: what that comes to, where it is far more than the work.
pub fn stretched((booked, estimated): (Span, Span)) -> Option<String> {
    let far_more = booked.ms() / STRETCHED >= estimated.ms().max(1);
    far_more.then(|| {
        format!(
            "Its slots are stretched to the deadline: {} are booked and paid for {} of work.",
            words::span(booked),
            words::span(estimated)
        )
    })
}

fn stretched_line(plan: &FlowPlan, now: &Zoned) -> String {
    let Some(stretched) = stretched(booked_and_estimated(plan)) else {
        return String::new();
    };
    let half = Span(plan.shortest_end.since(plan.start).ms() / 2);
    let earlier = words::clock(whole_second(plan.shortest_end + half), now);
    format!(
        "{stretched} To book less: --slack 50%, or --finish-by {earlier}, which is about the same.\n"
    )
}

fn whole_second(time: Time) -> Time {
    Time::from_secs(time.secs().saturating_add(1))
}

fn delays(plan: &FlowPlan) -> String {
    if plan.delayed.is_empty() {
        return "It delays nobody.\n".to_owned();
    }
    let sum = plan.delayed.iter().fold(Span::ZERO, |sum, d| sum + d.1);
    let mut text = format!(
        "It delays {} by {} in all",
        words::count(plan.delayed.len() as u64, "waiting job", "waiting jobs"),
        words::span(sum)
    );
    let own: Vec<String> = plan
        .delayed
        .iter()
        .filter(|d| d.2)
        .map(|(job, by, _)| format!("{job} by {}", words::span(*by)))
        .collect();
    if !own.is_empty() {
        let more = own.len().saturating_sub(SHOWN_JOBS);
        let shown = own[..own.len() - more].join(", ");
        text.push_str(&format!("; of yours {shown}"));
        if more > 0 {
            text.push_str(&format!(" and {more} more"));
        }
    }
    text.push_str(".\n");
    text
}

/// The slots as a chart of letters.
fn chart(spec: &FlowSpec, plan: &FlowPlan, now: &Zoned) -> String {
    let chart = picture::slots(spec, plan);
    let frame = crate::native::plan::picture::Frame {
        width: output::width().unwrap_or(USUAL_WIDTH),
        until: end(plan),
        zone: now,
    };
    crate::native::plan::picture::draw(&chart, frame).0
}

/// A plan for tests: a fork of two between a first and a last task.
#[cfg(test)]
pub mod sample {
    use super::*;
    use cosy_model::workflow::{FlowDeadline, PlannedTask};
    use cosy_model::{JobId, Su};

    /// The present of the tests.
    pub fn now() -> Zoned {
        "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap()
    }

    /// So many minutes after noon.
    pub fn at(minutes: i64) -> Time {
        crate::times::time_of(&now()) + Span::from_minutes(minutes)
    }

    /// A workflow of four tasks in the form of a diamond.
    pub fn spec() -> FlowSpec {
        let text = "[workflow]\nname = 'night'\nslack = '50%'\n\
                    [defaults]\nestimate = '10m'\ncommand-free = 1\n";
        let text = text.replace("command-free = 1\n", "");
        let text = format!(
            "{text}[tasks.first]\ncommand = ['true']\n\
             [tasks.left]\ncommand = ['true']\nafter = 'first'\n\
             [tasks.right]\ncommand = ['true']\nafter = [{{ task = 'first', data = '1G' }}]\n\
             [tasks.last]\ncommand = ['true']\nafter = ['left', 'right']\n"
        );
        let source = crate::native::flow::file::SourceFile {
            name: "f".into(),
            dir: Default::default(),
            stem: "f".into(),
            bytes: text.into_bytes(),
        };
        crate::native::flow::file::parse(&source, &now())
            .unwrap()
            .spec
    }

    /// A plan for that workflow; the third task has two nodes.
    pub fn plan() -> FlowPlan {
        let slot = |task, from, to, estimate_s, critical, nodes: &str| PlannedTask {
            task,
            start: at(from),
            end: at(to),
            estimate: Span::from_secs(estimate_s),
            spare: Span(at(to).since(at(from)).ms() - estimate_s * 1000),
            critical,
            set: String::new(),
            nodes: nodes.to_owned(),
            price: Su(1_500_000),
            delayed_jobs: u32::from(task == 1),
            total_delay: Span::from_minutes(i64::from(task == 1) * 5),
        };
        let mut plan = FlowPlan {
            now: at(0),
            start: at(10),
            shortest_end: at(40),
            deadline: at(55),
            tasks: vec![
                slot(0, 10, 25, 600, true, "n1"),
                slot(1, 25, 40, 600, true, "n1"),
                slot(2, 30, 40, 300, false, "n[2-3]"),
                slot(3, 40, 55, 600, true, "n1"),
            ],
            price: Su::whole(6),
            delayed: vec![
                (JobId(12), Span::from_minutes(5), true),
                (JobId(13), Span::from_minutes(1), false),
            ],
            refusals: Vec::new(),
        };
        plan.tasks[2].spare = Span(300_500);
        plan.shortest_end = spec().deadline.map_or(at(40), |d| match d {
            FlowDeadline::By(by) => by,
            FlowDeadline::Slack(_) => at(40),
        });
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table() {
        let (spec, plan, now) = (sample::spec(), sample::plan(), sample::now());
        let got = text(&spec, &plan, &now, TableStyle::default());
        let want = [
            "Workflow night: 4 tasks, 4 dependencies. Placed to be done as early as possible; the time that is",
            "left until the deadline is shared out on the critical path first, by the estimates of its tasks.",
            "TASK   CP  START  END    ESTIMATE  SPARE  NODES   PRICE  DELAYS",
            "first  *   12:10  12:25    10 min  5 min  n1        1.5  nobody",
            "left   *   12:25  12:40    10 min  5 min  n1        1.5  1 job by 5 min",
            "right      12:30  12:40     5 min  5 min  n[2-3]    1.5  nobody",
            "last   *   12:40  12:55    10 min  5 min  n1        1.5  nobody",
            "* on the critical path: if one of these is late, all is",
            "Starts at 12:10, done by 12:55 (45 min), deadline 12:55.",
            "Without spare time it would take 30 min and be done at 12:40, 15 min before the deadline.",
            "It costs 6 SU in all.",
            "It delays 2 waiting jobs by 6 min in all; of yours 12 by 5 min.",
        ];
        assert_eq!(got.lines().collect::<Vec<_>>(), want);
    }

    #[test]
    fn slots_that_are_stretched_are_told_of() {
        let check = |hours: i64, want: &str| {
            let mut plan = sample::plan();
            plan.tasks[0].end = plan.tasks[0].end + Span::from_minutes(60 * hours);
            let got = text(&sample::spec(), &plan, &sample::now(), TableStyle::default());
            let line = got.lines().find(|line| line.contains("stretched"));
            assert_eq!(line.unwrap_or_default(), want, "{got}");
        };
        check(1, "");
        check(
            27,
            "Its slots are stretched to the deadline: 1 d 4 h are booked and paid for 35 min of work. \
             To book less: --slack 50%, or --finish-by 12:55:01, which is about the same.",
        );
    }

    #[test]
    fn refusals_and_sets() {
        let (spec, mut plan, now) = (sample::spec(), sample::plan(), sample::now());
        plan.refusals = vec!["notice: earliest 2026-11-21T15:00:00Z".into()];
        plan.delayed.clear();
        plan.tasks[0].set = "fast".into();
        plan.tasks[3].task = 99;
        let got = text(&spec, &plan, &now, TableStyle::default());
        assert!(got.contains("It delays nobody.\n"));
        assert!(got.ends_with("It would be refused: notice: earliest 15:00\n"), "{got}");
        assert!(!got.contains("more such reasons"), "{got}");
        let many = FlowPlan {
            refusals: vec!["quota: 2 are open".into(); 5],
            ..plan
        };
        let long = text(&spec, &many, &now, TableStyle::default());
        assert!(long.ends_with("open\nThere are 2 more such reasons: --json has all.\n"), "{long}");
        assert_eq!(long.matches("It would be refused").count(), SHOWN_REFUSALS);
        assert!(got.contains("  SET   NODES") && got.contains("\n?      *"), "{got}");
    }

    #[test]
    fn letters() {
        let text = chart(&sample::spec(), &sample::plan(), &sample::now());
        assert!(
            text.lines()
                .any(|l| l.starts_with("n1") && l.contains("first")),
            "{text}"
        );
    }
}
