//! A line on standard error that says how far a long replay is.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Replays that are over by then show nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// The line changes no more often than that.
const PAUSE: Duration = Duration::from_millis(100);

/// How far a replay is, if standard error is a terminal.
pub struct Progress {
    all: u64,
    what: &'static str,
    begun: Instant,
    next: Option<Instant>,
    shown: bool,
}

impl Progress {
    /// For `all` jobs.
    pub fn of(all: u64) -> Self {
        Self::counting(all, "jobs")
    }

    /// For `all` of something: `jobs`, `runs`.
    pub fn counting(all: u64, what: &'static str) -> Self {
        let begun = Instant::now();
        let terminal = std::io::stderr().is_terminal();
        Self {
            all,
            what,
            begun,
            next: terminal.then(|| begun + PATIENCE),
            shown: false,
        }
    }

    /// `started` of them have started, or are done.
    pub fn show(&mut self, started: u64) {
        let Some(next) = self.next else {
            return;
        };
        let now = Instant::now();
        if now < next {
            return;
        }
        self.next = Some(now + PAUSE);
        self.shown = true;
        let secs = now.duration_since(self.begun).as_secs_f64();
        eprint!("\r{}\x1b[K", line(started, self.all, self.what, secs));
        let _ = std::io::stderr().flush(); // nothing is lost with it
    }

    /// The replay is over: the line goes.
    pub fn end(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

fn line(started: u64, all: u64, what: &str, secs: f64) -> String {
    let percent = started.saturating_mul(100) / all.max(1);
    let rate = started as f64 / secs.max(0.001);
    let digits = usize::from(rate < 10.0);
    format!("{percent:3} %  {started} of {all} {what}  {rate:.digits$} {what}/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let check = |(started, all, secs), want: &str| {
            assert_eq!(line(started, all, "runs", secs), want);
        };
        check((50, 200, 2.0), " 25 %  50 of 200 runs  25 runs/s");
        check((3, 200, 2.0), "  1 %  3 of 200 runs  1.5 runs/s");
        check((0, 0, 0.0), "  0 %  0 of 0 runs  0.0 runs/s");
    }
}
