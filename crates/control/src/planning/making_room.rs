//! Who of the waiting jobs may ask for room, which running ones could make it, and at what cost.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::jobs::dependencies::procedures::planner_job;
use crate::jobs::job::{Job, Place};
use crate::planning::Planning;
use crate::planning::suspension::held_if_suspended;
use crate::policy::Policy;
use crate::policy::preempt::{Side, Way, exempt, is_above, may_preempt, way, within};
use crate::queues::Queues;
use crate::queues::order;
use crate::record::{Preemptor, PromisedRow};
use crate::rooms::Rooms;
use cosy_model::policy::{NORMAL, PreemptMode};
use cosy_model::{JobId, Span, Time};
use cosy_sched::{Candidate, OrderKey, WaitingJob};
use std::collections::BTreeMap;

/// What is known of a job where it is compared with others.
pub(crate) fn side<'a>(queues: &'a Queues, policy: &'a Policy, job: &Job) -> Option<Side<'a>> {
    let Place::Good { queue, .. } = &job.submitted().place else {
        return None;
    };
    let qos = job.spec().qos.as_deref().unwrap_or(NORMAL);
    let queue = queues.get(*queue).spec();
    Some(Side {
        qos: policy.qos(qos),
        queue_qos: queue
            .admits
            .qos
            .as_deref()
            .and_then(|name| policy.qos(name)),
        queue,
    })
}

/// Notes whether a job that stands in the cluster's line now may ask for room.
pub(crate) fn may_ask_for_room(
    config: &ClusterConfig,
    queues: &Queues,
    policy: &Policy,
    planning: &mut Planning,
    (job, key): (&Job, OrderKey),
    now: Time,
) {
    if !config.preemption.is_on() {
        return;
    }
    let lowest = config.queues.iter().map(|queue| queue.priority).min();
    let side = side(queues, policy, job).filter(|_| job.spec().reservation.is_none());
    let may = side.is_some_and(|s| may_preempt(&config.preemption, s, lowest.unwrap_or(0)));
    planning.room_mut().stands(key, may, now);
}

/// Who makes room for whom, of the rows: before waiting jobs are entered into planners. Who was told
/// goes also when the other one has started meanwhile, as without a restart.
pub(crate) fn room_is_made_again(jobs: &mut Jobs, planning: &mut Planning) {
    let preempted = jobs.all().filter_map(|job| {
        let run = job.run()?;
        let row = run.preempted()?;
        let ends = run.gives_way().is_some();
        let forced = ends && run.killed().is_none() && !run.is_over();
        Some((job.id(), row, forced))
    });
    for (id, row, forced) in preempted.collect::<Vec<_>>() {
        let room = planning.room_mut();
        room.makes_room(id, row.by, forced.then_some(row.until));
        if forced {
            room.may_not_have_heard(id);
        }
        let Preemptor::Job(by) = row.by else {
            continue;
        };
        let job = jobs.get_mut(&by).filter(|job| job.is_waiting());
        if let Some(job) = job {
            let first = job.room_is_made().map_or(row.at, |at| at.min(row.at));
            job.makes_others_go(Some(first));
        }
    }
    let ahead = jobs
        .all()
        .filter(|job| job.is_waiting() && job.room_is_made().is_some());
    for id in ahead.map(Job::id).collect::<Vec<_>>() {
        planning.room_mut().room_was_made_for(id);
    }
}

/// A question to the planner: for whom, whom it must not push back, and who may be made to go.
pub(crate) struct RoomQuestion {
    pub job: WaitingJob,
    pub before: Vec<JobId>,
    pub candidates: Vec<Candidate>,
    /// How each of them would make room.
    pub ways: BTreeMap<JobId, Way>,
}

