//! Finds the limits that a job is under, place by place.

use super::super::Policy;
use super::party::{Meter, Party};
use super::rules::{Owner, Rule, Rules};
use super::standpoint::Standpoint;
use super::tally::WHOLE_PPM;
use super::wholes::may_be_share;
use cosy_model::policy::{
    AssociationKey, LimitKey, LimitKind, LimitPlace, LimitScope, Limits, QosFlag,
};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Policy {
    /// The limits that jobs of that party are under.
    pub(crate) fn rules(&self, party: &Party) -> Rules {
        let at = self.standpoint(party);
        let mut found = Finder {
            policy: self,
            party,
            at: &at,
            account: party
                .account
                .as_deref()
                .and_then(|name| self.account(name))
                .map(|row| row.id),
            set: BTreeSet::new(),
            rules: Vec::new(),
        };
        for (place, name) in at.qos.iter().enumerate() {
            found.of_qos(place, name);
        }
        found.of_own_association();
        found.of_groups();
        let Finder {
            mut rules, account, ..
        } = found;
        rules.sort_by_key(|(place, rule)| {
            let turn = turn_of(rule.key.kind);
            (turn >= FIRST_WITH_NODES, *place, turn)
        });
        let denies = |name: &String| {
            let row = self.qos(name);
            row.is_some_and(|row| row.flags.contains(&QosFlag::DenyOnLimit))
        };
        let own = party.qos.as_ref().and_then(|name| self.qos(name));
        let safe = own.filter(|row| row.flags.contains(&QosFlag::UsageFactorSafe));
        Rules {
            planned_ppm: safe.map_or(WHOLE_PPM, |row| row.usage_factor_ppm),
            limits_age: rules.iter().any(|(_, rule)| rule.limits_age()),
            meters: meters(self, &at, party, account),
            all: rules.into_iter().map(|(_, rule)| rule).collect(),
            has_qos: !at.qos.is_empty(),
            denies: at.qos.iter().any(denies),
        }
    }
}

/// Over which jobs a job of the party counts.
fn meters(policy: &Policy, at: &Standpoint, party: &Party, account: Option<u32>) -> Box<[Meter]> {
    let mut all: Vec<Meter> = at
        .upward
        .iter()
        .map(|(id, _)| Meter::Association(*id))
        .collect();
    for row in at.qos.iter().filter_map(|name| policy.qos(name)) {
        all.extend([Meter::Qos(row.id), Meter::UserInQos(row.id, party.uid)]);
        all.extend(account.map(|account| Meter::AccountInQos(row.id, account)));
    }
    all.into()
}

/// Collects limits place by place, the first one first.
struct Finder<'a> {
    policy: &'a Policy,
    party: &'a Party,
    at: &'a Standpoint,
    account: Option<u32>,
    /// What a place before has set.
    set: BTreeSet<LimitKey>,
    /// Each with the number of its place, the first one first.
    rules: Vec<(usize, Rule)>,
}

