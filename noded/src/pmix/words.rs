//! What a step's supervisor and its PMIx helper say to each other, in frames of
//! [`cosy_proto::frame`] over a pair of sockets.
//!
//! The helper acts as the user and shares its identity with the tasks: the supervisor
//! takes what it says as it takes what a task says.

use cosy_model::OsText;
use cosy_model::limits;
use cosy_model::step::StepLayout;
use serde::{Deserialize, Serialize};

/// Most bytes of one frame in either direction.
pub const FRAME: usize = limits::STEP_FRAME + (64 << 10);

/// What the helper needs to know before it can serve anybody.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// A name that no other step has and that no other user can guess; the same on all
    /// nodes of the step.
    pub namespace: String,
    /// The job as users write it.
    pub job: String,
    /// Which tasks of the step run on which nodes.
    pub layout: StepLayout,
    /// This node by its number in the layout.
    pub node: u32,
    /// For each program of the step its ranks as inclusive ranges; none: all.
    pub programs: Vec<Vec<(u32, u32)>>,
    /// Directory to make and to remove in the end: absolute, not there yet.
    pub directory: OsText,
    /// The library as the dynamic linker is asked for it: a name, or a path.
    pub library: OsText,
}

/// To the helper. The end of the stream means: finish.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToHelper {
    /// The first frame.
    Setup(Box<Setup>),
    /// The shares of all nodes in the oldest exchange that is not answered.
    Spread {
        /// Node number and its share, by node.
        parts: Vec<(u32, OsText)>,
    },
}

/// A message from the helper to the supervisor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromHelper {
    /// The helper serves: tasks may start.
    Ready {
        /// For each rank of this node its variables, `NAME=value`.
        variables: Vec<(u32, Vec<OsText>)>,
    },
    /// A task has begun to speak PMIx: it owes the others that it takes leave of them.
    Joined {
        /// Rank of the task in its step, from 0.
        rank: u32,
    },
    /// A task has taken leave. It goes on only after this was said.
    Left {
        /// Rank of the task in its step, from 0.
        rank: u32,
    },
    /// All tasks of this node have come to the exchange: this is the node's share. The
    /// next one follows only after the answer.
    Contribute {
        /// The share of this task, as the library gave it.
        bytes: OsText,
    },
    /// A task wants the whole step to end.
    Abort {
        /// Rank of the task in its step, from 0.
        rank: u32,
        /// With this exit code.
        code: i32,
        /// Why, in one line; may be empty.
        reason: String,
    },
    /// The helper cannot serve, or no longer. Its last frame.
    Failed {
        /// Why, in one line.
        reason: String,
    },
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use cosy_model::step::RankRun;

    /// A step with so many nodes and tasks on each, as one of them sees it.
    pub fn setup(nodes: u32, each: u32, node: u32) -> Setup {
        let run = |n: u32| RankRun {
            first: n * each,
            count: each,
            stride: 1,
        };
        Setup {
            namespace: "cosy-test".to_owned(),
            job: "12.0".to_owned(),
            layout: StepLayout {
                nodes: (0..nodes).map(|n| format!("n{}", n + 1)).collect(),
                ranks: (0..nodes).map(|n| vec![run(n)]).collect(),
                tasks: nodes * each,
                cores_per_task: 1,
            },
            node,
            programs: vec![Vec::new()],
            directory: OsText(b"/tmp/d".to_vec()),
            library: OsText(b"libpmix.so.2".to_vec()),
        }
    }
}
