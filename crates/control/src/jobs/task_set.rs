//! Places of tasks in their array, a bit each: an array may have a million of them.

/// Places of tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskSet {
    words: Vec<u64>,
    count: usize,
    /// No word before this one has a place.
    first: usize,
}

const BITS: usize = u64::BITS as usize;

impl TaskSet {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn insert(&mut self, place: usize) {
        let (at, bit) = (place / BITS, 1 << (place % BITS));
        if self.words.len() <= at {
            self.words.resize(at + 1, 0);
        }
        if let Some(word) = self.words.get_mut(at).filter(|word| **word & bit == 0) {
            *word |= bit;
            self.first = if self.count == 0 {
                at
            } else {
                self.first.min(at)
            };
            self.count += 1;
        }
    }

    pub fn remove(&mut self, place: usize) {
        let (at, bit) = (place / BITS, 1 << (place % BITS));
        if let Some(word) = self.words.get_mut(at).filter(|word| **word & bit != 0) {
            *word &= !bit;
            self.count -= 1;
        }
        if self.count == 0 {
            *self = Self::default();
            return;
        }
        while self.words.get(self.first) == Some(&0) {
            self.first += 1;
        }
    }

    /// The least place.
    pub fn first(&self) -> Option<usize> {
        let word = self.words.get(self.first).filter(|word| **word != 0)?;
        Some(self.first * BITS + word.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_a_tree() {
        let (mut set, mut tree) = (TaskSet::default(), BTreeSet::new());
        let mut dice = 88_172_645_463_325_252u64;
        for step in 0..20_000 {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            let place = (dice % 700) as usize;
            // It grows, then shrinks to nothing.
            match dice / 700 % 10 < if step < 9_000 { 6 } else { 2 } {
                true => {
                    set.insert(place);
                    tree.insert(place);
                }
                false => {
                    set.remove(place);
                    tree.remove(&place);
                }
            }
            assert_eq!(set.first(), tree.first().copied(), "{step}");
            assert_eq!(set.is_empty(), tree.is_empty());
        }
    }
}
