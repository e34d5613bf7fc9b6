//! A quote is made from the figures of a snapshot.

use crate::config::ClusterConfig;
use crate::conversations::replies::reply_to;
use crate::conversations::visible::may_see;
use crate::event::{Caller, ClientId};
use crate::jobs::arrays::procedures::ref_of;
use crate::jobs::run::Run;
use crate::planning::Planning;
use crate::planning::pools::PoolOf;
use crate::planning::pools::procedures::licenses_at;
use crate::queues::Queues;
use crate::queues::access::procedures::is_administrator;
use crate::record::MakerRow;
use crate::reservations::Reservations;
use crate::reservations::admission::endless::EndlessJobs;
use crate::reservations::admission::judge::{
    LicenseLack, Request, Slot, delay_cap, judge, rule_lines, with_hint,
};
use crate::reservations::admission::notice::{Together, earliest_by_notice};
use crate::reservations::appraisal::Pending;
use crate::reservations::appraisal::procedures::appraise;
use crate::reservations::ask::procedures::{inquiry, policy_of, stands_as_job, tariff, wish};
use crate::reservations::ask::{JOBS_LOOKED_AT, ReservationRequest};
use crate::reservations::booked::{Booked, booked};
use crate::reservations::facts::together;
use crate::reservations::quote::{OWN_DELAYED, USUAL_WINDOW, pick};
use crate::reservations::show::procedures::names_of_shares;
use crate::reservations::vacate::{AHEAD, leavers, makers, told_makers};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::reservation::{
    PlainTerms, Quote, QuotedSlot, ReservationSpec, RoomMaker, StartChoice,
};
use cosy_model::{JobId, Refusal, RefusalCode, Span, Su, Time, limits};
use cosy_sched::PoolShortage;
use cosy_sched::appraise::{Appraisal, Estimate, Listed, Starts};

pub(crate) fn quote(
    rooms: &mut Rooms,
    turn: &mut Turn,
    client: ClientId,
    caller: &Caller,
    (ask, as_job): (ReservationSpec, Option<PlainTerms>),
    most: Option<u32>,
) -> Result<Option<Reply>, Refusal> {
    let now = turn.now();
    let mut wish = wish(rooms, now, caller, ask)?;
    if let Some(job) = as_job {
        wish.stands_as = stands_as_job(rooms, caller, &wish, &job)?;
    }
    let starts = match (&wish.ask.repeat, wish.ask.pick) {
        (Some(repeat), _) => Starts::Series(repeat.starts.clone()),
        (None, StartChoice::At(start)) => Starts::At(vec![start.max(now)]),
        (None, _) => candidates(&rooms.config, &rooms.queues, now, caller, &wish, most),
    };
    // Whose delays are listed is found out when the snapshot is made.
    let mut inquiry = inquiry(rooms, now, &wish, starts, Listed::Nobody);
    inquiry.leavers = leavers(rooms, now, &wish, AHEAD);
    let pending = Pending::Quote {
        client,
        caller: Box::new(caller.clone()),
        wish: Box::new(wish),
    };
    appraise(&rooms.jobs, &rooms.planning, &mut rooms.reservations, turn, pending, inquiry)?;
    Ok(None)
}

/// The candidates of a window. Without a latest end it is closed where it makes sense.
pub(crate) fn candidates(
    config: &ClusterConfig,
    queues: &Queues,
    now: Time,
    caller: &Caller,
    wish: &ReservationRequest,
    most: Option<u32>,
) -> Starts {
    let policy = policy_of(config, queues, wish);
    let ahead = policy
        .per_user
        .ahead
        .filter(|_| !is_administrator(config, caller));
    let open = now + ahead.unwrap_or(USUAL_WINDOW);
    let latest = match wish.ask.latest_end {
        Some(_) => wish.latest,
        None => open.max(wish.earliest).min(wish.latest),
    };
    let most = most.map_or(policy.candidates, |most| most as usize);
    Starts::Window {
        earliest: wish.earliest,
        latest,
        most: most.clamp(1, limits::CANDIDATES),
        gap: policy.gap,
    }
}

