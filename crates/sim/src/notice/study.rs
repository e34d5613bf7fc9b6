//! Many months: every rule, rising and constant shares, several drawings.

use super::figures::{Figures, utilisation};
use super::run::{Month, Outcome, Setting};
use super::schemes::Scheme;
use super::users::Refused;
use crate::booking::each::each;
use cosy_sched::notice::Share;

/// What is run.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// The month.
    pub month: Month,
    /// Share of requests for reservations by week.
    pub rising: Vec<Share>,
    /// Shares that stay the same all month.
    pub constant: Vec<Share>,
    /// Rules of notice that are compared.
    pub schemes: Vec<Scheme>,
    /// Drawings of each.
    pub seeds: u64,
    /// Seed of the first.
    pub first_seed: u64,
}

/// All drawings of the same.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Rules of notice that requests were judged by.
    pub scheme: Scheme,
    /// What the refused do.
    pub refused: Refused,
    /// Shares by week; one when it stays the same.
    pub shares: Vec<Share>,
    /// By seed.
    pub runs: Vec<Figures>,
}

/// Everything that came out.
#[derive(Clone, PartialEq, Debug)]
pub struct Study {
    /// Mean wait of all jobs without reservations, in hours.
    pub wait_without_h: f64,
    /// Utilisation without reservations.
    pub utilisation_without: f64,
    /// By rule, share and what the refused do.
    pub rows: Vec<Row>,
}

impl Settings {
    /// What is run, each `seeds` times. Rules other than COSY's only with the rising share
    /// and where the refused need their results.
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for scheme in &self.schemes {
            let academic = *scheme == Scheme::Academic;
            let constant = self.constant.iter().filter(|_| academic);
            let all = constant.map(|share| vec![*share]);
            for shares in [self.rising.clone()].into_iter().chain(all) {
                for refused in [Refused::Queued, Refused::Dropped] {
                    if academic || refused == Refused::Queued {
                        rows.push(Row {
                            scheme: *scheme,
                            refused,
                            shares: shares.clone(),
                            runs: Vec::new(),
                        });
                    }
                }
            }
        }
        rows
    }

    /// How many months that are, beside the one without reservations.
    pub fn runs(&self) -> u64 {
        self.seeds.saturating_mul(self.rows().len() as u64)
    }

    /// Runs everything; `told` hears of each month that is done.
    pub fn study(&self, told: &(dyn Fn(u64) + Sync)) -> Study {
        let without = self.month.without();
        let mut rows = self.rows();
        let of_row = |row: &Row| {
            let seeds = 0..self.seeds;
            let setting = |seed| Setting {
                scheme: row.scheme,
                refused: row.refused,
                shares: row.shares.clone(),
                seed: self.first_seed.saturating_add(seed),
            };
            seeds.map(setting).collect::<Vec<Setting>>()
        };
        let settings: Vec<Setting> = rows.iter().flat_map(of_row).collect();
        let run = |setting: &Setting| self.figures(setting, &without);
        let mut figures = each(&settings, told, run).into_iter();
        for row in &mut rows {
            row.runs = figures.by_ref().take(self.seeds as usize).collect();
        }
        Study {
            wait_without_h: mean_wait_h(&self.month, &without),
            utilisation_without: utilisation(&self.month, &without),
            rows,
        }
    }

    fn figures(&self, setting: &Setting, without: &Outcome) -> Figures {
        Figures::of(&self.month, &self.month.run(setting), without)
    }
}

fn mean_wait_h(month: &Month, outcome: &Outcome) -> f64 {
    Figures::of(month, outcome, outcome).month.queue.with_h()
}
