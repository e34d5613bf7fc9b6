//! Lines about failed tasks and nodes, in Cosy's dialect. Pure.

use crate::units::bytes;
use cosy_model::hostlist::ranges;
use cosy_model::{fold, signal};

/// How a task failed: its exit code, the signal that ended it, or why it was never executed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TaskFailure {
    Code(i32),
    Signal(i32),
    NeverRan(String),
}

/// What went wrong on a node as a whole; `Lost` has the reason why nothing more is heard of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum NodeFailure {
    TimeLimit,
    Cancelled,
    OutOfMemory,
    LaunchFailed(String),
    SupervisorLost,
    NodeLost,
    Lost(String),
}

/// A reason without the name of the node, so that the same failure on many nodes makes one line.
pub(super) fn without_node_name(text: &str, node: &str) -> String {
    text.replacen(&format!(" on {node}"), "", 1)
}

/// One line about what went wrong on these nodes.
pub(super) fn node_failure_line(failure: &NodeFailure, nodes: &[String], peak: u64) -> String {
    let mut nodes = nodes.to_vec();
    nodes.sort_unstable();
    let nodes = fold(&nodes);
    match failure {
        NodeFailure::TimeLimit => format!("{nodes}: ended at the time limit"),
        NodeFailure::Cancelled => format!("{nodes}: the step was cancelled"),
        NodeFailure::OutOfMemory => {
            let peak = bytes(i64::try_from(peak).unwrap_or(i64::MAX));
            format!("{nodes}: ended because it ran out of memory (peak {peak})")
        }
        NodeFailure::LaunchFailed(why) => format!("{nodes}: the step could not be started: {why}"),
        NodeFailure::SupervisorLost => {
            format!("{nodes}: the step's supervisor was killed; what was left was ended")
        }
        NodeFailure::NodeLost => format!("{nodes}: the node was lost"),
        NodeFailure::Lost(reason) => format!("{nodes}: lost: {reason}"),
    }
}

/// A signal's number and name, as in `9 (SIGKILL)`; the number alone where it has no name.
pub(super) fn signal_words(signal: i32) -> String {
    let name = signal::name(signal.into());
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        signal.to_string()
    } else {
        format!("{signal} (SIG{name})")
    }
}

/// Ranks, given in ascending order, as in `task 3` or `tasks 0-3,7`; at most 16 ranges are shown.
pub fn tasks_words(ranks: &[u32]) -> String {
    const RANGES: usize = 16;
    let numbers: Vec<u64> = ranks.iter().map(|r| u64::from(*r)).collect();
    let text = ranges(&numbers, 0);
    let all: Vec<&str> = text.split(',').collect();
    let name = if ranks.len() == 1 { "task" } else { "tasks" };
    if all.len() <= RANGES {
        return format!("{name} {text}");
    }
    let shown = all[..RANGES].join(",");
    format!("{name} {shown},... ({} in all)", ranks.len())
}
