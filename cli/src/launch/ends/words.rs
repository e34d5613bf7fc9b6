//! What is said about the ends of tasks and nodes. Pure.

use crate::units::bytes;
use cosy_model::hostlist::ranges;
use cosy_model::{fold, signal};

/// How a task that did not end well ended.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Bad {
    Code(i32),
    Signal(i32),
    NeverRan(String),
}

/// What went wrong on a node as a whole.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Trouble {
    TimeLimit,
    Cancelled,
    OutOfMemory,
    LaunchFailed(String),
    SupervisorLost,
    NodeLost,
    Lost(String),
}

/// What failed on many nodes for one reason is one reason.
pub(super) fn without(text: &str, node: &str) -> String {
    text.replacen(&format!(" on {node}"), "", 1)
}

/// One line about what went wrong on these nodes.
pub(super) fn trouble_line(trouble: &Trouble, nodes: &[String], peak: u64) -> String {
    let mut nodes = nodes.to_vec();
    nodes.sort_unstable();
    let nodes = fold(&nodes);
    match trouble {
        Trouble::TimeLimit => format!("{nodes}: ended at the time limit"),
        Trouble::Cancelled => format!("{nodes}: the step was cancelled"),
        Trouble::OutOfMemory => {
            let peak = bytes(i64::try_from(peak).unwrap_or(i64::MAX));
            format!("{nodes}: ended because it ran out of memory (peak {peak})")
        }
        Trouble::LaunchFailed(why) => format!("{nodes}: the step could not be started: {why}"),
        Trouble::SupervisorLost => {
            format!("{nodes}: the step's supervisor was killed; what was left was ended")
        }
        Trouble::NodeLost => format!("{nodes}: the node was lost"),
        Trouble::Lost(reason) => format!("{nodes}: lost: {reason}"),
    }
}

/// `9 (SIGKILL)`.
pub(super) fn signal_words(signal: i32) -> String {
    let name = signal::name(signal.into());
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        signal.to_string()
    } else {
        format!("{signal} (SIG{name})")
    }
}

/// `task 3`, `tasks 0-3,7`; shortened where there are many ranges. Takes them ascending.
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
