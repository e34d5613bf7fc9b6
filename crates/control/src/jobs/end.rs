//! A job ends: its row is closed, and everybody who waits for it is told.
//!
//! What its end lets others do (the next task of its array, who waits for it, its reservation)
//! is noted here and follows in the same turn: `procedures/reviews.rs`,
//! `procedures/reservations/end.rs`.

use crate::conversations::attending::tell_attendants;
use crate::conversations::mail::procedures::mail_of;
use crate::conversations::mail::{News, WHOLE};
use crate::conversations::waits::procedures::tell_waiting;
use crate::event::Effect;
use crate::jobs::bodies::procedures::{leave_body, leave_within};
use crate::jobs::check::procedures::leave_queue;
use crate::jobs::dependencies::procedures::keep_facts;
use crate::jobs::dependencies::{Progress, Waiter};
use crate::jobs::ended::Ended;
use crate::jobs::job::{Job, Submitted};
use crate::jobs::limits::procedures::leaves;
use crate::machine::Machine;
use crate::record::Record;
use crate::reservations::inside::procedures::{planner_of, uncount_job};
use crate::rooms::Rooms;
use crate::triggers::watch::procedures::watch_end_of_job;
use crate::turn::Turn;
use crate::workflows::course::procedures::flow_job_ended;
use cosy_model::{End, EndCause, EventKind, EventObject, JobId};
use cosy_view::words::end_note::CancelNote;

pub(crate) fn end_hopeless(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: JobId,
    cause: EndCause,
    note: &str,
) {
    let now = turn.now();
    uncount_job(&rooms.config, &rooms.jobs, &mut rooms.reservations, now, id);
    end_job(rooms, turn, id, &End::never_ran(cause, now), note);
}

/// The job is over: its row, its history, everyone who waited for it.
pub(crate) fn end_job(rooms: &mut Rooms, turn: &mut Turn, id: JobId, end: &End, note: &str) {
    let now = turn.now();
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    let (base, member) = (job.submitted.base, job.member);
    let submitted = job.submitted.clone();
    watch_end_of_job(&rooms.machine, &rooms.jobs, &mut rooms.triggers, id);
    if planner_of(&mut rooms.planning, &mut rooms.reservations, id).dequeue(id) {
        rooms.jobs.count_queued(turn, base, false);
    }
    rooms.planning.left_inside(id);
    let note = note_of_end(&rooms.machine, &rooms.jobs[&id], end, note);
    rooms.jobs.stands_apart(turn, id);
    let job = &rooms.jobs[&id];
    let row = job.end_row(end, &note, &|n| rooms.machine.name(n).to_owned());
    let share = (end.cause == EndCause::TimeLimit).then_some(News::Share(WHOLE));
    let news = share.into_iter().chain([News::Ended(end, &note)]);
    let mails: Vec<Effect> = news
        .filter_map(|news| mail_of(&rooms.config, job, &news))
        .collect();
    let (begin, not_before) = (job.spec().begin, job.not_before());
    turn.record(Record::Job(Box::new(row.clone())));
    let state = end.state();
    let (code, signal) = (end.exit_code, end.signal);
    let detail = match &end.cause {
        EndCause::NodeLost => format!("{state}, exit code {code}, signal {signal}: {}", row.note),
        _ => format!("{state}, exit code {code}, signal {signal}"),
    };
    let object = EventObject::Job(id);
    turn.happened(now, EventKind::Ended, "controller", object, detail);
    for mail in mails {
        turn.effect(mail);
    }
    leave_line(rooms, id, &submitted);
    for begin in begin.into_iter().chain(not_before) {
        rooms.jobs.begins_no_more(begin, id);
    }
    rooms.jobs.remember(
        id,
        Ended {
            at: now,
            row: Box::new(row),
            submitted: submitted.clone(),
            state,
            exit_code: code,
            signal,
        },
    );
    let at = member.map_or(0, |m| m.at as usize);
    let ok = state == cosy_model::JobState::Completed;
    settle_fate(rooms, turn, id, &submitted, at, ok);
    tell_waiting(&rooms.config, &rooms.jobs, &mut rooms.conversations, turn, id);
    tell_attendants(&rooms.jobs, &mut rooms.conversations, turn, id);
    rooms.reservations.job_inside_ended(id, &submitted);
    flow_job_ended(&rooms.jobs, &mut rooms.workflows, id, &submitted);
    if submitted.spec.attended {
        rooms.jobs.review_interactive(submitted.uid);
    }
}

/// What is told of the end beside its cause.
fn note_of_end(machine: &Machine, job: &Job, end: &End, note: &str) -> String {
    match &end.cause {
        EndCause::LaunchFailed(reason) => reason.clone(),
        EndCause::SupervisorLost => machine.supervisor_lost(job),
        EndCause::NodeLost => machine
            .lost_words(job)
            .unwrap_or_else(|| "a node was lost".into()),
        EndCause::Deadline => "it could not be over at its deadline".to_owned(),
        EndCause::Cancelled => match job.run().and_then(|run| run.canceller()) {
            Some(who) => CancelNote {
                who,
                waited_for: None,
            }
            .to_string(),
            None => note.to_owned(),
        },
        EndCause::Preempted => match job.run().and_then(|run| run.gives_way()) {
            Some(way) => format!("it made room for {}", way.by),
            None => note.to_owned(),
        },
        EndCause::Exited | EndCause::TimeLimit | EndCause::OutOfMemory => note.to_owned(),
    }
}

/// The job is in no queue any more and counts nowhere.
fn leave_line(rooms: &mut Rooms, id: JobId, submitted: &Submitted) {
    rooms.queues.scores_mut().left(id);
    leaves(rooms, id);
    rooms.jobs.remove(&id);
    let (queues, jobs) = (&mut rooms.queues, &mut rooms.jobs);
    leave_queue(&rooms.config, queues, jobs, submitted);
    rooms.conversations.leave_interactive(id, submitted);
}

pub(crate) fn settle_fate(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: JobId,
    submitted: &Submitted,
    at: usize,
    ok: bool,
) {
    let base = submitted.base;
    let ended = rooms.jobs.ended(id);
    let touched = ended.is_some_and(|e| e.row.attempt.0 > 0);
    let start = ended.and_then(|e| e.row.end.as_ref()?.start);
    let index = ended.and_then(|e| e.row.index);
    let Some(group) = rooms.jobs.group_mut(&base) else {
        return;
    };
    group.settle(at, ok);
    group.touched += u32::from(!touched);
    group.throttled.remove(at);
    if let Some(start) = start {
        group.note_start(start);
    }
    let over = group.live == 0;
    let progress = Progress {
        base,
        id,
        index,
        whole: over || group.all_touched(),
    };
    leave_body(&mut rooms.jobs, &mut rooms.planning, turn, submitted, true);
    if !over {
        return rooms.jobs.review_dependents(progress);
    }
    keep_facts(&mut rooms.jobs, &rooms.aside, base);
    rooms.jobs.review_dependents(progress);
    rooms.jobs.submission_over(base);
    turn.record(Record::SubmissionDone(base));
    let Some(group) = rooms.jobs.remove_group(&base) else {
        return;
    };
    for body in group.bodies.values() {
        let submitted = &body.submitted;
        rooms
            .jobs
            .leave_name(submitted.uid, &submitted.spec.name, base);
        leave_within(&mut rooms.planning, submitted);
        rooms.jobs.wait_no_longer(Waiter::of(submitted), submitted);
    }
}
