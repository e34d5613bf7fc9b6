//! Attempts end, and what follows: the job's end, or the queue again.
//!
//! An attempt ends in two steps: `after` says what follows, and it follows when every node of
//! the attempt has given its share back or is lost.

use crate::conversations::mail::News;
use crate::conversations::mail::procedures::mail_of;
use crate::jobs::Jobs;
use crate::jobs::allocations::{order_end_held, with_steps};
use crate::jobs::end::end_job;
use crate::jobs::job::Job;
use crate::jobs::limits::procedures::stops;
use crate::jobs::losses::procedures::note_loss;
use crate::jobs::run::Run;
use crate::jobs::save::save_job;
use crate::jobs::switches::procedures::waits_anew;
use crate::machine::Machine;
use crate::machine::changes::procedures::take_over_again;
use crate::machine::reports::order_clean_up;
use crate::planning::launch::procedures::count_running;
use crate::procedures::reviews::{refill_array, refill_interactive, review};
use crate::queues::scores::procedures::charge_end;
use crate::record::{AfterRun, HeldBy, Record};
use crate::reservations::inside::procedures::{note_use, planner_of, update_available_inside};
use crate::rooms::Rooms;
use crate::triggers::watch::procedures::watch_node;
use crate::turn::Turn;
use crate::workflows::course::procedures::flow_tries_again;
use cosy_model::node::KillCause;
use cosy_model::policy::PreemptMode;
use cosy_model::{End, EndCause, EventKind, EventObject, JobId, NodeId, Span, Time};

/// Jobs whose time is over.
pub(crate) fn held_due(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    while let Some(id) = rooms.jobs.next_held_end(now) {
        end_held(rooms, turn, id, KillCause::TimeLimit);
    }
}

/// Ends a job in which nothing is launched: its steps get SIGTERM, then, after the
/// grace, SIGKILL.
pub(crate) fn end_held(rooms: &mut Rooms, turn: &mut Turn, id: JobId, cause: KillCause) {
    let now = turn.now();
    let Some(job) = rooms.jobs.get_mut(&id) else {
        return;
    };
    let deadline = job.spec().deadline;
    let Some(run) = job.run_mut() else { return };
    if run.is_over() {
        return;
    }
    let end_cause = match cause {
        KillCause::TimeLimit => EndCause::TimeLimit,
        KillCause::Cancelled | KillCause::Superseded | KillCause::Requeued => EndCause::Cancelled,
    };
    let after = match cause {
        KillCause::Requeued => AfterRun::Requeue,
        KillCause::Cancelled | KillCause::TimeLimit | KillCause::Superseded => {
            let end = End {
                start: run.started(),
                ..End::never_ran(end_cause, now)
            };
            AfterRun::End(at_deadline(end, deadline))
        }
    };
    run.kill(cause);
    let held: Vec<NodeId> = run.shares().iter().map(|share| share.node).collect();
    comes_to_end(rooms, turn, id, after);
    save_job(&rooms.machine, &mut rooms.jobs, turn, id);
    for node in held {
        if rooms.machine.node(node).given_up() {
            give_back(rooms, turn, id, node);
        } else {
            order_end_held(&rooms.machine, &rooms.jobs, turn, id, node);
        }
    }
}

/// Its owner gives the job back.
pub(crate) fn give_back_held(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: JobId,
    exit_code: i32,
    signal: i32,
) {
    let now = turn.now();
    let Some(run) = rooms.jobs.get(&id).and_then(Job::run) else {
        return;
    };
    let end = End {
        exit_code,
        signal,
        start: Some(run.started().unwrap_or(now)),
        ..End::never_ran(EndCause::Exited, now)
    };
    abandon(rooms, turn, id, AfterRun::End(end), None);
}

/// What follows the attempt is settled. From now on it does not count as one that runs.
pub(crate) fn comes_to_end(rooms: &mut Rooms, turn: &mut Turn, id: JobId, after: AfterRun) {
    let now = turn.now();
    let Some(run) = rooms.jobs.get_mut(&id).and_then(Job::run_mut) else {
        return;
    };
    let end = run.ends_at();
    let after = as_preempted(run, after);
    if !run.ends(now, after) {
        return;
    }
    if let Some(at) = end {
        rooms.jobs.end_held_no_more(at, id);
    }
    refill_interactive(rooms, turn, id);
}

