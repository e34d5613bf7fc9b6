//! `cstat plan`: what runs, what is planned, what is reserved, and which waiting jobs
//! reservations push back.

pub mod picture;

use crate::native::{record, stat};
use crate::{Context, output, times};
use cosy_model::api::{JobField, JobFilter, Reply, Request, Table};
use cosy_model::reservation::{BarKind, PlanChart, ReservationFilter, ReservationInfo};
use cosy_model::{JobState, Span, Time};
use cosy_view::chart;
use jiff::Zoned;
use picture::Frame;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// Length of the chart without `--until`.
const AHEAD: Span = Span::from_minutes(24 * 60);
/// Waiting jobs in the chart, at most.
const MOST_JOBS: u32 = 10_000;
/// Characters of a line where the output is no terminal.
const USUAL_WIDTH: usize = 100;
/// Reservations, and jobs, that are listed below the chart, at most.
const MOST_LINES: usize = 20;

/// Which part of the plan is shown, and how.
pub struct PlanQuery<'a> {
    /// The right end of the chart.
    pub until: Option<Time>,
    /// Only these nodes; all when empty.
    pub nodes: &'a [String],
    /// Answers as JSON instead of a chart.
    pub json: bool,
}

/// The plan as text.
///
/// # Errors
/// A refusal, or no controller.
pub fn show(context: &Context, query: &PlanQuery<'_>) -> anyhow::Result<String> {
    let now = times::now();
    let until = query.until.unwrap_or(times::time_of(&now) + AHEAD);
    let request = Request::PlanChart {
        until: Some(until),
        most: MOST_JOBS,
    };
    let Reply::PlanChart(mut chart) = context.ask(request)? else {
        return Err(cosy_client::CallError::Unexpected.into());
    };
    only_nodes(&mut chart, query.nodes);
    if query.json {
        return Ok(stat::json_text(&json(&chart)));
    }
    let end = query.until.unwrap_or_else(|| end_of(&chart, until));
    let frame = Frame {
        width: output::width().unwrap_or(USUAL_WIDTH),
        until: end,
        zone: &now,
    };
    let reservations = context.fetch_reservations(ReservationFilter::default())?;
    let (picture, column) = picture::draw(&chart, frame);
    let mut text = heading(&chart, column, &now);
    text.push_str(&picture);
    text.push_str(&delay_lines(&reservations, until, &now));
    text.push_str(&waiting(&blocked(context)?));
    Ok(text)
}

/// Keeps the rows of those nodes.
fn only_nodes(chart: &mut PlanChart, names: &[String]) {
    if names.is_empty() {
        return;
    }
    let query: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut place = vec![None; chart.nodes.len()];
    let mut kept = Vec::new();
    for (at, name) in chart.nodes.iter().enumerate() {
        if query.contains(name.as_str()) {
            place[at] = u32::try_from(kept.len()).ok();
            kept.push(name.clone());
        }
    }
    for bar in &mut chart.bars {
        let new = |node: &u32| place.get(*node as usize).copied().flatten();
        bar.nodes = bar.nodes.iter().filter_map(new).collect();
    }
    chart.bars.retain(|bar| !bar.nodes.is_empty());
    chart.nodes = kept;
}

/// The last end, at most `most`, at least an hour ahead.
fn end_of(chart: &PlanChart, most: Time) -> Time {
    let last = chart.bars.iter().map(|b| b.end).max().unwrap_or(chart.now);
    last.max(chart.now + Span::from_minutes(60)).min(most)
}

fn heading(chart: &PlanChart, column: Span, now: &Zoned) -> String {
    let count = |kind| chart.bars.iter().filter(|b| b.kind == kind).count();
    let kinds = [
        (BarKind::Running, "running"),
        (BarKind::Planned, "planned"),
        (BarKind::Held, "held"),
        (BarKind::Reserved, "reserved"),
    ];
    let legend =
        kinds.map(|(kind, word)| format!("{} {word} ({})", picture::letter(kind), count(kind)));
    let beyond = match chart.beyond {
        0 => String::new(),
        1 => "; 1 more job waits".to_owned(),
        n => format!("; {n} more jobs wait"),
    };
    format!(
        "Plan at {}{beyond}\n{}; a letter is {} or less\n",
        times::short(chart.now, now),
        legend.join("  "),
        column,
    )
}

/// A line for each reservation that delays waiting jobs, with the delays as of its booking.
fn delay_lines(all: &[ReservationInfo], until: Time, now: &Zoned) -> String {
    let line = |r: &ReservationInfo| {
        let jobs = if r.delayed_jobs == 1 { "job" } else { "jobs" };
        format!(
            "reservation {} ({}, {}, from {}): pushed {} waiting {jobs} back by {} in all\n",
            r.id,
            r.user.replace(char::is_control, "?"),
            r.state,
            times::short(r.start, now),
            r.delayed_jobs,
            r.total_delay,
        )
    };
    let those = all.iter().filter(|r| r.delayed_jobs > 0 && r.start < until);
    those.take(MOST_LINES).map(line).collect()
}

