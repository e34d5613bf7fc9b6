//! A sorted map of which a copy costs next to nothing: copies share what neither has changed
//! since. What thousands of reservations need when snapshots are made all the time.
//!
//! Entries lie in runs of a few dozen; a change copies the run that it is in, if somebody
//! else has it too.
//!
//! What always holds: entries are sorted by key, each key is there once, no run is empty.

use std::sync::Arc;

const RUN: usize = 32;

/// A map whose copies share what neither has changed.
#[derive(Clone, Debug)]
pub(crate) struct CowMap<K, V> {
    runs: Vec<Arc<Vec<(K, V)>>>,
}

impl<K, V> Default for CowMap<K, V> {
    fn default() -> Self {
        Self { runs: Vec::new() }
    }
}

impl<K: Ord + Copy, V: Clone> CowMap<K, V> {
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn first(&self) -> Option<&K> {
        self.runs.first()?.first().map(|(key, _)| key)
    }

    pub fn last(&self) -> Option<&K> {
        self.runs.last()?.last().map(|(key, _)| key)
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        let run = self.runs.get(self.run_of(key))?;
        let at = run.binary_search_by_key(key, |(key, _)| *key).ok()?;
        Some(&run[at].1)
    }

    /// What is there under that key, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at_run = self.run_of(key);
        let run = Arc::make_mut(self.runs.get_mut(at_run)?);
        let at = run.binary_search_by_key(key, |(key, _)| *key).ok()?;
        run.get_mut(at).map(|(_, value)| value)
    }

    /// The entries, by key.
    pub fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.runs.iter().flat_map(|run| run.iter())
    }

    /// The keys from `key` on.
    pub fn from(&self, key: K) -> impl Iterator<Item = &K> {
        let runs = self.runs[self.run_of(&key).min(self.runs.len())..].iter();
        let keys = runs.flat_map(|run| run.iter()).map(|(key, _)| key);
        keys.skip_while(move |other| **other < key)
    }

    /// Puts it in; what was there under that key is replaced and returned.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.runs.is_empty() {
            self.runs.push(Arc::new(vec![(key, value)]));
            return None;
        }
        let at_run = self.run_of(&key);
        let run = Arc::make_mut(&mut self.runs[at_run]);
        match run.binary_search_by_key(&key, |(key, _)| *key) {
            Ok(at) => return Some(std::mem::replace(&mut run[at].1, value)),
            Err(at) => run.insert(at, (key, value)),
        }
        if run.len() > 2 * RUN {
            let later = Arc::new(run.split_off(RUN));
            self.runs.insert(at_run + 1, later);
        }
        None
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at_run = self.run_of(key);
        let run = self.runs.get_mut(at_run)?;
        let at = run.binary_search_by_key(key, |(key, _)| *key).ok()?;
        let (_, value) = Arc::make_mut(run).remove(at);
        if run.is_empty() {
            self.runs.remove(at_run);
        }
        Some(value)
    }

    /// The run in which `key` is, or would be.
    fn run_of(&self, key: &K) -> usize {
        let after = self.runs.partition_point(|run| run[0].0 <= *key);
        after.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_tree_and_leaves_copies_alone() {
        let (mut shelf, mut tree) = (CowMap::default(), BTreeMap::new());
        let mut copies = Vec::new();
        let mut dice = 88_172_645_463_325_252u64;
        for step in 0..20_000 {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            let (key, value) = (dice % 900, dice / 900);
            // It grows, then shrinks to nothing.
            match dice / 7 % 10 < if step < 9_000 { 6 } else { 2 } {
                true => assert_eq!(shelf.insert(key, value), tree.insert(key, value)),
                false => assert_eq!(shelf.remove(&key), tree.remove(&key)),
            }
            assert_eq!(shelf.get(&key), tree.get(&key));
            assert_eq!(shelf.is_empty(), tree.is_empty());
            if step % 500 == 0 {
                copies.push((shelf.clone(), tree.clone()));
            }
        }
        copies.push((shelf, tree));
        for (shelf, tree) in copies {
            let entries = tree.iter().map(|(key, value)| (*key, *value));
            assert!(shelf.iter().copied().eq(entries));
            assert_eq!(shelf.first(), tree.keys().next());
            assert_eq!(shelf.last(), tree.keys().next_back());
            for from in [0, 1, 450, 899, 5000] {
                assert!(shelf.from(from).eq(tree.range(from..).map(|(key, _)| key)));
            }
        }
    }
}
