//! Workflows to try planners on: graphs of known shapes with costs drawn by chance, and the
//! file that holds one.
//!
//! Knows nothing of planners, clocks or files on disk. What always holds: the same settings
//! give the same graph; a drawn graph has one task at the beginning and one at the end, and
//! edges lead from lower to higher numbers.
//!
//! Source: Zhao and Sakellariou, *Advance Reservation Policies for Workflows* (2006), 4.1.

pub mod costs;
mod fft;
mod forkjoin;
pub mod graph_file;
mod laplace;
mod montage;
mod random;
mod shape;

pub use costs::{Graph, GraphSettings};
pub use shape::Shape;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Most tasks that are drawn or read.
pub const MOST_TASKS: usize = 100_000;
/// Fewest tasks that are drawn.
pub const LEAST_TASKS: usize = 12;
/// Most machines that a graph is drawn for or read with.
pub const MOST_MACHINES: usize = 1000;

/// Shapes that graphs are drawn in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GraphKind {
    /// The mosaic of Berriman et al.: images are projected, compared in pairs, corrected and
    /// added up.
    Montage,
    /// Tasks that fan out and come together again, each time one fewer.
    ForkJoin,
    /// The butterflies of a Fast Fourier Transform.
    Fft,
    /// A Laplace solver: a square of tasks that is swept from one corner to the other.
    Laplace,
    /// Levels of any size, joined by chance.
    Random,
}

impl GraphKind {
    /// All of them, in the order of the paper's 4.1.
    pub const ALL: [Self; 5] = [
        Self::Montage,
        Self::ForkJoin,
        Self::Fft,
        Self::Laplace,
        Self::Random,
    ];

    /// The word for it in options, JSON and tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Montage => "montage",
            Self::ForkJoin => "forkjoin",
            Self::Fft => "fft",
            Self::Laplace => "laplace",
            Self::Random => "random",
        }
    }

    /// How many tasks the paper's graphs have, or the nearest number that there is.
    pub const fn usual_tasks(self) -> usize {
        match self {
            Self::Montage => 57,
            Self::ForkJoin | Self::Fft | Self::Laplace | Self::Random => 60,
        }
    }

    /// A shape with about so many tasks. Only [`GraphKind::Random`] depends on the seed.
    pub fn shape(self, tasks: usize, seed: u64) -> Shape {
        let tasks = tasks.clamp(LEAST_TASKS, MOST_TASKS);
        match self {
            Self::Montage => montage::shape(tasks),
            Self::ForkJoin => forkjoin::shape(tasks),
            Self::Fft => fft::shape(tasks),
            Self::Laplace => laplace::shape(tasks),
            Self::Random => random::shape(tasks, &mut ChaCha8Rng::seed_from_u64(seed)),
        }
    }
}

#[cfg(test)]
mod tests;
