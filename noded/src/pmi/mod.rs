//! The process management interface of MPI programs, versions 1 and 2, over one
//! descriptor for each task (`PMI_FD`): a key-value space that tasks fill, exchange at a
//! barrier, and read.
//!
//! ```text
//! tasks ── heard ──▶ Pmi ── Contribute ──▶ supervisors gather the shares of all nodes
//!       ◀─ Answer ──     ◀── spread ──────                 │
//!                         ◀────────────────────────────────┘
//! ```
//!
//! A barrier of PMI-1 and a fence of PMI-2 are the same exchange. A node comes to it when
//! each of its tasks has, but for those that finalised or are gone; a node all of whose
//! tasks are gone contributes nothing any more, and whoever gathers goes on without it.
//! Names that are published, too, are known on other nodes after the next exchange.
//! Starting further processes (`MPI_Comm_spawn`) is refused.
//!
//! Pure: bytes of a task in, actions out; knows nothing of descriptors or other nodes but
//! what an exchange brings. Source: MPICH's published description of the wire protocol
//! (PMI-1 `cmd=... key=value` lines; PMI-2 six digits of length, then `cmd=...;` pairs).
//! Every byte may be hostile: limits before memory is taken, an error instead of a panic.

mod answers;
mod key_values;
mod mapping;
mod pmi1;
mod pmi2;
mod task;
mod words;

#[cfg(test)]
mod tests;

use answers::Facts;
use cosy_model::{OsText, limits};
use key_values::KeyValues;
use std::collections::BTreeMap;
use task::{Stage, Task, TaskMessage};
use words::{Message, PmiRequest, Reply, Thread, Verb};

/// Most attributes of a node that one task waits for at once: one for each thread.
const WANTED: usize = 64;
/// Room in a frame for what is not a node's share: numbers of nodes and lengths.
const FRAME_RESERVE: usize = 2 << 20;

/// What is known before the first task starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PmiJob {
    /// A name for the key-value space that no other step has.
    pub name: String,
    /// Number of tasks in the step.
    pub tasks: u32,
    /// Number of this node in the step.
    pub node: u32,
    /// Ranks of every node, by node.
    pub ranks: Vec<Vec<u32>>,
}

impl PmiJob {
    fn here(&self) -> &[u32] {
        self.ranks
            .get(self.node as usize)
            .map_or(&[], Vec::as_slice)
    }
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PmiAct {
    /// Write this to the task.
    Answer {
        /// Rank of the task in its step, from 0.
        rank: u32,
        /// A whole message.
        bytes: Vec<u8>,
    },
    /// All tasks of this node have come to the exchange: this is the node's share.
    Contribute(Vec<u8>),
    /// A task wants the whole step to end.
    Abort {
        /// Rank of the task in its step, from 0.
        rank: u32,
        /// Exit code that the step is to end with.
        code: i32,
        /// Why, in one line.
        reason: String,
    },
    /// What the task said is no PMI: its connection is closed, and why.
    Broken {
        /// Rank of the task in its step, from 0.
        rank: u32,
        /// What is wrong with it, in one line.
        reason: String,
    },
}

/// The PMI server of one step on one node.
#[derive(Debug)]
pub struct Pmi {
    facts: Facts,
    tasks: BTreeMap<u32, Task>,
    space: KeyValues,
    /// The node's share is under way; its tasks wait for what the others bring.
    exchanging: bool,
}

impl Pmi {
    /// A server for the tasks of this node.
    pub fn new(job: PmiJob) -> Self {
        let tasks = job.here().iter().map(|&rank| (rank, Task::new())).collect();
        Self {
            tasks,
            space: KeyValues::new(share_limit(&job)),
            exchanging: false,
            facts: Facts::new(job),
        }
    }

    /// The same for a step of several programs: the ranks of each, as inclusive ranges.
    /// The number of its program is a task's `MPI_APPNUM`.
    pub fn with_programs(mut self, programs: Vec<Vec<(u32, u32)>>) -> Self {
        self.facts.programs = programs;
        self
    }

    /// The job as given.
    pub fn job(&self) -> &PmiJob {
        &self.facts.job
    }

