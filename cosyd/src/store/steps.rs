//! Records of steps in the store: one row for each report, however many steps it tells of.
//!
//! Knows nothing of what the records mean but their numbers and sums. What always holds: a
//! report that came again with more behind it takes the place of the shorter one.

use super::history::{Continuation, HistoryQuery};
use super::sql::{self, Connection, ToParam, params};
use super::{Store, StoreError, decode, encode};
use cosy_control::{JobRow, StepBatch, StepUse};
use cosy_model::api::{JobFilter, JobRef, StepCursor, StepRow};
use cosy_model::node::AttemptKey;
use cosy_model::step::{StepId, StepRecord};
use cosy_model::{Attempt, JobId, Uid, limits};
use std::collections::BTreeMap;

/// Tables that schema 3 added.
pub(super) const TABLES: &str = "
    CREATE TABLE steps (
        job INTEGER NOT NULL, attempt INTEGER NOT NULL, before INTEGER NOT NULL,
        count INTEGER NOT NULL, user_us INTEGER NOT NULL, system_us INTEGER NOT NULL,
        peak INTEGER NOT NULL, records BLOB NOT NULL,
        PRIMARY KEY (job, attempt, before)) STRICT;
";

/// Schema 4: the largest exit code of the steps, and that step's signal.
pub(super) const EXITS: &str = "
    ALTER TABLE steps ADD COLUMN exit_code INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE steps ADD COLUMN signal INTEGER NOT NULL DEFAULT 0;
";

/// Jobs whose steps are summed up with one question.
const SUMMED: usize = 200;

/// Of which attempt, and what its steps have used.
fn step_use(r: &sql::Row<'_>) -> sql::Result<(AttemptKey, StepUse)> {
    let key = AttemptKey {
        job: JobId(r.get(0)?),
        attempt: Attempt(r.get(1)?),
    };
    let exit: i64 = r.get(6)?;
    let part = |n: i64| i32::try_from(n).unwrap_or(0);
    let used = StepUse {
        exit_code: part(exit / 256),
        signal: part(exit % 256),
        count: r.get(2)?,
        user_cpu_us: r.get(3)?,
        system_cpu_us: r.get(4)?,
        peak_memory_bytes: r.get(5)?,
    };
    Ok((key, used))
}

impl Store {
    /// What the steps of attempts that hold nodes have used.
    pub(super) fn load_steps(
        &self,
        jobs: &[JobRow],
    ) -> Result<Vec<(AttemptKey, StepUse)>, StoreError> {
        let running = jobs.iter().filter(|j| j.run.is_some() && j.end.is_none());
        let keys: Vec<AttemptKey> = running.map(JobRow::key).collect();
        let numbers: Vec<String> = (1..=SUMMED).map(|n| format!("?{n}")).collect();
        let query = format!(
            "SELECT job, attempt, MAX(before + count), CAST(SUM(user_us) AS BIGINT),
                    CAST(SUM(system_us) AS BIGINT), MAX(peak), MAX(exit_code * 256 + signal)
             FROM steps WHERE job IN ({}) GROUP BY job, attempt",
            numbers.join(",")
        );
        let mut all = Vec::new();
        for some in keys.chunks(SUMMED) {
            let attempts: BTreeMap<JobId, Attempt> =
                some.iter().map(|key| (key.job, key.attempt)).collect();
            // The same statement for fewer: the first is named again.
            let mut ids: Vec<u64> = some.iter().map(|key| key.job.0).collect();
            ids.resize(SUMMED, some.first().map_or(0, |key| key.job.0));
            let values: Vec<&dyn ToParam> = ids.iter().map(|id| id as &dyn ToParam).collect();
            let found: Vec<(AttemptKey, StepUse)> = self.sql(|c| {
                c.prepare_cached(&query)?
                    .query_map(&values[..], step_use)?
                    .collect()
            })?;
            all.extend(
                found
                    .into_iter()
                    .filter(|(key, _)| attempts.get(&key.job) == Some(&key.attempt)),
            );
        }
        Ok(all)
    }

