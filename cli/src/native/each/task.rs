//! A task: an input, how often it was tried, and how an attempt ended.

use cosy_model::text::OsText;
use serde::{Deserialize, Serialize};

/// What a task is about, as its command sees it.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Number of the task, from 1.
    pub number: u64,
    /// Place on its node, from 1.
    pub slot: u32,
    /// The input itself.
    pub text: &'a [u8],
    /// What stands between its columns.
    pub separator: Option<&'a [u8]>,
}

impl<'a> Input<'a> {
    /// A column, from 1; the whole input is the first one where it has no columns.
    pub fn column(&self, number: usize) -> &'a [u8] {
        let Some(separator) = self.separator.filter(|s| !s.is_empty()) else {
            return if number == 1 { self.text } else { b"" };
        };
        let mut rest = self.text;
        for _ in 1..number {
            match find(rest, separator) {
                Some(at) => rest = rest.get(at + separator.len()..).unwrap_or_default(),
                None => return b"",
            }
        }
        rest.get(..find(rest, separator).unwrap_or(rest.len()))
            .unwrap_or_default()
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// A task that is to be run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Task {
    /// Its place among the inputs, from 1.
    pub number: u64,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// How many attempts were lost with their node.
    pub losses: u32,
    /// Its input.
    pub input: OsText,
}

/// How an attempt ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It took longer than allowed.
    TimedOut,
    /// It was not executed; why.
    NotStarted(String),
    /// The whole run was ended, and it with it.
    Stopped,
    /// Its node was lost.
    Lost,
}

impl Outcome {
    /// Whether the task is done.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Exited(0))
    }

    /// Its word in the file of results.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Exited(0) => "ok",
            Self::Exited(_) | Self::Killed(_) => "failed",
            Self::TimedOut => "timeout",
            Self::NotStarted(_) => "not-started",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
        }
    }
}

/// An attempt that is over, with what it took.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// Number of the task.
    pub number: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// When it was started, in microseconds since 1970.
    pub start_us: i64,
    /// How long it ran, in microseconds.
    pub elapsed_us: u64,
    /// CPU time of it and of what it waited for, in microseconds.
    pub cpu_us: u64,
    /// Its largest resident memory in KiB.
    pub memory_kib: u64,
    /// What it wrote to standard output, cut at the limit.
    pub output: OsText,
    /// What it wrote to standard error, cut at the limit.
    pub errors: OsText,
    /// Bytes of both that were left out.
    pub left_out: u64,
}

impl Ended {
    /// An attempt of which nothing ran, or nothing is known.
    pub fn without_figures(number: u64, outcome: Outcome) -> Self {
        Self {
            number,
            outcome,
            start_us: now_us(),
            elapsed_us: 0,
            cpu_us: 0,
            memory_kib: 0,
            output: OsText::default(),
            errors: OsText::default(),
            left_out: 0,
        }
    }
}

/// The time of day in microseconds since 1970.
pub fn now_us() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let check = |text: &str, separator: &str, number: usize, want: &str| {
            let input = Input {
                number: 1,
                slot: 1,
                text: text.as_bytes(),
                separator: Some(separator.as_bytes()),
            };
            assert_eq!(input.column(number), want.as_bytes(), "{text} {number}");
        };
        check("a,b,,d", ",", 1, "a");
        check("a,b,,d", ",", 3, "");
        check("a,b,,d", ",", 4, "d");
        check("a,b,,d", ",", 5, "");
        check("a::b", "::", 2, "b");
        check("a", "", 1, "a");
        check("a", "", 2, "");
    }
}
