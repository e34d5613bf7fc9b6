//! Points in time and time limits as Slurm's users write them: `now+1hour`, `16:00`,
//! `teatime tomorrow`, `2026-11-21T10:00`; `90`, `1:30:00`, `2-12`.
//!
//! The present and its zone are handed in. Source: sbatch(1), `--begin` and `--time`;
//! sacct(1), "TIME FORMATS"; captures.

use cosy_model::{Span, Time};
use jiff::civil::{Date, DateTime, Time as Clock};
use jiff::{ToSpan, Zoned};

/// Longest text that is looked at, in bytes.
const LONGEST: usize = 100;
/// Farthest a relative time goes, in seconds: a thousand years.
const FARTHEST_SECS: i64 = 1000 * 366 * 86_400;

/// Reads a time limit: `minutes`, `minutes:seconds`, `hours:minutes:seconds`,
/// `days-hours[:minutes[:seconds]]`, `UNLIMITED`, `INFINITE`, `-1`. Seconds are rounded up
/// to whole minutes; 0 is no limit.
pub fn limit(text: &str) -> Option<Span> {
    let text = text.trim();
    if text == "-1" {
        return Some(Span::UNLIMITED);
    }
    let word = ["unlimited", "infinite"]
        .iter()
        .any(|w| text.eq_ignore_ascii_case(w));
    let plain = !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || b":-".contains(&b));
    if !word && !plain {
        return None;
    }
    let span: Span = text.parse().ok()?;
    if span.is_unlimited() || span == Span::ZERO {
        return Some(Span::UNLIMITED);
    }
    Some(Span::from_minutes(span.secs().saturating_add(59) / 60))
}

/// The text is no point in time.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("Invalid time specification (pos={at}): {text}")]
pub struct TimeParseError {
    /// Where reading stopped, in bytes.
    pub at: usize,
    /// The text as given, cut after 100 characters.
    pub text: String,
}

/// Which time is meant by a time of day, or a day of the year, that is past.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PastTime {
    /// The next such one: when something is to begin.
    Next,
    /// The one that was: when something was.
    Keep,
}

/// Reads a point in time.
///
/// # Errors
/// [`TimeParseError`], whose text is the original's.
pub fn point(text: &str, now: &Zoned, past: PastTime) -> Result<Time, TimeParseError> {
    let fail = |at: usize| TimeParseError {
        at,
        text: text.chars().take(LONGEST).collect(),
    };
    if text.len() > LONGEST {
        return Err(fail(0));
    }
    let mut reader = TimeParser {
        bytes: text.as_bytes(),
        at: 0,
        now,
        date: None,
        clock: None,
        fixed: None,
    };
    reader.read().ok_or_else(|| fail(reader.at))?;
    let at = reader.at;
    reader.result(past).ok_or_else(|| fail(at))
}

struct TimeParser<'a> {
    bytes: &'a [u8],
    at: usize,
    now: &'a Zoned,
    date: Option<(Date, DatePrecision)>,
    clock: Option<Clock>,
    /// A point that needs nothing more.
    fixed: Option<Time>,
}

/// How much of a date was given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DatePrecision {
    Whole,
    /// A date without a year: the next such day.
    MonthAndDay,
}

const WORDS: [(&str, i8); 5] = [
    ("midnight", 0),
    ("elevenses", 11),
    ("noon", 12),
    ("fika", 15),
    ("teatime", 16),
];

