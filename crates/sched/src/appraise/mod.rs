//! What a reservation would do to the queue: candidates, availability, delays, price.
//!
//! Pure like the rest of the planner. It knows nothing of users, accounts and rules of
//! admission: those are the controller's, which decides with the figures from here.
//!
//! Sources: Röblitz and Rzadca, "On the Placement of Reservations into Job Schedules"
//! (2006), section 4 (candidates, eq. 1 to 4, the JOB placeholder); Singh, Kesselman and
//! Deelman, "Adaptive Pricing for Resource Reservations in Shared Environments" (2007),
//! sections 2 and 3 (price, candidate starts).

mod candidates;
mod effect;
mod groups;
mod judge;
mod load;

pub use groups::{GroupAppraisal, GroupEffect};

use crate::{Leaver, PoolId, PoolShortage, WaitingJob};
use cosy_model::{JobId, NodeShare, ReservationId, Span, Su, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is to be appraised.
#[derive(Clone, Debug)]
pub struct Inquiry {
    /// The same request as a plain job at its place in the queue: what it asks for, its
    /// queue, and the length of the reservation as its limit. Its id is not another job's.
    pub job: WaitingJob,
    /// Starts that are looked at.
    pub starts: Starts,
    /// How time is priced.
    pub tariff: Tariff,
    /// Weight of the makespan in eq. (4) in millionths; the rest is the weight of the mean
    /// completion time.
    pub makespan_weight_ppm: u32,
    /// Delays are looked for among the first so many waiting jobs; the start of the plain
    /// job is among all.
    pub most_jobs: usize,
    /// A reservation that the new one takes the place of: not in its way.
    pub replaces: Option<ReservationId>,
    /// Exactly this share of the machine instead of what the demand would choose.
    pub fixed: Option<Vec<NodeShare>>,
    /// By how much each waiting job is pushed back already by accepted reservations.
    pub pushed: Arc<BTreeMap<JobId, Span>>,
    /// Whose delays are listed one by one.
    pub listed: Listed,
    /// Whether [`Appraisal::plain_start`] is told; for the candidates of a window it always is. It
    /// takes a plan of all waiting jobs.
    pub plain_start: bool,
    /// Another plain job whose start is asked for beside: the request together with
    /// others.
    pub joint: Option<JointRequest>,
    /// Running jobs that may be made to leave where the slot is not free else.
    pub leavers: Vec<Leaver>,
}

/// The request together with accepted reservations, as one plain job.
#[derive(Clone, Debug)]
pub struct JointRequest {
    /// All of it.
    pub job: WaitingJob,
    /// The reservations that it stands for: neither in its way nor in that of others, whose
    /// plans they would clear for it.
    pub without: Vec<ReservationId>,
}

/// Which starts are appraised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Starts {
    /// These, each on its own.
    At(Vec<Time>),
    /// These, each with those before it that are possible accepted: a series.
    Series(Vec<Time>),
    /// Candidates in a window.
    Window {
        /// First start that is looked at.
        earliest: Time,
        /// Last start that is looked at.
        latest: Time,
        /// At most so many.
        most: usize,
        /// No two of the evenly spaced ones are nearer than this.
        gap: Span,
    },
}

/// So many starts are appraised quickly.
const FEW: usize = 4;

impl Starts {
    /// True for so few starts that they should not wait behind a whole window.
    pub fn are_few(&self) -> bool {
        match self {
            Self::At(starts) | Self::Series(starts) => starts.len() <= FEW,
            Self::Window { .. } => false,
        }
    }

    /// How many there are at most.
    pub fn most(&self) -> usize {
        match self {
            Self::At(starts) | Self::Series(starts) => starts.len(),
            Self::Window { most, .. } => *most,
        }
    }
}

/// Whose delays are listed one by one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Listed {
    /// Nobody's: only the sums.
    #[default]
    Nobody,
    /// Delays of all waiting jobs.
    Everyone,
    /// Those of these jobs.
    Of(Arc<BTreeSet<JobId>>),
}

/// How time is priced: n·p·d + f (pricing paper, section 2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tariff {
    /// p: for one core for one hour.
    pub core_hour: Su,
    /// For one GPU for one hour, beside its cores.
    pub gpu_hour: Su,
    /// f: for delaying a job of one core by one hour.
    pub delay_core_hour: Su,
    /// Weight of delays by queue in thousandths (section 4: a delay cost for each queue);
    /// 1000 where none is given.
    pub queue_permille: Vec<u32>,
    /// For one of a resource pool for one hour, beside the nodes; nothing where none is given.
    pub pool_hour: Vec<(PoolId, Su)>,
}

