//! How queues that do not serve first come, first served order their jobs.

use cosy_model::Span;
use cosy_model::policy::Tres;
use cosy_policy::billing::{BillingWeights, Combine};
use cosy_policy::fair_tree::Ties;
use cosy_policy::reset::ResetPeriod;
use cosy_policy::weights::{SizeFactor, Weights};
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

/// Settings of fair share and of weighted factors. Source of the words: `slurm.conf(5)`, `Priority*`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PriorityConfig {
    /// What each factor is multiplied with.
    pub weights: Weights,
    /// What is asked for of each of these, as a part of what the queue's nodes have, is multiplied with.
    /// Source: `slurm.conf(5)`, `PriorityWeightTRES`.
    pub tres_weights: BTreeMap<Tres, u32>,
    /// At this age the factor of age is one.
    pub max_age: Span,
    /// How large a job counts.
    pub size: SizeFactor,
    /// After this time use counts half; zero when it never fades.
    pub half_life: Span,
    /// When use is forgotten as a whole.
    pub reset: ResetPeriod,
    /// Where a day begins at which use is forgotten.
    pub zone: TimeZone,
    /// How the weighted amounts of a job become one.
    pub combine: Combine,
    /// What running jobs may still use counts as used.
    pub committed: bool,
    /// What becomes of accounts with the same level fair share.
    pub ties: Ties,
    /// The classic formula with this damping in place of Fair Tree, for weighted factors.
    pub classic: Option<u16>,
    /// How often the use of running jobs, and jobs that age no more, are looked at.
    pub period: Span,
    /// What was used is kept although no queue orders by it and no limits are enforced.
    pub keep_usage: bool,
    /// What is said of single queues, by name.
    pub queues: BTreeMap<String, QueuePriority>,
}

/// What is said of a single queue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QueuePriority {
    /// What is billed for what a job holds.
    pub billing: BillingWeights,
    /// Its factor; the largest of all queues counts one. Source: `slurm.conf(5)`, `PriorityJobFactor`.
    pub factor: u16,
}

impl Default for PriorityConfig {
    fn default() -> Self {
        Self {
            weights: Weights::default(),
            tres_weights: BTreeMap::new(),
            max_age: Span::from_secs(7 * 86_400),
            size: SizeFactor::default(),
            half_life: Span::from_secs(7 * 86_400),
            reset: ResetPeriod::None,
            zone: TimeZone::UTC,
            combine: Combine::Sum,
            committed: false,
            ties: Ties::Merged,
            classic: None,
            period: Span::from_secs(300),
            keep_usage: false,
            queues: BTreeMap::new(),
        }
    }
}
