//! Nodes have seen more than the store has: what may have run since is doubted.

use crate::jobs::bodies::procedures::stand;
use crate::jobs::end::end_job;
use crate::jobs::job::Job;
use crate::jobs::save::save_job;
use crate::machine::availability::update_available;
use crate::machine::older_store::procedures::{
    go_on_above, is_later_than_store, mark, told_of_bookings,
};
use crate::procedures::end::{comes_to_end, give_back};
use crate::procedures::reviews::review;
use crate::record::{AfterRun, HeldBy, OlderRow, Record, RestoredRow};
use crate::reservations::inside::procedures::uncount_job;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::node::{AttemptKey, NodeOrder, StoreMark};
use cosy_model::{End, EndCause, EventKind, EventObject, JobId, NodeId, Span};

/// A node tells how far it has seen the store.
pub(crate) fn compare_store(
    rooms: &mut Rooms,
    turn: &mut Turn,
    node: &str,
    seen: Option<StoreMark>,
) {
    let Some(seen) = seen else {
        return;
    };
    let here = mark_of(rooms, turn);
    if seen.events > here.events {
        let behind = seen.events - here.events;
        let next = skip_lost(rooms, turn, seen);
        let why = format!("node {node} has seen {behind} events more than the store has");
        doubt_and_tell(rooms, turn, &why, next);
    } else if rooms.lost_store.has_any() && here != here.or_later(seen) {
        // Numbers were left out when the store was taken up, and the lost one has given out more
        // than that. What may have run is held already.
        let next = skip_lost(rooms, turn, seen);
        let detail = format!(
            "node {node} has seen higher numbers than were left out for the store that is lost: ids go on at {next}"
        );
        turn.happened(
            turn.now(),
            EventKind::StoreRestored,
            "controller",
            EventObject::Store,
            detail,
        );
    }
}

/// The store was put back from a backup: what happened since may be known to no node, or only to
/// one that comes much later. So everything is doubted before anything starts.
pub(crate) fn take_up_backup(rooms: &mut Rooms, turn: &mut Turn, row: Option<RestoredRow>) {
    let Some(row) = row else {
        return;
    };
    let here = mark_of(rooms, turn);
    let next = skip_lost(rooms, turn, here);
    turn.record(Record::BackupTakenUp);
    let age = row.at.since(row.last).max(Span::ZERO);
    let why = format!("the store was put back from a backup whose last event was {age} old");
    doubt_and_tell(rooms, turn, &why, next);
}

fn mark_of(rooms: &Rooms, turn: &Turn) -> StoreMark {
    mark(&rooms.jobs, &rooms.reservations, &rooms.workflows, &rooms.triggers, turn)
}

/// Numbers go on above all that the lost store may have given out; the next id of a job.
fn skip_lost(rooms: &mut Rooms, turn: &mut Turn, seen: StoreMark) -> JobId {
    let first = rooms.jobs.next_id();
    go_on_above(
        &mut rooms.jobs,
        &mut rooms.reservations,
        &mut rooms.workflows,
        &mut rooms.triggers,
        turn,
        seen,
    );
    let next = rooms.jobs.next_id();
    rooms.lost_store.lost(first..next);
    let row = OlderRow {
        at: turn.now(),
        first,
        next,
        mark: mark_of(rooms, turn),
    };
    turn.record(Record::Older(row));
    next
}

fn doubt_and_tell(rooms: &mut Rooms, turn: &mut Turn, why: &str, next: JobId) {
    let (held, open) = doubt_all(rooms, turn);
    let detail = format!(
        "{why}: it was restored from an old copy. {held} jobs that may have run since are held, of {open} that ran then their nodes have to tell; ids go on at {next}{}",
        told_of_bookings(&rooms.reservations)
    );
    turn.happened(turn.now(), EventKind::StoreRestored, "controller", EventObject::Store, detail);
}

