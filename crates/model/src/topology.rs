//! The switches that nodes hang on, as configured.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A switch of the network: a leaf with nodes, or one above other switches.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SwitchSpec {
    /// Its name, unique in the cluster.
    pub name: String,
    /// Nodes that hang on it; none where it is above other switches.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Switches that hang on it.
    #[serde(default)]
    pub switches: Vec<String>,
}

/// How far above its leaves each switch is, in the order of `all`: 0 for a leaf; `None` for one that
/// hangs on itself.
pub fn levels(all: &[SwitchSpec]) -> Vec<Option<u32>> {
    let mut levels: Vec<Option<u32>> = vec![None; all.len()];
    let names = all.iter().enumerate();
    let names: BTreeMap<&str, usize> = names.map(|(at, one)| (&*one.name, at)).collect();
    let at = |name: &String| names.get(name.as_str()).copied();
    let below: Vec<Vec<usize>> = all
        .iter()
        .map(|switch| switch.switches.iter().filter_map(at).collect())
        .collect();
    // Each round settles the switches one level farther up.
    loop {
        let mut settled = false;
        for (one, under) in below.iter().enumerate() {
            let under: Option<Vec<u32>> = under.iter().map(|other| levels[*other]).collect();
            let level = under.map(|all| all.into_iter().max().map_or(0, |most| most + 1));
            if levels[one].is_none() && level.is_some() {
                levels[one] = level;
                settled = true;
            }
        }
        if !settled {
            return levels;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn above(name: &str, switches: &[&str]) -> SwitchSpec {
        SwitchSpec {
            name: name.to_owned(),
            nodes: Vec::new(),
            switches: switches.iter().map(|s| (*s).to_owned()).collect(),
        }
    }

    #[test]
    fn levels_of_a_tree_and_of_a_ring() {
        let tree = [
            above("top", &["mid", "c"]),
            above("mid", &["a"]),
            above("a", &[]),
            above("c", &[]),
        ];
        assert_eq!(levels(&tree), [Some(2), Some(1), Some(0), Some(0)]);
        let ring = [above("a", &["b"]), above("b", &["a"]), above("c", &[])];
        assert_eq!(levels(&ring), [None, None, Some(0)]);
    }
}
