//! Frames between a command, the supervisors of its step, and the tasks.

use super::display::DisplayFrame;
use super::spec::Window;
use crate::{End, OsText};
use serde::{Deserialize, Serialize};

/// Which of a task's outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output (and the terminal's output).
    Output,
    /// Standard error of the tasks.
    Error,
}

/// How a task ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskEnd {
    /// Exit code; 0 when a signal ended it; 127 when it never ran.
    pub exit_code: i32,
    /// Signal that ended it; 0 without.
    pub signal: i32,
    /// Why it never ran: in one line.
    #[serde(default)]
    pub failure: Option<String>,
}

/// How a step ended on one node: sent when nothing of it is left there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeEnd {
    /// Why, what it used; exit code and signal are the worst task's.
    pub end: End,
    /// What could not be killed or cleaned up.
    #[serde(default)]
    pub drain: Option<String>,
    /// Processes that the kernel killed because there was no memory left.
    #[serde(default)]
    pub starved: u64,
}

/// From the tasks to the command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpFrame {
    /// Output of a task. Never reordered within a task and stream; all of it comes before
    /// the [`UpFrame::NodeEnded`] of its node.
    Output {
        /// Number of the task that wrote it.
        rank: u32,
        /// Which of the task's outputs it was written to.
        stream: Stream,
        /// What was written, as it came.
        bytes: Vec<u8>,
    },
    /// All tasks of a node were forked.
    Started {
        /// Number of the node in the step.
        node: u32,
        /// Process number of each rank there.
        tasks: Vec<(u32, i32)>,
    },
    /// A task has ended.
    TaskEnded {
        /// Number of the task within the step.
        rank: u32,
        /// Exit code or signal of the task.
        end: TaskEnd,
    },
    /// Nothing of the step is left on a node. The last frame about it.
    NodeEnded {
        /// Number of the node in the step.
        node: u32,
        /// What the step came to on that node.
        end: NodeEnd,
    },
    /// These nodes cannot be reached or refused: nothing more comes from them.
    Lost {
        /// Numbers of the nodes in the step.
        nodes: Vec<u32>,
        /// Why, in one line.
        reason: String,
    },
    /// The step is being ended from outside: by an order to its head or at its limit. Only
    /// steps of Slurm's dialect say so.
    Ending {
        /// What the end is put down to.
        cause: crate::job::KillCause,
        /// Its job makes room for another one.
        #[serde(default)]
        preempted: bool,
    },
    /// Input that all tasks with input have taken.
    StdinTaken {
        /// Bytes since the start.
        bytes: u64,
    },
    /// What the nodes of this part of the tree add to an exchange (see [`super::Wireup`]).
    Gather {
        /// Zero-based number of the exchange within the step.
        round: u32,
        /// Node number and its share.
        parts: Vec<(u32, OsText)>,
    },
    /// A task wants the whole step to end (`MPI_Abort`).
    Abort {
        /// Number of the task that asks for it.
        rank: u32,
        /// With this exit code.
        code: i32,
        /// Why, in one line; may be empty.
        reason: String,
    },
    /// What an X client on a node does; only in steps with a [`super::StepSpec::display`].
    Display(DisplayFrame),
}

/// From the command to the tasks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DownFrame {
    /// Input. At most [`crate::limits::STDIN_WINDOW`] bytes may be under way that were not
    /// taken yet.
    Stdin {
        /// What the command has read, as it came.
        bytes: Vec<u8>,
    },
    /// No more input.
    StdinEnd,
    /// Send a signal to every task (and what it started).
    Signal {
        /// Number as the kernel has it.
        signal: i32,
    },
    /// End the step: SIGTERM, grace, SIGKILL; a second time: SIGKILL at once.
    Kill,
    /// The terminal has another size.
    Window(Window),
    /// The shares of all nodes in an exchange.
    Spread {
        /// Number of the exchange among the tasks.
        round: u32,
        /// Node number and its share, by node.
        parts: Vec<(u32, OsText)>,
    },
    /// What the real display does to an X client; only in steps with a
    /// [`super::StepSpec::display`].
    Display(DisplayFrame),
    /// The command has gone: end everything at once.
    Gone,
}
