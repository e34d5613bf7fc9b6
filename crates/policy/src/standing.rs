//! Where somebody stands, as data for words: at which level who is ahead with what use, and how much more
//! the other has to use until one overtakes.
//!
//! As time goes by without use nobody overtakes anybody, because all use fades alike. What changes the
//! order is use: that of running jobs, whose rates are known, and of those to come.

use crate::fair_tree::{FairTree, LevelFairShare, Place, Shares};
use crate::usage::{Decay, Usage};
use cosy_model::{Span, Time};

/// One level on the way from the root to a user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LevelStanding {
    /// The account, at last the user.
    pub place: Place,
    /// Its shares.
    pub shares: Shares,
    /// Shares of all children of the level.
    pub all_shares: u64,
    /// Its use.
    pub usage: Usage,
    /// Use of the level.
    pub all_usage: Usage,
    /// Children of the level with a higher level fair share.
    pub ahead: usize,
    /// Children of the level that have users.
    pub of: usize,
    /// The nearest of those ahead.
    pub next_ahead: Option<Place>,
}

/// The way from the first level below the root to a user, as of the last ranks.
pub fn levels(tree: &FairTree, user: Place) -> Vec<LevelStanding> {
    let mut way = Vec::new();
    let mut place = user;
    while place != Place::ROOT {
        way.push(level(tree, place));
        place = tree.level_of(place);
    }
    way.reverse();
    way
}

fn level(tree: &FairTree, place: Place) -> LevelStanding {
    let above = tree.level_of(place);
    let line = tree.line_of(above);
    let mine: LevelFairShare = tree.level_fair_share(place);
    let ahead = line.partition_point(|other| tree.level_fair_share(*other) > mine);
    let (shares, all_shares) = tree.shares_of(place);
    LevelStanding {
        place,
        shares,
        all_shares,
        usage: tree.usage_of(place),
        all_usage: tree.usage_of(above),
        ahead,
        of: line.len(),
        next_ahead: ahead.checked_sub(1).and_then(|at| line.get(at).copied()),
    }
}

/// Where the ways to two users part: the accounts (or users) of the one and of the other that stand at the
/// same level. `None` for one user.
pub fn parting(tree: &FairTree, one: Place, other: Place) -> Option<(Place, Place)> {
    let way = |user| levels(tree, user).into_iter().map(|level| level.place);
    way(one).zip(way(other)).find(|(a, b)| a != b)
}

/// Somebody at a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Its shares, not zero.
    pub shares: u32,
    /// Its use until now.
    pub usage: Usage,
    /// Rates of what runs now, in thousandths of billing units.
    pub rates: u64,
}

/// When the one behind comes before the one ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overtaking {
    /// So much more the one ahead has to use while the one behind uses nothing: thousandths of billing
    /// units times milliseconds.
    pub use_more: u128,
    /// When that is so if all that runs now goes on; `None` when it does not come to that within [`REACH`].
    pub at: Option<Time>,
}

/// Overtaking is looked for until so long from now.
pub const REACH: Span = Span(366 * 86_400_000);

/// When `behind` overtakes `ahead`.
pub fn overtaking(decay: Decay, now: Time, behind: Holder, ahead: Holder) -> Overtaking {
    // equal when usage / shares are: use of the one ahead has to become this
    let needed = per_shares(behind.usage, behind.shares, ahead.shares);
    let more = Usage(needed.0.saturating_sub(ahead.usage.0));
    let start = decay.integral(now);
    let overtaken = |at: Time| {
        let held = decay.integral(at).saturating_sub(start);
        let with = |holder: Holder| {
            holder
                .usage
                .plus(Usage(held.saturating_mul(holder.rates.into())))
        };
        with(ahead) >= per_shares(with(behind), behind.shares, ahead.shares)
    };
    let (mut before, mut after) = (now, now + REACH);
    let at = overtaken(after).then(|| {
        while before < after {
            let middle = before + Span(after.since(before).0 / 2);
            match overtaken(middle) {
                true => after = middle,
                false => before = middle + Span(1),
            }
        }
        after
    });
    Overtaking {
        use_more: decay.worth(more, now),
        at,
    }
}

/// `usage / of * shares`; without shares to divide by the most there is.
fn per_shares(usage: Usage, of: u32, shares: u32) -> Usage {
    let (of, shares) = (u128::from(of), u128::from(shares));
    match (usage.0.checked_div(of), usage.0.checked_rem(of)) {
        (Some(whole), Some(rest)) => {
            let rest = rest * shares / of;
            Usage(whole.saturating_mul(shares).saturating_add(rest))
        }
        _ => Usage(u128::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair_tree::Ties;

    const HOUR: i64 = 3_600_000;
    const NOW: Time = Time(1_795_612_500_000);

    #[test]
    fn who_is_ahead_where() {
        let mut tree = FairTree::new(Ties::Merged);
        let accounts = [10, 10, 20].map(|n| tree.add_account(Place::ROOT, Shares::Of(n)));
        let users = accounts.map(|account| tree.add_user(account, Shares::Of(1)));
        let bob = tree.add_user(accounts[0], Shares::Of(1));
        for (user, used) in users.into_iter().zip([50, 20, 60]) {
            tree.has_used(user, Usage(used));
        }
        tree.rank();
        let way = levels(&tree, users[0]);
        assert_eq!(way.len(), 2);
        assert_eq!((way[0].place, way[0].ahead, way[0].of), (accounts[0], 2, 3));
        assert_eq!(way[0].next_ahead, Some(accounts[2]));
        assert_eq!((way[0].usage, way[0].all_usage), (Usage(50), Usage(130)));
        assert_eq!((way[1].ahead, way[1].next_ahead), (1, Some(bob)));
        assert_eq!(parting(&tree, users[0], bob), Some((users[0], bob)));
        assert_eq!(parting(&tree, bob, users[2]), Some((accounts[0], accounts[2])));
        assert_eq!(parting(&tree, bob, bob), None);
    }

    #[test]
    fn overtaking_needs_use() {
        let decay = Decay::new(Span(7 * 24 * HOUR), NOW);
        let used = |hours: i64| decay.used(1000, NOW + Span(-hours * HOUR), NOW);
        let behind = Holder {
            shares: 1,
            usage: used(20),
            rates: 0,
        };
        let ahead = Holder {
            usage: used(10),
            ..behind
        };
        let idle = overtaking(decay, NOW, behind, ahead);
        assert_eq!(idle.at, None, "use that fades changes no order");
        let hours = idle.use_more as f64 / 1000.0 / HOUR as f64;
        assert!((9.0..10.0).contains(&hours), "{hours}");
        let running = overtaking(
            decay,
            NOW,
            behind,
            Holder {
                rates: 1000,
                ..ahead
            },
        );
        let after = running.at.unwrap().since(NOW).0 as f64 / HOUR as f64;
        assert!((9.0..10.0).contains(&after), "{after}");
        let both = Holder {
            rates: 1000,
            ..behind
        };
        assert_eq!(
            overtaking(
                decay,
                NOW,
                both,
                Holder {
                    rates: 1000,
                    ..ahead
                }
            )
            .at,
            None
        );
        let shares = Holder {
            shares: 2,
            ..behind
        };
        assert_eq!(overtaking(decay, NOW, shares, ahead).at, Some(NOW));
    }
}
