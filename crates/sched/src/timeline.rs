//! Whole nodes booked ahead: which, and when. What a whole-node job must keep clear of.
//!
//! What always holds: bookings are half open, `[start, end)`, and none is empty; each step
//! counts until the next, and the last one has no nodes unless a booking has no end.

use crate::NodeMask;
use crate::nodeset::NodeSet;
use cosy_model::{NodeId, Time};

/// So many bookings are looked at one by one; for more there are steps.
const FEW: usize = 8;

#[derive(Clone, Debug)]
struct Booking {
    start: Time,
    end: Time,
    nodes: NodeSet,
}

/// Nodes booked ahead over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    bookings: Vec<Booking>,
    /// Bookings by start, and by end.
    by_start: Vec<u32>,
    by_end: Vec<u32>,
    /// Booked nodes from a time on, when there are more than a few bookings.
    steps: Vec<(Time, NodeMask)>,
    /// A node may have two bookings at a time.
    overlapping: bool,
}

impl Timeline {
    pub fn is_empty(&self) -> bool {
        self.bookings.is_empty()
    }

    pub fn clear(&mut self) {
        self.bookings.clear();
        self.by_start.clear();
        self.by_end.clear();
        self.steps.clear();
        self.overlapping = false;
    }

    /// Books `nodes` for `[start, end)`.
    pub fn book(&mut self, nodes: NodeSet, start: Time, end: Time) {
        if start >= end || nodes.is_empty() {
            return;
        }
        let all = &self.bookings;
        let at = |id: &u32| &all[*id as usize];
        let by_start = self.by_start.partition_point(|id| at(id).start <= start);
        let by_end = self.by_end.partition_point(|id| at(id).end <= end);
        let id = self.bookings.len() as u32;
        self.by_start.insert(by_start, id);
        self.by_end.insert(by_end, id);
        let booking = Booking { start, end, nodes };
        self.bookings.push(booking);
        match self.bookings.len() {
            ..=FEW => self.overlapping = true, // nobody has looked
            count if count == FEW + 1 => {
                self.overlapping = false;
                (0..count).for_each(|at| self.step_in(at));
            }
            count => self.step_in(count - 1),
        }
    }