/// The question for a job that waits in the cluster's line.
pub(crate) fn question(rooms: &Rooms, now: Time, id: JobId) -> Option<RoomQuestion> {
    let (queues, policy) = (&rooms.queues, &rooms.policy);
    let job = rooms.jobs.get(&id)?;
    let own = side(queues, policy, job)?;
    let planner = rooms.planning.cluster();
    let waiting = planner.waiting(id)?;
    let (mut candidates, mut ways) = (Vec::new(), BTreeMap::new());
    for (running, _) in planner.running_jobs() {
        let Some(victim) = rooms.jobs.get(&running) else {
            continue;
        };
        let first =
            || within(&rooms.config.preemption, own) && stands_before(rooms, &waiting.key, victim);
        let way = way_of(rooms, now, (own, &first), victim);
        if let Some(way) = way {
            let keeps = way.mode == PreemptMode::Suspend;
            candidates.push(Candidate {
                job: running,
                cost: lost_work(victim, now),
                since: victim.run().and_then(|run| run.started()).unwrap_or(now),
                keeps: keeps.then(|| held_if_suspended(victim)),
            });
            ways.insert(running, way);
        }
    }
    let before = planner.heads_of(waiting.queue).into_iter().filter(|head| {
        let other = rooms.jobs.get(&head.key.job);
        let other = other.and_then(|other| side(queues, policy, other));
        let above =
            other.is_some_and(|other| is_above(&rooms.config.preemption, own, other, false));
        head.key < waiting.key && (head.key.ahead.is_some() || !above)
    });
    let grace = ways.values().map(|way| way.grace).max();
    let mut asked = waiting.clone();
    asked.limit = asked.limit + grace.unwrap_or(Span::ZERO);
    Some(RoomQuestion {
        before: before.map(|head| head.key.job).collect(),
        job: asked,
        candidates,
        ways,
    })
}

