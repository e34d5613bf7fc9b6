//! The classic fair-share factor: `2^(-(effective use / normalised shares) / damping)`.
//!
//! Normalised shares are the product of shares / shares of all siblings on the way down. Effective use of
//! a child is `own + (effective use of the account - own) * shares / shares of all siblings`, with use as
//! parts of that of the whole cluster: who shares an account pays a part of what its other users did.
//!
//! Source: <https://slurm.schedmd.com/classic_fair_share.html>; `slurm.conf(5)`, `NO_FAIR_TREE`,
//! `FairShareDampeningFactor`. All numbers have 32 bits behind the point.

use crate::fair_tree::{FairTree, Place, Shares};
use crate::power;

/// One, with 32 bits behind the point.
pub const ONE: u64 = 1 << 32;

/// How somebody stands by the classic formula, with 32 bits behind the point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The part of the cluster that is somebody's.
    pub shares: u64,
    /// The part of all use that is somebody's own.
    pub used: u64,
    /// The part of all use that counts for somebody.
    pub effective: u64,
}

/// `part / whole`, zero where there is no whole.
pub(crate) fn ratio(part: u128, whole: u128) -> u64 {
    // both as small as the quotient's exactness allows, so that the shift fits
    let shift = (128 - whole.leading_zeros()).saturating_sub(90);
    let (part, whole) = (part >> shift, whole >> shift);
    (part.min(whole) << 32)
        .checked_div(whole)
        .and_then(|ratio| u64::try_from(ratio).ok())
        .unwrap_or(0)
}

/// The product of two numbers with 32 bits behind the point.
fn times(a: u64, b: u64) -> u64 {
    u64::try_from((u128::from(a) * u128::from(b)) >> 32).unwrap_or(u64::MAX)
}

/// Shares and use of somebody in the tree as it is.
pub fn standing(tree: &FairTree, place: Place) -> Standing {
    let mut way = vec![];
    let mut at = place;
    while at != Place::ROOT {
        way.push(at);
        at = tree.level_of(at);
    }
    let all = tree.usage_of(Place::ROOT).0;
    let start = Standing {
        shares: ONE,
        used: ratio(all, all),
        effective: ratio(all, all),
    };
    way.into_iter().rev().fold(start, |above, place| {
        let used = ratio(tree.usage_of(place).0, all);
        match tree.shares_of(place) {
            (Shares::Parent, _) => Standing { used, ..above },
            (Shares::Of(shares), of) => {
                let part = ratio(shares.into(), of.into());
                let others = above.effective.saturating_sub(used);
                Standing {
                    shares: times(above.shares, part),
                    used,
                    effective: used + times(others, part),
                }
            }
        }
    })
}

/// The factor, from zero to [`ONE`]; `damping` is at least one. Without shares it is zero.
pub fn factor(standing: Standing, damping: u16) -> u64 {
    let under = u128::from(standing.shares) * u128::from(damping.max(1));
    let Some(exponent) = (u128::from(standing.effective) << 32).checked_div(under) else {
        return 0;
    };
    power::inverse(u64::try_from(exponent).unwrap_or(u64::MAX)) >> 30
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair_tree::Ties;
    use crate::usage::Usage;

    #[test]
    fn the_example_of_the_page() {
        // shares and use as in Slurm's page on the classic formula
        let mut tree = FairTree::new(Ties::Merged);
        let a = tree.add_account(Place::ROOT, Shares::Of(40));
        let b = tree.add_account(a, Shares::Of(30));
        let c = tree.add_account(a, Shares::Of(10));
        let d = tree.add_account(Place::ROOT, Shares::Of(60));
        let e = tree.add_account(d, Shares::Of(25));
        let f = tree.add_account(d, Shares::Of(35));
        let one = tree.add_user(b, Shares::Of(1));
        let users = [(one, 20), (tree.add_user(c, Shares::Of(1)), 10)];
        let two = tree.add_user(c, Shares::Of(1));
        let more = [(two, 15), (tree.add_user(e, Shares::Of(1)), 25)];
        let four = (tree.add_user(f, Shares::Of(1)), 0);
        for (user, used) in users.into_iter().chain(more).chain([four]) {
            tree.has_used(user, Usage(used));
        }
        let check = |place, shares: f64, effective: f64| {
            let got = standing(&tree, place);
            let all = 70.0;
            assert!((got.shares as f64 / ONE as f64 - shares).abs() < 1e-8, "{got:?}");
            let want = effective / all;
            assert!((got.effective as f64 / ONE as f64 - want).abs() < 1e-8, "{got:?}");
            let want = (-want / shares).exp2();
            assert!((factor(got, 1) as f64 / ONE as f64 - want).abs() < 1e-7, "{got:?}");
        };
        let part = |own: f64, above: f64, shares: f64| own + (above - own) * shares;
        let in_a = part(45.0, 70.0, 0.4);
        let in_b = part(20.0, in_a, 0.75);
        check(a, 0.4, in_a);
        check(one, 0.3, in_b);
        check(two, 0.05, part(15.0, part(25.0, in_a, 0.25), 0.5));
        let in_f = part(0.0, part(25.0, 70.0, 0.6), 35.0 / 60.0);
        check(four.0, 0.35, in_f);
    }

    #[test]
    fn edges() {
        let none = Standing {
            shares: 0,
            used: 0,
            effective: 0,
        };
        assert_eq!(factor(none, 1), 0);
        let idle = Standing {
            shares: ONE / 2,
            ..none
        };
        assert_eq!(factor(idle, 1), ONE);
        let even = Standing {
            effective: ONE / 2,
            ..idle
        };
        assert_eq!(factor(even, 1), ONE / 2);
        assert_eq!(factor(even, 2), (ONE as f64 / 2f64.sqrt()) as u64);
        assert_eq!(ratio(u128::MAX, u128::MAX), ONE);
        assert_eq!(ratio(u128::MAX / 2, u128::MAX), ONE / 2 - 1);
    }
}
