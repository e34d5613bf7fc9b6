//! Requests that concern many jobs are done in pieces, so that nobody waits for them.

use crate::conversations::bulk::procedures::{
    covered_by, done, is_one_piece, look_for_jobs, may_stand_in_line, tell_of_piece, weight_of,
};
use crate::conversations::bulk::{BulkRequest, PIECE, Work, order_of_ends};
use crate::conversations::choosing::Choosing;
use crate::conversations::messages::notify_job;
use crate::event::{AdminField, Caller, Facts};
use crate::jobs::arrays::procedures::name_of;
use crate::jobs::dependencies::procedures::check_dependencies;
use crate::jobs::job::Job;
use crate::jobs::steer::Recipients;
use crate::jobs::steer::procedures::{signal_job, steer_whole};
use crate::planning::suspension::{resume_job, suspend_job};
use crate::procedures::requeue::requeue_or_revive;
use crate::procedures::steer::{
    cancel_job, change_one, change_throttles, hold_job, put_on_top, release_job,
};
use crate::queues::access::procedures::require_admin;
use crate::record::HeldBy;
use crate::rooms::Rooms;
use crate::turn::{Asker, Turn};
use cosy_model::api::{JobChange, JobFilter, Reply, Request};
use cosy_model::{About, JobId, Refusal, Uid, User, limits};

/// What is asked for many jobs at once.
pub(crate) fn bulk_request(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    request: Request,
    facts: &Facts,
) -> Result<Option<Reply>, Refusal> {
    match request {
        Request::Cancel {
            filter,
            signal,
            script_only,
            steps_only,
        } => {
            let whom = Recipients::new(script_only, steps_only)?;
            cancel_jobs(rooms, turn, asker, filter, signal, whom)
        }
        Request::Hold { filter, as_user } => {
            let work = Work::Hold { as_user };
            each_in_pieces(rooms, turn, asker, filter, work)
        }
        Request::Release { filter } => each_in_pieces(rooms, turn, asker, filter, Work::Release),
        Request::Requeue {
            filter,
            hold,
            special,
        } => {
            let held = HeldBy::after_requeue(hold, special);
            each_in_pieces(rooms, turn, asker, filter, Work::Requeue(held))
        }
        Request::Notify { filter, text } => notify_jobs(rooms, turn, asker, filter, &text),
        Request::Suspend { filter } => {
            require_admin(&rooms.config, asker.caller, "suspend jobs")?;
            each_in_pieces(rooms, turn, asker, filter, Work::Suspend)
        }
        Request::Resume { filter } => {
            require_admin(&rooms.config, asker.caller, "resume jobs")?;
            each_in_pieces(rooms, turn, asker, filter, Work::Resume)
        }
        // Before the other waiting jobs of their users.
        Request::Top { filter } => {
            require_admin(&rooms.config, asker.caller, "put jobs on top")
                .map_err(|refusal| refusal.about(About::Priority))?;
            each_in_pieces(rooms, turn, asker, filter, Work::Top)
        }
        Request::Change { filter, change } => {
            change_jobs(rooms, turn, asker, filter, change, facts)
        }
        _ => Err(Refusal::invalid("this is no request for jobs")),
    }
}

pub(crate) fn notify_jobs(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    filter: JobFilter,
    text: &str,
) -> Result<Option<Reply>, Refusal> {
    if text.is_empty() || text.len() > limits::COMMENT_BYTES {
        return Err(Refusal::invalid(format!(
            "a message has at least one and at most {} bytes",
            limits::COMMENT_BYTES
        )));
    }
    let text = text.replace(char::is_control, "?");
    each_in_pieces(rooms, turn, asker, filter, Work::Notify(text))
}

