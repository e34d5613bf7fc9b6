//! Jobs go back into the queue.

use crate::conversations::requests::no_job;
use crate::conversations::visible::not_theirs;
use crate::event::Caller;
use crate::jobs::arrays::procedures::name_of;
use crate::jobs::check::procedures::check_result;
use crate::jobs::check::{Judged, Outcome};
use crate::jobs::dependencies::procedures::lives_again;
use crate::jobs::ended::procedures::ended_job;
use crate::jobs::job::{Job, Submitted};
use crate::jobs::requeue::{come_back, put_back};
use crate::jobs::save::save_job;
use crate::procedures::reviews::review;
use crate::procedures::steer::kill_job;
use crate::queues::access::procedures::{is_administrator, may_touch};
use crate::record::{HeldBy, Record};
use crate::reservations::inside::procedures::may_come_back;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::JobRef;
use cosy_model::node::KillCause;
use cosy_model::{About, Dialect, EventKind, EventObject, JobId, Refusal, RefusalCode};

pub(crate) fn requeue_or_revive(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    id: JobId,
    hold: Option<HeldBy>,
) -> Result<(), Refusal> {
    match rooms.jobs.contains_key(&id) {
        true => requeue_job(rooms, turn, id, &caller.user.name, hold),
        false => revive(rooms, turn, caller, id, hold),
    }
}

pub(crate) fn requeue_job(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: JobId,
    who: &str,
    hold: Option<HeldBy>,
) -> Result<(), Refusal> {
    let now = turn.now();
    let name = name_of(&rooms.jobs, id);
    let wrong = |why: String, about| Err(Refusal::new(RefusalCode::WrongState, why).about(about));
    let Some(job) = rooms.jobs.get(&id) else {
        return Ok(());
    };
    if job.is_waiting() {
        return wrong(format!("job {name} waits already"), About::Waiting);
    }
    if job.spec().attended {
        let why = format!("job {name} is interactive: its command stays with this attempt");
        return wrong(why, About::Requeue);
    }
    may_run_again(job.submitted(), &name)?;
    if let Some(reservation) = job.spec().reservation
        && may_come_back(&rooms.config, &rooms.reservations, &rooms.conversations, job, reservation)
            == Some(false)
    {
        let why = format!(
            "reservation {reservation} is no longer for user {}: job {name} could not start in it again",
            job.submitted().user
        );
        return Err(Refusal::new(RefusalCode::AccessDenied, why));
    }
    if let Some(run) = rooms.jobs.get_mut(&id).and_then(Job::run_mut) {
        run.hold_when_it_waits(hold);
    }
    turn.happened(now, EventKind::Requeue, who, EventObject::Job(id), String::new());
    kill_job(rooms, turn, id, KillCause::Requeued);
    Ok(())
}

/// Puts an ended job back into the queue.
pub(crate) fn revive(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    id: JobId,
    hold: Option<HeldBy>,
) -> Result<(), Refusal> {
    let now = turn.now();
    let unknown = || {
        no_job(JobRef {
            job: id,
            task: None,
        })
    };
    let ended = rooms.jobs.ended(id).ok_or_else(unknown)?;
    let target = ended_job(id, ended).job;
    if !may_touch(&rooms.config, caller, &ended.submitted) {
        return Err(not_theirs(&rooms.config, caller, ended.submitted.uid, target));
    }
    may_run_again(&ended.submitted, &target.to_string())?;
    let alone = ended.row.index.is_none();
    if ended.submitted.spec.attended || !(alone || rooms.jobs.has_group(&ended.row.base)) {
        let why = format!(
            "job {target} cannot run again: it was interactive, or all of its array has ended"
        );
        return Err(Refusal::new(RefusalCode::WrongState, why).about(About::Requeue));
    }
    let (mut spec, owner) = come_back(&rooms.conversations, caller, &ended.submitted);
    let outcome = Outcome {
        enters: true,
        attached: rooms.reservations.is_attached(id, &spec),
        ..Outcome::of_change(&owner, &ended.submitted, &spec)
    };
    let Judged {
        queue,
        place,
        standing,
        time_limit,
    } = check_result(rooms, caller, &outcome)?;
    (spec.account, spec.qos) = (standing.account, standing.qos);
    spec.time_limit = time_limit;
    let queue = rooms.queues.name(queue).to_owned();
    // What an administrator held, only one lets go.
    let hold = match ended.row.held {
        Some(HeldBy::Admin) if !is_administrator(&rooms.config, caller) => Some(HeldBy::Admin),
        Some(_) | None => hold,
    };
    let Some(ended) = rooms.jobs.lives_again(id) else {
        return Ok(());
    };
    if ended
        .row
        .run
        .as_ref()
        .is_some_and(|run| run.started.is_some())
    {
        turn.record(Record::EarlierRun(ended.row.clone()));
    }
    put_back(rooms, turn, id, &ended, (spec, queue, place), hold);
    lives_again(&mut rooms.jobs, &rooms.aside, ended.submitted.base);
    save_job(&rooms.machine, &mut rooms.jobs, turn, id);
    let who = &caller.user.name;
    turn.happened(now, EventKind::Requeue, who, EventObject::Job(id), String::new());
    review(rooms, turn, id);
    Ok(())
}
/// In Slurm's words a job says whether it may run again, and only batch jobs do.
fn may_run_again(job: &Submitted, name: &str) -> Result<(), Refusal> {
    if job.spec.dialect == Dialect::Cosy || job.may_run_again() {
        return Ok(());
    }
    let why = match job.is_held() {
        true => format!("job {name} is an allocation: only batch jobs run again"),
        false => format!("job {name} was submitted with --no-requeue"),
    };
    Err(Refusal::new(RefusalCode::WrongState, why).about(About::Requeue))
}
