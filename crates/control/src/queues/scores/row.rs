//! What is kept of use.

use crate::queues::scores::resources::{BILLING, Resources, UseOf};
use cosy_model::Time;
use cosy_policy::meter::Meter;
use cosy_policy::usage::{Decay, Usage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Use in a measure: its higher and its lower 64 bits.
pub type Halves = (u64, u64);

/// What the ended jobs of a user in an account have used, or those with a quality of service.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct UsageRow {
    /// Account, by name; empty for jobs that are in none, and for a quality of service.
    pub account: String,
    /// Login name; empty for a quality of service.
    pub user: String,
    /// Only of jobs in this queue; empty for all others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub queue: String,
    /// Quality of service, by name; empty for a user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub qos: String,
    /// When it was written: what was used before a reset of all use does not count.
    pub at: Time,
    /// What was used before does not count, because an administrator has said so then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The measure of what follows.
    pub decay: Decay,
    /// Billing in that measure, its higher 64 bits.
    pub used_high: u64,
    /// The lower 64 bits.
    pub used_low: u64,
    /// Other resources, and `wall`, by name, in the same measure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub amounts: BTreeMap<String, Halves>,
}

/// Which row of use: a name that no other row has.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UsageKey(pub String);

impl UsageRow {
    /// Under which name it is kept. User names have neither colon nor blank, names of
    /// queues no blank.
    pub fn key(&self) -> UsageKey {
        UsageKey(match (self.qos.as_str(), self.queue.as_str()) {
            ("", "") => format!("{} in {}", self.user, self.account),
            ("", queue) => format!("{} for {queue} in {}", self.user, self.account),
            (qos, _) => format!("qos:{qos}"),
        })
    }

    /// What was billed, in the row's own measure.
    pub const fn used(&self) -> Usage {
        joined((self.used_high, self.used_low))
    }
}

const fn joined((high, low): Halves) -> Usage {
    Usage(((high as u128) << 64) | low as u128)
}

const fn halves(usage: Usage) -> Halves {
    ((usage.0 >> 64) as u64, usage.0 as u64)
}

/// Puts what a row says into a meter, in the measure of now.
pub(super) fn fill(
    meter: &mut Meter,
    row: &UsageRow,
    resources: &mut Resources,
    decay: Decay,
    now: Time,
) {
    let measured = |used: Usage| match row.decay.rebased_to(decay) {
        Some(bits) => used.rebased(bits),
        None => used.measured_anew(row.decay, decay, now),
    };
    meter.set_stored(BILLING, measured(row.used()));
    for (word, used) in &row.amounts {
        let number = UseOf::of_word(word).and_then(|of| resources.number_of(of));
        if let Some(number) = number {
            meter.set_stored(number, measured(joined(*used)));
        }
    }
}

/// Puts what is stored in a meter into a row.
pub(super) fn write(meter: &Meter, row: &mut UsageRow, resources: &Resources) {
    for (number, usage) in meter.stored() {
        match resources.name(*number) {
            _ if *number == BILLING => (row.used_high, row.used_low) = halves(*usage),
            Some(name) => drop(row.amounts.insert(name.to_string(), halves(*usage))),
            None => {}
        }
    }
}
