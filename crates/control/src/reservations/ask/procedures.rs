//! A request for a reservation is resolved and checked.

use crate::config::ReservationPolicy;
use crate::controller::Controller;
use crate::event::Caller;
use crate::queues::order;
use crate::reservations::ask::{JOBS_LOOKED_AT, ReservationRequest, check_ask, window};
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::Ask;
use cosy_model::{AccessLevel, QueueId, Refusal, RefusalCode, Span, Time};
use cosy_sched::appraise::{Inquiry, Listed, Starts, Tariff};
use cosy_sched::{Demand, WaitingJob};
use std::sync::Arc;

impl Controller {
    pub(crate) fn reservation_policy(&self, queue: &str) -> &ReservationPolicy {
        let own = self.config.queue_reservations.get(queue);
        own.unwrap_or(&self.config.reservations)
    }

    pub(crate) fn policy_of(&self, wish: &ReservationRequest) -> &ReservationPolicy {
        self.reservation_policy(self.queues.name(wish.queue))
    }

    /// Checks and resolves what is asked.
    ///
    /// # Errors
    /// A refusal that names what is wrong and what would work.
    pub(crate) fn wish(
        &self,
        now: Time,
        caller: &Caller,
        ask: Ask,
    ) -> Result<ReservationRequest, Refusal> {
        if !caller.resolved {
            return Err(Refusal::new(
                RefusalCode::DirectoryDown,
                format!(
                    "the directory service does not tell who user {} is; nothing was booked, try again",
                    caller.user.uid
                ),
            ));
        }
        check_ask(&ask)?;
        let queue = self.find_queue(ask.queue.as_deref())?;
        let level = self.may_reserve(caller, queue)?;
        let demand = Arc::new(self.demand_in(&ask.request, queue)?);
        let (earliest, latest) = window(now, &ask)?;
        let account = self.payer(caller, ask.account.as_deref())?;
        Ok(ReservationRequest {
            ask,
            queue,
            demand,
            level,
            earliest,
            latest,
            account,
        })
    }

    /// Who pays; an administrator who belongs to no account need not.
    pub(crate) fn payer(
        &self,
        caller: &Caller,
        asked: Option<&str>,
    ) -> Result<Option<String>, Refusal> {
        let payer = self.reservations.books.payer(&caller.user, asked);
        match payer {
            Err(_) if asked.is_none() && self.is_admin(caller) => Ok(None),
            payer => payer,
        }
    }

    pub(crate) fn may_reserve(&self, caller: &Caller, id: QueueId) -> Result<AccessLevel, Refusal> {
        let queue = self.queues.get(id);
        let name = &queue.spec.name;
        let level = self.may_enter(caller, &queue.spec)?;
        if !self.reservation_policy(name).enabled && !self.is_admin(caller) {
            return Err(Refusal::new(
                RefusalCode::Admission,
                format!("queue {name} takes no reservations of users"),
            ));
        }
        if !queue.state.takes_jobs() {
            return Err(Refusal::new(
                RefusalCode::QueueClosed,
                format!("queue {name} takes no new work now"),
            ));
        }
        Ok(level)
    }

    /// The resources as the planner knows them, whole nodes if the queue gives only those.
    pub(crate) fn demand_in(
        &self,
        request: &ResourceRequest,
        queue: QueueId,
    ) -> Result<Demand, Refusal> {
        self.demand(request, self.queues.get(queue))
    }

    /// What is to be appraised.
    pub(crate) fn inquiry(
        &self,
        now: Time,
        wish: &ReservationRequest,
        starts: Starts,
        listed: Listed,
    ) -> Inquiry {
        let place = (wish.queue, wish.level);
        Inquiry {
            starts,
            listed,
            ..self.inquiry_for(now, place, &wish.demand, wish.ask.length)
        }
    }

    /// The same for a request that is not spelled out: no starts yet, nobody is listed.
    pub(crate) fn inquiry_for(
        &self,
        now: Time,
        (queue, level): (QueueId, AccessLevel),
        demand: &Arc<Demand>,
        length: Span,
    ) -> Inquiry {
        let spec = &self.queues.get(queue).spec;
        let policy = self.reservation_policy(&spec.name);
        Inquiry {
            job: WaitingJob {
                key: order::of_newcomer(spec, level, now),
                queue,
                demand: demand.clone(),
                limit: length,
            },
            starts: Starts::At(Vec::new()),
            tariff: self.tariff(policy),
            makespan_weight_ppm: policy.makespan_weight_ppm,
            most_jobs: JOBS_LOOKED_AT,
            replaces: None,
            fixed: None,
            pushed: self.reservations.pushed.clone(),
            listed: Listed::Nobody,
            joint: None,
        }
    }

    /// Prices with the delay costs of queues by number.
    pub(crate) fn tariff(&self, policy: &ReservationPolicy) -> Tariff {
        let cost = |name: &String| policy.delay_cost.get(name).copied().unwrap_or(1000);
        Tariff {
            queue_permille: self
                .queues
                .all()
                .iter()
                .map(|q| cost(&q.spec.name))
                .collect(),
            ..policy.tariff.clone()
        }
    }
}
