//! Many months: every rule, rising and constant shares, several drawings.

use super::figures::{Figures, utilisation};
use super::rule_sets::RuleSet;
use super::run::{Month, Outcome, RunSettings};
use super::users::AfterRefusal;
use crate::parallel;
use cosy_sched::notice::Share;

/// What the experiment runs: the month, shares, rules and seeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// The month that every run takes its jobs from.
    pub month: Month,
    /// Share of requests for reservations by week.
    pub rising: Vec<Share>,
    /// Shares that stay the same all month.
    pub constant: Vec<Share>,
    /// Rules of notice that are compared.
    pub rule_sets: Vec<RuleSet>,
    /// How many seeds each row is run with.
    pub seeds: u64,
    /// Seed of the first.
    pub first_seed: u64,
}

/// All drawings of the same.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Rules of notice that requests were judged by.
    pub rule_set: RuleSet,
    /// What users do whose request is refused.
    pub after_refusal: AfterRefusal,
    /// Shares by week; one when it stays the same.
    pub shares: Vec<Share>,
    /// One for each seed, in their order.
    pub runs: Vec<Figures>,
}

/// Everything that came out.
#[derive(Clone, PartialEq, Debug)]
pub struct Study {
    /// Mean wait of all jobs without reservations, in hours.
    pub wait_without_h: f64,
    /// Utilisation without reservations.
    pub utilisation_without: f64,
    /// A row for each rule, share and use of refused requests.
    pub rows: Vec<Row>,
}

impl Settings {
    /// What is run, each `seeds` times. Rules other than COSY's only with the rising share,
    /// and only with refused requests that go into the queue.
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for rule_set in &self.rule_sets {
            let academic = *rule_set == RuleSet::Academic;
            let constant = self.constant.iter().filter(|_| academic);
            let all = constant.map(|share| vec![*share]);
            for shares in [self.rising.clone()].into_iter().chain(all) {
                for after_refusal in [AfterRefusal::Queued, AfterRefusal::Dropped] {
                    if academic || after_refusal == AfterRefusal::Queued {
                        rows.push(Row {
                            rule_set: *rule_set,
                            after_refusal,
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

    /// Runs everything; `progress` is called with the number of months done.
    pub fn study(&self, progress: &(dyn Fn(u64) + Sync)) -> Study {
        let without = self.month.without();
        let mut rows = self.rows();
        let of_row = |row: &Row| {
            let seeds = 0..self.seeds;
            let setting = |seed| RunSettings {
                rule_set: row.rule_set,
                after_refusal: row.after_refusal,
                shares: row.shares.clone(),
                seed: self.first_seed.saturating_add(seed),
            };
            seeds.map(setting).collect::<Vec<RunSettings>>()
        };
        let settings: Vec<RunSettings> = rows.iter().flat_map(of_row).collect();
        let run = |setting: &RunSettings| self.figures(setting, &without);
        let mut figures = parallel::map_with_progress(&settings, progress, run).into_iter();
        for row in &mut rows {
            row.runs = figures.by_ref().take(self.seeds as usize).collect();
        }
        Study {
            wait_without_h: mean_wait_h(&self.month, &without),
            utilisation_without: utilisation(&self.month, &without),
            rows,
        }
    }

    fn figures(&self, setting: &RunSettings, without: &Outcome) -> Figures {
        Figures::of(&self.month, &self.month.run(setting), without)
    }
}

fn mean_wait_h(month: &Month, outcome: &Outcome) -> f64 {
    Figures::of(month, outcome, outcome).month.queue.with_h()
}
