//! The model of Cirne and Berman, "A comprehensive model of the supercomputer workload"
//! (2001), for rigid jobs, with the parameters of the authors' own generator.
//!
//! It knows nothing of planners. What always holds: the same settings give the same jobs;
//! jobs come in the order of their submit times; the jobs of two runs that differ only in
//! `cancellations` are the same but for their cancellations.
//!
//! Arrivals follow a daily cycle without any noise: only the time of day at which the
//! workload begins is drawn. Size, requested time and accuracy are independent of it and of
//! each other.

mod arrival;

pub use arrival::{Arrival, UnknownArrival};

use crate::workload::{Job, UNKNOWN, Workload};
use cosy_model::{Span, Time};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma};
use std::ops::RangeInclusive;

/// Loads that the model is used with; one outside is taken as the nearest of them.
pub const LOADS: RangeInclusive<f64> = 0.01..=100.0;

const DAY_SECS: usize = 86_400;
/// The fitted rates were averaged over two minutes: two units of rate are one job.
const RATE_OF_A_JOB: f64 = 2.0;

const SIZE: LogUniform = LogUniform { a: 0.12, b: 0.20 };
const POWER_OF_TWO: f64 = 0.75;
const REQUESTED_SECS: LogUniform = LogUniform { a: 0.10, b: -0.75 };
const ACCURACY_SHAPE: f64 = 0.6;
const ACCURACY_SCALE: f64 = 0.6;
const LEAST_ACCURACY: f64 = 1e-5;
const CANCELLED: f64 = 0.15;
const CANCEL_LAG_SECS: LogUniform = LogUniform { a: 0.065, b: -0.32 };

/// What jobs are drawn from: machine, number, arrivals, load and seed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Nodes of the machine: no job is larger, and arrivals grow with it. Zero counts as one.
    pub nodes: u32,
    /// Number of jobs to draw.
    pub jobs: usize,
    /// Same seed, same jobs.
    pub seed: u64,
    /// Daily cycle of the submissions.
    pub arrival: Arrival,
    /// Multiplies arrivals per second and requested times; 1 is the fitted model. Within
    /// [`LOADS`].
    pub load: f64,
    /// Whether users cancel jobs that wait for too long.
    pub cancellations: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            nodes: 120,
            jobs: 1000,
            seed: 1,
            arrival: Arrival::Anl,
            load: 1.0,
            cancellations: true,
        }
    }
}

/// A uniform distribution of the logarithm: P(X <= x) = a log2(x) + b.
#[derive(Clone, Copy)]
struct LogUniform {
    a: f64,
    b: f64,
}

impl LogUniform {
    fn draw(self, rng: &mut ChaCha8Rng) -> f64 {
        let u: f64 = rng.random();
        ((u - self.b) / self.a).exp2()
    }
}

/// Submit times: the rate is summed up second by second, and whenever a job's worth has
/// come together, a job is submitted.
struct Arrivals {
    /// Rates of one day, from the first second on.
    day: Vec<f64>,
    /// Where in the day it began, in seconds after midnight.
    began_secs: f64,
    /// Seconds since it began.
    passed_secs: u64,
    sum: f64,
}

impl Arrivals {
    fn new(settings: &Settings, load: f64, rng: &mut ChaCha8Rng) -> Self {
        let arrival = settings.arrival;
        let scale = f64::from(settings.nodes.max(1)) / f64::from(arrival.fitted_nodes());
        let began = rng.random::<f64>();
        let rate = |second: usize| {
            let x = (began + second as f64 / DAY_SECS as f64).fract() - 0.5;
            load * scale * arrival.rate(x)
        };
        Self {
            // The first second that is added is the one after the begin.
            day: (1..=DAY_SECS).map(rate).collect(),
            began_secs: began * DAY_SECS as f64,
            passed_secs: 0,
            sum: 0.0,
        }
    }

