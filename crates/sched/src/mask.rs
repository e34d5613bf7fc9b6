//! Sets of nodes as bits over the node index.
//!
//! What always holds: no trailing zero word is stored, so equal sets are equal values
//! whatever size they were made for, and a mask made before nodes were appended to the
//! table stays usable.

use crate::nodeset::{NodeSet, bits_of};
use cosy_model::NodeId;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A set of nodes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct NodeMask(Vec<u64>);

impl NodeMask {
    /// The empty set, with room for the nodes `0..nodes`.
    pub fn new(nodes: usize) -> Self {
        Self(Vec::with_capacity(nodes.div_ceil(64)))
    }

    /// The nodes `0..nodes`.
    pub fn all(nodes: usize) -> Self {
        let mut words = vec![u64::MAX; nodes.div_ceil(64)];
        if let (Some(last), rest @ 1..) = (words.last_mut(), nodes % 64) {
            *last = (1 << rest) - 1;
        }
        Self(words)
    }

    /// Puts `node` into the set.
    pub fn insert(&mut self, node: NodeId) {
        let word = node.index() / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (node.index() % 64);
    }

    /// Takes `node` out of the set.
    pub fn remove(&mut self, node: NodeId) {
        if let Some(word) = self.0.get_mut(node.index() / 64) {
            *word &= !(1 << (node.index() % 64));
            self.trim();
        }
    }

    /// True when `node` is in the set.
    pub fn contains(&self, node: NodeId) -> bool {
        self.word(node.index() / 64) >> (node.index() % 64) & 1 == 1
    }

    /// Nodes in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let words = self.0.iter().zip(&other.0).map(|(a, b)| a & b);
        Self::trimmed(words.collect())
    }

    /// Nodes in either set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        let words = 0..self.0.len().max(other.0.len());
        Self(words.map(|at| self.word(at) | other.word(at)).collect())
    }

    /// Nodes in this set that are not in `other`.
    #[must_use]
    pub fn and_not(&self, other: &Self) -> Self {
        let words = self.0.iter().enumerate();
        Self::trimmed(words.map(|(at, a)| a & !other.word(at)).collect())
    }

    /// The nodes, by index.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        let words = self.0.iter().enumerate();
        words.flat_map(|(at, word)| bits_of(at, *word))
    }

    pub(crate) fn all_words(&self) -> &[u64] {
        &self.0
    }

    /// The words that are not zero, each with its place.
    pub(crate) fn words(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let words = self.0.iter().enumerate();
        words.filter_map(|(at, word)| (*word != 0).then_some((at as u32, *word)))
    }

    /// Takes the nodes of `other` out of the set.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (word, gone) in self.0.iter_mut().zip(&other.0) {
            *word &= !gone;
        }
        self.trim();
    }

    /// Becomes the nodes in both sets, in the memory it has.
    pub(crate) fn set_and(&mut self, a: &Self, b: &Self) {
        self.0.clear();
        self.0.extend(a.0.iter().zip(&b.0).map(|(a, b)| a & b));
        self.trim();
    }

    /// Keeps only the nodes that are in `other` too.
    pub(crate) fn keep(&mut self, other: &Self) {
        self.0.truncate(other.0.len());
        for (word, kept) in self.0.iter_mut().zip(&other.0) {
            *word &= kept;
        }
        self.trim();
    }

    /// Becomes a copy of `other`, in the memory it has.
    pub(crate) fn set_to(&mut self, other: &Self) {
        self.0.clear();
        self.0.extend_from_slice(&other.0);
    }

    /// Puts a few nodes into the set.
    pub(crate) fn add_set(&mut self, nodes: &NodeSet) {
        for (at, bits) in nodes.words() {
            if at >= self.0.len() {
                self.0.resize(at + 1, 0);
            }
            self.0[at] |= bits;
        }
    }

    /// Takes a few nodes out of the set.
    pub(crate) fn take_set(&mut self, nodes: &NodeSet) {
        for (at, bits) in nodes.words() {
            if let Some(word) = self.0.get_mut(at) {
                *word &= !bits;
            }
        }
        self.trim();
    }

    /// Moves nodes from `from` into the set, the lowest first, at most `most` of them and
    /// only those for which `only` (a place and its word) has a bit. Returns how many.
    pub(crate) fn take_first(&mut self, from: &mut Self, most: u32, only: Option<&NodeSet>) -> u32 {
        let mut left = most;
        match only {
            Some(only) => only
                .words()
                .for_each(|(at, bits)| left -= self.take_word(from, left, at, bits)),
            None => {
                let mut at = 0;
                while left > 0
                    && let Some(next) = from.0.get(at..).and_then(first_with_bits)
                {
                    at += next;
                    left -= self.take_word(from, left, at, u64::MAX);
                    at += 1;
                }
            }
        }
        from.trim();
        most - left
    }

    fn take_word(&mut self, from: &mut Self, most: u32, at: usize, only: u64) -> u32 {
        let Some(word) = from.0.get_mut(at) else {
            return 0;
        };
        let bits = lowest(*word & only, most);
        if bits != 0 {
            *word &= !bits;
            if at >= self.0.len() {
                self.0.resize(at + 1, 0);
            }
            self.0[at] |= bits;
        }
        bits.count_ones()
    }

    /// How many of a few nodes are in the set.
    pub(crate) fn count_of(&self, nodes: &NodeSet) -> u32 {
        let both = nodes.words().map(|(at, bits)| self.word(at) & bits);
        both.map(u64::count_ones).sum()
    }

    /// How many nodes are in the set.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// How many nodes are in this set and in all of `inside`, but in none of `outside`.
    pub(crate) fn count_within(&self, inside: [&Self; 2], outside: [&Self; 2]) -> u32 {
        let [a, b] = inside.map(|mask| mask.0.iter());
        let words = self.0.iter().zip(a).zip(b).enumerate();
        let rest =
            words.map(|(at, ((x, a), b))| x & a & b & !outside[0].word(at) & !outside[1].word(at));
        rest.map(u64::count_ones).sum()
    }

    /// How many nodes are in both sets.
    pub(crate) fn count_and(&self, other: &Self) -> u32 {
        let words = self.0.iter().zip(&other.0);
        words.map(|(a, b)| (a & b).count_ones()).sum()
    }

    /// How many of these nodes are in the set: the bits of words from place `first` on.
    pub(crate) fn count_of_words(&self, first: usize, words: &[u64]) -> u32 {
        let own = self.0.iter().skip(first).zip(words);
        own.map(|(a, b)| (a & b).count_ones()).sum()
    }

    /// Puts nodes into the set: the bits of words from place `first` on.
    pub(crate) fn add_words(&mut self, first: usize, words: &[u64]) {
        let end = first + words.len();
        if self.0.len() < end {
            self.0.resize(end, 0);
        }
        for (own, more) in self.0.iter_mut().skip(first).zip(words) {
            *own |= more;
        }
        self.trim();
    }

    /// True when no node is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True when a node is in both sets.
    pub fn intersects(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// True when every node of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        let mut words = self.0.iter().zip(&other.0);
        // The last word of each has bits.
        self.0.len() <= other.0.len() && words.all(|(a, b)| a & !b == 0)
    }

    /// The bits of nodes `64 * at ..`.
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    fn trimmed(words: Vec<u64>) -> Self {
        let mut mask = Self(words);
        mask.trim();
        mask
    }
}

