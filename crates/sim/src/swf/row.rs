//! One row of the Standard Workload Format, from bytes to a job.
//!
//! Numbers are kept in thousandths, so that times are in milliseconds.

use crate::log_input;

/// Fields of a row.
pub const FIELDS: usize = 18;

/// Numbers of a row in thousandths; -1000 stands for an unknown one.
pub type Row = [i64; FIELDS];

/// A field of a row by its place, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field(pub usize);

impl Field {
    pub(super) const JOB: Self = Self(0);
    pub(super) const SUBMIT: Self = Self(1);
    pub(super) const WAIT: Self = Self(2);
    pub(super) const RUN: Self = Self(3);
    pub(super) const ALLOCATED: Self = Self(4);
    pub(super) const REQUESTED: Self = Self(7);
    pub(super) const LIMIT: Self = Self(8);
    pub(super) const USER: Self = Self(11);
    pub(super) const GROUP: Self = Self(12);
    pub(super) const QUEUE: Self = Self(14);
    /// Fields that count or name something: they have no fractions.
    const WHOLE: [Self; 6] = [
        Self::JOB,
        Self::ALLOCATED,
        Self::REQUESTED,
        Self::USER,
        Self::GROUP,
        Self::QUEUE,
    ];
}

const NAMES: [&str; FIELDS] = [
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time used",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
];

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = NAMES.get(self.0).unwrap_or(&"beyond the last");
        write!(f, "field {} ({name})", self.0 + 1)
    }
}

/// Why a row is no usable job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// A row has exactly 18 fields.
    #[error("a row with {0} fields instead of {FIELDS}")]
    Fields(usize),
    /// It is no decimal number.
    #[error("{0} is no number")]
    NotNumber(Field),
    /// Only -1 is allowed below zero, for what is unknown.
    #[error("{0} is negative, and only -1 (unknown) may be")]
    Negative(Field),
    /// It counts or names something and has a fraction.
    #[error("{0} is no whole number")]
    NotWhole(Field),
    /// A time or number does not fit.
    #[error("{0} is beyond 64 bits (of milliseconds)")]
    Beyond64Bits(Field),
    /// Its end does not fit.
    #[error("submit time and run time together are beyond 64 bits (of milliseconds)")]
    EndBeyond64Bits,
    /// A replay could not tell when it ends.
    #[error("all jobs up to this one, one after another, end beyond 64 bits (of milliseconds)")]
    AllBeyond64Bits,
    /// More than any machine has.
    #[error("{0} processors are more than 2^32 - 1")]
    Processors(i64),
    /// Submitted earlier than the row before it.
    #[error("submitted earlier than the row before it")]
    Unsorted,
    /// The submit time is -1.
    #[error("a job without submit time")]
    NoSubmit,
    /// The run time is -1 or 0: it never ran.
    #[error("a job without run time (cancelled before it started?)")]
    NoRun,
    /// Neither requested nor allocated processors are known.
    #[error("a job without processors (cancelled before it started?)")]
    NoProcessors,
    /// Longer than [`log_input::MAX_LINE_BYTES`].
    #[error("a line longer than {} bytes", log_input::MAX_LINE_BYTES)]
    LineTooLong,
}

impl log_input::Fault for Fault {
    fn reason(&self) -> &'static str {
        match self {
            Self::Fields(_) => "without 18 fields",
            Self::NotNumber(_) => "with something that is no number",
            Self::Negative(_) => "with a negative number",
            Self::NotWhole(_) => "with a fraction where none can be",
            Self::Beyond64Bits(_) | Self::EndBeyond64Bits | Self::AllBeyond64Bits => {
                "beyond 64 bits"
            }
            Self::Processors(_) => "with more than 2^32 processors",
            Self::Unsorted => "out of order",
            Self::NoSubmit => "without submit time",
            Self::NoRun => "without run time",
            Self::NoProcessors => "without processors",
            Self::LineTooLong => "too long",
        }
    }

    fn remedy(&self) -> &'static str {
        match self {
            Self::Unsorted => "--lenient sorts rows by submit time",
            Self::Fields(_)
            | Self::NotNumber(_)
            | Self::Negative(_)
            | Self::NotWhole(_)
            | Self::Beyond64Bits(_)
            | Self::EndBeyond64Bits
            | Self::AllBeyond64Bits
            | Self::Processors(_)
            | Self::NoSubmit
            | Self::NoRun
            | Self::NoProcessors
            | Self::LineTooLong => "--lenient leaves such rows out and counts them",
        }
    }
}

/// What the row says about a job, as usable figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figures {
    pub submit_ms: i64,
    pub run_ms: i64,
    pub limit_ms: i64,
    pub processors: u32,
}

/// The numbers of a row.
pub fn parse(line: &[u8]) -> Result<Row, Fault> {
    let mut row = [0; FIELDS];
    let mut found = 0;
    let words = line.split(u8::is_ascii_whitespace);
    for word in words.filter(|word| !word.is_empty()) {
        if let Some(place) = row.get_mut(found) {
            *place = number(word, Field(found))?;
        }
        found += 1;
    }
    if found != FIELDS {
        return Err(Fault::Fields(found));
    }
    match Field::WHOLE.iter().find(|field| row[field.0] % 1000 != 0) {
        Some(field) => Err(Fault::NotWhole(*field)),
        None => Ok(row),
    }
}