pub(crate) fn quoted(
    rooms: &Rooms,
    turn: &mut Turn,
    client: ClientId,
    caller: &Caller,
    wish: &ReservationRequest,
    result: &Appraisal,
) {
    let now = turn.now();
    if result.slots.is_empty() {
        let refusal = Refusal::new(
            RefusalCode::Unavailable,
            "the figures could not be worked out; try again",
        );
        return reply_to(turn, client, Reply::Refused(refusal));
    }
    let judged = judge_all(rooms, now, caller, wish, result);
    let slots: Vec<QuotedSlot> = judged
        .iter()
        .map(|(estimate, verdict)| QuotedSlot {
            preempts: preempted(rooms, (now, caller), wish, estimate),
            ..quoted_slot(rooms, wish, result, estimate, verdict)
        })
        .collect();
    let admitted: Vec<usize> = (0..slots.len()).filter(|at| slots[*at].admitted).collect();
    let estimates: Vec<&Estimate> = admitted.iter().map(|at| judged[*at].0).collect();
    let choice = pick(wish.ask.pick, &estimates).map(|at| admitted[at] as u32);
    let request = circumstances(rooms, now, caller, wish, result, &[]);
    let account = wish.account.clone();
    let left = rooms.reservations.left_of(wish);
    let quote = Quote {
        now,
        queue: rooms.queues.name(wish.queue).to_owned(),
        plain_start: result.plain_start,
        choice,
        notice_earliest: earliest_by_notice(&request).ok().flatten(),
        rules: lines_of_quote(&rooms.planning, &request),
        slots,
        account: account.map(|name| (name, left)),
        licenses: wish.ask.licenses.clone(),
    };
    reply_to(turn, client, Reply::Quote(Box::new(quote)));
}

/// The rules, and how far their figures look.
fn lines_of_quote(planning: &Planning, request: &Request<'_>) -> Vec<String> {
    let mut lines = rule_lines(request);
    let (waiting, most) = (planning.cluster().waiting_count(), JOBS_LOOKED_AT);
    if waiting > most {
        lines.push(format!("delays and prices look at the first {most} of {waiting} waiting jobs"));
    }
    lines
}

fn quoted_slot(
    rooms: &Rooms,
    wish: &ReservationRequest,
    result: &Appraisal,
    estimate: &Estimate,
    verdict: &Result<(), Refusal>,
) -> QuotedSlot {
    let mut own = estimate.delays.listed.clone();
    own.sort_by_key(|(job, span)| (std::cmp::Reverse(*span), *job));
    own.truncate(OWN_DELAYED);
    let shares = estimate.shares.as_deref().unwrap_or_default();
    QuotedSlot {
        start: estimate.start,
        end: estimate.end,
        feasible: estimate.shares.is_some(),
        admitted: verdict.is_ok(),
        reason: verdict
            .as_ref()
            .err()
            .map_or(String::new(), |r| r.message.clone()),
        availability_ppm: estimate.availability_ppm,
        by_load: estimate.by_load,
        base: estimate.base,
        license_price: license_price(rooms, wish, estimate),
        extra: extra_of(&rooms.config, &rooms.queues, &rooms.reservations, wish, result, estimate),
        delayed_jobs: estimate.delays.jobs,
        total_delay: estimate.delays.total,
        own_delayed: own,
        nodes: names_of_shares(&rooms.machine, shares),
        preempts: Vec::new(),
    }
}

/// Whom a slot would make leave.
fn preempted(
    rooms: &Rooms,
    (now, caller): (Time, &Caller),
    wish: &ReservationRequest,
    estimate: &Estimate,
) -> Vec<RoomMaker> {
    let makers = makers(rooms, now, wish, (&estimate.leave, estimate.start));
    let rows: Vec<MakerRow> = makers.into_iter().map(|(row, _)| row).collect();
    told_makers(&rooms.config, caller, &rows)
}

/// What of its price is for licences.
fn license_price(rooms: &Rooms, wish: &ReservationRequest, estimate: &Estimate) -> Su {
    let Some(shares) = &estimate.shares else {
        return Su::ZERO;
    };
    let policy = policy_of(&rooms.config, &rooms.queues, wish);
    let tariff = tariff(&rooms.queues, rooms.planning.pools(), policy);
    tariff.of_pools(&wish.holds.on(shares), wish.ask.length)
}

