//! The expected ends of running jobs, in their order, and how many nodes come free by when.
//!
//! Entries lie in runs of a few dozen; each run knows its number of nodes, so that the
//! time by which many nodes are free is found without a look at each job.
//!
//! What always holds: entries are sorted by end and place, no run is empty.

use crate::running::RunId;
use cosy_model::Time;

const RUN: usize = 64;

/// The end of one job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct End {
    pub at: Time,
    pub run: RunId,
    /// Nodes of the pool that it holds.
    pub nodes: u32,
}

#[derive(Clone, Default, Debug)]
struct Run {
    ends: Vec<End>,
    nodes: u64,
}

/// A place among the ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    run: usize,
    at: usize,
}

/// All ends of a pool.
#[derive(Clone, Default, Debug)]
pub(crate) struct Ends {
    runs: Vec<Run>,
}

impl Ends {
    pub const START: Place = Place { run: 0, at: 0 };

    pub fn insert(&mut self, end: End) {
        if self.runs.is_empty() {
            self.runs.push(Run::default());
        }
        let at = self.run_of(&end);
        let run = &mut self.runs[at];
        let place = run.ends.partition_point(|other| *other < end);
        run.ends.insert(place, end);
        run.nodes += u64::from(end.nodes);
        if run.ends.len() > 2 * RUN {
            let later = run.ends.split_off(RUN);
            let nodes = later.iter().map(|end| u64::from(end.nodes)).sum();
            run.nodes -= nodes;
            self.runs.insert(at + 1, Run { ends: later, nodes });
        }
    }

    pub fn remove(&mut self, end: &End) {
        let at = self.run_of(end);
        let Some(run) = self.runs.get_mut(at) else {
            return;
        };
        if let Ok(place) = run.ends.binary_search(end) {
            run.ends.remove(place);
            run.nodes -= u64::from(end.nodes);
            if run.ends.is_empty() {
                self.runs.remove(at);
            }
        }
    }

    pub fn first(&self) -> Option<&End> {
        self.get(Self::START)
    }

    pub fn last(&self) -> Option<&End> {
        self.runs.last().and_then(|run| run.ends.last())
    }

    pub fn get(&self, place: Place) -> Option<&End> {
        self.runs.get(place.run)?.ends.get(place.at)
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &End> {
        self.runs.iter().flat_map(|run| &run.ends)
    }

    /// The place after `place`.
    pub fn after(&self, place: Place) -> Place {
        let inside = self.runs.get(place.run);
        match inside.is_some_and(|run| place.at + 1 < run.ends.len()) {
            true => Place {
                at: place.at + 1,
                ..place
            },
            false => Place {
                run: place.run + 1,
                at: 0,
            },
        }
    }

    /// When at least `nodes` nodes will have come free, if they ever do, ends before `soon`
    /// counting as then: the time, the place after all ends of that time, and how many
    /// nodes have come free by it.
    pub fn freed(&self, nodes: u64, soon: Time) -> Option<(Time, Place, u64)> {
        let (place, mut freed) = self.freeing(nodes)?;
        let at = self.get(place)?.at.max(soon);
        let mut next = self.after(place);
        while let Some(end) = self.get(next).filter(|end| end.at.max(soon) == at) {
            freed += u64::from(end.nodes);
            next = self.after(next);
        }
        Some((at, next, freed))
    }

    /// The first place by which at least `nodes` nodes have come free, if they ever do, and
    /// how many have then.
    fn freeing(&self, nodes: u64) -> Option<(Place, u64)> {
        let mut left = nodes.max(1);
        let mut freed = 0;
        for (run, ends) in self.runs.iter().enumerate() {
            if ends.nodes < left {
                left -= ends.nodes;
                freed += ends.nodes;
                continue;
            }
            for (at, end) in ends.ends.iter().enumerate() {
                freed += u64::from(end.nodes);
                if u64::from(end.nodes) >= left {
                    return Some((Place { run, at }, freed));
                }
                left -= u64::from(end.nodes);
            }
        }
        None
    }

    /// The ends before `place`, the latest first.
    pub fn before(&self, place: Place) -> impl Iterator<Item = &End> {
        let run = self.runs.get(place.run);
        let inside = run.map_or(&[][..], |run| &run.ends[..place.at.min(run.ends.len())]);
        let earlier = self.runs[..place.run.min(self.runs.len())].iter().rev();
        let earlier = earlier.flat_map(|run| run.ends.iter().rev());
        inside.iter().rev().chain(earlier)
    }

    fn run_of(&self, end: &End) -> usize {
        if self.runs.len() < 2 {
            return 0;
        }
        let after = self.runs.partition_point(|run| run.ends[0] <= *end);
        after.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keeps_order_and_counts() {
        let (mut ends, mut all) = (Ends::default(), BTreeSet::new());
        let mut dice = 88_172_645_463_325_252u64;
        for step in 0..5000 {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            let end = End {
                at: Time((dice % 50) as i64),
                run: RunId((dice / 50 % 30) as u32),
                nodes: (dice / 1500 % 3) as u32,
            };
            match all.remove(&end) {
                true => ends.remove(&end),
                false => {
                    all.insert(end);
                    ends.insert(end);
                }
            }
            if step % 40 > 0 {
                continue;
            }
            let (mut place, mut found) = (Ends::START, Vec::new());
            while let Some(end) = ends.get(place) {
                found.push(*end);
                place = ends.after(place);
            }
            assert_eq!(found, all.iter().copied().collect::<Vec<_>>());
            assert!(ends.before(place).eq(all.iter().rev()));
            assert_eq!(ends.first(), all.first());
            assert_eq!(ends.last(), all.last());
            let wanted = dice / 7 % 900;
            let mut sum = 0;
            let first = all.iter().find(|end| {
                sum += u64::from(end.nodes);
                sum >= wanted.max(1)
            });
            let place = ends.freeing(wanted);
            assert_eq!(place.and_then(|(place, _)| ends.get(place)), first);
            assert!(place.is_none_or(|(_, freed)| freed == sum));
        }
    }
}
