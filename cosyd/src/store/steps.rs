//! Records of steps in the store: one row for each report, however many steps it tells of.
//!
//! Knows nothing of what the records mean but their numbers and sums. What always holds: a
//! report that came again with more behind it takes the place of the shorter one.

use super::history::{Reading, Wants};
use super::{Store, StoreError, decode, encode};
use cosy_control::{JobRow, StepBatch, StepUse};
use cosy_model::api::{JobFilter, JobRef, StepRow};
use cosy_model::node::AttemptKey;
use cosy_model::step::{StepId, StepRecord};
use cosy_model::{Attempt, JobId, Uid, limits};
use rusqlite::{Transaction, params};
use std::collections::BTreeMap;

/// Schema 3.
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

impl Store {
    /// What the steps of attempts that hold nodes have used.
    pub(super) fn load_steps(
        &self,
        jobs: &[JobRow],
    ) -> Result<Vec<(AttemptKey, StepUse)>, StoreError> {
        let running = jobs.iter().filter(|j| j.run.is_some() && j.end.is_none());
        let mut all = Vec::new();
        for key in running.map(JobRow::key) {
            let used = self.step_use(key)?;
            if used.count > 0 {
                all.push((key, used));
            }
        }
        Ok(all)
    }

    fn step_use(&self, key: AttemptKey) -> Result<StepUse, StoreError> {
        self.sql(|c| {
            c.prepare_cached(
                "SELECT COALESCE(MAX(before + count), 0), COALESCE(SUM(user_us), 0),
                        COALESCE(SUM(system_us), 0), COALESCE(MAX(peak), 0),
                        COALESCE(MAX(exit_code * 256 + signal), 0)
                 FROM steps WHERE job = ?1 AND attempt = ?2",
            )?
            .query_row(params![key.job.0, key.attempt.0], |r| {
                let exit: i64 = r.get(4)?;
                let part = |n: i64| i32::try_from(n).unwrap_or(0);
                Ok(StepUse {
                    exit_code: part(exit / 256),
                    signal: part(exit % 256),
                    count: r.get(0)?,
                    user_cpu_us: r.get(1)?,
                    system_cpu_us: r.get(2)?,
                    peak_memory_bytes: r.get(3)?,
                })
            })
        })
    }

    /// Ended steps of jobs, by job, attempt and number; only of that user's with `only`. `None`
    /// when there are more than one answer holds.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn steps(
        &self,
        jobs: &[JobRef],
        only: Option<Uid>,
    ) -> Result<Option<Vec<StepRow>>, StoreError> {
        let filter = JobFilter {
            ids: jobs.to_vec(),
            ..JobFilter::default()
        };
        let reading = Reading {
            filter: &filter,
            only,
            most_ids: u64::MAX,
        };
        let mut found = Found::default();
        let mut trouble = Ok(());
        self.history(reading, |job, _| {
            trouble = self.steps_of(job, &mut found);
            match &trouble {
                Ok(()) if !found.is_full() => Wants::More,
                Ok(()) | Err(_) => Wants::Enough,
            }
        })?;
        trouble?;
        if found.is_full() {
            return Ok(None);
        }
        // The latest job came first.
        found.jobs.reverse();
        Ok(Some(found.jobs.concat()))
    }

    fn steps_of(&self, job: &JobRow, found: &mut Found) -> Result<(), StoreError> {
        let sql = |source| self.error(source);
        let mut query = self
            .connection
            .prepare_cached(
                "SELECT attempt, records FROM steps WHERE job = ?1 ORDER BY attempt, before",
            )
            .map_err(sql)?;
        let mut rows = query.query(params![job.id.0]).map_err(sql)?;
        let mut records: BTreeMap<(u32, StepId), StepRecord> = BTreeMap::new();
        while let Some(row) = rows.next().map_err(sql)? {
            let attempt: u32 = row.get(0).map_err(sql)?;
            let blob = row.get_ref(1).and_then(|b| Ok(b.as_blob()?)).map_err(sql)?;
            found.bytes += blob.len();
            let batch: Vec<StepRecord> = decode("steps", blob)?;
            found.rows += batch.len();
            records.extend(batch.into_iter().map(|r| ((attempt, r.step), r)));
            if found.is_full() {
                return Ok(());
            }
        }
        let name = name_of(job);
        let rows = records.into_iter().map(|((attempt, _), record)| StepRow {
            job: name,
            attempt: Attempt(attempt),
            record,
        });
        found.jobs.push(rows.collect());
        Ok(())
    }
}

/// Steps found so far, job by job.
#[derive(Default)]
struct Found {
    jobs: Vec<Vec<StepRow>>,
    rows: usize,
    /// Of their records in the store; names of jobs come to them in an answer.
    bytes: usize,
}

impl Found {
    fn is_full(&self) -> bool {
        let told = self.bytes + STEP_NAME_BYTES * self.rows;
        self.rows > limits::ANSWER_ROWS || told > limits::REPLY_BYTES / 8 * 7
    }
}

/// Bytes of a step's job and attempt in an answer, at most.
const STEP_NAME_BYTES: usize = 48;

fn name_of(job: &JobRow) -> JobRef {
    JobRef {
        job: job.index.map_or(job.id, |_| JobId(job.base.0)),
        task: job.index,
    }
}

pub(super) fn write_steps(t: &Transaction<'_>, batch: &StepBatch) -> rusqlite::Result<()> {
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
         WHERE excluded.count > count",
    )?
    .execute(params![
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
    .map(drop)
}
