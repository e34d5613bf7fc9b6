//! Texts of several values: each with its writer and, where a part of ours reads it, its reader.

pub mod by_node;
pub mod counted;
pub mod dependency;
pub mod end_note;
pub mod features;
pub mod gres;
pub mod ids_by_node;
pub mod moment;
pub mod priority_factors;
pub mod request;
pub mod room_makers;
pub mod row_name;
pub mod slot_hint;
pub mod task_fault;

use cosy_model::hostlist;

/// Ascending indices of array tasks as ranges: `1-3,7`. [`cosy_model::ArraySpec`] reads them.
pub fn indices(tasks: impl Iterator<Item = u32>) -> String {
    let numbers: Vec<u64> = tasks.map(u64::from).collect();
    hostlist::ranges(&numbers, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::ArraySpec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn indices_are_read_again(tasks in prop::collection::btree_set(0u32..2000, 1..60)) {
            let tasks: Vec<u32> = tasks.into_iter().collect();
            let read: ArraySpec = indices(tasks.iter().copied()).parse().unwrap();
            let again: BTreeSet<u32> = read.indices().iter().collect();
            prop_assert_eq!(again.into_iter().collect::<Vec<_>>(), tasks);
        }
    }
}