    /// Ended steps of jobs, by job, attempt and number, and where the rest is: a page begins with
    /// the latest jobs, as history does.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn steps(
        &self,
        reading: &StepReading<'_>,
    ) -> Result<(Vec<StepRow>, Option<StepCursor>), StoreError> {
        self.steps_within(reading, if reading.pages { PAGE } else { WHOLE })
    }

    pub(super) fn steps_within(
        &self,
        reading: &StepReading<'_>,
        most: AnswerBounds,
    ) -> Result<(Vec<StepRow>, Option<StepCursor>), StoreError> {
        let only = reading.only;
        let mut found = StepsFound {
            jobs: Vec::new(),
            count: 0,
            bytes: 0,
            most,
        };
        if let Some((id, attempt, next)) = reading.after.and_then(|after| after.job)
            && let Some(job) = self.job_of(id, only)?
            && let Some(stop) = self.steps_of(&job, (attempt, next), &mut found)?
        {
            let more = reading.after.map(|after| StepCursor {
                job: Some(stop),
                ..after
            });
            return Ok((found.rows(), more));
        }
        let filter = JobFilter {
            ids: reading.jobs.to_vec(),
            after: reading.after.map(|after| after.jobs),
            ..JobFilter::default()
        };
        let jobs = HistoryQuery {
            filter: &filter,
            only,
            most_ids: most.ids,
        };
        let mut stopped = Ok(None);
        let more = self.history(jobs, |job, _| {
            stopped = self.steps_of(job, (Attempt(0), 0), &mut found);
            match &stopped {
                Ok(None) if !found.is_full() => Continuation::More,
                Ok(_) | Err(_) => Continuation::Enough,
            }
        })?;
        let job = stopped?;
        let more = more.map(|jobs| StepCursor { jobs, job });
        Ok((found.rows(), more))
    }

    /// Tells of the steps of a job from there on; where it has stopped, when all that is told
    /// fills an answer.
    fn steps_of(
        &self,
        job: &JobRow,
        from: (Attempt, u64),
        found: &mut StepsFound,
    ) -> Result<Option<(JobId, Attempt, u64)>, StoreError> {
        let sql = |source| self.error(source);
        let mut query = self
            .connection
            .prepare_cached(
                "SELECT attempt, before, records FROM steps
                 WHERE job = ?1 AND (attempt > ?2 OR attempt = ?2 AND before + count > ?3)
                 ORDER BY attempt, before",
            )
            .map_err(sql)?;
        let next = i64::try_from(from.1).unwrap_or(i64::MAX);
        let mut rows = query
            .query(params![job.id.0, from.0.0, next])
            .map_err(sql)?;
        let mut records: BTreeMap<(u32, StepId), StepRecord> = BTreeMap::new();
        let mut stop = None;
        let read = |row: &sql::Row<'_>| {
            let batch: Result<Vec<StepRecord>, _> = decode("steps", row.bytes(2)?);
            Ok((row.get(0)?, row.get(1)?, batch))
        };
        'all: while let Some((attempt, before, batch)) = rows.next_with(read).map_err(sql)? {
            let (attempt, before): (u32, u64) = (attempt, before);
            let batch = batch?;
            for (number, record) in (before..).zip(batch) {
                if (Attempt(attempt), number) < from {
                    continue;
                }
                if found.is_full() {
                    stop = Some((job.id, Attempt(attempt), number));
                    break 'all;
                }
                found.count += 1;
                found.bytes += STEP_BYTES + record.name.len() + record.nodes.len();
                records.insert((attempt, record.step), record);
            }
        }
        let name = name_of(job);
        let rows = records.into_iter().map(|((attempt, _), record)| StepRow {
            job: name,
            attempt: Attempt(attempt),
            record,
        });
        found.jobs.push(rows.collect());
        Ok(stop)
    }
}

/// Which steps are asked for.
#[derive(Clone, Copy, Debug)]
pub struct StepReading<'a> {
    /// The jobs whose steps are read.
    pub jobs: &'a [JobRef],
    /// The user whose steps alone may be seen.
    pub only: Option<Uid>,
    /// A part is enough.
    pub pages: bool,
    /// Where an earlier answer ended.
    pub after: Option<StepCursor>,
}

/// What is in one answer at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerBounds {
    pub rows: usize,
    pub bytes: usize,
    /// Ids that are looked through.
    pub ids: u64,
}

const PAGE: AnswerBounds = AnswerBounds {
    rows: limits::HISTORY_ROWS,
    bytes: limits::PAGE_BYTES,
    ids: limits::HISTORY_IDS,
};
const WHOLE: AnswerBounds = AnswerBounds {
    rows: limits::ANSWER_ROWS,
    bytes: limits::REPLY_BYTES / 8 * 7,
    ids: limits::STEP_IDS,
};

/// Steps found so far, job by job.
struct StepsFound {
    jobs: Vec<Vec<StepRow>>,
    count: usize,
    /// About so many in an answer.
    bytes: usize,
    most: AnswerBounds,
}

impl StepsFound {
    const fn is_full(&self) -> bool {
        self.count >= self.most.rows || self.bytes > self.most.bytes
    }

    /// The latest job came first.
    fn rows(mut self) -> Vec<StepRow> {
        self.jobs.reverse();
        self.jobs.concat()
    }
}

/// Bytes of a step in an answer beside its texts, about.
const STEP_BYTES: usize = 400;

fn name_of(job: &JobRow) -> JobRef {
    JobRef {
        job: job.index.map_or(job.id, |_| JobId(job.base.0)),
        task: job.index,
    }
}

pub(super) fn write_steps(t: &Connection, batch: &StepBatch) -> sql::Result<()> {
    let sum = batch.records.iter();
    let sum = sum.fold(StepUse::default(), |sum, r| sum.and(&r.end));
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    t.prepare_cached(
        "INSERT INTO steps (job, attempt, before, count, user_us, system_us, peak, records, exit_code, signal)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT (job, attempt, before) DO UPDATE SET count = excluded.count,
             user_us = excluded.user_us, system_us = excluded.system_us,
             peak = excluded.peak, records = excluded.records,
             exit_code = excluded.exit_code, signal = excluded.signal
         WHERE excluded.count > steps.count",
    )?
    .run(params![
        number(batch.key.job.0),
        batch.key.attempt.0,
        number(batch.before),
        number(sum.count),
        number(sum.user_cpu_us),
        number(sum.system_cpu_us),
        number(sum.peak_memory_bytes),
        encode(&batch.records)?,
        sum.exit_code.clamp(0, 255),
        sum.signal.clamp(0, 255)
    ])
}
