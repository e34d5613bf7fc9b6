//! Workflows that arrive by chance until they are some share of the machine.
//!
//! The graphs are the paper's, one kind after the other. All nodes of the machine are alike:
//! a task's estimate is that on the first of the paper's machines, times a factor, and data
//! is on a file system that all nodes share. Real times are those of Table 2
//! ([`super::super::failures`]).

use super::super::longer_ms;
use super::Flow;
use crate::dag::{GraphKind, GraphSettings};
use cosy_model::{Span, Time};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Most workflows that are drawn.
pub const MOST: usize = 10_000;
/// A workflow's estimates together come to about so many units of the paper's time.
const USUAL_UNITS: i128 = 3500;

/// How many workflows arrive when, and on what machine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WorkflowLoad {
    /// Arrivals are between these.
    pub window: (Time, Time),
    /// Nodes of the machine.
    pub nodes: u32,
    /// All tasks together, by their estimates, are so much of the machine in that time, in
    /// per cent.
    pub percent: u32,
    /// Nodes of a task.
    pub task_nodes: u32,
    /// A unit of the paper's time, in seconds.
    pub unit_s: u32,
    /// Largest error of the estimates, in per cent of them.
    pub qoi: u32,
    /// Same seed, same workflows; those of a smaller load are among those of a larger one.
    pub seed: u64,
}

impl WorkflowLoad {
    /// About how many workflows that are.
    pub fn about(&self) -> u64 {
        let usual = USUAL_UNITS * 1000 * i128::from(self.unit_s) * i128::from(self.task_nodes);
        u64::try_from(self.target_work() / usual.max(1)).unwrap_or(u64::MAX)
    }

    fn length_ms(&self) -> i64 {
        self.window.1.since(self.window.0).0.max(1)
    }

    /// Estimated work of all workflows together, in node milliseconds.
    fn target_work(&self) -> i128 {
        let machine = i128::from(self.length_ms()) * i128::from(self.nodes);
        machine * i128::from(self.percent) / 100
    }

    /// Draws them, by arrival.
    pub fn draw(&self) -> Vec<Flow> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(3);
        let (from, length, target) = (self.window.0, self.length_ms(), self.target_work());
        let (mut flows, mut work) = (Vec::new(), 0);
        while work < target && flows.len() < MOST {
            let at = from + Span(rng.random_range(0..length));
            let flow = self.flow(flows.len(), at, &mut rng);
            let sum: i64 = flow.estimates.iter().map(|estimate| estimate.0).sum();
            work += i128::from(sum) * i128::from(self.task_nodes);
            flows.push(flow);
        }
        flows.sort_by_key(|flow| flow.at);
        flows
    }

    fn flow(&self, number: usize, at: Time, rng: &mut ChaCha8Rng) -> Flow {
        let kind = GraphKind::ALL[number % GraphKind::ALL.len()];
        let seed = self.seed.wrapping_mul(MOST as u64) + number as u64;
        let graph = GraphSettings::usual(kind, seed).generate();
        let first = graph
            .estimates_ms
            .iter()
            .map(|row| row.first().copied().flatten());
        let estimates: Vec<Span> = first
            .map(|ms| Span(ms.unwrap_or(0).max(1) * i64::from(self.unit_s)))
            .collect();
        let mut actual = |estimate: &Span| {
            let error: f64 = rng.random_range(-1.0..=1.0);
            let ms = longer_ms(estimate.0, error * f64::from(self.qoi));
            Span(ms.max(estimate.0 / 100).max(1))
        };
        Flow {
            at,
            actual: estimates.iter().map(&mut actual).collect(),
            estimates,
            edges: graph
                .edges
                .iter()
                .map(|(from, to, _)| (*from, *to))
                .collect(),
        }
    }
}
