//! All runs of the experiment.

use super::failures::{self, Outcomes, TaskStart};
use super::spare::{self, DEADLINE_MS, Deadline, TableCell};
use super::times::{self, Point};
use crate::dag::GraphKind;
use crate::parallel;
use serde::Serialize;
use std::time::Duration;

/// What the experiment runs: number of graphs, seed, deadline.
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

/// The figures of Tables 1 and 2 and of Figure 9.
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
    /// Figure 9: a point for each number of tasks.
    pub times: Vec<Point>,
}

impl Settings {
    fn seeds(&self) -> std::ops::Range<u64> {
        self.first_seed..self.first_seed.saturating_add(self.runs)
    }

    /// How many steps `progress` counts.
    pub fn steps(&self) -> u64 {
        let tables = self.runs * (2 * GraphKind::ALL.len() as u64 + 2);
        tables + times::TASKS.len() as u64
    }

    /// Runs everything; `cpu` is the processor time of the calling thread.
    pub fn study(&self, cpu: &dyn Fn() -> Duration, progress: &(dyn Fn(u64) + Sync)) -> Study {
        let spare_steps = self.runs * GraphKind::ALL.len() as u64;
        let begun = 2 * spare_steps + 2 * self.runs;
        Study {
            runs: self.runs,
            deadline_ms: self.deadline_ms,
            fixed: self.spare(Deadline::Fixed(self.deadline_ms), progress),
            alike: self.spare(Deadline::PaperAlpha, &|done| progress(spare_steps + done)),
            in_slots: self.failures(TaskStart::Slot, &|done| progress(2 * spare_steps + done)),
            early: self.failures(TaskStart::Early, &|done| {
                progress(2 * spare_steps + self.runs + done);
            }),
            times: times::points(self.runs, self.first_seed, cpu, &|done| progress(begun + done)),
        }
    }

    fn spare(&self, deadline: Deadline, progress: &(dyn Fn(u64) + Sync)) -> spare::Table {
        let of_kind = |kind: GraphKind| self.seeds().map(move |seed| (kind, seed));
        let graphs: Vec<(GraphKind, u64)> = GraphKind::ALL.into_iter().flat_map(of_kind).collect();
        let runs = parallel::map_with_progress(&graphs, progress, |(kind, seed)| {
            (*kind, spare::run(*kind, *seed, deadline))
        });
        let cells = |kind: GraphKind| {
            let cell = |scheduler: usize| {
                let own = runs.iter().filter(|(other, _)| *other == kind);
                TableCell::of(own.filter_map(|(_, run)| run[scheduler].as_ref()))
            };
            (kind, std::array::from_fn(cell))
        };
        spare::Table {
            kinds: GraphKind::ALL.map(cells).into(),
        }
    }

    fn failures(&self, begin: TaskStart, progress: &(dyn Fn(u64) + Sync)) -> failures::Table {
        let seeds: Vec<u64> = self.seeds().collect();
        let runs: Vec<Outcomes> =
            parallel::map_with_progress(&seeds, progress, |seed| failures::run(*seed, begin));
        failures::Table::of(&runs)
    }
}
