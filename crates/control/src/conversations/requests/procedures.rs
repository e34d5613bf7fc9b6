//! A request is handed to the procedure that does it; its answer is remembered and sent.

use crate::controller::Controller;
use crate::conversations::answers::to_keep;
use crate::conversations::bulk::Work;
use crate::conversations::explain::list_of;
use crate::conversations::plans::{PendingPlan, Starts};
use crate::conversations::requests::{KnownUser, PLAN_AT_ONCE, PLAN_MOST};
use crate::event::{Caller, ClientId, Effect, Facts, LookupFailure, OldJob, TokenSeed};
use crate::procedures::steer::Recipients;
use crate::record::{HeldBy, Record};
use cosy_model::api::{Reply, Request};
use cosy_model::{JobId, Refusal, RefusalCode, Span, Time, Uid, User};
use cosy_sched::Prediction;
use std::collections::BTreeMap;

impl Controller {
    pub(crate) fn asked(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        key: Option<[u8; 16]>,
        request: Request,
        facts: Facts,
    ) {
        if let Some(via) = &caller.via
            && let Err(refusal) = self.may_relay(via, caller, &request)
        {
            return self.reply(client, Reply::Refused(refusal));
        }
        self.learn_user(now, caller);
        let remembered = key.and_then(|k| self.conversations.answers.get(caller.user.uid, k));
        if let Some(reply) = remembered {
            let reply = self.told_again(reply);
            return match request {
                Request::Allocate(_) => self.answer_at_end_of_turn(client, reply),
                _ => self.reply(client, reply),
            };
        }
        if key.is_some_and(|key| self.joins_bulk(client, caller.user.uid, key)) {
            return;
        }
        let changes = request.changes();
        let answer = self.answer(now, client, caller, key, request, facts);
        let Some(reply) = answer.unwrap_or_else(|refusal| Some(Reply::Refused(refusal))) else {
            return; // answered later
        };
        let reply = reply.short();
        if let Some(key) = key
            && changes
        {
            self.remember(now, caller.user.uid, key, &reply);
        }
        self.reply(client, reply);
    }

    /// Keeps the answer of a request that has changed something, for who asks again.
    pub(crate) fn remember(&mut self, at: Time, uid: Uid, key: [u8; 16], reply: &Reply) {
        let Some(reply) = to_keep(reply) else {
            return;
        };
        let gone = self.conversations.answers.keep(at, uid, key, reply.clone());
        self.forget_answers(gone);
        self.record(Record::Answered {
            uid,
            key,
            at,
            reply: Box::new(reply),
        });
    }

    pub(crate) fn forget_answers(&mut self, gone: Vec<(Uid, [u8; 16])>) {
        for (uid, key) in gone {
            self.record(Record::AnswerGone { uid, key });
        }
    }

    /// What was answered, for who asks again.
    fn told_again(&self, reply: &Reply) -> Reply {
        match reply {
            Reply::Flow(info) => self.flow_reply(info.id).unwrap_or_else(|_| reply.clone()),
            reply => reply.clone(),
        }
    }

    pub(crate) fn reply(&mut self, client: ClientId, reply: Reply) {
        let reply = reply.short();
        self.effect(Effect::Reply { client, reply });
    }

    /// Answers a changing request that had to wait for figures.
    pub(crate) fn answer_late(
        &mut self,
        now: Time,
        client: ClientId,
        uid: Uid,
        key: Option<[u8; 16]>,
        reply: Reply,
    ) {
        if let Some(key) = key {
            self.remember(now, uid, key, &reply);
        }
        self.reply(client, reply);
    }

