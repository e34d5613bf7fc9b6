//! Administrators make, change and take away queues.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::machine::Machine;
use crate::queues::Queues;
use crate::queues::administered::FileQueues;
use crate::record::{OwnQueue, Record};
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::{
    About, EventKind, EventObject, QueueSpec, QueueState, Refusal, RefusalCode, limits,
};

impl Queues {
    /// The configuration was read again: what it says of its queues counts.
    pub(crate) fn lay_own_queues(&mut self, turn: &mut Turn, config: &mut ClusterConfig) {
        self.own_queues.file = FileQueues::of(config);
        let file = &self.own_queues.file;
        let over = |(name, queue): &(&String, &OwnQueue)| file.has(name) || queue.spec.is_none();
        let gone = self.own_queues.own.iter().filter(over);
        let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.own_queues.own.remove(&name);
            turn.record(Record::OwnQueue { name, row: None });
        }
        self.own_queues.lay(config);
    }
}

pub(crate) fn check_queue(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &Queues,
    spec: &QueueSpec,
    new: bool,
) -> Result<(), Refusal> {
    let name = &spec.name;
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == ',';
    if name.is_empty() || name.len() > limits::NAME_BYTES || name.contains(odd) {
        let why = "a queue's name must not be empty nor have spaces or commas";
        return Err(Refusal::invalid(why).about(About::Queue));
    }
    match queues.queue_id(name) {
        Some(_) if new => {
            let why = format!("there is a queue {name} already");
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Queue));
        }
        Some(_) => {}
        None if new => queues.check_room()?,
        None => return queues.find_queue(config, Some(name)).map(drop),
    }
    let unknown = |n: &&String| !machine.has_node(n);
    if let Some(node) = spec.nodes.iter().flatten().find(unknown) {
        let why = format!("there is no node '{node}'");
        return Err(Refusal::new(RefusalCode::NotFound, why).about(About::Node));
    }
    match (spec.default_time, spec.max_time) {
        (Some(default), Some(max)) if default > max => {
            Err(Refusal::invalid("the default time limit is longer than the longest")
                .about(About::TimeLimit))
        }
        _ => Ok(()),
    }
}

impl Queues {
    fn check_room(&self) -> Result<(), Refusal> {
        if self.all.len() < limits::QUEUES {
            return Ok(());
        }
        let why = format!("there are {} queues, as many as can be", limits::QUEUES);
        Err(Refusal::new(RefusalCode::TooMany, why))
    }

    pub(crate) fn no_other_default(&mut self, turn: &mut Turn, name: &str) {
        let others = self.own_queues.own.iter();
        let others = others.filter(|(other, queue)| queue.default && *other != name);
        let others: Vec<(String, OwnQueue)> = others
            .map(|(other, queue)| (other.clone(), queue.clone()))
            .collect();
        for (other, mut queue) in others {
            queue.default = false;
            self.keep_own_queue(turn, &other, queue);
        }
    }

    pub(crate) fn keep_own_queue(&mut self, turn: &mut Turn, name: &str, row: OwnQueue) {
        self.own_queues.own.insert(name.to_owned(), row.clone());
        turn.record(Record::OwnQueue {
            name: name.to_owned(),
            row: Some(Box::new(row)),
        });
    }

    /// The state of a queue of which nobody has said anything.
    pub(crate) fn file_state(&self, name: &str) -> QueueState {
        let file = self.own_queues.file.queues.iter().find(|q| q.name == name);
        file.map_or(QueueState::Open, |q| q.state)
    }
}

pub(crate) fn told_of_queue(
    turn: &mut Turn,
    kind: EventKind,
    caller: &Caller,
    name: &str,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    let who = caller.user.name.clone();
    turn.happened(now, kind, &who, EventObject::Queue(name.to_owned()), String::new());
    Ok(Reply::Done {
        changed: 1,
        refused: Vec::new(),
    })
}
