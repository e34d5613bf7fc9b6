//! A map for a few entries, of which nearly always there is one: sorted, and no larger than what is in it.

/// Entries in the order of their keys.
#[derive(Debug)]
pub(crate) struct SmallMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord + Copy, V> SmallMap<K, V> {
    fn place(&self, key: K) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, |(key, _)| *key)
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        let at = self.place(*key).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.place(*key).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    pub fn contains_key(&self, key: &K) -> bool {
        self.place(*key).is_ok()
    }

    /// Puts a value in the place of the one that is there, if there is one.
    pub fn insert(&mut self, key: K, value: V) {
        match self.place(key) {
            Ok(at) => {
                if let Some(known) = self.0.get_mut(at) {
                    *known = (key, value);
                }
            }
            Err(at) => {
                if self.0.is_empty() {
                    self.0.reserve_exact(1);
                }
                self.0.insert(at, (key, value));
            }
        }
    }

    pub fn remove(&mut self, key: &K) {
        if let Ok(at) = self.place(*key) {
            self.0.remove(at);
        }
    }

    /// Those from a key on.
    pub fn range_from(&self, key: K) -> impl Iterator<Item = (&K, &V)> {
        let before = move |entry: &&(K, V)| entry.0 < key;
        let from = self.0.iter().skip_while(before);
        from.map(|(key, value)| (key, value))
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stand_in_order() {
        let mut map = SmallMap::default();
        for key in [5, 1, 9, 5] {
            map.insert(key, key * 10);
        }
        map.insert(1, 7);
        assert_eq!(map.iter().collect::<Vec<_>>(), [(&1, &7), (&5, &50), (&9, &90)]);
        assert_eq!(map.range_from(2).collect::<Vec<_>>(), [(&5, &50), (&9, &90)]);
        map.remove(&5);
        map.remove(&4);
        assert!(!map.contains_key(&5));
        assert_eq!((map.get(&9), map.get(&5)), (Some(&90), None));
        *map.get_mut(&9).unwrap() = 8;
        assert_eq!(map.values().collect::<Vec<_>>(), [&7, &8]);
    }
}
