//! Where somebody stands, told with names: who is ahead at which level with what use, and when one
//! overtakes.

use super::{Scores, member};
use crate::jobs::job::Job;
use crate::queues::scores::resources::BILLING;
use crate::queues::scores::shares::Shares;
use cosy_model::policy::{AfterUse, LevelStanding, NextAhead, Standing};
use cosy_model::{QueueOrder, QueueSpec, Time};
use cosy_policy::fair_tree::{self, Place};
use cosy_policy::standing::{self, Holder};
use cosy_policy::usage::{Running, Usage};

/// Thousandths of billing units times milliseconds in a billing unit for a second.
const FINE: u128 = 1_000_000;

/// Associations of one user that are told of, at most.
const MOST: usize = 100;

/// And of these what is told of one more job: each takes a walk over all users.
const MOST_AFTER: usize = 4;

/// What is said of promises where the order can change.
const PROMISE: &str = "its queue orders by use and weights, so the order can change: a start that is told to the first in line can be passed only by a job that overtakes it in that order";

impl Scores {
    /// Where a user stands, in each account; `names`: other users are named.
    ///
    /// `more`: what one more job would use there, in thousandths of billing units times milliseconds.
    pub(crate) fn standing_of(
        &self,
        user: &str,
        names: bool,
        more: Option<u128>,
        now: Time,
    ) -> Vec<Standing> {
        let places = self.shares.places_of_user(user).into_iter().take(MOST);
        let told = |(at, place): (usize, Place)| {
            let more = more.filter(|_| at < MOST_AFTER);
            let after = more.map(|more| self.shares.after(place, names, more, now));
            let standing = self.shares.standing_at(place, names, now)?;
            Some(Standing { after, ..standing })
        };
        places.enumerate().filter_map(told).collect()
    }

    /// Sentences about the place of a waiting job, where its queue orders by more than dates.
    pub(crate) fn lines_of(
        &self,
        queue: &QueueSpec,
        job: &Job,
        names: bool,
        now: Time,
    ) -> Vec<String> {
        if queue.order == QueueOrder::Fcfs || !job.is_waiting() {
            return Vec::new();
        }
        let place = self.shares.known(member(job));
        let standing = place.and_then(|place| self.shares.standing_at(place, names, now));
        let mut lines = vec![PROMISE.to_owned()];
        lines.extend(
            standing
                .iter()
                .flat_map(|it| cosy_view::standing::lines(it, now)),
        );
        lines
    }
}

impl Shares {
    /// Where who is at a place stands.
    fn standing_at(&self, place: Place, names: bool, now: Time) -> Option<Standing> {
        let member = self.member_at(place)?;
        let tree = self.tree();
        let levels = standing::levels(tree, place);
        Some(Standing {
            account: member.account.to_owned(),
            user: member.user.to_owned(),
            queue: member.queue.to_owned(),
            rank: tree.rank_of(place),
            users: tree.users(),
            after: None,
            levels: levels
                .iter()
                .map(|level| self.level_told(level, names, now))
                .collect(),
        })
    }

    /// Where who is at a place would stand after so much more use. Ranks are given anew on a copy.
    fn after(&self, place: Place, names: bool, more: u128, now: Time) -> AfterUse {
        let mut tree = self.tree().clone();
        let used = tree.own_use_of(place);
        tree.has_used(place, used.plus(self.decay.of_worth(more, now)));
        tree.rank();
        let levels = standing::levels(&tree, place);
        let behind = levels
            .iter()
            .find_map(|level| level.next_ahead.map(|next| (level, next)));
        let next = behind.map(|(_, ahead)| NextAhead {
            name: self.name_at(ahead, names),
            shares: count(tree.shares_of(ahead).0),
            used: self.seconds(tree.usage_of(ahead), now),
            until_overtaken: None,
            overtaken_at: None,
        });
        AfterUse {
            used: small(more / FINE),
            rank: tree.rank_of(place),
            behind_as: behind
                .map_or_else(String::new, |(level, _)| self.name_at(level.place, true)),
            next,
        }
    }

    fn level_told(&self, level: &standing::LevelStanding, names: bool, now: Time) -> LevelStanding {
        let running = self.running_at(level.place);
        LevelStanding {
            name: self.name_at(level.place, true),
            shares: count(level.shares),
            all_shares: level.all_shares,
            used: self.seconds(level.usage, now),
            all_used: self.seconds(level.all_usage, now),
            committed: small(running.rest(now) / FINE),
            ahead: u32::try_from(level.ahead).unwrap_or(u32::MAX),
            of: u32::try_from(level.of).unwrap_or(u32::MAX),
            next: level
                .next_ahead
                .map(|ahead| self.next_told(level, ahead, names, now)),
        }
    }

    fn next_told(
        &self,
        level: &standing::LevelStanding,
        ahead: Place,
        names: bool,
        now: Time,
    ) -> NextAhead {
        let tree = self.tree();
        let shares = count(tree.shares_of(ahead).0);
        let holder = |place: Place, shares: u32| Holder {
            shares,
            usage: tree.usage_of(place),
            rates: self.running_at(place).rates(),
        };
        let both = count(level.shares).zip(shares);
        let both = both.filter(|(own, other)| *own > 0 && *other > 0);
        let overtaking = both.map(|(own, other)| {
            let (behind, before) = (holder(level.place, own), holder(ahead, other));
            standing::overtaking(self.decay, now, behind, before)
        });
        NextAhead {
            name: self.name_at(ahead, names),
            shares,
            used: self.seconds(tree.usage_of(ahead), now),
            until_overtaken: overtaking.map(|it| small(it.use_more / FINE)),
            overtaken_at: overtaking.and_then(|it| it.at),
        }
    }

    /// What running jobs hold at a place, of what is billed.
    fn running_at(&self, place: Place) -> Running {
        let own = self.holders.get(&place).map(|holder| &holder.meter);
        let meter = own.or_else(|| self.sums.get(&place));
        meter.map_or_else(Running::default, |meter| meter.running_of(BILLING))
    }

    /// The name of an account, or of a user where it is told.
    fn name_at(&self, place: Place, users: bool) -> String {
        match self.member_at(place) {
            Some(member) if users => member.user.to_owned(),
            Some(_) => String::new(),
            None => self.account_at(place).unwrap_or_default().to_owned(),
        }
    }

    fn seconds(&self, usage: Usage, now: Time) -> u64 {
        small(self.worth(usage, now) / FINE)
    }
}

const fn count(shares: fair_tree::Shares) -> Option<u32> {
    match shares {
        fair_tree::Shares::Of(count) => Some(count),
        fair_tree::Shares::Parent => None,
    }
}

fn small(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