/// Does something to each job that a filter names: at once, or in pieces, when the answer
/// comes later.
pub(crate) fn each_in_pieces(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    filter: JobFilter,
    work: Work,
) -> Result<Option<Reply>, Refusal> {
    let Asker {
        client,
        caller,
        key,
    } = asker;
    let with_ended = matches!(work, Work::Requeue(_));
    let (until, uid) = (rooms.jobs.next_id(), caller.user.uid);
    let later = (!rooms.conversations.may_be_under_way(uid)).then(|| filter.clone());
    let choosing = Choosing::new(filter, with_ended, until)?;
    let mut bulk = BulkRequest::new(Some(choosing), caller, work);
    bulk.asked_by(client, key);
    let chosen = look_for_jobs(&rooms.config, &rooms.machine, &rooms.jobs, turn, &mut bulk);
    let waits = || {
        rooms
            .conversations
            .all_bulk()
            .any(|other| other.clashes(&bulk))
    };
    if chosen && is_one_piece(&rooms.jobs, &rooms.conversations, bulk.left()) && !waits() {
        do_piece(rooms, turn, &mut bulk);
        return Ok(Some(bulk.answer()));
    }
    bulk.is_number(rooms.conversations.next_number());
    let Some(filter) = later else {
        rooms.conversations.bulk_mut().goes_on(bulk);
        if chosen && rooms.conversations.bulk().under_way().len() == 1 {
            next_piece(rooms, turn);
        }
        return Ok(None);
    };
    may_stand_in_line(&rooms.config, &rooms.conversations, caller)?;
    bulk.forget(Choosing::new(filter, with_ended, until)?);
    rooms.conversations.bulk_mut().stands_in_line(bulk);
    Ok(None)
}

/// Cancels jobs of which nobody waits for the end: those that hold nodes and a piece of the
/// others at once, the rest in pieces. Should the controller die meanwhile, these go on
/// waiting, with the reason for which they were to be cancelled.
pub(crate) fn cancel_all(
    rooms: &mut Rooms,
    turn: &mut Turn,
    ids: Vec<JobId>,
    (uid, who): (Uid, &str),
) {
    let waits = |id: &JobId| rooms.jobs.get(id).is_some_and(Job::is_waiting);
    let (mut waiting, running): (Vec<JobId>, Vec<JobId>) = ids.into_iter().partition(waits);
    let later = waiting.split_off(waiting.len().min(PIECE));
    for id in waiting.into_iter().chain(running) {
        cancel_job(rooms, turn, id, who);
    }
    if later.is_empty() {
        return;
    }
    let user = User {
        uid,
        name: who.to_owned(),
        ..User::default()
    };
    let mut bulk = BulkRequest::new(None, &Caller::known(user), Work::Cancel);
    bulk.is_number(rooms.conversations.next_number());
    bulk.is_about(order_of_ends(later, Vec::new()));
    rooms.conversations.bulk_mut().stands_in_line(bulk);
    rooms.conversations.begin_next();
}

/// The next piece of the request whose turn it is.
pub(crate) fn next_piece(rooms: &mut Rooms, turn: &mut Turn) {
    let waits = |bulk: &BulkRequest| {
        let mut others = rooms.conversations.bulk().under_way().iter();
        others.any(|other| other.clashes(bulk) && other.comes_before(bulk))
    };
    // Who only looks for jobs need not wait: what is done to them comes in its turn.
    let may_go_on = |bulk: &BulkRequest| bulk.choosing().is_some() || !waits(bulk);
    let next = rooms
        .conversations
        .bulk()
        .under_way()
        .iter()
        .position(may_go_on);
    let Some(mut bulk) = next.and_then(|at| rooms.conversations.bulk_mut().take(at)) else {
        return;
    };
    if bulk.choosing().is_some() {
        look_for_jobs(&rooms.config, &rooms.machine, &rooms.jobs, turn, &mut bulk);
        return rooms.conversations.bulk_mut().goes_on(bulk);
    }
    do_piece(rooms, turn, &mut bulk);
    if bulk.left().is_empty() {
        done(&mut rooms.conversations, turn, bulk);
        rooms.conversations.begin_next();
    } else {
        rooms.conversations.bulk_mut().goes_on(bulk);
    }
}

