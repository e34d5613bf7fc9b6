//! Values of fields and of cells, before anybody has written them as text or as JSON.
//!
//! Zones, colours and units for people are the commands': here a point in time stays one.

use cosy_model::{Span, Su, Time};
use std::borrow::Cow;

/// What a field or a cell has to tell.
#[derive(Clone, PartialEq, Debug)]
pub enum FieldValue<'a> {
    /// There is none: empty in lists, `null` in JSON.
    Nothing,
    /// A text as it is.
    Text(Cow<'a, str>),
    /// A text of the controller, which may name points in time: they are told in the reader's
    /// zone.
    Sentence(Cow<'a, str>),
    /// The same, with what it is to whoever reads it.
    Verdict(Cow<'a, str>, Tone),
    /// How something stands, with what that is to whoever reads it.
    State(Cow<'a, str>, Tone),
    /// A count of things, or an id.
    Number(u64),
    /// A number that may be less than zero.
    Signed(i64),
    /// A number with decimals.
    Real(f64),
    /// Yes or no.
    Flag(bool),
    /// A point in time, where there is one.
    Time(Option<Time>),
    /// From when to when.
    Period(Time, Time),
    /// A length of time, which may be unlimited.
    Span(Span),
    /// Processor time in microseconds.
    CpuTime(u64),
    /// An amount of memory in bytes.
    Bytes(u64),
    /// A sum of service units.
    Su(Su),
    /// What something costs: rounded for people, exact in JSON.
    Price(Su),
    /// Several texts; tables join them with commas.
    Texts(Vec<&'a str>),
    /// Several values of one kind, a list in JSON.
    List(Vec<FieldValue<'a>>),
    /// Fields of its own.
    Record(Vec<(Cow<'a, str>, FieldValue<'a>)>),
}

/// What a state is to whoever reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// It runs, or is in use.
    Active,
    /// It waits for something, or somebody has to do something.
    Waiting,
    /// It went wrong, or is not there.
    Wrong,
    /// It is over, or idle: of less interest.
    Quiet,
}

impl<'a> FieldValue<'a> {
    /// A point in time for lists; a dash where there is none.
    pub fn time_or_dash(time: Option<Time>) -> Self {
        time.map_or(Self::Text("-".into()), |_| Self::Time(time))
    }

    /// A number for lists; a dash where there is none.
    pub fn number_or_dash(number: Option<u64>) -> Self {
        number.map_or(Self::Text("-".into()), Self::Number)
    }

    /// So many out of so many: `1/4`.
    pub fn share(part: impl std::fmt::Display, whole: impl std::fmt::Display) -> Self {
        Self::Text(format!("{part}/{whole}").into())
    }

    /// Fields of its own, by their names.
    pub fn record(fields: Vec<(&'static str, FieldValue<'a>)>) -> Self {
        let each = fields.into_iter();
        Self::Record(each.map(|(name, value)| (name.into(), value)).collect())
    }

    /// Texts in their order.
    pub fn texts(all: &'a [String]) -> Self {
        Self::Texts(all.iter().map(String::as_str).collect())
    }
}

impl<'a> From<&'a str> for FieldValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl<'a> From<&'a String> for FieldValue<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for FieldValue<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<u32> for FieldValue<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for FieldValue<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<i64> for FieldValue<'_> {
    fn from(number: i64) -> Self {
        Self::Signed(number)
    }
}

impl From<bool> for FieldValue<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<Time> for FieldValue<'_> {
    fn from(time: Time) -> Self {
        Self::Time(Some(time))
    }
}

impl From<Span> for FieldValue<'_> {
    fn from(span: Span) -> Self {
        Self::Span(span)
    }
}

impl From<Su> for FieldValue<'_> {
    fn from(sum: Su) -> Self {
        Self::Su(sum)
    }
}

impl<'a, T: Into<FieldValue<'a>>> From<Option<T>> for FieldValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, T::into)
    }
}
