//! The model of Lublin and Feitelson for rigid jobs, "The workload on parallel
//! supercomputers: modeling the characteristics of rigid jobs" (JPDC 63(11), 2003), with
//! its published parameters.
//!
//! It knows nothing of planners. What always holds: the same settings give the same jobs;
//! jobs come in the order of their submit times; batch and interactive jobs are the same
//! drawn alone or together.
//!
//! The model has no time limits. They are drawn from the f-model of Mu'alem and Feitelson
//! (IEEE TPDS 12(6), 2001): evenly between the run time and f + 1 times it. With f = 5 jobs
//! use 36 % of their limit on average (ln 6 / 5), as those of the real logs do (34 % to
//! 40 %).

mod daily;
mod parameters;

use super::cirne::LOADS;
use crate::workload::{Job, UNKNOWN, Workload};
use cosy_model::{Span, Time};
use daily::DailyClock;
use parameters::{BATCH, GammaParameters, INTERACTIVE, Parameters, TYPELESS};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use std::fmt;
use std::str::FromStr;

/// Largest natural logarithm of a run time in seconds: 45 hours.
const LONGEST_RUN_LN: f64 = 12.0;
/// Largest natural logarithm of the time between two submissions in seconds: five days.
const LONGEST_GAP_LN: f64 = 13.0;
/// The f of the f-model of time limits.
const LIMIT_SPREAD: f64 = 5.0;
/// What jobs are drawn from: machine, number, kinds, load and seed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Nodes of the machine: no job is larger. Zero counts as one.
    pub nodes: u32,
    /// Number of jobs to draw.
    pub jobs: usize,
    /// Same seed, same jobs.
    pub seed: u64,
    /// Which kinds of jobs are drawn.
    pub kind: JobKind,
    /// Divides the time between submissions; 1 is the fitted model. Within [`LOADS`].
    pub load: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            nodes: 128,
            jobs: 1000,
            seed: 1,
            kind: JobKind::Both,
            load: 1.0,
        }
    }
}

/// The kinds of jobs that are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobKind {
    /// Batch jobs only.
    Batch,
    /// Interactive jobs only.
    Interactive,
    /// Both, each with its own arrivals.
    Both,
    /// One kind that stands for both.
    Typeless,
}

/// The text is not the name of a kind of jobs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown kind of jobs `{0}`: known are batch, interactive, both and typeless")]
pub struct UnknownJobKind(pub String);

impl JobKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Batch, Self::Interactive, Self::Both, Self::Typeless];

    /// The word for it in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Interactive => "interactive",
            Self::Both => "both",
            Self::Typeless => "typeless",
        }
    }

    /// Its parameters; of two submitted in the same second the first goes first.
    const fn parts(self) -> &'static [Parameters] {
        match self {
            Self::Batch => &[BATCH],
            Self::Interactive => &[INTERACTIVE],
            Self::Both => &[INTERACTIVE, BATCH],
            Self::Typeless => &[TYPELESS],
        }
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for JobKind {
    type Err = UnknownJobKind;

    fn from_str(text: &str) -> Result<Self, UnknownJobKind> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| kind.name() == text)
            .ok_or_else(|| UnknownJobKind(text.to_owned()))
    }
}

/// Draws jobs with the given settings.
pub fn generate(settings: &Settings) -> Workload {
    let parts = settings.kind.parts().iter();
    let mut sources: Vec<JobStream> = parts.map(|part| JobStream::new(part, settings)).collect();
    let mut jobs = Vec::with_capacity(settings.jobs.min(1 << 20));
    for id in 1..=settings.jobs as u64 {
        let first = sources.iter_mut().min_by_key(|source| source.submit_secs);
        jobs.extend(first.map(|source| source.job(id)));
    }
    let queues: &[&str] = match settings.kind {
        JobKind::Typeless => &[UNKNOWN],
        JobKind::Batch | JobKind::Interactive | JobKind::Both => &[UNKNOWN, "batch", "interactive"],
    };
    Workload {
        jobs,
        users: vec![UNKNOWN.to_owned()],
        accounts: vec![UNKNOWN.to_owned()],
        queues: queues.iter().map(|name| (*name).to_owned()).collect(),
        qos: Vec::new(),
        machine: Some(settings.nodes.max(1)),
        dropped: Vec::new(),
    }
}

/// Jobs of one kind, one after another.
struct JobStream {
    parameters: Parameters,
    nodes: u32,
    load: f64,
    rng: ChaCha8Rng,
    clock: DailyClock,
    /// Submit time of the next job.
    submit_secs: i64,
}

impl JobStream {
    fn new(parameters: &Parameters, settings: &Settings) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(settings.seed);
        rng.set_stream(u64::from(parameters.queue));
        let nodes = settings.nodes.max(1);
        let mut source = Self {
            parameters: parameters.for_machine(nodes),
            nodes,
            load: load(settings.load),
            rng,
            clock: DailyClock::new(parameters.daily),
            submit_secs: 0,
        };
        source.submit_secs = source.next_submit_secs();
        source
    }

    /// The next job; the time of the one after it is drawn, too.
    fn job(&mut self, id: u64) -> Job {
        let submit_secs = self.submit_secs;
        let processors = self.size();
        let run_secs = self.run_secs(processors);
        let limit_secs = run_secs * (1.0 + LIMIT_SPREAD * self.rng.random::<f64>());
        self.submit_secs = self.next_submit_secs();
        Job {
            id,
            submit: Time::from_secs(submit_secs),
            run: Span::from_secs(run_secs as i64),
            limit: Span::from_secs(limit_secs.ceil() as i64),
            processors,
            queue: self.parameters.queue,
            ..Job::default()
        }
    }

    fn next_submit_secs(&mut self) -> i64 {
        let GammaParameters(shape, scale) = self.parameters.gaps_ln;
        let gaps_ln = GammaParameters(shape * self.parameters.arrival_ratio, scale).gamma();
        let gap_ln = loop {
            let drawn = gaps_ln.sample(&mut self.rng);
            if drawn <= LONGEST_GAP_LN {
                break drawn;
            }
        };
        self.clock.pass(gap_ln.exp() / self.load) as i64
    }

    fn size(&mut self) -> u32 {
        let kind = self.rng.random::<f64>();
        let drawn = &self.parameters;
        if kind <= drawn.serial {
            return 1;
        }
        let (from, to) = match self.rng.random_bool(drawn.below_middle) {
            true => (drawn.low, drawn.middle),
            false => (drawn.middle, drawn.high),
        };
        let exponent = from + (to - from) * self.rng.random::<f64>();
        let exponent = match kind <= drawn.serial + drawn.power_of_two {
            true => exponent.round(),
            false => exponent,
        };
        (exponent.exp2().round() as u32).clamp(1, self.nodes)
    }

    fn run_secs(&mut self, nodes: u32) -> f64 {
        let (by_node, at_none) = self.parameters.short_by_nodes;
        let short = (by_node * f64::from(nodes) + at_none).clamp(0.0, 1.0);
        loop {
            let runs_ln = match self.rng.random_bool(short) {
                true => self.parameters.short_runs_ln,
                false => self.parameters.long_runs_ln,
            };
            let drawn = runs_ln.gamma().sample(&mut self.rng);
            if drawn <= LONGEST_RUN_LN {
                return drawn.exp().floor();
            }
        }
    }
}

fn load(requested: f64) -> f64 {
    match requested.is_nan() {
        true => 1.0,
        false => requested.clamp(*LOADS.start(), *LOADS.end()),
    }
}
