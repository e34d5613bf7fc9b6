//! Waiting jobs are looked at again: may they stand in the planner's queue now?

use crate::jobs::blocker::{barred_by_policy, blocker};
use crate::jobs::dependencies::Waiter;
use crate::jobs::dependencies::procedures::{hopeless, next_look, planner_job};
use crate::jobs::end::end_hopeless;
use crate::jobs::job::{Job, Phase, Place, TaskOutcome};
use crate::jobs::limits::ageing::look_at_age;
use crate::jobs::limits::guarantee::threshold;
use crate::jobs::limits::procedures::{stand_aside, stands_in_line};
use crate::jobs::losses::procedures::forgive;
use crate::jobs::reviews::procedures::{next_within, still_wait};
use crate::jobs::reviews::{AT_ONCE, Again, REFILL, STEPS_OF_END, Steps, weight};
use crate::jobs::save::save_job;
use crate::jobs::switches::first_until;
use crate::jobs::switches::procedures::settle_for_more;
use crate::planning::making_room::may_ask_for_room;
use crate::planning::rebuild::join_queues;
use crate::reservations::inside::procedures::{is_queued, planner_of};
use crate::rooms::Rooms;
use crate::set_aside::Object;
use crate::turn::Turn;
use cosy_model::{JobId, ReservationId, Time, Uid, WaitReason};

/// Looks at a waiting job again: puts it into the planner's queue or takes it out.
pub(crate) fn review(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let now = turn.now();
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    turn.looked(1 + job.spec().dependencies.len() as u64);
    if !job.is_waiting() {
        return;
    }
    forgive(rooms, turn, id);
    settle_for_more(rooms, turn, id);
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    if let Some((cause, note)) = hopeless(&rooms.config, &rooms.jobs, &rooms.aside, now, job) {
        return end_hopeless(rooms, turn, id, cause, note);
    }
    let reason = blocker(rooms, now, job);
    let next_look = next_look(&rooms.config, &rooms.jobs, &rooms.aside, now, job);
    let throttled = matches!(reason, Some(WaitReason::ArrayLimit | WaitReason::Priority));
    let eligible = is_eligible(reason.as_ref()).then(|| job.eligible().unwrap_or(now));
    let settles = settles_at(rooms, job, eligible);
    let base = job.submitted().base;
    let at = job.member().map_or(0, |member| member.at as usize);
    let queued = is_queued(&rooms.planning, &rooms.reservations, id);
    let enqueue = reason.is_none() && !queued;
    let within = job.spec().reservation;
    if enqueue && job.spec().has_several_components() {
        join_queues(rooms, turn, id);
    }
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    let uid = job.submitted().uid;
    if reason == Some(WaitReason::Directory) {
        rooms.conversations.ask_user(turn, uid);
    }
    let begins_to_wait = settles.is_some() && job.eligible().is_none();
    rooms.jobs.was_reviewed(id, eligible, reason.clone());
    remember_waiting(rooms, turn, id, begins_to_wait);
    look_at_age(rooms, turn, id);
    note_score(rooms, id, reason.as_ref());
    let job = rooms.jobs.get(&id).filter(|_| enqueue);
    let waiting = job.map(|job| planner_job(rooms, job));
    if let Some(at) = next_look.into_iter().chain(settles).min() {
        rooms.jobs.begins_at(at, id);
    }
    stand_aside(rooms, now, id, reason.as_ref());
    if let Some(group) = rooms.jobs.group_mut(&base) {
        group.throttle(at, throttled);
    }
    if let Some(waiting) = waiting.flatten() {
        if let Some(reservation) = within {
            rooms.planning.goes_inside(id, reservation);
        }
        stands_in_line(rooms, id);
        if let Some(job) = rooms.jobs.get(&id) {
            let (config, queues, policy) = (&rooms.config, &rooms.queues, &rooms.policy);
            let at = (job, waiting.key);
            may_ask_for_room(config, queues, policy, &mut rooms.planning, at, now);
        }
        planner_of(&mut rooms.planning, &mut rooms.reservations, id).enqueue(waiting);
        rooms.jobs.count_queued(turn, base, true);
    } else if reason.is_some() && queued {
        planner_of(&mut rooms.planning, &mut rooms.reservations, id).dequeue(id);
        rooms.planning.left_inside(id);
        rooms.jobs.count_queued(turn, base, false);
        refill_interactive(rooms, turn, id);
    }
}

/// When a job that could start since then settles for more switches than it asks for.
fn settles_at(rooms: &Rooms, job: &Job, eligible: Option<Time>) -> Option<Time> {
    let max_wait = rooms.config.policy.max_switch_wait;
    first_until(job, eligible?, max_wait).map(|(until, _)| until)
}

