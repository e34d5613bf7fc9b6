//! Fair Tree against brute force written from the words of the documentation, on random trees.

use cosy_policy::fair_tree::{FairTree, Moved, Place, Shares, Ties};
use cosy_policy::usage::Usage;
use proptest::prelude::*;
use std::cmp::Ordering;

/// A tree as the documentation speaks of it.
#[derive(Clone, Debug)]
struct Member {
    place: Place,
    shares: Option<u32>,
    /// `None` for accounts.
    own: Option<u64>,
    children: Vec<Member>,
}

impl Member {
    fn usage(&self) -> u64 {
        self.own.unwrap_or(0) + self.children.iter().map(Self::usage).sum::<u64>()
    }

    fn users(&self) -> usize {
        usize::from(self.own.is_some()) + self.children.iter().map(Self::users).sum::<usize>()
    }

    /// Children, those of accounts with `Fairshare=parent` as own ones.
    fn effective(&self) -> Vec<&Member> {
        let skipped = |child: &Member| child.own.is_none() && child.shares.is_none();
        let each = self.children.iter().map(|child| match skipped(child) {
            true => child.effective(),
            false => vec![child],
        });
        each.flatten().collect()
    }
}

/// A child with its level fair share as a fraction: 1/0 is infinite.
type Entry<'a> = (&'a Member, (u128, u128));

fn entries(account: &Member) -> Vec<Entry<'_>> {
    let children = account.effective();
    let all: u128 = children
        .iter()
        .map(|c| u128::from(c.shares.unwrap_or(0)))
        .sum();
    let whole = u128::from(account.usage());
    let share = |child: &&Member| match (child.shares, u128::from(child.usage())) {
        (Some(0), _) => (0, 1),
        (None, _) | (_, 0) => (1, 0),
        (Some(shares), usage) => (u128::from(shares) * whole, all * usage),
    };
    let mut entries: Vec<Entry> = children.iter().map(|c| (*c, share(c))).collect();
    entries.retain(|(child, _)| child.users() > 0);
    entries
}

fn order(a: (u128, u128), b: (u128, u128)) -> Ordering {
    (a.0 * b.1).cmp(&(b.0 * a.1))
}

