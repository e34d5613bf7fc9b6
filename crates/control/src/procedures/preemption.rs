//! Running jobs make room for waiting ones: who is chosen, told, ended with force, or spared after
//! all. Who may preempt whom is in `policy/preempt.rs`, which set is the cheapest in
//! `sched::victims`.
//!
//! ```text
//!   chosen ──▶ told: SIGCONT, SIGTERM ──▶ grace over: ended with force ──▶ ended, or waits again
//!     │           (or suspended) ─────────────────▶ resumed when the other one is over
//!     └── spared, when the other one needs no room any more before it was told
//! ```
//!
//! Meanwhile the planner counts on its end at that time, and the job for which room is made stands
//! before all others: nobody else gets what comes free. All of it is in the row of the one who makes
//! room.

use crate::conversations::mail::News;
use crate::conversations::mail::procedures::mail_of;
use crate::jobs::dependencies::procedures::planner_job;
use crate::jobs::job::{Job, Phase};
use crate::jobs::save::save_job;
use crate::jobs::steer::Recipients;
use crate::jobs::steer::procedures::signal_job;
use crate::planning::making_room::{RoomQuestion, may_ask_for_room, question};
use crate::planning::suspension::{expect_held_end, plan_end_again, resume_job, suspend_job};
use crate::policy::preempt::Way;
use crate::procedures::launch::start_jobs;
use crate::procedures::steer::kill_job;
use crate::record::{PreemptedRow, Preemptor};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::node::{KillCause, NodeOrder};
use cosy_model::policy::PreemptMode;
use cosy_model::{Dialect, EventKind, EventObject, JobId, ReservationId, Span, Time, WaitReason};

/// SIGCONT and SIGTERM, as in signal(7).
const CONTINUE: i32 = 18;
const TERMINATE: i32 = 15;

/// Questions that one turn asks the planner, at most.
const QUESTIONS: usize = 2;

/// Chooses who makes room for the first of those that may ask for it.
pub(crate) fn make_room(rooms: &mut Rooms, turn: &mut Turn) {
    settle_room(rooms, turn);
    if !rooms.config.preemption.is_on() {
        return;
    }
    if rooms.planning.room_mut().takes_all_anew() {
        ask_all_anew(rooms, turn);
    }
    let now = turn.now();
    if rooms.machine.awaits_nodes(now) {
        return; // with their nodes, fewer might have to go
    }
    for _ in 0..QUESTIONS {
        let Some(id) = rooms.planning.room_mut().next_asking(now) else {
            return;
        };
        if !rooms.planning.cluster().is_waiting(id) {
            rooms.planning.room_mut().asks_no_more(id);
            continue;
        }
        turn.looked(1);
        let question = question(rooms, now, id);
        let found = question.as_ref().and_then(|question| {
            let RoomQuestion {
                job,
                before,
                candidates,
                ..
            } = question;
            let planner = rooms.planning.cluster();
            planner.victims(now, job, before, candidates)
        });
        match (question, found) {
            (Some(question), Some(victims)) => give_room(rooms, turn, id, &question, &victims),
            _ => rooms.planning.room_mut().in_vain(id, now),
        }
    }
}

/// Rules have changed: every waiting job is asked whether it may preempt.
fn ask_all_anew(rooms: &mut Rooms, turn: &Turn) {
    let now = turn.now();
    let waiting = rooms.jobs.all().filter_map(|job| {
        let planner = rooms.planning.cluster();
        Some((job.id(), *planner.waiting(job.id()).map(|waiting| &waiting.key)?))
    });
    for (id, key) in waiting.collect::<Vec<_>>() {
        if let Some(job) = rooms.jobs.get(&id) {
            let (config, queues, policy) = (&rooms.config, &rooms.queues, &rooms.policy);
            may_ask_for_room(config, queues, policy, &mut rooms.planning, (job, key), now);
        }
    }
}

/// These make room for the job.
fn give_room(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: JobId,
    question: &RoomQuestion,
    victims: &[JobId],
) {
    let now = turn.now();
    let queue = question.job.queue;
    let before = rooms.planning.cluster().guaranteed_starts(now, queue);
    rooms.planning.room_mut().room_is_made_for(id);
    let since = rooms.jobs.get(&id).and_then(Job::room_is_made);
    stand_ahead(rooms, turn, id, Some(since.unwrap_or(now)));
    let mut names = Vec::new();
    for victim in victims {
        if let Some(way) = question.ways.get(victim) {
            names.push(format!("{victim} ({})", way.mode.word()));
            gives_way(rooms, turn, *victim, id.into(), *way);
        }
    }
    let detail = match names.is_empty() {
        true => "it stands before those that it may preempt".to_owned(),
        false => format!("of {}", names.join(", ")),
    };
    turn.happened(now, EventKind::MakesRoom, "controller", EventObject::Job(id), detail);
    start_jobs(rooms, turn);
    tell_moved(rooms, turn, id, &before);
}

