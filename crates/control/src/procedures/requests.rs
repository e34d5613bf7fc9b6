//! Requests of commands: each is handed to whom it concerns, and answered.

use crate::clock::procedures::clocks_off;
use crate::conversations::attending::attend;
use crate::conversations::explained::{explain, jobs_or_plan};
use crate::conversations::interactive::procedures::{answer_at_end_of_turn, entry};
use crate::conversations::listing::begin::list_nodes;
use crate::conversations::passes::pass;
use crate::conversations::replies::reply_to;
use crate::conversations::requests::procedures::{join_token, remember, told_again};
use crate::conversations::waits::procedures::wait;
use crate::event::Caller;
use crate::event::{Effect, Facts, LookupFailure};
use crate::machine::passages::procedures::passages_of;
use crate::machine::reports::order_late;
use crate::procedures::bulk::bulk_request;
use crate::procedures::licenses::use_license;
use crate::procedures::node_control::node_control;
use crate::procedures::policy::{change_policy, policy_query};
use crate::procedures::queues::{delete_queue, set_queue};
use crate::procedures::reservations::requests::reservation_request;
use crate::procedures::reviews::review_many;
use crate::procedures::steer::finish;
use crate::procedures::submit::{allocate, submit};
use crate::procedures::workflows::requests::flow_request;
use crate::queues::access::procedures::{is_administrator, may_relay, require_admin};
use crate::queues::procedures::{list_queues, queue_control};
use crate::rooms::Rooms;
use crate::settings::settings;
use crate::triggers::procedures::{clear_triggers, list_triggers, set_trigger};
use crate::turn::{Asker, Turn};
use cosy_model::api::{Reply, Request};
use cosy_model::{JobId, Refusal, Uid, User};

pub(crate) fn asked(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    request: Request,
    facts: Facts,
) {
    let Asker {
        client,
        caller,
        key,
    } = asker;
    let now = turn.now();
    if let Some(via) = &caller.via
        && let Err(refusal) = may_relay(
            &rooms.config,
            &rooms.machine,
            &rooms.jobs,
            &rooms.triggers,
            via,
            caller,
            &request,
        )
    {
        return reply_to(turn, client, Reply::Refused(refusal));
    }
    rooms.conversations.learn_user(now, caller);
    let remembered = key.and_then(|k| rooms.conversations.answer_to(caller.user.uid, k));
    if let Some(reply) = remembered {
        let reply =
            told_again(&rooms.machine, &rooms.jobs, &rooms.reservations, &rooms.workflows, reply);
        return match request {
            Request::Allocate(_) => {
                answer_at_end_of_turn(&rooms.jobs, &mut rooms.conversations, turn, client, reply)
            }
            _ => reply_to(turn, client, reply),
        };
    }
    if key.is_some_and(|key| rooms.conversations.joins_bulk(client, caller.user.uid, key)) {
        return;
    }
    let changes = request.changes();
    let answer = match facts.refused {
        Some(refusal) => Err(refusal),
        None => answer(rooms, turn, asker, request, facts),
    };
    let Some(reply) = answer.unwrap_or_else(|refusal| Some(Reply::Refused(refusal))) else {
        return; // answered later
    };
    let reply = reply.short();
    if let Some(key) = key
        && changes
    {
        remember(&mut rooms.conversations, turn, now, caller.user.uid, key, &reply);
    }
    reply_to(turn, client, reply);
}

/// The answer, `None` when it comes later.
pub(crate) fn answer(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    request: Request,
    facts: Facts,
) -> Result<Option<Reply>, Refusal> {
    let Asker { client, caller, .. } = asker;
    let reply = match request {
        Request::Ping => pong(rooms, turn, caller),
        Request::Submit(submission) => {
            crate::conversations::interactive::check_kind(&submission, false)?;
            submit(rooms, turn, caller, *submission, &facts)?
        }
        Request::Allocate(submission) => {
            allocate(rooms, turn, asker, *submission, &facts)?;
            return Ok(None);
        }
        Request::Attend { job, started } => {
            return attend(rooms, client, caller, job, started, &facts);
        }
        Request::Finish {
            job,
            exit_code,
            signal,
        } => finish(rooms, turn, caller, job, exit_code, signal)?,
        Request::Pass { job } => return pass(&rooms.jobs, turn, client, caller, job),
        Request::Entry { job } => entry(&rooms.config, &rooms.machine, &rooms.jobs, caller, job)?,
        Request::Cancel { .. }
        | Request::Hold { .. }
        | Request::Release { .. }
        | Request::Requeue { .. }
        | Request::Notify { .. }
        | Request::Suspend { .. }
        | Request::Resume { .. }
        | Request::Top { .. }
        | Request::Change { .. } => return bulk_request(rooms, turn, asker, request, &facts),
        Request::Jobs {
            filter,
            fields,
            fold_arrays,
        } => {
            return Ok(jobs_or_plan(rooms, turn, client, caller, filter, fields, fold_arrays));
        }
        Request::Explain { job } => return explain(rooms, turn, client, caller, job),
        Request::Wait { jobs } => return wait(rooms, turn, client, caller, jobs, facts),
        Request::Nodes => return Ok(list_nodes(rooms, turn, client)),
        Request::Reload => return reload(rooms, turn, asker),
        Request::Queues
        | Request::Settings
        | Request::SetTrigger(_)
        | Request::ClearTriggers { .. }
        | Request::Triggers
        | Request::NodeControl { .. }
        | Request::QueueControl { .. }
        | Request::SetQueue { .. }
        | Request::DeleteQueue { .. }
        | Request::UseLicense { .. }
        | Request::JoinToken { .. } => cluster_request(rooms, turn, caller, request, &facts)?,
        Request::Quote { .. }
        | Request::Reserve { .. }
        | Request::Confirm { .. }
        | Request::CancelReservation { .. }
        | Request::ExtendReservation { .. }
        | Request::ShortenReservation { .. }
        | Request::ShareReservation { .. }
        | Request::AlterReservation { .. }
        | Request::Reservations { .. }
        | Request::PlanChart { .. }
        | Request::Accounts { .. }
        | Request::AccountControl { .. } => {
            return reservation_request(rooms, turn, asker, request);
        }
        Request::PlanFlow { .. }
        | Request::SubmitFlow { .. }
        | Request::ConfirmFlow { .. }
        | Request::CancelFlow { .. }
        | Request::Flows { .. } => return flow_request(rooms, turn, asker, request),
        Request::Policy(query) => policy_query(rooms, turn.now(), caller, &query)?,
        Request::ChangePolicy { changes, dry_run } => {
            change_policy(rooms, turn, caller, &changes, dry_run)?
        }
        Request::History { .. }
        | Request::Steps { .. }
        | Request::Script { .. }
        | Request::Events { .. }
        | Request::Meter
        | Request::Archive { .. }
        | Request::Controllers
        | Request::HandOver { .. }
        | Request::TryRules { .. }
        | Request::Ledger { .. } => return Err(not_by_the_core()),
    };
    Ok(Some(reply))
}

