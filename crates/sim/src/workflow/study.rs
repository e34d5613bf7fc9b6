//! All runs of the experiment.

use super::failures::{self, Begin, Outcomes};
use super::spare::{self, Cell, DEADLINE_MS, Deadline};
use super::times::{self, Point};
use crate::booking::each::each;
use crate::dag::Kind;
use serde::Serialize;
use std::time::Duration;

/// An experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How many graphs of each kind.
    pub runs: u64,
    /// Seed of the first.
    pub first_seed: u64,
    /// The deadline of Table 1.
    pub deadline_ms: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            runs: 100,
            first_seed: 1,
            deadline_ms: DEADLINE_MS,
        }
    }
}

/// All tables.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Study {
    /// How many graphs of each kind.
    pub runs: u64,
    /// The deadline of Table 1, in milliseconds.
    pub deadline_ms: i64,
    /// Table 1 with one deadline.
    pub fixed: spare::Table,
    /// Table 1 with the paper's alphas.
    pub alike: spare::Table,
    /// Table 2, tasks starting with their slots.
    pub in_slots: failures::Table,
    /// Table 2, tasks starting as soon as they can.
    pub early: failures::Table,
    /// Figure 9.
    pub times: Vec<Point>,
}

impl Settings {
    fn seeds(&self) -> std::ops::Range<u64> {
        self.first_seed..self.first_seed.saturating_add(self.runs)
    }

    /// How many steps `told` counts.
    pub fn steps(&self) -> u64 {
        let tables = self.runs * (2 * Kind::ALL.len() as u64 + 2);
        tables + times::TASKS.len() as u64
    }

    /// Runs everything; `cpu` is the processor time of the calling thread.
    pub fn study(&self, cpu: &dyn Fn() -> Duration, told: &(dyn Fn(u64) + Sync)) -> Study {
        let spare_steps = self.runs * Kind::ALL.len() as u64;
        let begun = 2 * spare_steps + 2 * self.runs;
        Study {
            runs: self.runs,
            deadline_ms: self.deadline_ms,
            fixed: self.spare(Deadline::Fixed(self.deadline_ms), told),
            alike: self.spare(Deadline::PaperAlpha, &|done| told(spare_steps + done)),
            in_slots: self.failures(Begin::Slot, &|done| told(2 * spare_steps + done)),
            early: self.failures(Begin::Early, &|done| {
                told(2 * spare_steps + self.runs + done);
            }),
            times: times::points(self.runs, self.first_seed, cpu, &|done| told(begun + done)),
        }
    }

    fn spare(&self, deadline: Deadline, told: &(dyn Fn(u64) + Sync)) -> spare::Table {
        let of_kind = |kind: Kind| self.seeds().map(move |seed| (kind, seed));
        let wanted: Vec<(Kind, u64)> = Kind::ALL.into_iter().flat_map(of_kind).collect();
        let runs = each(&wanted, told, |(kind, seed)| (*kind, spare::run(*kind, *seed, deadline)));
        let cells = |kind: Kind| {
            let cell = |scheduler: usize| {
                let own = runs.iter().filter(|(other, _)| *other == kind);
                Cell::of(own.filter_map(|(_, run)| run[scheduler].as_ref()))
            };
            (kind, std::array::from_fn(cell))
        };
        spare::Table {
            kinds: Kind::ALL.map(cells).into(),
        }
    }

    fn failures(&self, begin: Begin, told: &(dyn Fn(u64) + Sync)) -> failures::Table {
        let seeds: Vec<u64> = self.seeds().collect();
        let runs: Vec<Outcomes> = each(&seeds, told, |seed| failures::run(*seed, begin));
        failures::Table::of(&runs)
    }
}
