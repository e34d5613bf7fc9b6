//! Fair Tree: users in the order of a depth-first walk through the tree of accounts, at each level those
//! first who have used least of what is theirs.
//!
//! For a child of an account: S = its shares / those of all children, U = its use / that of the account,
//! level fair share = S / U. Without shares it is zero, else without use it is infinite. Children are
//! walked from the highest to the lowest, of equal ones users before accounts. The first user walked has
//! rank N, the number of all users, the next N - 1, and so on; users of equal level fair share have the
//! same rank, and the ranks after it are left out.
//! `Fairshare=parent`: a user's is infinite; an account with it is no level, its children count as those of
//! the account above it.
//!
//! Source: <https://slurm.schedmd.com/fair_tree.html>; Cox, Morrison, "Fair Tree", Slurm User Group 2014.
//!
//! **Tied accounts** ([`Ties`]). By that page children of accounts with the same level fair share are
//! walked as one list, and a user tied with an account has the rank of its best user. Slurm's code never
//! merges: accounts are walked one after the other, and the first user of the second takes the rank of the
//! last user of the first. Cosy merges: then equal accounts are treated alike, whatever order they were
//! made in, and what users can read is what happens.
//!
//! What always holds: the use of an account is its own and that of its children; only accounts with users
//! below are in lines; when ranks were given a line of children is in order, and until they are given anew
//! whoever has used something since is noted, and whose line has grown.

#[cfg(test)]
mod tests;

use crate::ordinals;
use crate::usage::Usage;
use crate::wide::Fraction;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

/// A number of a user in an account, or of an account. Numbers are given out one after the other; that of
/// the root is 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Place(u32);

impl Place {
    /// The account over all.
    pub const ROOT: Self = Self(0);

    /// The number, for tables beside the tree.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What somebody is to get of what the account above gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shares {
    /// So many, beside those of the siblings.
    Of(u32),
    /// None of its own: `Fairshare=parent`.
    Parent,
}

/// What becomes of accounts with the same level fair share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ties {
    /// Their children are walked as one list.
    #[default]
    Merged,
    /// They are walked one after the other, as Slurm's code does up to 26.11.
    OneByOne,
}

/// How one of several children stands at its level: the highest is served first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LevelFairShare(Level);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Level {
    NoShares,
    Ratio(Fraction),
    NoUse,
}

#[derive(Clone, Debug)]
struct Node {
    /// The account above; the root's is the root.
    above: Place,
    /// The nearest account above that is a level: not one with `Fairshare=parent`.
    level: Place,
    is_user: bool,
    shares: Shares,
    /// What it has used itself.
    own: Usage,
    /// With what all below have used.
    usage: Usage,
    /// Of its level: the shares of all children.
    all_shares: u64,
    /// Users below.
    users: u32,
    /// The children of its level, as they stood when ranks were given.
    line: Vec<Place>,
    /// Its place in the line of its level.
    at: u32,
    /// It stands as high as the one before it in that line.
    tied: bool,
    /// Its use has changed since ranks were given.
    noted: bool,
    standing: Ranked,
}

/// How a user stands among all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ranked {
    /// From the number of all users downwards: the highest is served first. Zero before it is given.
    pub rank: u32,
    /// In the order of ranks, but few change when ranks do: see [`crate::ordinals`]. Zero before it is
    /// given.
    pub ordinal: i64,
}

/// Who stands otherwise than before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Moved {
    /// Users with another rank.
    pub ranks: Vec<Place>,
    /// Users with another ordinal.
    pub ordinals: Vec<Place>,
}

impl Node {
    fn new(above: Place, level: Place, is_user: bool, shares: Shares) -> Self {
        Self {
            above,
            level,
            is_user,
            shares,
            own: Usage(0),
            usage: Usage(0),
            all_shares: 0,
            users: 0,
            line: Vec::new(),
            at: 0,
            tied: false,
            noted: false,
            standing: Ranked::default(),
        }
    }

