//! What a user asks for, checked and resolved: names become numbers, times are put in
//! order, and what can never be is refused at once.

use crate::config::ReservationPolicy;
use crate::controller::Controller;
use crate::event::Caller;
use crate::queues::order;
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::{Ask, Pick};
use cosy_model::{AccessLevel, QueueId, Refusal, RefusalCode, Span, Time, limits};
use cosy_sched::appraise::{Inquiry, Listed, Starts, Tariff};
use cosy_sched::{Demand, WaitingJob};
use std::sync::Arc;

/// Delays are looked for among so many waiting jobs, the first in line. The same for quotes
/// and bookings, so that what was quoted is what is booked.
pub(super) const JOBS_LOOKED_AT: usize = 1000;
/// Farthest start that can be asked for, from now.
const FARTHEST: Span = Span::from_secs(10 * 366 * 86_400);
/// A start that lies back by no more than this was meant as now.
pub(super) const JUST_NOW: Span = Span::from_secs(60);

/// A request that could be, resolved.
#[derive(Clone, Debug)]
pub(crate) struct ReservationRequest {
    pub ask: Ask,
    pub queue: QueueId,
    pub demand: Arc<Demand>,
    pub level: AccessLevel,
    /// Earliest start.
    pub earliest: Time,
    /// Latest start.
    pub latest: Time,
    /// Account that pays.
    pub account: Option<String>,
}

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

fn check_ask(ask: &Ask) -> Result<(), Refusal> {
    let texts = [
        ("name", ask.name.len(), limits::NAME_BYTES),
        ("comment", ask.comment.len(), limits::COMMENT_BYTES),
        (
            "flags",
            ask.flags.iter().map(|f| f.len().saturating_add(1)).sum(),
            limits::COMMENT_BYTES,
        ),
        (
            "account",
            ask.account.as_ref().map_or(0, String::len),
            limits::NAME_BYTES,
        ),
    ];
    if let Some((what, have, most)) = texts.into_iter().find(|(_, have, most)| have > most) {
        return Err(Refusal::invalid(format!(
            "the {what} of {have} bytes is longer than the {most} allowed"
        )));
    }
    super::share::check(&ask.sharing)?;
    if ask.length <= Span::ZERO || ask.length > FARTHEST {
        return Err(Refusal::invalid(format!(
            "a length of {} cannot be reserved: give one above 0 with --time",
            ask.length
        )));
    }
    if ask.max_price.is_some_and(|most| most.0 < 0) {
        return Err(Refusal::invalid("a negative price cannot be paid"));
    }
    check_repeat(ask)
}

fn check_repeat(ask: &Ask) -> Result<(), Refusal> {
    let Some(repeat) = &ask.repeat else {
        return Ok(());
    };
    if repeat.starts.is_empty() || repeat.starts.len() > limits::REPEATS {
        return Err(Refusal::invalid(format!(
            "a repeating reservation has 1 to {} starts, not {}: limit the rule with COUNT or UNTIL",
            limits::REPEATS,
            repeat.starts.len()
        )));
    }
    if repeat.rule.len() > limits::COMMENT_BYTES {
        return Err(Refusal::invalid("the rule of repetition is too long"));
    }
    let too_near = |pair: &[Time]| pair[1] < pair[0] + ask.length;
    if repeat.starts.windows(2).any(too_near) {
        return Err(Refusal::invalid(
            "the repetitions overlap: make the reservation shorter or repeat it less often",
        ));
    }
    match ask.pick {
        Pick::At(start) if start == repeat.starts[0] => Ok(()),
        _ => Err(Refusal::invalid(
            "a repeating reservation has exact starts: use --at",
        )),
    }
}

/// Earliest and latest start.
fn window(now: Time, ask: &Ask) -> Result<(Time, Time), Refusal> {
    if let Pick::At(start) = ask.pick {
        if ask.earliest.is_some() || ask.latest_end.is_some() {
            return Err(Refusal::invalid(
                "an exact start needs no window: leave out either --at or --from and --until",
            ));
        }
        return in_reach(now, start).map(|start| (start, start));
    }
    let earliest = in_reach(now, ask.earliest.unwrap_or(now).max(now))?;
    let latest_end = match (ask.latest_end, ask.pick) {
        (Some(end), _) => end,
        (None, Pick::FinishBy) => {
            return Err(Refusal::invalid("--finish-by needs a time"));
        }
        (None, _) => earliest + FARTHEST,
    };
    if latest_end <= now {
        return Err(Refusal::invalid("the latest end is in the past"));
    }
    let latest = latest_end - ask.length;
    if latest < earliest {
        return Err(Refusal::invalid(format!(
            "the window is shorter than the reservation of {}: the earliest start and the latest end are {} apart",
            ask.length,
            latest_end.since(earliest)
        )));
    }
    Ok((earliest, latest.min(now + FARTHEST)))
}

fn in_reach(now: Time, start: Time) -> Result<Time, Refusal> {
    if start > now + FARTHEST {
        return Err(Refusal::invalid("the start is more than ten years ahead"));
    }
    if start + JUST_NOW < now {
        return Err(Refusal::invalid("the start is in the past"));
    }
    Ok(start.max(now))
}
