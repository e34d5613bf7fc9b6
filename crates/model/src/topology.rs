//! The switches that nodes hang on, as configured.

use crate::{limits, text};
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

/// Whether a switch can be called that.
pub fn is_name(text: &str) -> bool {
    text::is_word(text) && text.len() <= limits::SWITCH_NAME_BYTES
}

/// How far above its leaves each switch is, in the order of `all`: 0 for a leaf; `None` for one that
/// hangs on itself, or above one that there is not, or too high.
pub fn levels(all: &[SwitchSpec]) -> Vec<Option<u32>> {
    let mut levels: BTreeMap<&str, u32> = BTreeMap::new();
    // Each round settles the switches one level farther up. No tree may have more levels.
    for _ in 0..=limits::SWITCH_LEVELS {
        let level = |switch: &SwitchSpec| {
            let below = switch.switches.iter();
            let known = below.map(|name| levels.get(name.as_str()).copied());
            let highest = known.collect::<Option<Vec<u32>>>()?.into_iter().max();
            Some(highest.map_or(0, |highest| highest + 1))
        };
        let open = all
            .iter()
            .filter(|switch| !levels.contains_key(&*switch.name));
        let settled = open.filter_map(|switch| Some((&*switch.name, level(switch)?)));
        let settled: Vec<(&str, u32)> = settled.collect();
        if settled.is_empty() {
            break;
        }
        levels.extend(settled);
    }
    let each = all.iter().map(|switch| levels.get(&*switch.name).copied());
    each.collect()
}

/// What is under each switch, by its name: `own` of itself, and what is under those that hang on it.
pub fn under<T: Clone>(
    all: &[SwitchSpec],
    own: impl Fn(&SwitchSpec) -> Vec<T>,
) -> BTreeMap<&str, Vec<T>> {
    let mut upwards: Vec<(Option<u32>, &SwitchSpec)> = levels(all).into_iter().zip(all).collect();
    upwards.sort_by_key(|(level, _)| *level);
    let mut under: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    for (_, switch) in upwards {
        let below = switch.switches.iter();
        let below = below.filter_map(|name| under.get(name.as_str()));
        let mut here = own(switch);
        here.extend(below.flatten().cloned());
        under.insert(&switch.name, here);
    }
    under
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
