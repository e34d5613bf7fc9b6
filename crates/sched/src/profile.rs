//! How many nodes are free at most, over time: a quick answer to when a job that needs so
//! many nodes for so long cannot start.
//!
//! What always holds: no less than what is really free. Times in between steps have the
//! number of the step before.

use cosy_model::Time;

/// Numbers of free nodes from now on.
#[derive(Clone, Default, Debug)]
pub(crate) struct Profile {
    /// From a time on, so many.
    steps: Vec<(Time, i64)>,
}

impl Profile {
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub fn clear(&mut self) {
        self.steps.clear();
    }

    /// Begins with `free` nodes at `now`, and more as jobs end: times in order, and numbers
    /// of nodes.
    pub fn begin(&mut self, now: Time, free: u32, ends: impl Iterator<Item = (Time, u32)>) {
        self.steps.clear();
        self.steps.push((now, free.into()));
        for (at, nodes) in ends {
            let (last, free) = self.steps[self.steps.len() - 1];
            let free = free + i64::from(nodes);
            if last == at {
                self.steps.pop();
            }
            self.steps.push((at, free));
        }
    }

    /// Takes `nodes` nodes during `[start, end)`.
    pub fn take(&mut self, start: Time, end: Time, nodes: u32) {
        let (from, to) = (self.cut(start), self.cut(end));
        for (_, free) in &mut self.steps[from..to] {
            *free -= i64::from(nodes);
        }
    }

    fn cut(&mut self, at: Time) -> usize {
        let next = self.steps.partition_point(|(start, _)| *start < at);
        if next > 0 && self.steps.get(next).is_none_or(|(start, _)| *start != at) {
            self.steps.insert(next, (at, self.steps[next - 1].1));
        }
        next
    }

    /// The earliest time from `at` on at which `nodes` nodes are free for the length of
    /// `[at, end)`. `None` when there is none.
    pub fn next(&self, (at, end): (Time, Time), nodes: u32) -> Option<Time> {
        let length = end.since(at);
        let mut found = at;
        let first = self.steps.partition_point(|(start, _)| *start <= at);
        let mut next = first.saturating_sub(1);
        while let Some((start, free)) = self.steps.get(next) {
            if *start >= found + length {
                break;
            }
            if *free < i64::from(nodes) {
                found = self.steps.get(next + 1)?.0.max(at);
            }
            next += 1;
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        let mut profile = Profile::default();
        let ends = [(5, 2), (9, 1), (9, 1), (20, 4)];
        let ends = ends.into_iter().map(|(at, nodes)| (Time(at), nodes));
        profile.begin(Time(0), 1, ends); // 1, 3 from 5, 5 from 9, 9 from 20
        profile.take(Time(7), Time(12), 3); // 1, 3, 0 from 7, 2 from 9, 5 from 12, 9
        profile
    }

    fn check(at: i64, length: i64, nodes: u32, found: Option<i64>) {
        let got = profile().next((Time(at), Time(at + length)), nodes);
        assert_eq!(got, found.map(Time), "{nodes} for {length} from {at}");
    }

    #[test]
    fn finds_the_first_time_that_lasts() {
        check(0, 7, 1, Some(0));
        check(0, 8, 1, Some(9));
        check(3, 2, 2, Some(5));
        check(3, 3, 2, Some(9));
        check(6, 1, 3, Some(6));
        check(6, 2, 3, Some(12));
        check(0, 100, 9, Some(20));
        check(0, 1, 10, None);
        check(30, 5, 9, Some(30));
    }
}