/// Every candidate with the verdict of quotas and rules; the refused ones say which
/// start would pass.
pub(crate) fn judge_all<'a>(
    rooms: &Rooms,
    now: Time,
    caller: &Caller,
    wish: &ReservationRequest,
    result: &'a Appraisal,
) -> Vec<(&'a Estimate, Result<(), Refusal>)> {
    let request = circumstances(rooms, now, caller, wish, result, &[]);
    let booked =
        booked(&rooms.config, &rooms.machine, &rooms.queues, &rooms.reservations, caller, wish);
    let verdict = |estimate: &Estimate| {
        judge(&request, &slot_to_judge(rooms, wish, result, estimate))?;
        booked.check(now, wish, estimate)
    };
    let verdicts: Vec<_> = result.slots.iter().map(verdict).collect();
    let all = || result.slots.iter().zip(&verdicts);
    let passing = all().filter(|(_, verdict)| verdict.is_ok());
    let earliest = passing.map(|(estimate, _)| estimate.start).min();
    let told = |verdict: Result<(), Refusal>| {
        verdict.map_err(|refusal| with_hint(refusal, earliest, verdicts.len()))
    };
    let judged = all().map(|(estimate, verdict)| (estimate, told(verdict.clone())));
    judged.collect()
}

/// Whether one slot is admitted, with everything that counts at the decision; `booked`
/// is what counts against the quotas now.
pub(crate) fn admit(
    rooms: &Rooms,
    now: Time,
    caller: &Caller,
    wish: &ReservationRequest,
    result: &Appraisal,
    estimate: &Estimate,
    booked: &Booked<'_>,
) -> Result<(), Refusal> {
    judge_one(rooms, now, caller, wish, result, estimate)?;
    booked.check(now, wish, estimate)
}

/// The verdict of the rules on one slot, with the payer's bookings that touch it.
fn judge_one(
    rooms: &Rooms,
    now: Time,
    caller: &Caller,
    wish: &ReservationRequest,
    result: &Appraisal,
    estimate: &Estimate,
) -> Result<(), Refusal> {
    let slot = (estimate.start, estimate.end);
    let together =
        together_of(&rooms.config, &rooms.queues, &rooms.reservations, caller, wish, result, slot);
    let request = circumstances(rooms, now, caller, wish, result, &together);
    judge(&request, &slot_to_judge(rooms, wish, result, estimate))
}

/// Whether no waiting job would be pushed back too much, as things are now.
pub(crate) fn keeps_delay_cap(
    rooms: &Rooms,
    now: Time,
    caller: &Caller,
    wish: &ReservationRequest,
    result: &Appraisal,
    estimate: &Estimate,
) -> Result<(), Refusal> {
    let request = circumstances(rooms, now, caller, wish, result, &[]);
    delay_cap(&request, &slot_to_judge(rooms, wish, result, estimate))
}

/// The same for the difference of an extension, whose quotas are those of the whole.
pub(crate) fn admit_longer(
    rooms: &Rooms,
    now: Time,
    caller: &Caller,
    wish: &ReservationRequest,
    result: &Appraisal,
    estimate: &Estimate,
    start: Time,
) -> Result<(), Refusal> {
    judge_one(rooms, now, caller, wish, result, estimate)?;
    booked(&rooms.config, &rooms.machine, &rooms.queues, &rooms.reservations, caller, wish)
        .check_longer(now, wish, estimate, start)
}

fn slot_to_judge(
    rooms: &Rooms,
    wish: &ReservationRequest,
    result: &Appraisal,
    estimate: &Estimate,
) -> Slot {
    Slot {
        start: estimate.start,
        end: estimate.end,
        feasible: estimate.shares.is_some(),
        lacks: estimate
            .lacks
            .and_then(|short| license_lack(rooms, short, estimate.start)),
        availability_ppm: estimate.availability_ppm,
        by_load: estimate.by_load,
        price: price_of(&rooms.config, &rooms.queues, &rooms.reservations, wish, result, estimate),
        worst_delay: rooms.reservations.worst_delay(estimate),
    }
}

/// The licence of which too little is free, by name.
fn license_lack(rooms: &Rooms, short: PoolShortage, start: Time) -> Option<LicenseLack> {
    let PoolOf::License(name) = rooms.planning.pools().of(short.pool)?;
    let total = u64::from(licenses_at(&rooms.config, start, name));
    Some(LicenseLack {
        name: name.clone(),
        total,
        held: short.held,
        outside: total.saturating_sub(short.capacity),
        wanted: short.wanted,
        frees: short.frees,
    })
}

impl Reservations {
    /// The worst sum of delays, with what other reservations push back by now.
    fn worst_delay(&self, estimate: &Estimate) -> Option<(JobId, Span)> {
        let pushed = &self.pushed;
        let sum = |(job, span): &(JobId, Span)| {
            (*job, pushed.get(job).copied().unwrap_or(Span::ZERO) + *span)
        };
        let now = estimate.delays.listed.iter().map(sum);
        let all = now.chain(estimate.delays.worst);
        all.max_by_key(|(job, span)| (*span, std::cmp::Reverse(*job)))
    }
}