/// A job that begins to wait for few switches does not do so anew after a restart.
fn remember_waiting(rooms: &mut Rooms, turn: &mut Turn, id: JobId, begins: bool) {
    if begins {
        save_job(&rooms.machine, &mut rooms.jobs, turn, id);
    }
}

/// A job stands in a line by its score, or does not any more.
fn note_score(rooms: &mut Rooms, id: JobId, reason: Option<&WaitReason>) {
    let Some(job) = rooms
        .jobs
        .get(&id)
        .filter(|_| rooms.queues.scores().is_on())
    else {
        return;
    };
    let queue = match &job.submitted().place {
        Place::Good { queue, .. } => *queue,
        Place::Lost | Place::Beyond { .. } => return,
    };
    match reason {
        None => {
            let spec = rooms.queues.get(queue).spec().clone();
            let watched = threshold(&rooms.policy, job).is_some();
            rooms.queues.scores_mut().stands(&spec, job);
            if watched {
                rooms.queues.scores_mut().watch(id);
            }
        }
        Some(_) => rooms.queues.scores_mut().left(id),
    }
}

/// A job that waits for that alone has begun to wait for its turn.
const fn is_eligible(reason: Option<&WaitReason>) -> bool {
    matches!(
        reason,
        None | Some(
            WaitReason::ArrayLimit
                | WaitReason::Priority
                | WaitReason::InteractiveLimit
                | WaitReason::Directory
                | WaitReason::Limit(_)
                | WaitReason::NeverFits
                | WaitReason::Fresh,
        )
    )
}

/// The same of a job out of the store: who is given up is so in the turns that follow.
pub(crate) fn review_loaded(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let now = turn.now();
    let job = rooms.jobs.get(&id).filter(|job| job.is_waiting());
    match job
        .is_some_and(|job| hopeless(&rooms.config, &rooms.jobs, &rooms.aside, now, job).is_some())
    {
        true => rooms.jobs.review_later(Again::Job(id)),
        false => review(rooms, turn, id),
    }
}

/// Looks at those in the line, as far as the steps go.
pub(crate) fn review_line(rooms: &mut Rooms, turn: &mut Turn, steps: &mut Steps) {
    let now = turn.now();
    loop {
        while let Some(uid) = rooms.jobs.reviews_mut().next_user() {
            refill_interactive_of(rooms, turn, uid);
        }
        if steps.are_over() {
            return;
        }
        if let Some((jobs, at)) = rooms.jobs.reviews_mut().take_under_way() {
            review_jobs(rooms, turn, jobs, at, steps);
            continue;
        }
        match rooms.jobs.reviews_mut().pop() {
            Some(Again::Job(id)) => review_step(rooms, turn, id, steps),
            Some(Again::Jobs(jobs)) if still_wait(&rooms.jobs, &rooms.aside, now, jobs) => {
                steps.take(1)
            }
            Some(Again::Jobs(jobs) | Again::Changed(jobs)) => {
                review_jobs(rooms, turn, jobs, 0, steps);
            }
            Some(Again::Rest(jobs, from)) => review_jobs(rooms, turn, jobs, from, steps),
            Some(Again::Within(id, after)) => review_within(rooms, turn, id, after, steps),
            Some(Again::Throttled(base)) => {
                let looked = refill_array(rooms, turn, base);
                steps.take(1 + looked);
            }
            None if review_standing(rooms, turn, steps) => {}
            None => return,
        }
    }
}

/// Compares what the next jobs ask for with the policy, after that has changed. False: nothing is
/// left to compare.
fn review_standing(rooms: &mut Rooms, turn: &mut Turn, steps: &mut Steps) -> bool {
    let Some(after) = rooms.jobs.reviews_mut().standings() else {
        return false;
    };
    steps.take(1);
    let next = rooms.jobs.next_body(after);
    let next = next.map(|next| (Waiter::of(next), barred_by_policy(rooms, next).is_some()));
    let jobs = next.map(|(jobs, _)| jobs);
    rooms.jobs.reviews_mut().standings_until(jobs);
    let Some((jobs, barred)) = next else {
        return true;
    };
    if rooms.jobs.bars(jobs, barred) || barred {
        review_jobs(rooms, turn, jobs, 0, steps);
    }
    true
}

pub(crate) fn review_step(rooms: &mut Rooms, turn: &mut Turn, id: JobId, steps: &mut Steps) {
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    steps.take(1 + job.spec().dependencies.len());
    let told = rooms.conversations.count_waits_for(id);
    rooms.aside.works_on(Object::Job(id));
    review(rooms, turn, id);
    if !rooms.jobs.contains_key(&id) {
        steps.take(STEPS_OF_END + told);
    }
}

