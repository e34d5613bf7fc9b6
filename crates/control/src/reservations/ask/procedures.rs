//! A request for a reservation is resolved and checked.

use crate::config::{ClusterConfig, ReservationPolicy};
use crate::event::Caller;
use crate::jobs::job::{Place, Submitted};
use crate::jobs::licenses::procedures::check_licenses;
use crate::machine::Machine;
use crate::planning::Planning;
use crate::planning::pools::Pools;
use crate::policy::standing::{Asked, Standing};
use crate::queues::access::procedures::{is_administrator, may_enter, require_admin};
use crate::queues::demand::Lifted;
use crate::queues::demand::procedures::{demand, least_nodes};
use crate::queues::{Queues, order};
use crate::reservations::Reservations;
use crate::reservations::ask::{JOBS_LOOKED_AT, ReservationRequest, StandsAs, check_ask, window};
use crate::rooms::Rooms;
use cosy_model::job::ResourceRequest;
use cosy_model::reservation::{PlainTerms, ReservationSpec};
use cosy_model::{
    AccessLevel, CountedResources, Gid, JobSpec, OsText, Program, QueueId, Refusal, RefusalCode,
    Span, Su, Time, Uid, limits,
};
use cosy_sched::appraise::{Inquiry, Listed, Starts, Tariff};
use cosy_sched::{Component, Demand, Holds, WaitingJob};
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
    let admin = is_administrator(&rooms.config, caller);
    let asked = (ask.account.as_deref(), None);
    let stands_as = stands_as(rooms, (&caller.user.name, admin), asked, queue);
    Ok(ReservationRequest {
        stands_as,
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
pub(crate) fn each_once(licenses: &CountedResources) -> CountedResources {
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
    let spec = JobSpec {
        request: wish.ask.request.clone(),
        licenses: wish.ask.licenses.clone(),
        ..plain_spec()
    };
    let plain = PlainJob {
        spec,
        stands_as: &wish.stands_as,
        queue: wish.queue,
        level: wish.level,
        demand: &wish.demand,
        holds: &wish.holds,
        length: wish.ask.length,
    };
    Inquiry {
        starts,
        listed,
        ..inquiry_for(rooms, now, plain)
    }
}

/// The same for a request that is not spelled out: no starts yet, nobody is listed.
pub(crate) fn inquiry_for(rooms: &Rooms, now: Time, plain: PlainJob<'_>) -> Inquiry {
    let (queue, level) = (plain.queue, plain.level);
    let spec = rooms.queues.get(queue).spec();
    let policy = reservation_policy(&rooms.config, &spec.name);
    let (holds, limit) = (plain.holds.clone(), plain.length);
    let demand: Arc<Demand> = Arc::new(plain.demand.clone().into());
    let newcomer = newcomer(rooms, now, plain, demand.clone());
    Inquiry {
        job: WaitingJob {
            key: order::of_newcomer(rooms.queues.scores(), spec, level, &newcomer),
            queue,
            demand,
            limit,
            holds,
        },
        starts: Starts::At(Vec::new()),
        tariff: tariff(&rooms.queues, rooms.planning.pools(), policy),
        makespan_weight_ppm: policy.makespan_weight_ppm,
        most_jobs: JOBS_LOOKED_AT,
        replaces: None,
        fixed: None,
        pushed: rooms.reservations.pushed.clone(),
        listed: Listed::Nobody,
        plain_start: true,
        joint: None,
        leavers: Vec::new(),
    }
}

/// A request as the plain job that it would be.
pub(crate) struct PlainJob<'a> {
    /// What it would be submitted with.
    pub spec: JobSpec,
    pub stands_as: &'a StandsAs,
    pub queue: QueueId,
    pub level: AccessLevel,
    pub demand: &'a Component,
    pub holds: &'a Holds,
    pub length: Span,
}

/// A job that asks for nothing yet.
pub(crate) fn plain_spec() -> JobSpec {
    JobSpec::plain("", Program::Allocation, OsText::default())
}

/// As whose job somebody's request would stand in line, by the account and the quality of service that
/// it names. What the policy refuses stands as it was asked
/// for: others say so.
pub(crate) fn stands_as(
    rooms: &Rooms,
    (user, is_admin): (&str, bool),
    (account, qos): (Option<&str>, Option<&str>),
    queue: QueueId,
) -> StandsAs {
    let asked = Asked {
        user,
        account,
        qos,
        queue: rooms.queues.name(queue),
        is_member: true,
        is_admin,
    };
    let standing = rooms.policy.standing(rooms.config.enforce, asked);
    let standing = standing.unwrap_or_else(|_| Standing {
        account: account.map(str::to_owned),
        qos: qos.map(str::to_owned),
    });
    StandsAs {
        user: user.to_owned(),
        account: standing.account,
        qos: standing.qos,
        nice: 0,
    }
}

/// The same of a plain job that says what it would be submitted with.
///
/// # Errors
/// Those of its submission: an account, a quality of service or a nice value that its user may not have.
pub(crate) fn stands_as_job(
    rooms: &Rooms,
    caller: &Caller,
    wish: &ReservationRequest,
    job: &PlainTerms,
) -> Result<StandsAs, Refusal> {
    let is_admin = is_administrator(&rooms.config, caller);
    let asked = Asked {
        user: &caller.user.name,
        account: wish.ask.account.as_deref(),
        qos: job.qos.as_deref(),
        queue: rooms.queues.name(wish.queue),
        is_member: true,
        is_admin,
    };
    let standing = rooms.policy.standing(rooms.config.enforce, asked)?;
    if job.nice < 0 {
        require_admin(&rooms.config, caller, "use a negative nice value")?;
    }
    Ok(StandsAs {
        user: caller.user.name.clone(),
        account: standing.account,
        qos: standing.qos,
        nice: job.nice.clamp(-limits::NICE, limits::NICE),
    })
}

/// The plain job as if it were submitted now.
fn newcomer(rooms: &Rooms, now: Time, plain: PlainJob<'_>, demand: Arc<Demand>) -> Submitted {
    let (request, as_whom) = (&plain.spec.request, plain.stands_as);
    let least = least_nodes(&rooms.machine, &rooms.queues, request, plain.queue);
    Submitted {
        base: rooms.jobs.next_id(),
        body: 0,
        uid: Uid(0),
        gid: Gid(0),
        user: as_whom.user.clone(),
        submit: now,
        queue: rooms.queues.name(plain.queue).to_owned(),
        place: Place::Good {
            queue: plain.queue,
            level: plain.level,
            demand,
            limit: plain.length,
            least,
        },
        spec: Arc::new(JobSpec {
            account: as_whom.account.clone(),
            qos: as_whom.qos.clone(),
            nice: as_whom.nice,
            time_limit: Some(plain.length),
            ..plain.spec
        }),
        flow: None,
        only: None,
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
