//! A request for a reservation is resolved and checked.

use crate::config::{ClusterConfig, ReservationPolicy};
use crate::event::Caller;
use crate::jobs::licenses::procedures::check_licenses;
use crate::machine::Machine;
use crate::planning::Planning;
use crate::planning::pools::Pools;
use crate::queues::access::procedures::{is_administrator, may_enter};
use crate::queues::demand::Lifted;
use crate::queues::demand::procedures::demand;
use crate::queues::{Queues, order};
use crate::reservations::Reservations;
use crate::reservations::ask::{JOBS_LOOKED_AT, ReservationRequest, check_ask, window};
use crate::rooms::Rooms;
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::ReservationSpec;
use cosy_model::{AccessLevel, CountedResources, QueueId, Refusal, RefusalCode, Span, Su, Time};
use cosy_sched::appraise::{Inquiry, Listed, Starts, Tariff};
use cosy_sched::{Component, Holds, WaitingJob};
use std::sync::Arc;

pub(crate) fn reservation_policy<'a>(
    config: &'a ClusterConfig,
    queue: &str,
) -> &'a ReservationPolicy {
    let own = config.queue_reservations.get(queue);
    own.unwrap_or(&config.reservations)
}

pub(crate) fn policy_of<'a>(
    config: &'a ClusterConfig,
    queues: &'a Queues,
    wish: &ReservationRequest,
) -> &'a ReservationPolicy {
    reservation_policy(config, queues.name(wish.queue))
}

/// Checks and resolves what is asked.
///
/// # Errors
/// A refusal that names what is wrong and what would work.
pub(crate) fn wish(
    rooms: &Rooms,
    now: Time,
    caller: &Caller,
    mut ask: ReservationSpec,
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
    let queue = rooms
        .queues
        .find_queue(&rooms.config, ask.queue.as_deref())?;
    let level = may_reserve(&rooms.config, &rooms.queues, caller, queue)?;
    let demand = Arc::new(demand_in(
        &rooms.config,
        &rooms.machine,
        &rooms.queues,
        &rooms.planning,
        &ask.request,
        queue,
    )?);
    ask.licenses = each_once(&ask.licenses);
    check_licenses(&rooms.config, &ask.licenses)?;
    let holds = rooms.planning.pools().of_licenses(&ask.licenses);
    let (earliest, latest) = window(now, &ask)?;
    let account = payer(&rooms.config, &rooms.reservations, caller, ask.account.as_deref())?;
    Ok(ReservationRequest {
        ask,
        queue,
        demand,
        holds,
        level,
        earliest,
        latest,
        account,
    })
}

/// The same with each name once, whatever a client has sent.
fn each_once(licenses: &CountedResources) -> CountedResources {
    let mut all = CountedResources::default();
    for (name, count) in licenses.iter() {
        all.set(name, all.get(name).saturating_add(count));
    }
    all
}

/// Who pays; an administrator who belongs to no account need not.
pub(crate) fn payer(
    config: &ClusterConfig,
    reservations: &Reservations,
    caller: &Caller,
    asked: Option<&str>,
) -> Result<Option<String>, Refusal> {
    let payer = reservations.books.payer(&caller.user, asked);
    match payer {
        Err(_) if asked.is_none() && is_administrator(config, caller) => Ok(None),
        payer => payer,
    }
}

pub(crate) fn may_reserve(
    config: &ClusterConfig,
    queues: &Queues,
    caller: &Caller,
    id: QueueId,
) -> Result<AccessLevel, Refusal> {
    let queue = queues.get(id);
    let name = &queue.spec().name;
    let level = may_enter(config, caller, queue.spec())?;
    if !reservation_policy(config, name).enabled && !is_administrator(config, caller) {
        return Err(Refusal::new(
            RefusalCode::Admission,
            format!("queue {name} takes no reservations of users"),
        ));
    }
    if !queue.state().takes_jobs() {
        return Err(Refusal::new(
            RefusalCode::QueueClosed,
            format!("queue {name} takes no new work now"),
        ));
    }
    Ok(level)
}

/// The resources as the planner knows them, whole nodes if the queue gives only those.
pub(crate) fn demand_in(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &Queues,
    planning: &Planning,
    request: &ResourceRequest,
    queue: QueueId,
) -> Result<Component, Refusal> {
    let queue = (queues.get(queue), Lifted::default());
    demand(config, machine, planning, request, queue)
}

/// What is to be appraised.
pub(crate) fn inquiry(
    rooms: &Rooms,
    now: Time,
    wish: &ReservationRequest,
    starts: Starts,
    listed: Listed,
) -> Inquiry {
    let place = (wish.queue, wish.level);
    Inquiry {
        starts,
        listed,
        ..inquiry_for(rooms, now, place, (&wish.demand, &wish.holds), wish.ask.length)
    }
}

/// The same for a request that is not spelled out: no starts yet, nobody is listed.
pub(crate) fn inquiry_for(
    rooms: &Rooms,
    now: Time,
    (queue, level): (QueueId, AccessLevel),
    (demand, holds): (&Component, &Holds),
    length: Span,
) -> Inquiry {
    let spec = rooms.queues.get(queue).spec();
    let policy = reservation_policy(&rooms.config, &spec.name);
    Inquiry {
        job: WaitingJob {
            key: order::of_newcomer(spec, level, now, rooms.jobs.next_id()),
            queue,
            demand: Arc::new(demand.clone().into()),
            limit: length,
            holds: holds.clone(),
        },
        starts: Starts::At(Vec::new()),
        tariff: tariff(&rooms.queues, rooms.planning.pools(), policy),
        makespan_weight_ppm: policy.makespan_weight_ppm,
        most_jobs: JOBS_LOOKED_AT,
        replaces: None,
        fixed: None,
        pushed: rooms.reservations.pushed.clone(),
        listed: Listed::Nobody,
        joint: None,
    }
}

/// Prices with the delay costs of queues, and prices of licences, by number.
pub(crate) fn tariff(queues: &Queues, pools: &Pools, policy: &ReservationPolicy) -> Tariff {
    let of_license = |(name, price): (&String, &Su)| Some((pools.license(name)?, *price));
    let cost = |name: &String| policy.delay_cost.get(name).copied().unwrap_or(1000);
    Tariff {
        queue_permille: queues.all().iter().map(|q| cost(&q.spec().name)).collect(),
        pool_hour: policy.license_hour.iter().filter_map(of_license).collect(),
        ..policy.tariff.clone()
    }
}
