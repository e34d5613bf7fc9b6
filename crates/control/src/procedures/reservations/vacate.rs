//! Running jobs leave for a reservation that counts on it.
//!
//! ```text
//!   booked ──▶ promised: the planner counts on the job's end before the start
//!                 │ grace before the start
//!                 ├──▶ told, as any job that makes room (`procedures/preemption.rs`)
//!                 └──▶ spared: the reservation is over, or does not need its nodes any more
//! ```
//!
//! What always holds: a job that is promised has a reservation which is live and counts on it. Other
//! reservations may have been accepted behind the end that was promised: a job that is spared by one
//! of them leaves for the next that needs its nodes.

use crate::jobs::job::Job;
use crate::planning::making_room::as_it_can;
use crate::policy::preempt::Way;
use crate::procedures::preemption::{ends_then, gives_way};
use crate::record::{MakerRow, PromisedRow};
use crate::reservations::ask::procedures::{PlainJob, inquiry_for, plain_spec, stands_as};
use crate::reservations::inside::clearance::with_clearance_after;
use crate::reservations::procedures::touch_reservation;
use crate::reservations::repair::demand_of;
use crate::reservations::vacate::{chosen_leaver, ended_by, grace_of, maker_row};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::{AccessLevel, EventKind, EventObject, JobId, ReservationId, Span, Time};
use cosy_sched::Vacated;

/// These leave before a reservation begins, which is not in the planner yet.
pub(crate) fn promise(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: ReservationId,
    start: Time,
    makers: &[(MakerRow, Way)],
) {
    for (row, way) in makers {
        let job = row.maker.job;
        let old = rooms.jobs.get(&job).and_then(Job::run);
        let old = old.and_then(|run| run.promised());
        promise_one(rooms, turn, job, (id, start), *way);
        if let Some(old) = old {
            counts_on_no_more(rooms, old.reservation, job);
        }
    }
}

/// How a job was promised to leave.
const fn way_of(row: &PromisedRow) -> Way {
    Way {
        mode: row.mode,
        grace: row.grace,
    }
}

fn promise_one(
    rooms: &mut Rooms,
    turn: &mut Turn,
    job: JobId,
    (reservation, start): (ReservationId, Time),
    way: Way,
) {
    let until = ended_by(&rooms.config, start);
    let row = PromisedRow {
        reservation,
        at: until - grace_of(&rooms.config, way),
        until,
        mode: way.mode,
        grace: way.grace,
    };
    if let Some(run) = rooms.jobs.get_mut(&job).and_then(Job::run_mut) {
        run.is_promised(Some(row));
    }
    ends_then(rooms, turn, job);
}

fn counts_on_no_more(rooms: &mut Rooms, id: ReservationId, job: JobId) {
    if let Some(reservation) = rooms.reservations.get_mut(id) {
        reservation.counts_on_no_more(job);
        touch_reservation(&rooms.config, &mut rooms.reservations, id);
    }
}

/// What a job was promised to do for a reservation, if it was.
fn promised_to(rooms: &Rooms, job: JobId, id: ReservationId) -> Option<PromisedRow> {
    let run = rooms.jobs.get(&job)?.run().filter(|run| !run.is_over())?;
    run.promised().filter(|row| row.reservation == id)
}

/// Those who do not go for it yet and are still there, with those who go for another reason.
fn pending(rooms: &Rooms, id: ReservationId) -> Vec<(JobId, PromisedRow)> {
    let reservation = rooms.reservations.get(id);
    let makers = reservation.into_iter().flat_map(|r| &r.row().makers);
    makers
        .map(|row| row.maker.job)
        .filter_map(|job| Some((job, promised_to(rooms, job, id)?)))
        .collect()
}

/// The reservation is over, or has other nodes or another start: whose nodes it does not need any
/// more is spared, unless another one needs them.
pub(crate) fn look_at_promises(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    let all = pending(rooms, id);
    look_at(rooms, turn, id, &all);
}

fn look_at(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: ReservationId,
    promises: &[(JobId, PromisedRow)],
) {
    for (job, row) in promises.iter().copied() {
        let next = first_in_the_way(rooms, turn.now(), job);
        let next = next.and_then(|next| Some((next, rooms.reservations.get(next)?.row().start)));
        let until = |start: Time| ended_by(&rooms.config, start);
        let run = rooms.jobs.get(&job).and_then(Job::run);
        let told = run.is_some_and(|run| run.preempted().is_some());
        if next.is_some_and(|(next, start)| next == id && (told || row.until == until(start))) {
            continue;
        }
        counts_on_no_more(rooms, id, job);
        match next {
            Some((next, start)) => leaves_for_another(rooms, turn, (job, &row), (next, start)),
            None => spare(rooms, turn, job, id),
        }
    }
}

fn spare(rooms: &mut Rooms, turn: &mut Turn, job: JobId, id: ReservationId) {
    let now = turn.now();
    if let Some(run) = rooms.jobs.get_mut(&job).and_then(Job::run_mut) {
        run.is_promised(None);
    }
    ends_then(rooms, turn, job);
    let run = rooms.jobs.get(&job).and_then(Job::run);
    if run.is_none_or(|run| run.preempted().is_some() || run.killed().is_some()) {
        return; // it goes all the same
    }
    let detail = format!("reservation {id} does not need its room any more");
    turn.happened(now, EventKind::Spared, "controller", EventObject::Job(job), detail);
}

