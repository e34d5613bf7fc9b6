//! The exact search: branch and bound over who goes and who stays.
//!
//! Candidates are decided on in the order of what they cost. A branch is left when those that have
//! gone in it cost as much as the best set known, or when the job would not fit even if everybody
//! went who is not decided on.

use super::question::{Question, Set};
use super::room::{Holder, Room};

/// With more who could help, the search would not come far.
const MOST: usize = 48;

/// The best set, at least as good as `known`. All of `all` have gone in the second room.
pub(super) fn best(
    question: &mut Question<'_>,
    room: Room<'_>,
    all: Room<'_>,
    known: Option<Set>,
) -> Option<Set> {
    if question.order.len() > MOST {
        return known;
    }
    let mut search = Search {
        question,
        low: room,
        high: all,
        chosen: Vec::new(),
        cost: 0,
        best: known,
    };
    search.go(0);
    search.best
}

struct Search<'q, 'a, 'r> {
    question: &'q mut Question<'a>,
    /// Without those that are chosen.
    low: Room<'r>,
    /// Without those that are not decided on either.
    high: Room<'r>,
    chosen: Vec<usize>,
    cost: u128,
    best: Option<Set>,
}

impl Search<'_, '_, '_> {
    fn go(&mut self, next: usize) {
        let here = Set {
            cost: self.cost,
            count: self.chosen.len(),
            who: self.chosen.clone(),
        };
        if self.best.as_ref().is_some_and(|best| *best <= here) || self.question.left == 0 {
            return;
        }
        if !self.chosen.is_empty() && self.question.is_enough(&self.low, &self.chosen) {
            self.best = Some(here);
            return;
        }
        let Some(one) = self.question.order.get(next) else {
            return;
        };
        let (cost, most) = (u128::from(one.cost), self.cost);
        let dear = |best: &Set| most + cost > best.cost;
        if self.best.as_ref().is_some_and(dear) {
            return; // all that follow cost as much
        }
        self.cost += cost;
        self.chosen.push(next);
        self.change(next, |room, at, holder| room.free(at, holder), false);
        self.go(next + 1);
        self.change(next, |room, at, holder| room.take(at, holder), false);
        self.chosen.pop();
        self.cost -= cost;
        self.change(next, |room, at, holder| room.take(at, holder), true);
        if self.high.fits() {
            self.go(next + 1);
        }
        self.change(next, |room, at, holder| room.free(at, holder), true);
    }

    fn change(&mut self, at: usize, what: impl Fn(&mut Room<'_>, usize, &Holder), high: bool) {
        let Some(holder) = self.question.holders.get(at) else {
            return;
        };
        let size = holder.size();
        match high {
            true => what(&mut self.high, at, holder),
            false => what(&mut self.low, at, holder),
        }
        self.question.left = self.question.left.saturating_sub(size);
    }
}
