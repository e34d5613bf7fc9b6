//! Commands that stay with a job, and the end of the job when the last of them is gone.
//!
//! A command that hangs up ends its job at once. One whose way broke (the link of the node
//! that passed its words on, this controller itself) may come again for a while.

use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::conversations::attendance::Awaits;
use crate::conversations::interactive::procedures::allocated;
use crate::conversations::replies::reply_to;
use crate::conversations::requests::no_job;
use crate::conversations::visible::not_theirs;
use crate::conversations::waits::ended_long_ago;
use crate::event::{Caller, ClientId, Facts};
use crate::jobs::Jobs;
use crate::jobs::ended::procedures::ended_job;
use crate::jobs::job::Job;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::{JobRef, Reply};
use cosy_model::{JobId, Refusal, RefusalCode, Time};

/// The answer to [`cosy_model::api::Request::Attend`]; `None` when it comes later.
pub(crate) fn attend(
    rooms: &mut Rooms,
    client: ClientId,
    caller: &Caller,
    id: JobId,
    started: bool,
    facts: &Facts,
) -> Result<Option<Reply>, Refusal> {
    let Some(job) = rooms.jobs.get(&id) else {
        return attend_ended(&rooms.config, &rooms.jobs, caller, id, facts).map(Some);
    };
    owns(&rooms.config, caller, job)?;
    let runs = job.run().is_some_and(|run| !run.is_over());
    if started
        && runs
        && let Some(text) = rooms.conversations.attendance.next_note(id)
    {
        rooms
            .conversations
            .attendance
            .stays(client, id, Awaits::Nothing);
        return Ok(Some(Reply::Said(text)));
    }
    let allocated = allocated(rooms, id).filter(|_| runs && !started);
    let awaits = match (&allocated, started) {
        (Some(_), _) => Awaits::Nothing,
        (None, true) => Awaits::End,
        (None, false) => Awaits::Start,
    };
    rooms.conversations.attendance.stays(client, id, awaits);
    Ok(allocated)
}

fn attend_ended(
    config: &ClusterConfig,
    jobs: &Jobs,
    caller: &Caller,
    id: JobId,
    facts: &Facts,
) -> Result<Reply, Refusal> {
    let name = whole(id);
    if let Some(ended) = jobs.ended(id) {
        let owner = ended.submitted.uid;
        if owner != caller.user.uid {
            return Err(not_theirs(config, caller, owner, name));
        }
        return Ok(Reply::Ended(vec![ended_job(id, ended)]));
    }
    let old = facts.old_jobs.iter().find(|old| old.job == name);
    let old = old.filter(|old| old.owner == Some(caller.user.uid));
    let ok = old.and_then(|old| old.ok).ok_or_else(|| no_job(name))?;
    Ok(Reply::Ended(vec![ended_long_ago(name, ok)]))
}

/// The way to a command broke.
pub(crate) fn client_lost(
    config: &ClusterConfig,
    jobs: &Jobs,
    conversations: &mut Conversations,
    now: Time,
    client: ClientId,
) {
    conversations.waits.leave(client);
    conversations.lists.leave(client);
    if let Some(left) = conversations.attendance.leaves(client) {
        expect_again(config, jobs, conversations, now, left.job);
    }
}

/// A command that stayed with the job may come again.
pub(crate) fn expect_again(
    config: &ClusterConfig,
    jobs: &Jobs,
    conversations: &mut Conversations,
    now: Time,
    id: JobId,
) {
    let until = now + config.policy.attend_grace;
    match jobs.get(&id).is_some_and(|j| j.spec().attended) {
        true => conversations.attendance.expects(id, until),
        false => conversations.attendance.forget_if_empty(id),
    }
}

/// Tells those who wait for the start of a job.
pub(crate) fn tell_started(rooms: &mut Rooms, turn: &mut Turn, id: JobId) {
    for client in rooms.conversations.attendance.started(id) {
        if let Some(reply) = allocated(rooms, id) {
            reply_to(turn, client, reply);
        }
    }
}

/// Tells those who stayed with a job that it has ended.
pub(crate) fn tell_attendants(
    jobs: &Jobs,
    conversations: &mut Conversations,
    turn: &mut Turn,
    id: JobId,
) {
    let clients = conversations.attendance.ended(id);
    if clients.is_empty() {
        return;
    }
    let ended = jobs.ended(id).map(|ended| ended_job(id, ended));
    let told = Reply::Ended(ended.into_iter().collect());
    for client in clients {
        reply_to(turn, client, told.clone());
    }
}

/// The caller's own allocation, or why not.
pub(crate) fn owns(config: &ClusterConfig, caller: &Caller, job: &Job) -> Result<(), Refusal> {
    if job.submitted().uid != caller.user.uid {
        return Err(not_theirs(config, caller, job.submitted().uid, whole(job.id())));
    }
    if job.submitted().is_held() {
        return Ok(());
    }
    Err(Refusal::new(
        RefusalCode::WrongState,
        format!(
            "job {} runs a program of its own: it ends with that, or with 'ccancel {}'",
            job.id(),
            job.id()
        ),
    ))
}

const fn whole(job: JobId) -> JobRef {
    JobRef { job, task: None }
}
