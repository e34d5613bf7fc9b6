//! The walk through the tree that gives ranks.

use super::{FairTree, LevelFairShare, Place, Ties};
use std::borrow::Cow;

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
pub(super) fn walk(tree: &FairTree) -> (Vec<(Place, u32)>, bool) {
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