/// What follows an attempt that was told to make room: whatever its end is put down to, it has been
/// preempted, unless somebody has cancelled it.
fn as_preempted(run: &Run, after: AfterRun) -> AfterRun {
    let Some(way) = run.gives_way().filter(|way| way.told) else {
        return after;
    };
    match (way.mode, after) {
        (_, after) if run.canceller().is_some() => after,
        (PreemptMode::Requeue, _) | (_, AfterRun::Requeue) => AfterRun::Requeue,
        (_, AfterRun::End(end)) => AfterRun::End(End {
            cause: EndCause::Preempted,
            ..end
        }),
    }
}

/// Ends an attempt: what follows is settled, `clean` has nothing left, the other
/// nodes are told to clean up.
pub(crate) fn abandon(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: JobId,
    after: AfterRun,
    clean: Option<NodeId>,
) {
    comes_to_end(rooms, turn, id, after);
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    let held = job.submitted().is_held();
    let Some(run) = job.run() else { return };
    let launched = run.is_launched();
    let first = run.first();
    let parts: Vec<(NodeId, bool)> = run
        .all_parts()
        .map(|p| (p.node(), p.is_released()))
        .collect();
    let several = parts.len() > 1;
    for (node, released) in parts {
        if released {
            continue;
        }
        let lost = rooms.machine.node(node).given_up();
        // After a restart a silent node may have been told to launch: it is asked first.
        let heard = rooms.machine.node(node).link().is_some();
        let idle = Some(node) == first && !launched && !held && heard;
        if Some(node) == clean || lost || idle {
            give_back(rooms, turn, id, node);
        } else if held {
            order_end_held(&rooms.machine, &rooms.jobs, turn, id, node);
        } else {
            order_clean_up(&rooms.machine, &rooms.jobs, turn, id, node, Some(node) == first);
        }
    }
    if several && rooms.jobs.get(&id).is_some_and(|j| j.run().is_some()) {
        rooms.jobs.changed(id);
    }
}

/// A node's share is free again; when it was the last, what follows happens.
pub(crate) fn give_back(rooms: &mut Rooms, turn: &mut Turn, id: JobId, node: NodeId) {
    let now = turn.now();
    let Some(run) = rooms.jobs.get_mut(&id).and_then(Job::run_mut) else {
        return;
    };
    let Some(back) = run.released(node) else {
        return;
    };
    let on = rooms.machine.node_mut(node);
    on.has_back(id, &back, now);
    let takes_jobs = on.takes_jobs() && !rooms.machine.changes().concern(node);
    update_available_inside(
        &rooms.machine,
        &rooms.jobs,
        &rooms.planning,
        &mut rooms.reservations,
        node,
        takes_jobs,
    );
    watch_node(&mut rooms.machine, &rooms.jobs, &mut rooms.triggers, turn, node);
    take_over_again(rooms, turn, node);
    if back.last {
        planner_of(&mut rooms.planning, &mut rooms.reservations, id).end(id);
        rooms.planning.lends_no_more(id);
        note_use(&rooms.config, &rooms.jobs, &mut rooms.planning, &mut rooms.reservations, now, id);
        follow(rooms, turn, id);
    } else {
        planner_of(&mut rooms.planning, &mut rooms.reservations, id).release_node(id, node);
        rooms.jobs.changed(id);
    }
}

/// All nodes are clean: the job ends or waits again.
pub(crate) fn follow(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let now = turn.now();
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    let Some(run) = job.run() else { return };
    let after = match run.after() {
        Some(AfterRun::End(end)) => AfterRun::End(with_steps(now, job, end.clone())),
        Some(AfterRun::Requeue) | None => AfterRun::Requeue,
    };
    let held = match run.is_doubtful() {
        true => Some(HeldBy::Restored),
        false => run.hold_after(),
    };
    count_running(&rooms.config, &rooms.machine, &mut rooms.queues, &rooms.jobs, id, false);
    charge_end(&rooms.config, &rooms.machine, &mut rooms.queues, &rooms.jobs, id, now);
    rooms.jobs.give_licenses(id);
    stops(rooms, id);
    rooms.jobs.start_saved(id);
    let base = rooms.jobs.base_of(id);
    if let Some(group) = rooms.jobs.group_mut(&base) {
        group.task_stopped();
    }
    match after {
        AfterRun::End(end)
            if flow_tries_again(
                &rooms.config,
                &rooms.jobs,
                &rooms.reservations,
                &mut rooms.workflows,
                turn,
                id,
                &end,
            ) =>
        {
            keep_run(&rooms.machine, &rooms.jobs, turn, id, Some(end));
            wait_again(rooms, turn, id, held);
        }
        AfterRun::End(end) => end_job(rooms, turn, id, &end, ""),
        AfterRun::Requeue => {
            keep_run(&rooms.machine, &rooms.jobs, turn, id, None);
            wait_again(rooms, turn, id, held);
        }
    }
    refill_array(rooms, turn, base);
}

