//! The plan as a Gantt chart: what ran, runs, is planned and reserved, by node.
//!
//! The plan is the planner's. Where there are more nodes than a picture has lines, neighbouring ones
//! are put together, and of each time is told how much of them is taken: the answer stays small.

use super::jobs::past;
use super::values::When;
use crate::figures::is_out;
use crate::limits::{CHART_BARS, CHART_COLUMNS, CHART_JOBS, CHART_ROWS};
use crate::params::Params;
use crate::problem::{Answer, Problem, Result};
use crate::site::{Site, SiteState};
use crate::who::Who;
use axum::extract::State;
use cosy_model::api::{JobField, JobFilter, NodeInfo, Reply, Request, Table};
use cosy_model::reservation::{BarKind, PlanChart};
use cosy_model::{Time, expand, fold};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::collections::HashMap;

/// What is told of jobs that have ended, and of the user's own.
const FIELDS: [JobField; 7] = [
    JobField::Ref,
    JobField::Name,
    JobField::User,
    JobField::State,
    JobField::Start,
    JobField::End,
    JobField::Nodes,
];
/// Ended jobs in a chart.
const PAST: u32 = 1000;
/// The user's own jobs that are in front.
const OWN: usize = 5000;

/// Which part of the chart.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanAsk {
    from: When,
    to: When,
    /// Only these nodes, as a host list.
    nodes: Option<String>,
    /// Only nodes of this queue.
    queue: Option<String>,
    /// Lines at most; where there are more nodes, several are put together.
    lines: Option<usize>,
}

/// A bar as it is told.
struct Bar {
    kind: &'static str,
    label: String,
    name: String,
    user: String,
    state: String,
    start: Time,
    end: Time,
    rows: Vec<u32>,
}

/// The chart.
pub async fn plan(State(site): SiteState, who: Who, Params(ask): Params<PlanAsk>) -> Result {
    let (from, to) = (ask.from.0, ask.to.0);
    if to <= from || to.since(from).0 > 2 * 366 * 86_400_000 {
        return Err(Problem::invalid("to comes after from, by two years at most"));
    }
    let nodes = site.shared.nodes(&site.cluster).await?;
    let shown = chosen(&nodes, &ask)?;
    let request = Request::PlanChart {
        until: Some(to),
        most: CHART_JOBS,
    };
    let Reply::PlanChart(chart) = site.cluster.ask(who.uid, request).await? else {
        return Err(Problem::unexpected());
    };
    let place: HashMap<&str, u32> = (0..)
        .zip(&shown)
        .map(|(at, node)| (node.name.as_str(), at))
        .collect();
    let mut bars = bars_of(&chart, &place, (from, to));
    let now = chart.now;
    if from < now {
        let table = past(&site, &who, ended_since(from, to), &FIELDS).await?;
        bars.extend(ended(&table, &place, (from, to)));
    }
    let beyond = chart.beyond;
    let head = json!({
        "now_ms": now.0, "from_ms": from.0, "to_ms": to.0, "nodes": shown.len(),
        "nodes_in_all": nodes.len(), "beyond": beyond,
    });
    let lines = ask.lines.unwrap_or(CHART_ROWS).clamp(1, CHART_ROWS);
    if shown.len() > lines || lines == 1 {
        return Ok(Answer(by_part(head, &shown, &bars, (from, to), lines)));
    }
    // Where nodes share lines no bar is told by itself.
    name_own(&site, &who, &mut bars).await?;
    Ok(Answer(by_bar(head, &shown, &bars, &who.name)))
}

/// The nodes that are asked for.
fn chosen<'n>(nodes: &'n [NodeInfo], ask: &PlanAsk) -> Result<Vec<&'n NodeInfo>> {
    let named = ask.nodes.as_deref().filter(|text| !text.is_empty());
    let names = match named {
        None => None,
        Some(text) => {
            let names = expand(text).map_err(|e| Problem::invalid(e.to_string()))?;
            Some(
                names
                    .into_iter()
                    .collect::<std::collections::HashSet<String>>(),
            )
        }
    };
    let queue = ask.queue.as_ref().filter(|queue| !queue.is_empty());
    let all: Vec<&NodeInfo> = nodes
        .iter()
        .filter(|node| {
            names
                .as_ref()
                .is_none_or(|names| names.contains(&node.name))
        })
        .filter(|node| queue.is_none_or(|queue| node.queues.contains(queue)))
        .collect();
    match all.is_empty() {
        true => Err(Problem::not_found("no node is meant by that")),
        false => Ok(all),
    }
}

fn ended_since(from: Time, to: Time) -> JobFilter {
    JobFilter {
        since: Some(from),
        until: Some(to),
        most: Some(PAST),
        pages: true,
        ..JobFilter::default()
    }
}

const fn kind(kind: BarKind) -> &'static str {
    match kind {
        BarKind::Running => "running",
        BarKind::Planned => "planned",
        BarKind::Held => "held",
        BarKind::Reserved => "reserved",
    }
}

