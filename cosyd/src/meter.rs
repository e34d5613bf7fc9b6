//! How long what happens holds the controller up, by kind: turns of the core, reads of the
//! store. Told by `cadm ping -v`; what is far too long stands in the log.
//!
//! Turns are measured twice: how long others waited, and how long the thread itself was at work.
//! On a machine that does other things too only the second tells what a turn costs.

use cosy_model::Uid;
use cosy_model::api::{MeterRow, TURN_BOUNDS_MS};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Nobody should hold others up for longer in one turn.
pub const LONG_TURN: Duration = Duration::from_millis(20);
/// Nor a reading thread.
const LONG_READ: Duration = Duration::from_secs(2);
/// Between two lines in the log.
const BETWEEN: Duration = Duration::from_secs(10);

/// The figures since the start.
#[derive(Debug, Default)]
pub struct Meter {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kinds: BTreeMap<&'static str, Figures>,
    /// When the log was written to last.
    last_line: Option<Instant>,
    /// How many lines were left out since then.
    suppressed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    count: u64,
    /// Elapsed times, as others waited.
    turn: Durations,
    /// As the thread was at work.
    cpu: Durations,
    read: (Duration, Option<Uid>),
}

/// How long something took each time.
#[derive(Clone, Copy, Debug, Default)]
struct Durations {
    longest: (Duration, Option<Uid>),
    sum: Duration,
    /// By [`TURN_BOUNDS_MS`]; the last are the longer ones.
    counts: [u64; TURN_BOUNDS_MS.len() + 1],
}

impl Durations {
    fn add(&mut self, took: Duration, uid: Option<Uid>) {
        self.sum += took;
        self.counts[bound_of(took)] += 1;
        if took > self.longest.0 {
            self.longest = (took, uid);
        }
    }
}

/// How long something took in a turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct TurnTimes {
    /// By the clock on the wall.
    pub wall: Duration,
    /// By the clock that goes while the thread is at work.
    pub cpu: Duration,
}

/// Measures what a thread does from the making on.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

impl Stopwatch {
    /// Reads both clocks of the calling thread.
    pub fn start() -> Self {
        Self {
            wall: Instant::now(),
            cpu: cpu_time(),
        }
    }

    /// How long it took so far, by the clock on the wall.
    pub fn wall(&self) -> Duration {
        self.wall.elapsed()
    }

    /// How long it took so far. To be asked by the same thread.
    pub fn took(&self) -> TurnTimes {
        TurnTimes {
            wall: self.wall.elapsed(),
            cpu: cpu_time().saturating_sub(self.cpu),
        }
    }
}

/// How long this thread has been at work since it began.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}

impl Meter {
    /// Something took so long in a turn.
    pub fn turn(&self, kind: &'static str, uid: Option<Uid>, took: TurnTimes) {
        let mut state = self.state();
        let figures = state.kinds.entry(kind).or_default();
        figures.count += 1;
        figures.turn.add(took.wall, uid);
        figures.cpu.add(took.cpu, uid);
        if took.wall > LONG_TURN {
            let of_it = format!(", {} of them at work", took.cpu.as_millis());
            state.log(("turn", kind), uid, took.wall, &of_it);
        }
    }

    /// A read of the store took so long.
    pub fn read(&self, kind: &'static str, uid: Uid, took: Duration) {
        let mut state = self.state();
        let figures = state.kinds.entry(kind).or_default();
        figures.count += 1;
        if took > figures.read.0 {
            figures.read = (took, Some(uid));
        }
        if took > LONG_READ {
            state.log(("read", kind), Some(uid), took, "");
        }
    }

