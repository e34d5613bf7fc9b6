//! Workflows as commands show them.

pub(crate) mod procedures;

use crate::event::ClientId;
use cosy_model::api::Reply;
use cosy_model::workflow::{FlowInfo, FlowTaskInfo};
use cosy_model::{FlowId, Refusal, RefusalCode, limits};
use std::collections::VecDeque;

/// Tasks that one piece of a list tells, or looks at eight times as many.
const PIECE_TASKS: usize = 2_000;
/// What an answer has of a task beside its texts, in bytes.
const TASK_BYTES: usize = 64;

/// A list of workflows under way: those of a user may have 200,000 tasks.
#[derive(Debug)]
pub(crate) struct FlowList {
    pub client: ClientId,
    pub with_tasks: bool,
    /// Those that are not told yet.
    pub left: VecDeque<FlowId>,
    /// The last of which some tasks are told.
    pub under_way: Option<FlowInfo>,
    pub told: Vec<FlowInfo>,
    /// About as much as the answer has so far.
    pub bytes: usize,
}

impl FlowList {
    const fn is_full(&self) -> bool {
        self.bytes > limits::REPLY_BYTES
    }

    pub fn answer(self) -> Reply {
        if !self.is_full() {
            return Reply::Flows(self.told);
        }
        let why = "an answer has no room for all tasks of these workflows: name fewer of them";
        Reply::Refused(Refusal::new(RefusalCode::TooMany, why))
    }
}

fn bytes_of(task: &FlowTaskInfo) -> usize {
    let parents: usize = task.parents.iter().map(|name| name.len() + 1).sum();
    TASK_BYTES + task.name.len() + task.nodes.len() + task.note.len() + parents
}