fn leaves_for_another(
    rooms: &mut Rooms,
    turn: &mut Turn,
    (job, row): (JobId, &PromisedRow),
    (next, start): (ReservationId, Time),
) {
    let way = way_of(row);
    let Some(maker) = rooms
        .jobs
        .get(&job)
        .and_then(|job| maker_row(rooms, job, (way, turn.now()), start))
    else {
        return spare(rooms, turn, job, row.reservation); // its queue is no more
    };
    if let Some(reservation) = rooms.reservations.get_mut(next) {
        reservation.is_held_until(turn.now().max(maker.maker.told));
        reservation.counts_on(maker);
    }
    promise_one(rooms, turn, job, (next, start), way);
    touch_reservation(&rooms.config, &mut rooms.reservations, next);
}

/// The first reservation that is in the way of a job's own end.
fn first_in_the_way(rooms: &Rooms, now: Time, id: JobId) -> Option<ReservationId> {
    let job = rooms.jobs.get(&id)?;
    let (end, whole) = (own_end(rooms, id)?, job.holds_whole_nodes());
    let planner = rooms.planning.cluster();
    if planner.could_go_on(id, now, end, whole) {
        return None;
    }
    let ahead = rooms
        .reservations
        .live()
        .map(|r| (r.row().start, r.row().id));
    let mut ahead: Vec<(Time, ReservationId)> =
        ahead.filter(|(at, _)| now < *at && *at < end).collect();
    ahead.sort_unstable();
    let free =
        |(start, _): &(Time, ReservationId)| planner.could_go_on(id, now, *start + Span(1), whole);
    let at = ahead.partition_point(free);
    ahead.get(at).map(|(_, id)| *id)
}

/// When its nodes would be clear of a job if no reservation needed them.
fn own_end(rooms: &Rooms, id: JobId) -> Option<Time> {
    let run = rooms.jobs.get(&id)?.run()?;
    Some(with_clearance_after(&rooms.config, run.end_unless_promised()))
}

/// Those are told whose time has come, if the reservation still needs them.
pub(crate) fn vacate_due(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    let now = turn.now();
    let due = rooms.reservations.get(id).and_then(|r| r.next_told());
    if due.is_none_or(|at| now < at) {
        return;
    }
    spare_the_superfluous(rooms, turn, id);
    let mut names = Vec::new();
    for (job, row) in pending(rooms, id)
        .into_iter()
        .filter(|(_, row)| row.at <= now)
    {
        let Some(victim) = rooms.jobs.get(&job) else {
            continue;
        };
        let way = as_it_can(victim, way_of(&row));
        let gone = victim.run().and_then(|run| run.preempted());
        if let Some(other) = gone.filter(|other| !other.told) {
            rooms.planning.room_mut().makes_none(job, other.by);
        }
        let goes = gone.is_some_and(|other| other.told);
        let killed = victim.run().is_some_and(|run| run.killed().is_some());
        if let Some(reservation) = rooms.reservations.get_mut(id) {
            reservation.has_told(job);
        }
        if goes || killed {
            continue; // for somebody else, or its user has ended it; its promise stays till then
        }
        names.push(format!("{job} ({})", way.mode.word()));
        gives_way(rooms, turn, job, id.into(), way);
    }
    if let Some(reservation) = rooms.reservations.get_mut(id) {
        reservation.forget_untold(now);
    }
    touch_reservation(&rooms.config, &mut rooms.reservations, id);
    if !names.is_empty() {
        let detail = format!("of {}", names.join(", "));
        let object = EventObject::Reservation(id);
        turn.happened(now, EventKind::MakesRoom, "controller", object, detail);
    }
}

/// Others have ended before their time, or nodes have come: fewer may have to leave.
fn spare_the_superfluous(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    let all = pending(rooms, id);
    let Some(Vacated { shares, leave }) = needed_now(rooms, turn.now(), id, &all) else {
        return;
    };
    if leave.len() >= all.len() {
        return;
    }
    if let Some(reservation) = rooms.reservations.get_mut(id) {
        reservation.takes(shares);
        let block = reservation.block(rooms.planning.pools());
        rooms.planning.cluster_mut().add_block(block);
    }
    let superfluous = all.iter().filter(|(job, _)| !leave.contains(job));
    let superfluous: Vec<(JobId, PromisedRow)> = superfluous.copied().collect();
    look_at(rooms, turn, id, &superfluous);
}

/// Who of these has to leave as things are now.
fn needed_now(
    rooms: &Rooms,
    now: Time,
    id: ReservationId,
    all: &[(JobId, PromisedRow)],
) -> Option<Vacated> {
    let reservation = rooms.reservations.get(id)?;
    let (row, shares) = (reservation.row(), reservation.shares());
    let (queue, demand) = demand_of(rooms, reservation)?;
    let holds = rooms.planning.pools().of_licenses(&row.ask.licenses);
    let start = row.start.max(now);
    let asked = (row.ask.account.as_deref(), None);
    let plain = PlainJob {
        spec: plain_spec(),
        stands_as: &stands_as(rooms, (&row.user, false), asked, queue),
        queue,
        level: AccessLevel::Allow,
        demand: &demand,
        holds: &holds,
        length: row.end.since(start),
    };
    let job = inquiry_for(rooms, now, plain).job;
    let own = |(job, _): &(JobId, PromisedRow)| Some((*job, own_end(rooms, *job)?));
    let own: Vec<(JobId, Time)> = all.iter().filter_map(own).collect();
    let leaver = |(job, row): &(JobId, PromisedRow)| {
        chosen_leaver(&rooms.config, rooms.jobs.get(job)?, way_of(row), now)
    };
    let leavers: Vec<_> = all.iter().filter_map(leaver).collect();
    let planner = rooms.planning.cluster();
    planner.place_vacated_anew((id, shares), now, &job, start, &own, &leavers)
}