    /// The answer, `None` when it comes later.
    fn answer(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        key: Option<[u8; 16]>,
        request: Request,
        facts: Facts,
    ) -> Result<Option<Reply>, Refusal> {
        let reply = match request {
            Request::Ping => Reply::Pong {
                cluster: self.config.name.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                now,
                set_aside: match self.is_admin(caller) {
                    true => self.aside.lines(),
                    false => Vec::new(),
                },
            },
            Request::Submit(submission) => {
                crate::conversations::interactive::check_kind(&submission, false)?;
                self.submit(now, caller, *submission, &facts)?
            }
            Request::Allocate(submission) => {
                self.allocate(now, client, caller, key, *submission, &facts)?;
                return Ok(None);
            }
            Request::Attend { job, started } => {
                return self.attend(client, caller, job, started, &facts);
            }
            Request::Finish {
                job,
                exit_code,
                signal,
            } => self.finish(now, caller, job, exit_code, signal)?,
            Request::Entry { job } => self.entry(caller, job)?,
            Request::Cancel {
                filter,
                signal,
                script_only,
                steps_only,
            } => {
                let whom = Recipients::new(script_only, steps_only)?;
                return self.cancel(now, (client, key), caller, filter, signal, whom);
            }
            Request::Hold { filter, as_user } => {
                let work = Work::Hold { as_user };
                return self.each_in_pieces(now, (client, key), caller, filter, work);
            }
            Request::Release { filter } => {
                return self.each_in_pieces(now, (client, key), caller, filter, Work::Release);
            }
            Request::Requeue {
                filter,
                hold,
                special,
            } => {
                let held = HeldBy::after_requeue(hold, special);
                return self.requeue(now, (client, key), caller, filter, held);
            }
            Request::Notify { filter, text } => {
                return self.notify(now, (client, key), caller, filter, &text);
            }
            Request::Suspend { filter } => {
                return self.suspend(now, (client, key), caller, filter);
            }
            Request::Resume { filter } => {
                return self.resume(now, (client, key), caller, filter);
            }
            Request::Top { filter } => return self.top(now, (client, key), caller, filter),
            Request::Change { filter, change } => {
                return self.change(now, (client, key), caller, filter, change, &facts);
            }
            Request::Jobs {
                filter,
                fields,
                fold_arrays,
            } => return Ok(self.jobs_or_plan(now, client, caller, filter, fields, fold_arrays)),
            Request::Explain { job } => return self.explain(now, client, caller, job),
            Request::Wait { jobs } => return self.wait(client, caller, jobs, facts),
            Request::Queues => self.list_queues(caller),
            Request::Nodes => return Ok(self.list_nodes(now, client)),
            Request::Settings => self.settings(now, caller),
            Request::SetTrigger(spec) => self.set_trigger(now, caller, *spec)?,
            Request::ClearTriggers { id, job, uid } => {
                self.clear_triggers(now, caller, (id, job, uid))?
            }
            Request::Triggers => self.list_triggers(caller),
            Request::NodeControl { nodes, action } => {
                self.node_control(now, caller, &nodes, &action)?
            }
            Request::QueueControl { queue, state } => {
                self.queue_control(now, caller, &queue, state)?
            }
            Request::SetQueue { spec, new, default } => {
                self.set_queue(now, caller, *spec, new, default)?
            }
            Request::DeleteQueue { queue } => self.delete_queue(now, caller, &queue)?,
            Request::Reload => {
                self.require_admin(caller, "reload the configuration")?;
                self.effect(Effect::Reload { client });
                return Ok(None);
            }
            Request::JoinToken { node, valid } => {
                self.join_token(now, caller, &node, valid, facts.token.as_ref())?
            }
            Request::Quote { .. }
            | Request::Reserve { .. }
            | Request::Confirm { .. }
            | Request::CancelReservation { .. }
            | Request::ExtendReservation { .. }
            | Request::ShortenReservation { .. }
            | Request::ShareReservation { .. }
            | Request::Reservations { .. }
            | Request::PlanChart { .. }
            | Request::Accounts { .. }
            | Request::AccountControl { .. } => {
                return self.reservation_request(now, client, caller, key, request);
            }
            Request::PlanFlow { .. }
            | Request::SubmitFlow { .. }
            | Request::ConfirmFlow { .. }
            | Request::CancelFlow { .. }
            | Request::Flows { .. } => {
                return self.flow_request(now, client, caller, key, request);
            }
            Request::History { .. }
            | Request::Steps { .. }
            | Request::Script { .. }
            | Request::Events { .. }
            | Request::Meter
            | Request::Ledger { .. } => {
                return Err(Refusal::invalid("this is not answered by the core"));
            }
        };
        Ok(Some(reply))
    }

    fn join_token(
        &mut self,
        now: Time,
        caller: &Caller,
        node: &str,
        valid: Span,
        seed: Option<&TokenSeed>,
    ) -> Result<Reply, Refusal> {
        self.require_admin(caller, "let nodes join")?;
        if !self.machine.has_node(node) {
            return Err(Refusal::new(
                RefusalCode::NotFound,
                format!("there is no node '{node}' in the configuration: add it first"),
            ));
        }
        let seed = seed.ok_or_else(|| Refusal::invalid("no random number was given"))?;
        let expiry = now + valid;
        let (hash, name) = (seed.hash.clone(), node.to_owned());
        self.machine
            .keys_mut()
            .offer(&mut self.turn, hash, name, expiry);
        let who = caller.user.name.clone();
        self.happened(now, "token", &who, format!("node {node}"), String::new());
        Ok(Reply::Token(seed.text.clone()))
    }

