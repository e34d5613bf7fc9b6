//! Amounts of resources on a node, and the share of a node that a job holds.

use crate::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Memory or disk in binary megabytes (1,048,576 bytes).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MiB(pub u64);

/// Why a text is no size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no size: use a whole number with K, M, G or T (M without)")]
pub struct SizeError(pub String);

impl std::str::FromStr for MiB {
    type Err = SizeError;

    /// Reads `500`, `500M`, `2G`, `1T`, `2048K` (rounded up), also `MB`, `MiB`.
    fn from_str(text: &str) -> Result<Self, SizeError> {
        let bad = || SizeError(text.chars().take(60).collect());
        let upper = text.trim().to_ascii_uppercase();
        let body = upper.trim_end_matches("IB").trim_end_matches('B');
        let (digits, unit) = match body.char_indices().last() {
            Some((at, c)) if c.is_ascii_alphabetic() => (&body[..at], c),
            _ => (body, 'M'),
        };
        if digits.is_empty() || digits.len() > 15 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let n: u64 = digits.parse().map_err(|_| bad())?;
        let mib = match unit {
            'K' => Some(n.div_ceil(1024)),
            'M' => Some(n),
            'G' => n.checked_mul(1 << 10),
            'T' => n.checked_mul(1 << 20),
            _ => None,
        };
        mib.filter(|m| *m <= 1 << 43).map(Self).ok_or_else(bad)
    }
}

impl MiB {
    /// The same amount in bytes; saturates.
    pub const fn bytes(self) -> u64 {
        self.0.saturating_mul(1 << 20)
    }
}

/// `512M`, `4G`, `1.5G`.
impl fmt::Display for MiB {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            m if m >= 1024 && m.is_multiple_of(1024) => format!("{}G", m / 1024),
            m if m >= 10_240 => format!("{}.{}G", m / 1024, m % 1024 * 10 / 1024),
            m => format!("{m}M"),
        };
        f.pad(&text)
    }
}

/// Countable resources beyond the common ones, by name, sorted, without zero entries.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CountedResources(Vec<(Box<str>, u32)>);

impl CountedResources {
    /// How much of `name` there is.
    pub fn get(&self, name: &str) -> u32 {
        self.0
            .binary_search_by(|(n, _)| (**n).cmp(name))
            .map_or(0, |at| self.0[at].1)
    }

    /// Sets the amount of `name`; zero removes it.
    pub fn set(&mut self, name: &str, amount: u32) {
        match self.0.binary_search_by(|(n, _)| (**n).cmp(name)) {
            Ok(at) if amount == 0 => drop(self.0.remove(at)),
            Ok(at) => self.0[at].1 = amount,
            Err(_) if amount == 0 => {}
            Err(at) => self.0.insert(at, (name.into(), amount)),
        }
    }

    /// All names with their amounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(n, a)| (&**n, *a))
    }

    /// True without any resource.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How much of everything: what a node has, what is free, what a job takes of a node.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Amounts {
    /// Number of processor cores.
    pub cores: u32,
    /// Memory for jobs.
    pub memory: MiB,
    /// Local scratch disk.
    pub disk: MiB,
    /// Number of GPUs.
    pub gpus: u32,
    /// Anything else that can be counted.
    #[serde(default, skip_serializing_if = "CountedResources::is_empty")]
    pub other: CountedResources,
}

impl Amounts {
    /// True when this much fits into `free`.
    pub fn fits(&self, free: &Self) -> bool {
        self.cores <= free.cores
            && self.memory <= free.memory
            && self.disk <= free.disk
            && self.gpus <= free.gpus
            && self.other.iter().all(|(n, a)| a <= free.other.get(n))
    }

    /// Takes `used` away. The caller has checked that it fits; a shortage stops at zero.
    pub fn take(&mut self, used: &Self) {
        debug_assert!(used.fits(self), "takes {used:?} of {self:?}");
        self.cores = self.cores.saturating_sub(used.cores);
        self.memory.0 = self.memory.0.saturating_sub(used.memory.0);
        self.disk.0 = self.disk.0.saturating_sub(used.disk.0);
        self.gpus = self.gpus.saturating_sub(used.gpus);
        for (name, amount) in used.other.iter() {
            let left = self.other.get(name).saturating_sub(amount);
            self.other.set(name, left);
        }
    }

    /// Gives `used` back.
    pub fn give(&mut self, used: &Self) {
        self.cores = self.cores.saturating_add(used.cores);
        self.memory.0 = self.memory.0.saturating_add(used.memory.0);
        self.disk.0 = self.disk.0.saturating_add(used.disk.0);
        self.gpus = self.gpus.saturating_add(used.gpus);
        for (name, amount) in used.other.iter() {
            let sum = self.other.get(name).saturating_add(amount);
            self.other.set(name, sum);
        }
    }
}

/// The share of one node that an allocation holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeShare {
    /// The node that the share is on.
    pub node: NodeId,
    /// Tasks that the job may start there.
    pub tasks: u32,
    /// What it holds there. For a whole node: all the node has.
    pub amounts: Amounts,
    /// For which component of the job, from 0; see [`crate::job::Component`].
    #[serde(default, rename = "bundle", skip_serializing_if = "is_first")]
    pub component: u16,
}

/// True for the first component, which is the only one of most jobs.
pub fn is_first(component: &u16) -> bool {
    *component == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let check = |text: &str, mib: Option<u64>| {
            assert_eq!(text.parse::<MiB>().ok(), mib.map(MiB), "{text}");
        };
        check("500", Some(500));
        check("2G", Some(2048));
        check("2g", Some(2048));
        check("2GiB", Some(2048));
        check("1025K", Some(2));
        check("1T", Some(1 << 20));
        check("", None);
        check("G", None);
        check("-1", None);
        check("1.5G", None);
        check("99999999999999999G", None);
        check("999999999999999T", None);
    }

    #[test]
    fn counted() {
        let mut c = CountedResources::default();
        c.set("b", 2);
        c.set("a", 1);
        c.set("b", 0);
        assert_eq!(c.iter().collect::<Vec<_>>(), [("a", 1)]);
        assert_eq!(c.get("b"), 0);
    }
}
