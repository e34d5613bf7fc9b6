//! Running jobs that would have to leave for a reservation, where its queue's rules let it count
//! their nodes as free (`preempt = true`).
//!
//! Who may be made to leave is decided as for jobs ([`crate::policy::preempt`]): by the queue, and by
//! the quality of service that a plain job of its owner would have there. One that would only be
//! stopped does not count, for it keeps memory and licences.

use crate::config::ClusterConfig;
use crate::conversations::visible::may_see_of;
use crate::event::Caller;
use crate::jobs::job::Job;
use crate::planning::making_room::{leaves_for, side};
use crate::policy::preempt::{Side, Way};
use crate::record::MakerRow;
use crate::reservations::ask::ReservationRequest;
use crate::reservations::ask::procedures::policy_of;
use crate::rooms::Rooms;
use cosy_model::policy::NORMAL;
use cosy_model::reservation::RoomMaker;
use cosy_model::{JobId, Span, Time};
use cosy_sched::Leaver;

/// How long a job may take to go, once it is told.
pub(crate) fn grace_of(config: &ClusterConfig, way: Way) -> Span {
    way.grace.max(config.policy.grace)
}

/// By when a job has ended that leaves for a reservation with that start.
pub(crate) fn ended_by(config: &ClusterConfig, start: Time) -> Time {
    start - config.policy.clearance
}

/// Those of these jobs that may be made to leave for what is asked, each with how.
fn ways<'a>(
    rooms: &'a Rooms,
    now: Time,
    wish: &ReservationRequest,
    asked: impl Iterator<Item = JobId>,
) -> Vec<(&'a Job, Way, Time)> {
    let config = &rooms.config;
    if !config.preemption.is_on() || !policy_of(config, &rooms.queues, wish).preempt {
        return Vec::new();
    }
    let own = Side {
        qos: rooms
            .policy
            .qos(wish.stands_as.qos.as_deref().unwrap_or(NORMAL)),
        queue_qos: None,
        queue: rooms.queues.get(wish.queue).spec(),
    };
    let jobs = asked.filter_map(|id| rooms.jobs.get(&id));
    jobs.filter_map(|job| leaves_for(rooms, now, own, job).map(|(way, from)| (job, way, from)))
        .collect()
}

/// Starts are looked for so much behind the first that could be: it is booked a little later.
pub(crate) const AHEAD: Span = Span::from_secs(5);

/// The same as the planner looks at them, when they are told after `ahead` at the earliest.
pub(crate) fn leavers(
    rooms: &Rooms,
    now: Time,
    wish: &ReservationRequest,
    ahead: Span,
) -> Vec<Leaver> {
    let running = rooms.planning.cluster().running_jobs();
    let all = ways(rooms, now + ahead, wish, running.map(|(id, _)| id)).into_iter();
    all.filter_map(|(job, way, from)| leaver(&rooms.config, job, way, from))
        .collect()
}

/// The same of those that were chosen for a slot.
pub(crate) fn leavers_of(
    rooms: &Rooms,
    now: Time,
    wish: &ReservationRequest,
    leave: &[JobId],
) -> Vec<Leaver> {
    let all = ways(rooms, now, wish, leave.iter().copied()).into_iter();
    all.filter_map(|(job, way, from)| leaver(&rooms.config, job, way, from))
        .collect()
}

fn leaver(config: &ClusterConfig, job: &Job, way: Way, from: Time) -> Option<Leaver> {
    let run = job.run()?;
    let cores = run
        .parts()
        .iter()
        .map(|part| u64::from(part.amounts().cores));
    let worked = run.started()? + run.suspended_for();
    Some(Leaver {
        job: job.id(),
        cores: cores.sum(),
        unsafe_from: run.checkpoint().map_or(worked, |safe| safe.max(worked)),
        since: run.started()?,
        gone_from: from + grace_of(config, way) + config.policy.clearance,
    })
}

/// The same of one that was chosen before.
pub(crate) fn chosen_leaver(
    config: &ClusterConfig,
    job: &Job,
    way: Way,
    now: Time,
) -> Option<Leaver> {
    let known = leaver(config, job, way, now)?;
    Some(Leaver {
        gone_from: Time(i64::MIN),
        ..known
    })
}

/// What is written, and told, of those that leave for a slot.
pub(crate) fn makers(
    rooms: &Rooms,
    now: Time,
    wish: &ReservationRequest,
    (leave, start): (&[JobId], Time),
) -> Vec<(MakerRow, Way)> {
    // Of a quote with many starts: all that run are not looked at for each.
    let chosen = ways(rooms, now, wish, leave.iter().copied()).into_iter();
    let maker = |(job, way, from): (&Job, Way, Time)| {
        Some((maker_row(rooms, job, (way, from), start)?, way))
    };
    let mut makers: Vec<(MakerRow, Way)> = chosen.filter_map(maker).collect();
    makers.sort_by_key(|(row, _)| row.maker.job);
    makers
}

/// The same of one of them, which may be told from then on.
pub(crate) fn maker_row(
    rooms: &Rooms,
    job: &Job,
    (way, from): (Way, Time),
    start: Time,
) -> Option<MakerRow> {
    let config = &rooms.config;
    let maker = RoomMaker {
        job: job.id(),
        user: job.submitted().user.clone(),
        queue: side(&rooms.queues, &rooms.policy, job)?.queue.name.clone(),
        mode: way.mode,
        lost_core_secs: leaver(config, job, way, from)?.loses(start),
        told: ended_by(config, start) - grace_of(config, way),
    };
    Some(MakerRow {
        maker,
        uid: job.submitted().uid,
        told: false,
    })
}

/// What a user is told of those that make room.
pub(crate) fn told_makers(
    config: &ClusterConfig,
    caller: &Caller,
    makers: &[MakerRow],
) -> Vec<RoomMaker> {
    let told = |row: &MakerRow| {
        let mut maker = row.maker.clone();
        if !may_see_of(config, caller, row.uid) {
            maker.user.clear();
        }
        maker
    };
    makers.iter().map(told).collect()
}
