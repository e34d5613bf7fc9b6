//! What is told of use and shares.

use crate::queues::scores::shares::Shares;
use cosy_model::Time;
use cosy_model::policy::{AssociationUsage, ROOT};
use cosy_policy::fair_tree::{self, Place};

/// One, in billionths.
const ONE: u128 = 1_000_000_000;
/// Thousandths of billing units times milliseconds in a billing unit for a second.
const FINE: u128 = 1_000_000;

impl Shares {
    /// What a user has used in an account, or an account with all below it, and how that stands
    /// against shares; `None` of somebody who has no place.
    ///
    /// Part of the shares and of the use of siblings, level fair share and factor are those of Fair
    /// Tree. Source: sshare(1), "Fair Tree".
    pub fn told(&self, account: &str, user: Option<&str>, now: Time) -> Option<AssociationUsage> {
        let place = match user {
            Some(user) => self.known(&Some(account.to_owned()), user)?,
            None if account == ROOT => Place::ROOT,
            None => self.place_of_account(account)?,
        };
        let tree = self.tree();
        let used = |place| self.worth(tree.usage_of(place), now) / FINE;
        let own = used(place);
        let above = tree.above(place).map_or(own, used);
        let (shares, all) = match tree.shares_of(place) {
            (fair_tree::Shares::Of(shares), all) => (u128::from(shares), u128::from(all)),
            (fair_tree::Shares::Parent, _) => (1, 1),
        };
        let level = tree.level_of(place);
        let level_use = if place == Place::ROOT {
            own
        } else {
            used(level)
        };
        let rank = user.map(|_| u128::from(tree.rank_of(place)));
        Some(AssociationUsage {
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
        })
    }
}

/// A part of all, in billionths; nothing of nothing.
fn part(own: u128, all: u128) -> u64 {
    small(own.saturating_mul(ONE).checked_div(all).unwrap_or(0))
}

fn small(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
