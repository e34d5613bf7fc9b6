//! The first rows of a log as they are, for experiments that choose jobs by rules of their
//! own: what is unknown stays unknown.

use super::row::{self, Field};
use super::{Error, Fault};
use crate::log_input::{self, Line, Lines, RowFaults, Strictness};
use cosy_model::{Span, Time};
use std::io::BufRead;

/// One row of a log; times since the begin of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// Job number in the log.
    pub id: u64,
    /// The line that it comes from, from 1.
    pub line: u32,
    /// Since the begin of the log.
    pub submit: Time,
    /// How long it ran, if it did.
    pub run: Option<Span>,
    /// Processors that it got, if any.
    pub allocated: Option<u32>,
    /// Processors that it asked for, if the log says so.
    pub requested: Option<u32>,
    /// The time that it asked for, if the log says so.
    pub limit: Option<Span>,
}

/// The first `most` rows of a log, which may be packed with gzip; `name` is what errors
/// call it.
///
/// # Errors
/// [`Error`]: a row that is no row of numbers, no row at all, or the system refuses to read.
pub fn records(name: &str, input: impl BufRead, most: usize) -> Result<Vec<Record>, Error> {
    let faults = RowFaults::new(name, Strictness::Strict);
    let mut lines = Lines::new(log_input::unpack(input));
    let mut all = Vec::new();
    while all.len() < most {
        let number = lines.number() + 1;
        let taken = match lines.read() {
            Ok(Line::Text(line)) => record(number, line),
            Ok(Line::TooLong) => Err(Fault::LineTooLong),
            Ok(Line::CutOff(source)) => {
                let (file, line) = (name.to_owned(), number);
                return Err(Error::CutOff { file, line, source });
            }
            Ok(Line::End) => break,
            Err(error) => return Err(faults.unreadable(error)),
        };
        all.extend(taken.map_err(|fault| faults.error(number, fault))?);
    }
    faults.finish(all.len())?;
    Ok(all)
}

/// `None` of a comment.
fn record(number: u64, line: &[u8]) -> Result<Option<Record>, Fault> {
    let first = line.iter().find(|byte| !byte.is_ascii_whitespace());
    if first.is_none_or(|byte| *byte == b';') {
        return Ok(None);
    }
    let row = row::parse(line)?;
    let known = |field: Field| Some(row[field.0]).filter(|thousandths| *thousandths > 0);
    let count = |field| {
        let count = known(field).map(|thousandths| thousandths / 1000);
        let small = |count| u32::try_from(count).map_err(|_| Fault::Processors(count));
        count.map(small).transpose()
    };
    if row[Field::SUBMIT.0] < 0 {
        return Err(Fault::NoSubmit);
    }
    Ok(Some(Record {
        id: u64::try_from(row[Field::JOB.0] / 1000).unwrap_or(0),
        line: u32::try_from(number).unwrap_or(u32::MAX),
        submit: Time(row[Field::SUBMIT.0]),
        run: known(Field::RUN).map(Span),
        allocated: count(Field::ALLOCATED)?,
        requested: count(Field::REQUESTED)?,
        limit: known(Field::LIMIT).map(Span),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_as_they_are() {
        let log = b"; a comment\n\n\
            7 5 -1 10 4 -1 -1 8 60 -1 1 1 1 1 1 -1 -1 -1\n\
            8 6 -1 0 -1 -1 -1 -1 -1 -1 1 1 1 1 1 -1 -1 -1\n\
            9 6 -1 0 -1 -1 -1 -1 -1 -1 1 1 1 1 1 -1 -1 -1\n";
        let known = Record {
            id: 7,
            line: 3,
            submit: Time(5000),
            run: Some(Span(10_000)),
            allocated: Some(4),
            requested: Some(8),
            limit: Some(Span(60_000)),
        };
        let unknown = Record {
            id: 8,
            line: 4,
            submit: Time(6000),
            ..Record::default()
        };
        let got = records("log", &log[..], 2);
        assert_eq!(got.ok(), Some(vec![known, unknown]));
    }

    #[test]
    fn what_is_no_row_is_told() {
        let check = |log: &str, words: &str| {
            let error = records("log", log.as_bytes(), 9).err();
            let message = error.map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains(words), "{log}: {message}");
        };
        check("; nothing\n", "log: no jobs");
        check("1 2 3\n", "log:1: a row with 3 fields");
        check("\n1 x\n", "log:2: field 2 (submit time) is no number");
    }
}
