//! Administrators make, change and take away queues.

use crate::config::ClusterConfig;
use crate::controller::Controller;
use crate::event::Caller;
use crate::queues::administered::FileQueues;
use crate::record::{OwnQueue, Record};
use cosy_model::api::Reply;
use cosy_model::{About, QueueSpec, QueueState, Refusal, RefusalCode, Time, limits};

impl Controller {
    pub(crate) fn set_queue(
        &mut self,
        now: Time,
        caller: &Caller,
        spec: QueueSpec,
        new: bool,
        default: bool,
    ) -> Result<Reply, Refusal> {
        self.require_admin(caller, "make and change queues")?;
        self.check_queue(&spec, new)?;
        if default {
            self.no_other_default(&spec.name);
        }
        let (name, state) = (spec.name.clone(), spec.state);
        let spec = QueueSpec {
            state: self.file_state(&name),
            ..spec
        };
        let was = self
            .queues
            .own_queues
            .own
            .get(&name)
            .is_some_and(|q| q.default);
        let row = OwnQueue {
            spec: Some(spec),
            default: default || was,
        };
        self.keep_own_queue(&name, row);
        self.record(Record::Queue {
            name: name.clone(),
            state,
        });
        self.own_queues_changed(now, &name, Some(state));
        let word = if new { "made" } else { "changed" };
        self.told_of_queue(now, word, caller, &name)
    }

    pub(crate) fn delete_queue(
        &mut self,
        now: Time,
        caller: &Caller,
        name: &str,
    ) -> Result<Reply, Refusal> {
        self.require_admin(caller, "take queues away")?;
        let id = self.find_queue(Some(name))?;
        let jobs = self.queues.all[id.index()].jobs;
        let reserved = self.reservations.live().any(|r| r.row.queue == name);
        if jobs > 0 || reserved {
            let what = match jobs {
                0 => "a reservation".to_owned(),
                n => format!("{n} jobs"),
            };
            let why = format!("queue {name} is in use: it has {what}; close it and wait");
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Queue));
        }
        self.keep_own_queue(name, OwnQueue::default());
        self.own_queues_changed(now, name, None);
        self.told_of_queue(now, "deleted", caller, name)
    }

    /// The configuration was read again: what it says of its queues counts.
    pub(crate) fn lay_own_queues(&mut self, config: &mut ClusterConfig) {
        self.queues.own_queues.file = FileQueues::of(config);
        let file = &self.queues.own_queues.file;
        let over = |(name, queue): &(&String, &OwnQueue)| file.has(name) || queue.spec.is_none();
        let gone = self.queues.own_queues.own.iter().filter(over);
        let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        for name in gone {
            self.queues.own_queues.own.remove(&name);
            self.record(Record::OwnQueue { name, row: None });
        }
        self.queues.own_queues.lay(config);
    }

    fn check_queue(&self, spec: &QueueSpec, new: bool) -> Result<(), Refusal> {
        let name = &spec.name;
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == ',';
        if name.is_empty() || name.len() > limits::NAME_BYTES || name.contains(odd) {
            let why = "a queue's name must not be empty nor have spaces or commas";
            return Err(Refusal::invalid(why).about(About::Queue));
        }
        match self.queue_id(name) {
            Some(_) if new => {
                let why = format!("there is a queue {name} already");
                return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Queue));
            }
            Some(_) => {}
            None if new => self.check_room()?,
            None => return self.find_queue(Some(name)).map(drop),
        }
        let unknown = |n: &&String| !self.machine.has_node(n);
        if let Some(node) = spec.nodes.iter().flatten().find(unknown) {
            let why = format!("there is no node '{node}'");
            return Err(Refusal::new(RefusalCode::NotFound, why).about(About::Node));
        }
        match (spec.default_time, spec.max_time) {
            (Some(default), Some(max)) if default > max => Err(Refusal::invalid(
                "the default time limit is longer than the longest",
            )
            .about(About::TimeLimit)),
            _ => Ok(()),
        }
    }

    fn check_room(&self) -> Result<(), Refusal> {
        if self.queues.all.len() < limits::QUEUES {
            return Ok(());
        }
        let why = format!("there are {} queues, as many as can be", limits::QUEUES);
        Err(Refusal::new(RefusalCode::TooMany, why))
    }

    fn no_other_default(&mut self, name: &str) {
        let others = self.queues.own_queues.own.iter();
        let others = others.filter(|(other, queue)| queue.default && *other != name);
        let others: Vec<(String, OwnQueue)> = others
            .map(|(other, queue)| (other.clone(), queue.clone()))
            .collect();
        for (other, mut queue) in others {
            queue.default = false;
            self.keep_own_queue(&other, queue);
        }
    }

    fn keep_own_queue(&mut self, name: &str, row: OwnQueue) {
        self.queues
            .own_queues
            .own
            .insert(name.to_owned(), row.clone());
        self.record(Record::OwnQueue {
            name: name.to_owned(),
            row: Some(Box::new(row)),
        });
    }

    /// The state of a queue of which nobody has said anything.
    fn file_state(&self, name: &str) -> QueueState {
        let file = self
            .queues
            .own_queues
            .file
            .queues
            .iter()
            .find(|q| q.name == name);
        file.map_or(QueueState::Open, |q| q.state)
    }

    /// All queues anew; this one has that state from now on.
    fn own_queues_changed(&mut self, now: Time, name: &str, state: Option<QueueState>) {
        let mut states = self.queues.own_states();
        states.remove(name);
        states.extend(state.map(|state| (name.to_owned(), state)));
        self.queues.own_queues.lay(&mut self.config);
        self.build_queues(&states);
        self.machine_changed(now);
    }

    fn told_of_queue(
        &mut self,
        now: Time,
        word: &str,
        caller: &Caller,
        name: &str,
    ) -> Result<Reply, Refusal> {
        let who = caller.user.name.clone();
        self.happened(now, word, &who, format!("queue {name}"), String::new());
        Ok(Reply::Done {
            changed: 1,
            refused: Vec::new(),
        })
    }
}
