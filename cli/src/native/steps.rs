//! `chist --steps`: ended steps of jobs, also of jobs that still run.
//!
//! The controller decides whose steps a user may see.

use crate::Context;
use crate::native::record::{self, TimeStyle};
use crate::native::table::TableStyle;
use cosy_client::pages;
use cosy_model::api::{JobField, JobFilter, JobRef, Request, StepRow};
use cosy_view::step;
use jiff::Zoned;
use serde_json::Value as Json;

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

/// Steps as a table for people.
pub fn list(rows: &[StepRow], now: &Zoned, style: TableStyle) -> String {
    record::list(step::ended_columns(rows), rows, TimeStyle::of_jobs(now, style), style)
}

/// Steps as JSON objects, whose units do not depend on the value.
pub fn json(rows: &[StepRow]) -> Vec<Json> {
    let each = rows.iter().map(step::ended_fields);
    each.map(|fields| record::json(&fields)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times;
    use cosy_model::step::{StepId, StepRecord};
    use cosy_model::{Attempt, End, EndCause, JobId, Span};
    use serde_json::json;

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
