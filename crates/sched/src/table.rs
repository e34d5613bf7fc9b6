//! Things by id. Looked up at every event, so it is a hash table, and made so that the
//! order in which it stores them can be seen by nobody.
//!
//! What always holds: without a random key, and whoever walks over it gets it sorted.

#![allow(clippy::disallowed_types)] // never walked over in the order of its places

use cosy_model::JobId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// Values by key.
#[derive(Clone, Debug)]
pub(crate) struct Table<K, T> {
    all: HashMap<K, T, BuildHasherDefault<IdHasher>>,
}

/// Values by job.
pub(crate) type JobTable<T> = Table<JobId, T>;

impl<K, T> Default for Table<K, T> {
    fn default() -> Self {
        Self {
            all: HashMap::default(),
        }
    }
}

impl<K: Hash + Eq + Copy, T> Table<K, T> {
    pub fn insert(&mut self, key: K, value: T) -> Option<T> {
        self.all.insert(key, value)
    }

    pub fn remove(&mut self, key: K) -> Option<T> {
        self.all.remove(&key)
    }

    pub fn get(&self, key: K) -> Option<&T> {
        self.all.get(&key)
    }

    pub fn get_mut(&mut self, key: K) -> Option<&mut T> {
        self.all.get_mut(&key)
    }

    pub fn contains(&self, key: K) -> bool {
        self.all.contains_key(&key)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn clear(&mut self) {
        self.all.clear();
    }

    /// The values, sorted by something that is different for each.
    pub fn sorted_by_key<O: Ord>(&self, order: impl Fn(&T) -> O) -> Vec<&T> {
        let mut all: Vec<&T> = self.all.values().collect();
        all.sort_unstable_by_key(|value| order(value));
        all
    }
}

/// Spreads ids, which are mostly consecutive.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(n.into());
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}