/// The caller's waiting jobs that a reservation keeps from starting.
fn blocked(context: &Context) -> Result<Table, cosy_client::CallError> {
    let filter = JobFilter {
        users: vec![rustix::process::getuid().as_raw().to_string()],
        states: vec![JobState::Waiting],
        ..JobFilter::default()
    };
    let request = Request::Jobs {
        filter,
        fields: vec![JobField::Ref, JobField::Reason],
        fold_arrays: true,
    };
    context.fetch_jobs(request)
}

fn waiting(table: &Table) -> String {
    let word = cosy_model::WaitReason::Reservation.word();
    let those: Vec<&str> = (0..table.rows)
        .filter(|row| table.text(*row, JobField::Reason) == word)
        .map(|row| table.text(row, JobField::Ref))
        .collect();
    let Some(first) = those.first() else {
        return String::new();
    };
    let more = those.len().saturating_sub(MOST_LINES);
    let named = those[..those.len() - more].join(", ");
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(
        "Your jobs that wait because of a reservation: {named}{more} (cstat {first} tells more)\n"
    )
}

fn json(chart: &PlanChart) -> Json {
    record::json(&chart::fields(chart))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::reservations::sample;
    use cosy_model::api::Column;
    use cosy_model::reservation::PlanBar;
    use cosy_model::reservation::ReservationState;

    fn noon() -> Zoned {
        "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap()
    }

    fn chart() -> PlanChart {
        let now = times::time_of(&noon());
        let bar = |kind, label: &str, hours: i64, nodes: &[u32]| PlanBar {
            kind,
            label: label.into(),
            start: now,
            end: now + Span::from_minutes(60 * hours),
            nodes: nodes.to_vec(),
        };
        PlanChart {
            now,
            nodes: vec!["n1".into(), "n2".into(), "n3".into()],
            bars: vec![
                bar(BarKind::Running, "1", 3, &[0, 1]),
                bar(BarKind::Held, "r2", 100, &[2]),
            ],
            beyond: 4,
        }
    }

    #[test]
    fn some_nodes() {
        let mut some = chart();
        only_nodes(&mut some, &["n2".into(), "n9".into()]);
        assert_eq!((some.nodes.len(), some.bars.len()), (1, 1));
        assert_eq!(some.bars[0].nodes, [0]);
        let mut all = chart();
        only_nodes(&mut all, &[]);
        assert_eq!(all, chart());
    }

    #[test]
    fn ends() {
        let now = chart().now;
        let check = |hours: i64, want: i64| {
            let most = now + Span::from_minutes(60 * hours);
            assert_eq!(end_of(&chart(), most), now + Span::from_minutes(60 * want));
        };
        check(24, 24);
        check(1000, 100);
        let mut idle = chart();
        idle.bars.clear();
        assert_eq!(end_of(&idle, now + AHEAD), now + Span::from_minutes(60));
    }

    #[test]
    fn headings() {
        assert_eq!(
            heading(&chart(), Span::from_minutes(15), &noon()),
            "Plan at 12:00:00; 4 more jobs wait\n# running (1)  - planned (0)  \
             ? held (1)  = reserved (0); a letter is 00:15:00 or less\n"
        );
    }

    #[test]
    fn who_is_pushed_back() {
        let mut one = sample(7, "ann", ReservationState::Confirmed);
        one.delayed_jobs = 3;
        one.total_delay = Span::from_minutes(120);
        let none = sample(8, "bob", ReservationState::Held);
        assert_eq!(
            delay_lines(&[one, none], Time::FAR, &noon()),
            "reservation 7 (ann, confirmed, from 12:00:00): pushed 3 waiting jobs back by \
             02:00:00 in all\n"
        );
        let mut table = Table::new(&[JobField::Ref, JobField::Reason]);
        let texts = |t: [&str; 2]| Column::Texts(t.map(str::to_owned).to_vec());
        table.columns = vec![texts(["12", "13"]), texts(["reservation", "priority"])];
        table.rows = 2;
        assert_eq!(
            waiting(&table),
            "Your jobs that wait because of a reservation: 12 (cstat 12 tells more)\n"
        );
        assert_eq!(waiting(&Table::new(&[JobField::Ref, JobField::Reason])), "");
    }

    #[test]
    fn as_json() {
        let json = json(&chart());
        assert_eq!(json["bars"][0]["nodes"], "n[1-2]");
        assert_eq!(json["bars"][1]["kind"], "held");
        assert_eq!(json["bars"][0]["length"], 3 * 3600);
    }
}
