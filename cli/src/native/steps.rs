//! `chist --steps`: ended steps of jobs, also of jobs that still run.
//!
//! Knows the records as the controller keeps them; whose they are is decided there.

use crate::native::jobs::{self, json_span, json_time};
use crate::native::table::{Cell, Head, TableStyle, render};
use crate::units::{bytes, micros};
use crate::{Context, times};
use cosy_client::pages;
use cosy_model::api::{JobField, JobFilter, JobRef, Request, StepRow};
use cosy_model::{EndCause, Span, signal};
use jiff::Zoned;
use serde_json::{Value as Json, json};

/// The steps of the jobs that are named, else of those that the filter means.
///
/// # Errors
/// A refusal, or no controller.
pub fn fetch(context: &Context, filter: JobFilter) -> anyhow::Result<Vec<StepRow>> {
    let jobs = if filter.ids.is_empty() {
        jobs_of(context, filter)?
    } else {
        filter.ids
    };
    Ok(pages::steps(|request| context.ask(request), &jobs)?)
}

fn jobs_of(context: &Context, filter: JobFilter) -> anyhow::Result<Vec<JobRef>> {
    let fields = vec![JobField::Ref];
    let table = context.fetch_jobs(Request::History { filter, fields })?;
    let name = |row| table.text(row, JobField::Ref).parse().ok();
    Ok((0..table.rows).filter_map(name).collect())
}

/// A list as text.
pub fn list(rows: &[StepRow], now: &Zoned, look: TableStyle) -> String {
    let again = rows.iter().any(|r| r.attempt.0 > 1);
    let mut heads = vec![
        Head::right("STEP"),
        Head::left("NAME").cut(6),
        Head::left("STATE"),
        Head::right("EXIT"),
        Head::left("START"),
        Head::right("TIME"),
        Head::right("CPU"),
        Head::right("MEMORY"),
        Head::right("TASKS"),
        Head::left("NODES").cut(5),
    ];
    if again {
        heads.insert(1, Head::right("ATTEMPT"));
    }
    let cells = rows.iter().map(|r| {
        let mut cells = cells(r, now);
        if again {
            cells.insert(1, r.attempt.to_string().into());
        }
        cells
    });
    render(&heads, &cells.collect::<Vec<_>>(), look)
}

fn cells(row: &StepRow, now: &Zoned) -> Vec<Cell> {
    let record = &row.record;
    let end = &record.end;
    let state = end.state().word();
    let exit = match end.signal {
        0 => end.exit_code.to_string(),
        signal => signal::name(signal.into()),
    };
    let cpu = end.user_cpu_us.saturating_add(end.system_cpu_us);
    let start = end.start.map(|t| times::short(t, now));
    vec![
        id(row).into(),
        record.name.as_str().into(),
        Cell {
            text: state.to_owned(),
            paint: jobs::paint(state),
        },
        exit.into(),
        start.unwrap_or_default().into(),
        elapsed(row)
            .map_or_else(String::new, |e| e.to_string())
            .into(),
        micros(signed(cpu)).into(),
        bytes(signed(end.peak_memory_bytes)).into(),
        record.tasks.to_string().into(),
        record.nodes.as_str().into(),
    ]
}

/// Objects with fixed units.
pub fn json(rows: &[StepRow]) -> Vec<Json> {
    rows.iter().map(object).collect()
}

fn object(row: &StepRow) -> Json {
    let record = &row.record;
    let end = &record.end;
    let reason = match &end.cause {
        EndCause::LaunchFailed(reason) => reason.as_str(),
        EndCause::SupervisorLost => "its supervisor on a node was killed",
        EndCause::NodeLost => "a node was lost",
        EndCause::Deadline => "it could not be over at its deadline",
        EndCause::Exited | EndCause::TimeLimit | EndCause::Cancelled | EndCause::OutOfMemory => "",
    };
    json!({
        "id": id(row),
        "job": row.job.to_string(),
        "attempt": row.attempt.0,
        "step": record.step.0,
        "name": record.name,
        "state": end.state().word(),
        "reason": reason,
        "exit_code": end.exit_code,
        "signal": end.signal,
        "nodes": record.nodes,
        "tasks": record.tasks,
        "cores": record.cores,
        "start": json_time(end.start),
        "end": json_time(Some(end.end)),
        "elapsed": elapsed(row).map_or(Json::Null, json_span),
        "user_cpu_us": end.user_cpu_us,
        "system_cpu_us": end.system_cpu_us,
        "peak_memory_bytes": end.peak_memory_bytes,
    })
}

/// `12.0`, `12_3.0`.
fn id(row: &StepRow) -> String {
    format!("{}.{}", row.job, row.record.step)
}

fn elapsed(row: &StepRow) -> Option<Span> {
    let end = &row.record.end;
    end.start.map(|start| end.end.since(start))
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::step::{StepId, StepRecord};
    use cosy_model::{Attempt, End, JobId};

    fn now() -> Zoned {
        "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap()
    }

    fn row(task: Option<u32>, attempt: u32, step: u32, signal: i32) -> StepRow {
        let noon = times::time_of(&now());
        StepRow {
            job: JobRef {
                job: JobId(12),
                task,
            },
            attempt: Attempt(attempt),
            record: StepRecord {
                step: StepId(step),
                name: "a.out".into(),
                nodes: "n[1-2]".into(),
                tasks: 8,
                cores: 8,
                end: End {
                    signal,
                    start: Some(noon - Span::from_minutes(2)),
                    user_cpu_us: 1_400_000,
                    system_cpu_us: 100_000,
                    peak_memory_bytes: 1536 << 10,
                    ..End::never_ran(EndCause::Exited, noon - Span::from_minutes(1))
                },
            },
        }
    }

    #[test]
    fn lists() {
        let rows = [row(None, 1, 0, 0), row(None, 1, 10, 9)];
        let text = list(&rows, &now(), TableStyle::default());
        let want = [
            " STEP  NAME   STATE      EXIT  START         TIME    CPU  MEMORY  TASKS  NODES",
            " 12.0  a.out  completed     0  11:58:00  00:01:00  1.50s    1.5M      8  n[1-2]",
            "12.10  a.out  failed     KILL  11:58:00  00:01:00  1.50s    1.5M      8  n[1-2]",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), want);
        let again = list(&[row(Some(3), 2, 0, 0)], &now(), TableStyle::default());
        assert!(again.starts_with("  STEP  ATTEMPT  NAME"), "{again}");
        assert!(again.contains("12_3.0        2  a.out"), "{again}");
    }

    #[test]
    fn json_has_fixed_units() {
        let all = json(&[row(None, 1, 0, 0)]);
        let want = json!({
            "id": "12.0", "job": "12", "attempt": 1, "step": 0, "name": "a.out",
            "state": "completed", "reason": "", "exit_code": 0, "signal": 0,
            "nodes": "n[1-2]", "tasks": 8, "cores": 8, "elapsed": 60,
            "start": "2026-11-21T11:58:00.000Z", "end": "2026-11-21T11:59:00.000Z",
            "user_cpu_us": 1_400_000, "system_cpu_us": 100_000, "peak_memory_bytes": 1_572_864,
        });
        assert_eq!(all[0], want);
    }
}