/// Bars of the plan that are in the picture.
fn bars_of(chart: &PlanChart, place: &HashMap<&str, u32>, (from, to): (Time, Time)) -> Vec<Bar> {
    // By their places in the chart of the controller, which knows nothing of the choice.
    let rows: Vec<Option<u32>> = chart
        .nodes
        .iter()
        .map(|name| place.get(name.as_str()).copied())
        .collect();
    let mut bars = Vec::new();
    for bar in &chart.bars {
        if bar.end <= from || bar.start >= to {
            continue;
        }
        let of = |node: &u32| rows.get(*node as usize).copied().flatten();
        let mut rows: Vec<u32> = bar.nodes.iter().filter_map(of).collect();
        rows.sort_unstable();
        if !rows.is_empty() {
            bars.push(Bar {
                kind: kind(bar.kind),
                label: bar.label.clone(),
                name: String::new(),
                user: String::new(),
                state: String::new(),
                start: bar.start,
                end: bar.end,
                rows,
            });
        }
    }
    bars
}

/// Bars of jobs that have ended.
fn ended(table: &Table, place: &HashMap<&str, u32>, (from, to): (Time, Time)) -> Vec<Bar> {
    let mut bars = Vec::new();
    for row in 0..table.rows {
        let time = |field| table.number(row, field).map(Time);
        let (Some(start), Some(end)) = (time(JobField::Start), time(JobField::End)) else {
            continue;
        };
        if end <= from || start >= to || end <= start {
            continue;
        }
        let names = expand(table.text(row, JobField::Nodes)).unwrap_or_default();
        let of = |name: &String| place.get(name.as_str()).copied();
        let mut rows: Vec<u32> = names.iter().filter_map(of).collect();
        rows.sort_unstable();
        if !rows.is_empty() {
            bars.push(Bar {
                kind: "past",
                label: table.text(row, JobField::Ref).to_owned(),
                name: table.text(row, JobField::Name).to_owned(),
                user: table.text(row, JobField::User).to_owned(),
                state: table.text(row, JobField::State).to_owned(),
                start,
                end,
                rows,
            });
        }
    }
    bars
}

/// Gives the user's own bars their names.
async fn name_own(site: &Site, who: &Who, bars: &mut [Bar]) -> Result<()> {
    let filter = JobFilter {
        users: vec![who.name.clone()],
        pages: true,
        ..JobFilter::default()
    };
    let request = Request::Jobs {
        filter,
        fields: vec![JobField::Ref, JobField::Name],
        fold_arrays: false,
    };
    let Reply::Jobs(own) = site.cluster.ask(who.uid, request).await? else {
        return Err(Problem::unexpected());
    };
    let names: HashMap<&str, &str> = (0..own.rows.min(OWN))
        .map(|row| (own.text(row, JobField::Ref), own.text(row, JobField::Name)))
        .collect();
    for bar in bars.iter_mut().filter(|bar| bar.kind != "past") {
        if let Some(name) = names.get(bar.label.as_str()) {
            bar.name = (*name).to_owned();
            bar.user.clone_from(&who.name);
        }
    }
    Ok(())
}

/// A line for each node.
fn by_bar(mut head: Json, shown: &[&NodeInfo], bars: &[Bar], own: &str) -> Json {
    // The widest and longest ones where there are too many, and the user's own in any case.
    let mut order: Vec<usize> = (0..bars.len()).collect();
    if bars.len() > CHART_BARS {
        let size = |at: usize| {
            let bar = &bars[at];
            (
                bar.user == own,
                bar.end
                    .since(bar.start)
                    .0
                    .saturating_mul(bar.rows.len() as i64),
            )
        };
        order.sort_by_key(|at| std::cmp::Reverse(size(*at)));
        order.truncate(CHART_BARS);
        order.sort_unstable();
    }
    let told: Vec<Json> = order
        .iter()
        .map(|at| {
            let bar = &bars[*at];
            json!({
                "kind": bar.kind, "label": bar.label, "name": bar.name, "user": bar.user,
                "state": bar.state, "start_ms": bar.start.0, "end_ms": bar.end.0,
                "rows": runs(&bar.rows), "own": bar.user == own,
            })
        })
        .collect();
    let rows = shown.iter().map(|node| {
        json!({
            "name": node.name, "state": node.state, "out": is_out(node), "cores": node.amounts.cores,
            "gpus": node.amounts.gpus,
        })
    });
    head["rows"] = rows.collect();
    head["left_out"] = (bars.len() - order.len()).into();
    head["bars"] = told.into();
    head
}

/// Neighbouring numbers as first and last.
fn runs(rows: &[u32]) -> Vec<[u32; 2]> {
    let mut runs: Vec<[u32; 2]> = Vec::new();
    for row in rows {
        match runs.last_mut() {
            Some(run) if run[1] + 1 == *row => run[1] = *row,
            _ => runs.push([*row, *row]),
        }
    }
    runs
}

