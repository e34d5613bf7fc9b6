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
mod row;
mod run;
mod watch;

pub use row::{Due, Occasion, TriggerRow, TriggerRun};
pub(crate) use watch::Condition;

use crate::config::Visibility;
use crate::controller::Controller;
use crate::conversations::requests::no_job;
use crate::event::Caller;
use crate::record::Record;
use cosy_model::api::{JobRef, Reply};
use cosy_model::{
    About, Attempt, ClockStep, JobId, NodeId, Refusal, RefusalCode, Span, Time, TriggerId,
    TriggerSpec, Uid, Watched, limits,
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
                Watched::Job(job) => drop(self.of_jobs.entry(*job).or_default().insert(row.id)),
                Watched::Nodes(_) => drop(self.of_nodes.insert(row.id)),
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
        if let Watched::Job(job) = row.spec.on
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

impl Controller {
    pub(crate) fn set_trigger(
        &mut self,
        now: Time,
        caller: &Caller,
        mut spec: TriggerSpec,
    ) -> Result<Reply, Refusal> {
        check(&spec)?;
        match &mut spec.on {
            Watched::Job(job) => self.check_watched_job(caller, *job)?,
            Watched::Nodes(names) => {
                self.require_admin(caller, "set triggers for nodes")?;
                self.mask(names)?;
                names.sort();
                names.dedup();
            }
        }
        let uid = caller.user.uid;
        let mine = || self.triggers.all.values().filter(|row| row.uid == uid);
        let same = |row: &TriggerRow| {
            let environment = spec.environment.clone();
            let known = TriggerSpec {
                environment,
                ..row.spec.clone()
            };
            !row.spent && known == spec
        };
        if mine().any(same) {
            let why = "you have set this trigger already, and it waits still";
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Trigger));
        }
        let full = self.triggers.all.len() >= limits::TRIGGERS
            || !self.is_admin(caller) && mine().count() >= limits::TRIGGERS_OF_USER;
        if full {
            let why = format!(
                "there are too many triggers: a user has at most {}, all together have {}",
                limits::TRIGGERS_OF_USER,
                limits::TRIGGERS
            );
            return Err(Refusal::new(RefusalCode::TooMany, why).about(About::Trigger));
        }
        let id = TriggerId(self.triggers.next);
        self.triggers.next += 1;
        let row = TriggerRow {
            id,
            uid,
            gid: caller.group(),
            user: caller.user.name.clone(),
            made: now,
            spec,
            spent: false,
            due: Vec::new(),
            attempt: Attempt(0),
            run: None,
            limit_of: Attempt(0),
        };
        let what = row.spec.program.lossy();
        self.record(Record::Trigger(Box::new(row.clone())));
        self.triggers.take(row, now);
        let who = caller.user.name.clone();
        self.happened(now, "set", &who, format!("trigger {id}"), what);
        Ok(Reply::TriggerSet(id))
    }

    /// The job waits or runs and is the caller's own, or the caller an administrator.
    fn check_watched_job(&self, caller: &Caller, id: JobId) -> Result<(), Refusal> {
        let job = JobRef {
            job: id,
            task: None,
        };
        if let Some(ended) = self.jobs.ended(id)
            && self.may_see(caller, &ended.submitted)
        {
            let why = format!("job {id} has ended");
            return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Ended));
        }
        let known = self.jobs.get(&id);
        let Some(known) = known.filter(|job| self.may_see(caller, &job.submitted)) else {
            return Err(no_job(job));
        };
        if self.may_touch(caller, &known.submitted) {
            return Ok(());
        }
        let why = format!("job {id} is not yours: only administrators set triggers for it");
        Err(Refusal::new(RefusalCode::Forbidden, why))
    }

    pub(crate) fn clear_triggers(
        &mut self,
        now: Time,
        caller: &Caller,
        (id, job, uid): (Option<TriggerId>, Option<JobId>, Option<Uid>),
    ) -> Result<Reply, Refusal> {
        if (id, job, uid) == (None, None, None) {
            return Err(Refusal::invalid("name a trigger, a job or a user"));
        }
        let fits = |row: &&TriggerRow| {
            let on = job.is_none_or(|job| row.spec.on == Watched::Job(job));
            on && id.is_none_or(|id| row.id == id)
                && uid.is_none_or(|uid| row.uid == uid)
                && row.shown().is_some()
        };
        let found: Vec<(TriggerId, Uid)> = (self.triggers.all.values())
            .filter(fits)
            .map(|row| (row.id, row.uid))
            .collect();
        let admin = self.is_admin(caller);
        let mine = |(_, uid): &&(TriggerId, Uid)| admin || *uid == caller.user.uid;
        let ids: Vec<TriggerId> = found.iter().filter(mine).map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return Err(match found.is_empty() {
                true => Refusal::new(RefusalCode::NotFound, "there is no such trigger"),
                false => Refusal::new(RefusalCode::Forbidden, "the trigger is somebody else's"),
            });
        }
        let who = caller.user.name.clone();
        for id in &ids {
            self.happened(now, "cleared", &who, format!("trigger {id}"), String::new());
            self.triggers.unwatch(*id);
            if let Some(row) = self.triggers.all.get_mut(id) {
                row.due.clear(); // a program that runs goes on to its end
            }
        }
        self.save_triggers();
        Ok(Reply::Done {
            changed: ids.len() as u64,
            refused: Vec::new(),
        })
    }

    pub(crate) fn list_triggers(&self, caller: &Caller) -> Reply {
        let all = self.config.policy.visibility == Visibility::Everything || self.is_admin(caller);
        let rows = self.triggers.all.values();
        let seen = rows.filter(|row| all || row.uid == caller.user.uid);
        Reply::Triggers(seen.filter_map(TriggerRow::shown).collect())
    }

    /// Writes what has changed; forgets what is over.
    pub(crate) fn save_triggers(&mut self) {
        for id in std::mem::take(&mut self.triggers.dirty) {
            let Some(row) = self.triggers.all.get(&id) else {
                continue;
            };
            if row.is_over() {
                self.triggers.all.remove(&id);
                self.triggers.idle_told.retain(|(told, _), _| *told != id);
                self.record(Record::TriggerGone(id));
            } else {
                let row = Box::new(row.clone());
                self.record(Record::Trigger(row));
            }
        }
    }
}

/// Whether such a trigger can be.
fn check(spec: &TriggerSpec) -> Result<(), Refusal> {
    let fits = |event: &cosy_model::TriggerEvent| match &spec.on {
        Watched::Job(_) => event.is_of_jobs(),
        Watched::Nodes(_) => event.is_of_nodes(),
    };
    if spec.events.is_empty() || !spec.events.iter().all(fits) {
        return Err(Refusal::invalid(match spec.on {
            Watched::Job(_) => "a job's trigger waits for its limit, its end, or its nodes",
            Watched::Nodes(_) => "a trigger without a job waits for nodes or the configuration",
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
