//! A request is handed to the procedure that does it; its answer is remembered and sent.

use crate::config::ClusterConfig;
use crate::conversations::Conversations;
use crate::conversations::answers::to_keep;
use crate::conversations::replies::reply_to;
use crate::conversations::requests::KnownUser;
use crate::event::{Caller, ClientId, Effect, TokenSeed};
use crate::jobs::Jobs;
use crate::machine::Machine;
use crate::queues::Queues;
use crate::queues::access::procedures::require_admin;
use crate::record::Record;
use crate::reservations::Reservations;
use crate::turn::Turn;
use crate::workflows::Workflows;
use crate::workflows::show::procedures::flow_reply;
use cosy_model::api::Reply;
use cosy_model::{EventKind, EventObject, Refusal, RefusalCode, Span, Time, Uid, User};
use std::collections::BTreeMap;

/// Keeps the answer of a request that has changed something, for who asks again.
pub(crate) fn remember(
    conversations: &mut Conversations,
    turn: &mut Turn,
    at: Time,
    uid: Uid,
    key: [u8; 16],
    reply: &Reply,
) {
    let Some(reply) = to_keep(reply) else {
        return;
    };
    let gone = conversations.answers.keep(at, uid, key, reply.clone());
    forget_answers(turn, gone);
    turn.record(Record::Answered {
        uid,
        key,
        at,
        reply: Box::new(reply),
    });
}

pub(crate) fn forget_answers(turn: &mut Turn, gone: Vec<(Uid, [u8; 16])>) {
    for (uid, key) in gone {
        turn.record(Record::AnswerGone { uid, key });
    }
}

/// What was answered, for who asks again.
pub(crate) fn told_again(
    machine: &Machine,
    jobs: &Jobs,
    reservations: &Reservations,
    workflows: &Workflows,
    reply: &Reply,
) -> Reply {
    match reply {
        Reply::Flow(info) => flow_reply(machine, jobs, reservations, workflows, info.id)
            .unwrap_or_else(|_| reply.clone()),
        reply => reply.clone(),
    }
}

/// Answers a changing request that had to wait for figures.
pub(crate) fn answer_late(
    conversations: &mut Conversations,
    turn: &mut Turn,
    client: ClientId,
    uid: Uid,
    key: Option<[u8; 16]>,
    reply: Reply,
) {
    let now = turn.now();
    if let Some(key) = key {
        remember(conversations, turn, now, uid, key, &reply);
    }
    reply_to(turn, client, reply);
}

pub(crate) fn join_token(
    config: &ClusterConfig,
    machine: &mut Machine,
    turn: &mut Turn,
    caller: &Caller,
    node: &str,
    valid: Span,
    seed: Option<&TokenSeed>,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    require_admin(config, caller, "let nodes join")?;
    if !machine.has_node(node) {
        return Err(Refusal::new(
            RefusalCode::NotFound,
            format!("there is no node '{node}' in the configuration: add it first"),
        ));
    }
    let seed = seed.ok_or_else(|| Refusal::invalid("no random number was given"))?;
    let expiry = now + valid;
    let (hash, name) = (seed.hash.clone(), node.to_owned());
    machine.keys_mut().offer(turn, hash, name, expiry);
    let who = caller.user.name.clone();
    turn.happened(now, EventKind::Token, &who, EventObject::Node(node.to_owned()), String::new());
    Ok(Reply::Token(seed.text.clone()))
}

impl Conversations {
    // --- users

    pub(crate) fn learn_user(&mut self, now: Time, caller: &Caller) {
        if caller.resolved {
            self.users.insert(
                caller.user.uid,
                KnownUser {
                    user: caller.user.clone(),
                    at: now,
                    asked: false,
                },
            );
        }
    }

    /// The user's identity if it is fresh enough to start a job with; else asks for it.
    pub(crate) fn fresh_user(
        &mut self,
        config: &ClusterConfig,
        turn: &mut Turn,
        uid: Uid,
    ) -> Option<User> {
        let now = turn.now();
        let ttl = config.policy.user_ttl;
        if let Some(known) = self.users.get(&uid)
            && now.since(known.at) <= ttl
        {
            return Some(known.user.clone());
        }
        self.ask_user(turn, uid);
        None
    }

    pub(crate) fn ask_user(&mut self, turn: &mut Turn, uid: Uid) {
        let known = self.users.entry(uid).or_insert_with(|| KnownUser {
            user: User {
                uid,
                ..User::default()
            },
            at: Time(i64::MIN / 2),
            asked: false,
        });
        if !known.asked {
            known.asked = true;
            turn.effect(Effect::ResolveUser(uid));
        }
    }
}

/// Looks users up again before their jobs need it, and those that failed.
pub(crate) fn check_users(
    config: &ClusterConfig,
    queues: &Queues,
    conversations: &mut Conversations,
    turn: &mut Turn,
) {
    let now = turn.now();
    let half = Span(config.policy.user_ttl.0 / 2);
    let mut wanted: BTreeMap<Uid, bool> = BTreeMap::new();
    for queue in queues.all() {
        for uid in queue.users() {
            let old = conversations
                .users
                .get(&uid)
                .is_none_or(|k| now.since(k.at) > half);
            wanted.insert(uid, old);
        }
    }
    for (uid, _) in wanted.into_iter().filter(|(_, old)| *old) {
        conversations.ask_user(turn, uid);
    }
}
