//! What was used with each quality of service, and what of them counts for use and order.
//!
//! Only those that the policy has are counted. What is used in one with `NoDecay` is measured without
//! decay, and no reset of all use forgets it. Source: sacctmgr(1), "SPECIFICATIONS FOR QOS", `Flags`.

use crate::queues::scores::layout::QosFacts;
use crate::queues::scores::resources::Resources;
use crate::queues::scores::row::{UsageRow, fill, write};
use cosy_model::Time;
use cosy_policy::meter::{Measure, Meter};
use cosy_policy::usage::Decay;
use std::collections::{BTreeMap, BTreeSet};

/// Use of one.
#[derive(Clone, Debug)]
struct QosUse {
    facts: QosFacts,
    /// The policy has it.
    known: bool,
    /// What was used before does not count.
    since: Time,
    /// When the row was written that it is from.
    written: Time,
    meter: Meter,
}

impl QosUse {
    const fn decay(&self, common: Decay) -> Decay {
        match self.facts.no_decay {
            true => Decay::NONE,
            false => common,
        }
    }
}

const UNKNOWN: QosUse = QosUse {
    facts: QosFacts {
        id: 0,
        priority: 0,
        usage_factor_ppm: 1_000_000,
        no_decay: false,
    },
    known: false,
    since: Time(i64::MIN),
    written: Time::FAR,
    meter: Meter::EMPTY,
};

/// Use of all of them, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct QosUses {
    all: BTreeMap<String, QosUse>,
    /// The highest part of the priority that one that the policy has gives.
    most_priority: u32,
    /// Names whose rows have to be written.
    unsaved: BTreeSet<String>,
    /// In which measure those that fade are.
    common: Decay,
    /// When the measure was changed last.
    now: Time,
}

impl QosUses {
    /// The policy has these; `forgotten`: the last reset of all use. What running jobs hold is told anew
    /// after it.
    pub fn told(&mut self, facts: BTreeMap<String, QosFacts>, forgotten: Time) {
        for (name, own) in &mut self.all {
            let same = |facts: &QosFacts| facts.id == own.facts.id || !own.known;
            if !facts.get(name).is_some_and(same) && own.meter.forget() {
                self.unsaved.insert(name.clone());
            }
            own.known = false;
        }
        let priorities = facts.values().map(|facts| facts.priority);
        self.most_priority = priorities.max().unwrap_or(0);
        for (name, facts) in facts {
            let own = self.all.entry(name.clone()).or_insert(UNKNOWN);
            let before = own.decay(self.common);
            (own.facts, own.known) = (facts, true);
            let after = own.decay(self.common);
            let now = self.now;
            own.meter
                .measured_anew(|usage| usage.measured_anew(before, after, now));
            let written = std::mem::replace(&mut own.written, Time::FAR);
            if !facts.no_decay && written < forgotten && own.meter.forget() {
                self.unsaved.insert(name);
            }
        }
    }

    /// Whether the policy has these and no others.
    pub fn are(&self, facts: &BTreeMap<String, QosFacts>) -> bool {
        let known = self.all.iter().filter(|(_, own)| own.known);
        known.map(|(name, own)| (name, &own.facts)).eq(facts)
    }

    /// What counts of one, if the policy has it.
    pub fn facts(&self, name: &str) -> Option<QosFacts> {
        self.all
            .get(name)
            .filter(|own| own.known)
            .map(|own| own.facts)
    }

    /// The highest part of the priority that one of them gives.
    pub const fn most_priority(&self) -> u32 {
        self.most_priority
    }

    /// The meter of one that the policy has, and how it is read; `common`: how those that fade are.
    pub fn meter(&mut self, name: &str, common: Measure) -> Option<(&mut Meter, Measure)> {
        let own = self.all.get_mut(name).filter(|own| own.known)?;
        let measure = Measure {
            decay: own.decay(common.decay),
            since: match own.facts.no_decay {
                true => own.since,
                false => own.since.max(common.since),
            },
        };
        Some((&mut own.meter, measure))
    }

    /// The meter of one and its measure.
    pub fn read(&self, name: &str, common: Decay) -> Option<(&Meter, Decay)> {
        let own = self.all.get(name)?;
        Some((&own.meter, own.decay(common)))
    }

    /// Rows of these have to be written.
    pub fn note(&mut self, names: &[String]) {
        let known = names.iter().filter(|name| self.facts(name).is_some());
        let known: Vec<String> = known.cloned().collect();
        self.unsaved.extend(known);
    }

    /// What running jobs hold is told anew.
    pub fn hold_nothing(&mut self) {
        self.all
            .values_mut()
            .for_each(|own| own.meter.holds_nothing());
    }

    /// Those that fade are measured in another way from now on.
    pub fn measured_anew(&mut self, before: Decay, after: Decay, now: Time) {
        (self.common, self.now) = (after, now);
        for own in self.all.values_mut().filter(|own| !own.facts.no_decay) {
            own.meter
                .measured_anew(|usage| match before.rebased_to(after) {
                    Some(bits) => usage.rebased(bits),
                    None => usage.measured_anew(before, after, now),
                });
        }
    }

    /// All use is forgotten but that which does not fade.
    pub fn forget_what_fades(&mut self) {
        for (name, own) in &mut self.all {
            if !own.facts.no_decay && own.meter.forget() {
                self.unsaved.insert(name.clone());
            }
        }
    }

    /// What was used with one until then does not count any more.
    pub fn reset(&mut self, name: &str, now: Time) {
        if let Some(own) = self.all.get_mut(name) {
            own.since = now;
            own.meter.forget();
            self.unsaved.insert(name.to_owned());
        }
    }

    /// The store has that row. Whether it fades is only known when the policy is told: until then it is
    /// measured as the row says.
    pub fn restore(&mut self, row: &UsageRow, resources: &mut Resources, common: Decay, now: Time) {
        let own = self.all.entry(row.qos.clone()).or_insert(UNKNOWN);
        own.facts.no_decay = row.decay.half_life() == cosy_model::Span::ZERO;
        own.since = row.since.unwrap_or(Time(i64::MIN));
        own.written = row.at;
        let decay = own.decay(common);
        fill(&mut own.meter, row, resources, decay, now);
    }

    /// What has to be written.
    pub fn take_unsaved(
        &mut self,
        resources: &Resources,
        common: Decay,
        now: Time,
    ) -> Vec<UsageRow> {
        let row = |name: String| {
            let own = self.all.get(&name)?;
            let mut row = UsageRow {
                qos: name,
                at: now,
                since: Some(own.since).filter(|since| *since > Time(i64::MIN)),
                decay: own.decay(common),
                ..UsageRow::default()
            };
            write(&own.meter, &mut row, resources);
            Some(row)
        };
        let unsaved = std::mem::take(&mut self.unsaved);
        unsaved.into_iter().filter_map(row).collect()
    }

    /// Whether the same is counted in both.
    pub fn counts_as(&self, other: &Self) -> bool {
        let known = self.all.values().filter(|own| own.known);
        let most = known.map(|own| own.facts.priority).max().unwrap_or(0);
        let pairs = self.all.iter().zip(&other.all);
        self.most_priority == most
            && self.all.len() == other.all.len()
            && pairs
                .into_iter()
                .all(|(one, two)| one.0 == two.0 && one.1.meter == two.1.meter)
    }
}