pub(crate) fn do_piece(rooms: &mut Rooms, turn: &mut Turn, bulk: &mut BulkRequest) {
    if bulk.begins() {
        change_throttles(rooms, turn, bulk);
        for base in covered_by(&rooms.jobs, bulk) {
            steer_whole(rooms, turn, bulk, base);
        }
    }
    let mut work = 0;
    while work < PIECE
        && let Some(id) = bulk.next_job()
    {
        work += weight_of(&rooms.jobs, &rooms.conversations, id);
        turn.looked(1);
        match do_one(rooms, turn, bulk, id) {
            Ok(()) => bulk.changes(1),
            Err(_) if bulk.work().ends() && !bulk.named() => {}
            Err(refusal) => bulk.refuses(name_of(&rooms.jobs, id), refusal),
        }
    }
    tell_of_piece(&rooms.jobs, turn, bulk);
}

pub(crate) fn do_one(
    rooms: &mut Rooms,
    turn: &mut Turn,
    bulk: &mut BulkRequest,
    id: JobId,
) -> Result<(), Refusal> {
    let who = bulk.caller().user.name.clone();
    match &bulk.work() {
        Work::Cancel => {
            cancel_job(rooms, turn, id, &who);
            Ok(())
        }
        Work::Signal(signal, whom) => {
            signal_job(&rooms.machine, &rooms.jobs, turn, id, *signal, *whom)
        }
        Work::Hold { as_user } => {
            let as_user = *as_user;
            hold_job(rooms, turn, bulk, id, as_user)
        }
        Work::Release => release_job(rooms, turn, bulk, id),
        Work::Change(change) => {
            let change = change.clone();
            change_one(rooms, turn, bulk, id, &change)
        }
        Work::Top => put_on_top(rooms, turn, bulk, id),
        Work::Requeue(hold) => {
            let (caller, hold) = (bulk.caller().clone(), *hold);
            requeue_or_revive(rooms, turn, &caller, id, hold)
        }
        Work::Suspend => suspend_job(rooms, turn, id, &who),
        Work::Resume => resume_job(rooms, turn, id, &who),
        Work::Notify(text) => {
            notify_job(&rooms.machine, &rooms.jobs, &mut rooms.conversations, turn, id, text)
        }
    }
}

/// The answer, `None` when it comes later: see [`crate::conversations::bulk`].
pub(crate) fn cancel_jobs(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    filter: JobFilter,
    signal: Option<i32>,
    whom: Recipients,
) -> Result<Option<Reply>, Refusal> {
    if let Some(signal) = signal
        && !(1..=64).contains(&signal)
    {
        return Err(Refusal::invalid(format!("there is no signal {signal}")));
    }
    let work = match signal {
        Some(signal) => Work::Signal(signal, whom),
        None => Work::Cancel,
    };
    each_in_pieces(rooms, turn, asker, filter, work)
}

pub(crate) fn change_jobs(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    filter: JobFilter,
    change: Box<JobChange>,
    facts: &Facts,
) -> Result<Option<Reply>, Refusal> {
    let caller = asker.caller;
    let asked = |field| !caller.given.contains(&field);
    if asked(AdminField::Nice) && change.nice.is_some_and(|n| n < 0) {
        require_admin(&rooms.config, caller, "use a negative nice value")
            .map_err(|e| e.about(About::Priority))?;
    }
    if asked(AdminField::AdminComment) && change.admin_comment.is_some() {
        require_admin(&rooms.config, caller, "make an administrator's comment")?;
    }
    if let Some(dependencies) = &change.dependencies {
        check_dependencies(&rooms.config, &rooms.jobs, caller, dependencies, facts)?;
        rooms.jobs.learn_facts(dependencies, facts);
    }
    crate::jobs::change::check(&change)?;
    each_in_pieces(rooms, turn, asker, filter, Work::Change(change.into()))
}