/// Groups of equals, the highest first.
fn groups(mut entries: Vec<Entry<'_>>) -> Vec<Vec<Entry<'_>>> {
    entries.sort_by(|a, b| order(b.1, a.1).then(a.0.place.cmp(&b.0.place)));
    let mut groups: Vec<Vec<Entry>> = Vec::new();
    for entry in entries {
        match groups.last_mut() {
            Some(group) if order(group[0].1, entry.1).is_eq() => group.push(entry),
            _ => groups.push(vec![entry]),
        }
    }
    groups
}

/// Sets of users of equal rank, from the first on: tied users are one, children of tied accounts are one
/// list, and tied users belong to its best users.
fn best_first(entries: Vec<Entry<'_>>) -> Vec<Vec<Place>> {
    let mut out = Vec::new();
    for group in groups(entries) {
        let (users, accounts): (Vec<_>, Vec<_>) = group.iter().partition(|e| e.0.own.is_some());
        let below = accounts
            .iter()
            .flat_map(|(account, _)| self::entries(account));
        let mut sets = best_first(below.collect());
        let users: Vec<Place> = users.iter().map(|(user, _)| user.place).collect();
        match sets.first_mut() {
            Some(best) => best.splice(0..0, users).for_each(drop),
            None => sets.push(users),
        }
        out.extend(sets.into_iter().filter(|set| !set.is_empty()));
    }
    out
}

fn brute(root: &Member) -> Vec<(Place, u32)> {
    let mut next = root.users() as u32;
    let mut ranks = Vec::new();
    for set in best_first(entries(root)) {
        let rank = next;
        next -= set.len() as u32;
        ranks.extend(set.into_iter().map(|user| (user, rank)));
    }
    ranks.sort_unstable();
    ranks
}

/// Where to hang somebody, whether it is a user, shares, use: few values, so that many are tied.
type Sketch = Vec<(usize, bool, Option<u32>, u64)>;

fn sketch() -> impl Strategy<Value = Sketch> {
    let shares = prop_oneof![1 => Just(None), 1 => Just(Some(0)), 6 => (1..4u32).prop_map(Some)];
    let used = prop_oneof![2 => Just(0u64), 5 => (1..4u64).prop_map(|n| n * 6), 1 => 0..1u64 << 40];
    prop::collection::vec((0..100usize, prop::bool::weighted(0.6), shares, used), 1..40)
}

/// Who uses how much from one time to the next at which ranks are given.
fn later() -> impl Strategy<Value = Vec<Vec<(usize, u64)>>> {
    prop::collection::vec(prop::collection::vec((0..100usize, 0..5u64), 1..4), 0..6)
}

fn hang(member: &mut Member, above: Place, new: &Member) {
    if member.place == above {
        member.children.push(new.clone());
    }
    member
        .children
        .iter_mut()
        .for_each(|child| hang(child, above, new));
}

fn build(sketch: &Sketch) -> (FairTree, Member, Vec<Place>) {
    let mut tree = FairTree::new(Ties::Merged);
    let mut root = Member {
        place: Place::ROOT,
        shares: Some(1),
        own: None,
        children: Vec::new(),
    };
    let (mut accounts, mut users) = (vec![Place::ROOT], Vec::new());
    for (above, is_user, shares, used) in sketch {
        let above = accounts[above % accounts.len()];
        let how = shares.map_or(Shares::Parent, Shares::Of);
        let place = match is_user {
            true => tree.add_user(above, how),
            false => tree.add_account(above, how),
        };
        let new = Member {
            place,
            shares: *shares,
            own: is_user.then_some(*used),
            children: Vec::new(),
        };
        hang(&mut root, above, &new);
        if *is_user {
            tree.has_used(place, Usage(u128::from(*used)));
            users.push(place);
        } else {
            accounts.push(place);
        }
    }
    (tree, root, users)
}

fn set(member: &mut Member, user: Place, used: u64) {
    if member.place == user {
        member.own = Some(used);
    }
    member
        .children
        .iter_mut()
        .for_each(|child| set(child, user, used));
}

fn ranks(tree: &FairTree, users: &[Place]) -> Vec<(Place, u32)> {
    users
        .iter()
        .map(|user| (*user, tree.rank_of(*user)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn as_the_documentation_says(sketch in sketch(), later in later()) {
        let (mut tree, mut root, users) = build(&sketch);
        tree.rank();
        prop_assert_eq!(ranks(&tree, &users), brute(&root));
        for each in later.into_iter().filter(|_| !users.is_empty()) {
            let before = ranks(&tree, &users);
            for (who, used) in each {
                let user = users[who % users.len()];
                tree.has_used(user, Usage(u128::from(used * 6)));
                set(&mut root, user, used * 6);
            }
            let stood: Vec<i64> = users.iter().map(|user| tree.standing_of(*user).ordinal).collect();
            let moved = tree.rank();
            let (mut told, mut numbered) = (moved.ranks, moved.ordinals);
            told.sort_unstable();
            numbered.sort_unstable();
            let after = ranks(&tree, &users);
            prop_assert_eq!(&after, &brute(&root));
            let differ = before.iter().zip(&after).filter(|(a, b)| a != b);
            prop_assert_eq!(told, differ.map(|(a, _)| a.0).collect::<Vec<_>>());
            let stand = users.iter().map(|user| (*user, tree.standing_of(*user).ordinal));
            let differ = stood.iter().zip(stand).filter(|(a, b)| **a != b.1);
            prop_assert_eq!(numbered, differ.map(|(_, b)| b.0).collect::<Vec<_>>());
            for one in &users {
                for other in &users {
                    let (one, other) = (tree.standing_of(*one), tree.standing_of(*other));
                    prop_assert_eq!(one.rank.cmp(&other.rank), one.ordinal.cmp(&other.ordinal));
                }
            }
        }
    }
}

/// Ten thousand users in a thousand accounts: what a change tells is little, and ranks are as if the
/// tree were new.
#[test]
fn a_large_tree() {
    let mut tree = FairTree::new(Ties::Merged);
    let accounts: Vec<Place> = (0..1000u32)
        .map(|n| tree.add_account(Place::ROOT, Shares::Of(n % 7 + 1)))
        .collect();
    let users: Vec<Place> = (0..10_000usize)
        .map(|n| tree.add_user(accounts[n % 1000], Shares::Of(1)))
        .collect();
    for (n, user) in users.iter().enumerate() {
        tree.has_used(*user, Usage((n as u128 * 7919 % 10_007 + 1) << 60));
    }
    assert_eq!(tree.rank().ranks.len(), 10_000);
    tree.has_used(users[0], tree.usage_of(users[0]).plus(Usage(1)));
    assert_eq!(tree.rank(), Moved::default());
    tree.has_used(users[77], Usage(0));
    let told = tree.rank();
    assert!(told.ranks.contains(&users[77]) && told.ranks.len() < 10_000, "{}", told.ranks.len());
    // Of all others only those of its account may stand otherwise among themselves and others.
    assert!(told.ordinals.contains(&users[77]) && told.ordinals.len() <= 10, "{told:?}");
}