/// The usable figures of a row: the requested processors, else the allocated ones; the
/// requested time, else the run time.
pub fn figures(row: &Row) -> Result<Figures, Fault> {
    let known = |field: Field| Some(row[field.0]).filter(|thousandths| *thousandths > 0);
    let submit_ms = row[Field::SUBMIT.0];
    let run_ms = known(Field::RUN).ok_or(Fault::NoRun)?;
    let processors = known(Field::REQUESTED)
        .or_else(|| known(Field::ALLOCATED))
        .ok_or(Fault::NoProcessors)?
        / 1000;
    if submit_ms < 0 {
        return Err(Fault::NoSubmit);
    }
    if submit_ms.checked_add(run_ms).is_none() {
        return Err(Fault::EndBeyond64Bits);
    }
    Ok(Figures {
        submit_ms,
        run_ms,
        limit_ms: known(Field::LIMIT).unwrap_or(run_ms),
        processors: u32::try_from(processors).map_err(|_| Fault::Processors(processors))?,
    })
}

/// Seconds from zero on, in milliseconds.
pub fn seconds(word: &[u8]) -> Option<i64> {
    number(word, Field::SUBMIT).ok().filter(|ms| *ms >= 0)
}

fn number(word: &[u8], field: Field) -> Result<i64, Fault> {
    let (is_negative, digits) = match word {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let size = thousandths(digits, field)?;
    match (is_negative, size) {
        (false, size) => Ok(size),
        (true, 0 | 1000) => Ok(-size),
        (true, _) => Err(Fault::Negative(field)),
    }
}

/// Rounded up, so that what is above zero stays there.
fn thousandths(digits: &[u8], field: Field) -> Result<i64, Fault> {
    let point = digits.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&digits[..at], &digits[at + 1..]),
        None => (digits, &digits[..0]),
    };
    let is_number = whole.iter().chain(fraction).all(u8::is_ascii_digit);
    if !is_number || whole.len() + fraction.len() == 0 {
        return Err(Fault::NotNumber(field));
    }
    let places = [0, 1, 2].map(|place| fraction.get(place).copied().unwrap_or(b'0'));
    let rest = fraction.iter().skip(3).any(|digit| *digit != b'0');
    whole
        .iter()
        .chain(&places)
        .try_fold(0i64, |sum, digit| sum.checked_mul(10)?.checked_add(i64::from(digit - b'0')))
        .and_then(|sum| sum.checked_add(i64::from(rest)))
        .ok_or(Fault::Beyond64Bits(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(word: &str, expected: Result<i64, Fault>) {
        assert_eq!(number(word.as_bytes(), Field::SUBMIT), expected, "{word}");
    }

    #[test]
    fn numbers() {
        let field = Field::SUBMIT;
        check("0", Ok(0));
        check("-0", Ok(0));
        check("17", Ok(17_000));
        check("+17.5", Ok(17_500));
        check(".25", Ok(250));
        check("3.", Ok(3000));
        check("0.0004", Ok(1));
        check("1.0010000", Ok(1001));
        check("-1", Ok(-1000));
        check("-1.0", Ok(-1000));
        check("9223372036854775.807", Ok(i64::MAX));
        check("9223372036854775.808", Err(Fault::Beyond64Bits(field)));
        check("9223372036854775.8070001", Err(Fault::Beyond64Bits(field)));
        check("99999999999999999999999", Err(Fault::Beyond64Bits(field)));
        for word in ["-2", "-0.5", "-1.001"] {
            check(word, Err(Fault::Negative(field)));
        }
        for word in [
            "", "-", ".", "1e5", "nan", "inf", "1.2.3", "--1", "0x10", "1,5",
        ] {
            check(word, Err(Fault::NotNumber(field)));
        }
    }

    fn check_figures(text: &str, expected: Result<(i64, i64, i64, u32), Fault>) {
        let found = parse(text.as_bytes()).and_then(|row| figures(&row));
        let found = found.map(|job| (job.submit_ms, job.run_ms, job.limit_ms, job.processors));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn usable_rows() {
        let rest = "-1 1 1 1 1 1 -1 -1 -1";
        let all = |text: &str| format!("{text} {rest}");
        check_figures(&all("1 5 -1 10 4 -1 -1 8 60"), Ok((5000, 10_000, 60_000, 8)));
        check_figures(&all("1 5 -1 10 4 -1 -1 -1 -1"), Ok((5000, 10_000, 10_000, 4)));
        check_figures(&all("1 5 -1 10 4 -1 -1 0 0"), Ok((5000, 10_000, 10_000, 4)));
        check_figures(&all("1 5 -1 0 4 -1 -1 8 60"), Err(Fault::NoRun));
        check_figures(&all("1 5 -1 -1 4 -1 -1 8 60"), Err(Fault::NoRun));
        check_figures(&all("1 5 -1 9 0 -1 -1 -1 60"), Err(Fault::NoProcessors));
        check_figures(&all("1 -1 -1 9 1 -1 -1 -1 60"), Err(Fault::NoSubmit));
        check_figures(&all("1 5 -1 9"), Err(Fault::Fields(13)));
        check_figures(&format!("{} 4", all("1 5 1 9 1 1 1 1 60")), Err(Fault::Fields(19)));
        check_figures(&all("1 5 -1 9 1.5 1 1 1 6"), Err(Fault::NotWhole(Field::ALLOCATED)));
        check_figures(&all("1 5 -1 9 1 -1 -1 4294967295 6"), Ok((5000, 9000, 6000, u32::MAX)));
        let many = Fault::Processors(4_294_967_296);
        check_figures(&all("1 5 -1 9 1 -1 -1 4294967296 6"), Err(many));
        let late = all("1 9223372036854775 -1 9 1 -1 -1 1 6");
        check_figures(&late, Err(Fault::EndBeyond64Bits));
    }
}
