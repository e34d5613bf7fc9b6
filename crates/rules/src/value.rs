//! Values of fields and expressions, and their kinds.

use cosy_model::{MiB, Span};
use std::fmt;

/// What kind of value a field or an expression has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Yes or no.
    Flag,
    /// A whole number.
    Number,
    /// Memory or disk.
    Size,
    /// A length of time.
    Time,
    /// A word or sentence.
    Text,
    /// Several words.
    List,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Flag => "yes or no",
            Self::Number => "a number",
            Self::Size => "a size like 4G",
            Self::Time => "a time like 2h",
            Self::Text => "a text",
            Self::List => "a list",
        })
    }
}

/// A value; `Unset` where nothing was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Nothing was asked for, or the value cannot be worked out.
    Unset,
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// Memory or disk, in MiB.
    Size(i64),
    /// A length of time in seconds; [`Value::NO_END`] without an end.
    Time(i64),
    /// A word or sentence.
    Text(String),
    /// Several words.
    List(Vec<String>),
}

impl Value {
    /// Seconds of a length of time without an end.
    pub const NO_END: i64 = i64::MAX;

    /// A length of time as a value.
    pub fn of_span(span: Span) -> Self {
        Self::Time(match span.is_unlimited() {
            true => Self::NO_END,
            false => span.secs(),
        })
    }

    /// The kind; `None` of [`Value::Unset`].
    pub const fn kind(&self) -> Option<Kind> {
        Some(match self {
            Self::Unset => return None,
            Self::Flag(_) => Kind::Flag,
            Self::Number(_) => Kind::Number,
            Self::Size(_) => Kind::Size,
            Self::Time(_) => Kind::Time,
            Self::Text(_) => Kind::Text,
            Self::List(_) => Kind::List,
        })
    }

    /// Whether it counts as true: only a flag that is yes does.
    pub const fn is_true(&self) -> bool {
        matches!(self, Self::Flag(true))
    }

    /// The length of time of a value in seconds.
    pub(crate) fn span(secs: i64) -> Span {
        match secs {
            Self::NO_END => Span::UNLIMITED,
            secs => Span::from_secs(secs),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => f.pad("none"),
            Self::Flag(true) => f.pad("yes"),
            Self::Flag(false) => f.pad("no"),
            Self::Number(n) => write!(f, "{n}"),
            Self::Size(mib) => match u64::try_from(*mib) {
                Ok(mib) => MiB(mib).fmt(f),
                Err(_) => write!(f, "{mib}M"),
            },
            Self::Time(secs) => Self::span(*secs).fmt(f),
            Self::Text(text) => f.pad(text),
            Self::List(all) => f.pad(&all.join(",")),
        }
    }
}
