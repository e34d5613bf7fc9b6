//! How far it is: a line that is written anew on a terminal, elsewhere one each minute.

use super::queue::Counts;
use crate::output;
use crate::units::brief;
use cosy_model::Span;
use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Between two lines on a terminal.
const TICK: Duration = Duration::from_millis(250);
/// The same elsewhere.
const MINUTE: Duration = Duration::from_secs(60);
/// The rate is that of so long.
const WINDOW: Duration = Duration::from_secs(10);

/// Writes to standard error how far it is.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    quiet: bool,
    total: Option<u64>,
    begun: Instant,
    told: Instant,
    /// Whether the present line of the terminal is ours.
    shown: bool,
    /// How many were over, and when.
    past: VecDeque<(Instant, u64)>,
}

impl Progress {
    /// Of so many tasks, where that is known.
    pub fn new(quiet: bool, total: Option<u64>) -> Self {
        let now = Instant::now();
        Self {
            terminal: std::io::stderr().is_terminal(),
            quiet,
            total,
            begun: now,
            told: now,
            shown: false,
            past: VecDeque::new(),
        }
    }

    /// When the next line is due.
    pub fn due(&self) -> Instant {
        self.told + if self.terminal { TICK } else { MINUTE }
    }

    /// Writes a line when one is due.
    pub fn tell(&mut self, counts: Counts) {
        let now = Instant::now();
        if self.quiet || now < self.due() {
            return;
        }
        self.told = now;
        let over = counts.done + counts.failed;
        self.past.push_back((now, over));
        while self.past.len() > 2 && self.past.front().is_some_and(|(at, _)| now - *at > WINDOW) {
            self.past.pop_front();
        }
        let from = self.past.front().filter(|_| self.past.len() > 1);
        let (since, before) = from.copied().unwrap_or((self.begun, 0));
        let seconds = (now - since).as_secs_f64().max(1e-3);
        let rate = over.saturating_sub(before) as f64 / seconds;
        let line = line(counts, self.total, rate);
        if self.terminal {
            let width = output::width().unwrap_or(80).saturating_sub(1);
            let line: String = line.chars().take(width).collect();
            self.write(&format!("\r\x1b[K{line}"));
            self.shown = true;
        } else {
            self.write(&format!("cosy each: {line}\n"));
        }
    }

    /// Takes the line away, for something else to be written.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            self.write("\r\x1b[K");
        }
    }

    fn write(&self, text: &str) {
        let mut err = std::io::stderr().lock();
        let _ = err.write_all(text.as_bytes());
        let _ = err.flush();
    }
}

/// The line: how many of how many, how many a second, how long it may still take.
fn line(counts: Counts, total: Option<u64>, rate: f64) -> String {
    let over = counts.done + counts.failed + counts.before;
    let mut line = match total {
        Some(total) => {
            let percent = (over * 100).checked_div(total).unwrap_or(100);
            format!("{over} of {total} ({percent}%)")
        }
        None => format!("{over} over"),
    };
    if counts.failed > 0 {
        line.push_str(&format!(", {} failed", counts.failed));
    }
    line.push_str(&format!(", {} running, {rate:.1}/s", counts.running));
    let left = total.map(|total| total.saturating_sub(over));
    if let Some(left) = left.filter(|left| *left > 0 && rate > 0.0) {
        let seconds = (left as f64 / rate).ceil().min(1e9);
        line.push_str(&format!(", about {} left", brief(Span::from_secs(seconds as i64))));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let counts = Counts {
            done: 40,
            before: 9,
            failed: 1,
            repeated: 3,
            running: 8,
        };
        assert_eq!(
            line(counts, Some(200), 10.0),
            "50 of 200 (25%), 1 failed, 8 running, 10.0/s, about 15s left"
        );
        assert_eq!(line(Counts::default(), None, 0.0), "0 over, 0 running, 0.0/s");
        assert_eq!(line(Counts::default(), Some(0), 0.0), "0 of 0 (100%), 0 running, 0.0/s");
    }
}
