//! The indices of an array's tasks, kept as ranges: an array of a million tasks has one.

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// Ascending indices, each once.
///
/// Written as `0-8:4,10`. Lists of numbers, as earlier releases wrote them, are read too.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskIndices {
    ranges: Vec<IndexRange>,
    len: usize,
}

/// Indices with equal steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct IndexRange {
    first: u32,
    last: u32,
    step: u32,
    /// How many indices come before.
    before: usize,
}

impl IndexRange {
    fn len(&self) -> usize {
        (self.last.saturating_sub(self.first) / self.step.max(1)) as usize + 1
    }

    fn get(&self, place: usize) -> Option<u32> {
        let within = u32::try_from(place.checked_sub(self.before)?).ok()?;
        let index = within.checked_mul(self.step)?.checked_add(self.first)?;
        (index <= self.last).then_some(index)
    }
}

impl TaskIndices {
    /// Those of some ranges, each from its first index to its last one in steps, in any order. What
    /// ends before it begins or has no step is left out.
    pub fn of_ranges(ranges: &[(u32, u32, u32)]) -> Self {
        let sound = |(first, last, step): &&(u32, u32, u32)| first <= last && *step > 0;
        let mut sorted: Vec<(u32, u32, u32)> = ranges.iter().filter(sound).copied().collect();
        sorted.sort_unstable();
        let apart =
            |two: &[(u32, u32, u32)]| matches!(two, [(_, last, _), (next, ..)] if last < next);
        if sorted.windows(2).all(apart) {
            let mut all = Self::default();
            for (first, last, step) in sorted {
                all.add_range(first, last - (last - first) % step, step);
            }
            return all;
        }
        let each = |(first, last, step)| (first..=last).step_by(step as usize);
        sorted.into_iter().flat_map(each).collect()
    }

    fn add_range(&mut self, first: u32, last: u32, step: u32) {
        let range = IndexRange {
            first,
            last,
            step: if first == last { 1 } else { step },
            before: self.len,
        };
        self.len += range.len();
        self.ranges.push(range);
    }

    /// Adds an index that is larger than all others.
    fn add(&mut self, index: u32) {
        if let Some(last) = self.ranges.last_mut() {
            let step = index.saturating_sub(last.last);
            let alone = last.first == last.last;
            if alone || last.step == step {
                (last.last, last.step) = (index, step);
                self.len += 1;
                return;
            }
        }
        self.add_range(index, index, 1);
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True without any.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The index at a place, from 0 on.
    pub fn get(&self, place: usize) -> Option<u32> {
        let after = self.ranges.partition_point(|range| range.before <= place);
        self.ranges.get(after.checked_sub(1)?)?.get(place)
    }

    /// The place of an index.
    pub fn place_of(&self, index: u32) -> Option<usize> {
        let after = self.ranges.partition_point(|range| range.first <= index);
        let range = self.ranges.get(after.checked_sub(1)?)?;
        let within = index - range.first;
        let known = index <= range.last && within.is_multiple_of(range.step);
        known.then_some(range.before + (within / range.step) as usize)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let ranges = self.ranges.iter();
        ranges.flat_map(|range| (range.first..=range.last).step_by(range.step as usize))
    }

    /// The smallest.
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|range| range.first)
    }

    /// The largest.
    pub fn last(&self) -> Option<u32> {
        self.ranges.last().map(|range| range.last)
    }
}

/// In any order; what is there twice counts once.
impl FromIterator<u32> for TaskIndices {
    fn from_iter<I: IntoIterator<Item = u32>>(indices: I) -> Self {
        let mut sorted: Vec<u32> = indices.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut all = Self::default();
        sorted.into_iter().for_each(|index| all.add(index));
        all
    }
}

impl fmt::Display for TaskIndices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.ranges.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let IndexRange {
                first, last, step, ..
            } = range;
            match (first == last, step) {
                (true, _) => write!(f, "{comma}{first}")?,
                (false, 1) => write!(f, "{comma}{first}-{last}")?,
                (false, _) => write!(f, "{comma}{first}-{last}:{step}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for TaskIndices {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TaskIndices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Words)
    }
}

struct Words;

