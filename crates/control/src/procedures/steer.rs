//! Jobs are cancelled, held, released and changed, one at a time.

use crate::conversations::attending::owns;
use crate::conversations::bulk::procedures::waiting_job;
use crate::conversations::bulk::{BulkRequest, Work};
use crate::conversations::explain::reason;
use crate::conversations::interactive::gone;
use crate::conversations::replies::steered;
use crate::event::Caller;
use crate::jobs::arrays::procedures::name_of;
use crate::jobs::change::procedures::{
    change_running, checkpointed, held_by_priority, may_prioritize,
};
use crate::jobs::end::end_job;
use crate::jobs::job::Phase;
use crate::jobs::save::save_job;
use crate::jobs::steer::may_release;
use crate::jobs::steer::procedures::{changed_body, holder, take_body};
use crate::jobs::switches::procedures::waits_anew;
use crate::machine::older_store::procedures::{end_unknown_of, may_go};
use crate::procedures::end::{abandon, end_held, give_back_held};
use crate::procedures::reviews::{refill_array, review};
use crate::queues::access::procedures::is_administrator;
use crate::record::{AfterRun, HeldBy};
use crate::reservations::inside::procedures::uncount_job;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::{JobChange, Reply};
use cosy_model::node::{KillCause, NodeOrder};
use cosy_model::{
    About, End, EndCause, EventKind, EventObject, JobId, Refusal, RefusalCode, WaitReason,
};
use cosy_view::words::end_note::CancelNote;
use std::sync::Arc;

/// Takes an allocation back.
pub(crate) fn finish(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    id: JobId,
    exit_code: i32,
    signal: i32,
) -> Result<Reply, Refusal> {
    let job = rooms.jobs.get(&id).ok_or_else(|| gone(id))?;
    owns(&rooms.config, caller, job)?;
    if !(0..=64).contains(&signal) {
        return Err(Refusal::invalid(format!("there is no signal {signal}")));
    }
    let changed = match &job.phase() {
        Phase::Waiting(_) => {
            cancel_job(rooms, turn, id, &caller.user.name);
            1
        }
        Phase::Run(run) if run.is_over() => 0,
        Phase::Run(_) => {
            give_back_held(rooms, turn, id, exit_code, signal);
            1
        }
    };
    Ok(Reply::Done {
        changed,
        refused: Vec::new(),
    })
}

pub(crate) fn cancel_job(rooms: &mut Rooms, turn: &mut Turn, id: JobId, who: &str) {
    let now = turn.now();
    let Some(job) = rooms.jobs.get(&id) else {
        return;
    };
    let waited_for = reason(&rooms.machine, &rooms.planning, &rooms.reservations, now, job)
        .filter(|_| job.is_waiting());
    let Some(job) = rooms.jobs.get_mut(&id) else {
        return;
    };
    if let Some(run) = job.run_mut() {
        run.cancelled_by(who);
        turn.happened(now, EventKind::Cancelled, who, EventObject::Job(id), String::new());
        return kill_job(rooms, turn, id, KillCause::Cancelled);
    }
    let note = CancelNote {
        who,
        waited_for: waited_for.as_ref().map(WaitReason::word).as_deref(),
    }
    .to_string();
    let end = End::never_ran(EndCause::Cancelled, now);
    uncount_job(&rooms.config, &rooms.jobs, &mut rooms.reservations, now, id);
    turn.happened(now, EventKind::Cancelled, who, EventObject::Job(id), String::new());
    end_unknown_of(&rooms.machine, &rooms.jobs, &rooms.lost_store, turn, id);
    end_job(rooms, turn, id, &end, &note);
}

/// Ends a job that holds nodes.
pub(crate) fn kill_job(rooms: &mut Rooms, turn: &mut Turn, id: JobId, cause: KillCause) {
    let now = turn.now();
    let Some(job) = rooms.jobs.get_mut(&id) else {
        return;
    };
    let (key, held) = (job.key(), job.submitted().is_held());
    let Some(run) = job.run_mut() else { return };
    if let Some(AfterRun::Requeue) = run.after()
        && cause == KillCause::Cancelled
    {
        let end = End::never_ran(EndCause::Cancelled, now);
        run.is_followed_by(AfterRun::End(end));
        run.kill(cause);
        return save_job(&rooms.machine, &mut rooms.jobs, turn, id);
    }
    if run.is_over() || run.killed() == Some(KillCause::Cancelled) {
        return;
    }
    if held {
        return end_held(rooms, turn, id, cause);
    }
    run.kill(cause);
    let (launched, first) = (run.is_launched(), run.first());
    let preempted = run.ends_to_make_room(cause);
    save_job(&rooms.machine, &mut rooms.jobs, turn, id);
    match first {
        Some(first) if launched => {
            rooms.machine.order(turn, first, |node| NodeOrder::Kill {
                key: key.into(),
                node,
                cause,
                preempted,
            });
        }
        _ => {
            let after = match cause {
                KillCause::Requeued => AfterRun::Requeue,
                KillCause::Cancelled | KillCause::TimeLimit | KillCause::Superseded => {
                    AfterRun::End(End::never_ran(EndCause::Cancelled, now))
                }
            };
            abandon(rooms, turn, id, after, None);
        }
    }
}

