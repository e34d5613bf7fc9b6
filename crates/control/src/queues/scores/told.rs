//! What is told of use and shares.

use crate::queues::scores::places::Member;
use crate::queues::scores::resources::UseOf;
use crate::queues::scores::shares::Shares;
use cosy_model::Time;
use cosy_model::policy::{AssociationKey, AssociationUsage, ROOT, Tres};
use cosy_policy::fair_tree::{self, Place};
use cosy_policy::meter::Meter;
use cosy_policy::usage::Decay;
use std::collections::BTreeMap;

/// Whose use is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level<'a> {
    /// A user in an account: of exactly that association.
    User(Member<'a>),
    /// An account with all below it.
    Account(&'a str),
    /// A quality of service, of a job or of its queue.
    Qos(&'a str),
}

impl<'a> Level<'a> {
    /// The level that is an association.
    pub fn of_key(key: &'a AssociationKey) -> Self {
        match &key.user {
            None => Self::Account(&key.account),
            Some(user) => Self::User(Member {
                account: &key.account,
                user,
                queue: key.queue.as_deref().unwrap_or(""),
            }),
        }
    }
}

/// One, in billionths.
const ONE: u128 = 1_000_000_000;
/// Thousandths of billing units times milliseconds in a billing unit for a second.
const FINE: u128 = 1_000_000;

impl Shares {
    /// The meter of a level and how it is read.
    fn meter(&self, level: Level<'_>) -> Option<(&Meter, Decay)> {
        let meter = match level {
            Level::User(member) => &self.holders.get(&self.exactly(member)?)?.meter,
            Level::Account(ROOT) => self.sums.get(&Place::ROOT)?,
            Level::Account(name) => self.sums.get(&self.place_of_account(name)?)?,
            Level::Qos(name) => return self.qos.read(name, self.decay),
        };
        Some((meter, self.decay))
    }

    /// What was used of something at a level, by ended jobs and by running ones until now, decayed: amounts
    /// times milliseconds, in thousandths.
    fn used(&self, level: Level<'_>, of: &UseOf, now: Time) -> u128 {
        let (Some((meter, decay)), Some(number)) = (self.meter(level), self.resources.number(of))
        else {
            return 0;
        };
        decay.worth(meter.used(decay, number, now), now)
    }

    /// Minutes times an amount that were used at a level (memory: MiB), with the factors of qualities of
    /// service. Source: sacctmgr(1), `GrpTRESMins`.
    pub fn minutes_used(&self, level: Level<'_>, tres: &Tres, now: Time) -> u64 {
        small(self.used(level, &UseOf::Tres(tres.clone()), now) / (60 * FINE))
    }

    /// Minutes for which jobs of a level held nodes, each job by itself. Source: sacctmgr(1), `GrpWall`.
    pub fn wall_minutes_used(&self, level: Level<'_>, now: Time) -> u64 {
        small(self.used(level, &UseOf::Wall, now) / (60 * FINE))
    }

    /// Adds what was used and is held at a level to what is told of it.
    fn amounts_told(&self, level: Level<'_>, now: Time, told: &mut AssociationUsage) {
        let Some((meter, decay)) = self.meter(level) else {
            return;
        };
        for number in meter.resources() {
            let used = small(decay.worth(meter.used(decay, number, now), now) / FINE);
            let rest = small(meter.running_of(number).rest(now) / FINE);
            match self.resources.name(number) {
                Some(UseOf::Wall) => told.wall_seconds = used,
                Some(UseOf::Tres(tres)) => {
                    let set = |of: &mut BTreeMap<Tres, u64>, value: u64| {
                        if value > 0 {
                            of.insert(tres.clone(), value);
                        }
                    };
                    set(&mut told.used_seconds, used);
                    set(&mut told.run_seconds, rest);
                }
                None => {}
            }
        }
    }

    /// What was used with a quality of service.
    pub fn qos_told(&self, name: &str, now: Time) -> AssociationUsage {
        let mut told = AssociationUsage::default();
        self.amounts_told(Level::Qos(name), now, &mut told);
        told.raw_usage = told.used_seconds.get(&Tres::Billing).copied().unwrap_or(0);
        told
    }

    /// What a user has used in an account, or an account with all below it, and how that stands
    /// against shares; `None` of somebody who has no place.
    ///
    /// Part of the shares and of the use of siblings, level fair share and factor are those of Fair
    /// Tree. Source: sshare(1), "Fair Tree".
    pub fn told(&self, key: &AssociationKey, now: Time) -> Option<AssociationUsage> {
        let level = Level::of_key(key);
        let place = match level {
            Level::User(member) => self.exactly(member)?,
            Level::Account(ROOT) => Place::ROOT,
            Level::Account(name) => self.place_of_account(name)?,
            Level::Qos(_) => return None,
        };
        let tree = self.tree();
        let used = |place| self.worth(tree.usage_of(place), now) / FINE;
        let own = used(place);
        let above = tree.above(place).map_or(own, used);
        let (shares, all) = match tree.shares_of(place) {
            (fair_tree::Shares::Of(shares), all) => (u128::from(shares), u128::from(all)),
            (fair_tree::Shares::Parent, _) => (1, 1),
        };
        let level_use = match place {
            Place::ROOT => own,
            place => used(tree.level_of(place)),
        };
        let rank = key.user.as_ref().map(|_| u128::from(tree.rank_of(place)));
        let mut told = AssociationUsage {
            raw_usage: small(own),
            norm_shares_ppb: part(shares, all),
            norm_usage_ppb: part(own, used(Place::ROOT)),
            effective_usage_ppb: part(own, above),
            level_fs_ppb: match (shares, own) {
                (0, _) => 0,
                (_, 0) => u64::MAX,
                _ => {
                    let (over, under) = (shares.saturating_mul(level_use), all.saturating_mul(own));
                    small(over.saturating_mul(ONE) / under.max(1))
                }
            },
            fair_share_ppb: rank.map(|rank| part(rank, u128::from(tree.users()))),
            ..AssociationUsage::default()
        };
        self.amounts_told(level, now, &mut told);
        Some(told)
    }
}

/// A part of all, in billionths; nothing of nothing.
fn part(own: u128, all: u128) -> u64 {
    small(own.saturating_mul(ONE).checked_div(all).unwrap_or(0))
}

fn small(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