/// Jobs of before this controller began: those that wait are held, of those that run their
/// nodes have to tell. How many of both.
pub(crate) fn doubt_all(rooms: &mut Rooms, turn: &mut Turn) -> (usize, usize) {
    let now = turn.now();
    let before = rooms.jobs.first_own();
    let arrays: Vec<JobId> = rooms
        .jobs
        .groups()
        .filter(|(base, group)| {
            let spec = &group.submitted().spec;
            let old = **base < before && spec.begin.is_none_or(|b| b <= now);
            old && group.indices().is_some() && group.plain() > 0 && group.held().is_none()
        })
        .map(|(base, _)| *base)
        .collect();
    for base in arrays {
        let common = rooms
            .jobs
            .group(&base)
            .map(|group| group.submitted().clone());
        if let Some(common) = common {
            stand(
                &mut rooms.jobs,
                &mut rooms.planning,
                &rooms.aside,
                turn,
                &common,
                Some(HeldBy::Restored),
            );
        }
    }
    let all: Vec<JobId> = rooms.jobs.ids().collect();
    let (mut held, mut open) = (0, 0);
    for id in all {
        let Some(job) = rooms.jobs.get_mut(&id) else {
            continue;
        };
        if job.submitted().base >= before {
            continue;
        }
        let later = job.spec().begin.is_some_and(|begin| begin > now);
        if let Some(run) = job.run_mut() {
            if run.is_from_store() {
                run.doubt();
                open += 1;
                rooms.jobs.changed(id);
            }
        } else if job.held().is_none() && !later {
            job.is_held_by(Some(HeldBy::Restored));
            held += 1;
            let plain = !job.has_row() && job.member().is_some();
            if !plain {
                save_job(&rooms.machine, &mut rooms.jobs, turn, id);
            }
            review(rooms, turn, id);
        }
    }
    (held, open)
}

/// A node tells of an attempt that goes on there: true when the store is too old to know
/// of it. It is let go on.
pub(crate) fn goes_on_unknown(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: NodeId,
    key: AttemptKey,
) -> bool {
    let now = turn.now();
    if !is_later_than_store(&rooms.jobs, &rooms.lost_store, key) {
        return false;
    }
    let over = rooms.lost_store.over(key.job);
    if over.is_some_and(|over| key.attempt <= over) {
        rooms.machine.order(turn, id, |node| NodeOrder::Release {
            key: key.into(),
            node,
        });
        return true;
    }
    if !rooms.machine.node(id).has_room_for(key) {
        return false;
    }
    if rooms.machine.node_mut(id).has_stray(key) {
        let node = rooms.machine.name(id).to_owned();
        let detail = format!("attempt {} on {node} goes on", key.attempt);
        let object = EventObject::Job(key.job);
        turn.happened(now, EventKind::Found, "controller", object, detail);
        update_available(rooms, turn, id);
    }
    was_later(rooms, turn, key);
    true
}

/// The job has had at least that attempt; one that the store has is long over.
pub(crate) fn was_later(rooms: &mut Rooms, turn: &mut Turn, key: AttemptKey) {
    let Some(job) = rooms.jobs.get(&key.job) else {
        return;
    };
    if job.run().is_some() {
        comes_to_end(rooms, turn, key.job, AfterRun::Requeue);
        let run = rooms.jobs.get(&key.job).and_then(Job::run);
        let nodes: Vec<NodeId> = run
            .into_iter()
            .flat_map(|run| run.all_parts().map(|part| part.node()))
            .collect();
        for node in nodes {
            give_back(rooms, turn, key.job, node);
        }
    }
    if let Some(job) = rooms.jobs.get_mut(&key.job)
        && job.attempt() < key.attempt
    {
        job.has_had(key.attempt);
        job.is_held_by(Some(HeldBy::Restored.upon(job.held())));
        save_job(&rooms.machine, &mut rooms.jobs, turn, key.job);
        review(rooms, turn, key.job);
    }
}

/// What of an attempt went on unknown is over on that node; `end` says how, from the node
/// that ran its program. True when it was one of those.
pub(crate) fn unknown_is_over(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: NodeId,
    key: AttemptKey,
    end: Option<&End>,
) -> bool {
    let now = turn.now();
    let later = is_later_than_store(&rooms.jobs, &rooms.lost_store, key);
    if rooms.machine.node_mut(id).has_stray_no_more(&key) {
        update_available(rooms, turn, id);
    }
    let Some(end) = end.filter(|_| later) else {
        return later;
    };
    // Those of before it are over as well.
    rooms.lost_store.is_over(key);
    for node in rooms.machine.with_stray(key) {
        rooms.machine.order(turn, node, |node| NodeOrder::Release {
            key: key.into(),
            node,
        });
    }
    was_later(rooms, turn, key);
    let detail = format!(
        "attempt {}: {}, exit code {}, signal {}",
        key.attempt,
        end.state(),
        end.exit_code,
        end.signal
    );
    let object = EventObject::Job(key.job);
    turn.happened(now, EventKind::FoundEnded, "controller", object, detail);
    let known = match &end.cause {
        EndCause::Exited
        | EndCause::TimeLimit
        | EndCause::OutOfMemory
        | EndCause::Deadline
        | EndCause::Preempted
        | EndCause::SupervisorLost => end.start.is_some(),
        EndCause::Cancelled | EndCause::NodeLost | EndCause::LaunchFailed(_) => false,
    };
    if known && rooms.jobs.contains_key(&key.job) {
        uncount_job(&rooms.config, &rooms.jobs, &mut rooms.reservations, now, key.job);
        end_job(rooms, turn, key.job, end, "");
    }
    true
}
