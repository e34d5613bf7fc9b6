//! `[priority]` of `cosy.toml`, and what queues say of the order of their jobs.

use super::values::{Raw, count, length, scaled, set, shown, some_time, switchable};
use cosy_config::Check;
use cosy_control::{PriorityConfig, QueuePriority};
use cosy_model::policy::Tres;
use cosy_model::{QueueOrder, Span};
use cosy_policy::billing::{BillingWeights, Combine, Weight};
use cosy_policy::fair_tree::Ties;
use cosy_policy::reset::ResetPeriod;
use cosy_policy::usage::LONGEST_HALF_LIFE;
use cosy_policy::weights::{SHORTEST_MAX_AGE, SizeFactor, Weights};
use jiff::tz::TimeZone;
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
    time_zone: Option<Spanned<String>>,
    billing: Option<Spanned<String>>,
    #[serde(default)]
    committed: bool,
    tied_accounts: Option<Spanned<String>>,
    classic_damping: Option<Raw>,
    period: Option<Raw>,
    #[serde(default)]
    keep_usage: bool,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct WeightsTable {
    age: Option<Raw>,
    fair_share: Option<Raw>,
    size: Option<Raw>,
    queue: Option<Raw>,
    qos: Option<Raw>,
    association: Option<Raw>,
    #[serde(default)]
    tres: BTreeMap<Spanned<String>, Raw>,
}

/// What a queue says of its billing and of its factor, with its name.
pub(super) type OfQueue<'a> = (&'a str, Option<&'a Billing>, Option<&'a Raw>);

/// `[queue.billing]`: what is billed for what a job holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Billing {
    core: Option<Raw>,
    memory_gib: Option<Raw>,
    node: Option<Raw>,
    #[serde(default)]
    devices: BTreeMap<String, Raw>,
    #[serde(default)]
    licenses: BTreeMap<String, Raw>,
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

/// Where a day begins at which use is forgotten: the zone that is named, or else this machine's.
fn zone(check: &mut Check<'_>, name: Option<&Spanned<String>>) -> TimeZone {
    let Some(name) = name else {
        return TimeZone::system();
    };
    TimeZone::get(name.get_ref()).unwrap_or_else(|_| {
        let what = format!(
            "there is no time zone '{}' on this machine: use a name like Europe/Berlin or UTC",
            name.get_ref()
        );
        check.fault(name.span().start, what);
        TimeZone::UTC
    })
}

