//! Which nodes a job gets that asks for numbers of nodes with different features: so many
//! out of this set, so many out of that one, and each node counts for one of them only.
//!
//! Sets of nodes that can be shared out so are the independent sets of a transversal matroid.
//! So taking candidates in the order of ranks, each one if what is taken can still be shared
//! out, gives the set that comes first in that order; in the order of sizes it gives one
//! with most room for tasks.
//!
//! Source: Edmonds and Fulkerson, Transversals and matroid partition (1965).

use crate::demand::CountedNodes;
use crate::select::Candidate;

/// How nodes that were taken are shared out among sets of which each needs some; the last
/// place is for any node.
struct Shares<'a> {
    sets: &'a [CountedNodes],
    /// How many each still takes.
    open: Vec<usize>,
    /// What each has, as indices of candidates.
    held: Vec<Vec<usize>>,
}

impl<'a> Shares<'a> {
    fn new(sets: &'a [CountedNodes], nodes: usize) -> Option<Self> {
        let mut open: Vec<usize> = sets.iter().map(|set| set.count as usize).collect();
        open.push(nodes.checked_sub(open.iter().sum())?);
        let held = vec![Vec::new(); open.len()];
        Some(Self { sets, open, held })
    }

    fn takes(&self, place: usize, candidate: &Candidate) -> bool {
        let set = self.sets.get(place);
        set.is_none_or(|set| set.nodes.contains(candidate.node()))
    }

    /// Gives a candidate a place, where that is possible: others move to other places.
    fn add(&mut self, new: usize, all: &[Candidate]) -> bool {
        // From which place, and with which candidate, each place is reached.
        let mut from: Vec<Option<(Option<usize>, usize)>> = vec![None; self.open.len()];
        let mut reached = Vec::with_capacity(self.open.len());
        for (place, way) in from.iter_mut().enumerate() {
            if self.takes(place, &all[new]) {
                *way = Some((None, new));
                reached.push(place);
            }
        }
        let mut next = 0;
        while let Some(&place) = reached.get(next) {
            next += 1;
            if self.open[place] > 0 {
                self.open[place] -= 1;
                self.shift(place, &from);
                return true;
            }
            for (other, way) in from.iter_mut().enumerate() {
                let mut own = self.held[place].iter();
                if way.is_none()
                    && let Some(mover) = own.find(|held| self.takes(other, &all[**held]))
                {
                    *way = Some((Some(place), *mover));
                    reached.push(other);
                }
            }
        }
        false
    }

    /// Moves candidates along the way that ends in `place`.
    fn shift(&mut self, place: usize, from: &[Option<(Option<usize>, usize)>]) {
        let mut at = Some(place);
        while let Some(place) = at {
            let Some((before, mover)) = from[place] else {
                return;
            };
            if let Some(before) = before {
                self.held[before].retain(|held| *held != mover);
            }
            self.held[place].push(mover);
            at = before;
        }
    }
}

