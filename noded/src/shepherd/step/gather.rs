//! Exchanges of a parallel program: the shares of this node and of everything below it,
//! put together.
//!
//! Pure. Always holds: a round is complete when this node's share and that of every child
//! that still takes part are there, and is given out once; rounds complete in order.

use cosy_model::OsText;
use cosy_model::limits::STEP_FRAME;
use std::collections::BTreeMap;

/// Shares by node number.
pub type Parts = Vec<(u32, OsText)>;
/// Rounds that may be open at once: one and those that others have begun already.
const OPEN: usize = 4;

/// Why an exchange cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExchangeError {
    /// Too large for a frame.
    #[error("exchange {0} of the step has more than {STEP_FRAME} bytes")]
    TooLarge(u32),
    /// Out of order.
    #[error("exchange {0} of the step came out of order")]
    OutOfOrder(u32),
}

#[derive(Debug, Default)]
struct Round {
    own: bool,
    children: Vec<bool>,
    parts: Parts,
    bytes: usize,
}

/// All open rounds.
#[derive(Debug)]
pub struct Gather {
    /// Number of this node in the step.
    node: u32,
    /// This node has tasks, and so a share of its own.
    takes_part: bool,
    /// True for each child that takes part.
    children: Vec<bool>,
    rounds: BTreeMap<u32, Round>,
    /// Next own round.
    own: u32,
    /// Next round to complete.
    next: u32,
}

impl Gather {
    /// For node number `node`, which has tasks or only passes on what so many children
    /// bring.
    pub fn new(node: u32, takes_part: bool, children: usize) -> Self {
        Self {
            node,
            takes_part,
            children: vec![true; children],
            rounds: BTreeMap::new(),
            own: 0,
            next: 0,
        }
    }

    /// This node's share of its next round.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn own(&mut self, share: Vec<u8>) -> Result<(), ExchangeError> {
        let (number, node) = (self.own, self.node);
        self.own = number.saturating_add(1);
        let round = self.round(number)?;
        round.own = true;
        round.add(number, vec![(node, OsText(share))])
    }

    /// A child's shares of a round.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn child(&mut self, child: usize, number: u32, parts: Parts) -> Result<(), ExchangeError> {
        let round = self.round(number)?;
        match round.children.get_mut(child) {
            Some(there) if !*there => *there = true,
            Some(_) | None => return Err(ExchangeError::OutOfOrder(number)),
        }
        round.add(number, parts)
    }

    /// Nothing more comes from this child.
    pub fn child_gone(&mut self, child: usize) {
        if let Some(takes_part) = self.children.get_mut(child) {
            *takes_part = false;
        }
    }

    /// Others have begun a round to which this node has not added its share yet.
    pub fn waits_for_own(&self) -> bool {
        self.rounds.get(&self.own).is_some_and(|round| !round.own)
    }

    /// The next round that is complete: its number and shares by node.
    pub fn complete(&mut self) -> Option<(u32, Parts)> {
        let round = self.rounds.get(&self.next)?;
        let children = self.children.iter().zip(&round.children);
        let own = round.own || !self.takes_part;
        let whole = own && children.fold(true, |all, (part, there)| all && (!part || *there));
        if !whole {
            return None;
        }
        let number = self.next;
        self.next = self.next.saturating_add(1);
        let mut parts = self.rounds.remove(&number)?.parts;
        parts.sort_by_key(|(node, _)| *node);
        Some((number, parts))
    }

    fn round(&mut self, number: u32) -> Result<&mut Round, ExchangeError> {
        let known = self.rounds.contains_key(&number);
        if number < self.next || (!known && self.rounds.len() >= OPEN) {
            return Err(ExchangeError::OutOfOrder(number));
        }
        let children = self.children.len();
        Ok(self.rounds.entry(number).or_insert_with(|| Round {
            children: vec![false; children],
            ..Round::default()
        }))
    }
}

impl Round {
    fn add(&mut self, number: u32, parts: Parts) -> Result<(), ExchangeError> {
        // What a share costs in a frame beside its bytes is little.
        let bytes: usize = parts.iter().map(|(_, share)| share.0.len() + 16).sum();
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > STEP_FRAME - 64 {
            return Err(ExchangeError::TooLarge(number));
        }
        self.parts.extend(parts);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounds() {
        let mut gather = Gather::new(0, true, 2);
        gather.own(vec![0]).unwrap();
        gather
            .child(1, 0, vec![(3, OsText(vec![3])), (2, OsText(vec![2]))])
            .unwrap();
        assert_eq!(gather.complete(), None);
        assert!(gather.child(1, 0, Vec::new()).is_err());
        assert!(gather.child(9, 0, Vec::new()).is_err());
        gather.child(0, 0, vec![(1, OsText(vec![1]))]).unwrap();
        let (round, parts) = gather.complete().unwrap();
        assert_eq!(round, 0);
        assert_eq!(parts.iter().map(|p| p.0).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(gather.child(0, 0, Vec::new()).is_err());
        assert!(!gather.waits_for_own());
        gather.child(1, 1, Vec::new()).unwrap();
        assert!(gather.waits_for_own());
        gather.child_gone(0);
        gather.child_gone(1);
        gather.own(Vec::new()).unwrap();
        assert_eq!(gather.complete().unwrap().0, 1);
    }

    #[test]
    fn a_node_without_tasks_passes_on() {
        let mut gather = Gather::new(0, false, 1);
        assert_eq!(gather.complete(), None);
        let parts = vec![(1, OsText(vec![1]))];
        gather.child(0, 0, parts.clone()).unwrap();
        assert_eq!(gather.complete(), Some((0, parts)));
    }

    #[test]
    fn limits() {
        let mut gather = Gather::new(0, true, 0);
        let large = gather.own(vec![0; STEP_FRAME]);
        assert_eq!(large, Err(ExchangeError::TooLarge(0)));
        let mut gather = Gather::new(0, true, 1);
        for round in 0..OPEN as u32 {
            gather.child(0, round, Vec::new()).unwrap();
        }
        assert!(gather.child(0, OPEN as u32, Vec::new()).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn whatever_the_order(order in Just((0usize..5).collect::<Vec<_>>()).prop_shuffle()) {
            let mut gather = Gather::new(9, true, 4);
            for (at, who) in order.iter().enumerate() {
                prop_assert_eq!(gather.complete(), None, "after {}", at);
                match who {
                    4 => gather.own(vec![9]).unwrap(),
                    child => gather.child(*child, 0, vec![(*child as u32, OsText(vec![]))]).unwrap(),
                }
            }
            let (_, parts) = gather.complete().unwrap();
            let nodes: Vec<u32> = parts.iter().map(|p| p.0).collect();
            prop_assert_eq!(nodes, [0, 1, 2, 3, 9]);
        }
    }
}