    fn is_level(&self) -> bool {
        !self.is_user && self.shares != Shares::Parent
    }

    /// Whether it stands in the line of its level.
    fn is_in_line(&self) -> bool {
        self.users > 0 && (self.is_user || self.is_level())
    }
}

/// Accounts and users with shares and use, and the ranks of users. Built once for a set of accounts;
/// shares and use may change, accounts and users may come. Where some go a new tree is built.
#[derive(Clone, Debug)]
pub struct FairTree {
    nodes: Vec<Node>,
    ties: Ties,
    /// Whose use has changed since ranks were given.
    noted: Vec<Place>,
    /// Levels whose line has grown since then.
    grown: Vec<Place>,
    /// Children of accounts that are tied were walked as one list: whoever uses something there may change
    /// ranks though no line is in another order.
    merged: bool,
    /// The ordinal of who is served first.
    first: i64,
    /// Users with their ranks, in the order of the last walk.
    walked: Vec<(Place, u32)>,
}

impl FairTree {
    /// Only the root.
    pub fn new(ties: Ties) -> Self {
        let root = Node::new(Place::ROOT, Place::ROOT, false, Shares::Of(1));
        Self {
            nodes: vec![root],
            ties,
            noted: Vec::new(),
            grown: Vec::new(),
            merged: false,
            first: 0,
            walked: Vec::new(),
        }
    }

    /// An account below another; below a user or nobody it is put below the root.
    pub fn add_account(&mut self, above: Place, shares: Shares) -> Place {
        self.add(above, false, shares)
    }

    /// A user in an account.
    pub fn add_user(&mut self, above: Place, shares: Shares) -> Place {
        self.add(above, true, shares)
    }

    fn add(&mut self, above: Place, is_user: bool, shares: Shares) -> Place {
        let account = self.node(above).is_some_and(|node| !node.is_user);
        let above = if account { above } else { Place::ROOT };
        let level = match self.node(above) {
            Some(node) if above != Place::ROOT && !node.is_level() => node.level,
            _ => above,
        };
        let place = Place(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(Node::new(above, level, is_user, shares));
        if let (Shares::Of(shares), Some(level)) = (shares, self.nodes.get_mut(level.index())) {
            level.all_shares += u64::from(shares);
        }
        if is_user {
            self.has_user(place);
        }
        place
    }

    /// That user, and the accounts above that had none, are in lines from now on.
    fn has_user(&mut self, user: Place) {
        let mut place = user;
        loop {
            let Some(node) = self.nodes.get_mut(place.index()) else {
                return;
            };
            node.users += 1;
            let (above, level) = (node.above, node.level);
            let first = node.users == 1 && node.is_in_line();
            if place == Place::ROOT {
                return;
            }
            if let (true, Some(line)) = (first, self.nodes.get_mut(level.index())) {
                line.line.push(place);
                self.grown.push(level);
            }
            place = above;
        }
    }

    /// Somebody has used so much in all, an account without what users below have used.
    pub fn has_used(&mut self, place: Place, usage: Usage) {
        let Some(node) = self.nodes.get_mut(place.index()) else {
            return;
        };
        let old = std::mem::replace(&mut node.own, usage);
        if old == usage {
            return;
        }
        let mut at = place;
        while let Some(node) = self.nodes.get_mut(at.index()) {
            node.usage = Usage(node.usage.0.saturating_sub(old.0)).plus(usage);
            if at == Place::ROOT {
                return;
            }
            if !std::mem::replace(&mut node.noted, true) {
                self.noted.push(at);
            }
            at = node.above;
        }
    }

    fn node(&self, place: Place) -> Option<&Node> {
        self.nodes.get(place.index())
    }

    /// Number of users in all accounts: N.
    pub fn users(&self) -> u32 {
        self.node(Place::ROOT).map_or(0, |root| root.users)
    }

    /// The rank of a user when ranks were last given, from N downwards: the highest is served first. Zero
    /// for accounts, and for users that had no rank yet.
    pub fn rank_of(&self, user: Place) -> u32 {
        self.standing_of(user).rank
    }

    /// How a user stood when ranks were last given.
    pub fn standing_of(&self, user: Place) -> Ranked {
        self.node(user)
            .map_or_else(Ranked::default, |node| node.standing)
    }

    /// Ranks by place when they were last given; zero for accounts.
    pub fn ranks(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.standing.rank).collect()
    }