/// How a running job may be made to make room, if it may.
fn way_of(
    rooms: &Rooms,
    now: Time,
    (own, first): (Side<'_>, &dyn Fn() -> bool),
    victim: &Job,
) -> Option<Way> {
    let config = &rooms.config.preemption;
    let run = victim.run()?;
    let started = run.started()?;
    let free = !run.is_over()
        && run.killed().is_none()
        && run.preempted().is_none()
        && !run.is_doubtful()
        && victim.spec().reservation.is_none()
        && !rooms.planning.is_inside(victim.id());
    let side = side(&rooms.queues, &rooms.policy, victim)?;
    let interactive = config.of_queue(&side.queue.name).interactive;
    if !free || (victim.spec().attended && !interactive) {
        return None;
    }
    if now < started + exempt(config, side) || is_too_important(rooms, victim) {
        return None;
    }
    let way = as_it_can(victim, way(config, own, side, first())?);
    let suspends = way.mode == PreemptMode::Suspend;
    let stands_still = run.suspended().is_some() || rooms.machine.lacking(run, "suspend").is_some();
    // One that only stood still would hold what a reservation was promised.
    let stays = stands_still || run.promised().is_some();
    (!suspends || !stays).then_some(way)
}

/// One that may not run again is ended instead.
pub(crate) fn as_it_can(victim: &Job, way: Way) -> Way {
    match way.mode {
        PreemptMode::Requeue if !may_be_requeued(victim) => Way {
            mode: PreemptMode::Cancel,
            ..way
        },
        _ => way,
    }
}

/// Commands that stay with a job are told of this attempt alone.
fn may_be_requeued(victim: &Job) -> bool {
    victim.submitted().may_run_again() && !victim.spec().attended
}

fn is_too_important(rooms: &Rooms, victim: &Job) -> bool {
    let most = rooms.config.preemption.exempt_priority;
    let told = order::priority(victim.spec(), victim.submitted().base);
    most.is_some_and(|most| told > most)
}

/// True when a job with that key stands before the other by the order of service.
fn stands_before(rooms: &Rooms, key: &OrderKey, victim: &Job) -> bool {
    let other = planner_job(rooms, victim);
    other.is_some_and(|other| *key < other.key)
}

/// What is lost when a running job goes: core-seconds since its start, or since its work was safe.
pub(crate) fn lost_work(job: &Job, now: Time) -> u64 {
    let Some(run) = job.run() else { return 0 };
    let cores = run
        .parts()
        .iter()
        .map(|part| u64::from(part.amounts().cores));
    let elapsed = run.elapsed(now);
    let since = run
        .checkpoint()
        .map_or(elapsed, |safe| now.since(safe).min(elapsed));
    let secs = u64::try_from(since.secs()).unwrap_or(0);
    cores.sum::<u64>().saturating_mul(secs)
}

/// How a running job may be made to leave for a reservation of that side, if it may, and from when
/// on. One that would only be stopped keeps its memory and its licences, so it does not leave.
pub(crate) fn leaves_for(
    rooms: &Rooms,
    now: Time,
    own: Side<'_>,
    victim: &Job,
) -> Option<(Way, Time)> {
    // A reservation stands nowhere in the order of service.
    let way = way_of(rooms, Time::FAR, (own, &|| false), victim)?;
    let from = preemptible_from(rooms, victim)?.max(now);
    (way.mode != PreemptMode::Suspend).then_some((way, from))
}

/// Since when a running job may be preempted, or from when on; `None` where nobody may preempt it.
pub(crate) fn preemptible_from(rooms: &Rooms, job: &Job) -> Option<Time> {
    let config = &rooms.config.preemption;
    let started = job.run().filter(|run| !run.is_over())?.started()?;
    let side = side(&rooms.queues, &rooms.policy, job)?;
    (config.is_on() && job.spec().reservation.is_none()).then(|| started + exempt(config, side))
}

/// Sentences about who makes room for a job, and for whom it makes room or might have to.
pub(crate) fn room_lines(rooms: &Rooms, now: Time, job: &Job) -> Vec<String> {
    let room = rooms.planning.room();
    let mut lines = Vec::new();
    if job.is_waiting() && job.room_is_made().is_some() {
        let makers = room.for_whom(job.id().into());
        let runs = makers.filter_map(|id| Some((id, rooms.jobs.get(&id)?.run()?.preempted()?)));
        let runs: Vec<_> = runs.collect();
        let last = runs.iter().map(|(_, row)| row.until).max();
        let names: Vec<String> = runs.iter().map(|(id, _)| id.to_string()).collect();
        if let Some(last) = last {
            let within = last.since(now).max(Span::ZERO);
            lines.push(format!("jobs make room for it, within {within}: {}", names.join(", ")));
        }
    }
    if let Some(moved) = job.moved().filter(|_| job.is_waiting()) {
        let (by, span) = (moved.by, moved.to.since(moved.from));
        lines.push(format!(
            "its guaranteed start is later by {span}, since room was made for job {by}, which comes first"
        ));
    }
    lines.extend(own_lines(rooms, now, job));
    lines
}

fn own_lines(rooms: &Rooms, now: Time, job: &Job) -> Option<String> {
    let run = job.run().filter(|run| !run.is_over())?;
    if let Some(row) = run.preempted() {
        let left = row.until.since(now).max(Span::ZERO);
        let by = row.by;
        return Some(match row.mode {
            PreemptMode::Suspend => {
                format!("it stands still until {by} is over, which comes first")
            }
            PreemptMode::Requeue => {
                format!("it makes room for {by}: within {left} it goes back into the queue")
            }
            PreemptMode::Cancel | PreemptMode::Off => {
                format!("it makes room for {by}: it ends within {left}")
            }
        });
    }
    if let Some(row) = run.promised() {
        return Some(promised_line(now, &row));
    }
    let from = preemptible_from(rooms, job)?;
    let asking = rooms.planning.room().first_asking();
    let over = asking.filter_map(|id| {
        let other = rooms.jobs.get(&id)?;
        let own = side(&rooms.queues, &rooms.policy, other)?;
        let key = rooms.planning.cluster().waiting(id)?.key;
        let first = || within(&rooms.config.preemption, own) && stands_before(rooms, &key, job);
        way_of(rooms, now.max(from), (own, &first), job)
    });
    let ways: Vec<Way> = over.collect();
    let mode = ways.first()?.mode;
    let what = match mode {
        PreemptMode::Requeue => "goes back into the queue",
        PreemptMode::Suspend => "is suspended",
        PreemptMode::Cancel | PreemptMode::Off => "is cancelled",
    };
    let when = match from > now {
        true => format!("in {} ", from.since(now)),
        false => String::new(),
    };
    let lost = lost_work(job, now);
    Some(format!(
        "more important jobs that wait and may take its nodes {when}: {}; it {what} then, and loses {lost} core-seconds ('cosy job checkpointed' tells a safe point)",
        ways.len()
    ).replace("  ", " ").replace(" :", ":"))
}

/// What a job is told that is to leave before a reservation begins.
fn promised_line(now: Time, row: &PromisedRow) -> String {
    let left = row.at.since(now).max(Span::ZERO);
    let what = match row.mode {
        PreemptMode::Requeue => "goes back into the queue",
        PreemptMode::Cancel | PreemptMode::Suspend | PreemptMode::Off => "ends",
    };
    format!(
        "reservation {} has its nodes: if they are still needed, it is told in {left} and {what}",
        row.reservation
    )
}
