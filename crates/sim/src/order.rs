//! Who comes first within a queue: `order`, `[priority]` and `enforce`, with the words of the
//! controller's configuration.

use cosy_control::{PriorityConfig, QueuePriority};
use cosy_model::policy::Enforce;
use cosy_model::{QueueOrder, Span};
use cosy_policy::fair_tree::Ties;
use cosy_policy::usage::LONGEST_HALF_LIFE;
use cosy_policy::weights::{SHORTEST_MAX_AGE, SizeFactor, Weights};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A word that is none of those that there are.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{key} is '{value}': use {known}")]
pub struct WordError {
    /// The key in the file.
    key: &'static str,
    /// What stands there.
    value: String,
    /// What may stand there.
    known: String,
}

/// Shortest time after which use is looked at anew.
const SHORTEST_PERIOD: Span = Span::from_secs(1);

/// Who comes first, and what of the accounts binds jobs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Order {
    /// In queues of which nothing else is said.
    pub usual: QueueOrder,
    /// In single queues, by name.
    pub queues: BTreeMap<String, QueueOrder>,
    /// Factors, shares and use.
    pub priority: PriorityConfig,
    /// What of the accounts binds jobs.
    pub enforce: Enforce,
}

/// The table `[priority]` of a policy file.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    half_life: Option<String>,
    max_age: Option<String>,
    period: Option<String>,
    size_factor: Option<String>,
    tied_accounts: Option<String>,
    #[serde(default)]
    committed: bool,
    #[serde(default)]
    weights: Weights,
}

impl Order {
    /// What the table says, without queues.
    pub(crate) fn read(table: &Table) -> Result<Self, WordError> {
        let standard = PriorityConfig::default();
        let half_life = match table.half_life.as_deref() {
            Some("off") => Span::ZERO,
            text => span("half_life", text, standard.half_life, Span(1))?.min(LONGEST_HALF_LIFE),
        };
        let sizes = [
            (SizeFactor::Large, "large"),
            (SizeFactor::Small, "small"),
            (SizeFactor::LargeByTime, "large-by-time"),
            (SizeFactor::SmallByTime, "small-by-time"),
        ];
        let ties = [(Ties::Merged, "merged"), (Ties::OneByOne, "one-by-one")];
        let max_age = table.max_age.as_deref();
        let period = table.period.as_deref();
        Ok(Self {
            priority: PriorityConfig {
                weights: table.weights.clone(),
                half_life,
                max_age: span("max_age", max_age, standard.max_age, SHORTEST_MAX_AGE)?,
                period: span("period", period, standard.period, SHORTEST_PERIOD)?,
                size: word("size_factor", table.size_factor.as_deref(), &sizes)?,
                ties: word("tied_accounts", table.tied_accounts.as_deref(), &ties)?,
                committed: table.committed,
                ..standard
            },
            ..Self::default()
        })
    }

    /// What is said of a queue.
    pub(crate) fn queue(&mut self, name: &str, order: QueueOrder, factor: u16) {
        self.queues.insert(name.to_owned(), order);
        let own = QueuePriority {
            factor,
            ..QueuePriority::default()
        };
        self.priority.queues.insert(name.to_owned(), own);
    }

    /// The order of a queue.
    pub fn of(&self, queue: &str) -> QueueOrder {
        self.queues.get(queue).copied().unwrap_or(self.usual)
    }

    /// Whether nothing but the planner decides: no use, no accounts.
    pub fn is_plain(&self) -> bool {
        let mut all = self.queues.values().chain([&self.usual]);
        all.all(|order| *order == QueueOrder::Fcfs) && self.enforce == Enforce::default()
    }
}

pub(crate) fn order_of(text: Option<&str>) -> Result<QueueOrder, WordError> {
    let all = [QueueOrder::Fcfs, QueueOrder::FairShare, QueueOrder::Weights];
    word("order", text, &all.map(|order| (order, order.word())))
}

pub(crate) fn enforce(words: &[String]) -> Result<Enforce, WordError> {
    let mut all = Enforce::default();
    for text in words {
        match text.as_str() {
            "associations" => {}
            "limits" => all.limits = true,
            "qos" => all.qos = true,
            "safe" => (all.limits, all.safe) = (true, true),
            _ => return Err(unknown("enforce", text, "associations, limits, qos, safe")),
        }
        all.associations = true;
    }
    Ok(all)
}

fn word<T: Copy + Default>(
    key: &'static str,
    text: Option<&str>,
    all: &[(T, &str)],
) -> Result<T, WordError> {
    let Some(text) = text else {
        return Ok(T::default());
    };
    let found = all.iter().find(|(_, word)| *word == text);
    found.map(|(value, _)| *value).ok_or_else(|| {
        let words: Vec<&str> = all.iter().map(|(_, word)| *word).collect();
        unknown(key, text, &words.join(", "))
    })
}

fn unknown(key: &'static str, text: &str, known: &str) -> WordError {
    WordError {
        key,
        value: text.chars().take(60).collect(),
        known: known.to_owned(),
    }
}

fn span(
    key: &'static str,
    text: Option<&str>,
    usual: Span,
    least: Span,
) -> Result<Span, WordError> {
    let Some(text) = text else {
        return Ok(usual);
    };
    let read = text.parse::<Span>().ok();
    let read = read.filter(|span| !span.is_unlimited() && *span >= least);
    read.ok_or_else(|| unknown(key, text, &format!("a time like 12h or 7d, at least {least}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PolicyFile;

    #[test]
    fn files() {
        let text = "[policy]\norder = \"fair-share\"\nenforce = [\"safe\"]\n\
            [priority]\nhalf_life = \"off\"\nmax_age = \"1d\"\n\
            [priority.weights]\nage = 3\nqos = 7\n\
            [queues.fast]\norder = \"weights\"\npriority_factor = 9\n[queues.slow]\npriority = 2\n";
        let order = PolicyFile::parse(text).unwrap().order;
        assert_eq!(order.of("fast"), QueueOrder::Weights);
        assert_eq!(order.of("slow"), QueueOrder::FairShare);
        assert_eq!(order.of("other"), QueueOrder::FairShare);
        let priority = &order.priority;
        assert_eq!((priority.half_life, priority.max_age), (Span::ZERO, Span::from_secs(86_400)));
        assert_eq!((priority.weights.age, priority.weights.qos), (3, 7));
        assert_eq!(priority.queues["fast"].factor, 9);
        let enforce = order.enforce;
        assert!(enforce.associations && enforce.limits && enforce.safe && !enforce.qos);
        assert!(!order.is_plain());
        assert!(
            PolicyFile::parse("[queues.a]\npriority = 1")
                .unwrap()
                .order
                .is_plain()
        );
        assert!(!PolicyFile::of_word("fair-share").unwrap().order.is_plain());
        let check = |text: &str, want: &str| {
            let error = PolicyFile::parse(text).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        check("[policy]\norder = \"sjf\"", "order is 'sjf': use fcfs, fair-share, weights");
        check("[policy]\nenforce = [\"all\"]", "enforce is 'all': use associations");
        check("[priority]\nhalf_life = \"soon\"", "half_life is 'soon': use a time like");
        check("[priority]\nmax_age = \"1m\"", "at least 01:00:00");
        check("[priority]\nsite = 1", "unknown field `site`");
        check("[priority.weights]\nage = -1", "line 2");
    }
}
