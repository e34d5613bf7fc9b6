//! What the runs come to: the figures of the paper as numbers.
//!
//! Source: pricing paper, section 4, figures 3 to 6.

use super::run::{Alpha, Run};
use super::study::{ALPHAS, DUPLICATE_PERCENTS, FEW_PERCENT, MANY_PERCENT, Point, Study};
use crate::booking::spread::Spread;
use serde::Serialize;

/// A month at one load under one alpha.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct MonthFigures {
    /// Alpha; none when everybody has another.
    pub alpha: Option<f64>,
    /// Mean extra price of a reservation, in SU.
    pub price: Spread,
    /// Mean wait of a reservation, in seconds.
    pub wait_secs: Spread,
    /// Mean wait of a queued job, in seconds.
    pub queue_wait_secs: Spread,
    /// Used part of the machine.
    pub utilisation: Spread,
    /// Part of the reservations that pay nothing.
    pub free: Spread,
    /// Part of the reservations that pay less than a high priority queue takes.
    pub below_priority: Spread,
    /// Mean number of starts on a list.
    pub starts: Spread,
    /// Requests that got nothing.
    pub refused: Spread,
    /// Unit price that nine of ten do not pay more than.
    pub ninth_tenth: Spread,
}

/// One load of one system.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LoadFigures {
    /// Per cent of the jobs that are submitted twice.
    pub more: u32,
    /// Figures 3 and 4: by alpha.
    pub by_alpha: Vec<MonthFigures>,
    /// Figure 5: aggressive backfill.
    pub aggressive: MonthFigures,
    /// Figure 5: conservative backfill.
    pub conservative: MonthFigures,
}

/// All figures of one system.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SystemFigures {
    /// The system's name in tables: `SP2` or `CTC`.
    pub name: &'static str,
    /// In the order of [`DUPLICATE_PERCENTS`].
    pub loads: Vec<LoadFigures>,
    /// Thirty per cent reservations, alpha by chance.
    pub many: MonthFigures,
    /// Thirty per cent reservations, alpha 0.
    pub many_early: MonthFigures,
}

impl Study {
    /// The figures of each system.
    pub fn figures(&self) -> Vec<SystemFigures> {
        let systems = self.names.iter().enumerate();
        systems.map(|(at, name)| self.system(at, name)).collect()
    }

    fn system(&self, system: usize, name: &'static str) -> SystemFigures {
        let cell = |more, reserved, conservative, alpha| {
            let point = Point {
                more,
                reserved,
                conservative,
                alpha,
            };
            self.cell(system, point)
        };
        let load = |more: &u32| LoadFigures {
            more: *more,
            by_alpha: ALPHAS
                .iter()
                .map(|alpha| cell(*more, FEW_PERCENT, false, Alpha::Fixed(*alpha)))
                .collect(),
            aggressive: cell(*more, FEW_PERCENT, false, Alpha::Random),
            conservative: cell(*more, FEW_PERCENT, true, Alpha::Random),
        };
        SystemFigures {
            name,
            loads: DUPLICATE_PERCENTS.iter().map(load).collect(),
            many: cell(0, MANY_PERCENT, false, Alpha::Random),
            many_early: cell(0, MANY_PERCENT, false, Alpha::Fixed(0)),
        }
    }

    fn cell(&self, system: usize, point: Point) -> MonthFigures {
        let spread = |of: &dyn Fn(&Run) -> f64| self.spread(system, point, of);
        MonthFigures {
            alpha: match point.alpha {
                Alpha::Fixed(alpha) => Some(f64::from(alpha) / 1000.0),
                Alpha::Random => None,
            },
            price: spread(&Run::price),
            wait_secs: spread(&Run::wait),
            queue_wait_secs: spread(&|run| run.queue_wait),
            utilisation: spread(&|run| run.utilisation),
            free: spread(&Run::free),
            below_priority: spread(&Run::below_priority),
            starts: spread(&Run::starts),
            refused: spread(&|run| run.refused as f64),
            ninth_tenth: spread(&|run| crate::cosy::statistics::quantile(&run.unit_prices(), 0.9)),
        }
    }
}