    /// Variables for one task, beside `PMI_FD`: `NAME=value`. Rank and size are for both
    /// versions; the two of the node are what Hydra sets for MPICH and Intel MPI.
    pub fn variables(&self, rank: u32) -> Vec<OsText> {
        let job = self.job();
        let here = job.here();
        let place = here.iter().take_while(|&&r| r != rank).count();
        [
            format!("PMI_RANK={rank}"),
            format!("PMI_SIZE={}", job.tasks),
            format!("PMI_JOBID={}", job.name),
            format!("MPI_LOCALRANKID={place}"),
            format!("MPI_LOCALNRANKS={}", here.len()),
        ]
        .map(OsText::from)
        .to_vec()
    }

    /// Bytes came from a task.
    pub fn heard(&mut self, rank: u32, bytes: &[u8]) -> Vec<PmiAct> {
        let mut acts = Vec::new();
        if let Some(task) = self.tasks.get_mut(&rank) {
            task.hear(bytes);
        }
        while let Some(task) = self.tasks.get_mut(&rank) {
            match task.next() {
                Ok(Some(message)) => self.act_on(rank, message, &mut acts),
                Ok(None) => break,
                Err(reason) => {
                    task.leave(Stage::Gone);
                    acts.push(PmiAct::Broken { rank, reason });
                }
            }
        }
        self.come_together(&mut acts);
        acts
    }

    /// An exchange is complete: the shares of all nodes, by node.
    pub fn spread(&mut self, parts: &[(u32, OsText)]) -> Vec<PmiAct> {
        let merged = self.merge(parts);
        self.exchanging = false;
        let mut acts = Vec::new();
        for (&rank, task) in &mut self.tasks {
            if let Some(thread) = task.at_barrier.take() {
                let reply = match &merged {
                    Ok(()) => Reply::Done,
                    Err(reason) => Reply::Refused(reason.clone()),
                };
                let bytes = task.answer(Verb::Barrier, thread, &reply);
                acts.push(PmiAct::Answer { rank, bytes });
            }
        }
        acts
    }

    /// A task has closed its end. What it owed to an exchange will not come.
    pub fn closed(&mut self, rank: u32) -> Vec<PmiAct> {
        if let Some(task) = self.tasks.get_mut(&rank) {
            task.leave(Stage::Gone);
        }
        let mut acts = Vec::new();
        self.come_together(&mut acts);
        acts
    }

    /// Whether a task has greeted and never finalised: when its process has ended, the
    /// others may wait for it for ever.
    pub fn is_unfinished(&self, rank: u32) -> bool {
        self.tasks.get(&rank).is_some_and(|task| task.unfinished)
    }

    /// Whether a task of this node may still come to an exchange: without one, whoever
    /// gathers goes on without this node.
    pub fn takes_part(&self) -> bool {
        let may_come = |stage| match stage {
            Stage::Silent | Stage::One | Stage::Two => true,
            Stage::Finalized | Stage::Gone => false,
        };
        self.tasks.values().any(|task| may_come(task.stage))
    }

    /// Contributes when nobody of this node is owed and somebody waits.
    fn come_together(&mut self, acts: &mut Vec<PmiAct>) {
        let waits = self.tasks.values().any(|task| task.at_barrier.is_some());
        if self.exchanging || !waits || self.tasks.values().any(Task::is_owed) {
            return;
        }
        self.exchanging = true;
        acts.push(PmiAct::Contribute(self.space.take_share()));
    }

    /// In the order of nodes, so that all nodes agree; what was put here meanwhile is put
    /// on top again.
    fn merge(&mut self, parts: &[(u32, OsText)]) -> Result<(), String> {
        let mut parts: Vec<_> = parts.iter().collect();
        parts.sort_by_key(|(node, _)| *node);
        let merged = parts.iter().try_for_each(|(node, share)| {
            let merged = self.space.merge(&share.0);
            merged.map_err(|e| format!("exchange with node {node} of the step: {e}"))
        });
        self.space.put_again();
        merged
    }

    fn act_on(&mut self, rank: u32, message: TaskMessage, acts: &mut Vec<PmiAct>) {
        let Message { request, thread } = match message {
            TaskMessage::Greeting(version) => return self.greet(rank, version, acts),
            TaskMessage::Message(message) => message,
        };
        match request {
            PmiRequest::Barrier => self.arrive(rank, thread, acts),
            PmiRequest::Finalize => self.finalize(rank, thread, acts),
            PmiRequest::Abort { code, reason } => {
                // Once: nothing that it says after that is of use to anybody.
                if let Some(task) = self.tasks.get_mut(&rank) {
                    task.leave(Stage::Gone);
                }
                acts.push(PmiAct::Abort { rank, code, reason });
            }
            PmiRequest::NodeAttribute { key, wait } => {
                self.attribute(rank, thread, key, wait, acts)
            }
            PmiRequest::PutNodeAttribute { key, value } => {
                let put = self.space.put_attribute(&key, &value);
                let put_now = put.is_ok();
                self.answer(rank, thread, Verb::PutNodeAttribute, &put.into(), acts);
                if put_now {
                    self.answer_waiting(&key, acts);
                }
            }
            PmiRequest::Now(question) => {
                if let Some(task) = self.tasks.get(&rank) {
                    let (verb, reply) = self.facts.reply(&mut self.space, rank, question);
                    let bytes = task.answer(verb, thread, &reply);
                    acts.push(PmiAct::Answer { rank, bytes });
                }
            }
        }
    }

