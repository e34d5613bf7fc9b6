//! The switches that the nodes hang on, and which of them a job's nodes are taken from, so that
//! little of its traffic goes from switch to switch.
//!
//! The rule, out of the nodes that a job could get:
//! 1. the lowest switch under which there are enough; of several, the one with the fewest such
//!    nodes, so that large rooms stay for large jobs;
//! 2. under it as few leaf switches as do: those with the most nodes, and as the last one the one
//!    with the fewest nodes that is enough; where nodes have unequal room those with the most room.
//!
//! Where no more than so many switches will do, the next switch is looked at until that holds; at
//! last, where nodes have unequal room, set after set of leaf switches, as far as that is little work.
//!
//! What always holds: where all nodes do equally, no choice has fewer leaf switches under that
//! switch, and one with no more than so many is found whenever there is one; the result depends on
//! nothing but what it is given. Source: topology.conf(5), `topology/tree`; the number of switches as in `sbatch --switches`.

use crate::NodeMask;
use cosy_model::NodeId;
use std::cell::Cell;
use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};

/// So many sets of switches, and nodes on those that might do, are looked at where nodes have unequal
/// room.
const WORK: u64 = 50_000;

/// A tree of switches. Nodes under no switch are those of one more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// The leaf switch of each node.
    leaf: Vec<u32>,
    leaves: Vec<Leaf>,
    /// Numbers of leaf switches under one switch, the lowest switches first; all at the end.
    subtrees: Vec<Subtree>,
    /// Stands for everything above where topologies are told apart by their hash.
    digest: u64,
}

/// The nodes of a leaf switch: the bits of words from a place on.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Leaf {
    first: usize,
    words: Box<[u64]>,
}