    /// The figures, those that hold up longest first; whose they are with `users`.
    pub fn rows(&self, users: bool) -> Vec<MeterRow> {
        let us = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        let row = |(kind, f): (&&'static str, &Figures)| MeterRow {
            kind: (*kind).to_owned(),
            count: f.count,
            longest_turn_us: us(f.turn.longest.0),
            longest_turn_of: f.turn.longest.1.filter(|_| users),
            turns_us: us(f.turn.sum),
            turn_counts: f.turn.counts.to_vec(),
            longest_cpu_us: us(f.cpu.longest.0),
            longest_cpu_of: f.cpu.longest.1.filter(|_| users),
            cpu_us: us(f.cpu.sum),
            cpu_counts: f.cpu.counts.to_vec(),
            longest_read_us: us(f.read.0),
            longest_read_of: f.read.1.filter(|_| users),
        };
        let mut rows: Vec<MeterRow> = self.state().kinds.iter().map(row).collect();
        rows.sort_by_key(|r| std::cmp::Reverse((r.longest_turn_us, r.longest_read_us)));
        rows
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a turn's length among the bounds.
fn bound_of(took: Duration) -> usize {
    TURN_BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < took)
}

impl State {
    fn log(&mut self, (what, kind): (&str, &str), uid: Option<Uid>, took: Duration, of_it: &str) {
        if self.last_line.is_some_and(|at| at.elapsed() < BETWEEN) {
            self.suppressed += 1;
            return;
        }
        let of = uid.map_or_else(String::new, |uid| format!(" of user {uid}"));
        let suppressed = std::mem::take(&mut self.suppressed);
        let more = match suppressed {
            0 => String::new(),
            n => format!("; {n} more since the last line"),
        };
        let ms = took.as_millis();
        tracing::warn!("a {what} for '{kind}'{of} took {ms} ms{of_it}{more}");
        self.last_line = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_each_kind() {
        let meter = Meter::default();
        let ms = Duration::from_millis;
        let took = |wall, cpu| TurnTimes {
            wall: ms(wall),
            cpu: ms(cpu),
        };
        meter.turn("jobs", Some(Uid(7)), took(3, 3));
        meter.turn("jobs", Some(Uid(8)), took(9, 1));
        meter.turn("jobs", Some(Uid(9)), took(1, 1));
        meter.turn("submit", Some(Uid(7)), took(12, 12));
        meter.read("history", Uid(7), ms(40));
        let rows = meter.rows(true);
        let kinds: Vec<&str> = rows.iter().map(|r| r.kind.as_str()).collect();
        assert_eq!(kinds, ["submit", "jobs", "history"]);
        assert_eq!((rows[1].count, rows[1].longest_turn_us), (3, 9000));
        assert_eq!((rows[1].turns_us, rows[1].longest_turn_of), (13_000, Some(Uid(8))));
        assert_eq!(rows[2].longest_read_us, 40_000);
        // One of at most 1 ms, none of at most 2, one of at most 5, one of at most 10.
        assert_eq!(rows[1].turn_counts[..5], [1, 0, 1, 1, 0]);
        // At work: two of at most 1 ms, one of at most 5.
        assert_eq!(rows[1].cpu_counts[..5], [2, 0, 1, 0, 0]);
        assert_eq!((rows[1].cpu_us, rows[1].longest_cpu_us), (5000, 3000));
        assert_eq!(rows[1].longest_cpu_of, Some(Uid(7)));
        meter.turn("jobs", None, took(1001, 1));
        assert_eq!(meter.rows(true)[0].turn_counts.last(), Some(&1));
        assert!(
            meter
                .rows(false)
                .iter()
                .all(|r| r.longest_turn_of.is_none() && r.longest_cpu_of.is_none())
        );
    }

    #[test]
    fn a_thread_that_waits_is_not_at_work() {
        let watch = Stopwatch::start();
        // Until the clock of this thread has gone on, however much else the machine does.
        while watch.took().cpu < Duration::from_millis(2) {
            std::hint::black_box(watch);
        }
        let (watch, wait) = (Stopwatch::start(), Duration::from_millis(200));
        let (_never, nothing) = std::sync::mpsc::channel::<()>();
        let _ = nothing.recv_timeout(wait);
        let took = watch.took();
        assert!(took.wall >= wait && took.cpu < wait / 2, "{took:?}");
    }
}