/// The place of the first word that is not zero.
fn first_with_bits(words: &[u64]) -> Option<usize> {
    words.iter().position(|word| *word != 0)
}

/// The lowest `most` bits that are set.
pub(crate) fn lowest(bits: u64, most: u32) -> u64 {
    if bits.count_ones() <= most {
        return bits;
    }
    let mut rest = bits;
    for _ in 0..most {
        rest &= rest - 1;
    }
    bits & !rest
}

/// The words go into one before the hasher sees them: masks are long, and part of every demand.
impl Hash for NodeMask {
    fn hash<H: Hasher>(&self, state: &mut H) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15; // of the golden ratio: spreads bits upwards
        let into = |all: u64, word: &u64| (all.rotate_left(23) ^ word).wrapping_mul(ODD);
        self.0.iter().fold(0, into).hash(state);
    }
}

impl FromIterator<NodeId> for NodeMask {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut mask = Self::default();
        nodes.into_iter().for_each(|node| mask.insert(node));
        mask
    }
}

/// `{0, 5, 64}`.
impl fmt::Debug for NodeMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|n| n.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(nodes: &[u32]) -> NodeMask {
        nodes.iter().map(|n| NodeId(*n)).collect()
    }

    #[test]
    fn set_algebra() {
        let (a, b) = (mask(&[0, 5, 64, 200]), mask(&[5, 63, 200]));
        assert_eq!(a.and(&b), mask(&[5, 200]));
        assert_eq!(a.or(&b), mask(&[0, 5, 63, 64, 200]));
        assert_eq!(a.and_not(&b), mask(&[0, 64]));
        assert_eq!(b.and_not(&a), mask(&[63]));
        assert!(a.intersects(&b) && !mask(&[0]).intersects(&b));
        assert!(mask(&[5]).is_subset(&b) && !a.is_subset(&b));
        assert_eq!(a.iter().map(|n| n.0).collect::<Vec<_>>(), [0, 5, 64, 200]);
        assert_eq!(a.count(), 4);
    }

    #[test]
    fn equal_sets_are_equal_values() {
        let mut a = mask(&[3, 500]);
        a.remove(NodeId(500));
        assert_eq!(a, mask(&[3]));
        assert!(mask(&[500]).and(&mask(&[3])).is_empty());
        assert_eq!(NodeMask::all(65).count(), 65);
        assert_eq!(NodeMask::all(64), (0..64).map(NodeId).collect());
        assert_eq!(format!("{:?}", mask(&[1, 70])), "{1, 70}");
    }
}