    fn step_in(&mut self, at: usize) {
        let (start, end) = (self.bookings[at].start, self.bookings[at].end);
        let (from, to) = (self.cut(start), self.cut(end));
        for (_, booked) in &mut self.steps[from..to] {
            self.overlapping |= booked.count_of(&self.bookings[at].nodes) > 0;
            booked.add_set(&self.bookings[at].nodes);
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

    /// Takes the nodes out of `clear` that are booked during `[start, end)`. False as soon
    /// as fewer than `least` are left.
    pub fn keep_clear(&self, clear: &mut NodeMask, (start, end): (Time, Time), least: u32) -> bool {
        if self.steps.is_empty() {
            let before = clear.count();
            let mut any = false;
            for (_, nodes) in self.during((start, end)) {
                any = true;
                clear.take_set(nodes);
            }
            return if any { clear.count() } else { before } >= least;
        }
        let first = self.steps.partition_point(|(at, _)| *at <= start);
        let during = self.steps[first.saturating_sub(1)..].iter();
        for (_, booked) in during.take_while(|(at, _)| *at < end) {
            clear.subtract(booked);
            if clear.count() < least {
                return false;
            }
        }
        clear.count() >= least
    }

    /// When nodes are booked, and how many of those for which `counts` holds: start, end and
    /// number. A node counts once, however many bookings it has at a time.
    pub fn booked(&self, counts: impl Fn(NodeId, Time) -> bool) -> Vec<(Time, Time, u32)> {
        let count = |nodes: &mut dyn Iterator<Item = NodeId>, start| {
            nodes.filter(|node| counts(*node, start)).count() as u32
        };
        if self.overlapping {
            let steps = self.steps();
            let step = steps.iter();
            return step
                .map(|(start, end, nodes)| (*start, *end, count(&mut nodes.iter(), *start)))
                .collect();
        }
        let all = self.bookings.iter();
        all.map(|b| (b.start, b.end, count(&mut b.nodes.iter(), b.start)))
            .collect()
    }

    /// Which nodes are booked, and when: start, end and nodes.
    fn steps(&self) -> Vec<(Time, Time, NodeMask)> {
        let mut all = Self::default();
        let steps = match self.steps.is_empty() {
            false => &self.steps,
            true => {
                all.bookings = self.bookings.clone();
                (0..all.bookings.len()).for_each(|at| all.step_in(at));
                &all.steps
            }
        };
        let pairs = steps.windows(2);
        let step = |pair: &[(Time, NodeMask)]| (pair[0].0, pair[1].0, pair[0].1.clone());
        pairs.map(step).collect()
    }

    /// Bookings that end by `at`, the latest first.
    pub fn ended_by(&self, at: Time) -> impl Iterator<Item = (Time, &NodeSet)> {
        let all = &self.bookings;
        let past = self
            .by_end
            .partition_point(|id| all[*id as usize].end <= at);
        let ids = self.by_end[..past].iter().rev();
        ids.map(|id| (all[*id as usize].end, &all[*id as usize].nodes))
    }

    /// Bookings that start at `at` or later, the earliest first.
    pub fn starting_from(&self, at: Time) -> impl Iterator<Item = (Time, &NodeSet)> {
        let all = &self.bookings;
        let before = self
            .by_start
            .partition_point(|id| all[*id as usize].start < at);
        let ids = self.by_start[before..].iter();
        ids.map(|id| (all[*id as usize].start, &all[*id as usize].nodes))
    }

    /// Bookings that overlap `[start, end)`: start and nodes.
    pub fn during(&self, (start, end): (Time, Time)) -> impl Iterator<Item = (Time, &NodeSet)> {
        let all = self.bookings.iter();
        let during = all.filter(move |b| b.start < end && start < b.end);
        during.map(|booking| (booking.start, &booking.nodes))
    }

    /// The last start of a booking before `at`.
    pub fn last_start(&self, at: Time) -> Option<Time> {
        let all = &self.bookings;
        let before = self
            .by_start
            .partition_point(|id| all[*id as usize].start < at);
        let last = before.checked_sub(1)?;
        Some(all[self.by_start[last] as usize].start)
    }

    /// The first end of a booking after `at`.
    pub fn next_end(&self, at: Time) -> Option<Time> {
        let past = self
            .by_end
            .partition_point(|id| self.bookings[*id as usize].end <= at);
        let next = self.by_end.get(past)?;
        Some(self.bookings[*next as usize].end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bookings: &[(u32, i64, i64)], window: (i64, i64), clear: &[u32]) {
        let wanted: NodeMask = clear.iter().map(|n| NodeId(*n)).collect();
        for more in [0, FEW + 1] {
            let mut timeline = Timeline::default();
            for (node, start, end) in bookings {
                let node = std::iter::once(NodeId(*node)).collect();
                timeline.book(node, Time(*start), Time(*end));
            }
            for at in 0..more as i64 {
                let node = std::iter::once(NodeId(9)).collect();
                timeline.book(node, Time(at), Time(at + 2));
            }
            let window = (Time(window.0), Time(window.1));
            let mut got = NodeMask::all(3);
            assert!(timeline.keep_clear(&mut got, window, wanted.count()));
            assert_eq!(got, wanted, "{bookings:?} {window:?}");
            assert!(!timeline.keep_clear(&mut got, window, wanted.count() + 1));
        }
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

    #[test]
    fn bookings_are_told_in_order() {
        let mut timeline = Timeline::default();
        for (node, start, end) in [(0, 5, 8), (1, 2, 9), (2, 7, 20)] {
            timeline.book(std::iter::once(NodeId(node)).collect(), Time(start), Time(end));
        }
        let ended: Vec<i64> = timeline.ended_by(Time(9)).map(|(at, _)| at.0).collect();
        assert_eq!(ended, [9, 8]);
        let starts: Vec<i64> = timeline
            .starting_from(Time(5))
            .map(|(at, _)| at.0)
            .collect();
        assert_eq!(starts, [5, 7]);
        assert_eq!(timeline.next_end(Time(8)), Some(Time(9)));
        assert_eq!(timeline.next_end(Time(20)), None);
        assert_eq!(timeline.last_start(Time(7)), Some(Time(5)));
        assert_eq!(timeline.last_start(Time(2)), None);
    }
}
