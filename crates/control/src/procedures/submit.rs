//! Jobs are submitted.

use crate::conversations::interactive::procedures::answer_at_end_of_turn;
use crate::conversations::interactive::{check_allocation, check_kind};
use crate::conversations::requests::procedures::remember;
use crate::event::{Caller, Facts};
use crate::jobs::check::Coming;
use crate::jobs::dependencies::Waiter;
use crate::jobs::dependencies::procedures::wait_for_others;
use crate::jobs::job::{Group, Submitted};
use crate::jobs::reviews::{AT_ONCE, Again, weight};
use crate::jobs::submit::procedures::{add_group, note_for, ready};
use crate::jobs::submit::{Ready, numbering};
use crate::procedures::reviews::review;
use crate::record::{OfFlow, Record, SubmissionRow};
use crate::rooms::Rooms;
use crate::turn::{Asker, Turn};
use cosy_model::api::{Reply, Submission};
use cosy_model::{EventKind, EventObject, JobId, Refusal, TaskIndices};
use std::sync::Arc;

/// Takes a request to allocate; the answer comes with the end of the turn.
pub(crate) fn allocate(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    submission: Submission,
    facts: &Facts,
) -> Result<(), Refusal> {
    let Asker {
        client,
        caller,
        key,
    } = asker;
    let now = turn.now();
    check_allocation(&submission)?;
    check_kind(&submission, true)?;
    let reply = submit(rooms, turn, caller, submission, facts)?;
    if let Some(key) = key {
        remember(&mut rooms.conversations, turn, now, caller.user.uid, key, &reply);
    }
    answer_at_end_of_turn(&rooms.jobs, &mut rooms.conversations, turn, client, reply);
    Ok(())
}

pub(crate) fn submit(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    submission: Submission,
    facts: &Facts,
) -> Result<Reply, Refusal> {
    submit_with(rooms, turn, caller, submission, facts, false)
}

/// `attached`: the script that starts with its reservation.
pub(crate) fn submit_with(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    submission: Submission,
    facts: &Facts,
    attached: bool,
) -> Result<Reply, Refusal> {
    let ready = ready(rooms, caller, submission, facts, attached, &Coming::new())?;
    rooms.jobs.learn_facts(&ready.spec.dependencies, facts);
    Ok(enter(rooms, turn, caller, ready, None))
}

/// Takes a submission that was checked.
pub(crate) fn enter(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    ready: Ready,
    flow: Option<OfFlow>,
) -> Reply {
    let now = turn.now();
    let Ready {
        mut spec,
        script,
        indices,
        at_once,
        queue,
        place,
    } = ready;
    let tasks = indices.as_ref().map_or(1, TaskIndices::len);
    let environment = std::mem::take(&mut spec.environment);
    let base = rooms.jobs.next_id();
    let submitted = Arc::new(Submitted {
        base,
        body: 0,
        uid: caller.user.uid,
        gid: caller.group(),
        user: caller.user.name.clone(),
        submit: now,
        queue: rooms.queues.name(queue).to_owned(),
        spec: rooms.jobs.share(Arc::new(spec)),
        place,
        flow,
        only: None,
    });
    let row = row_of(&submitted, indices, at_once);
    rooms.jobs.take_ids(row.ids());
    let reply = Reply::Submitted {
        job: base,
        tasks: row.indices.as_ref().map_or(0, |i| i.len() as u32),
        note: note_for(rooms, caller, queue, &row.spec),
    };
    let group = Group::of_row(&row, submitted.clone());
    turn.record(Record::Submitted {
        row: Box::new(row),
        script,
        environment,
    });
    let detail = format!("{} to queue {}", submitted.spec.name, submitted.queue);
    turn.happened(now, EventKind::Submitted, &submitted.user, EventObject::Job(base), detail);
    if submitted.spec.reservation.is_none() {
        let core_ms = crate::reservations::asked_core_ms(&submitted);
        let notice = &rooms.config.reservations.notice;
        let figures = rooms.reservations.figures_mut();
        figures.jobs_accepted(now, notice, tasks as u64, core_ms);
    }
    let ids = group.ids();
    add_group(rooms, group);
    review_first(rooms, turn, &submitted, ids, tasks);
    reply
}

/// Looks at the first tasks at once; the others stand in the line of reviews.
fn review_first(
    rooms: &mut Rooms,
    turn: &mut Turn,
    submitted: &Submitted,
    ids: impl Iterator<Item = JobId>,
    tasks: usize,
) {
    let who = Waiter::of(submitted);
    wait_for_others(&mut rooms.jobs, &rooms.aside, who, submitted);
    let at_once = (AT_ONCE / weight(&submitted.spec)).max(1);
    for id in ids.take(at_once) {
        review(rooms, turn, id);
    }
    if tasks > at_once {
        rooms.jobs.review_later(Again::Rest(who, at_once));
    }
}

fn row_of(
    submitted: &Submitted,
    indices: Option<TaskIndices>,
    at_once: Option<u32>,
) -> SubmissionRow {
    SubmissionRow {
        base: submitted.base,
        indices,
        numbering: numbering(submitted.spec.dialect),
        at_once,
        uid: submitted.uid,
        gid: submitted.gid,
        user: submitted.user.clone(),
        queue: submitted.queue.clone(),
        submit: submitted.submit,
        spec: submitted.spec.clone(),
        flow: submitted.flow,
    }
}