impl Finder<'_> {
    fn of_qos(&mut self, place: usize, name: &str) {
        let Some(row) = self.policy.qos(name) else {
            return;
        };
        let of: Arc<str> = name.into();
        let relative = row.flags.contains(&QosFlag::Relative);
        let of_queue = self.party.queue_qos.as_deref() == Some(name);
        let queue = of_queue.then_some(self.party.queue.as_str());
        for (key, value) in row.limits.iter() {
            let meter = match key.kind.scope() {
                LimitScope::Group | LimitScope::Job | LimitScope::Node => Meter::Qos(row.id),
                LimitScope::User => Meter::UserInQos(row.id, self.party.uid),
                LimitScope::Account => match self.account {
                    Some(account) => Meter::AccountInQos(row.id, account),
                    None => continue,
                },
            };
            if self.set.insert(key.clone()) {
                let tres = key.tres.as_ref();
                let tres = tres.filter(|_| relative && may_be_share(key.kind));
                let rule = Rule {
                    place: LimitPlace::Qos,
                    of: Owner::Qos(of.clone()),
                    meter,
                    key: key.clone(),
                    value: tres.map_or(value, |tres| self.policy.wholes.share(queue, tres, value)),
                    percent: tres.map(|_| value),
                };
                self.rules.push((place, rule));
            }
        }
    }

    /// What the user's record says of single jobs and of its own number of jobs, or inherits.
    fn of_own_association(&mut self) {
        let Some((number, nearest)) = self.at.upward.first() else {
            return;
        };
        let counts = |kind: LimitKind| match kind.scope() {
            LimitScope::Group => false,
            // Who has no association has no jobs of one.
            LimitScope::User => self.at.own.is_some() && !self.qos_counts_for(kind),
            LimitScope::Account | LimitScope::Job | LimitScope::Node => true,
        };
        let mut seen: BTreeSet<LimitKey> = BTreeSet::new();
        let mut found = Vec::new();
        for (of, settings) in self.policy.settings_upward(nearest) {
            let of = Arc::new(of);
            for (key, value) in settings.limits.iter() {
                if counts(key.kind) && !self.set.contains(key) && seen.insert(key.clone()) {
                    let rule = Rule {
                        place: LimitPlace::Association,
                        of: Owner::Association(of.clone()),
                        meter: Meter::Association(*number),
                        key: key.clone(),
                        value,
                        percent: None,
                    };
                    found.push((self.at.qos.len(), rule));
                }
            }
        }
        self.rules.extend(found);
    }

    /// Whether a quality of service limits the same for each user or for each account.
    fn qos_counts_for(&self, kind: LimitKind) -> bool {
        let kinds: &[LimitKind] = match kind {
            LimitKind::MaxJobs => &[LimitKind::MaxJobsPerUser, LimitKind::MaxJobsPerAccount],
            LimitKind::MaxSubmitJobs => &[
                LimitKind::MaxSubmitJobsPerUser,
                LimitKind::MaxSubmitJobsPerAccount,
            ],
            LimitKind::MaxJobsAccrue => &[
                LimitKind::MaxJobsAccruePerUser,
                LimitKind::MaxJobsAccruePerAccount,
            ],
            _ => return false,
        };
        kinds
            .iter()
            .any(|kind| self.set.contains(&LimitKey::plain(*kind)))
    }

    /// Limits of groups: of every level.
    fn of_groups(&mut self) {
        for (level, (number, key)) in self.at.upward.iter().enumerate() {
            let limits = self.own_limits(key).into_iter().flat_map(Limits::iter);
            let group = |limit: &LimitKey| limit.kind.scope() == LimitScope::Group;
            let limits = limits.filter(|(limit, _)| group(limit) && !self.set.contains(*limit));
            let of = Arc::new(key.clone());
            let rule = |(limit, value): (&LimitKey, u64)| Rule {
                place: LimitPlace::Association,
                of: Owner::Association(of.clone()),
                meter: Meter::Association(*number),
                key: limit.clone(),
                value,
                percent: None,
            };
            let place = self.at.qos.len() + level;
            let rules: Vec<_> = limits.map(|limit| (place, rule(limit))).collect();
            self.rules.extend(rules);
        }
    }

    fn own_limits(&self, key: &AssociationKey) -> Option<&Limits> {
        match key.user {
            Some(_) => self.policy.association(key).map(|row| &row.settings.limits),
            None => self
                .policy
                .account(&key.account)
                .map(|row| &row.settings.limits),
        }
    }
}

/// From this turn on limits are looked at for which nodes matter, after all others.
const FIRST_WITH_NODES: u8 = 8;

/// When a limit is looked at, within its place. Source: the order of the checks in Slurm.
const fn turn_of(kind: LimitKind) -> u8 {
    match kind {
        LimitKind::GrpSubmitJobs => 0,
        LimitKind::MaxSubmitJobsPerAccount => 1,
        LimitKind::MaxSubmitJobsPerUser | LimitKind::MaxSubmitJobs => 2,
        LimitKind::GrpJobs => 3,
        LimitKind::GrpWall => 4,
        LimitKind::MaxJobsPerAccount => 5,
        LimitKind::MaxJobsPerUser | LimitKind::MaxJobs => 6,
        LimitKind::MaxWall => 7,
        LimitKind::GrpTresMins => 8,
        LimitKind::GrpTres => 9,
        LimitKind::GrpTresRunMins => 10,
        LimitKind::MaxTresMinsPerJob => 11,
        LimitKind::MaxTresPerJob => 12,
        LimitKind::MaxTresPerNode => 13,
        LimitKind::MinTresPerJob => 14,
        LimitKind::MaxTresPerAccount => 15,
        LimitKind::MaxTresPerUser => 16,
        LimitKind::MaxTresRunMinsPerAccount => 17,
        LimitKind::MaxTresRunMinsPerUser => 18,
        LimitKind::GrpJobsAccrue
        | LimitKind::MaxJobsAccrue
        | LimitKind::MaxJobsAccruePerUser
        | LimitKind::MaxJobsAccruePerAccount => 19,
        LimitKind::MinPrioThreshold => 20,
    }
}
