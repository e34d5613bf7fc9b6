//! What a job costs per time: billing units by weights of what it holds.
//!
//! Source: `slurm.conf(5)`, `TRESBillingWeights`, `PriorityFlags` (`MAX_TRES`, `MAX_TRES_GRES`).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A weight in millionths of a billing unit.
pub type Weight = u64;

/// Parts of a billing unit that a rate counts: thousandths.
pub const PER_UNIT: u64 = 1000;

/// How the weighted amounts become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Combine {
    /// They are summed.
    #[default]
    Sum,
    /// The largest of those on a node (cores, memory, nodes, devices), and the sum of the rest.
    MaxTres,
    /// The largest of cores, memory and nodes, the sum of devices, and the sum of the rest.
    MaxTresGres,
}

/// Weights of a queue. Without any a job costs its cores.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BillingWeights {
    /// Of a core.
    #[serde(default)]
    pub core: Weight,
    /// Of 1,024 MiB of memory.
    #[serde(default)]
    pub memory_gib: Weight,
    /// Of a node.
    #[serde(default)]
    pub node: Weight,
    /// Of one device or other countable resource of a node, by name (`gpu`, `gpu:a100`).
    #[serde(default)]
    pub devices: BTreeMap<String, Weight>,
    /// Of what is not on nodes (licences), by name.
    #[serde(default)]
    pub others: BTreeMap<String, Weight>,
}

/// What a job holds, all nodes together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// Number of cores.
    pub cores: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Number of devices by name; typed ones stand there twice, as `gpu` and as `gpu:a100`.
    pub devices: BTreeMap<String, u64>,
    /// Amounts of what is not on nodes.
    pub others: BTreeMap<String, u64>,
}

impl BillingWeights {
    /// Whether no weight is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Thousandths of billing units, rounded down. At most 2⁴⁰, so that sums of a cluster stay exact.
    pub fn rate(&self, combine: Combine, held: &Held) -> u64 {
        const MOST: u128 = 1 << 40;
        if self.is_empty() {
            return held.cores.saturating_mul(PER_UNIT).min(MOST as u64);
        }
        let cost = |weight: Weight, amount: u64| u128::from(weight).saturating_mul(amount.into());
        let sum = |weights: &BTreeMap<String, Weight>, amounts: &BTreeMap<String, u64>| {
            let all = weights.iter().map(|(name, weight)| {
                cost(*weight, amounts.get(name).copied().unwrap_or_default())
            });
            all.fold(0, u128::saturating_add)
        };
        let cores = cost(self.core, held.cores);
        let memory = cost(self.memory_gib, held.memory_mib) / 1024;
        let nodes = cost(self.node, held.nodes);
        let (devices, others) =
            (sum(&self.devices, &held.devices), sum(&self.others, &held.others));
        let on_nodes = match combine {
            Combine::Sum => cores
                .saturating_add(memory)
                .saturating_add(nodes)
                .saturating_add(devices),
            Combine::MaxTres => {
                let each = self.devices.iter().map(|(name, weight)| {
                    cost(*weight, held.devices.get(name).copied().unwrap_or_default())
                });
                each.fold(cores.max(memory).max(nodes), u128::max)
            }
            Combine::MaxTresGres => cores.max(memory).max(nodes).saturating_add(devices),
        };
        let thousandths = on_nodes.saturating_add(others) / 1000;
        u64::try_from(thousandths.min(MOST)).unwrap_or(0)
    }
}

/// A rate with the usage factor of a QOS, in millionths; rounded down.
pub fn with_factor(rate: u64, factor_millionths: u64) -> u64 {
    let product = u128::from(rate) * u128::from(factor_millionths) / 1_000_000;
    u64::try_from(product.min(1 << 40)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> Held {
        Held {
            cores: 16,
            memory_mib: 65_536,
            nodes: 2,
            devices: [("gpu".to_owned(), 4), ("gpu:a100".to_owned(), 4)].into(),
            others: [("matlab".to_owned(), 3)].into(),
        }
    }

    #[test]
    fn rates() {
        let mut weights = BillingWeights::default();
        let check = |weights: &BillingWeights, combine, want| {
            assert_eq!(weights.rate(combine, &held()), want, "{combine:?}");
        };
        check(&weights, Combine::Sum, 16_000);
        weights.memory_gib = 250_000; // Mem=0.25G: 64 GiB are 16 units; cores are free now
        check(&weights, Combine::Sum, 16_000);
        weights.core = 2_000_000; // 32 units
        check(&weights, Combine::Sum, 48_000);
        check(&weights, Combine::MaxTres, 32_000);
        weights.devices = [("gpu".to_owned(), 10_000_000)].into(); // 40 units
        weights.devices.insert("gpu:a100".to_owned(), 1_000_000); // 4 units
        weights.others = [("matlab".to_owned(), 1_500_000)].into(); // 4.5 units
        check(&weights, Combine::Sum, 96_500);
        check(&weights, Combine::MaxTres, 44_500);
        check(&weights, Combine::MaxTresGres, 80_500);
        weights.node = 100_000_000;
        check(&weights, Combine::MaxTresGres, 248_500);
        weights.core = u64::MAX;
        check(&weights, Combine::Sum, 1 << 40);
    }

    #[test]
    fn factors() {
        assert_eq!(with_factor(3000, 500_000), 1500);
        assert_eq!(with_factor(3000, 0), 0);
        assert_eq!(with_factor(u64::MAX, u64::MAX), 1 << 40);
    }
}
