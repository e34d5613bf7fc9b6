//! `fill-history FOLDER [JOBS [DAYS [BYTES]]]`: makes a store with so many ended jobs, spread evenly
//! over the last so many days, to measure a controller that has a long history.
//!
//! The jobs are those of twenty users: each a submission of its own with a script of so many bytes,
//! and one step. The folder is a `state_dir` for a `cosy.toml`.

use anyhow::{Context, bail};
use cosy_control::{JobRow, Record, StepBatch, SubmissionRow};
use cosy_model::node::AttemptKey;
use cosy_model::step::{StepId, StepRecord};
use cosy_model::{Attempt, End, EndCause, JobId, JobState, OsText, Span, Time, Uid};
use cosyd::store::Store;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Jobs in one transaction.
const JOBS: u64 = 10_000;
const USERS: u64 = 20;
const MINUTE: i64 = 60_000;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        bail!("fill-history FOLDER [JOBS [DAYS [BYTES]]]");
    };
    let mut number = |otherwise: u64| match arguments.next() {
        Some(text) => text
            .parse()
            .with_context(|| format!("'{text}' is no number")),
        None => Ok(otherwise),
    };
    let (jobs, days, bytes) = (number(1_000_000)?, number(400)?, number(2000)?);
    let script = OsText(vec![b'#'; usize::try_from(bytes)?]);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)?;
    let mut store = Store::open(&Path::new(&folder).join("cosy.db"))?;
    let now = jiff::Timestamp::now().as_millisecond();
    let length = i64::try_from(days)? * 24 * 60 * MINUTE;
    let template = template()?;
    for first in (1..=jobs).step_by(JOBS as usize) {
        let mut records = Vec::new();
        for id in first..jobs.saturating_add(1).min(first + JOBS) {
            let age = (i128::from(length) * i128::from(jobs - id) / i128::from(jobs)) as i64;
            job(&template, &script, id, Time(now - age - MINUTE), &mut records);
        }
        store.commit(&records)?;
    }
    Ok(())
}

fn template() -> anyhow::Result<SubmissionRow> {
    Ok(serde_json::from_value(serde_json::json!({
        "base": 1, "indices": null, "numbering": "in_order", "at_once": null,
        "uid": 1000, "gid": 100, "user": "", "queue": "main", "submit": 0,
        "spec": {"name": "simulation", "program": {"script": {"name": "job.sh", "args": []}},
            "request": {"cores_per_task": 4},
            "workdir": "/home/user/simulation", "environment": "", "umask": 18},
    }))?)
}

fn job(template: &SubmissionRow, script: &OsText, id: u64, end: Time, records: &mut Vec<Record>) {
    let mut of = template.clone();
    let user = id % USERS;
    of.base = JobId(id);
    of.uid = Uid(1000 + user as u32);
    of.user = format!("user{user}");
    of.submit = end - Span::from_minutes(60);
    let end = End {
        start: Some(end - Span::from_minutes(30)),
        ..End::never_ran(EndCause::Exited, end)
    };
    let row = JobRow {
        state: JobState::Completed,
        attempt: Attempt(1),
        end: Some(end.clone()),
        ..JobRow::waiting(JobId(id), JobId(id), None)
    };
    let step = StepRecord {
        step: StepId(0),
        name: "simulate".into(),
        nodes: "n1".into(),
        tasks: 4,
        cores: 4,
        end,
    };
    records.push(Record::Submitted {
        row: Box::new(of),
        script: script.clone(),
        environment: OsText::default(),
    });
    records.push(Record::Steps(Box::new(StepBatch {
        key: AttemptKey {
            job: JobId(id),
            attempt: Attempt(1),
        },
        before: 0,
        records: vec![step],
    })));
    records.push(Record::Job(Box::new(row)));
    records.push(Record::SubmissionDone(JobId(id)));
}
