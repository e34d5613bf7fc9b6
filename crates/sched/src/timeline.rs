//! Which nodes are booked ahead, and when: what a whole-node job must keep clear of.
//!
//! What always holds: steps are sorted by time and each counts until the next; the last
//! one has no nodes unless a booking has no end. Built for one pass, because guaranteed
//! places live no longer.

use crate::NodeMask;
use cosy_model::{NodeId, Time};

/// Nodes booked ahead over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    steps: Vec<(Time, NodeMask)>,
}

impl Timeline {
    /// Books `nodes` for `[start, end)`.
    pub fn book(&mut self, nodes: impl Iterator<Item = NodeId>, start: Time, end: Time) {
        if start >= end {
            return;
        }
        let (from, to) = (self.cut(start), self.cut(end));
        let nodes: Vec<NodeId> = nodes.collect();
        for (_, booked) in &mut self.steps[from..to] {
            nodes.iter().for_each(|node| booked.insert(*node));
        }
    }

    /// The step that starts at `at`, made if there is none.
    fn cut(&mut self, at: Time) -> usize {
        let next = self.steps.partition_point(|(start, _)| *start < at);
        if self.steps.get(next).is_none_or(|(start, _)| *start != at) {
            let before = next.checked_sub(1).map(|last| self.steps[last].1.clone());
            self.steps.insert(next, (at, before.unwrap_or_default()));
        }
        next
    }

    /// The nodes of `wanted` that are not booked during `[start, end)`, if there are at
    /// least `least`.
    pub fn clear(
        &self,
        wanted: &NodeMask,
        (start, end): (Time, Time),
        least: u32,
    ) -> Option<NodeMask> {
        let mut clear = wanted.clone();
        let first = self.steps.partition_point(|(at, _)| *at <= start);
        let during = self.steps[first.saturating_sub(1)..].iter();
        for (_, booked) in during.take_while(|(at, _)| *at < end) {
            clear.subtract(booked);
            if clear.count() < least {
                return None;
            }
        }
        (clear.count() >= least).then_some(clear)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bookings: &[(u32, i64, i64)], window: (i64, i64), clear: &[u32]) {
        let mut timeline = Timeline::default();
        for (node, start, end) in bookings {
            let node = std::iter::once(NodeId(*node));
            timeline.book(node, Time(*start), Time(*end));
        }
        let window = (Time(window.0), Time(window.1));
        let got = timeline.clear(&NodeMask::all(3), window, 0).unwrap();
        let wanted: NodeMask = clear.iter().map(|n| NodeId(*n)).collect();
        assert_eq!(got, wanted, "{bookings:?} {window:?}");
    }

    #[test]
    fn intervals_are_half_open() {
        check(&[], (0, 9), &[0, 1, 2]);
        check(&[(0, 5, 8)], (0, 5), &[0, 1, 2]);
        check(&[(0, 5, 8)], (0, 6), &[1, 2]);
        check(&[(0, 5, 8)], (7, 20), &[1, 2]);
        check(&[(0, 5, 8)], (8, 9), &[0, 1, 2]);
        check(&[(0, 5, 8), (1, 7, 9)], (6, 7), &[1, 2]);
        check(&[(0, 5, 8), (1, 7, 9)], (6, 8), &[2]);
        check(&[(0, 5, 8), (0, 2, 6)], (3, 4), &[1, 2]);
        check(&[(1, 5, i64::MAX)], (90, i64::MAX), &[0, 2]);
        check(&[(1, 5, 5)], (0, 9), &[0, 1, 2]);
    }
}
