//! What one task has said so far: bytes become messages, in whichever version of the
//! interface its greeting names.

use super::pmi1::{self, SpawnLines};
use super::pmi2;
use super::words::{Message, Question, Reply, Thread, Verb, shown};
use cosy_model::limits;

/// How far a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The task has sent nothing yet.
    Silent,
    /// The task speaks PMI-1.
    One,
    /// The task speaks PMI-2.
    Two,
    /// The task has said that it will send nothing more.
    Finalized,
    /// Its end is closed, or what it said was no PMI.
    Gone,
}

/// Something complete that a task said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskMessage {
    /// Its first word: it would like to speak this version.
    Greeting(u32),
    /// A message in the version that it speaks.
    Message(Message),
}

/// The server's side of one task.
#[derive(Debug)]
pub struct Task {
    /// Which version the task speaks, and whether it still does.
    pub stage: Stage,
    /// True when the task has greeted and not finalised, whatever its stage.
    pub unfinished: bool,
    /// While it waits at a barrier: the thread that waits, where the task has named it.
    pub at_barrier: Option<Option<Thread>>,
    /// Attributes of the node that its threads wait for.
    pub wanted: Vec<(Vec<u8>, Option<Thread>)>,
    input: Vec<u8>,
    /// How many bytes of `input` were taken.
    taken: usize,
    spawn: Option<SpawnLines>,
}

impl Task {
    /// One that has said nothing.
    pub const fn new() -> Self {
        Self {
            stage: Stage::Silent,
            unfinished: false,
            at_barrier: None,
            wanted: Vec::new(),
            input: Vec::new(),
            taken: 0,
            spawn: None,
        }
    }

    /// Whether an exchange waits for it.
    pub fn is_owed(&self) -> bool {
        match self.stage {
            Stage::Silent | Stage::One | Stage::Two => self.at_barrier.is_none(),
            Stage::Finalized | Stage::Gone => false,
        }
    }

    /// Nothing more comes from it, and it is told nothing more.
    pub fn leave(&mut self, stage: Stage) {
        *self = Self {
            stage,
            unfinished: self.unfinished,
            ..Self::new()
        };
    }

    /// Keeps bytes until they are taken as messages.
    pub fn hear(&mut self, bytes: &[u8]) {
        if self.stage == Stage::Gone {
            return;
        }
        self.input.drain(..self.taken);
        self.taken = 0;
        self.input.extend_from_slice(bytes);
    }

    /// The next complete thing that it said.
    ///
    /// # Errors
    /// No PMI, in one line.
    pub fn next(&mut self) -> Result<Option<TaskMessage>, String> {
        match self.stage {
            Stage::Silent => {
                let greeting = self.line()?.map(|line| pmi1::greeting(&line));
                Ok(greeting.transpose()?.map(TaskMessage::Greeting))
            }
            Stage::One => self.next_of_one(),
            Stage::Two => {
                let body = self.packet()?;
                let message = body.map(|body| pmi2::read(&body)).transpose()?;
                Ok(message.map(TaskMessage::Message))
            }
            Stage::Finalized if self.rest().is_empty() => Ok(None),
            Stage::Finalized => Err(format!("{} after its end of PMI", shown(self.rest()))),
            Stage::Gone => Ok(None),
        }
    }

    /// An answer in its language.
    pub fn answer(&self, verb: Verb, thread: Option<Thread>, reply: &Reply<'_>) -> Vec<u8> {
        match self.stage {
            Stage::Two => pmi2::write(verb, thread, reply),
            Stage::Silent | Stage::One | Stage::Finalized | Stage::Gone => pmi1::write(verb, reply),
        }
    }

    fn next_of_one(&mut self) -> Result<Option<TaskMessage>, String> {
        while let Some(line) = self.line()? {
            let Some(spawn) = &mut self.spawn else {
                if !SpawnLines::begins(&line) {
                    return pmi1::read(&line).map(|m| Some(TaskMessage::Message(m)));
                }
                self.spawn = Some(SpawnLines::default());
                continue;
            };
            let answer_due = spawn.take(&line);
            if answer_due.is_some() {
                self.spawn = None;
            }
            if answer_due == Some(true) {
                let request = Question::Spawn.into();
                return Ok(Some(TaskMessage::Message(Message {
                    request,
                    thread: None,
                })));
            }
        }
        Ok(None)
    }

    fn rest(&self) -> &[u8] {
        self.input.get(self.taken..).unwrap_or_default()
    }

    /// The next line without its end.
    fn line(&mut self) -> Result<Option<Vec<u8>>, String> {
        let rest = self.rest();
        let end = rest.iter().position(|&b| b == b'\n');
        let length = end.unwrap_or(rest.len());
        let limit = limits::PMI_MESSAGE;
        if length > limit {
            return Err(format!("a line of more than {limit} bytes, the most of PMI-1"));
        }
        let line = end.map(|end| rest[..end].to_vec());
        self.taken += line.as_ref().map_or(0, |line| line.len() + 1);
        Ok(line)
    }

    /// The next message of PMI-2 without its length.
    fn packet(&mut self) -> Result<Option<Vec<u8>>, String> {
        let rest = self.rest();
        let Some(head) = rest.first_chunk::<{ pmi2::LENGTH }>() else {
            return Ok(None);
        };
        let end = pmi2::LENGTH + pmi2::length(*head)?;
        let body = rest.get(pmi2::LENGTH..end).map(<[u8]>::to_vec);
        if body.is_some() {
            self.taken += end;
        }
        Ok(body)
    }
}
