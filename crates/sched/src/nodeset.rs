//! The nodes of one job or booking, stored by what is in the set and not by the size of
//! the machine: most jobs hold few nodes of many.
//!
//! What always holds: words are in ascending order, each once, and none is zero.

use crate::NodeMask;
use crate::mask::lowest;
use cosy_model::NodeId;

/// A few nodes out of many.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct NodeSet {
    /// Places of words in a mask, and their bits.
    words: Vec<(u32, u64)>,
}

impl NodeSet {
    /// The nodes of a mask.
    pub(crate) fn of(mask: &NodeMask) -> Self {
        Self {
            words: mask.words().collect(),
        }
    }

    /// The lowest `count` nodes that are in both masks, if there are that many, in the
    /// memory of a set that is not needed any more.
    pub(crate) fn first_of(
        a: &NodeMask,
        b: &NodeMask,
        count: u32,
        spare: Option<Self>,
    ) -> Option<Self> {
        let mut words = spare.map(|set| set.words).unwrap_or_default();
        words.clear();
        let mut left = count;
        let both = a.all_words().iter().zip(b.all_words());
        let both = both.map(|(a, b)| a & b).enumerate();
        let mut some = both.filter(|(_, both)| *both != 0);
        while left > 0 {
            let (at, both) = some.next()?;
            let bits = lowest(both, left);
            words.push((at as u32, bits));
            left -= bits.count_ones();
        }
        Some(Self { words })
    }

    /// The words, each with its place.
    pub(crate) fn words(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.words.iter().map(|(at, bits)| (*at as usize, *bits))
    }

    /// True without any node.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many nodes there are.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|(_, bits)| bits.count_ones()).sum()
    }

    /// The nodes, by index.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        let each = |(at, bits): (usize, u64)| bits_of(at, bits);
        self.words().flat_map(each)
    }

    /// Puts `node` into the set.
    pub fn insert(&mut self, node: NodeId) {
        let (word, bit) = (node.0 / 64, 1 << (node.0 % 64));
        match self.words.binary_search_by_key(&word, |(at, _)| *at) {
            Ok(at) => self.words[at].1 |= bit,
            Err(at) => self.words.insert(at, (word, bit)),
        }
    }

    /// Takes `node` out of the set.
    pub fn remove(&mut self, node: NodeId) {
        let (word, bit) = (node.0 / 64, 1 << (node.0 % 64));
        if let Ok(at) = self.words.binary_search_by_key(&word, |(at, _)| *at) {
            self.words[at].1 &= !bit;
            if self.words[at].1 == 0 {
                self.words.remove(at);
            }
        }
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut set = Self::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

/// The nodes of one word of a mask.
pub(crate) fn bits_of(at: usize, bits: u64) -> impl Iterator<Item = NodeId> {
    let mut left = bits;
    std::iter::from_fn(move || {
        let bit = left.trailing_zeros();
        (left != 0).then(|| {
            left &= left - 1;
            NodeId(at as u32 * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_masks() {
        let nodes = [200, 3, 64, 5, 63];
        let set: NodeSet = nodes.iter().map(|n| NodeId(*n)).collect();
        let mask: NodeMask = nodes.iter().map(|n| NodeId(*n)).collect();
        assert_eq!(NodeSet::of(&mask), set);
        assert_eq!(set.iter().collect::<Vec<_>>(), mask.iter().collect::<Vec<_>>());
        assert_eq!((set.count(), mask.count()), (5, 5));
        let mut rest = set.clone();
        rest.remove(NodeId(64));
        rest.remove(NodeId(65));
        assert_eq!(rest.words().map(|w| w.0).collect::<Vec<_>>(), [0, 3]);
        let mut left = mask.clone();
        left.take_set(&rest);
        assert_eq!(left.iter().collect::<Vec<_>>(), [NodeId(64)]);
        left.add_set(&rest);
        left.insert(NodeId(64));
        assert_eq!(left, mask);
        assert!(NodeSet::of(&NodeMask::default()).is_empty());
    }
}
