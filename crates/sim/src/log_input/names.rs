//! Names of a log and their indices in the workload.

use crate::workload::UNKNOWN;
use std::collections::BTreeMap;

/// Names of users, accounts or queues in the order of their first appearance; index 0
/// stands for unknown ones.
pub struct Names<K> {
    indices: BTreeMap<K, u32>,
    names: Vec<String>,
}

impl<K: Ord> Default for Names<K> {
    /// Only the name at index 0, which stands for unknown ones.
    fn default() -> Self {
        Self {
            indices: BTreeMap::new(),
            names: vec![UNKNOWN.to_owned()],
        }
    }
}

impl<K: Ord> Names<K> {
    /// The index of `key`, which gets the next one and a name if it is new.
    pub fn index(&mut self, key: K, name: impl FnOnce() -> String) -> u32 {
        *self.indices.entry(key).or_insert_with(|| {
            self.names.push(printable(&name()));
            (self.names.len() - 1) as u32
        })
    }

    /// Gives `key` a name, the last one counts.
    pub fn rename(&mut self, key: K, name: String) {
        let index = self.index(key, String::new);
        self.names[index as usize] = printable(&name);
    }

    /// How many names there are, the one for unknown ones included.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// All of them by index.
    pub fn into_names(self) -> Vec<String> {
        self.names
    }
}

/// Names come from outside and go to terminals.
fn printable(name: &str) -> String {
    name.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_first_index() {
        let mut names = Names::default();
        names.rename(7, "seven".to_owned());
        assert_eq!(names.index(3, || "3".to_owned()), 2);
        assert_eq!(names.index(7, || "7".to_owned()), 1);
        assert_eq!(names.into_names(), ["unknown", "seven", "3"]);
    }
}