    /// Jobs out of the store of which a user is told.
    pub(crate) fn seen_of_old<'a>(
        &'a self,
        caller: &'a Caller,
        facts: &'a Facts,
    ) -> impl Iterator<Item = &'a OldJob> {
        let seen = |old: &&OldJob| {
            let owner = old.owner;
            owner.is_some_and(|owner| self.may_see_of(caller, owner))
        };
        facts.old_jobs.iter().filter(seen)
    }

    // --- users

    fn learn_user(&mut self, now: Time, caller: &Caller) {
        if caller.resolved {
            self.conversations.users.insert(
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
    pub(crate) fn fresh_user(&mut self, now: Time, uid: Uid) -> Option<User> {
        let ttl = self.config.policy.user_ttl;
        if let Some(known) = self.conversations.users.get(&uid)
            && now.since(known.at) <= ttl
        {
            return Some(known.user.clone());
        }
        self.ask_user(uid);
        None
    }

    pub(crate) fn ask_user(&mut self, uid: Uid) {
        let known = self
            .conversations
            .users
            .entry(uid)
            .or_insert_with(|| KnownUser {
                user: User {
                    uid,
                    ..User::default()
                },
                at: Time(i64::MIN / 2),
                asked: false,
            });
        if !known.asked {
            known.asked = true;
            self.effect(Effect::ResolveUser(uid));
        }
    }

    pub(crate) fn user_resolved(
        &mut self,
        now: Time,
        uid: Uid,
        result: Result<User, LookupFailure>,
    ) {
        let Some(known) = self.conversations.users.get_mut(&uid) else {
            return;
        };
        known.asked = false;
        let Ok(user) = result else {
            self.passages_of(now, uid, false);
            return; // asked again at the next tick
        };
        known.user = user.clone();
        known.at = now;
        self.passages_of(now, uid, true);
        self.order_late(now, &user);
        let waiting: Vec<JobId> = self
            .jobs
            .all()
            .filter(|j| j.needs_user && j.submitted.uid == uid)
            .map(|j| j.id)
            .collect();
        for id in &waiting {
            if let Some(job) = self.jobs.get_mut(id) {
                job.needs_user = false;
            }
        }
        self.review_many(now, &waiting);
    }

    /// Looks users up again before their jobs need it, and those that failed.
    pub(crate) fn check_users(&mut self, now: Time) {
        let half = Span(self.config.policy.user_ttl.0 / 2);
        let mut wanted: BTreeMap<Uid, bool> = BTreeMap::new();
        for queue in self.queues.all() {
            for uid in queue.by_user.keys() {
                let old = self
                    .conversations
                    .users
                    .get(uid)
                    .is_none_or(|k| now.since(k.at) > half);
                wanted.insert(*uid, old);
            }
        }
        for (uid, _) in wanted.into_iter().filter(|(_, old)| *old) {
            self.ask_user(uid);
        }
    }

    // --- plans

    pub(crate) fn ask_plan(&mut self, now: Time, pending: PendingPlan, only: Option<JobId>) {
        let plan = self.conversations.plans.ask(pending);
        let scheduler = Box::new(self.planning.cluster().clone());
        let inside = self.insides_to_plan(now, only);
        self.effect(Effect::Plan {
            plan,
            scheduler,
            inside,
            only,
            most: PLAN_MOST,
        });
    }

    /// Whether a list with predicted starts has to wait for a plan. No request of a deep
    /// queue ever does: it gets the last plan, and a newer one is asked for.
    pub(crate) fn must_plan(&mut self, now: Time) -> bool {
        let waiting = self.planning.cluster().waiting_count();
        if waiting <= PLAN_AT_ONCE {
            return (waiting > 0 || self.any_awaits_turn_inside())
                && self.conversations.plans.have_room();
        }
        if self.conversations.plans.begin_refresh(now) {
            self.ask_plan(now, PendingPlan::Refresh, None);
        }
        false
    }

    pub(crate) fn planned(&mut self, now: Time, plan: u64, predictions: Vec<Prediction>) {
        let Some(pending) = self.conversations.plans.made(plan) else {
            return;
        };
        let starts: Starts = predictions.into_iter().map(|p| (p.job, p)).collect();
        match pending {
            PendingPlan::Refresh => self.conversations.plans.refreshed(now, starts),
            PendingPlan::Explain {
                client,
                caller,
                job,
            } => {
                if let Some(reply) = self.explained(now, client, caller, job, starts) {
                    self.reply(client, reply);
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
                if let Some(reply) = self.list(now, asked) {
                    self.reply(client, reply);
                }
            }
            PendingPlan::Chart {
                client,
                caller,
                until,
                most,
            } => {
                let reply = self.charted(now, &caller, until, most, &starts);
                self.reply(client, reply);
            }
        }
    }
}