    /// The next submit time, in seconds after midnight of the first day.
    fn next_secs(&mut self) -> i64 {
        while self.sum < RATE_OF_A_JOB {
            self.sum += self.day[(self.passed_secs % DAY_SECS as u64) as usize];
            self.passed_secs += 1;
        }
        self.sum -= RATE_OF_A_JOB;
        (self.began_secs + self.passed_secs as f64).ceil() as i64
    }
}

/// Draws jobs with the given settings.
pub fn generate(settings: &Settings) -> Workload {
    let load = match settings.load.is_nan() {
        true => 1.0,
        false => settings.load.clamp(*LOADS.start(), *LOADS.end()),
    };
    let mut rng = ChaCha8Rng::seed_from_u64(settings.seed);
    let mut arrivals = Arrivals::new(settings, load, &mut rng);
    let mut jobs = Vec::with_capacity(settings.jobs.min(1 << 20));
    for number in 1..=settings.jobs as u64 {
        let submit_secs = arrivals.next_secs();
        let job = draw(settings, load, number, submit_secs, &mut rng);
        jobs.push(job);
    }
    Workload {
        jobs,
        users: vec![UNKNOWN.to_owned()],
        accounts: vec![UNKNOWN.to_owned()],
        queues: vec![UNKNOWN.to_owned()],
        qos: Vec::new(),
        machine: Some(settings.nodes.max(1)),
        dropped: Vec::new(),
    }
}

fn draw(settings: &Settings, load: f64, id: u64, submit_secs: i64, rng: &mut ChaCha8Rng) -> Job {
    let nodes = size(settings.nodes.max(1), rng);
    let requested_secs = (load * REQUESTED_SECS.draw(rng)).ceil().max(1.0);
    let run_secs = (requested_secs * accuracy(rng)).ceil().max(1.0);
    let lag_secs = cancel_lag_secs(rng).filter(|_| settings.cancellations);
    Job {
        id,
        submit: Time::from_secs(submit_secs),
        run: Span::from_secs(run_secs as i64),
        limit: Span::from_secs(requested_secs as i64),
        processors: nodes,
        cancel: lag_secs.map(|lag_secs| Time::from_secs(submit_secs + lag_secs)),
        ..Job::default()
    }
}

fn size(most: u32, rng: &mut ChaCha8Rng) -> u32 {
    let drawn = SIZE.draw(rng).ceil().max(1.0);
    let nodes = match rng.random_bool(POWER_OF_TWO) {
        // Rounded, a half down.
        true => (drawn.log2() - 0.5).ceil().exp2(),
        false => drawn,
    };
    (nodes as u32).min(most)
}

/// Run time as a part of the requested time.
fn accuracy(rng: &mut ChaCha8Rng) -> f64 {
    let gamma = Gamma::new(ACCURACY_SHAPE, ACCURACY_SCALE).expect("shape and scale are positive");
    gamma.sample(rng).clamp(LEAST_ACCURACY, 1.0)
}

/// How long after its submission the user cancels a job that still waits.
fn cancel_lag_secs(rng: &mut ChaCha8Rng) -> Option<i64> {
    let cancelled = rng.random_bool(CANCELLED);
    cancelled.then(|| CANCEL_LAG_SECS.draw(rng).ceil().max(1.0) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_settings_end_and_stay_in_bounds() {
        for (nodes, load) in [(0, 1.0), (1, f64::NAN), (u32::MAX, 1e300), (5, -1.0)] {
            let settings = Settings {
                nodes,
                load,
                jobs: 3,
                ..Settings::default()
            };
            let jobs = generate(&settings).jobs;
            assert_eq!(jobs.len(), 3, "{settings:?}");
            for job in jobs {
                assert!((1..=nodes.max(1)).contains(&job.processors), "{job:?}");
                assert!(job.run >= Span::from_secs(1) && job.run <= job.limit);
            }
        }
    }
}