impl Leaf {
    fn of(nodes: &NodeMask) -> Self {
        let all = nodes.all_words();
        let first = all.iter().position(|word| *word != 0).unwrap_or(all.len());
        Self {
            first,
            words: all.iter().skip(first).copied().collect(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Subtree {
    height: u32,
    leaves: Vec<u32>,
}

impl Hash for Topology {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

/// What a choice of leaf switches is made from.
pub(crate) struct Offer<'a> {
    /// Nodes under each leaf switch that could be taken.
    pub nodes: &'a [u32],
    /// Switches that are in the choice anyway, in ascending order.
    pub must: &'a [u32],
    /// No more than these.
    pub most: Option<u32>,
    /// Where nodes have unequal room: what is found step by step need not be the least.
    pub unequal: Option<Unequal<'a>>,
}

/// What is looked at before sets of switches are tried.
pub(crate) struct Unequal<'a> {
    /// Room for tasks on all nodes of each leaf switch.
    pub room: &'a [u64],
    /// So many nodes and tasks, at least.
    pub need: (u64, u64),
    /// Where sets are tried one after the other at last: whether that was given up, so that there
    /// may be one that would do.
    pub search: Option<&'a Cell<bool>>,
}

impl Topology {
    /// The switches of a machine with so many nodes: the nodes under each leaf switch, and for
    /// every other switch its height and the numbers of the leaf switches under it.
    pub fn new(nodes: usize, mut leaves: Vec<NodeMask>, above: Vec<(u32, Vec<u32>)>) -> Self {
        let mut hanging = NodeMask::default();
        for under in &leaves {
            hanging = hanging.or(under);
        }
        let loose = NodeMask::all(nodes).and_not(&hanging);
        if !loose.is_empty() {
            leaves.push(loose);
        }
        let mut leaf = vec![0; nodes];
        for (number, under) in leaves.iter().enumerate() {
            for node in under.iter() {
                if let Some(leaf) = leaf.get_mut(node.index()) {
                    *leaf = number as u32;
                }
            }
        }
        let all: Vec<u32> = (0..leaves.len() as u32).collect();
        let top = above.iter().map(|(height, _)| *height).max().unwrap_or(0) + 1;
        let single = all.iter().map(|one| (0, vec![*one]));
        let subtrees = single.chain(above).chain([(top, all.clone())]);
        let mut subtrees: Vec<Subtree> = subtrees
            .map(|(height, leaves)| Subtree { height, leaves })
            .collect();
        subtrees.sort_by_key(|subtree| subtree.height);
        let mut hasher = DefaultHasher::new();
        (&leaf, &subtrees).hash(&mut hasher);
        Self {
            leaf,
            leaves: leaves.iter().map(Leaf::of).collect(),
            subtrees,
            digest: hasher.finish(),
        }
    }

    /// The number of the leaf switch of a node.
    pub fn leaf(&self, node: NodeId) -> u32 {
        let last = self.leaves.len().saturating_sub(1) as u32;
        self.leaf.get(node.index()).copied().unwrap_or(last)
    }

    /// How many leaf switches there are.
    pub(crate) fn leaf_count(&self) -> usize {
        self.leaves.len()
    }

    /// How many leaf switches these nodes hang on.
    pub fn switches_of(&self, nodes: impl Iterator<Item = NodeId>) -> u32 {
        let mut leaves: Vec<u32> = nodes.map(|node| self.leaf(node)).collect();
        leaves.sort_unstable();
        leaves.dedup();
        leaves.len() as u32
    }

    /// Leaves those nodes in a mask that `count` nodes are to be taken from, all of which do
    /// equally.
    pub(crate) fn narrow(&self, nodes: &mut NodeMask, count: u32) {
        let leaves = self.leaves.iter();
        let here = leaves.map(|leaf| nodes.count_of_words(leaf.first, &leaf.words));
        let here: Vec<u32> = here.collect();
        let offer = Offer {
            nodes: &here,
            must: &[],
            most: None,
            unequal: None,
        };
        let Some(chosen) = self.choose(&offer, |leaves| sum(&here, leaves) >= count.into()) else {
            return;
        };
        let mut kept = NodeMask::default();
        for leaf in chosen
            .iter()
            .filter_map(|leaf| self.leaves.get(*leaf as usize))
        {
            kept.add_words(leaf.first, &leaf.words);
        }
        nodes.keep(&kept);
    }

    /// The leaf switches to take nodes from. `enough` tells whether the nodes under some do;
    /// with more switches it never says no after a yes.
    pub(crate) fn choose(
        &self,
        offer: &Offer<'_>,
        mut enough: impl FnMut(&[u32]) -> bool,
    ) -> Option<Vec<u32>> {
        let mut leaves = Vec::new();
        for level in self.subtrees.chunk_by(|a, b| a.height == b.height) {
            let inside = |subtree: &&Subtree| {
                let own = subtree.leaves.iter();
                own.filter(|leaf| offer.is_must(**leaf)).count() == offer.must.len()
            };
            let mut here: Vec<(u64, Vec<u32>)> = Vec::new();
            for subtree in level.iter().filter(inside) {
                let own = subtree.leaves.iter().copied();
                leaves.clear();
                leaves.extend(own.filter(|leaf| offer.count(*leaf) > 0));
                if enough(&leaves) {
                    here.push((sum(offer.nodes, &leaves), leaves.clone()));
                }
            }
            here.sort_by_key(|(nodes, _)| *nodes);
            for (_, leaves) in here {
                let found = offer.fewest(leaves, &mut enough);
                if found.len() as u64 <= offer.most.map_or(u64::MAX, u64::from) {
                    return Some(found);
                }
            }
        }
        offer.any_set(&mut enough)
    }
}

impl Offer<'_> {
    fn count(&self, leaf: u32) -> u32 {
        self.nodes.get(leaf as usize).copied().unwrap_or(0)
    }

    /// Room for tasks under a leaf switch, or its nodes where all do equally.
    fn room(&self, leaf: u32) -> u64 {
        let room = self.unequal.as_ref().map(|unequal| unequal.room);
        let room = room.map(|room| room.get(leaf as usize).copied().unwrap_or(0));
        room.unwrap_or_else(|| self.count(leaf).into())
    }

    fn is_must(&self, leaf: u32) -> bool {
        self.must.binary_search(&leaf).is_ok()
    }

    /// Others, those with most room first.
    fn roomy_first(&self, leaves: &mut Vec<u32>) {
        leaves.retain(|leaf| !self.is_must(*leaf) && self.count(*leaf) > 0);
        leaves.sort_by_key(|leaf| (Reverse(self.room(*leaf)), *leaf));
    }

    /// As few of `leaves`, which are enough, as a choice one after the other comes to.
    fn fewest(&self, mut leaves: Vec<u32>, enough: &mut impl FnMut(&[u32]) -> bool) -> Vec<u32> {
        self.roomy_first(&mut leaves);
        let with = |count: usize| -> Vec<u32> {
            let more = leaves.iter().take(count);
            self.must.iter().chain(more).copied().collect()
        };
        let (mut low, mut high) = (0, leaves.len());
        while low < high {
            let middle = low.midpoint(high);
            match enough(&with(middle)) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        let Some(before) = high.checked_sub(1).filter(|_| self.unequal.is_none()) else {
            return with(high);
        };
        let mut chosen = with(before);
        let mut rest: Vec<u32> = leaves.iter().skip(before).copied().collect();
        rest.sort_by_key(|leaf| (self.count(*leaf), *leaf));
        for last in rest {
            chosen.push(last);
            if enough(&chosen) {
                break;
            }
            chosen.pop();
        }
        chosen
    }

    /// Where nodes have unequal room and no more than so many switches will do: the first set that
    /// is enough, of one switch, of two, and so on, as long as that is little work.
    fn any_set(&self, enough: &mut impl FnMut(&[u32]) -> bool) -> Option<Vec<u32>> {
        let unequal = self.unequal.as_ref()?;
        let gave_up = unequal.search?;
        let might = |set: &[u32]| {
            let room: u64 = set.iter().map(|leaf| self.room(*leaf)).sum();
            sum(self.nodes, set) >= unequal.need.0 && room >= unequal.need.1
        };
        let mut leaves: Vec<u32> = (0..self.nodes.len() as u32).collect();
        self.roomy_first(&mut leaves);
        let further = (self.most? as usize).checked_sub(self.must.len())?;
        let further = further.min(leaves.len());
        if !self.might_ever(&leaves, further, unequal.need) {
            return None;
        }
        let mut work = 0;
        for size in 0..=further {
            let mut at: Vec<usize> = (0..size).collect();
            loop {
                let own = at.iter().filter_map(|one| leaves.get(*one));
                let set: Vec<u32> = self.must.iter().chain(own).copied().collect();
                work += 1;
                if might(&set) {
                    work += sum(self.nodes, &set);
                    if enough(&set) {
                        return Some(set);
                    }
                }
                if work >= WORK {
                    gave_up.set(true);
                    return None;
                }
                if !next_set(&mut at, leaves.len()) {
                    break;
                }
            }
        }
        None
    }

    /// Whether the `further` switches with the most room, and those with the most nodes, come to what
    /// is needed.
    fn might_ever(&self, roomy_first: &[u32], further: usize, need: (u64, u64)) -> bool {
        let must = self.must.iter();
        let room = must.clone().chain(roomy_first.iter().take(further));
        let room: u64 = room.map(|leaf| self.room(*leaf)).sum();
        let mut nodes: Vec<u32> = roomy_first.iter().map(|leaf| self.count(*leaf)).collect();
        nodes.sort_unstable_by_key(|nodes| Reverse(*nodes));
        let nodes: u64 = nodes.into_iter().take(further).map(u64::from).sum();
        nodes + sum(self.nodes, self.must) >= need.0 && room >= need.1
    }
}

/// The next of all sets of so many numbers below `end`. False after the last one.
fn next_set(at: &mut [usize], end: usize) -> bool {
    let size = at.len();
    let mut places = at.iter().enumerate().rev();
    let movable = places.find(|(one, number)| **number + (size - one) < end);
    let Some((one, number)) = movable else {
        return false;
    };
    let first = *number + 1;
    for (later, more) in at.iter_mut().skip(one).zip(0..) {
        *later = first + more;
    }
    true
}

/// Nodes of some leaf switches together.
pub(crate) fn sum(nodes: &[u32], leaves: &[u32]) -> u64 {
    let here = leaves.iter().filter_map(|leaf| nodes.get(*leaf as usize));
    here.map(|count| u64::from(*count)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tree(leaves: &[u32]) -> Topology {
        let mut next = 0;
        let mut leaf = |count: &u32| -> NodeMask {
            let first = next;
            next += *count;
            (first..next).map(NodeId).collect()
        };
        let leaves: Vec<NodeMask> = leaves.iter().map(&mut leaf).collect();
        let halves = leaves.len() as u32 / 2;
        let above = vec![
            (1, (0..halves).collect()),
            (1, (halves..leaves.len() as u32).collect()),
        ];
        Topology::new(next as usize, leaves, above)
    }

    fn chosen(free: &[u32], count: u32) -> Option<Vec<u32>> {
        let topology = tree(&vec![8; free.len()]);
        let offer = Offer {
            nodes: free,
            must: &[],
            most: None,
            unequal: None,
        };
        topology.choose(&offer, |leaves| sum(free, leaves) >= count.into())
    }

    #[test]
    fn the_lowest_switch_and_the_fewest_leaves() {
        let check = |free: &[u32], count, want: &[u32]| {
            assert_eq!(chosen(free, count).as_deref(), Some(want), "{count} of {free:?}");
        };
        // One leaf, and the one with the least room that is enough.
        check(&[8, 3, 5, 8], 3, &[1]);
        check(&[8, 3, 5, 8], 4, &[2]);
        check(&[8, 3, 5, 8], 8, &[0]);
        // One half of the tree rather than two leaves of both, and the smaller one.
        check(&[4, 4, 6, 6], 8, &[0, 1]);
        check(&[4, 4, 6, 6], 9, &[2, 3]);
        // Through the top: the most room first, the last as small as does.
        check(&[7, 2, 8, 1], 16, &[2, 0, 3]);
        assert_eq!(chosen(&[1, 1, 1, 1], 5), None);
    }

    #[test]
    fn loose_nodes_are_together_on_one_more() {
        let topology = Topology::new(4, vec![[0, 1].map(NodeId).into_iter().collect()], vec![]);
        let leaves: Vec<u32> = (0..4).map(|node| topology.leaf(NodeId(node))).collect();
        assert_eq!(leaves, [0, 0, 1, 1]);
        assert_eq!(topology.switches_of([1, 2, 3].map(NodeId).into_iter()), 2);
        let other = Topology::new(4, vec![[0].map(NodeId).into_iter().collect()], vec![]);
        assert_ne!(topology, other);
        assert_ne!(topology.digest, other.digest);
    }

    #[test]
    fn all_sets_in_turn() {
        let mut at = vec![0, 1];
        let mut all = vec![at.clone()];
        while next_set(&mut at, 4) {
            all.push(at.clone());
        }
        assert_eq!(all, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
        assert!(!next_set(&mut [], 4));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// No set under the same switch has fewer leaves; with a bound, a set is found whenever
        /// there is one.
        #[test]
        fn never_more_switches_than_needed(
            free in prop::collection::vec(0_u32..=8, 2..9),
            count in 1_u32..40,
            most in 1_u32..4,
        ) {
            let enough = |bits: u32| {
                let leaves: Vec<u32> = (0..free.len() as u32).filter(|l| bits >> l & 1 == 1).collect();
                sum(&free, &leaves) >= count.into()
            };
            let half = free.len() as u32 / 2;
            let (left, all) = ((1_u32 << half) - 1, (1_u32 << free.len()) - 1);
            let least = |inside: u32| {
                let sets = (1..=all).filter(|bits| bits & !inside == 0 && enough(*bits));
                sets.map(u32::count_ones).min()
            };
            let want = match least(all) {
                Some(1) => Some(1),
                _ => [left, all & !left].into_iter().filter_map(least).min().or(least(all)),
            };
            let got = chosen(&free, count);
            if want == Some(1) || least(left).is_none() || least(all & !left).is_none() {
                prop_assert_eq!(got.as_ref().map(|got| got.len() as u32), want);
            }
            prop_assert_eq!(got.is_some(), least(all).is_some());
            let topology = tree(&vec![8; free.len()]);
            let offer = Offer { nodes: &free, must: &[], most: Some(most), unequal: None };
            let bound = topology.choose(&offer, |leaves| sum(&free, leaves) >= count.into());
            prop_assert_eq!(bound.is_some(), least(all).is_some_and(|least| least <= most));
            prop_assert!(bound.is_none_or(|bound| bound.len() as u32 <= most));
        }
    }
}
