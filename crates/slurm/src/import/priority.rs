//! What decides the order of jobs: `Priority...` of the cluster, factors and billing of partitions.
//! Sources: slurm.conf(5); Slurm's "Multifactor Priority Plugin".

use super::lines::Line;
use super::reader::Reader;
use super::records::Billing;
use crate::submit::times::limit;
use cosy_model::Span;
use cosy_model::policy::Tres;

/// Names of weights there and in `[priority.weights]`.
const WEIGHTS: &[(&str, &str)] = &[
    ("priorityweightage", "age"),
    ("priorityweightassoc", "association"),
    ("priorityweightfairshare", "fair_share"),
    ("priorityweightjobsize", "size"),
    ("priorityweightpartition", "queue"),
    ("priorityweightqos", "qos"),
];
/// Names of reset periods there and here.
const RESETS: &[&str] = &[
    "none",
    "now",
    "daily",
    "weekly",
    "monthly",
    "quarterly",
    "yearly",
];
/// Use fades no slower than this.
const LONGEST_HALF_LIFE: Span = Span::from_secs(3660 * 86_400);
/// Age counts at least for so long.
const SHORTEST_MAX_AGE: Span = Span::from_secs(3600);
/// Largest billing weight that can be written.
const MOST_BILLING: u64 = 4294;

impl Reader {
    /// A parameter that begins with `Priority`, or `FairShareDampeningFactor`. False for one that is
    /// not known here.
    pub(super) fn priority(&mut self, line: &Line, name: &str, value: &str) -> bool {
        let lower = name.to_ascii_lowercase();
        if let Some((_, own)) = WEIGHTS.iter().find(|(theirs, _)| *theirs == lower) {
            let weight = value.parse::<u32>().ok().map(u64::from);
            if let Some(weight) = self.told(line, name, value, weight) {
                self.cluster.priority.weights.insert(own, weight);
            }
            return true;
        }
        match lower.as_str() {
            "prioritytype" => {
                self.cluster.priority.multifactor = value.to_ascii_lowercase().contains("multi");
            }
            "prioritydecayhalflife" => self.half_life(line, name, value),
            "priorityusageresetperiod" => {
                let known = RESETS.iter().find(|word| word.eq_ignore_ascii_case(value));
                self.cluster.priority.reset = self.told(line, name, value, known.copied());
            }
            "prioritymaxage" => {
                let age = limit(value).filter(|age| !age.is_unlimited());
                let age = self.told(line, name, value, age);
                self.cluster.priority.max_age = age.map(|age| age.max(SHORTEST_MAX_AGE));
            }
            "prioritycalcperiod" => {
                let period = limit(value).filter(|period| !period.is_unlimited());
                self.cluster.priority.period = self.told(line, name, value, period);
            }
            "priorityfavorsmall" => {
                self.cluster.priority.favour_small = value.eq_ignore_ascii_case("yes");
            }
            "fairsharedampeningfactor" => {
                let damping = value.parse().ok().filter(|n: &u16| *n > 0);
                self.cluster.priority.damping = self.told(line, name, value, damping);
            }
            "priorityweighttres" => self.tres_weights(line, value),
            "priorityflags" => self.priority_flags(line, value),
            _ => return false,
        }
        true
    }

    fn half_life(&mut self, line: &Line, name: &str, value: &str) {
        let read = match value {
            "0" => Some(Span::ZERO),
            value => limit(value).filter(|span| !span.is_unlimited()),
        };
        let Some(read) = self.told(line, name, value, read) else {
            return;
        };
        if read > LONGEST_HALF_LIFE {
            self.note(line, &format!("{name}={value}: use counts half after 3660 days here"));
        }
        self.cluster.priority.half_life = Some(read.min(LONGEST_HALF_LIFE));
    }

    /// Reads weights of resources, such as `CPU=1000,Mem=2000,GRES/gpu=3000`.
    fn tres_weights(&mut self, line: &Line, value: &str) {
        for item in value.split(',').map(str::trim).filter(|i| !i.is_empty()) {
            let read = item.split_once('=').and_then(|(name, weight)| {
                let tres: Tres = name.to_lowercase().parse().ok()?;
                let weight = weight.parse::<u32>().ok()?;
                (tres != Tres::Billing).then_some((tres, weight))
            });
            match read {
                Some((tres, weight)) => {
                    self.cluster.priority.tres.insert(tres.to_string(), weight);
                }
                None => self.note(line, &format!("PriorityWeightTRES={item} is not carried over")),
            }
        }
    }

