//! What is answered at once: from what is known of the step, and from its key-value space.

use super::PmiJob;
use super::key_values::KeyValues;
use super::mapping::process_mapping;
use super::words::{Question, Reply, Verb};
use std::cell::OnceCell;

/// The key of the mapping of ranks to nodes.
const MAPPING: &[u8] = b"PMI_process_mapping";
/// Why no task may start others.
const NO_SPAWN: &str = "further processes cannot be started from within a step";
/// Why steps are not connected.
const NO_CONNECT: &str = "steps cannot be connected with each other";

/// What is known of the step from its start.
#[derive(Debug)]
pub struct Facts {
    /// Size, ranks and node of the step.
    pub job: PmiJob,
    /// Ranks of each program, as inclusive ranges; nothing where there is one.
    pub programs: Vec<Vec<(u32, u32)>>,
    mapping: OnceCell<Option<String>>,
    universe: String,
}

impl Facts {
    /// A step of one program.
    pub fn new(job: PmiJob) -> Self {
        Self {
            programs: Vec::new(),
            mapping: OnceCell::new(),
            universe: job.tasks.to_string(),
            job,
        }
    }

    /// What a task is answered, and as what.
    pub fn reply<'a>(
        &'a self,
        space: &'a mut KeyValues,
        rank: u32,
        question: Question,
    ) -> (Verb, Reply<'a>) {
        match question {
            Question::Limits => (Verb::Limits, Reply::Done),
            Question::Program => (Verb::Program, Reply::Number(self.program_of(rank))),
            Question::Universe => (Verb::Universe, Reply::Number(self.job.tasks)),
            Question::SpaceName => (Verb::SpaceName, Reply::Value(self.job.name.as_bytes())),
            Question::FullInit { rank: claimed } => (Verb::FullInit, self.greeting(rank, claimed)),
            Question::Put { key, value } => (Verb::Put, space.put(&key, &value).into()),
            Question::Get { space: of, key } => (Verb::Get, self.value(space, of, &key)),
            Question::Numbered { number } => (Verb::Numbered, numbered(space, number)),
            Question::JobAttribute { key } => (Verb::JobAttribute, self.attribute(space, &key)),
            Question::Publish { name, port } => (Verb::Publish, space.publish(&name, &port).into()),
            Question::Lookup { name } => (Verb::Lookup, space.lookup(&name).into()),
            Question::Unpublish { name } => (Verb::Unpublish, space.unpublish(&name).into()),
            Question::Spawn => (Verb::Spawn, Reply::Refused(NO_SPAWN.to_owned())),
            Question::Connect => (Verb::Connect, Reply::Refused(NO_CONNECT.to_owned())),
            Question::Disconnect => (Verb::Disconnect, Reply::Refused(NO_CONNECT.to_owned())),
        }
    }

    fn program_of(&self, rank: u32) -> u32 {
        let has = |ranges: &Vec<(u32, u32)>| ranges.iter().any(|&(a, b)| (a..=b).contains(&rank));
        let place = self.programs.iter().position(has);
        place.and_then(|n| n.try_into().ok()).unwrap_or(0)
    }

    /// A task that believes to have another rank is a process of another step or launcher.
    fn greeting(&self, rank: u32, claimed: Option<u32>) -> Reply<'static> {
        if let Some(claimed) = claimed.filter(|&claimed| claimed != rank) {
            return Reply::Refused(format!("rank {claimed} on the connection of rank {rank}"));
        }
        Reply::Greeting {
            rank,
            tasks: self.job.tasks,
            program: self.program_of(rank),
        }
    }

    fn mapping(&self) -> Option<&str> {
        let made = || process_mapping(&self.job.ranks, self.job.tasks);
        self.mapping.get_or_init(made).as_deref()
    }

    /// A mapping that is not known is an empty value in PMI-1.
    fn value<'a>(&'a self, space: &'a KeyValues, of: Option<Vec<u8>>, key: &[u8]) -> Reply<'a> {
        if of.is_some_and(|name| name != self.job.name.as_bytes()) {
            return Reply::Missing;
        }
        if key == MAPPING {
            return Reply::Value(self.mapping().unwrap_or_default().as_bytes());
        }
        space.get(key).into()
    }

    fn attribute<'a>(&'a self, space: &'a KeyValues, key: &[u8]) -> Reply<'a> {
        match key {
            MAPPING => self.mapping().map(str::as_bytes).into(),
            b"universeSize" => Reply::Value(self.universe.as_bytes()),
            b"hasNameServ" => Reply::Value(b"TRUE"),
            other => space.get(other).into(),
        }
    }
}

fn numbered(space: &KeyValues, number: usize) -> Reply<'_> {
    match space.numbered(number) {
        Some((key, value)) => Reply::Entry {
            key,
            value,
            next: number.saturating_add(1),
        },
        None => Reply::Missing,
    }
}

impl<'a> From<Option<&'a [u8]>> for Reply<'a> {
    fn from(value: Option<&'a [u8]>) -> Self {
        value.map_or(Self::Missing, Self::Value)
    }
}

impl From<Result<(), String>> for Reply<'_> {
    fn from(result: Result<(), String>) -> Self {
        result.map_or_else(Self::Refused, |()| Self::Done)
    }
}
