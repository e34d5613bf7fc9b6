//! What happens to jobs and nodes is noted for the triggers that wait for it.

use crate::jobs::Jobs;
use crate::jobs::job::Job;
use crate::jobs::run::Run;
use crate::machine::Machine;
use crate::triggers::watch::{Condition, GATHER, Happened, NEAR};
use crate::triggers::{Due, Occasion, Triggers};
use crate::turn::Turn;
use cosy_model::{JobId, NodeId, Span, Time, TriggerEvent, TriggerId, TriggerTarget, limits};
use std::collections::BTreeSet;

/// Looks what has become of a node.
pub(crate) fn watch_node(
    machine: &mut Machine,
    jobs: &Jobs,
    triggers: &mut Triggers,
    turn: &mut Turn,
    id: NodeId,
) {
    let node = machine.node(id);
    let before = *node.condition();
    let now = Condition::of(node, before);
    if before == now {
        return;
    }
    let name = node.spec().name.clone();
    let events = before.events(now, false);
    for trigger in triggers.of_nodes.clone() {
        if triggers.waits_for(trigger, &events, Some(&name)) {
            let occasion = Occasion::Nodes(vec![name.clone()]);
            let happened = Happened::To(trigger, occasion, Vec::new());
            triggers.happened.push(happened);
        }
    }
    watch_nodes_of_jobs(machine, jobs, triggers, id, &before.events(now, true));
    machine.node_mut(id).triggers_know(now);
    if before.down != now.down {
        machine.save_node(turn, id);
    }
}

fn watch_nodes_of_jobs(
    machine: &Machine,
    jobs: &Jobs,
    triggers: &mut Triggers,
    id: NodeId,
    events: &BTreeSet<TriggerEvent>,
) {
    if events.is_empty() || triggers.of_jobs.is_empty() {
        return;
    }
    for job in machine.node(id).jobs().clone() {
        let near = near(machine, jobs, job);
        for trigger in triggers.of_jobs.get(&job).cloned().unwrap_or_default() {
            if triggers.waits_for(trigger, events, None) {
                let happened = Happened::To(trigger, Occasion::Job(job), near.clone());
                triggers.happened.push(happened);
            }
        }
    }
}

impl Triggers {
    /// Whether a trigger waits for one of these events, on that node.
    fn waits_for(
        &self,
        trigger: TriggerId,
        events: &BTreeSet<TriggerEvent>,
        node: Option<&str>,
    ) -> bool {
        let row = self.all.get(&trigger);
        row.is_some_and(|row| {
            let there = match (&row.spec.on, node) {
                (TriggerTarget::Nodes(names), Some(node)) => {
                    names.is_empty() || names.iter().any(|name| name == node)
                }
                _ => true,
            };
            there && !row.spent && !row.spec.events.is_disjoint(events)
        })
    }
}

/// Nodes that a job runs on.
fn near(machine: &Machine, jobs: &Jobs, job: JobId) -> Vec<String> {
    let run = jobs.get(&job).and_then(Job::run);
    let nodes = run.into_iter().flat_map(|run| run.parts().iter());
    let name = |part: &crate::jobs::run::Part| machine.name(part.node()).to_owned();
    nodes.map(name).take(NEAR).collect()
}

impl Triggers {
    /// The configuration is not what it was.
    pub(crate) fn watch_configuration(&mut self) {
        let events = [TriggerEvent::Reconfigured].into();
        for trigger in self.of_nodes.clone() {
            if self.waits_for(trigger, &events, None) {
                let happened = Happened::To(trigger, Occasion::Configuration, Vec::new());
                self.happened.push(happened);
            }
        }
    }
}

/// A job is about to end.
pub(crate) fn watch_end_of_job(machine: &Machine, jobs: &Jobs, triggers: &mut Triggers, id: JobId) {
    if triggers.of_jobs.contains_key(&id) {
        let near = near(machine, jobs, id);
        triggers.happened.push(Happened::JobOver(id, near));
    }
}

/// Puts what has happened in this turn into the rows of the triggers.
pub(crate) fn note_happened(jobs: &Jobs, triggers: &mut Triggers, now: Time) {
    for happened in std::mem::take(&mut triggers.happened) {
        match happened {
            Happened::To(trigger, occasion, near) => triggers.occurs(now, trigger, occasion, near),
            Happened::JobOver(job, near) => job_is_over(jobs, triggers, now, job, &near),
        }
    }
}

