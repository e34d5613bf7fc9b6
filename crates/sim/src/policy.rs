//! Policies as they are written on a command line and in a file.
//!
//! A file has the words of the controller's configuration, as far as a replay can follow
//! them: `[policy]` with `backfill`, `backfill_depth`, `order` and `enforce`, `[priority]`, and what is
//! said of each queue.

use crate::order::{self, Order, WordError};
use cosy_model::QueueOrder;
use cosy_sched::{Depth, Policy};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Most guaranteed places that can be asked for by number; the controller's limit too.
pub const MAX_DEPTH: u32 = 1_000_000;

/// Why a text is no policy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PolicyError {
    /// On a command line.
    #[error(
        "'{0}' is no policy: use fcfs, easy, conservative or depth=N with N from 0 to {MAX_DEPTH}"
    )]
    Name(String),
    /// `backfill_depth` of a file is no number of places.
    #[error("backfill_depth is {0}: it must be a number from 0 to {MAX_DEPTH}, or \"all\"")]
    Depth(String),
    /// A word of a file that is none of those that there are.
    #[error(transparent)]
    Word(#[from] WordError),
    /// In a file: no TOML, or a key that there is not. It tells line and column.
    #[error("{0}")]
    File(String),
    /// A queue of a file that no job of the workload names.
    #[error("queue '{queue}' is not in the workload; it has {known}")]
    Queue {
        /// Name of that queue, as the policy file spells it.
        queue: String,
        /// Names of the workload's queues, with commas.
        known: String,
    },
}

/// Reads `fcfs`, `easy`, `conservative` or `depth=N`.
///
/// # Errors
/// [`PolicyError::Name`] when it is none of these.
pub fn parse(text: &str) -> Result<Policy, PolicyError> {
    let bad = || PolicyError::Name(text.chars().take(60).collect());
    match text {
        "fcfs" => Ok(Policy::FCFS),
        "easy" => Ok(Policy::EASY),
        "conservative" => Ok(Policy::CONSERVATIVE),
        _ => {
            let number = text.strip_prefix("depth=").ok_or_else(bad)?;
            let digits = number.bytes().all(|byte| byte.is_ascii_digit());
            let depth = number.parse().ok().filter(|_| digits).and_then(count);
            Ok(Policy {
                depth: depth.ok_or_else(bad)?,
                backfill: true,
            })
        }
    }
}

/// The word that [`parse`] reads as `policy`. Depths without backfill but 0 have none: they
/// are plain first come, first served.
pub fn name(policy: Policy) -> String {
    match (policy.backfill, policy.depth) {
        (false, _) => "fcfs".to_owned(),
        (true, Depth::All) => "conservative".to_owned(),
        (true, Depth::Count(1)) => "easy".to_owned(),
        (true, Depth::Count(depth)) => format!("depth={depth}"),
    }
}

/// A number of guaranteed places, if it is not absurd.
fn count(depth: u32) -> Option<Depth> {
    (depth <= MAX_DEPTH).then_some(Depth::Count(depth))
}

/// A policy with what it says of queues.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PolicyFile {
    /// How waiting jobs are served.
    pub policy: Policy,
    /// By name of the queue: the higher is served first. Queues that are not named have 0.
    pub priorities: BTreeMap<String, i32>,
    /// Who comes first within a queue, and what of the accounts binds jobs.
    pub order: Order,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    policy: PolicyTable,
    #[serde(default)]
    priority: order::Table,
    #[serde(default)]
    queues: BTreeMap<String, QueueTable>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct PolicyTable {
    backfill: Option<bool>,
    backfill_depth: Option<toml::Value>,
    order: Option<String>,
    #[serde(default)]
    enforce: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueTable {
    #[serde(default)]
    priority: i32,
    order: Option<String>,
    #[serde(default)]
    priority_factor: u16,
}

impl PolicyFile {
    /// Reads a file's text.
    ///
    /// # Errors
    /// [`PolicyError::File`] or [`PolicyError::Depth`].
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let file: File = toml::from_str(text)
            .map_err(|error| PolicyError::File(error.to_string().trim_end().to_owned()))?;
        let mut order = Order::read(&file.priority)?;
        order.usual = order::order_of(file.policy.order.as_deref())?;
        order.enforce = order::enforce(&file.policy.enforce)?;
        for (name, queue) in &file.queues {
            let own = match &queue.order {
                Some(own) => order::order_of(Some(own))?,
                None => order.usual,
            };
            order.queue(name, own, queue.priority_factor);
        }
        let queues = file.queues.into_iter();
        Ok(Self {
            order,
            policy: Policy {
                depth: depth(file.policy.backfill_depth)?,
                backfill: file.policy.backfill.unwrap_or(true),
            },
            priorities: queues.map(|(name, queue)| (name, queue.priority)).collect(),
        })
    }

    /// First come, first served by the planner alone; `fair-share` by the word of that name.
    pub fn of_word(text: &str) -> Result<Self, PolicyError> {
        let mut file = Self::default();
        match text {
            "fair-share" => file.order.usual = QueueOrder::FairShare,
            _ => file.policy = parse(text)?,
        }
        Ok(file)
    }

    /// The priority of each of `queues`, by their index.
    ///
    /// # Errors
    /// [`PolicyError::Queue`] when the file names one that is not among them.
    pub fn priorities_of(&self, queues: &[String]) -> Result<Vec<i32>, PolicyError> {
        if let Some(queue) = self.priorities.keys().find(|name| !queues.contains(name)) {
            let known: Vec<&str> = queues.iter().map(String::as_str).collect();
            return Err(PolicyError::Queue {
                queue: queue.clone(),
                known: known.join(", "),
            });
        }
        let priority = |name| self.priorities.get(name).copied().unwrap_or(0);
        Ok(queues.iter().map(priority).collect())
    }
}