/// Who has a guaranteed start that is later now is told.
fn tell_moved(rooms: &mut Rooms, turn: &mut Turn, by: JobId, before: &[(JobId, Time)]) {
    let now = turn.now();
    for (id, old) in before.iter().filter(|(id, _)| *id != by) {
        let planner = rooms.planning.cluster();
        let new = planner.predict(now, *id).and_then(|one| one.start);
        let Some(new) = new.filter(|new| new > old) else {
            continue;
        };
        if let Some(job) = rooms.jobs.get_mut(id) {
            job.start_is_moved(by, (*old, new));
        }
        save_job(&rooms.machine, &mut rooms.jobs, turn, *id);
        let detail = format!("by {}: room is made for job {by}", new.since(*old));
        turn.happened(now, EventKind::StartMoved, "controller", EventObject::Job(*id), detail);
        let mail = rooms.jobs.get(id);
        let mail = mail.and_then(|job| mail_of(&rooms.config, job, &News::StartMoved(by)));
        mail.into_iter().for_each(|mail| turn.effect(mail));
    }
}

/// The job stands before all others since then, or where it would without that.
fn stand_ahead(rooms: &mut Rooms, turn: &mut Turn, id: JobId, ahead: Option<Time>) {
    let Some(job) = rooms.jobs.get_mut(&id) else {
        return;
    };
    job.makes_others_go(ahead);
    save_job(&rooms.machine, &mut rooms.jobs, turn, id);
    if !rooms.planning.cluster().is_waiting(id) {
        return;
    }
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    if let Some(waiting) = planner_job(rooms, job) {
        let (config, queues) = (&rooms.config, &rooms.queues);
        let at = (job, waiting.key);
        may_ask_for_room(config, queues, &rooms.policy, &mut rooms.planning, at, turn.now());
        rooms.planning.cluster_mut().enqueue(waiting);
    }
}

/// A running job makes room: it is told, or stands still.
pub(crate) fn gives_way(
    rooms: &mut Rooms,
    turn: &mut Turn,
    victim: JobId,
    by: Preemptor,
    way: Way,
) {
    let now = turn.now();
    let grace = way.grace.max(rooms.config.policy.grace);
    let mut row = PreemptedRow {
        by,
        at: now,
        until: now + grace,
        mode: way.mode,
        told: false,
    };
    let how = match way.mode {
        PreemptMode::Suspend => {
            row.until = now;
            "it is suspended".to_owned()
        }
        PreemptMode::Requeue => format!("it is requeued, within {grace}"),
        PreemptMode::Cancel | PreemptMode::Off => {
            format!("it is cancelled, within {grace}")
        }
    };
    let detail = format!("for {by}: {how}");
    turn.happened(now, EventKind::Preempted, "controller", EventObject::Job(victim), detail);
    if way.mode == PreemptMode::Suspend {
        if suspend_job(rooms, turn, victim, "controller").is_err() {
            return;
        }
        row.told = true;
        mark(rooms, turn, victim, row);
        return rooms.planning.room_mut().makes_room(victim, by, None);
    }
    let forced = (way.grace > Span::ZERO).then_some(row.until);
    mark(rooms, turn, victim, row);
    rooms.planning.room_mut().makes_room(victim, by, forced);
    match forced {
        Some(_) => tell(rooms, turn, victim),
        None => {
            is_told(rooms, turn, victim);
            kill_job(rooms, turn, victim, cause(way.mode));
        }
    }
}

fn mark(rooms: &mut Rooms, turn: &mut Turn, victim: JobId, row: PreemptedRow) {
    let run = rooms.jobs.get_mut(&victim).and_then(Job::run_mut);
    if let Some(run) = run {
        if let Preemptor::Reservation { .. } = row.by {
            run.is_promised(None);
        }
        run.makes_room(Some(row));
    }
    ends_then(rooms, turn, victim);
}

/// The planner counts on the end as it is known now.
pub(crate) fn ends_then(rooms: &mut Rooms, turn: &mut Turn, victim: JobId) {
    expect_held_end(&mut rooms.jobs, victim);
    let (planning, reservations) = (&mut rooms.planning, &mut rooms.reservations);
    plan_end_again(&rooms.config, &rooms.jobs, planning, reservations, victim);
    save_job(&rooms.machine, &mut rooms.jobs, turn, victim);
}

