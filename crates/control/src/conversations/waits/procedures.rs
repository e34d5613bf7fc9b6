//! Commands begin to wait for jobs and are told of their ends.

use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::conversations::listing::List;
use crate::conversations::replies::reply_to;
use crate::conversations::requests::no_job;
use crate::conversations::visible::{is_told_all, may_see, may_see_of};
use crate::conversations::waits::{Naming, PIECE, Wait, ended_long_ago};
use crate::event::{Caller, ClientId, Facts};
use crate::jobs::Jobs;
use crate::jobs::ended::procedures::ended_job;
use crate::queues::access::procedures::is_administrator;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::{EndedJob, JobRef, Reply};
use cosy_model::{JobId, Refusal, RefusalCode, Uid, limits};

/// Begins to wait: the answer, `None` when it comes later.
pub(crate) fn wait(
    rooms: &mut Rooms,
    turn: &mut Turn,
    client: ClientId,
    caller: &Caller,
    refs: Vec<JobRef>,
    facts: Facts,
) -> Result<Option<Reply>, Refusal> {
    if refs.is_empty() || refs.len() > limits::IDS_IN_REQUEST {
        return Err(Refusal::invalid("name between 1 and 100,000 jobs to wait for"));
    }
    let wait = Wait {
        caller: Box::new(caller.clone()),
        jobs: Vec::new(),
        open: 0,
        done: Vec::new(),
        naming: Some(Naming::new(refs, facts.old_jobs)),
    };
    rooms.conversations.waits.all.insert(client, wait);
    match go_on_waiting(&rooms.config, &rooms.jobs, &mut rooms.conversations, turn, client) {
        Some(Reply::Refused(refusal)) => Err(refusal),
        Some(reply) => Ok(Some(reply)),
        None => Ok(None),
    }
}

/// A piece more; the answer when there is nothing to wait for. What is left has its turn
/// after all other lists.
pub(crate) fn go_on_waiting(
    config: &ClusterConfig,
    jobs: &Jobs,
    conversations: &mut Conversations,
    turn: &mut Turn,
    client: ClientId,
) -> Option<Reply> {
    let reply = name_waited(config, jobs, conversations, turn, client);
    let wait = conversations.waits.all.get(&client);
    if wait.is_some_and(|wait| wait.naming.is_some()) {
        conversations.lists.push(List::Wait(client));
    }
    reply
}

/// Looks some more names up; the answer when there is nothing to wait for.
fn name_waited(
    config: &ClusterConfig,
    jobs: &Jobs,
    conversations: &mut Conversations,
    turn: &mut Turn,
    client: ClientId,
) -> Option<Reply> {
    let mut wait = conversations.waits.all.remove(&client)?;
    let mut left = PIECE;
    let named = name_some(config, jobs, conversations, client, &mut wait, &mut left);
    turn.looked((PIECE - left) as u64);
    if wait
        .naming
        .as_ref()
        .is_some_and(|naming| naming.names.are_over())
    {
        wait.naming = None;
    }
    let over = wait.naming.is_none() && wait.open == 0;
    conversations.waits.all.insert(client, wait);
    match named {
        Err(refusal) => {
            conversations.waits.leave(client);
            Some(Reply::Refused(refusal))
        }
        Ok(()) if over => conversations.waited(client),
        Ok(()) => None,
    }
}

impl Conversations {
    /// All that it waited for has ended.
    fn waited(&mut self, client: ClientId) -> Option<Reply> {
        let wait = self.waits.all.remove(&client)?;
        let uid = wait.caller.user.uid;
        self.waits.give_back(uid, wait.kept());
        Some(Reply::Ended(wait.done))
    }
}

fn name_some(
    config: &ClusterConfig,
    jobs: &Jobs,
    conversations: &mut Conversations,
    client: ClientId,
    wait: &mut Wait,
    left: &mut usize,
) -> Result<(), Refusal> {
    let Some(mut naming) = wait.naming.take() else {
        return Ok(());
    };
    let named = go_on_naming_waited(config, jobs, conversations, client, (wait, &mut naming), left);
    wait.naming = Some(naming);
    named
}

