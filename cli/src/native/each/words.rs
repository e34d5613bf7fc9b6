//! What the command and its workers say to each other, as frames over a worker's standard input
//! and output. Both are the same program.

use super::source::INPUT_BYTES;
use super::task::{Ended, Task};
use cosy_model::text::OsText;
use serde::{Deserialize, Serialize};

/// Bytes of what a task writes that are passed on, at most.
pub const OUTPUT_BYTES: u64 = 64 << 20;
/// Bytes of a frame: what a task wrote, twice, or the command with an input.
pub const FRAME_BYTES: usize = 2 * OUTPUT_BYTES as usize + 16 * INPUT_BYTES;

/// How a worker is to run tasks: the first thing it is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Words of the command, with places for the input.
    pub command: Vec<OsText>,
    /// Whether each input is a command for `/bin/sh` and there is no other.
    pub shell: bool,
    /// What stands between columns of an input.
    pub separator: Option<OsText>,
    /// Name of a file for each task's output, with places for the input.
    pub output: Option<OsText>,
    /// Bytes of a task's output that are kept where there is no such file.
    pub output_bytes: u64,
    /// Milliseconds that an attempt may take.
    pub timeout_ms: Option<u64>,
    /// Where tasks run.
    pub directory: OsText,
    /// How many tasks run at once.
    pub slots: u32,
    /// GPUs that each place has for itself, out of those of the node.
    pub gpus: u32,
}

/// What a worker is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToWorker {
    /// How tasks are run.
    Plan(Plan),
    /// Run this one, as soon as a place is free.
    Run(Task),
    /// End what runs, by this signal.
    Stop(i32),
}

/// What a worker says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FromWorker {
    /// It is there and has understood the plan.
    Ready,
    /// An attempt is over.
    Ended(Ended),
    /// It cannot go on.
    Failed(String),
}