    /// The highest version that both speak.
    fn greet(&mut self, rank: u32, version: u32, acts: &mut Vec<PmiAct>) {
        let (stage, bytes) = match version {
            0 | 1 => (Stage::One, pmi1::greeted(1, 1)),
            2.. => (Stage::Two, pmi1::greeted(2, 0)),
        };
        if let Some(task) = self.tasks.get_mut(&rank) {
            task.stage = stage;
            task.unfinished = true;
            acts.push(PmiAct::Answer { rank, bytes });
        }
    }

    fn finalize(&mut self, rank: u32, thread: Option<Thread>, acts: &mut Vec<PmiAct>) {
        self.answer(rank, thread, Verb::Finalize, &Reply::Done, acts);
        if let Some(task) = self.tasks.get_mut(&rank) {
            // What it says after that is kept, so that it can be refused.
            task.stage = Stage::Finalized;
            task.unfinished = false;
            task.at_barrier = None;
            task.wanted.clear();
        }
    }

    fn arrive(&mut self, rank: u32, thread: Option<Thread>, acts: &mut Vec<PmiAct>) {
        let Some(task) = self.tasks.get_mut(&rank) else {
            return;
        };
        if task.at_barrier.is_none() {
            task.at_barrier = Some(thread);
            return;
        }
        let reply = Reply::Refused("this task is at a barrier already".to_owned());
        self.answer(rank, thread, Verb::Barrier, &reply, acts);
    }

    fn attribute(
        &mut self,
        rank: u32,
        thread: Option<Thread>,
        key: Vec<u8>,
        wait: bool,
        acts: &mut Vec<PmiAct>,
    ) {
        let Some(task) = self.tasks.get_mut(&rank) else {
            return;
        };
        let reply = match self.space.attribute(&key) {
            Some(value) => Reply::Value(value),
            None if key.len() > limits::PMI_KEY => Reply::Missing,
            None if !wait => Reply::Missing,
            None if task.wanted.len() < WANTED => return task.wanted.push((key, thread)),
            None => Reply::Refused(format!("{WANTED} attributes are waited for already")),
        };
        let bytes = task.answer(Verb::NodeAttribute, thread, &reply);
        acts.push(PmiAct::Answer { rank, bytes });
    }

    /// Answers all tasks that wait for this attribute of the node.
    fn answer_waiting(&mut self, key: &[u8], acts: &mut Vec<PmiAct>) {
        let Some(value) = self.space.attribute(key) else {
            return;
        };
        for (&rank, task) in &mut self.tasks {
            let answered = task.wanted.extract_if(.., |(wanted, _)| wanted == key);
            let threads: Vec<_> = answered.map(|(_, thread)| thread).collect();
            for thread in threads {
                let bytes = task.answer(Verb::NodeAttribute, thread, &Reply::Value(value));
                acts.push(PmiAct::Answer { rank, bytes });
            }
        }
    }

    fn answer(
        &self,
        rank: u32,
        thread: Option<Thread>,
        verb: Verb,
        reply: &Reply<'_>,
        acts: &mut Vec<PmiAct>,
    ) {
        if let Some(task) = self.tasks.get(&rank) {
            let bytes = task.answer(verb, thread, reply);
            acts.push(PmiAct::Answer { rank, bytes });
        }
    }
}

/// Most bytes that a node may bring to an exchange: its part, by its tasks, of what fits
/// into one frame with the shares of all.
fn share_limit(job: &PmiJob) -> usize {
    let room = (limits::STEP_FRAME - FRAME_RESERVE) as u64;
    let here = job.here().len() as u64;
    let part = room.saturating_mul(here) / u64::from(job.tasks.max(1));
    part.min(limits::EXCHANGE_BYTES as u64) as usize
}
