//! Nodes have seen more than the store has: everything that may have run since is doubted.

use crate::jobs::Jobs;
use crate::jobs::arrays::procedures::name_of;
use crate::jobs::job::{Job, Phase};
use crate::jobs::run::Run;
use crate::machine::Machine;
use crate::machine::older_store::{LostStore, NAMED_STRAYS};
use crate::record::HeldBy;
use crate::reservations::Reservations;
use crate::set_aside::Aside;
use crate::triggers::Triggers;
use crate::turn::Turn;
use crate::workflows::Workflows;
use cosy_model::node::{AttemptKey, KillCause, NodeOrder, StoreMark};
use cosy_model::{JobId, NodeId, Refusal, RefusalCode, limits};

/// How far the store is when the present turn is durable.
pub(crate) fn mark(
    jobs: &Jobs,
    reservations: &Reservations,
    workflows: &Workflows,
    triggers: &Triggers,
    turn: &Turn,
) -> StoreMark {
    StoreMark {
        events: turn.last_event(),
        jobs: jobs.next_id().0,
        reservations: reservations.next_number(),
        flows: workflows.next_number(),
        triggers: triggers.next_number(),
    }
}

/// No node knows of bookings and of money: they are as they were, and an administrator is told.
pub(crate) fn told_of_bookings(reservations: &Reservations) -> String {
    match reservations.live().count() {
        0 => String::new(),
        live => format!(
            "; {live} reservations and what accounts have are as they were in the copy: what was booked, cancelled or charged since is not known"
        ),
    }
}

pub(crate) fn go_on_above(
    jobs: &mut Jobs,
    reservations: &mut Reservations,
    workflows: &mut Workflows,
    triggers: &mut Triggers,
    turn: &mut Turn,
    seen: StoreMark,
) {
    let next = mark(jobs, reservations, workflows, triggers, turn).or_later(seen);
    let further = |number: u64| number.saturating_add(limits::SKIPPED_IDS);
    let events = next.events.saturating_add(limits::SKIPPED_EVENTS);
    turn.skip_events(events);
    jobs.go_on_at(further(next.jobs));
    reservations.go_on_at(further(next.reservations));
    workflows.go_on_at(further(next.flows));
    triggers.go_on_at(further(next.triggers));
}

/// A node has the attempt that the store has: it goes on.
pub(crate) fn no_longer_doubtful(jobs: &mut Jobs, id: JobId) {
    let run = jobs.get_mut(&id).and_then(Job::run_mut);
    if run.is_some_and(Run::no_longer_doubtful) {
        jobs.changed(id);
    }
}

/// An attempt that began after the store's copy was made.
pub(crate) fn is_later_than_store(jobs: &Jobs, lost_store: &LostStore, key: AttemptKey) -> bool {
    let Some(job) = jobs.get(&key.job) else {
        return lost_store.has(key.job) && !jobs.has_ended(key.job);
    };
    if !lost_store.concerns(job) {
        return false;
    }
    let held = matches!(job.held(), Some(HeldBy::Restored | HeldBy::Admin));
    match &job.phase() {
        Phase::Waiting(_) => key.attempt > job.attempt() || held && key.attempt == job.attempt(),
        Phase::Run(run) => run.is_doubtful() && key.attempt > job.attempt(),
    }
}

/// Nodes on which an attempt goes on that the store does not know.
fn nodes_with_unknown(
    machine: &Machine,
    jobs: &Jobs,
    lost_store: &LostStore,
    job: JobId,
) -> Vec<(NodeId, AttemptKey)> {
    let mut found = Vec::new();
    // Only those that the store may know too little of: nobody looks at all nodes for the
    // others, which may be a hundred thousand.
    let submitted = jobs.get(&job);
    if submitted.is_some_and(|job| !lost_store.concerns(job)) {
        return found;
    }
    for (at, node) in machine.nodes().iter().enumerate() {
        let of = node.strays.iter().filter(|key| key.job == job);
        found.extend(of.map(|key| (NodeId(at as u32), *key)));
    }
    found
}

/// A job that is held because nobody knows whether it has run is not let go while it runs.
pub(crate) fn may_go(
    machine: &Machine,
    jobs: &Jobs,
    lost_store: &LostStore,
    id: JobId,
) -> Result<(), Refusal> {
    let Some((node, key)) = nodes_with_unknown(machine, jobs, lost_store, id)
        .first()
        .copied()
    else {
        return Ok(());
    };
    let name = machine.name(node);
    Err(Refusal::new(
        RefusalCode::WrongState,
        format!(
            "job {} still runs on {name} (attempt {}), though the store that was restored does not have it: it ends as that does, or cancel it",
            name_of(jobs, id),
            key.attempt
        ),
    ))
}

/// A job was cancelled while it waited: what goes on of it is ended, too.
pub(crate) fn end_unknown_of(
    machine: &Machine,
    jobs: &Jobs,
    lost_store: &LostStore,
    turn: &mut Turn,
    id: JobId,
) {
    for (node, key) in nodes_with_unknown(machine, jobs, lost_store, id) {
        let cause = KillCause::Cancelled;
        machine.order(turn, node, |node| NodeOrder::Kill {
            key: key.into(),
            node,
            cause,
            preempted: false,
        });
    }
}

/// A node is given up by an administrator: what goes on there is ended.
pub(crate) fn end_unknown_on(machine: &Machine, aside: &Aside, turn: &mut Turn, id: NodeId) {
    for key in machine.node(id).strays.clone() {
        if aside.has(key.job) {
            continue;
        }
        let cause = KillCause::Superseded;
        machine.order(turn, id, |node| NodeOrder::Kill {
            key: key.into(),
            node,
            cause,
            preempted: false,
        });
    }
}

impl Machine {
    /// Why nothing starts on a node where such attempts go on.
    pub(crate) fn unknown_words(&self, id: NodeId) -> String {
        let strays = &self.node(id).strays;
        let names = strays.iter().take(NAMED_STRAYS);
        let names: Vec<String> = names
            .map(|key| format!("{}.{}", key.job, key.attempt))
            .collect();
        let more = match strays.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match names.is_empty() {
            true => String::new(),
            false => format!(
                "it goes on with attempts that the store does not have: {}{more}",
                names.join(", ")
            ),
        }
    }
}