fn not_by_the_core() -> Refusal {
    Refusal::invalid("this is not answered by the core")
}

/// The answer comes when the configuration has been read.
fn reload(rooms: &Rooms, turn: &mut Turn, asker: Asker<'_>) -> Result<Option<Reply>, Refusal> {
    require_admin(&rooms.config, asker.caller, "reload the configuration")?;
    let client = asker.client;
    turn.effect(Effect::Reload { client });
    Ok(None)
}

fn pong(rooms: &Rooms, turn: &Turn, caller: &Caller) -> Reply {
    Reply::Pong {
        cluster: rooms.config.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        now: turn.now(),
        set_aside: match is_administrator(&rooms.config, caller) {
            true => rooms.aside.lines(),
            false => Vec::new(),
        },
        clocks: clocks_off(rooms),
    }
}

/// What is asked of the cluster: its settings, nodes, queues and triggers.
fn cluster_request(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    request: Request,
    facts: &Facts,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    Ok(match request {
        Request::Queues => {
            let (queues, told) = (&rooms.queues, rooms.conversations.predictions());
            list_queues(&rooms.config, &rooms.machine, queues, &rooms.planning, told, caller)
        }
        Request::Settings => settings(rooms, now, caller),
        Request::SetTrigger(spec) => set_trigger(
            &rooms.config,
            &rooms.machine,
            &rooms.jobs,
            &mut rooms.triggers,
            turn,
            caller,
            *spec,
        )?,
        Request::ClearTriggers { id, job, uid } => {
            clear_triggers(&rooms.config, &mut rooms.triggers, turn, caller, (id, job, uid))?
        }
        Request::Triggers => list_triggers(&rooms.config, &rooms.triggers, caller),
        Request::NodeControl { nodes, action } => {
            node_control(rooms, turn, caller, &nodes, &action)?
        }
        Request::QueueControl { queue, state } => queue_control(
            &rooms.config,
            &mut rooms.queues,
            &mut rooms.planning,
            turn,
            caller,
            &queue,
            state,
        )?,
        Request::SetQueue { spec, new, default } => {
            set_queue(rooms, turn, caller, *spec, new, default)?
        }
        Request::DeleteQueue { queue } => delete_queue(rooms, turn, caller, &queue)?,
        Request::UseLicense { license, in_use } => {
            use_license(rooms, turn, caller, &license, in_use)?
        }
        Request::JoinToken { node, valid } => join_token(
            &rooms.config,
            &mut rooms.machine,
            turn,
            caller,
            &node,
            valid,
            facts.token.as_ref(),
        )?,
        _ => return Err(Refusal::invalid("this is no request to the cluster")),
    })
}

pub(crate) fn user_resolved(
    rooms: &mut Rooms,
    turn: &mut Turn,
    uid: Uid,
    result: Result<User, LookupFailure>,
) {
    let now = turn.now();
    if !rooms
        .conversations
        .user_looked_up(uid, now, result.as_ref().ok())
    {
        return;
    }
    let Ok(user) = result else {
        passages_of(rooms, turn, uid, false);
        return; // asked again at the next tick
    };
    passages_of(rooms, turn, uid, true);
    order_late(rooms, turn, &user);
    let waiting: Vec<JobId> = rooms
        .jobs
        .all()
        .filter(|j| j.needs_user() && j.submitted().uid == uid)
        .map(|j| j.id())
        .collect();
    for id in &waiting {
        if let Some(job) = rooms.jobs.get_mut(id) {
            job.user_is_known();
        }
    }
    review_many(rooms, turn, &waiting);
}