/// Those jobs of a submission, from that place on.
pub(crate) fn review_jobs(
    rooms: &mut Rooms,
    turn: &mut Turn,
    jobs: Waiter,
    from: usize,
    steps: &mut Steps,
) {
    for at in from.. {
        let Some(group) = rooms.jobs.group(&jobs.base) else {
            return;
        };
        let Some(fate) = group.fates().get(at) else {
            return;
        };
        if *fate != TaskOutcome::Live {
            continue;
        }
        if steps.are_over() {
            rooms.jobs.reviews_mut().stop_at(jobs, at);
            return;
        }
        let id = group.id_at(at);
        let job = rooms.jobs.get(&id);
        match job.is_some_and(|job| job.submitted().body == jobs.body) {
            true => review_step(rooms, turn, id, steps),
            false => steps.take(1),
        }
    }
}

/// The jobs that are to run in a reservation, after these.
pub(crate) fn review_within(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: ReservationId,
    mut after: Option<Waiter>,
    steps: &mut Steps,
) {
    while let Some(jobs) = next_within(&rooms.planning, id, after) {
        if steps.are_over() {
            return rooms
                .jobs
                .reviews_mut()
                .push_first(Again::Within(id, after));
        }
        after = Some(jobs);
        steps.take(1);
        review_jobs(rooms, turn, jobs, 0, steps);
    }
}

/// Looks again at all waiting jobs that are to run in a reservation: the first at once, the
/// others in the turns that follow.
pub(crate) fn review_within_at_once(rooms: &mut Rooms, turn: &mut Turn, id: ReservationId) {
    let before = rooms.jobs.reviews_mut().take_under_way();
    review_within(rooms, turn, id, None, &mut Steps::at_once());
    let left = rooms.jobs.reviews_mut().replace_under_way(before);
    if let Some((jobs, at)) = left {
        rooms.jobs.reviews_mut().push_first(Again::Rest(jobs, at));
    }
}

/// Looks at the first of some jobs at once, and has the others looked at, with all that
/// ask for the same.
pub(crate) fn review_many(rooms: &mut Rooms, turn: &mut Turn, ids: &[JobId]) {
    let mut work = 0;
    let fits = |id: &JobId| {
        let job = rooms.jobs.get(id);
        work += job.map_or(1, |job| weight(job.spec()));
        work <= AT_ONCE
    };
    let (first, rest) = ids.split_at(ids.iter().copied().take_while(fits).count());
    first.iter().for_each(|id| review(rooms, turn, *id));
    let mut last = None;
    for id in rest {
        let jobs = rooms.jobs.get(id).map(|job| Waiter::of(job.submitted()));
        if let Some(jobs) = jobs.filter(|jobs| last.replace(*jobs) != Some(*jobs)) {
            rooms.jobs.review_later(Again::Rest(jobs, 0));
        }
    }
}

/// Lets as many tasks into the planner's queue as have become free, the rest of many a
/// little later. Tells at how many it has looked.
pub(crate) fn refill_array(rooms: &mut Rooms, turn: &mut Turn, base: JobId) -> usize {
    for looked in 0..REFILL {
        let Some(next) = rooms.jobs.next_throttled(base) else {
            return looked;
        };
        review(rooms, turn, next);
        if rooms.jobs.next_throttled(base) == Some(next) {
            return looked; // it is stuck
        }
    }
    rooms.jobs.review_later(Again::Throttled(base));
    REFILL
}

/// The job no longer counts: the user's next one may go.
pub(crate) fn refill_interactive(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    let attended = rooms.jobs.get(&id).filter(|j| j.spec().attended);
    if let Some(uid) = attended.map(|j| j.submitted().uid) {
        refill_interactive_of(rooms, turn, uid);
    }
}

pub(crate) fn refill_interactive_of(rooms: &mut Rooms, turn: &mut Turn, uid: Uid) {
    let limited = |id: &JobId| {
        rooms.jobs.get(id).is_some_and(|j| {
            matches!(&j.phase(), Phase::Waiting(Some(WaitReason::InteractiveLimit)))
        })
    };
    let mine = rooms.conversations.interactive_jobs_of(uid);
    let waiting: Vec<JobId> = mine.filter(limited).collect();
    for id in waiting {
        review(rooms, turn, id);
        let stuck = rooms.jobs.get(&id).is_some_and(|j| {
            matches!(&j.phase(), Phase::Waiting(Some(WaitReason::InteractiveLimit)))
        });
        if stuck {
            return;
        }
    }
}
