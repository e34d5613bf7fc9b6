//! What happens to jobs and nodes is noted for the triggers that wait for it.

use crate::controller::Controller;
use crate::jobs::job::{Job, Run};
use crate::triggers::watch::{Condition, GATHER, Happened, NEAR};
use crate::triggers::{Due, Occasion};
use cosy_model::{JobId, NodeId, Span, Time, TriggerEvent, TriggerId, Watched, limits};
use std::collections::BTreeSet;

impl Controller {
    /// Looks what has become of a node.
    pub(crate) fn watch_node(&mut self, id: NodeId) {
        let node = self.machine.node(id);
        let before = node.condition;
        let now = Condition::of(node, before);
        if before == now {
            return;
        }
        let name = node.spec.name.clone();
        let events = before.events(now, false);
        for trigger in self.triggers.of_nodes.clone() {
            if self.waits_for(trigger, &events, Some(&name)) {
                let occasion = Occasion::Nodes(vec![name.clone()]);
                let happened = Happened::To(trigger, occasion, Vec::new());
                self.triggers.happened.push(happened);
            }
        }
        self.watch_nodes_of_jobs(id, &before.events(now, true));
        self.machine.node_mut(id).condition = now;
        if before.down != now.down {
            self.save_node(id);
        }
    }

    fn watch_nodes_of_jobs(&mut self, id: NodeId, events: &BTreeSet<TriggerEvent>) {
        if events.is_empty() || self.triggers.of_jobs.is_empty() {
            return;
        }
        for job in self.machine.node(id).jobs.clone() {
            let near = self.near(job);
            for trigger in self.triggers.of_jobs.get(&job).cloned().unwrap_or_default() {
                if self.waits_for(trigger, events, None) {
                    let happened = Happened::To(trigger, Occasion::Job(job), near.clone());
                    self.triggers.happened.push(happened);
                }
            }
        }
    }

    /// Whether a trigger waits for one of these events, on that node.
    fn waits_for(
        &self,
        trigger: TriggerId,
        events: &BTreeSet<TriggerEvent>,
        node: Option<&str>,
    ) -> bool {
        let row = self.triggers.all.get(&trigger);
        row.is_some_and(|row| {
            let there = match (&row.spec.on, node) {
                (Watched::Nodes(names), Some(node)) => {
                    names.is_empty() || names.iter().any(|name| name == node)
                }
                _ => true,
            };
            there && !row.spent && !row.spec.events.is_disjoint(events)
        })
    }

    /// Nodes that a job runs on.
    fn near(&self, job: JobId) -> Vec<String> {
        let run = self.jobs.get(&job).and_then(Job::run);
        let nodes = run.into_iter().flat_map(|run| run.parts.iter());
        let name = |part: &crate::jobs::job::Part| self.machine.name(part.node).to_owned();
        nodes.map(name).take(NEAR).collect()
    }

    /// The configuration is not what it was.
    pub(crate) fn watch_configuration(&mut self) {
        let events = [TriggerEvent::Reconfigured].into();
        for trigger in self.triggers.of_nodes.clone() {
            if self.waits_for(trigger, &events, None) {
                let happened = Happened::To(trigger, Occasion::Configuration, Vec::new());
                self.triggers.happened.push(happened);
            }
        }
    }

    /// A job is about to end.
    pub(crate) fn watch_end_of_job(&mut self, id: JobId) {
        if self.triggers.of_jobs.contains_key(&id) {
            let near = self.near(id);
            self.triggers.happened.push(Happened::JobOver(id, near));
        }
    }

    /// Puts what has happened in this turn into the rows of the triggers.
    pub(crate) fn note_happened(&mut self, now: Time) {
        for happened in std::mem::take(&mut self.triggers.happened) {
            match happened {
                Happened::To(trigger, occasion, near) => self.occurs(now, trigger, occasion, near),
                Happened::JobOver(job, near) => self.job_is_over(now, job, &near),
            }
        }
    }

    /// Its end and its limit are told; nothing else can happen to it.
    fn job_is_over(&mut self, now: Time, job: JobId, near: &[String]) {
        let ends = [TriggerEvent::Ended, TriggerEvent::TimeLimit].into();
        for trigger in self.triggers.of_jobs.get(&job).cloned().unwrap_or_default() {
            if self.waits_for(trigger, &ends, None) && !self.limit_was_all(trigger, job) {
                self.occurs(now, trigger, Occasion::Job(job), near.to_vec());
            }
            self.triggers.unwatch(trigger);
        }
    }

