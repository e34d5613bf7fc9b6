//! Which jobs of the archive's logs the papers used.
//!
//! What always holds: every job has run for some time on some processors, no longer than
//! its limit, and jobs are sorted by submit time.
//!
//! Sources: what-if paper, section 5.1; pricing paper, section 4; and what was found out by
//! comparing the logs of today with the papers' figures (docs/EXPERIMENTS.md).

use crate::log_input::EndBound;
use crate::swf::Record;
use crate::workload::Job;
use cosy_model::{Span, Time};

/// Rows of a log that are looked at.
pub const MOST_ROWS: usize = 100_000;

/// The first row of the Blue Horizon log of today: its cleaning took away those before.
const BLUE_FIRST: (u64, Time) = (9, Time::from_secs(430_593));

/// Six of the eight jobs that the cleaning took away: id, submission, run time, processors
/// and requested time.
const BLUE_CLEANED: [(u64, i64, i64, u32, i64); 6] = [
    (1, 0, 9_227, 1152, 20_000),
    (2, 111, 7_622, 1120, 20_000),
    (3, 68_486, 710, 1024, 10_800),
    (6, 265_065, 3_389, 800, 7_200),
    (7, 393_152, 48_438, 64, 57_600),
    (8, 412_251, 46_744, 64, 64_800),
];

/// Why the rows of a log make no workload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LogError {
    /// No row is one that the paper would have taken.
    #[error("{file}: none of {rows} rows is a job that the experiment takes: {criterion}")]
    NoJobs {
        /// Name of the log, as given.
        file: String,
        /// Number of rows that were looked at.
        rows: usize,
        /// What a row must have to be taken.
        criterion: &'static str,
    },
    /// A job does not fit the machine of the experiment.
    #[error("{file}:{line}: job {job} had {processors} processors, the machine has {most}")]
    TooLarge {
        /// Name of the log, as given.
        file: String,
        /// The line of the log that it is on, from 1.
        line: u32,
        /// Job number in the log.
        job: u64,
        /// Processors that it had.
        processors: u64,
        /// Processors that there are.
        most: u64,
    },
    /// A replay could not tell when it ends.
    #[error("{file}:{line}: the jobs up to this one end beyond 64 bits of milliseconds")]
    TimeOverflow {
        /// Name of the log, as given.
        file: String,
        /// The first line, from 1, at which the sum is too large.
        line: u32,
    },
}

/// The what-if paper's: the first `count` sound jobs, in nodes of `per_node` processors.
/// Sound is what ran, on processors, for no longer than it asked for.
///
/// # Errors
/// [`LogError`].
pub fn sound(
    file: &str,
    records: &[Record],
    count: usize,
    (nodes, per_node): (u32, u32),
) -> Result<Vec<Job>, LogError> {
    let is_blue = records
        .first()
        .is_some_and(|first| (first.id, first.submit) == BLUE_FIRST);
    let cleaned = BLUE_CLEANED.iter().filter(|_| is_blue).map(cleaned);
    let within = |record: &Record| record.run.zip(record.limit).is_some_and(|(r, l)| r <= l);
    let kept = records.iter().copied().filter(within);
    let mut jobs = jobs(file, cleaned.chain(kept), count)?;
    if jobs.is_empty() {
        return Err(LogError::NoJobs {
            file: file.to_owned(),
            rows: records.len(),
            criterion: "it ran, on processors, for no longer than it asked for",
        });
    }
    for job in &mut jobs {
        job.processors = job.processors.div_ceil(per_node.max(1));
    }
    fitting(file, jobs, nodes)
}

/// The pricing paper's: of the first `count` rows from the one numbered `first` on those
/// that ran, which end at their limits at the latest.
///
/// # Errors
/// [`LogError`].
pub fn month(
    file: &str,
    records: &[Record],
    first: u64,
    count: usize,
    nodes: u32,
) -> Result<Vec<Job>, LogError> {
    let rows = records.iter().copied().filter(|record| record.id >= first);
    let mut jobs = jobs(file, rows.take(count), count)?;
    if jobs.is_empty() {
        return Err(LogError::NoJobs {
            file: file.to_owned(),
            rows: records.len(),
            criterion: "it ran, on processors, and its number is not below the first of the month",
        });
    }
    for job in &mut jobs {
        job.run = job.run.min(job.limit);
    }
    fitting(file, jobs, nodes)
}