/// A line for several nodes each: how much of them is taken, by time.
fn by_part(
    mut head: Json,
    shown: &[&NodeInfo],
    bars: &[Bar],
    (from, to): (Time, Time),
    lines: usize,
) -> Json {
    let each = shown.len().div_ceil(lines);
    let rows = shown.len().div_ceil(each);
    let step = to.since(from).0.div_euclid(CHART_COLUMNS as i64).max(1);
    // Changes of how many milliseconds of a column are taken, from one column to the next.
    let mut taken = vec![[0_i64; 4]; rows * (CHART_COLUMNS + 1)];
    for bar in bars {
        let kind = match bar.kind {
            "past" => 0,
            "running" => 1,
            "planned" => 2,
            _ => 3,
        };
        let parts = columns(bar.start.max(from).since(from).0, bar.end.min(to).since(from).0, step);
        for row in &bar.rows {
            let line = (*row as usize / each) * (CHART_COLUMNS + 1);
            for (first, last, ms) in parts {
                taken[line + first][kind] += ms;
                taken[line + last][kind] -= ms;
            }
        }
    }
    let lines: Vec<Json> = (0..rows)
        .map(|row| {
            let members = shown.iter().skip(row * each).take(each);
            let names: Vec<&str> = members.clone().map(|node| node.name.as_str()).collect();
            let out = members.filter(|node| is_out(node)).count();
            let line = &taken[row * (CHART_COLUMNS + 1)..][..CHART_COLUMNS];
            json!({
                "name": fold(&names), "nodes": names.len(), "out": out,
                "taken": percents(line, names.len(), step),
            })
        })
        .collect();
    head["parts"] = lines.into();
    head["columns"] = CHART_COLUMNS.into();
    head["step_ms"] = step.into();
    head
}

/// The columns from one time to another, and how many milliseconds of each are meant: the first one, those
/// in between, the last one.
fn columns(start: i64, end: i64, step: i64) -> [(usize, usize, i64); 3] {
    let column = |at: i64| (at.div_euclid(step)).clamp(0, CHART_COLUMNS as i64) as usize;
    let (first, last) = (column(start), column(end));
    let none = (0, 0, 0);
    if first >= CHART_COLUMNS {
        return [none; 3];
    }
    if first == last {
        return [(first, first + 1, (end - start).max(0)), none, none];
    }
    let begun = step - (start - first as i64 * step);
    let rest = match last < CHART_COLUMNS {
        true => (last, last + 1, end - last as i64 * step),
        false => none,
    };
    [(first, first + 1, begun), (first + 1, last, step), rest]
}

/// Of each time four numbers in hundredths: past, running, planned, reserved.
fn percents(line: &[[i64; 4]], nodes: usize, step: i64) -> Vec<u8> {
    let mut now = [0_i64; 4];
    let mut all = Vec::with_capacity(line.len() * 4);
    for change in line {
        for (sum, by) in now.iter_mut().zip(change) {
            *sum += by;
        }
        let whole = step.saturating_mul(nodes.max(1) as i64).max(1);
        let percent = |sum: &i64| (i128::from(*sum) * 100 / i128::from(whole)).clamp(0, 100) as u8;
        all.extend(now.iter().map(percent));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_told_together() {
        assert_eq!(runs(&[0, 1, 2, 5, 7, 8]), [[0, 2], [5, 5], [7, 8]]);
        assert!(runs(&[]).is_empty());
    }

    #[test]
    fn parts_of_columns() {
        assert_eq!(columns(20, 50, 100), [(0, 1, 30), (0, 0, 0), (0, 0, 0)]);
        assert_eq!(columns(20, 350, 100), [(0, 1, 80), (1, 3, 100), (3, 4, 50)]);
        assert_eq!(columns(0, 200, 100), [(0, 1, 100), (1, 2, 100), (2, 3, 0)]);
        let all = CHART_COLUMNS as i64 * 100;
        assert_eq!(columns(0, all, 100), [(0, 1, 100), (1, CHART_COLUMNS, 100), (0, 0, 0)]);
        assert_eq!(columns(all, all, 100), [(0, 0, 0); 3]);
    }

    #[test]
    fn many_nodes_become_parts() {
        let node = |n: u32| NodeInfo {
            name: format!("n{n}"),
            state: "idle".into(),
            ..NodeInfo::default()
        };
        let nodes: Vec<NodeInfo> = (0..250).map(node).collect();
        let shown: Vec<&NodeInfo> = nodes.iter().collect();
        let bar = Bar {
            kind: "running",
            label: "1".into(),
            name: String::new(),
            user: String::new(),
            state: String::new(),
            start: Time(-5),
            end: Time(1680),
            rows: vec![0, 1, 2, 3],
        };
        let chart = by_part(json!({}), &shown, &[bar], (Time(0), Time(16_800)), CHART_ROWS);
        let parts = chart["parts"].as_array().unwrap();
        assert_eq!((parts.len(), &parts[0]["name"]), (84, &json!("n[0-2]")));
        let taken =
            |row: usize, column: usize| parts[row]["taken"][column * 4 + 1].as_u64().unwrap();
        // Of the second three one is taken, for the first tenth of the time.
        assert_eq!((taken(0, 0), taken(1, 0), taken(1, 16), taken(1, 17)), (100, 33, 26, 0));
        assert_eq!(taken(2, 0), 0);
    }
}
