//! What the runs come to: the figures of the paper as numbers.
//!
//! Source: pricing paper, section 4, figures 3 to 6.

use super::run::{Alpha, Run};
use super::study::{ALPHAS, FEW, MANY, MORE, Point, Study};
use crate::booking::spread::Spread;
use serde::Serialize;

/// A month at one load under one alpha.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Cell {
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
pub struct Load {
    /// Per cent of the jobs that are there twice.
    pub more: u32,
    /// Figures 3 and 4: by alpha.
    pub by_alpha: Vec<Cell>,
    /// Figure 5: aggressive backfill.
    pub aggressive: Cell,
    /// Figure 5: conservative backfill.
    pub conservative: Cell,
}

/// One system.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figures {
    /// Its name.
    pub name: &'static str,
    /// By load.
    pub loads: Vec<Load>,
    /// Thirty per cent reservations, alpha by chance.
    pub many: Cell,
    /// Thirty per cent reservations, alpha 0.
    pub many_early: Cell,
}

impl Study {
    /// The figures of each system.
    pub fn figures(&self) -> Vec<Figures> {
        let systems = self.names.iter().enumerate();
        systems.map(|(at, name)| self.system(at, name)).collect()
    }

    fn system(&self, system: usize, name: &'static str) -> Figures {
        let cell = |more, reserved, conservative, alpha| {
            let point = Point {
                more,
                reserved,
                conservative,
                alpha,
            };
            self.cell(system, point)
        };
        let load = |more: &u32| Load {
            more: *more,
            by_alpha: ALPHAS
                .iter()
                .map(|alpha| cell(*more, FEW, false, Alpha::Fixed(*alpha)))
                .collect(),
            aggressive: cell(*more, FEW, false, Alpha::Random),
            conservative: cell(*more, FEW, true, Alpha::Random),
        };
        Figures {
            name,
            loads: MORE.iter().map(load).collect(),
            many: cell(0, MANY, false, Alpha::Random),
            many_early: cell(0, MANY, false, Alpha::Fixed(0)),
        }
    }

    fn cell(&self, system: usize, point: Point) -> Cell {
        let spread = |of: &dyn Fn(&Run) -> f64| self.spread(system, point, of);
        Cell {
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
            ninth_tenth: spread(&|run| crate::cosy::sample::quantile(&run.unit_prices(), 0.9)),
        }
    }
}
