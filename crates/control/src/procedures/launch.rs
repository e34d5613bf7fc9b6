//! What the planner says is to start starts.

use crate::conversations::attending::tell_started;
use crate::conversations::mail::News;
use crate::conversations::mail::procedures::{mail_of, note_mailing};
use crate::jobs::limits::procedures::runs;
use crate::jobs::run::{Part, Run};
use crate::jobs::save::save_job;
use crate::machine::names::node_list;
use crate::planning::flexible_size::{leave_spare_gpus, widen};
use crate::planning::launch::procedures::{
    count_start, order_first_steps, take_share, tell_other_group,
};
use crate::planning::task_layout::dealt;
use crate::procedures::alternative_queues::start_elsewhere;
use crate::procedures::limits::turned_away;
use crate::procedures::reviews::{refill_interactive, review};
use crate::reservations::inside::clearance::limit_from;
use crate::reservations::inside::procedures::{note_start, planned_starts, planner_of};
use crate::rooms::Rooms;
use crate::set_aside::Object;
use crate::turn::Turn;
use cosy_model::{EventKind, EventObject, JobId};

/// Starts what the planner says can start, once the nodes are back after a start of the controller.
pub(crate) fn start_jobs(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    if rooms.machine.awaits_nodes(now) {
        return;
    }
    loop {
        let mut starts = planned_starts(&mut rooms.planning, &mut rooms.reservations, now);
        if starts.is_empty() {
            starts = start_elsewhere(rooms, turn);
        }
        if starts.is_empty() {
            return;
        }
        let (mut at, mut again) = (0, false);
        while let Some(id) = starts.get(at).copied() {
            rooms.aside.works_on(Object::Job(id));
            starts.extend(widen(rooms, now, id));
            again |= leave_spare_gpus(rooms, now, id);
            at += 1;
        }
        for id in &starts {
            rooms.aside.works_on(Object::Job(*id));
            again |= !start_job(rooms, turn, *id);
        }
        // Only now: the planner holds all of them as running already.
        for id in starts {
            rooms.aside.works_on(Object::Job(id));
            rooms.jobs.tell_of_start(id);
        }
        if !again {
            return;
        }
    }
}

/// False when the job could not be started after all and its share is free again.
pub(crate) fn start_job(rooms: &mut Rooms, turn: &mut Turn, id: JobId) -> bool {
    let now = turn.now();
    let Some(job) = rooms.jobs.get(&id) else {
        planner_of(&mut rooms.planning, &mut rooms.reservations, id).end(id);
        return false;
    };
    let (base, uid) = (job.submitted().base, job.submitted().uid);
    rooms.jobs.count_queued(turn, base, false);
    let Some(user) = rooms.conversations.fresh_user(&rooms.config, turn, uid) else {
        return wait_for_directory(rooms, turn, id);
    };
    let shares = planner_of(&mut rooms.planning, &mut rooms.reservations, id).held_by(id);
    let shares = dealt(&rooms.jobs, id, shares);
    if turned_away(rooms, turn, id, &shares) {
        return false;
    }
    let take = |share| take_share(&mut rooms.machine, &rooms.jobs, &rooms.planning, id, share);
    let parts: Vec<Part> = shares.into_iter().map(take).collect();
    let limit =
        limit_from(&rooms.config, &rooms.jobs, &rooms.planning, &rooms.reservations, now, id);
    rooms.jobs.take_licenses(id);
    let Some(job) = rooms.jobs.get_mut(&id) else {
        return false;
    };
    let mut run = Run::new(now, limit, parts);
    run.has_spares(job.spec().spares);
    job.starts(run);
    runs(rooms, id);
    count_start(&rooms.config, &rooms.machine, &mut rooms.queues, &mut rooms.jobs, now, base, id);
    note_start(&rooms.config, &rooms.jobs, &mut rooms.planning, &mut rooms.reservations, now, id);
    rooms.conversations.predictions_mut().starts(now, id);
    note_mailing(&rooms.jobs, &mut rooms.conversations, id);
    save_job(&rooms.machine, &mut rooms.jobs, turn, id);
    let nodes = rooms.jobs[&id].run().map(|r| node_list(&rooms.machine, r));
    let detail = format!("on {}", nodes.unwrap_or_default());
    turn.happened(now, EventKind::Started, "controller", EventObject::Job(id), detail);
    tell_other_group(&rooms.jobs, turn, id, &user);
    if let Some(mail) = mail_of(&rooms.config, &rooms.jobs[&id], &News::Began) {
        turn.effect(mail);
    }
    order_first_steps(rooms, turn, id, &user);
    tell_started(rooms, turn, id);
    true
}

pub(crate) fn wait_for_directory(rooms: &mut Rooms, turn: &mut Turn, id: JobId) -> bool {
    planner_of(&mut rooms.planning, &mut rooms.reservations, id).end(id);
    rooms.planning.left_inside(id);
    if let Some(job) = rooms.jobs.get_mut(&id) {
        job.waits_for_user();
    }
    review(rooms, turn, id);
    refill_interactive(rooms, turn, id);
    false
}
