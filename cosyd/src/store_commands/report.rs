//! What is said of a copy while it is made, and when it is done.

use crate::store::copy::Compared;
use cosy_model::Time;
use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Between two words about how far it has come.
const WORD: Duration = Duration::from_millis(500);

/// Says on a terminal how far it has come.
#[derive(Default)]
pub(super) struct Progress {
    said: Option<Instant>,
}

impl Progress {
    /// Takes a word; not each is said.
    pub(super) fn tell(&mut self, what: &str, rows: u64) {
        let due = self.said.is_none_or(|said| said.elapsed() >= WORD);
        if due && stderr().is_terminal() {
            self.said = Some(Instant::now());
            // Nobody depends on it.
            let _ = write!(stderr(), "\r\x1b[K{what}: {rows} rows");
        }
    }

    /// All is done.
    pub(super) fn end(&mut self) {
        if self.said.take().is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// A line for each table.
pub(super) fn compared(all: &[Compared]) -> String {
    let mut text = format!("{:<18} {:>12} {:>12}  {:<16}\n", "TABLE", "SOURCE", "TARGET", "SUM");
    for one in all {
        let same = one.source == one.target;
        let sum = match same {
            true => one.source.to_string(),
            false => format!("{} differs from {}", one.target, one.source),
        };
        text.push_str(&format!(
            "{:<18} {:>12} {:>12}  {sum}\n",
            one.table, one.source.rows, one.target.rows
        ));
    }
    text
}

/// That all is there, in one line.
pub(super) fn same(all: &[Compared]) -> String {
    let rows: u64 = all.iter().map(|one| one.source.rows).sum();
    format!("{rows} rows of {} tables, compared one by one\n", all.len())
}

fn timestamp(at: Time) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(at.0).unwrap_or_default()
}

/// For people.
pub(super) fn date(at: Time) -> String {
    timestamp(at).strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// For names of files.
pub(super) fn file_date(at: Time) -> String {
    timestamp(at).strftime("%Y%m%dT%H%M%SZ").to_string()
}