fn depth(value: Option<toml::Value>) -> Result<Depth, PolicyError> {
    let depth = match &value {
        None => Some(Depth::Count(1)),
        Some(toml::Value::String(text)) if text == "all" => Some(Depth::All),
        Some(toml::Value::Integer(number)) => u32::try_from(*number).ok().and_then(count),
        Some(_) => None,
    };
    depth.ok_or_else(|| {
        let shown = value.map_or_else(String::new, |value| value.to_string());
        PolicyError::Depth(shown.chars().take(60).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_told() {
        let check = |text: &str, want: Option<Policy>| {
            let got = parse(text).ok();
            assert_eq!(got, want, "{text}");
            if let Some(policy) = got {
                assert_eq!(parse(&name(policy)), Ok(policy));
            }
        };
        let depth = |count| Policy {
            depth: Depth::Count(count),
            backfill: true,
        };
        check("fcfs", Some(Policy::FCFS));
        check("easy", Some(Policy::EASY));
        check("conservative", Some(Policy::CONSERVATIVE));
        check("depth=1", Some(Policy::EASY));
        check("depth=0", Some(depth(0)));
        check("depth=1000000", Some(depth(MAX_DEPTH)));
        for bad in [
            "",
            "EASY",
            "depth",
            "depth=",
            "depth=-1",
            "depth=+1",
            "depth=1000001",
            "depth=4294967296",
            "depth=1.5",
            "depth=all",
            "sjf",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn files() {
        let check = |text: &str, want: Result<&str, &str>| {
            let got = PolicyFile::parse(text);
            match (got, want) {
                (Ok(file), Ok(want)) => {
                    let queues = file.priorities.iter();
                    let queues = queues.map(|(queue, priority)| format!(" {queue}:{priority}"));
                    let told = name(file.policy) + &queues.collect::<String>();
                    assert_eq!(told, want, "{text}");
                }
                (Err(error), Err(want)) => assert!(error.to_string().contains(want), "{error}"),
                (got, _) => panic!("{text}: {got:?}"),
            }
        };
        check("", Ok("easy"));
        check("[policy]\nbackfill = false", Ok("fcfs"));
        check("[policy]\nbackfill_depth = 4", Ok("depth=4"));
        check("[policy]\nbackfill_depth = \"all\"", Ok("conservative"));
        check("[queues.a]\npriority = 3\n[queues.\"b c\"]\npriority = -1", Ok("easy a:3 b c:-1"));
        check("[policy]\nbackfill_depth = -1", Err("backfill_depth is -1"));
        check("[policy]\nbackfill_depth = 1000001", Err("1000000, or"));
        check("[policy]\nbackfill_depth = 1.5", Err("backfill_depth is 1.5"));
        check("[policy]\n\ndepth = 1", Err("expected one of `backfill`, `backfill_depth`"));
        check("[policy]\n\ndepth = 1", Err("line 3"));
        check("[nodes]", Err("expected one of `policy`, `priority`, `queues`"));
        check("[queues.a]\nnice = 1", Err("expected one of `priority`"));
        check("[queues.a]\npriority = 99999999999", Err("line 2"));
        check("nonsense", Err("line 1"));
    }

    #[test]
    fn queues_must_be_those_of_the_workload() {
        let file = PolicyFile::parse("[queues.fast]\npriority = 9").unwrap();
        let queues = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let known: Vec<String> = queues(&["", "slow", "fast"]);
        assert_eq!(file.priorities_of(&known), Ok(vec![0, 0, 9]));
        let unknown: Vec<String> = queues(&["a", "b"]);
        let error = file.priorities_of(&unknown).unwrap_err();
        assert!(error.to_string().ends_with("it has a, b"), "{error}");
    }
}
