//! `[priority]` of `cosy.toml`, and what queues say of the order of their jobs.

use super::queues::Queue;
use super::values::{Raw, count, length, scaled, set, shown, some_time, switchable};
use cosy_config::Check;
use cosy_control::{PriorityConfig, QueuePriority};
use cosy_model::{QueueOrder, Span};
use cosy_policy::billing::{BillingWeights, Combine, Weight};
use cosy_policy::fair_tree::Ties;
use cosy_policy::reset::ResetPeriod;
use cosy_policy::usage::LONGEST_HALF_LIFE;
use cosy_policy::weights::{SHORTEST_MAX_AGE, SizeFactor, Weights};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    #[serde(default)]
    weights: WeightsTable,
    max_age: Option<Raw>,
    size_factor: Option<Spanned<String>>,
    half_life: Option<Raw>,
    usage_reset: Option<Spanned<String>>,
    billing: Option<Spanned<String>>,
    #[serde(default)]
    committed: bool,
    tied_accounts: Option<Spanned<String>>,
    classic_damping: Option<Raw>,
    period: Option<Raw>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct WeightsTable {
    age: Option<Raw>,
    fair_share: Option<Raw>,
    size: Option<Raw>,
    queue: Option<Raw>,
}

/// `[queue.billing]`: what is billed for what a job holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Billing {
    core: Option<Raw>,
    memory_gib: Option<Raw>,
    node: Option<Raw>,
    #[serde(default)]
    devices: BTreeMap<String, Raw>,
}

const ORDERS: [(QueueOrder, &str); 3] = [
    (QueueOrder::Fcfs, QueueOrder::Fcfs.word()),
    (QueueOrder::FairShare, QueueOrder::FairShare.word()),
    (QueueOrder::Weights, QueueOrder::Weights.word()),
];

const SIZES: [(SizeFactor, &str); 4] = [
    (SizeFactor::Large, "large"),
    (SizeFactor::Small, "small"),
    (SizeFactor::LargeByTime, "large-by-time"),
    (SizeFactor::SmallByTime, "small-by-time"),
];

const COMBINATIONS: [(Combine, &str); 3] = [
    (Combine::Sum, "sum"),
    (Combine::MaxTres, "max"),
    (Combine::MaxTresGres, "max-and-devices"),
];

const TIES: [(Ties, &str); 2] = [(Ties::Merged, "merged"), (Ties::OneByOne, "one-by-one")];

/// What a word stands for; the first of all without one, and after telling what words there are.
fn word<T: Copy + Default>(
    check: &mut Check<'_>,
    text: Option<&Spanned<String>>,
    what: &str,
    all: &[(T, &str)],
) -> T {
    let Some(text) = text else {
        return T::default();
    };
    let found = all
        .iter()
        .find(|(_, word)| *word == text.get_ref().as_str());
    if found.is_none() {
        let words: Vec<&str> = all.iter().map(|(_, word)| *word).collect();
        let what = format!("'{}' is no {what}: use one of {}", text.get_ref(), words.join(", "));
        check.fault(text.span().start, what);
    }
    found.map_or(T::default(), |(value, _)| *value)
}

/// `order` of a queue.
pub(super) fn order(check: &mut Check<'_>, text: Option<&Spanned<String>>) -> QueueOrder {
    word(check, text, "order of a queue", &ORDERS)
}

pub(super) fn read(check: &mut Check<'_>, table: &Table, queues: &[Queue]) -> PriorityConfig {
    let mut config = PriorityConfig {
        weights: weights(check, &table.weights),
        size: word(check, table.size_factor.as_ref(), "factor of size", &SIZES),
        reset: word(check, table.usage_reset.as_ref(), "time of a reset", &ResetPeriod::WORDS),
        combine: word(check, table.billing.as_ref(), "way to bill", &COMBINATIONS),
        committed: table.committed,
        ties: word(check, table.tied_accounts.as_ref(), "way with tied accounts", &TIES),
        ..PriorityConfig::default()
    };
    set(check, table.max_age.as_ref(), &mut config.max_age, some_time);
    if let Some(at) = table
        .max_age
        .as_ref()
        .filter(|_| config.max_age < SHORTEST_MAX_AGE)
    {
        check.fault(at.span().start, "max_age must be at least 1h");
    }
    if let Some(half_life) = switchable(check, table.half_life.as_ref(), some_time) {
        config.half_life = half_life.unwrap_or(Span::ZERO);
    }
    let long = |at: &&Raw| config.half_life > LONGEST_HALF_LIFE && !at.get_ref().is_bool();
    if let Some(at) = table.half_life.as_ref().filter(long) {
        let what = "half_life must be at most 3660 days; \"off\" lets use never fade";
        check.fault(at.span().start, what);
    }
    if let Some(at) = &table.classic_damping {
        config.classic = count(check, at).and_then(|n| u16::try_from(n).ok());
        if config.classic.is_none_or(|damping| damping == 0) {
            check.fault(at.span().start, "classic_damping must be between 1 and 65535");
        }
    }
    set(check, table.period.as_ref(), &mut config.period, length);
    if let Some(at) = table
        .period
        .as_ref()
        .filter(|_| config.period < Span::from_secs(1))
    {
        check.fault(at.span().start, "period must be at least 1s");
    }
    for queue in queues {
        let (billing, factor) = (&queue.billing, &queue.priority_factor);
        if billing.is_some() || factor.is_some() {
            let own = QueuePriority {
                billing: billing
                    .as_ref()
                    .map(|table| weighed(check, table))
                    .unwrap_or_default(),
                factor: factor
                    .as_ref()
                    .map(|raw| job_factor(check, raw))
                    .unwrap_or_default(),
            };
            config.queues.insert(queue.name.get_ref().clone(), own);
        }
    }
    config
}

fn weights(check: &mut Check<'_>, table: &WeightsTable) -> Weights {
    let mut weights = Weights::default();
    set(check, table.age.as_ref(), &mut weights.age, count);
    set(check, table.fair_share.as_ref(), &mut weights.fair_share, count);
    set(check, table.size.as_ref(), &mut weights.size, count);
    set(check, table.queue.as_ref(), &mut weights.queue, count);
    weights
}

fn job_factor(check: &mut Check<'_>, raw: &Raw) -> u16 {
    let factor = count(check, raw).map(u16::try_from);
    if matches!(factor, Some(Err(_))) {
        check.fault(raw.span().start, "priority_factor must be between 0 and 65535");
    }
    factor.and_then(Result::ok).unwrap_or_default()
}

fn weighed(check: &mut Check<'_>, table: &Billing) -> BillingWeights {
    let mut one = |raw: Option<&Raw>| raw.map_or(0, |raw| billing_weight(check, raw));
    BillingWeights {
        core: one(table.core.as_ref()),
        memory_gib: one(table.memory_gib.as_ref()),
        node: one(table.node.as_ref()),
        devices: table
            .devices
            .iter()
            .map(|(name, raw)| (name.clone(), one(Some(raw))))
            .collect(),
        others: BTreeMap::new(),
    }
}

/// In millionths of a billing unit.
fn billing_weight(check: &mut Check<'_>, raw: &Raw) -> Weight {
    let millionths = scaled(raw.get_ref(), 1_000_000, u32::MAX);
    if millionths.is_none() {
        let what = format!(
            "{} is no billing weight: use a number from 0 to 4294, like 1 or 0.25, at most 6 decimals",
            shown(raw)
        );
        check.fault(raw.span().start, what);
    }
    Weight::from(millionths.unwrap_or_default())
}