pub(super) fn read<'a>(
    check: &mut Check<'_>,
    table: &Table,
    queues: impl Iterator<Item = OfQueue<'a>>,
) -> PriorityConfig {
    let mut config = PriorityConfig {
        weights: weights(check, &table.weights),
        tres_weights: tres_weights(check, &table.weights.tres),
        size: word(check, table.size_factor.as_ref(), "factor of size", &SIZES),
        reset: word(check, table.usage_reset.as_ref(), "time of a reset", &ResetPeriod::WORDS),
        zone: zone(check, table.time_zone.as_ref()),
        combine: word(check, table.billing.as_ref(), "way to bill", &COMBINATIONS),
        committed: table.committed,
        keep_usage: table.keep_usage,
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
    for (name, billing, factor) in queues {
        if billing.is_some() || factor.is_some() {
            let own = QueuePriority {
                billing: billing
                    .map(|table| weighed(check, table))
                    .unwrap_or_default(),
                factor: factor.map(|raw| job_factor(check, raw)).unwrap_or_default(),
            };
            config.queues.insert(name.to_owned(), own);
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
    set(check, table.qos.as_ref(), &mut weights.qos, count);
    set(check, table.association.as_ref(), &mut weights.association, count);
    weights
}

/// Weights of what is asked for, by name of the resource.
fn tres_weights(
    check: &mut Check<'_>,
    table: &BTreeMap<Spanned<String>, Raw>,
) -> BTreeMap<Tres, u32> {
    let mut all = BTreeMap::new();
    for (name, raw) in table {
        let weight = count(check, raw);
        match name.get_ref().parse::<Tres>() {
            Ok(Tres::Billing) => {
                let what =
                    "billing is no resource that can be asked for: give a weight to what is billed";
                check.fault(name.span().start, what);
            }
            Ok(tres) => drop(all.insert(tres, weight.unwrap_or(0))),
            Err(why) => check.fault(name.span().start, why),
        }
    }
    all
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
    let named = |all: &BTreeMap<String, Raw>, one: &mut dyn FnMut(Option<&Raw>) -> Weight| {
        let all = all.iter();
        all.map(|(name, raw)| (name.clone(), one(Some(raw))))
            .collect()
    };
    BillingWeights {
        core: one(table.core.as_ref()),
        memory_gib: one(table.memory_gib.as_ref()),
        node: one(table.node.as_ref()),
        devices: named(&table.devices, &mut one),
        others: named(&table.licenses, &mut one),
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

#[cfg(test)]
mod tests {
    use super::super::fixture::{self, DAY};
    use super::*;

    fn read(more: &str) -> Result<(QueueOrder, PriorityConfig), String> {
        let config = fixture::read(&format!("{DAY}{more}"))?;
        let order = config.queues.first().map(|queue| queue.order);
        Ok((order.unwrap_or_default(), config.priority))
    }

    #[test]
    fn without_a_word_it_is_first_come_first_served() {
        let want = PriorityConfig {
            zone: TimeZone::system(),
            ..PriorityConfig::default()
        };
        assert_eq!(read(""), Ok((QueueOrder::Fcfs, want)));
    }

    #[test]
    fn all_is_read() {
        let text = r#"
order = "weights"
priority_factor = 10
[queue.billing]
core = 1
memory_gib = 0.25
devices = { gpu = 8 }
licenses = { matlab = 2 }
[priority]
half_life = "off"
usage_reset = "weekly"
time_zone = "UTC"
billing = "max"
committed = true
tied_accounts = "one-by-one"
period = "1m"
max_age = "2d"
size_factor = "small"
classic_damping = 3
keep_usage = true
[priority.weights]
age = 1000
fair_share = 20000
qos = 300
association = 40
tres = { cpu = 5, "gres/gpu" = 6 }
"#;
        let (order, priority) = read(text).unwrap();
        let billing = BillingWeights {
            core: 1_000_000,
            memory_gib: 250_000,
            devices: [("gpu".to_owned(), 8_000_000)].into(),
            others: [("matlab".to_owned(), 2_000_000)].into(),
            ..BillingWeights::default()
        };
        let queue = QueuePriority {
            billing,
            factor: 10,
        };
        let want = PriorityConfig {
            weights: Weights {
                age: 1000,
                fair_share: 20_000,
                qos: 300,
                association: 40,
                ..Weights::default()
            },
            max_age: Span::from_secs(2 * 86_400),
            tres_weights: [(Tres::Cpu, 5), (Tres::gpus(), 6)].into(),
            size: SizeFactor::Small,
            half_life: Span::ZERO,
            reset: ResetPeriod::Weekly,
            zone: TimeZone::UTC,
            combine: Combine::MaxTres,
            committed: true,
            ties: Ties::OneByOne,
            classic: Some(3),
            period: Span::from_secs(60),
            keep_usage: true,
            queues: [("day".to_owned(), queue)].into(),
        };
        assert_eq!((order, priority), (QueueOrder::Weights, want));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let check = |more: &str, want: &str| {
            let told = read(more).unwrap_err();
            assert!(told.contains(want), "{more}: {told}");
        };
        check("order = \"fifo\"", "use one of fcfs, fair-share, weights");
        check("priority_factor = 70000", "between 0 and 65535");
        check("[queue.billing]\ncore = -1", "no billing weight");
        check("[priority]\nhalf_life = \"9999d\"", "at most 3660 days");
        check("[priority]\nmax_age = \"5m\"", "at least 1h");
        check("[priority]\nperiod = \"0\"", "at least 1s");
        check("[priority]\nusage_reset = \"hourly\"", "use one of none, now, daily");
        check("[priority]\ntime_zone = \"Mars/Base\"", "no time zone 'Mars/Base'");
        check("[priority]\nclassic_damping = 0", "between 1 and 65535");
        check("[priority]\nwages = 1", "wages");
        check("[priority.weights.tres]\ngpus = 1", "no resource that can be limited");
        check("[priority.weights.tres]\nbilling = 1", "what is billed");
    }
}