    /// The ordinal of those who were served first when ranks were last given; zero where there was nobody.
    pub const fn first_ordinal(&self) -> i64 {
        self.first
    }

    /// A user stood like that in a tree before this one.
    pub fn stood(&mut self, user: Place, standing: Ranked) {
        if let Some(node) = self.nodes.get_mut(user.index()) {
            node.standing = standing;
            self.walked.clear(); // its ranks are none of this tree
            self.first = self.first.max(standing.ordinal);
        }
    }

    /// The account above; `None` for the root.
    pub fn above(&self, place: Place) -> Option<Place> {
        let above = self.node(place)?.above;
        (place != Place::ROOT).then_some(above)
    }

    /// The account that is the level of somebody: the nearest above without `Fairshare=parent`.
    pub fn level_of(&self, place: Place) -> Place {
        self.node(place).map_or(Place::ROOT, |node| node.level)
    }

    /// Its shares, and those of all children of its level together.
    pub fn shares_of(&self, place: Place) -> (Shares, u64) {
        let all = self
            .node(self.level_of(place))
            .map_or(0, |level| level.all_shares);
        (self.node(place).map_or(Shares::Of(0), |node| node.shares), all)
    }

    /// Its use with that of all below.
    pub fn usage_of(&self, place: Place) -> Usage {
        self.node(place).map_or(Usage(0), |node| node.usage)
    }

    /// The children of a level that have users, the first to be served first, as of the last ranks.
    pub fn line_of(&self, level: Place) -> &[Place] {
        self.node(level).map_or(&[], |node| &node.line)
    }

    /// What it has used itself, as it was told last.
    pub fn own_use_of(&self, place: Place) -> Usage {
        self.node(place).map_or(Usage(0), |node| node.own)
    }

    /// Whether that place is a user and no account.
    pub fn is_user(&self, place: Place) -> bool {
        self.node(place).is_some_and(|node| node.is_user)
    }

    /// How it stands at its level.
    pub fn level_fair_share(&self, place: Place) -> LevelFairShare {
        let Some(node) = self.node(place) else {
            return LevelFairShare(Level::NoShares);
        };
        let level = self
            .node(node.level)
            .map_or((0, Usage(0)), |l| (l.all_shares, l.usage));
        LevelFairShare(match (node.shares, node.usage.0) {
            (Shares::Of(0), _) => Level::NoShares,
            (Shares::Parent, _) | (_, 0) => Level::NoUse,
            // the level's sums are not zero: this child is a part of them
            (Shares::Of(shares), usage) => {
                Level::Ratio(Fraction::new((u64::from(shares), level.1.0), (level.0.max(1), usage)))
            }
        })
    }

    /// Gives ranks anew, and tells which users stand otherwise than before.
    pub fn rank(&mut self) -> Moved {
        let changed = self.order_lines();
        if !changed && !self.merged && self.walked.len() == self.users() as usize {
            return Moved::default();
        }
        let (walked, merged) = walk(self);
        self.merged = merged;
        if walked == self.walked {
            return Moved::default();
        }
        let changed = self.changed_part(&walked);
        let numbers = self.numbers_within(&walked, changed.clone());
        let (part, ordinals) = match numbers {
            Some(numbers) => (changed, numbers),
            None => (0..walked.len(), ordinals::numbers(&self.members(&walked))),
        };
        let mut moved = Moved::default();
        let mut ordinals = ordinals.into_iter().rev();
        let mut now = Ranked::default();
        for (user, rank) in walked.get(part).unwrap_or_default().iter().copied() {
            if now.rank != rank {
                let ordinal = ordinals.next().unwrap_or(0);
                now = Ranked { rank, ordinal };
            }
            let Some(node) = self.nodes.get_mut(user.index()) else {
                continue;
            };
            let before = std::mem::replace(&mut node.standing, now);
            if before.rank != now.rank {
                moved.ranks.push(user);
            }
            if before.ordinal != now.ordinal {
                moved.ordinals.push(user);
            }
        }
        let first = walked.first().map(|(user, _)| self.standing_of(*user));
        self.first = first.map_or(0, |first| first.ordinal);
        self.walked = walked;
        moved
    }

