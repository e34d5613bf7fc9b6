//! What a plan says of jobs is told to those who have asked.

use crate::conversations::explain::list_of;
use crate::conversations::listing::begin::list;
use crate::conversations::listing::{Answering, ListRequest};
use crate::conversations::plans::procedures::{ask_plan, must_plan};
use crate::conversations::plans::{PendingPlan, Starts};
use crate::conversations::predictions::procedures::note_told;
use crate::conversations::replies::reply_to;
use crate::conversations::requests::no_job;
use crate::conversations::visible::may_see;
use crate::event::{Caller, ClientId};
use crate::jobs::arrays::procedures::first_queued;
use crate::jobs::limits::in_plans::may_be_planned;
use crate::reservations::chart::charted;
use crate::reservations::planned::first_inside_that_awaits_turn;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::Refusal;
use cosy_model::api::{JobField, JobFilter, JobRef, Reply};
use cosy_sched::Prediction;
use cosy_view::list::Needs;

pub(crate) fn jobs_or_plan(
    rooms: &mut Rooms,
    turn: &mut Turn,
    client: ClientId,
    caller: &Caller,
    filter: JobFilter,
    fields: Vec<JobField>,
    fold: bool,
) -> Option<Reply> {
    if Needs::of(&fields).predictions && must_plan(rooms, turn) {
        ask_plan(
            rooms,
            turn,
            PendingPlan::Jobs {
                client,
                caller: Box::new(caller.clone()),
                filter: Box::new(filter),
                fields,
                fold,
            },
            None,
        );
        return None;
    }
    let asked = list_of(client, Box::new(caller.clone()), filter, fields, fold, None);
    list(rooms, turn, asked)
}

pub(crate) fn explain(
    rooms: &mut Rooms,
    turn: &mut Turn,
    client: ClientId,
    caller: &Caller,
    target: JobRef,
) -> Result<Option<Reply>, Refusal> {
    let submitted = rooms.jobs.submitted_of(target);
    if !submitted.is_some_and(|job| may_see(&rooms.config, caller, job)) {
        return Err(no_job(target));
    }
    let queued = first_queued(&rooms.jobs, &rooms.planning, target).or_else(|| {
        let mut all = rooms.jobs.ids_of(target).into_iter();
        all.find(|id| may_be_planned(rooms, *id))
    });
    let waiting = queued.or_else(|| {
        first_inside_that_awaits_turn(&rooms.jobs, &rooms.planning, &rooms.reservations, target)
    });
    let Some(waiting) = waiting.filter(|_| rooms.conversations.plans.have_room()) else {
        let starts = rooms.conversations.plans.last().clone();
        return Ok(explained(rooms, turn, client, Box::new(caller.clone()), target, starts));
    };
    ask_plan(
        rooms,
        turn,
        PendingPlan::Explain {
            client,
            caller: Box::new(caller.clone()),
            job: target,
        },
        Some(waiting),
    );
    Ok(None)
}

/// Begins to explain a job with the starts that a plan predicts; the answer, or `None`
/// when it comes later.
pub(crate) fn explained(
    rooms: &mut Rooms,
    turn: &mut Turn,
    client: ClientId,
    caller: Box<Caller>,
    target: JobRef,
    starts: Starts,
) -> Option<Reply> {
    let filter = JobFilter {
        ids: vec![target],
        ..JobFilter::default()
    };
    let asked = ListRequest {
        client,
        caller,
        filter,
        fields: JobField::ALL.to_vec(),
        fold: true,
        starts: Some(starts),
        answering: Answering::Job(target),
    };
    list(rooms, turn, asked)
}

pub(crate) fn planned(rooms: &mut Rooms, turn: &mut Turn, plan: u64, predictions: Vec<Prediction>) {
    let now = turn.now();
    let Some(pending) = rooms.conversations.plans.made(plan) else {
        return;
    };
    let starts: Starts = predictions.into_iter().map(|p| (p.job, p)).collect();
    note_told(rooms, turn, &starts);
    match pending {
        PendingPlan::Refresh => rooms.conversations.plans.refreshed(now, starts),
        PendingPlan::Explain {
            client,
            caller,
            job,
        } => {
            if let Some(reply) = explained(rooms, turn, client, caller, job, starts) {
                reply_to(turn, client, reply);
            }
        }
        PendingPlan::Jobs {
            client,
            caller,
            filter,
            fields,
            fold,
        } => {
            let asked = list_of(client, caller, *filter, fields, fold, Some(starts));
            if let Some(reply) = list(rooms, turn, asked) {
                reply_to(turn, client, reply);
            }
        }
        PendingPlan::Chart {
            client,
            caller,
            until,
            most,
        } => {
            let reply = charted(rooms, now, &caller, until, most, &starts);
            reply_to(turn, client, reply);
        }
    }
}