/// Notes a run that another one follows: how it ended and what it used. One whose program never
/// began is not told.
fn keep_run(machine: &Machine, jobs: &Jobs, turn: &mut Turn, id: JobId, end: Option<End>) {
    let now = turn.now();
    let Some(job) = jobs.get(&id) else { return };
    let Some(run) = job.run().filter(|run| run.started().is_some()) else {
        return;
    };
    let lost = machine.loss(job);
    let way = run.gives_way().filter(|way| way.told);
    let (cause, note) = match (way, lost) {
        (Some(way), _) => (EndCause::Preempted, format!("it made room for {}", way.by)),
        (None, Some(loss)) => loss,
        (None, None) => (EndCause::Cancelled, "it went back into the queue".to_owned()),
    };
    let end = end.unwrap_or_else(|| {
        let known = run.reported().cloned();
        let known = known.unwrap_or_else(|| End::never_ran(cause.clone(), now));
        let start = known.start.or(run.started());
        End {
            cause,
            start,
            ..known
        }
    });
    let row = job.end_row(&with_steps(now, job, end), &note, &|n| machine.name(n).to_owned());
    turn.record(Record::EarlierRun(Box::new(row)));
}

pub(crate) fn wait_again(rooms: &mut Rooms, turn: &mut Turn, id: JobId, held: Option<HeldBy>) {
    let now = turn.now();
    let job = rooms.jobs.get(&id);
    let lost = job.and_then(|job| rooms.machine.lost_run(job));
    if !rooms.jobs.waits_again(id) {
        return;
    }
    let often = lost
        .as_ref()
        .and_then(|lost| note_loss(rooms, turn, id, lost));
    waits_anew(rooms, turn, id);
    let held = often.or(held);
    rooms.jobs.pause_before_again(now, id, held);
    save_job(&rooms.machine, &mut rooms.jobs, turn, id);
    let words = lost.map(|lost| lost.words).unwrap_or_default();
    let mail = rooms.jobs.get(&id).and_then(|job| {
        let why = after_loss_words(job, &words);
        mail_of(&rooms.config, job, &News::Requeued(&why))
    });
    turn.happened(now, EventKind::Requeued, "controller", EventObject::Job(id), words);
    if let Some(mail) = mail {
        turn.effect(mail);
    }
    review(rooms, turn, id);
}

/// What its owner is told of a loss, and of what follows from it.
fn after_loss_words(job: &Job, lost: &str) -> String {
    if lost.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = job.spec().failed_nodes().collect();
    let avoids = match names.is_empty() {
        true => String::new(),
        false => format!(" It does not go to {} for a while.", cosy_model::fold(&names)),
    };
    let held = match job.held() {
        Some(HeldBy::Losses) => " It was lost too often and is held: release it to run it again.",
        Some(_) | None => "",
    };
    format!("{lost}.{avoids}{held}")
}

/// A program that fails when its time is over has failed of that. Its parts are ended each by the clock
/// of their own node: where that of a task is first, a script learns of its task's end before its own
/// time is over, and fails with it.
pub(crate) fn at_limit(end: End, run: &Run) -> End {
    let failed = end.cause == EndCause::Exited && (end.exit_code, end.signal) != (0, 0);
    let over = run.ends_at().is_some_and(|at| end.end >= at);
    let told = !matches!(run.killed(), None | Some(KillCause::TimeLimit));
    match failed && over && !told {
        true => End {
            cause: EndCause::TimeLimit,
            ..end
        },
        false => end,
    }
}

/// An end by the time limit is one by the deadline when that was what the limit came from.
pub(crate) fn at_deadline(mut end: End, deadline: Option<Time>) -> End {
    let reached = deadline.is_some_and(|deadline| end.end + Span::from_secs(1) >= deadline);
    if end.cause == EndCause::TimeLimit && reached {
        end.cause = EndCause::Deadline;
    }
    end
}