    /// The trigger waits for the limit alone, and that was told.
    fn limit_was_all(&self, trigger: TriggerId, job: JobId) -> bool {
        let row = self.triggers.all.get(&trigger);
        let attempt = self.jobs.ended(job).map(|ended| ended.row.attempt);
        row.is_some_and(|row| {
            !row.spec.events.contains(&TriggerEvent::Ended) && Some(row.limit_of) == attempt
        })
    }

    /// It has happened: the trigger's program is due.
    fn occurs(&mut self, now: Time, id: TriggerId, occasion: Occasion, near: Vec<String>) {
        let Some(row) = self.triggers.all.get_mut(&id) else {
            return;
        };
        let idle = row.spec.events.contains(&TriggerEvent::Idle);
        let after = match &occasion {
            Occasion::Nodes(_) if idle => GATHER, // that it lasted is known already
            Occasion::Nodes(_) => row.spec.offset.max(GATHER),
            // Before a limit it was seen when its time had come.
            Occasion::Job(_) | Occasion::Configuration => row.spec.offset.max(Span::ZERO),
        };
        let at = now + after;
        let full = row.due.len() >= limits::TRIGGER_RUNS_AHEAD;
        let joins =
            |due: &mut Due| (full || at.since(due.at) <= GATHER) && due.occasion.join(&occasion);
        let joined = row.due.iter_mut().rev().any(joins);
        // What comes in the same breath belongs to it; for anything else it is too late.
        if !joined && (row.spec.permanent || row.due.is_empty()) {
            row.due.push(Due {
                at,
                occasion,
                near,
                tries: 0,
            });
        }
        self.triggers.due.insert((at, id));
        self.triggers.dirty.insert(id);
    }

    /// Once a second: limits that come near, and nodes that stay idle.
    pub(crate) fn watch_time(&mut self, now: Time) {
        self.watch_limits(now);
        self.watch_idle(now);
    }

    fn watch_limits(&mut self, now: Time) {
        let mut near_limit = Vec::new();
        for (job, triggers) in &self.triggers.of_jobs {
            let Some(job) = self.jobs.get(job) else {
                continue;
            };
            let Some(ends) = job.run().and_then(Run::ends_at) else {
                continue;
            };
            for trigger in triggers {
                let row = &self.triggers.all[trigger];
                let told = row.limit_of == job.attempt;
                let before = row.spec.offset.min(Span::ZERO);
                let waits = row.spec.events.contains(&TriggerEvent::TimeLimit);
                if waits && !told && now >= ends + before {
                    near_limit.push((*trigger, job.id, job.attempt));
                }
            }
        }
        for (trigger, job, attempt) in near_limit {
            let near = self.near(job);
            self.occurs(now, trigger, Occasion::Job(job), near);
            if let Some(row) = self.triggers.all.get_mut(&trigger) {
                row.limit_of = attempt;
            }
        }
    }

    fn watch_idle(&mut self, now: Time) {
        let waits = |id: &&TriggerId| {
            let row = &self.triggers.all[*id];
            row.spec.events.contains(&TriggerEvent::Idle)
        };
        let waiting: Vec<TriggerId> = self
            .triggers
            .of_nodes
            .iter()
            .filter(waits)
            .copied()
            .collect();
        for trigger in waiting {
            self.watch_idle_for(now, trigger);
        }
    }

    fn watch_idle_for(&mut self, now: Time, trigger: TriggerId) {
        let events = [TriggerEvent::Idle].into();
        let offset = self.triggers.all[&trigger].spec.offset;
        let mut names = Vec::new();
        for id in self.machine.ids() {
            let node = self.machine.node(id);
            let long = node.is_idle() && now.since(node.idle_since) >= offset;
            if !long || !self.waits_for(trigger, &events, Some(&node.spec.name)) {
                continue;
            }
            let told = self
                .triggers
                .idle_told
                .insert((trigger, id), node.idle_since);
            if told != Some(node.idle_since) {
                names.push(node.spec.name.clone());
            }
        }
        if !names.is_empty() {
            self.occurs(now, trigger, Occasion::Nodes(names), Vec::new());
        }
    }
}