impl<'de> Visitor<'de> for Words {
    type Value = TaskIndices;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("indices of an array's tasks")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TaskIndices, E> {
        let mut all = TaskIndices::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last, step) = range(part).map_err(|_| E::custom("no indices of tasks"))?;
            let ascends = all.last().is_none_or(|before| before < first);
            if !ascends || !(last - first).is_multiple_of(step) {
                return Err(E::custom("indices of tasks do not ascend to the last one"));
            }
            all.add_range(first, last, step);
        }
        Ok(all)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<TaskIndices, A::Error> {
        let mut all = Vec::new();
        while let Some(index) = list.next_element()? {
            all.push(index);
        }
        Ok(all.into_iter().collect())
    }
}

/// Why a part of an array's text is no range.
pub(super) enum NoRange {
    Syntax,
    Index(u64),
}

/// Reads `3`, `1-4` or `0-8:4`: first index, last one, step.
pub(super) fn range(text: &str) -> Result<(u32, u32, u32), NoRange> {
    let (range, step) = match text.split_once(':') {
        Some((range, step)) => (range, number(step)?),
        None => (text, 1),
    };
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (number(first)?, number(last)?);
    match last < first || step == 0 {
        true => Err(NoRange::Syntax),
        false => Ok((first, last, step)),
    }
}

pub(super) fn number(text: &str) -> Result<u32, NoRange> {
    if text.is_empty() || text.len() > 18 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NoRange::Syntax);
    }
    let n: u64 = text.parse().map_err(|_| NoRange::Syntax)?;
    let index = u32::try_from(n).ok();
    let index = index.filter(|n| *n <= crate::limits::ARRAY_INDEX);
    index.ok_or(NoRange::Index(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(all: &TaskIndices, want: &[u32]) {
        assert_eq!(all.iter().collect::<Vec<_>>(), want, "{all}");
        assert_eq!((all.len(), all.is_empty()), (want.len(), want.is_empty()));
        assert_eq!((all.first(), all.last()), (want.first().copied(), want.last().copied()));
        for (place, index) in want.iter().enumerate() {
            assert_eq!(all.get(place), Some(*index), "{all}");
        }
        assert_eq!(all.get(want.len()), None);
        for index in 0..want.last().map_or(3, |last| last + 3) {
            assert_eq!(all.place_of(index), want.binary_search(&index).ok(), "{index} of {all}");
        }
        let text = serde_json::to_string(all).unwrap();
        assert_eq!(serde_json::from_str::<TaskIndices>(&text).unwrap(), *all);
    }

    proptest! {
        #[test]
        fn ranges_are_what_they_stand_for(
            ranges in prop::collection::vec((0u32..60, 0u32..40, 1u32..6), 0..6),
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(at, n, step)| (at, at + n, step)).collect();
            let each = |(first, last, step): &(u32, u32, u32)| (*first..=*last).step_by(*step as usize);
            let mut want: Vec<u32> = ranges.iter().flat_map(each).collect();
            want.sort_unstable();
            want.dedup();
            check(&TaskIndices::of_ranges(&ranges), &want);
            check(&want.iter().copied().collect(), &want);
            let list = serde_json::to_string(&want).unwrap();
            check(&serde_json::from_str(&list).unwrap(), &want);
        }
    }

    #[test]
    fn a_large_array_is_one_range() {
        let all = TaskIndices::of_ranges(&[(0, 4_000_000, 1)]);
        assert_eq!((all.to_string().as_str(), all.len()), ("0-4000000", 4_000_001));
        assert_eq!(TaskIndices::of_ranges(&[(5, 1, 1), (1, 5, 0)]), TaskIndices::default());
        assert_eq!(TaskIndices::of_ranges(&[(0, 9, 4), (u32::MAX, u32::MAX, 7)]).len(), 4);
    }

    #[test]
    fn what_is_no_list_of_indices_is_refused() {
        for text in [
            "\"1-\"",
            "\"2-1\"",
            "\"1-5:0\"",
            "\"1-5:3\"",
            "\"4,3\"",
            "\"x\"",
            "7",
            "[-1]",
        ] {
            assert!(serde_json::from_str::<TaskIndices>(text).is_err(), "{text}");
        }
        assert!(
            serde_json::from_str::<TaskIndices>("\"\"")
                .unwrap()
                .is_empty()
        );
    }
}