fn go_on_naming_waited(
    config: &ClusterConfig,
    jobs: &Jobs,
    conversations: &mut Conversations,
    client: ClientId,
    (wait, naming): (&mut Wait, &mut Naming),
    left: &mut usize,
) -> Result<(), Refusal> {
    while *left > 0
        && let Some(mut expanding) = naming.names.next(left)
    {
        let (ids, over) = jobs.some_of(&mut expanding, *left);
        *left = left.saturating_sub(ids.len());
        for id in ids {
            expanding.known |=
                waits_for_job(config, jobs, conversations, client, (wait, naming), id)?;
        }
        if !over {
            naming.names.goes_on(expanding);
            return Ok(());
        }
        if expanding.known {
            continue;
        }
        let target = expanding.target;
        let old = naming.old(target).copied();
        let seen = old.filter(|old| {
            let owner = old.owner;
            owner.is_some_and(|owner| may_see_of(config, &wait.caller, owner))
        });
        let ok = seen.and_then(|old| old.ok).ok_or_else(|| no_job(target))?;
        keeps_more(config, conversations, wait)?;
        wait.done.push(ended_long_ago(target, ok));
    }
    Ok(())
}

/// Waits for a job too, or tells of its end; whether there is such a job.
fn waits_for_job(
    config: &ClusterConfig,
    jobs: &Jobs,
    conversations: &mut Conversations,
    client: ClientId,
    (wait, naming): (&mut Wait, &mut Naming),
    id: JobId,
) -> Result<bool, Refusal> {
    if let Some(live) = jobs.get(&id) {
        if !may_see(config, &wait.caller, live.submitted()) {
            return Ok(false);
        }
        if conversations.waits.of_job.contains(&(id, client)) || naming.told.contains(&id) {
            return Ok(true);
        }
        keeps_more(config, conversations, wait)?;
        conversations.waits.of_job.insert((id, client));
        wait.jobs.push(id);
        wait.open += 1;
        return Ok(true);
    }
    let Some(ended) = jobs.ended(id) else {
        return Ok(false);
    };
    let owner = ended.submitted.uid;
    if !may_see_of(config, &wait.caller, owner) {
        return Ok(false);
    }
    if naming.told.insert(id) {
        let news = told_of_end(config, &wait.caller, owner, ended_job(id, ended));
        keeps_more(config, conversations, wait)?;
        wait.done.push(news);
    }
    Ok(true)
}

/// One more is kept for a command. A short request may name arrays of many tasks: what all
/// commands of a user wait for has a most.
fn keeps_more(
    config: &ClusterConfig,
    conversations: &mut Conversations,
    wait: &Wait,
) -> Result<(), Refusal> {
    let (user, most) = (&wait.caller.user, limits::WAITED_JOBS_OF_USER);
    let admin = is_administrator(config, &wait.caller);
    let kept = conversations.waits.kept.entry(user.uid).or_default();
    if *kept < most || admin {
        *kept += 1;
        return Ok(());
    }
    Err(Refusal::new(
        RefusalCode::TooMany,
        format!(
            "commands of user {} wait for {kept} jobs, and one user may wait for {most}: wait for fewer",
            user.name
        ),
    ))
}

/// Tells those who wait that a job has ended.
pub(crate) fn tell_waiting(
    config: &ClusterConfig,
    jobs: &Jobs,
    conversations: &mut Conversations,
    turn: &mut Turn,
    id: JobId,
) {
    let clients = conversations.waits.for_job(id);
    if clients.is_empty() {
        return;
    }
    let Some(ended) = jobs.ended(id) else {
        return;
    };
    let (owner, news) = (ended.submitted.uid, ended_job(id, ended));
    for client in clients {
        conversations.waits.of_job.remove(&(id, client));
        let Some(mut wait) = conversations.waits.all.remove(&client) else {
            continue; // it has gone
        };
        wait.open -= 1;
        wait.done
            .push(told_of_end(config, &wait.caller, owner, news.clone()));
        if let Some(naming) = &mut wait.naming {
            naming.told.insert(id);
        }
        let over = wait.open == 0 && wait.naming.is_none();
        conversations.waits.all.insert(client, wait);
        if let Some(reply) = over.then(|| conversations.waited(client)).flatten() {
            reply_to(turn, client, reply);
        }
    }
}

/// What a user is told of the end of a job: of others' the state alone.
fn told_of_end(config: &ClusterConfig, caller: &Caller, owner: Uid, news: EndedJob) -> EndedJob {
    if is_told_all(config, caller, owner) {
        return news;
    }
    EndedJob {
        exit_code: 0,
        signal: 0,
        note: String::new(),
        ..news
    }
}