/// Its end and its limit are told; nothing else can happen to it.
fn job_is_over(jobs: &Jobs, triggers: &mut Triggers, now: Time, job: JobId, near: &[String]) {
    let ends = [TriggerEvent::Ended, TriggerEvent::TimeLimit].into();
    for trigger in triggers.of_jobs.get(&job).cloned().unwrap_or_default() {
        if triggers.waits_for(trigger, &ends, None) && !limit_was_all(jobs, triggers, trigger, job)
        {
            triggers.occurs(now, trigger, Occasion::Job(job), near.to_vec());
        }
        triggers.unwatch(trigger);
    }
}

/// The trigger waits for the limit alone, and that was told.
fn limit_was_all(jobs: &Jobs, triggers: &Triggers, trigger: TriggerId, job: JobId) -> bool {
    let row = triggers.all.get(&trigger);
    let attempt = jobs.ended(job).map(|ended| ended.row.attempt);
    row.is_some_and(|row| {
        !row.spec.events.contains(&TriggerEvent::Ended) && Some(row.limit_of) == attempt
    })
}

impl Triggers {
    /// It has happened: the trigger's program is due.
    fn occurs(&mut self, now: Time, id: TriggerId, occasion: Occasion, near: Vec<String>) {
        let Some(row) = self.all.get_mut(&id) else {
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
        self.due.insert((at, id));
        self.dirty.insert(id);
    }
}

/// Once a second: limits that come near, and nodes that stay idle.
pub(crate) fn watch_time(machine: &Machine, jobs: &Jobs, triggers: &mut Triggers, now: Time) {
    watch_limits(machine, jobs, triggers, now);
    watch_idle(machine, triggers, now);
}

fn watch_limits(machine: &Machine, jobs: &Jobs, triggers: &mut Triggers, now: Time) {
    let mut near_limit = Vec::new();
    for (job, watching) in &triggers.of_jobs {
        let Some(job) = jobs.get(job) else {
            continue;
        };
        let Some(ends) = job.run().and_then(Run::ends_at) else {
            continue;
        };
        for trigger in watching {
            let row = &triggers.all[trigger];
            let told = row.limit_of == job.attempt();
            let before = row.spec.offset.min(Span::ZERO);
            let waits = row.spec.events.contains(&TriggerEvent::TimeLimit);
            if waits && !told && now >= ends + before {
                near_limit.push((*trigger, job.id(), job.attempt()));
            }
        }
    }
    for (trigger, job, attempt) in near_limit {
        let near = near(machine, jobs, job);
        triggers.occurs(now, trigger, Occasion::Job(job), near);
        if let Some(row) = triggers.all.get_mut(&trigger) {
            row.limit_of = attempt;
        }
    }
}

fn watch_idle(machine: &Machine, triggers: &mut Triggers, now: Time) {
    let waits = |id: &&TriggerId| {
        let row = &triggers.all[*id];
        row.spec.events.contains(&TriggerEvent::Idle)
    };
    let waiting: Vec<TriggerId> = triggers.of_nodes.iter().filter(waits).copied().collect();
    for trigger in waiting {
        watch_idle_for(machine, triggers, now, trigger);
    }
}

fn watch_idle_for(machine: &Machine, triggers: &mut Triggers, now: Time, trigger: TriggerId) {
    let events = [TriggerEvent::Idle].into();
    let offset = triggers.all[&trigger].spec.offset;
    let mut names = Vec::new();
    for id in machine.ids() {
        let node = machine.node(id);
        let long = node.is_idle() && now.since(node.idle_since()) >= offset;
        if !long || !triggers.waits_for(trigger, &events, Some(&node.spec().name)) {
            continue;
        }
        let told = triggers.idle_told.insert((trigger, id), node.idle_since());
        if told != Some(node.idle_since()) {
            names.push(node.spec().name.clone());
        }
    }
    if !names.is_empty() {
        triggers.occurs(now, trigger, Occasion::Nodes(names), Vec::new());
    }
}