    /// Where the walk is another than before: none of those around it has a rank with one of those in it.
    fn changed_part(&self, walked: &[(Place, u32)]) -> Range<usize> {
        let pairs = walked.iter().zip(&self.walked);
        let mut from = pairs.take_while(|(now, before)| now == before).count();
        let pairs = walked.iter().rev().zip(self.walked.iter().rev());
        let same = pairs.take_while(|(now, before)| now == before).count();
        let mut until = walked.len().saturating_sub(same).max(from);
        let rank = |at: usize| walked.get(at).map(|(_, rank)| *rank);
        while from > 0 && rank(from - 1) == rank(from) {
            from -= 1;
        }
        while until < walked.len() && rank(until) == rank(until - 1) {
            until += 1;
        }
        from..until
    }

    /// Ordinals of those in that part of the walk, where there is room for them between those around it.
    fn numbers_within(&self, walked: &[(Place, u32)], part: Range<usize>) -> Option<Vec<i64>> {
        let ordinal = |at: usize| {
            walked
                .get(at)
                .map(|(user, _)| self.standing_of(*user).ordinal)
        };
        let above = part.start.checked_sub(1).map(ordinal);
        let above = above.map_or(Some(ordinals::MOST), |ordinal| ordinal)?;
        let below = ordinal(part.end).unwrap_or(0);
        ordinals::numbers_between(&self.members(walked.get(part)?), below, above)
    }

    /// Those who were walked with their ordinals, grouped by rank, the lowest one first.
    fn members(&self, walked: &[(Place, u32)]) -> Vec<(usize, Option<i64>)> {
        let (mut group, mut of) = (0, None);
        let each = walked.iter().rev().map(|(user, rank)| {
            group += usize::from(of.replace(*rank).is_some_and(|before| before != *rank));
            let before = self.standing_of(*user).ordinal;
            (group, Some(before).filter(|ordinal| *ordinal > 0))
        });
        each.collect()
    }

    /// Puts the lines in order in which somebody has overtaken or come. False: none of them has changed.
    fn order_lines(&mut self) -> bool {
        let mut levels = std::mem::take(&mut self.grown);
        for place in std::mem::take(&mut self.noted) {
            if let Some(node) = self.nodes.get_mut(place.index()) {
                node.noted = false;
            }
            if !self.stands_right(place) {
                levels.push(self.level_of(place));
            }
        }
        levels.sort_unstable();
        levels.dedup();
        for level in &levels {
            self.put_line_in_order(*level);
        }
        !levels.is_empty()
    }

    /// Whether it stands between those beside it in its line as it did. It is enough to ask this of whoever
    /// has used something: by how much another uses more or less than the sum of its level changes nothing
    /// between two others.
    fn stands_right(&self, place: Place) -> bool {
        let Some(node) = self.node(place).filter(|node| node.is_in_line()) else {
            return true; // it stands nowhere
        };
        let line = self.line_of(node.level);
        let as_before = |first: Option<&Place>, second: Option<&Place>| {
            let (Some(first), Some(second)) = (first, second) else {
                return true;
            };
            let tied = self.node(*second).is_some_and(|node| node.tied);
            let (one, two) = (self.order_of(*first), self.order_of(*second));
            one < two && tied == (one.0 == two.0)
        };
        let before = node.at.checked_sub(1).and_then(|at| line.get(at as usize));
        let itself = line.get(node.at as usize);
        as_before(before, itself) && as_before(itself, line.get(node.at as usize + 1))
    }

