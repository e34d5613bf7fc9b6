//! What tasks and edges cost: estimates on each machine, data, and the time that a unit of
//! data takes between machines.
//!
//! As in the paper (4.1): estimates are even between 10 and 100, for Montage between 50 and
//! 100, on each machine by itself; the ratio of communication to computation is even between
//! 0.1 and 1, one for each graph. A unit of the paper's time is a second here.
//!
//! Where it is silent: the ratio is that of the mean time that the data of an edge takes
//! between two machines to the mean estimate, as in HEFT's paper. Edges have between half
//! and one and a half times the mean data. A unit of data takes between 0.5 and 1.5 ms
//! between two machines, the same both ways (in the paper's example 0.9 to 1.4).

use super::{GraphKind, MOST_MACHINES, Shape};
use cosy_sched::workflow::{Dag, DagError, Machines};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::RangeInclusive;

/// Times of a unit of data between two machines, in microseconds.
const UNIT_US: RangeInclusive<i64> = 500..=1500;
/// Ratios of communication to computation, in thousandths.
pub const RATIOS: RangeInclusive<u32> = 100..=1000;
/// Ratios that may be asked for, in thousandths.
pub const ANY_RATIO: RangeInclusive<u32> = 0..=100_000;

/// What a graph is drawn from: shape, size, costs and seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GraphSettings {
    /// Shape of the graph.
    pub kind: GraphKind,
    /// About how many tasks.
    pub tasks: usize,
    /// On how many machines.
    pub machines: usize,
    /// Communication to computation in thousandths; by chance where none is given.
    pub ratio: Option<u32>,
    /// Same seed, same graph.
    pub seed: u64,
}

/// A graph with its costs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    /// Names of the tasks, all different.
    pub names: Vec<String>,
    /// Estimates in milliseconds, by task and machine; none where a task cannot run.
    pub estimates_ms: Vec<Vec<Option<i64>>>,
    /// From, to, units of data.
    pub edges: Vec<(usize, usize, i64)>,
    /// How long a unit of data takes between machines, in microseconds.
    pub unit_us: Vec<Vec<i64>>,
}

impl GraphSettings {
    /// The paper's: its number of tasks, five machines, any ratio.
    pub const fn usual(kind: GraphKind, seed: u64) -> Self {
        Self {
            kind,
            tasks: kind.usual_tasks(),
            machines: 5,
            ratio: None,
            seed,
        }
    }

    /// The graph that these settings give; the number of machines is brought within 1 to
    /// [`MOST_MACHINES`].
    pub fn generate(&self) -> Graph {
        // Costs do not depend on how much chance the shape took.
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(1);
        let Shape { names, edges } = self.kind.shape(self.tasks, self.seed);
        let machines = self.machines.clamp(1, MOST_MACHINES);
        let estimates = estimates_ms(self.kind);
        let row = |rng: &mut ChaCha8Rng| {
            let one = |_| Some(rng.random_range(estimates.clone()));
            (0..machines).map(one).collect()
        };
        let ratio = self.ratio.unwrap_or_else(|| rng.random_range(RATIOS));
        let estimates_ms: Vec<Vec<Option<i64>>> = names.iter().map(|_| row(&mut rng)).collect();
        let unit_us = units(machines, &mut rng);
        let mean = mean_data(&estimates_ms, &unit_us, ratio);
        let data = |rng: &mut ChaCha8Rng| rng.random_range(mean / 2..=mean / 2 * 3);
        let edges = edges.into_iter();
        Graph {
            estimates_ms,
            edges: edges.map(|(a, b)| (a, b, data(&mut rng))).collect(),
            unit_us,
            names,
        }
    }

    /// The options of `cosy-sim generate` that repeat it.
    pub fn options(&self) -> String {
        let Self {
            kind,
            tasks,
            machines,
            ratio,
            seed,
        } = self;
        let ccr = ratio.map(|ratio| format!(" --ccr {}", f64::from(ratio) / 1000.0));
        format!(
            "--dag {} --tasks {tasks} --machines {machines} --seed {seed}{}",
            kind.word(),
            ccr.unwrap_or_default()
        )
    }
}

fn estimates_ms(kind: GraphKind) -> RangeInclusive<i64> {
    match kind {
        GraphKind::Montage => 50_000..=100_000,
        GraphKind::ForkJoin | GraphKind::Fft | GraphKind::Laplace | GraphKind::Random => {
            10_000..=100_000
        }
    }
}

/// The same both ways, nothing within a machine.
fn units(machines: usize, rng: &mut ChaCha8Rng) -> Vec<Vec<i64>> {
    let mut units = vec![vec![0; machines]; machines];
    for (one, other) in (0..machines).flat_map(|one| (0..one).map(move |other| (one, other))) {
        let unit = rng.random_range(UNIT_US);
        (units[one][other], units[other][one]) = (unit, unit);
    }
    units
}

/// Amount of data with which mean machines and tasks have the ratio.
fn mean_data(estimates_ms: &[Vec<Option<i64>>], unit_us: &[Vec<i64>], ratio: u32) -> i64 {
    let estimates = estimates_ms.iter().flatten().flatten();
    let (sum, count) = estimates.fold((0, 0), |(sum, count), ms| (sum + ms, count + 1));
    let between = unit_us.iter().flatten().filter(|us| **us > 0);
    let (units, pairs) = between.fold((0, 0), |(sum, count), us| (sum + us, count + 1));
    let compute_us = i128::from(sum) * 1000 / i128::from(count.max(1));
    let data = compute_us * i128::from(ratio) * i128::from(pairs) / 1000;
    i64::try_from(data / i128::from(units.max(1))).unwrap_or(0)
}

impl Graph {
    /// Number of tasks.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// As the planner takes it, on machines that nobody else uses.
    ///
    /// # Errors
    /// [`DagError`].
    pub fn planned(&self) -> Result<(Dag, Machines), DagError> {
        let free = vec![Vec::new(); self.unit_us.len()];
        let machines = Machines::new(self.unit_us.clone(), free).ok_or(DagError::Empty)?;
        let dag = Dag::new(self.estimates_ms.clone(), &self.edges, &machines)?;
        Ok((dag, machines))
    }
}