const fn cause(mode: PreemptMode) -> KillCause {
    match mode {
        PreemptMode::Requeue => KillCause::Requeued,
        PreemptMode::Cancel | PreemptMode::Suspend | PreemptMode::Off => KillCause::Cancelled,
    }
}

/// SIGCONT and SIGTERM, or the signal that the job asked for, if its node can be reached.
fn tell(rooms: &mut Rooms, turn: &mut Turn, victim: JobId) {
    let Some(job) = rooms.jobs.get(&victim) else {
        return;
    };
    let first = job.run().and_then(|run| run.first());
    let reached = first.is_some_and(|node| rooms.machine.node(node).link().is_some());
    let own = job
        .spec()
        .warn
        .filter(|_| rooms.config.preemption.own_signal);
    let signal = own.map_or(TERMINATE, |warn| warn.signal);
    let whom = match own {
        Some(warn) if warn.script_only => Recipients::Script,
        Some(_) if job.spec().dialect == Dialect::Slurm => Recipients::Steps,
        Some(_) | None => Recipients::All,
    };
    if !reached {
        return; // when its node is there again
    }
    let (machine, jobs) = (&rooms.machine, &rooms.jobs);
    let sent = signal_job(machine, jobs, turn, victim, CONTINUE, Recipients::All)
        .and_then(|()| signal_job(machine, jobs, turn, victim, signal, whom));
    if sent.is_ok() {
        is_told(rooms, turn, victim);
    }
}

fn is_told(rooms: &mut Rooms, turn: &mut Turn, victim: JobId) {
    rooms.planning.room_mut().has_heard(victim);
    let run = rooms.jobs.get_mut(&victim).and_then(Job::run_mut);
    if let Some(run) = run {
        run.told_to_make_room();
    }
    save_job(&rooms.machine, &mut rooms.jobs, turn, victim);
}

/// The grace of jobs that make room is over.
pub(crate) fn room_is_due(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    while let Some(id) = rooms.planning.room_mut().next_forced(now) {
        let Some(job) = rooms.jobs.get(&id) else {
            continue;
        };
        let key = job.key();
        let held = job.submitted().is_held();
        let run = job
            .run()
            .filter(|run| !run.is_over() && run.killed().is_none());
        let Some((run, way)) = run.and_then(|run| Some((run, run.gives_way()?))) else {
            continue;
        };
        let first = run.first();
        is_told(rooms, turn, id);
        kill_job(rooms, turn, id, cause(way.mode));
        // Its grace is over: not another one.
        if let Some(first) = first.filter(|_| !held) {
            rooms.machine.order(turn, first, |node| NodeOrder::Kill {
                key: key.into(),
                node,
                cause: KillCause::Superseded,
                preempted: false,
            });
        }
    }
}

/// Looks at those for whom room is made, and at those who make it: they are spared when nobody
/// needs their room and they do not know of it yet; who stands still goes on when the other one is
/// over.
fn settle_room(rooms: &mut Rooms, turn: &mut Turn) {
    let all: Vec<Preemptor> = rooms.planning.room().all().collect();
    for whom in all {
        match whom {
            Preemptor::Job(id) => settle_for_job(rooms, turn, id),
            Preemptor::Reservation { reservation } => {
                settle_for_reservation(rooms, turn, reservation);
            }
        }
    }
}

/// What a job says that makes room, and whether its attempt is over; one that does not any more has gone.
fn makes_room_still(
    rooms: &mut Rooms,
    maker: JobId,
    whom: Preemptor,
) -> Option<(PreemptedRow, bool)> {
    let run = rooms.jobs.get(&maker).and_then(Job::run);
    let makes = run.and_then(|run| Some((run.preempted()?, run.is_over())));
    let makes = makes.filter(|(row, _)| row.by == whom);
    if makes.is_none() {
        rooms.planning.room_mut().has_gone(maker, whom);
    }
    makes
}

