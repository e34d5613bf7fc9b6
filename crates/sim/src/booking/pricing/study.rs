//! All runs of the experiment.
//!
//! Where the paper is silent: with 30 % reservations alpha is drawn by chance, as for the
//! two kinds of backfill, and 0 beside it; the same jobs are submitted twice in all runs
//! of a seed.

use super::run::{Alpha, Run, RunSettings, System};
use crate::booking::spread::Spread;
use crate::parallel;
use cosy_sched::Policy;
use cosy_sched::notice::Share;

/// Alphas of figures 3 and 4, in thousandths.
pub const ALPHAS: [u32; 11] = [0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000];
/// Shares of the jobs that are submitted twice, in per cent.
pub const DUPLICATE_PERCENTS: [u32; 3] = [0, 20, 40];
/// Reservations of all jobs, in per cent.
pub const FEW_PERCENT: u32 = 10;
/// Reservations of all jobs when there are many, in per cent.
pub const MANY_PERCENT: u32 = 30;
/// How queues are served in figure 5.
pub const POLICIES: [Policy; 2] = [Policy::EASY, Policy::CONSERVATIVE];

/// What the experiment runs: systems and number of seeds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The machines with their months.
    pub systems: Vec<System>,
    /// How many seeds each point is run with.
    pub seeds: u64,
    /// Seed of the first.
    pub first_seed: u64,
    /// True when the limits of all jobs are their run times.
    pub exact: bool,
}

/// A point of a figure, for one system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Point {
    /// Per cent of the jobs that are submitted twice.
    pub more: u32,
    /// Per cent of the jobs that are reservations.
    pub reserved: u32,
    /// True with conservative backfill, false with aggressive.
    pub conservative: bool,
    /// How buyers weigh price against wait.
    pub alpha: Alpha,
}

/// The runs of all systems, points and seeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Study {
    /// Names of the systems.
    pub names: Vec<&'static str>,
    /// How many seeds each point was run with.
    pub seeds: u64,
    /// Seed of the first drawing.
    pub first_seed: u64,
    /// The runs of every system and seed.
    pub runs: Vec<Run>,
}

impl Point {
    /// All points of all figures.
    pub fn all() -> Vec<Self> {
        let point = |more, reserved, conservative, alpha| Self {
            more,
            reserved,
            conservative,
            alpha,
        };
        let mut all = Vec::new();
        for more in DUPLICATE_PERCENTS {
            let fixed = |alpha: &u32| point(more, FEW_PERCENT, false, Alpha::Fixed(*alpha));
            all.extend(ALPHAS.iter().map(fixed));
            all.push(point(more, FEW_PERCENT, false, Alpha::Random));
            all.push(point(more, FEW_PERCENT, true, Alpha::Random));
        }
        all.push(point(0, MANY_PERCENT, false, Alpha::Random));
        all.push(point(0, MANY_PERCENT, false, Alpha::Fixed(0)));
        all
    }

    fn setting(self, system: usize, seed: u64, exact: bool) -> RunSettings {
        RunSettings {
            system,
            more: Share::percent(self.more),
            reserved: Share::percent(self.reserved),
            policy: POLICIES[usize::from(self.conservative)],
            alpha: self.alpha,
            seed,
            exact,
        }
    }
}

impl Settings {
    /// How many runs it takes.
    pub fn runs(&self) -> u64 {
        self.seeds * (Point::all().len() * self.systems.len()) as u64
    }

    /// Runs everything; `progress` is called with the number of runs done.
    pub fn study(&self, progress: &(dyn Fn(u64) + Sync)) -> Study {
        let mut settings = Vec::new();
        for seed in self.first_seed..self.first_seed.saturating_add(self.seeds) {
            for system in 0..self.systems.len() {
                // The longest first: nobody waits for them at the end.
                let points = Point::all().into_iter().rev();
                settings.extend(points.map(|point| point.setting(system, seed, self.exact)));
            }
        }
        let runs =
            parallel::map_with_progress(&settings, progress, |setting| setting.run(&self.systems));
        Study {
            names: self.systems.iter().map(|system| system.name).collect(),
            seeds: self.seeds,
            first_seed: self.first_seed,
            runs: runs.into_iter().flatten().collect(),
        }
    }
}

impl Study {
    /// The runs of a point, by seed.
    pub fn of(&self, system: usize, point: Point) -> impl Iterator<Item = &Run> {
        let is_of_point = move |run: &&Run| {
            let setting = run.setting;
            let like = point.setting(system, setting.seed, setting.exact);
            setting == like
        };
        self.runs.iter().filter(is_of_point)
    }

    /// A figure of the runs of a point.
    pub fn spread(&self, system: usize, point: Point, of: impl Fn(&Run) -> f64) -> Spread {
        Spread::of(self.of(system, point).map(of))
    }
}
