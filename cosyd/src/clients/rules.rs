//! Requests pass the rules at submission before they become events.

use super::lock::lock;
use super::services::Services;
use crate::budget::Requester;
use crate::engine::Input;
use crate::submit::{Judged, Reason, SubmitPolicy, Workers, judge};
use cosy_control::{AdminField, Caller, Described, DescriptionRequest, Event, is_admin};
use cosy_model::api::{JobRef, Reply, Request, RulesTried};
use cosy_model::{Gid, Refusal, RefusalCode};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// Most jobs that a change may name while there are rules.
const CHANGED_JOBS: usize = 200;

/// What became of a request at the gate.
pub(super) struct Passage {
    /// The request as it goes on.
    pub request: Request,
    /// Why it does not.
    pub refused: Option<Refusal>,
    /// What the user is told.
    pub remarks: Vec<String>,
    /// What rules have given that only administrators may give otherwise.
    pub given: Vec<AdminField>,
    /// The user's next request waits until this one is with the core.
    pub turn: Option<OwnedMutexGuard<()>>,
}

/// Whether rules are about such a request.
const fn is_judged(request: &Request) -> bool {
    matches!(
        request,
        Request::Submit(_)
            | Request::Allocate(_)
            | Request::Change { .. }
            | Request::Quote { .. }
            | Request::Reserve { .. }
            | Request::PlanFlow { .. }
            | Request::SubmitFlow { .. }
    )
}

impl Services {
    /// Judges a request by the rules at submission, if there are any.
    pub(super) async fn at_gate(&self, caller: &Caller, request: Request) -> Passage {
        let mut passage = Passage {
            request,
            refused: None,
            remarks: Vec::new(),
            given: Vec::new(),
            turn: None,
        };
        let Some(policy) = self.gate.policy() else {
            return passage;
        };
        if passage.request.changes() {
            passage.turn = Some(self.gate.enter(caller.user.uid).await);
        }
        let admin = is_admin(&lock(&self.cluster), caller);
        if !is_judged(&passage.request) || policy.exempt.covers(caller, admin) {
            return passage;
        }
        match self
            .judged(caller, admin, policy, passage.request.clone())
            .await
        {
            Ok(judged) => {
                passage.request = judged.request;
                passage.refused = judged.refused;
                passage.remarks = judged.remarks;
                passage.given = judged.given;
            }
            Err(refusal) => passage.refused = Some(refusal),
        }
        passage
    }

    /// What the rules would make of a job, for its own user or, asked by an administrator, for
    /// another.
    pub(super) async fn try_rules(&self, caller: Caller, request: Request) -> Reply {
        let Request::TryRules { job, user } = request else {
            return Reply::Refused(Refusal::invalid("no job is to be tried"));
        };
        let own = user.is_none_or(|uid| uid == caller.user.uid);
        if !own && !is_admin(&lock(&self.cluster), &caller) {
            return Reply::Refused(Refusal::new(
                RefusalCode::Forbidden,
                "only administrators may try rules as another user",
            ));
        }
        let judged_for = match user.filter(|_| !own) {
            Some(uid) => self.caller(uid, Gid(u32::MAX), None).await,
            None => caller,
        };
        let admin = is_admin(&lock(&self.cluster), &judged_for);
        let mut tried = RulesTried {
            user: judged_for.user.name.clone(),
            ..RulesTried::default()
        };
        let policy = self.gate.policy();
        let binding = policy.filter(|policy| !policy.exempt.covers(&judged_for, admin));
        let Some(policy) = binding else {
            return Reply::RulesTried(Box::new(tried));
        };
        let request = match job.spec.attended {
            true => Request::Allocate(job),
            false => Request::Submit(job),
        };
        match self.judged(&judged_for, admin, policy, request).await {
            Ok(judged) => {
                tried.bound = true;
                tried.applied = judged.applied;
                tried.remarks = judged.remarks;
                tried.refused = judged.refused.map(|refusal| refusal.message);
                let changes = judged.changes.into_iter();
                let words = changes.map(|(field, value)| (field.name().into(), value.to_string()));
                tried.changes = words.chain(judged.further).collect();
                tried.logged = judged.logged;
                Reply::RulesTried(Box::new(tried))
            }
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    async fn judged(
        &self,
        caller: &Caller,
        admin: bool,
        policy: Arc<SubmitPolicy>,
        request: Request,
    ) -> Result<Judged, Refusal> {
        if !caller.resolved {
            return Err(Refusal::new(
                RefusalCode::DirectoryDown,
                format!(
                    "the directory service does not tell who user {} is, and rules at submission need to know; nothing was changed, try again",
                    caller.user.uid
                ),
            ));
        }
        let (queues, accounts) = (policy.sees().queues, policy.sees().accounts);
        let described = match &request {
            Request::Change { filter, .. } => {
                let ids = filter.ids.len();
                if ids == 0 || ids > CHANGED_JOBS {
                    return Err(Refusal::invalid(format!(
                        "rules at submission look at every job that is changed: name the jobs by id, at most {CHANGED_JOBS} at once"
                    )));
                }
                self.described(caller, filter.ids.clone(), queues, accounts)
                    .await?
            }
            _ if queues || accounts => self.described(caller, Vec::new(), queues, accounts).await?,
            _ => Described::default(),
        };
        let reason = Reason {
            user: caller.user.clone(),
            admin,
            default_queue: lock(&self.cluster).default_queue.clone(),
            jobs: described.jobs,
            queues: described.queues,
            accounts: described.accounts,
        };
        let who = Requester {
            uid: caller.user.uid,
            trusted: admin && caller.via.is_none(),
        };
        let work = move |workers: &mut Workers| judge(&policy, &reason, workers, request);
        self.gate.threads()?.run(who, work).await
    }

    /// The jobs of a change, as the core knows them, the queues and the accounts.
    async fn described(
        &self,
        caller: &Caller,
        jobs: Vec<JobRef>,
        queues: bool,
        accounts: bool,
    ) -> Result<Described, Refusal> {
        let (client, expected) = self.hub.expect_descriptions();
        let event = Event::DescriptionsWanted(Box::new(DescriptionRequest {
            client,
            caller: caller.clone(),
            jobs,
            queues,
            accounts,
        }));
        let sent = self.core.send(Input::Event(Box::new(event))).await;
        if sent.is_err() {
            self.hub.forget(client);
        }
        expected.wait().await
    }
}