/// The first `nodes` candidates, in their order, that can be shared out among the sets, with
/// all that are required, which come first.
pub(crate) fn first(
    sets: &[CountedNodes],
    candidates: &[Candidate],
    nodes: usize,
) -> Option<Vec<Candidate>> {
    let mut shares = Shares::new(sets, nodes)?;
    let mut chosen = Vec::with_capacity(nodes);
    for (at, candidate) in candidates.iter().enumerate() {
        if chosen.len() == nodes {
            break;
        }
        if shares.add(at, candidates) {
            chosen.push(candidate.clone());
        } else if candidate.is_required() {
            return None;
        }
    }
    (chosen.len() == nodes).then_some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::select_anywhere;
    use crate::{Component, NodeMask};
    use cosy_model::{Amounts, NodeId, Time};
    use proptest::prelude::*;

    fn mask(bits: u32) -> NodeMask {
        let nodes = (0..32).filter(|n| bits & (1 << n) != 0);
        nodes.map(NodeId).collect()
    }

    fn cores(cores: u32) -> Amounts {
        Amounts {
            cores,
            ..Amounts::default()
        }
    }

    fn demand(nodes: Option<u32>, tasks: u32, sets: &[(u32, u32)]) -> Component {
        let counted = sets.iter().map(|(bits, count)| CountedNodes {
            nodes: mask(*bits),
            count: *count,
        });
        Component {
            nodes,
            tasks,
            per_task: cores(1),
            counted: counted.collect(),
            ..Component::default()
        }
    }

    /// The nodes chosen, where each node has room for so many tasks.
    fn chosen(demand: &Component, rooms: &[u32]) -> Option<u32> {
        let gap = (Time::EPOCH, Time::FAR);
        let each = rooms.iter().enumerate();
        let candidates = each.filter_map(|(node, room)| {
            Candidate::new(demand, NodeId(node as u32), &cores(*room), gap)
        });
        let picks = select_anywhere(demand, candidates.collect())?;
        let tasks: u32 = picks.iter().map(|pick| pick.tasks).sum();
        assert_eq!(tasks, demand.tasks);
        Some(picks.iter().fold(0, |bits, pick| bits | 1 << pick.node.0))
    }

    #[test]
    fn numbers_by_set() {
        let check = |nodes: Option<u32>, tasks, sets: &[(u32, u32)], rooms: &[u32], want| {
            let got = chosen(&demand(nodes, tasks, sets), rooms);
            assert_eq!(got, want, "{nodes:?} {tasks} {sets:?} {rooms:?}");
        };
        let sets = [(0b00_0111, 2), (0b11_1000, 2)];
        check(Some(4), 4, &sets, &[1; 6], Some(0b01_1011));
        check(Some(5), 5, &sets, &[1; 6], Some(0b01_1111));
        check(Some(3), 3, &sets, &[1; 6], None);
        check(None, 4, &sets, &[1; 6], Some(0b01_1011));
        check(None, 6, &sets, &[1; 6], Some(0b11_1111));
        check(None, 9, &sets, &[1, 1, 4, 1, 1, 3], Some(0b10_1101));
        check(Some(4), 4, &sets, &[1, 0, 0, 1, 1, 1], None);
        // A node counts once; whoever came first moves where another needs its place.
        check(Some(2), 2, &[(0b11, 1), (0b01, 1)], &[1; 3], Some(0b11));
        check(Some(2), 2, &[(0b01, 1), (0b01, 1)], &[1; 3], None);
    }

    fn shared_out(sets: &[(u32, u32)], nodes: u32) -> bool {
        let Some(((set, count), rest)) = sets.split_first() else {
            return true;
        };
        (0..=nodes).any(|part| {
            let own = part & nodes == part && part & set == part;
            own && part.count_ones() == *count && shared_out(rest, nodes & !part)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn a_set_is_found_whenever_there_is_one(
            rooms in prop::collection::vec(0_u32..4, 1..7),
            sets in prop::collection::vec((0_u32..64, 1_u32..3), 1..4),
            nodes in prop::option::of(1_u32..6),
            tasks in 1_u32..9,
            required in 0_u32..64,
        ) {
            let required = required & required >> 1 & required >> 2;
            let ask = Component { required: mask(required), ..demand(nodes, tasks, &sets) };
            let good = |bits: u32| {
                let own = (0..rooms.len()).filter(|n| bits & 1 << n != 0);
                let rooms: Vec<u32> = own.map(|n| rooms[n]).collect();
                let size = bits.count_ones();
                bits & required == required
                    && nodes.is_none_or(|n| n == size)
                    && (1..=tasks).contains(&size)
                    && rooms.iter().all(|room| *room > 0)
                    && rooms.iter().sum::<u32>() >= tasks
                    && shared_out(&sets, bits)
            };
            let got = chosen(&ask, &rooms);
            prop_assert_eq!(got.is_some(), (1..1 << rooms.len()).any(good));
            prop_assert!(got.is_none_or(good));
        }
    }
}
