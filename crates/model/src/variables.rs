//! Names of the variables in which jobs are told of themselves, where one part of ours sets them
//! and another reads them again, and the form of lists in them.

use crate::limits;

/// Name of the cluster.
pub const CLUSTER: &str = "COSY_CLUSTER";
/// In which words a job is spoken to, where these are not Cosy's own.
pub const DIALECT: &str = "COSY_DIALECT";
/// Id of the job; of a task of an array its own.
pub const JOB_ID: &str = "COSY_JOB_ID";
/// Name of the job.
pub const JOB_NAME: &str = "COSY_JOB_NAME";
/// Number of this attempt, from 1.
pub const JOB_ATTEMPT: &str = "COSY_JOB_ATTEMPT";
/// Login name of the job's owner.
pub const JOB_USER: &str = "COSY_JOB_USER";
/// Number of the owner.
pub const JOB_UID: &str = "COSY_JOB_UID";
/// Primary group of the owner, by number.
pub const JOB_GID: &str = "COSY_JOB_GID";
/// Queue that the job runs in.
pub const QUEUE: &str = "COSY_QUEUE";
/// Account that the job charges.
pub const ACCOUNT: &str = "COSY_ACCOUNT";
/// Quality of service that the job named.
pub const QOS: &str = "COSY_QOS";
/// Reservation that the job runs in.
pub const RESERVATION: &str = "COSY_RESERVATION";
/// Nodes as a host list, in the order of the job.
pub const NODES: &str = "COSY_NODES";
/// Number of nodes.
pub const NODE_COUNT: &str = "COSY_NODE_COUNT";
/// Number of tasks on all nodes together.
pub const TASKS: &str = "COSY_TASKS";
/// Number of tasks on each node: see [`write_counts`].
pub const TASKS_BY_NODE: &str = "COSY_TASKS_BY_NODE";
/// Cores on each node: see [`write_counts`].
pub const CORES_BY_NODE: &str = "COSY_CORES_BY_NODE";
/// Cores of each task, as asked for.
pub const CORES_PER_TASK: &str = "COSY_CORES_PER_TASK";
/// Memory on the first node in MiB.
pub const MEMORY: &str = "COSY_MEMORY_MIB";
/// Memory for each core in MiB, where that was asked for.
pub const MEMORY_PER_CORE: &str = "COSY_MEMORY_PER_CORE_MIB";
/// Of a job of several components: how many.
pub const COMPONENTS: &str = "COSY_BUNDLES";
/// Of a job of several components: that of each node, see [`write_counts`].
pub const COMPONENT_BY_NODE: &str = "COSY_BUNDLE_BY_NODE";
/// First id of the array.
pub const ARRAY_ID: &str = "COSY_ARRAY_ID";
/// Index of this task in the array.
pub const ARRAY_TASK: &str = "COSY_ARRAY_TASK";
/// Number of the array's tasks.
pub const ARRAY_COUNT: &str = "COSY_ARRAY_COUNT";
/// Lowest index of the array.
pub const ARRAY_MIN: &str = "COSY_ARRAY_MIN";
/// Highest index of the array.
pub const ARRAY_MAX: &str = "COSY_ARRAY_MAX";
/// From one index of the array to the next.
pub const ARRAY_STEP: &str = "COSY_ARRAY_STEP";

/// What begins the names of all of Cosy's variables.
pub const PREFIX: &str = "COSY_";

/// The variable that tells `what` of one component, counted from 0: `COSY_BUNDLE_1_NODES`.
pub fn of_component(component: u32, what: &str) -> String {
    format!("COSY_BUNDLE_{component}_{what}")
}

/// A number for each node, in the order of the nodes: `3,1`.
pub fn write_counts(counts: impl IntoIterator<Item = u32>) -> String {
    let each: Vec<String> = counts.into_iter().map(|n| n.to_string()).collect();
    each.join(",")
}

/// The numbers again; `None` when the text has something else in it, or more numbers than a job
/// can have nodes.
pub fn read_counts(text: &str) -> Option<Vec<u32>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let mut counts = Vec::new();
    for word in text.split(',') {
        if counts.len() >= limits::NODES {
            return None;
        }
        counts.push(word.parse().ok()?);
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_list_of_counts_is_none() {
        for text in ["x", "1,", ",1", "1,,2", "1, 2", "-1", "4294967296", "4(x2)"] {
            assert_eq!(read_counts(text), None, "{text}");
        }
        let many = write_counts(std::iter::repeat_n(1, limits::NODES + 1));
        assert_eq!(read_counts(&many), None);
    }

    proptest! {
        #[test]
        fn counts_are_read_again(counts in prop::collection::vec(any::<u32>(), 0..20)) {
            let text = write_counts(counts.iter().copied());
            prop_assert_eq!(read_counts(&text), Some(counts));
        }
    }
}