impl TimeParser<'_> {
    fn read(&mut self) -> Option<()> {
        self.blanks();
        if self.at == self.bytes.len() {
            return None;
        }
        while self.at < self.bytes.len() {
            self.piece()?;
            self.blanks();
            self.joint();
        }
        Some(())
    }

    /// `noon-tomorrow`: a dash may stand for the blank before a word.
    fn joint(&mut self) {
        let next = self.bytes.get(self.at + 1);
        if self.peek() == Some(b'-') && next.is_some_and(u8::is_ascii_alphabetic) {
            self.at += 1;
        }
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Takes `word` in any case, if it stands here.
    fn word(&mut self, word: &str) -> bool {
        let here = self.bytes.get(self.at..self.at + word.len());
        let found = here.is_some_and(|h| h.eq_ignore_ascii_case(word.as_bytes()));
        if found {
            self.at += word.len();
        }
        found
    }

    /// Takes a byte, if it stands here.
    fn byte(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Takes a number of up to `most` digits; gives also how many there were.
    fn digits(&mut self, most: usize) -> Option<(i64, usize)> {
        let start = self.at;
        let mut number = 0i64;
        while let Some(b) = self.peek().filter(u8::is_ascii_digit) {
            if self.at - start >= most {
                break;
            }
            number = number.checked_mul(10)?.checked_add(i64::from(b - b'0'))?;
            self.at += 1;
        }
        (self.at > start).then_some((number, self.at - start))
    }

    fn small(&mut self) -> Option<i8> {
        i8::try_from(self.digits(2)?.0).ok()
    }

    fn piece(&mut self) -> Option<()> {
        let today = self.now.date();
        if self.word("now") {
            return self.relative();
        }
        if self.word("today") {
            return self.set_date(today, DatePrecision::Whole);
        }
        if self.word("tomorrow") {
            return self.set_date(today.tomorrow().ok()?, DatePrecision::Whole);
        }
        if self.word("yesterday") {
            return self.set_date(today.yesterday().ok()?, DatePrecision::Whole);
        }
        if self.word("uts") {
            let secs = self.digits(12)?.0;
            self.fixed = Some(Time::from_secs(secs));
            return Some(());
        }
        for (word, hour) in WORDS {
            if self.word(word) {
                return self.set_clock(Clock::new(hour, 0, 0, 0).ok()?);
            }
        }
        self.numbers()
    }

    fn set_date(&mut self, date: Date, given: DatePrecision) -> Option<()> {
        if self.date.is_some() {
            return None;
        }
        self.date = Some((date, given));
        Some(())
    }

    fn set_clock(&mut self, clock: Clock) -> Option<()> {
        if self.clock.is_some() {
            return None;
        }
        self.clock = Some(clock);
        Some(())
    }

    /// `now`, `now+COUNT[UNIT]`, `now-COUNT[UNIT]`.
    fn relative(&mut self) -> Option<()> {
        let sign = match self.peek() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => 0,
        };
        let mut secs = 0i64;
        if sign != 0 {
            self.at += 1;
            let count = self.digits(12)?.0;
            secs = count.checked_mul(self.unit()?)?.checked_mul(sign)?;
        }
        if secs.abs() > FARTHEST_SECS {
            return None;
        }
        let now = Time(self.now.timestamp().as_millisecond());
        self.fixed = Some(now + Span::from_secs(secs));
        Some(())
    }

    /// Seconds of a unit; a second where there is none.
    fn unit(&mut self) -> Option<i64> {
        let units = [
            ("seconds", 1),
            ("minutes", 60),
            ("hours", 3600),
            ("days", 86_400),
            ("weeks", 604_800),
        ];
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_alphabetic()) {
            self.at += 1;
        }
        let given = String::from_utf8_lossy(&self.bytes[start..self.at]).to_ascii_lowercase();
        // The beginning of a unit will do.
        let found = units.iter().find(|(unit, _)| unit.starts_with(&given));
        if found.is_none() {
            self.at = start;
        }
        Some(found?.1)
    }

    /// A time of day or a date.
    fn numbers(&mut self) -> Option<()> {
        let start = self.at;
        let (first, count) = self.digits(6)?;
        match self.peek() {
            Some(b':') if count <= 2 => self.time_of_day(i8::try_from(first).ok()?),
            Some(b'-') if count == 4 => self.iso_date(first),
            Some(b'/' | b'.') if count <= 2 => self.month_day(i8::try_from(first).ok()?),
            _ if count == 4 || count == 6 => {
                self.at = start;
                self.bare_date(count == 6)
            }
            _ => {
                self.at = start;
                None
            }
        }
    }

    /// `:MM[:SS] [AM|PM]` behind the hour.
    fn time_of_day(&mut self, hour: i8) -> Option<()> {
        self.at += 1;
        let minute = self.small()?;
        let mut second = 0;
        if self.byte(b':') {
            second = self.small()?;
        }
        self.blanks();
        let hour = if self.word("am") {
            (1..=12).contains(&hour).then_some(hour % 12)?
        } else if self.word("pm") {
            (1..=12).contains(&hour).then_some(hour % 12 + 12)?
        } else {
            hour
        };
        self.set_clock(Clock::new(hour, minute, second, 0).ok()?)
    }

    /// `-MM-DD[THH:MM[:SS]]` behind the year; also with `-` before the hour.
    fn iso_date(&mut self, year: i64) -> Option<()> {
        self.at += 1;
        let month = self.small()?;
        if !self.byte(b'-') {
            return None;
        }
        let day = self.small()?;
        let date = Date::new(i16::try_from(year).ok()?, month, day).ok()?;
        self.set_date(date, DatePrecision::Whole)?;
        if self.byte(b'T') || self.byte(b't') {
            return self.hour_and_minute();
        }
        self.dashed_time()
    }

    /// `-HH:MM[:SS]` behind a date, or nothing.
    fn dashed_time(&mut self) -> Option<()> {
        let digit = self.bytes.get(self.at + 1).is_some_and(u8::is_ascii_digit);
        if digit && self.byte(b'-') {
            return self.hour_and_minute();
        }
        Some(())
    }

    fn hour_and_minute(&mut self) -> Option<()> {
        let hour = self.small()?;
        if self.peek() != Some(b':') {
            return None;
        }
        self.time_of_day(hour)
    }

    /// `/DD[/YY]` or `.DD[.YY]` behind the month; perhaps a time behind a dash.
    fn month_day(&mut self, month: i8) -> Option<()> {
        let mark = self.peek()?;
        self.at += 1;
        let day = self.small()?;
        if !self.byte(mark) {
            self.this_year(month, day)?;
        } else {
            let (year, count) = self.digits(4)?;
            self.with_year(year, count, month, day)?;
        }
        self.dashed_time()
    }

    /// `MMDD` or `MMDDYY`.
    fn bare_date(&mut self, with_year: bool) -> Option<()> {
        let (month, day) = (self.small()?, self.small()?);
        if !with_year {
            return self.this_year(month, day);
        }
        let (year, count) = self.digits(2)?;
        self.with_year(year, count, month, day)
    }

    fn with_year(&mut self, year: i64, digits: usize, month: i8, day: i8) -> Option<()> {
        let year = if digits <= 2 { 2000 + year } else { year };
        let date = Date::new(i16::try_from(year).ok()?, month, day).ok()?;
        self.set_date(date, DatePrecision::Whole)
    }

    fn this_year(&mut self, month: i8, day: i8) -> Option<()> {
        let date = Date::new(self.now.year(), month, day).ok()?;
        self.set_date(date, DatePrecision::MonthAndDay)
    }

    fn result(&self, past: PastTime) -> Option<Time> {
        if let Some(time) = self.fixed {
            return (self.date.is_none() && self.clock.is_none()).then_some(time);
        }
        let clock = self.clock.unwrap_or(Clock::midnight());
        let today = self.now.date();
        let (date, given) = self.date.unwrap_or((today, DatePrecision::Whole));
        let at = self.zoned(date, clock)?;
        if past == PastTime::Keep || at.timestamp() >= self.now.timestamp() {
            return Some(time_of(&at));
        }
        let later = match (self.date.is_some(), given) {
            (false, _) => date.tomorrow().ok()?,
            (true, DatePrecision::MonthAndDay) => date.checked_add(1.year()).ok()?,
            (true, DatePrecision::Whole) => return Some(time_of(&at)),
        };
        Some(time_of(&self.zoned(later, clock)?))
    }

    fn zoned(&self, date: Date, clock: Clock) -> Option<Zoned> {
        DateTime::from_parts(date, clock)
            .to_zoned(self.now.time_zone().clone())
            .ok()
    }
}