    fn priority_flags(&mut self, line: &Line, value: &str) {
        let words = value.split(',').map(str::trim).filter(|w| !w.is_empty());
        for word in words {
            let priority = &mut self.cluster.priority;
            match word.to_ascii_uppercase().as_str() {
                "FAIR_TREE" => {}
                "NO_FAIR_TREE" => priority.classic = true,
                "SMALL_RELATIVE_TO_TIME" => priority.relative_to_time = true,
                "MAX_TRES" => priority.billing = Some("max"),
                "MAX_TRES_GRES" => priority.billing = Some("max-and-devices"),
                _ => self.note(line, &format!("PriorityFlags={word} is not carried over")),
            }
        }
    }

    /// `TRESBillingWeights` of a partition: `CPU=1.0,Mem=0.25G,GRES/gpu=2.0`.
    pub(super) fn billing(&mut self, line: &Line, queue: &str, text: Option<&str>) -> Billing {
        let mut billing = Billing::default();
        let items = text.unwrap_or_default().split(',').map(str::trim);
        for item in items.filter(|item| !item.is_empty()) {
            if bill(&mut billing, item).is_none() {
                let text = format!(
                    "partition {queue}: TRESBillingWeights={item} is not carried over: cores, memory, nodes and devices are billed here, with weights up to {MOST_BILLING}"
                );
                self.note(line, &text);
            }
        }
        billing
    }
}

fn bill(billing: &mut Billing, item: &str) -> Option<()> {
    let (name, value) = item.split_once('=')?;
    let lower = name.trim().to_ascii_lowercase();
    match lower.as_str() {
        "cpu" => billing.core = Some(weight(value, 1)?),
        "node" => billing.node = Some(weight(value, 1)?),
        "mem" => billing.memory_gib = Some(memory(value)?),
        other => {
            let device = other.strip_prefix("gres/")?;
            if device.is_empty() || device.contains(|c: char| c.is_whitespace() || c.is_control()) {
                return None;
            }
            billing.devices.insert(device.to_owned(), weight(value, 1)?);
        }
    }
    Some(())
}

/// A weight for each GiB: `0.25G` is one, a number alone is for each MiB.
fn memory(value: &str) -> Option<String> {
    let value = value.trim();
    let (number, times, parts) = match value.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&value[..value.len() - 1], 1 << 20, 1),
        b'M' => (&value[..value.len() - 1], 1 << 10, 1),
        b'G' => (&value[..value.len() - 1], 1, 1),
        b'T' => (&value[..value.len() - 1], 1, 1 << 10),
        _ => (value, 1 << 10, 1),
    };
    scaled(number, times, parts)
}

fn weight(value: &str, times: u64) -> Option<String> {
    scaled(value.trim(), times, 1)
}

/// A decimal number times a factor and divided by another, with at most six decimals.
fn scaled(text: &str, times: u64, parts: u64) -> Option<String> {
    let millionths = u64::from(crate::sacctmgr::values::millionths(text)?);
    let all = millionths.checked_mul(times)? / parts;
    let whole = all / 1_000_000;
    if whole > MOST_BILLING {
        return None;
    }
    let part = format!("{:06}", all % 1_000_000);
    let part = part.trim_end_matches('0');
    Some(match part.is_empty() {
        true => whole.to_string(),
        false => format!("{whole}.{part}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn billing_weights() {
        let check = |text: &str, want: Option<(&str, &str)>| {
            let mut billing = Billing::default();
            let done = bill(&mut billing, text);
            let Billing {
                core,
                memory_gib,
                node,
                devices,
            } = billing;
            let found = [("core", core), ("memory_gib", memory_gib), ("node", node)];
            let found = found
                .into_iter()
                .filter_map(|(name, weight)| Some((name, weight?)));
            let devices = devices.into_values().map(|weight| ("device", weight));
            let all: Vec<(&str, String)> = found.chain(devices).collect();
            let want: Vec<(&str, String)> =
                want.into_iter().map(|(n, w)| (n, w.to_owned())).collect();
            assert_eq!(all, want, "{text}");
            assert_eq!(done.is_some(), !want.is_empty(), "{text}");
        };
        check("CPU=1.0", Some(("core", "1")));
        check("Mem=0.25G", Some(("memory_gib", "0.25")));
        check("mem=0.001", Some(("memory_gib", "1.024")));
        check("mem=2T", Some(("memory_gib", "0.001953")));
        check("node=3", Some(("node", "3")));
        check("GRES/gpu=2.5", Some(("device", "2.5")));
        for bad in [
            "CPU=x",
            "CPU",
            "license/x=1",
            "CPU=-1",
            "CPU=5000",
            "gres/=1",
            "mem=",
        ] {
            check(bad, None);
        }
    }
}
