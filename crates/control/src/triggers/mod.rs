//! Triggers: programs of users that run when something happens to a job or to nodes.
//!
//! A trigger is set and durable; what happens is noted in its row in the same turn
//! ([`watch`]); its program is run by a node daemon, as its user ([`run`]).
//!
//! What always holds: what happened to something watched is in the row of its trigger, as
//! due, until a node has said that the program runs; from then on it is never run for that
//! again. A run has a number, and nodes start no number twice.
//!
//! Source: strigger(1).

pub(crate) mod invariants;
pub(crate) mod procedures;
pub(crate) mod row;
pub(crate) mod run;
pub(crate) mod watch;

pub use row::{Due, Occasion, TriggerRow, TriggerRun};
pub(crate) use watch::Condition;

use cosy_model::{
    ClockStep, JobId, NodeId, Refusal, Span, Time, TriggerId, TriggerSpec, TriggerTarget, Uid,
    limits,
};
use std::collections::{BTreeMap, BTreeSet};

/// All that the controller knows of triggers.
#[derive(Debug, Default)]
pub(crate) struct Triggers {
    all: BTreeMap<TriggerId, TriggerRow>,
    next: u64,
    /// Those that wait for something to happen to a job or its nodes.
    of_jobs: BTreeMap<JobId, BTreeSet<TriggerId>>,
    /// Those that wait for something to happen to nodes.
    of_nodes: BTreeSet<TriggerId>,
    /// What is to be looked at again, and when.
    due: BTreeSet<(Time, TriggerId)>,
    /// What has happened in this turn.
    happened: Vec<watch::Happened>,
    /// Since when a node was idle when a trigger was told of that last.
    idle_told: BTreeMap<(TriggerId, NodeId), Time>,
    dirty: BTreeSet<TriggerId>,
}

impl Triggers {
    /// The triggers that were kept.
    pub fn load(rows: Vec<TriggerRow>, next: u64, now: Time) -> Self {
        let mut it = Self {
            next: next.max(1),
            ..Self::default()
        };
        for row in rows {
            it.take(row, now);
        }
        it
    }

    /// The number of the next trigger.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Numbers go on there.
    pub fn go_on_at(&mut self, next: u64) {
        self.next = next;
    }

    fn take(&mut self, row: TriggerRow, now: Time) {
        if !row.spent {
            match &row.spec.on {
                TriggerTarget::Job(job) => {
                    self.of_jobs.entry(*job).or_default().insert(row.id);
                }
                TriggerTarget::Nodes(_) => {
                    self.of_nodes.insert(row.id);
                }
            }
        }
        let due = row.due.iter().map(|due| due.at.max(now)).min();
        self.due.extend(due.map(|at| (at, row.id)));
        self.all.insert(row.id, row);
    }

    /// The trigger waits for nothing more.
    fn unwatch(&mut self, id: TriggerId) {
        let Some(row) = self.all.get_mut(&id) else {
            return;
        };
        row.spent = true;
        self.dirty.insert(id);
        self.of_nodes.remove(&id);
        if let TriggerTarget::Job(job) = row.spec.on
            && let Some(ids) = self.of_jobs.get_mut(&job)
        {
            ids.remove(&id);
            if ids.is_empty() {
                self.of_jobs.remove(&job);
            }
        }
    }

    /// The clock on the wall was set: what is due later is as much later.
    pub fn clock_set(&mut self, step: ClockStep) {
        let due = std::mem::take(&mut self.due);
        self.due = due
            .into_iter()
            .map(|(at, id)| (at.set_by(step), id))
            .collect();
        for since in self.idle_told.values_mut() {
            *since = since.set_by(step);
        }
        for row in self.all.values_mut().filter(|row| !row.due.is_empty()) {
            for due in &mut row.due {
                due.at = due.at.set_by(step);
            }
            self.dirty.insert(row.id);
        }
    }

    /// The next time at which something is due.
    pub fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Whether a program of that user runs on that node.
    pub fn runs_on(&self, node: &str, uid: Uid) -> bool {
        let runs = self.all.values().filter(|row| row.uid == uid);
        runs.filter_map(|row| row.run.as_ref())
            .any(|run| run.node == node)
    }
}

/// Whether such a trigger can be.
fn check(spec: &TriggerSpec) -> Result<(), Refusal> {
    let fits = |event: &cosy_model::TriggerEvent| match &spec.on {
        TriggerTarget::Job(_) => event.is_of_jobs(),
        TriggerTarget::Nodes(_) => event.is_of_nodes(),
    };
    if spec.events.is_empty() || !spec.events.iter().all(fits) {
        return Err(Refusal::invalid(match spec.on {
            TriggerTarget::Job(_) => "a job's trigger waits for its limit, its end, or its nodes",
            TriggerTarget::Nodes(_) => {
                "a trigger without a job waits for nodes or the configuration"
            }
        }));
    }
    let far = limits::TRIGGER_OFFSET;
    if spec.offset > far || spec.offset < Span(-far.0) {
        return Err(Refusal::invalid(format!(
            "a trigger's program runs at most {far} before or after the event"
        )));
    }
    if spec.environment.0.len() > limits::TRIGGER_ENVIRONMENT {
        return Err(Refusal::invalid(format!(
            "the environment of a trigger's program has at most {} bytes",
            limits::TRIGGER_ENVIRONMENT
        )));
    }
    let program = &spec.program.0;
    let odd = program.contains(&0) || program.len() > limits::PATH_BYTES;
    if odd || program.first() != Some(&b'/') {
        return Err(Refusal::invalid(format!(
            "a trigger's program is named by its whole path, of at most {} bytes",
            limits::PATH_BYTES
        )));
    }
    Ok(())
}