pub(crate) fn hold_job(
    rooms: &mut Rooms,
    turn: &mut Turn,
    bulk: &mut BulkRequest,
    id: JobId,
    as_user: bool,
) -> Result<(), Refusal> {
    let job = waiting_job(&rooms.jobs, id)?;
    let by = holder(&rooms.config, bulk.caller(), job.submitted(), as_user);
    let held = Some(by.upon(job.held()));
    set_held(rooms, turn, bulk, id, held);
    Ok(())
}

pub(crate) fn release_job(
    rooms: &mut Rooms,
    turn: &mut Turn,
    bulk: &mut BulkRequest,
    id: JobId,
) -> Result<(), Refusal> {
    let job = waiting_job(&rooms.jobs, id)?;
    if !may_release(job.held(), is_administrator(&rooms.config, bulk.caller())) {
        return Err(Refusal::new(
            RefusalCode::Forbidden,
            format!("job {} is held by an administrator", job.id()),
        )
        .about(About::Held));
    }
    may_go(&rooms.machine, &rooms.jobs, &rooms.lost_store, id)?;
    set_held(rooms, turn, bulk, id, None);
    Ok(())
}

pub(crate) fn set_held(
    rooms: &mut Rooms,
    turn: &mut Turn,
    bulk: &mut BulkRequest,
    id: JobId,
    held: Option<HeldBy>,
) {
    if let Some(job) = rooms.jobs.get_mut(&id) {
        // A task that is named alone is no longer like the others.
        let alone = job.has_row() || !bulk.whole().contains(&job.submitted().base);
        job.differs(alone && job.member().is_some());
        job.is_held_by(held);
    }
    rooms.conversations.predictions_mut().forget(id);
    steered(&rooms.machine, &mut rooms.jobs, turn, bulk, id);
    review(rooms, turn, id);
}

/// `at_once` belongs to the array as a whole.
pub(crate) fn change_throttles(rooms: &mut Rooms, turn: &mut Turn, bulk: &BulkRequest) {
    let Work::Change(change) = &bulk.work() else {
        return;
    };
    let Some(at_once) = change.at_once else {
        return;
    };
    for base in bulk.bases() {
        let Some(group) = rooms.jobs.group_mut(base) else {
            continue;
        };
        group.limit_at_once((at_once > 0).then_some(at_once));
        rooms.jobs.save_standing(turn, *base);
        refill_array(rooms, turn, *base);
    }
}

pub(crate) fn change_one(
    rooms: &mut Rooms,
    turn: &mut Turn,
    bulk: &mut BulkRequest,
    id: JobId,
    change: &JobChange,
) -> Result<(), Refusal> {
    if change.checkpointed {
        return checkpointed(&rooms.machine, &mut rooms.jobs, turn, id);
    }
    let Some(job) = rooms.jobs.get(&id) else {
        return Ok(());
    };
    if !job.is_waiting() {
        return change_running(rooms, turn, bulk, id, change);
    }
    if change.keep_nodes.is_some() {
        let why = format!(
            "job {} waits and has no nodes yet: say which it must have",
            name_of(&rooms.jobs, id)
        );
        return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Waiting));
    }
    let (old, held) = (job.submitted().clone(), job.held());
    let plain = !job.has_row() && bulk.whole().contains(&old.base);
    let (new, asked) = match plain {
        true => {
            let group = rooms.jobs.group(&old.base);
            let (new, held) =
                group.map_or((old.clone(), held), |g| (g.submitted().clone(), g.held()));
            (new, change.priority.map(|_| held))
        }
        false => {
            may_prioritize(&rooms.config, bulk.caller(), &old, held, change)?;
            let new = changed_body(rooms, bulk, id, &old, change)?;
            (new, held_by_priority(&rooms.config, bulk.caller(), held, change))
        }
    };
    take_body(rooms, turn, id, &new);
    if change.switches.is_some() {
        waits_anew(rooms, turn, id);
    }
    if let Some(job) = rooms.jobs.get_mut(&id) {
        job.differs(!plain && !Arc::ptr_eq(&old, &new));
        job.is_held_by(asked.unwrap_or(held));
    }
    rooms.conversations.predictions_mut().forget(id);
    steered(&rooms.machine, &mut rooms.jobs, turn, bulk, id);
    review(rooms, turn, id);
    Ok(())
}

pub(crate) fn put_on_top(
    rooms: &mut Rooms,
    turn: &mut Turn,
    bulk: &mut BulkRequest,
    id: JobId,
) -> Result<(), Refusal> {
    let Some(job) = rooms.jobs.get(&id).filter(|job| job.is_waiting()) else {
        let why = format!("job {} does not wait", name_of(&rooms.jobs, id));
        return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Running));
    };
    let key = (job.submitted().base, job.submitted().body);
    let priority = match bulk.tops().get(&key) {
        Some(priority) => *priority,
        None => rooms.jobs.above_others(job),
    };
    // Tasks that are alike go on top together, in the order of their indices.
    bulk.puts_on_top(key, priority);
    let change = JobChange {
        priority,
        ..JobChange::default()
    };
    change_one(rooms, turn, bulk, id, &change)
}