    fn put_line_in_order(&mut self, level: Place) {
        let line = self.line_of(level).iter();
        let mut keyed: Vec<_> = line.map(|place| self.order_of(*place)).collect();
        keyed.sort();
        let mut before = None;
        for (at, (share, _, place)) in (0..).zip(&keyed) {
            let tied = before.replace(*share) == Some(*share);
            if let Some(node) = self.nodes.get_mut(place.index()) {
                (node.at, node.tied) = (at, tied);
            }
        }
        if let Some(node) = self.nodes.get_mut(level.index()) {
            node.line = keyed.into_iter().map(|(_, _, place)| place).collect();
        }
    }

    /// From the highest level fair share down, users before accounts, then as they were made.
    fn put_in_order(&self, line: &mut [Place]) {
        line.sort_by_cached_key(|place| self.order_of(*place));
    }

    /// The lesser is walked first.
    fn order_of(&self, place: Place) -> (Reverse<LevelFairShare>, bool, Place) {
        (Reverse(self.level_fair_share(place)), !self.is_user(place), place)
    }
}

/// A line that is being walked.
struct Walk<'a> {
    line: Cow<'a, [Place]>,
    at: usize,
    /// The first one is tied with what came before its account.
    tied: bool,
    /// Of a line that is made of several: the level fair share of the one before.
    before: Option<LevelFairShare>,
}

impl<'a> Walk<'a> {
    const fn of(line: Cow<'a, [Place]>, tied: bool) -> Self {
        Self {
            line,
            at: 0,
            tied,
            before: None,
        }
    }

    /// The next in the line, and whether it is tied with what came before it.
    fn ahead(&self, tree: &FairTree) -> Option<(Place, bool)> {
        let place = self.line.get(self.at).copied()?;
        let tied = match (self.at, &self.line) {
            (0, _) => self.tied,
            (_, Cow::Borrowed(_)) => tree.node(place).is_some_and(|node| node.tied),
            (_, Cow::Owned(_)) => self.before == Some(tree.level_fair_share(place)),
        };
        Some((place, tied))
    }

    /// Goes over the next one, if it is such a one.
    fn next_if(
        &mut self,
        tree: &FairTree,
        such: impl FnOnce(bool) -> bool,
    ) -> Option<(Place, bool)> {
        let (place, tied) = self.ahead(tree).filter(|(_, tied)| such(*tied))?;
        if let Cow::Owned(_) = self.line {
            self.before = Some(tree.level_fair_share(place));
        }
        self.at += 1;
        Some((place, tied))
    }
}

/// Each user with its rank, in the order of the walk; and whether children of several accounts were walked
/// as one list.
fn walk(tree: &FairTree) -> (Vec<(Place, u32)>, bool) {
    let mut next = tree.users();
    let (mut given, mut merged) = (next, false);
    let mut ranks = Vec::with_capacity(next as usize);
    let mut under_way = vec![Walk::of(Cow::Borrowed(tree.line_of(Place::ROOT)), false)];
    while let Some(walk) = under_way.last_mut() {
        let Some((place, tied)) = walk.next_if(tree, |_| true) else {
            under_way.pop();
            continue;
        };
        if tree.is_user(place) {
            if !tied {
                given = next;
            }
            ranks.push((place, given));
            next = next.saturating_sub(1);
            continue;
        }
        let mut line = Cow::Borrowed(tree.line_of(place));
        while tree.ties == Ties::Merged
            && let Some((other, _)) = walk.next_if(tree, |tied| tied)
        {
            line.to_mut().extend_from_slice(tree.line_of(other));
        }
        if let Cow::Owned(line) = &mut line {
            tree.put_in_order(line);
            merged = true;
        }
        under_way.push(Walk::of(line, tied));
    }
    (ranks, merged)
}