/// f, or what that hour of the week usually costs if that is more and today's queue
/// says nothing of the time.
pub(crate) fn extra_of(
    config: &ClusterConfig,
    queues: &Queues,
    reservations: &Reservations,
    wish: &ReservationRequest,
    result: &Appraisal,
    estimate: &Estimate,
) -> Su {
    let policy = policy_of(config, queues, wish);
    if !policy.price_floor || estimate.start < result.plan_end {
        return estimate.extra;
    }
    let shares = estimate.shares.as_deref().unwrap_or_default();
    let cores: i128 = shares.iter().map(|s| i128::from(s.amounts.cores)).sum();
    let core_ms = cores * i128::from(estimate.end.since(estimate.start).ms());
    estimate
        .extra
        .max(reservations.hours.floor(estimate.start, core_ms))
}

pub(crate) fn price_of(
    config: &ClusterConfig,
    queues: &Queues,
    reservations: &Reservations,
    wish: &ReservationRequest,
    result: &Appraisal,
    estimate: &Estimate,
) -> Su {
    estimate
        .base
        .plus(extra_of(config, queues, reservations, wish, result, estimate))
}

fn together_of(
    config: &ClusterConfig,
    queues: &Queues,
    reservations: &Reservations,
    caller: &Caller,
    wish: &ReservationRequest,
    result: &Appraisal,
    slot: (Time, Time),
) -> Vec<Together> {
    let wait = result.joint_start.map(|start| start.since(result.now));
    together(config, queues, reservations, caller, wish, slot, wait)
        .into_iter()
        .collect()
}

/// What the rules look at beside a slot.
fn circumstances<'a>(
    rooms: &'a Rooms,
    now: Time,
    caller: &Caller,
    wish: &'a ReservationRequest,
    result: &Appraisal,
    together: &'a [Together],
) -> Request<'a> {
    let policy = policy_of(&rooms.config, &rooms.queues, wish);
    let figures = &rooms.reservations.figures;
    Request {
        policy,
        // What was now then is the past a moment later.
        now: result.now,
        admin: is_administrator(&rooms.config, caller),
        share: figures.share(now, &policy.notice),
        load_end: result.load_end,
        mean_wait: figures.mean_wait(now, &policy.notice),
        plain_wait: result.plain_start.map(|start| start.since(result.now)),
        together,
        budget: rooms.reservations.left_of(wish),
        max_price: wish.ask.max_price,
        endless: endless_jobs(rooms, caller, wish, result),
    }
}

/// Who may be in the way of those slots for ever: running jobs without a time limit on nodes of
/// the queue. Nobody where all nodes are free.
fn endless_jobs(
    rooms: &Rooms,
    caller: &Caller,
    wish: &ReservationRequest,
    result: &Appraisal,
) -> EndlessJobs {
    let mut found = EndlessJobs::default();
    let all_free = result.slots.iter().all(|slot| slot.shares.is_some());
    if all_free {
        return found;
    }
    let nodes = rooms.queues.get(wish.queue).nodes();
    for (id, _) in rooms.planning.cluster().running_jobs() {
        let Some(job) = rooms.jobs.get(&id) else {
            continue;
        };
        let holds = |run: &Run| run.parts().iter().any(|part| nodes.contains(part.node()));
        let endless = |run: &&Run| run.limit().is_unlimited() && holds(run);
        if job.run().filter(endless).is_none() {
            continue;
        }
        match may_see(&rooms.config, caller, job.submitted()) {
            true => found.seen.push(ref_of(job).to_string()),
            false => found.unseen += 1,
        }
    }
    found
}

impl Reservations {
    /// What the account that pays can still spend; `None`: not limited.
    fn left_of(&self, wish: &ReservationRequest) -> Option<Su> {
        self.books.left(wish.account.as_ref()?)
    }

    /// A whole series has to be paid.
    pub(crate) fn can_pay(&self, wish: &ReservationRequest, price: Su) -> Result<(), Refusal> {
        if let Some(left) = self.left_of(wish).filter(|left| *left < price) {
            return Err(Refusal::new(
                RefusalCode::Price,
                format!(
                    "all together costs {price} SU, but account {} has {left} SU left",
                    wish.account.as_deref().unwrap_or_default()
                ),
            ));
        }
        match wish.ask.max_price.filter(|most| price > *most) {
            Some(most) => Err(Refusal::new(
                RefusalCode::Price,
                format!("all together costs {price} SU, more than the {most} SU allowed"),
            )),
            None => Ok(()),
        }
    }
}
