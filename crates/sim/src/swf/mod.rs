//! Reads and writes the Standard Workload Format, version 2.2: 18 numbers a row, comments
//! after `;` (Parallel Workloads Archive; Chapin and others, JSSPP 1999).
//!
//! What always holds: a job has a run time, a limit and a processor at least; what is no
//! such job is an error or counted.

mod header;
mod record;
mod row;
mod write;

pub use crate::log_input::Strictness;
pub use record::{Record, records};
pub use row::{Fault, Field};
pub use write::write;

use crate::log_input::{self, EndBound, Line, Lines, RowFaults};
use crate::workload::{Job, Workload};
use cosy_model::{Span, Time};
use header::Header;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Why a log could not be read.
pub type Error = log_input::Error<Fault>;

/// Reads the log at `path`.
///
/// # Errors
/// As [`read`].
pub fn open(path: &Path, strictness: Strictness) -> Result<Workload, Error> {
    let file = path.display().to_string();
    match File::open(path) {
        Ok(input) => read(&file, BufReader::new(input), strictness),
        Err(source) => Err(Error::Read { file, source }),
    }
}

/// Reads a log, which may be packed with gzip; `name` is what errors call it.
///
/// # Errors
/// [`Error`]: under [`Strictness::Strict`] the first row that is no usable job; always when
/// there is no job, when there are too many, or when the system refuses to read.
pub fn read(name: &str, input: impl BufRead, strictness: Strictness) -> Result<Workload, Error> {
    let mut log = Log {
        faults: RowFaults::new(name, strictness),
        header: Header::new(),
        jobs: Vec::new(),
        end_bound: EndBound::default(),
        is_sorted: true,
    };
    let mut lines = Lines::new(log_input::unpack(input));
    loop {
        let number = lines.number() + 1;
        let taken = match lines.read() {
            Ok(Line::Text(line)) => log.line(number, line),
            Ok(Line::TooLong) => Err(Fault::LineTooLong),
            Ok(Line::CutOff(why)) => {
                log.faults.cut_off(lines.number(), why)?;
                return log.finish();
            }
            Ok(Line::End) => return log.finish(),
            Err(error) => return Err(log.faults.unreadable(error)),
        };
        if let Err(fault) = taken {
            log.faults.fault(lines.number(), fault)?;
        }
        log.faults.check_count(log.jobs.len(), lines.number())?;
    }
}

/// What was read so far.
struct Log {
    faults: RowFaults,
    header: Header,
    jobs: Vec<Job>,
    end_bound: EndBound,
    is_sorted: bool,
}

impl Log {
    fn line(&mut self, number: u64, line: &[u8]) -> Result<(), Fault> {
        match line.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None => {}
            Some(b';') => self.header.comment(line),
            Some(_) => {
                let mut job = self.job(&row::parse(line)?)?;
                job.line = u32::try_from(number).unwrap_or(u32::MAX);
                self.keep(job)?;
            }
        }
        Ok(())
    }

    fn job(&mut self, row: &row::Row) -> Result<Job, Fault> {
        let figures = row::figures(row)?;
        let header = &mut self.header;
        Ok(Job {
            id: u64::try_from(row[Field::JOB.0] / 1000).unwrap_or(0),
            line: 0,
            submit: Time(figures.submit_ms),
            run: Span(figures.run_ms),
            limit: Span(figures.limit_ms),
            processors: figures.processors,
            nodes: None,
            cancel: None,
            recorded_wait: Some(Span(row[Field::WAIT.0])).filter(|wait| *wait >= Span::ZERO),
            user: index(&mut header.users, row[Field::USER.0]),
            account: index(&mut header.accounts, row[Field::GROUP.0]),
            queue: index(&mut header.queues, row[Field::QUEUE.0]),
            qos: 0,
        })
    }

    fn keep(&mut self, job: Job) -> Result<(), Fault> {
        let is_late = self
            .jobs
            .last()
            .is_some_and(|last| job.submit < last.submit);
        if is_late && self.faults.strictness() == Strictness::Strict {
            return Err(Fault::Unsorted);
        }
        if !self.end_bound.add(job.submit, job.run.min(job.limit)) {
            return Err(Fault::AllBeyond64Bits);
        }
        self.is_sorted &= !is_late;
        self.jobs.push(job);
        Ok(())
    }

    fn finish(mut self) -> Result<Workload, Error> {
        if !self.is_sorted {
            self.jobs.sort_by_key(|job| job.submit);
        }
        for job in &mut self.jobs {
            let cancel = self.header.cancels.get(&job.id);
            job.cancel = cancel.map(|at| Time(*at).max(job.submit));
        }
        Ok(Workload {
            dropped: self.faults.finish(self.jobs.len())?,
            jobs: self.jobs,
            qos: Vec::new(),
            machine: self.header.machine(),
            users: self.header.users.into_names(),
            accounts: self.header.accounts.into_names(),
            queues: self.header.queues.into_names(),
        })
    }
}

/// The index of a number of the log; -1 is unknown.
fn index(names: &mut log_input::Names<i64>, thousandths: i64) -> u32 {
    if thousandths < 0 {
        return 0;
    }
    names.index(thousandths, || (thousandths / 1000).to_string())
}