fn cleaned(job: &(u64, i64, i64, u32, i64)) -> Record {
    let (id, submit, run, processors, limit) = *job;
    Record {
        id,
        line: 0,
        submit: Time::from_secs(submit),
        run: Some(Span::from_secs(run)),
        allocated: Some(processors),
        requested: Some(processors),
        limit: Some(Span::from_secs(limit)),
    }
}

/// The first `count` jobs that ran on some processors. The processors that a job got count:
/// logs do not always say what it asked for.
fn jobs(
    file: &str,
    records: impl Iterator<Item = Record>,
    count: usize,
) -> Result<Vec<Job>, LogError> {
    let mut end_bound = EndBound::default();
    let mut jobs = Vec::new();
    for record in records {
        let (Some(run), Some(processors)) = (record.run, record.allocated) else {
            continue;
        };
        if jobs.len() == count {
            break;
        }
        if !end_bound.add(record.submit, run) {
            let (file, line) = (file.to_owned(), record.line);
            return Err(LogError::TimeOverflow { file, line });
        }
        jobs.push(Job {
            id: record.id,
            line: record.line,
            submit: record.submit,
            run,
            limit: record.limit.unwrap_or(run),
            processors,
            ..Job::default()
        });
    }
    jobs.sort_by_key(|job| job.submit);
    Ok(jobs)
}

fn fitting(file: &str, jobs: Vec<Job>, nodes: u32) -> Result<Vec<Job>, LogError> {
    match jobs.iter().find(|job| job.processors > nodes) {
        None => Ok(jobs),
        Some(job) => Err(LogError::TooLarge {
            file: file.to_owned(),
            line: job.line,
            job: job.id,
            processors: job.processors.into(),
            most: nodes.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u64, submit: i64, run: i64, processors: u32, limit: i64) -> Record {
        cleaned(&(id, submit, run, processors, limit))
    }

    fn ids(jobs: &[Job]) -> Vec<u64> {
        jobs.iter().map(|job| job.id).collect()
    }

    #[test]
    fn sound_jobs_ran_within_their_limits() {
        let never = Record {
            run: None,
            ..record(3, 3, 1, 1, 1)
        };
        let nowhere = Record {
            allocated: None,
            ..record(4, 4, 1, 1, 1)
        };
        let rows = [
            record(1, 1, 10, 8, 10),
            record(2, 2, 11, 8, 10),
            never,
            nowhere,
            record(5, 5, 1, 9, 1),
            record(6, 6, 1, 1, 1),
        ];
        let jobs = sound("log", &rows, 2, (144, 8)).unwrap();
        assert_eq!(ids(&jobs), [1, 5]);
        assert_eq!(jobs[1].processors, 2);
        let small = sound("log", &rows, 2, (1, 8)).unwrap_err();
        assert!(small.to_string().contains("job 5 had 2"), "{small}");
        let none = sound("log", &rows[1..4], 2, (1, 8)).unwrap_err();
        assert!(none.to_string().contains("none of 3 rows"), "{none}");
    }

    #[test]
    fn the_jobs_that_blue_horizon_lost_come_first() {
        let rows = [
            record(9, 430_593, 1, 8, 1),
            record(10, 430_600, 1, 8, 1),
            record(11, 430_601, 1, 8, 1),
        ];
        let jobs = sound("log", &rows, 8, (144, 8)).unwrap();
        assert_eq!(ids(&jobs), [1, 2, 3, 6, 7, 8, 9, 10]);
        assert_eq!(jobs[1].processors, 140);
        // Not of another log.
        assert_eq!(ids(&sound("log", &rows[1..], 8, (144, 8)).unwrap()), [10, 11]);
    }

    #[test]
    fn a_month_counts_rows_that_never_ran_and_caps_the_others() {
        let never = Record {
            run: None,
            ..record(12, 3, 1, 1, 1)
        };
        let rows = [
            record(10, 1, 1, 1, 1),
            record(11, 2, 20, 8, 10),
            never,
            record(13, 4, 5, 8, 10),
        ];
        let jobs = month("log", &rows, 11, 2, 128).unwrap();
        assert_eq!(ids(&jobs), [11]);
        assert_eq!(jobs[0].run, Span::from_secs(10));
        assert_eq!(ids(&month("log", &rows, 11, 3, 128).unwrap()), [11, 13]);
        assert!(month("log", &rows, 14, 3, 128).is_err());
        assert!(month("log", &rows, 11, 3, 7).is_err());
    }
}
