//! How long what happens holds the controller up, by kind: turns of the core, reads of the
//! store. Told by `cadm ping -v`; what is far too long stands in the log.

use cosy_model::Uid;
use cosy_model::api::MeterRow;
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
    told: Option<Instant>,
    /// What was not written since.
    untold: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    count: u64,
    turn: (Duration, Option<Uid>),
    turns: Duration,
    read: (Duration, Option<Uid>),
}

impl Meter {
    /// Something took so long in a turn.
    pub fn turn(&self, kind: &'static str, uid: Option<Uid>, took: Duration) {
        let mut state = self.state();
        let figures = state.kinds.entry(kind).or_default();
        figures.count += 1;
        figures.turns += took;
        if took > figures.turn.0 {
            figures.turn = (took, uid);
        }
        if took > LONG_TURN {
            state.tell("turn", kind, uid, took);
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
            state.tell("read", kind, Some(uid), took);
        }
    }

    /// The figures, those that hold up longest first; whose they are with `users`.
    pub fn rows(&self, users: bool) -> Vec<MeterRow> {
        let us = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        let row = |(kind, f): (&&'static str, &Figures)| MeterRow {
            kind: (*kind).to_owned(),
            count: f.count,
            longest_turn_us: us(f.turn.0),
            longest_turn_of: f.turn.1.filter(|_| users),
            turns_us: us(f.turns),
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

impl State {
    fn tell(&mut self, what: &str, kind: &str, uid: Option<Uid>, took: Duration) {
        if self.told.is_some_and(|at| at.elapsed() < BETWEEN) {
            self.untold += 1;
            return;
        }
        let of = uid.map_or_else(String::new, |uid| format!(" of user {uid}"));
        let untold = std::mem::take(&mut self.untold);
        let more = match untold {
            0 => String::new(),
            n => format!("; {n} more since the last line"),
        };
        let ms = took.as_millis();
        tracing::warn!("a {what} for '{kind}'{of} took {ms} ms{more}");
        self.told = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_each_kind() {
        let meter = Meter::default();
        let ms = Duration::from_millis;
        meter.turn("jobs", Some(Uid(7)), ms(3));
        meter.turn("jobs", Some(Uid(8)), ms(9));
        meter.turn("jobs", Some(Uid(9)), ms(1));
        meter.turn("submit", Some(Uid(7)), ms(12));
        meter.read("history", Uid(7), ms(40));
        let rows = meter.rows(true);
        let kinds: Vec<&str> = rows.iter().map(|r| r.kind.as_str()).collect();
        assert_eq!(kinds, ["submit", "jobs", "history"]);
        assert_eq!((rows[1].count, rows[1].longest_turn_us), (3, 9000));
        assert_eq!(
            (rows[1].turns_us, rows[1].longest_turn_of),
            (13_000, Some(Uid(8)))
        );
        assert_eq!(rows[2].longest_read_us, 40_000);
        assert!(
            meter
                .rows(false)
                .iter()
                .all(|r| r.longest_turn_of.is_none())
        );
    }
}
