//! Things by job, in a table of which a copy costs next to nothing: copies share what neither has
//! changed since. What a long line of waiting jobs needs when a snapshot is made for each question
//! about one of them.
//!
//! Jobs lie in parts, neighbours by id in the same one; a change copies the part that it is in, if
//! somebody else has it too.
//!
//! What always holds: a job is in the part of its id and nowhere else, and `len` counts all.

use crate::table::JobTable;
use cosy_model::JobId;
use std::sync::Arc;

/// Parts of a table that is not empty.
const PARTS: u64 = 512;
/// Jobs with ids side by side that lie in the same part.
const NEIGHBOURS: u64 = 32;

/// Values by job; copies share what neither has changed.
#[derive(Clone, Debug)]
pub(crate) struct SharedTable<T> {
    /// [`PARTS`] of them, or none before the first job.
    parts: Vec<Arc<JobTable<T>>>,
    len: usize,
}

impl<T> Default for SharedTable<T> {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            len: 0,
        }
    }
}

/// The part of a job.
const fn part_of(job: JobId) -> usize {
    (job.0 / NEIGHBOURS % PARTS) as usize
}

impl<T: Clone> SharedTable<T> {
    pub fn get(&self, job: JobId) -> Option<&T> {
        self.parts.get(part_of(job))?.get(job)
    }

    pub fn contains(&self, job: JobId) -> bool {
        self.get(job).is_some()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// What is there for that job, to be changed.
    pub fn get_mut(&mut self, job: JobId) -> Option<&mut T> {
        let part = self.parts.get_mut(part_of(job))?;
        match part.contains(job) {
            true => Arc::make_mut(part).get_mut(job),
            false => None,
        }
    }

    /// Puts it in; what was there for that job is replaced and returned.
    pub fn insert(&mut self, job: JobId, value: T) -> Option<T> {
        if self.parts.is_empty() {
            self.parts = vec![Arc::default(); PARTS as usize];
        }
        let part = self.parts.get_mut(part_of(job))?;
        let old = Arc::make_mut(part).insert(job, value);
        self.len += usize::from(old.is_none());
        old
    }

    pub fn remove(&mut self, job: JobId) -> Option<T> {
        let part = self.parts.get_mut(part_of(job))?;
        let found = part.contains(job);
        let old = found.then(|| Arc::make_mut(part).remove(job)).flatten();
        self.len -= usize::from(old.is_some());
        old
    }

    /// The values, sorted by something that is different for each.
    pub fn sorted_by_key<O: Ord>(&self, order: impl Fn(&T) -> O) -> Vec<&T> {
        let parts = self.parts.iter();
        let mut all: Vec<&T> = parts.flat_map(|part| part.sorted_by_key(&order)).collect();
        all.sort_by_key(|value| order(value)); // parts are in order: they are only merged
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_tree_and_leaves_copies_alone() {
        let (mut table, mut tree) = (SharedTable::default(), BTreeMap::new());
        let mut copies = Vec::new();
        let mut dice = 88_172_645_463_325_252u64;
        for step in 0..60_000u64 {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            // More ids than all parts have neighbours.
            let (job, value) = (JobId(dice % 40_000), (dice / 40_000, step));
            match dice / 7 % 10 {
                0..5 => assert_eq!(table.insert(job, value), tree.insert(job, value)),
                5..8 => assert_eq!(table.remove(job), tree.remove(&job)),
                _ => {
                    let (mine, other) = (table.get_mut(job), tree.get_mut(&job));
                    assert_eq!(mine, other);
                    mine.into_iter().chain(other).for_each(|value| value.0 += 1);
                }
            }
            assert_eq!(table.get(job), tree.get(&job));
            assert_eq!((table.contains(job), table.len()), (tree.contains_key(&job), tree.len()));
            if step % 5_000 == 0 {
                copies.push((table.clone(), tree.clone()));
            }
        }
        copies.push((table, tree));
        for (table, tree) in copies {
            let mut values: Vec<_> = tree.values().collect();
            values.sort_by_key(|value| value.1);
            assert_eq!(table.sorted_by_key(|value| value.1), values);
            assert_eq!(table.len(), tree.len());
        }
    }

    #[test]
    fn a_change_copies_one_part() {
        let mut table = SharedTable::default();
        for id in 0..40_000 {
            table.insert(JobId(id), id);
        }
        let copy = table.clone();
        table.remove(JobId(77));
        assert_eq!(table.remove(JobId(77)), None);
        let pairs = table.parts.iter().zip(&copy.parts);
        assert_eq!(
            pairs
                .filter(|(one, other)| !Arc::ptr_eq(one, other))
                .count(),
            1
        );
        assert_eq!((copy.get(JobId(77)), copy.len()), (Some(&77), 40_000));
    }
}
