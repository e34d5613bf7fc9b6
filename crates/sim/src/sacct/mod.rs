//! Reads the text of `sacct -P`: a line of column names, then a row for each job, cells
//! between `|` (sacct(1), `--parsable2`).
//!
//! What always holds: a job has started and ended, and has a run time, a limit and a
//! processor at least; what is no such job is an error or counted. Time 0 is when the first
//! job could have started.

mod columns;
mod row;

pub use crate::log_input::Strictness;
pub use row::Fault;

use crate::log_input::{self, EndBound, Line, Lines, Names, RowFaults};
use crate::workload::{Job, Workload};
use columns::{Cells, Column, Columns};
use cosy_model::{Span, Time};
use row::Limit;
use std::io::BufRead;

/// Why the text could not be read.
pub type Error = log_input::Error<Fault>;

/// Under this, rows of steps are counted: they are no jobs of their own and never an error.
pub const STEPS: &str = "steps of jobs";

/// Whether a text that begins with `head` is one of `sacct`: its first line is words, not
/// numbers or a comment.
pub fn is_likely(head: &[u8]) -> bool {
    let begin = head.trim_ascii_start();
    let line = begin.split(|byte| *byte == b'\n').next().unwrap_or(begin);
    let is_comment = line.first() == Some(&b';');
    let is_word = line.first().is_some_and(u8::is_ascii_alphabetic);
    !is_comment && (is_word || line.contains(&b'|'))
}

/// Reads the text, which may be packed with gzip; `name` is what errors call it. Rows may
/// be in any order.
///
/// # Errors
/// [`Error`]: under [`Strictness::Strict`] the first row that is no usable job; always when
/// a needed column is missing, when there is no job, when there are too many, or when the
/// system refuses to read.
pub fn read(name: &str, input: impl BufRead, strictness: Strictness) -> Result<Workload, Error> {
    let mut dump = Dump {
        faults: RowFaults::new(name, strictness),
        columns: None,
        jobs: Vec::new(),
        end_bound: EndBound::default(),
        limits: Vec::new(),
        users: Names::default(),
        accounts: Names::default(),
        queues: Names::default(),
        qos: Names::default(),
    };
    let mut lines = Lines::new(log_input::unpack(input));
    loop {
        let number = lines.number() + 1;
        let taken = match lines.read() {
            Ok(Line::Text(line)) => dump.line(number, &String::from_utf8_lossy(line)),
            Ok(Line::TooLong) => Err(Fault::LineTooLong),
            Ok(Line::CutOff(why)) => {
                dump.faults.cut_off(lines.number(), why)?;
                return dump.finish();
            }
            Ok(Line::End) => return dump.finish(),
            Err(error) => return Err(dump.faults.unreadable(error)),
        };
        if let Err(fault) = taken {
            dump.refuse(lines.number(), fault)?;
        }
        dump.faults.check_count(dump.jobs.len(), lines.number())?;
    }
}

/// What was read so far.
struct Dump {
    faults: RowFaults,
    /// Once the first line is read.
    columns: Option<Columns>,
    /// Submit times are civil times still.
    jobs: Vec<Job>,
    end_bound: EndBound,
    /// The limit of each of `jobs`.
    limits: Vec<Limit>,
    users: Names<String>,
    accounts: Names<String>,
    queues: Names<String>,
    qos: Names<String>,
}

impl Dump {
    fn line(&mut self, number: u64, line: &str) -> Result<(), Fault> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let Some(columns) = &self.columns else {
            self.columns = Some(Columns::read(line).map_err(Fault::MissingColumns)?);
            return Ok(());
        };
        let cells = columns.cells(line).map_err(|found| Fault::Cells {
            found,
            columns: columns.count(),
        })?;
        if row::is_step(&cells) {
            self.faults.leave_out(STEPS);
            return Ok(());
        }
        let figures = row::figures(columns, &cells)?;
        if !self.end_bound.add(Time(figures.entered_ms), figures.run) {
            return Err(Fault::AllBeyond64Bits);
        }
        self.keep(number, &figures, &cells);
        Ok(())
    }

    /// Without columns nothing can be read, however leniently.
    fn refuse(&mut self, line: u64, fault: Fault) -> Result<(), Error> {
        match self.columns {
            None => Err(self.faults.error(line, fault)),
            Some(_) => self.faults.fault(line, fault),
        }
    }

    fn keep(&mut self, line: u64, figures: &row::Figures, cells: &Cells<'_>) {
        self.limits.push(figures.limit);
        self.jobs.push(Job {
            id: figures.id.unwrap_or(self.jobs.len() as u64 + 1),
            line: u32::try_from(line).unwrap_or(u32::MAX),
            submit: Time(figures.entered_ms),
            run: figures.run,
            processors: figures.processors,
            nodes: figures.nodes,
            recorded_wait: Some(figures.waited),
            user: index(&mut self.users, cells.get(Column::User)),
            account: index(&mut self.accounts, cells.get(Column::Account)),
            queue: index(&mut self.queues, cells.get(Column::Partition)),
            qos: index(&mut self.qos, cells.get(Column::Qos)),
            ..Job::default()
        });
    }

    fn finish(mut self) -> Result<Workload, Error> {
        let dropped = self.faults.finish(self.jobs.len())?;
        let longest = longest_limits(&self.jobs, &self.limits, self.queues.count());
        for (job, limit) in self.jobs.iter_mut().zip(&self.limits) {
            job.limit = match limit {
                Limit::Known(limit) => *limit,
                Limit::OfPartition => longest[job.queue as usize]
                    .map_or(Span::UNLIMITED, |longest| longest.max(job.run)),
            };
        }
        self.jobs.sort_by_key(|job| job.submit);
        let first = self.jobs.first().map_or(Time::EPOCH, |job| job.submit);
        for job in &mut self.jobs {
            job.submit = Time(job.submit.since(first).0);
        }
        Ok(Workload {
            jobs: self.jobs,
            users: self.users.into_names(),
            accounts: self.accounts.into_names(),
            queues: self.queues.into_names(),
            qos: self.qos.into_names(),
            machine: None,
            dropped,
        })
    }
}

/// By queue the longest limit that a job of it names: the text does not say what the limits
/// of the partitions are.
fn longest_limits(jobs: &[Job], limits: &[Limit], queues: usize) -> Vec<Option<Span>> {
    let mut longest = vec![None; queues];
    for (job, limit) in jobs.iter().zip(limits) {
        let longest = &mut longest[job.queue as usize];
        if let Limit::Known(limit) = limit {
            *longest = (*longest).max(Some(*limit));
        }
    }
    longest
}

fn index(names: &mut Names<String>, name: Option<&str>) -> u32 {
    name.map_or(0, |name| names.index(name.to_owned(), || name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expected: bool) {
        assert_eq!(is_likely(head.as_bytes()), expected, "{head}");
    }

    #[test]
    fn known_by_the_first_line() {
        check("JobID|Submit\n1|2", true);
        check("\nAccount|", true);
        check("       JobID    JobName\n", true);
        check("; Note: a|b\n", false);
        check("  1 2 3\nx|y", false);
        check("", false);
    }
}