fn settle_for_job(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let job = rooms.jobs.get(&id);
    let needed = job.is_some_and(|job| job.room_is_made().is_some() && waits_for_its_turn(job));
    let runs = job.and_then(Job::run).is_some_and(|run| !run.is_over());
    let makers: Vec<JobId> = rooms.planning.room().for_whom(id.into()).collect();
    let mut left = 0;
    for maker in makers {
        let Some((row, over)) = makes_room_still(rooms, maker, id.into()) else {
            continue;
        };
        let still = row.mode == PreemptMode::Suspend;
        if still && !needed && !runs {
            goes_on(rooms, turn, maker, id);
        } else if !still && !needed && !row.told && !over {
            spare(rooms, turn, maker, id.into());
        } else if !still && !over && (!row.told || rooms.planning.room().is_unheard(maker)) {
            left += 1;
            tell(rooms, turn, maker);
        } else {
            left += usize::from(!still || needed || runs);
        }
    }
    settle_one(rooms, turn, (id, needed), left);
}

/// Who makes room for a reservation is spared when it is over before they know; else they are told
/// until they know.
fn settle_for_reservation(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    let needed = rooms.reservations.get(id).is_some_and(|r| r.is_live());
    let makers: Vec<JobId> = rooms.planning.room().for_whom(id.into()).collect();
    let mut left = 0;
    for maker in makers {
        let Some((row, over)) = makes_room_still(rooms, maker, id.into()) else {
            continue;
        };
        let unheard = rooms.planning.room().is_unheard(maker);
        if !needed && !row.told && !over {
            spare(rooms, turn, maker, id.into());
            continue;
        }
        left += 1;
        if !over && (!row.told || unheard) {
            tell(rooms, turn, maker);
        }
    }
    if left == 0 {
        rooms.planning.room_mut().is_settled(id.into());
    }
}

/// It would start if it had nodes: it waits for nothing that others, or it itself, may never give.
fn waits_for_its_turn(job: &Job) -> bool {
    match job.phase() {
        Phase::Waiting(reason) => {
            matches!(reason, None | Some(WaitReason::Fresh | WaitReason::Directory))
        }
        Phase::Run(_) => false,
    }
}

/// Nobody makes room for the job any more, or it needs none.
fn settle_one(rooms: &mut Rooms, turn: &mut Turn, (id, needed): (JobId, bool), left: usize) {
    let still = rooms.planning.room().for_whom(id.into()).all(|maker| {
        let run = rooms.jobs.get(&maker).and_then(Job::run);
        run.is_some_and(|run| run.gives_way().is_none())
    });
    let has_job = rooms
        .jobs
        .get(&id)
        .is_some_and(|job| job.room_is_made().is_some());
    let in_line = rooms.planning.cluster().is_waiting(id);
    if needed && in_line && left == 0 && rooms.planning.room().have_gone(id) {
        // It keeps its place before all others, for it has cost them their work.
        if rooms.planning.room_mut().is_short_of_room(id) {
            let since = rooms.jobs.get(&id).and_then(Job::room_is_made);
            stand_ahead(rooms, turn, id, since);
            rooms.planning.room_mut().in_vain(id, turn.now());
        }
    } else if needed && in_line && (left == 0 || still) {
        // Nobody has gone, and it could not start: others may be asked.
        let makers: Vec<JobId> = rooms.planning.room().for_whom(id.into()).collect();
        for maker in makers {
            goes_on(rooms, turn, maker, id);
        }
        rooms.planning.room_mut().is_settled(id.into());
        stand_ahead(rooms, turn, id, None);
        rooms.planning.room_mut().in_vain(id, turn.now());
    } else if !needed {
        if has_job {
            stand_ahead(rooms, turn, id, None);
        }
        if left == 0 {
            rooms.planning.room_mut().is_settled(id.into());
        }
    }
}

/// The one for whom it stands still is over.
fn goes_on(rooms: &mut Rooms, turn: &mut Turn, maker: JobId, by: JobId) {
    rooms.planning.room_mut().makes_none(maker, by.into());
    if let Some(run) = rooms.jobs.get_mut(&maker).and_then(Job::run_mut) {
        run.makes_room(None);
    }
    // Somebody else may have resumed it.
    let _ = resume_job(rooms, turn, maker, "controller");
    save_job(&rooms.machine, &mut rooms.jobs, turn, maker);
}

/// It need not make room after all, and was not told yet.
fn spare(rooms: &mut Rooms, turn: &mut Turn, maker: JobId, by: Preemptor) {
    let now = turn.now();
    rooms.planning.room_mut().makes_none(maker, by);
    if let Some(run) = rooms.jobs.get_mut(&maker).and_then(Job::run_mut) {
        run.makes_room(None);
    }
    ends_then(rooms, turn, maker);
    let detail = format!("{by} does not need its room any more");
    turn.happened(now, EventKind::Spared, "controller", EventObject::Job(maker), detail);
}