fn time_of(at: &Zoned) -> Time {
    Time(at.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits() {
        let check = |text: &str, want: Option<i64>| {
            let got = limit(text).map(|s| if s.is_unlimited() { -1 } else { s.secs() / 60 });
            assert_eq!(got, want, "{text}");
        };
        check("7", Some(7));
        check("1:30", Some(2));
        check("1:00:00", Some(60));
        check("1-00", Some(1440));
        check("2-3:4", Some(2 * 1440 + 184));
        check("0", Some(-1));
        check("0:01", Some(1));
        check("-1", Some(-1));
        check("UNLIMITED", Some(-1));
        check("infinite", Some(-1));
        check("-5", None);
        check("foo", None);
        check("5m", None);
        check("", None);
        check("99999999999999999", None);
    }

    fn now() -> Zoned {
        // A Saturday afternoon.
        crate::submit::at("2026-11-21T14:30:10")
    }

    #[test]
    fn points() {
        let check = |text: &str, past: PastTime, want: &str| {
            let got = point(text, &now(), past).unwrap();
            let want = crate::submit::at(want);
            assert_eq!(got, time_of(&want), "{text}");
        };
        use PastTime::{Keep, Next};
        check("now", Next, "2026-11-21T14:30:10");
        check("now+1hour", Next, "2026-11-21T15:30:10");
        check("now+60", Next, "2026-11-21T14:31:10");
        check("now-2days", Keep, "2026-11-19T14:30:10");
        check("now+2w", Next, "2026-12-05T14:30:10");
        check("16:00", Next, "2026-11-21T16:00:00");
        check("10:00", Next, "2026-11-22T10:00:00");
        check("10:00", Keep, "2026-11-21T10:00:00");
        check("4:05:06 PM", Next, "2026-11-21T16:05:06");
        check("12:00am", Next, "2026-11-22T00:00:00");
        check("teatime", Next, "2026-11-21T16:00:00");
        check("noon-tomorrow", Next, "2026-11-22T12:00:00");
        check("noon tomorrow", Next, "2026-11-22T12:00:00");
        check("16:00 tomorrow", Next, "2026-11-22T16:00:00");
        check("tomorrow", Next, "2026-11-22T00:00:00");
        check("2001-01-01", Next, "2001-01-01T00:00:00");
        check("2027-01-20T12:34:56", Next, "2027-01-20T12:34:56");
        check("2027-01-20t12:34", Next, "2027-01-20T12:34:00");
        check("1970-01-01-00:00:01", Keep, "1970-01-01T00:00:01");
        check("0120", Next, "2027-01-20T00:00:00");
        check("0120", Keep, "2026-01-20T00:00:00");
        check("122526", Next, "2026-12-25T00:00:00");
        check("12/25", Next, "2026-12-25T00:00:00");
        check("12/25/27 8:00", Next, "2027-12-25T08:00:00");
        check("12/25/27-8:00", Next, "2027-12-25T08:00:00");
        check("12/25-8:00:01", Next, "2026-12-25T08:00:01");
        check("uts10", Keep, "1970-01-01T00:00:10");
    }

    #[test]
    fn no_points() {
        let check = |text: &str, want: &str| {
            let error = point(text, &now(), PastTime::Next).unwrap_err();
            assert_eq!(error.to_string(), want);
        };
        check("foo", "Invalid time specification (pos=0): foo");
        check("now+foo", "Invalid time specification (pos=4): now+foo");
        check("", "Invalid time specification (pos=0): ");
        for text in [
            "25:00",
            "13/40",
            "now+99999999999999",
            "now 10:00",
            "today today",
            "1:2:3:4",
        ] {
            assert!(point(text, &now(), PastTime::Next).is_err(), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in ".{0,60}") {
            let _ = limit(&text);
            if let Err(e) = point(&text, &now(), PastTime::Next) {
                prop_assert!(e.at <= text.len());
            }
        }

        #[test]
        fn nearly_times(text in "(now|today|[0-9]{1,4}|[-+:/.T]|noon| |pm){0,8}") {
            let _ = limit(&text);
            let _ = point(&text, &now(), PastTime::Next);
        }
    }
}