impl Tariff {
    /// Price of shares of nodes, and of amounts of resource pools beside them, for so long: p·n·d
    /// (pricing paper, section 3).
    pub fn base(&self, shares: &[NodeShare], holds: &[(PoolId, u64)], length: Span) -> Su {
        let ms = i128::from(length.0);
        let cores: i128 = shares.iter().map(|s| i128::from(s.amounts.cores)).sum();
        let gpus: i128 = shares.iter().map(|s| i128::from(s.amounts.gpus)).sum();
        let cores = Su::of_core_ms(cores.saturating_mul(ms), self.core_hour);
        let gpus = Su::of_core_ms(gpus.saturating_mul(ms), self.gpu_hour);
        cores.plus(gpus).plus(self.of_pools(holds, length))
    }

    /// The part of that which is for resource pools.
    pub fn of_pools(&self, holds: &[(PoolId, u64)], length: Span) -> Su {
        let each = holds.iter().filter_map(|(pool, amount)| {
            let (_, rate) = self.pool_hour.iter().find(|(priced, _)| priced == pool)?;
            let amount_ms = i128::from(*amount).saturating_mul(i128::from(length.0));
            Some(Su::of_core_ms(amount_ms, *rate))
        });
        each.fold(Su::ZERO, Su::plus)
    }
}

impl Default for Tariff {
    /// The paper's: one SU for each.
    fn default() -> Self {
        Self {
            core_hour: Su(Su::ONE),
            gpu_hour: Su::ZERO,
            delay_core_hour: Su(Su::ONE),
            queue_permille: Vec::new(),
            pool_hour: Vec::new(),
        }
    }
}

/// What was found for each start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Appraisal {
    /// The time of the snapshot.
    pub now: Time,
    /// When the plain job would start (the JOB placeholder); `None`: cannot be told, or is not asked
    /// for.
    pub plain_start: Option<Time>,
    /// When [`Inquiry::joint`] would start.
    pub joint_start: Option<Time>,
    /// T of eq. (1): until then the present work is taken to last.
    pub load_end: Time,
    /// The end of the plan as it is: the latest planned end of running and waiting jobs and
    /// reservations. Behind it today's queue says nothing.
    pub plan_end: Time,
    /// One for each start, the earliest first.
    pub slots: Vec<Estimate>,
}

/// What one start would do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Estimate {
    /// First instant of the slot.
    pub start: Time,
    /// First instant after the slot.
    pub end: Time,
    /// The nodes that it would get; `None`: running jobs or accepted reservations are in
    /// the way, or it is in the past.
    pub shares: Option<Vec<NodeShare>>,
    /// Those of [`Inquiry::leavers`] that would have to leave for it, by id.
    pub leave: Vec<JobId>,
    /// Why it is not possible where its nodes are free: the resource pool of which too little is.
    pub lacks: Option<PoolShortage>,
    /// It would delay the first waiting job: its availability is 0.
    pub before_head: bool,
    /// Availability by what-if in millionths (eq. 4).
    pub availability_ppm: u32,
    /// Availability by load (eq. 1).
    pub by_load: bool,
    /// Price by the tariff: p·n·d (pricing paper, section 3).
    pub base: Su,
    /// f (pricing paper, figure 2).
    pub extra: Su,
    /// Whom it delays.
    pub delays: Delays,
}

impl Estimate {
    /// p·n·d + f.
    pub fn price(&self) -> Su {
        self.base.plus(self.extra)
    }
}

/// Whom a slot delays.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Delays {
    /// How many jobs.
    pub jobs: u32,
    /// By how much, all together.
    pub total: Span,
    /// The job that would then be pushed back the most by reservations in all, and by how
    /// much.
    pub worst: Option<(JobId, Span)>,
    /// Those that are to be listed, by id.
    pub listed: Vec<(JobId, Span)>,
}

/// The pricing paper's choice (section 4): the place of the least
/// `alpha (f - fmin)/(fmax - fmin) + (1 - alpha) (s - smin)/(smax - smin)`, of equals the
/// earliest start. `None` of nothing.
pub fn choose(slots: &[(Time, Su)], alpha_permille: u32) -> Option<usize> {
    let starts = slots.iter().map(|(start, _)| i128::from(start.0));
    let prices = slots.iter().map(|(_, price)| i128::from(price.0));
    let (s_min, s_max) = (starts.clone().min()?, starts.max()?);
    let (f_min, f_max) = (prices.clone().min()?, prices.max()?);
    let alpha = i128::from(alpha_permille.min(1000));
    // Common denominator: no fractions are needed to compare.
    let (s_range, f_range) = ((s_max - s_min).max(1), (f_max - f_min).max(1));
    let cost = |(start, price): &(Time, Su)| {
        let f = (i128::from(price.0) - f_min).saturating_mul(s_range);
        let s = (i128::from(start.0) - s_min).saturating_mul(f_range);
        let whole = alpha
            .saturating_mul(f)
            .saturating_add((1000 - alpha).saturating_mul(s));
        (whole, *start)
    };
    let best = slots.iter().enumerate().min_by_key(|(_, slot)| cost(slot));
    best.map(|(at, _)| at)
}
