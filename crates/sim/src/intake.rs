//! What the readers of logs share: bounded lines of a text that may be packed with gzip,
//! and what happens to rows that are no jobs.
//!
//! It knows nothing of any log format. What always holds: no line beyond
//! [`MAX_LINE_BYTES`] and no job beyond [`MAX_JOBS`] is ever held in memory, and no row
//! is left out uncounted.

use flate2::bufread::MultiGzDecoder;
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

/// Longest line that is read.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// Most jobs of one log.
pub const MAX_JOBS: usize = 50_000_000;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

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
    /// What would work instead.
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
        /// Its number, from 1.
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
        /// What the unpacking says.
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
        /// Where, from 1.
        line: u64,
    },
    /// The system refuses to read it.
    #[error("{file}: cannot be read")]
    Read {
        /// Name of the log.
        file: String,
        /// Why.
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

/// The text of `input`, unpacked if it begins as gzip does.
pub fn unpacked<'a>(input: impl BufRead + 'a) -> Box<dyn BufRead + 'a> {
    let (head, input) = peeked(input, GZIP_MAGIC.len());
    match head == GZIP_MAGIC {
        true => Box::new(BufReader::new(MultiGzDecoder::new(input))),
        false => input,
    }
}

/// The first bytes of `input`, at most as many, and all of it again. What goes wrong in the
/// first bytes goes wrong again there.
pub fn peeked<'a>(
    mut input: impl BufRead + 'a,
    most_bytes: usize,
) -> (Vec<u8>, Box<dyn BufRead + 'a>) {
    let mut head = Vec::new();
    let most = most_bytes as u64;
    let failed = input.by_ref().take(most).read_to_end(&mut head).err();
    let again = Cursor::new(head.clone())
        .chain(BufReader::new(Failed(failed)))
        .chain(input);
    (head, Box::new(again))
}

/// What an earlier reading met: a reader may say it only once.
struct Failed(Option<io::Error>);

impl Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// One line, or what is there instead.
#[derive(Debug)]
pub enum Line<'a> {
    /// Without its end.
    Text(&'a [u8]),
    /// Longer than [`MAX_LINE_BYTES`]; it was skipped.
    TooLong,
    /// The packed text ends early or is damaged; nothing follows.
    CutOff(io::Error),
    /// Nothing follows.
    End,
}

/// Reads lines.
pub struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`, from its first.
    pub fn new(input: R) -> Self {
        Self {
            input,
            line: Vec::new(),
            number: 0,
        }
    }

    /// The number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line.
    ///
    /// # Errors
    /// Those of the system; a damaged packed text is none.
    pub fn read(&mut self) -> io::Result<Line<'_>> {
        self.line.clear();
        self.number += 1;
        let most = MAX_LINE_BYTES as u64 + 1;
        let mut bounded = self.input.by_ref().take(most);
        match bounded.read_until(b'\n', &mut self.line) {
            Ok(0) => Ok(Line::End),
            Ok(_) if self.line.len() > MAX_LINE_BYTES && !self.line.ends_with(b"\n") => {
                self.skip_rest()
            }
            Ok(_) => Ok(Line::Text(without_end(&self.line))),
            Err(error) => damaged(error),
        }
    }

    fn skip_rest(&mut self) -> io::Result<Line<'_>> {
        loop {
            let held = match self.input.fill_buf() {
                Ok(held) => held,
                Err(error) => return damaged(error),
            };
            let end = held.iter().position(|byte| *byte == b'\n');
            let (skipped, over) = match end {
                Some(at) => (at + 1, true),
                None => (held.len(), held.is_empty()),
            };
            self.input.consume(skipped);
            if over {
                return Ok(Line::TooLong);
            }
        }
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The unpacking reports damage with these kinds; plain files never do.
fn damaged<'a>(error: io::Error) -> io::Result<Line<'a>> {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData => {
            Ok(Line::CutOff(error))
        }
        _ => Err(error),
    }
}

/// Which log is read, how strictly, and what was left out so far.
pub struct Intake {
    file: String,
    strictness: Strictness,
    dropped: BTreeMap<&'static str, u64>,
}

impl Intake {
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
    pub fn room<F: Fault>(&self, jobs: usize, line: u64) -> Result<(), Error<F>> {
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

/// Names of users, accounts or queues in the order of their first appearance; index 0
/// stands for unknown ones.
pub struct Names<K> {
    indices: BTreeMap<K, u32>,
    names: Vec<String>,
}

impl<K: Ord> Default for Names<K> {
    /// Only the unknown.
    fn default() -> Self {
        Self {
            indices: BTreeMap::new(),
            names: vec![crate::workload::UNKNOWN.to_owned()],
        }
    }
}

impl<K: Ord> Names<K> {
    /// The index of `key`, which gets the next one and a name if it is new.
    pub fn index(&mut self, key: K, name: impl FnOnce() -> String) -> u32 {
        *self.indices.entry(key).or_insert_with(|| {
            self.names.push(printable(&name()));
            (self.names.len() - 1) as u32
        })
    }

    /// Gives `key` a name, the last one counts.
    pub fn rename(&mut self, key: K, name: String) {
        let index = self.index(key, String::new);
        self.names[index as usize] = printable(&name);
    }

    /// How many there are with the unknown.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// All of them by index.
    pub fn into_names(self) -> Vec<String> {
        self.names
    }
}

/// Names come from outside and go to terminals.
fn printable(name: &str) -> String {
    name.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &[u8], expected: &[&str]) {
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        loop {
            match lines.read().unwrap() {
                Line::Text(line) => found.push(String::from_utf8(line.to_vec()).unwrap()),
                Line::TooLong => found.push("too long".to_owned()),
                Line::CutOff(_) => panic!("plain text is never cut off"),
                Line::End => break,
            }
        }
        assert_eq!(found, expected);
        assert_eq!(lines.number(), expected.len() as u64 + 1);
    }

    #[test]
    fn lines() {
        check(b"", &[]);
        check(b"a\r\n\nb", &["a", "", "b"]);
        let longest = "x".repeat(MAX_LINE_BYTES);
        check(format!("{longest}\nb\n").as_bytes(), &[&longest, "b"]);
        check(format!("{longest}x\nb\n").as_bytes(), &["too long", "b"]);
        check(longest.repeat(5).as_bytes(), &["too long"]);
    }

    #[test]
    fn names_keep_their_first_index() {
        let mut names = Names::default();
        names.rename(7, "seven".to_owned());
        assert_eq!(names.index(3, || "3".to_owned()), 2);
        assert_eq!(names.index(7, || "7".to_owned()), 1);
        assert_eq!(names.into_names(), ["unknown", "seven", "3"]);
    }
}
