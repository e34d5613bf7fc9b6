//! What the readers of logs share: bounded lines of a text that may be packed with gzip,
//! and what happens to rows that are no jobs.
//!
//! It knows nothing of any log format. What always holds: no line beyond
//! [`MAX_LINE_BYTES`] and no job beyond [`MAX_JOBS`] is ever held in memory, and no row
//! is left out uncounted.

mod end_bound;
mod lines;
mod names;

pub use end_bound::EndBound;
pub use lines::{Line, Lines, peek, unpack};
pub use names::Names;

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::io;

/// Longest line that is read.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// Longest line that is skipped: beyond it the input is no text, and may have no end.
pub const MAX_SKIPPED_BYTES: usize = 64 * 1024 * 1024;

/// Most jobs of one log.
pub const MAX_JOBS: usize = 50_000_000;

/// What to do with a row that is no usable job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strictness {
    /// The first one is an error.
    Strict,
    /// It is left out and counted.
    Lenient,
}

/// Why a row is no usable job.
pub trait Fault: Debug + Display + 'static {
    /// The kind of it, under which such rows are counted.
    fn reason(&self) -> &'static str;
    /// What the user can do about such rows.
    fn remedy(&self) -> &'static str;
}

/// Why a log could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error<F: Fault> {
    /// A row is no usable job.
    #[error("{file}:{line}: {fault}; {}", fault.remedy())]
    Row {
        /// Name of the log.
        file: String,
        /// Number of the row's line, from 1.
        line: u64,
        /// What is wrong with it.
        fault: F,
    },
    /// The packed text ends early or is damaged.
    #[error(
        "{file}:{line}: the packed file is cut off or damaged here; --lenient keeps what is before"
    )]
    CutOff {
        /// Name of the log.
        file: String,
        /// The line that is incomplete, from 1.
        line: u64,
        /// The error of the unpacking.
        source: io::Error,
    },
    /// Nothing is left to replay.
    #[error("{file}: no jobs{}", listed(dropped))]
    NoJobs {
        /// Name of the log.
        file: String,
        /// Rows left out, by reason.
        dropped: Vec<(String, u64)>,
    },
    /// The log has more than [`MAX_JOBS`].
    #[error("{file}:{line}: more than {MAX_JOBS} jobs; split the log")]
    TooManyJobs {
        /// Name of the log.
        file: String,
        /// Line of the first job too many, from 1.
        line: u64,
    },
    /// The system refuses to read it.
    #[error("{file}: cannot be read")]
    Read {
        /// Name of the log.
        file: String,
        /// The system's reason.
        source: io::Error,
    },
}

fn listed(dropped: &[(String, u64)]) -> String {
    let rows: Vec<String> = dropped
        .iter()
        .map(|(reason, rows)| format!("{rows} {reason}"))
        .collect();
    match rows.as_slice() {
        [] => String::new(),
        _ => format!(" (rows left out: {})", rows.join(", ")),
    }
}

/// Which log is read, how strictly, and what was left out so far.
pub struct RowFaults {
    file: String,
    strictness: Strictness,
    dropped: BTreeMap<&'static str, u64>,
}

impl RowFaults {
    /// Nothing of `file` is left out yet.
    pub fn new(file: &str, strictness: Strictness) -> Self {
        Self {
            file: file.to_owned(),
            strictness,
            dropped: BTreeMap::new(),
        }
    }

    /// How strictly rows are judged.
    pub fn strictness(&self) -> Strictness {
        self.strictness
    }

    /// Counts a row that is left out whatever the strictness.
    pub fn leave_out(&mut self, reason: &'static str) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    /// Counts a row with a fault.
    ///
    /// # Errors
    /// [`Error::Row`] if faults are errors.
    pub fn fault<F: Fault>(&mut self, line: u64, fault: F) -> Result<(), Error<F>> {
        match self.strictness {
            Strictness::Strict => Err(self.error(line, fault)),
            Strictness::Lenient => {
                self.leave_out(fault.reason());
                Ok(())
            }
        }
    }

    /// The error about a line that no strictness lets pass.
    pub fn error<F: Fault>(&self, line: u64, fault: F) -> Error<F> {
        let file = self.file.clone();
        Error::Row { file, line, fault }
    }

    /// Counts the end of a log that is cut off.
    ///
    /// # Errors
    /// [`Error::CutOff`] if faults are errors.
    pub fn cut_off<F: Fault>(&mut self, line: u64, source: io::Error) -> Result<(), Error<F>> {
        let file = self.file.clone();
        match self.strictness {
            Strictness::Strict => Err(Error::CutOff { file, line, source }),
            Strictness::Lenient => {
                self.leave_out("cut off with the rest of the file");
                Ok(())
            }
        }
    }

    /// Refuses more jobs than can be held.
    ///
    /// # Errors
    /// [`Error::TooManyJobs`] with `jobs` beyond [`MAX_JOBS`].
    pub fn check_count<F: Fault>(&self, jobs: usize, line: u64) -> Result<(), Error<F>> {
        let file = || self.file.clone();
        match jobs <= MAX_JOBS {
            true => Ok(()),
            false => Err(Error::TooManyJobs { file: file(), line }),
        }
    }

    /// The error of a system that refuses to read the log.
    pub fn unreadable<F: Fault>(&self, source: io::Error) -> Error<F> {
        let file = self.file.clone();
        Error::Read { file, source }
    }

    /// What was left out, by reason.
    ///
    /// # Errors
    /// [`Error::NoJobs`] when no job is left.
    pub fn finish<F: Fault>(self, jobs: usize) -> Result<Vec<(String, u64)>, Error<F>> {
        let rows = self.dropped.into_iter();
        let dropped = rows.map(|(why, rows)| (why.to_owned(), rows)).collect();
        match jobs {
            0 => Err(Error::NoJobs {
                file: self.file,
                dropped,
            }),
            _ => Ok(dropped),
        }
    }
}
