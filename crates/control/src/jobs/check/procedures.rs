//! The result of a request is judged by the rules of the cluster, the queue and the user.

use crate::config::ClusterConfig;
use crate::event::{AdminField, Caller};
use crate::jobs::Jobs;
use crate::jobs::check::{Coming, Judged, Outcome, check_spec};
use crate::jobs::components::procedures::check_components;
use crate::jobs::job::Submitted;
use crate::jobs::licenses::procedures::check_licenses;
use crate::jobs::limits::procedures::{check_limits, default_limit};
use crate::planning::alternative_queues::procedures::check_queues;
use crate::policy::standing::{Asked, Standing};
use crate::queues::access::procedures::{is_administrator, may_submit, require_admin};
use crate::queues::over_limit::place_or_wait;
use crate::queues::{Queues, order};
use crate::reservations::Reservations;
use crate::reservations::inside::procedures::check_inside;
use crate::rooms::Rooms;
use cosy_model::policy::{QosFlag, QosRecord};
use cosy_model::{About, JobSpec, QueueId, Refusal, RefusalCode, User, limits};

/// Judges what a request would leave behind.
///
/// # Errors
/// The first thing that cannot be, with figures.
pub(crate) fn check_result(
    rooms: &Rooms,
    caller: &Caller,
    outcome: &Outcome<'_>,
) -> Result<Judged, Refusal> {
    let Outcome { owner, spec, .. } = *outcome;
    check_spec(spec)?;
    check_rights(&rooms.config, caller, outcome)?;
    let queue = queue_of(&rooms.config, &rooms.queues, &rooms.reservations, caller, outcome)?;
    check_counts(&rooms.config, &rooms.queues, &rooms.jobs, caller, outcome, queue)?;
    check_queues(&rooms.config, &rooms.queues, &spec.queues)?;
    check_components(&rooms.config, &rooms.queues, spec)?;
    check_licenses(&rooms.config, &spec.licenses)?;
    let standing = standing(rooms, caller, outcome, queue)?;
    check_admitted(rooms, queue, &standing)?;
    check_reserved(rooms, spec, &standing)?;
    let time_limit = default_limit(rooms, outcome, queue, &standing);
    let limited = time_limit.map(|limit| JobSpec {
        time_limit: Some(limit),
        ..spec.clone()
    });
    let spec = limited.as_ref().unwrap_or(spec);
    let place = place_or_wait(
        &rooms.config,
        &rooms.machine,
        &rooms.queues,
        &rooms.planning,
        spec,
        (queue, rooms.policy.lifted(standing.qos.as_deref())),
        owner,
    )?;
    let outcome = Outcome { spec, ..*outcome };
    let by_admin = is_administrator(&rooms.config, caller);
    check_limits(rooms, &outcome, (queue, &place), &standing, by_admin)?;
    Ok(Judged {
        queue,
        place,
        standing,
        time_limit: spec.time_limit,
    })
}

/// A quality of service that is only for jobs in reservations.
fn check_reserved(rooms: &Rooms, spec: &JobSpec, standing: &Standing) -> Result<(), Refusal> {
    let qos = standing
        .qos
        .as_deref()
        .and_then(|name| rooms.policy.qos(name));
    let wants = |row: &&QosRecord| row.flags.contains(&QosFlag::RequiresReservation);
    match qos.filter(wants).filter(|_| spec.reservation.is_none()) {
        Some(row) => {
            let why = format!(
                "quality of service {} is only for jobs in reservations: name one with --reservation",
                row.name
            );
            Err(Refusal::new(RefusalCode::AccessDenied, why).about(About::Qos))
        }
        None => Ok(()),
    }
}

/// The queue takes jobs of that account and of that quality of service, and its own is there.
///
/// # Errors
/// What it takes.
fn check_admitted(rooms: &Rooms, queue: QueueId, standing: &Standing) -> Result<(), Refusal> {
    let queue = rooms.queues.get(queue).spec();
    let admits = &queue.admits;
    let refused = |about, what: &str, name: &Option<String>, allow: &Option<Vec<String>>| {
        let name = name.as_deref().unwrap_or("none");
        let allowed = match allow {
            Some(names) => format!("those of {}", names.join(",")),
            None => "those of others".to_owned(),
        };
        let why = format!("queue {} takes no jobs of {what} {name}, but {allowed}", queue.name);
        Err(Refusal::new(RefusalCode::AccessDenied, why).about(about))
    };
    if !admits.account(standing.account.as_deref()) {
        return refused(About::Account, "account", &standing.account, &admits.allow_accounts);
    }
    if !admits.quality(standing.qos.as_deref()) {
        return refused(About::Qos, "quality of service", &standing.qos, &admits.allow_qos);
    }
    let own = admits.qos.as_ref().filter(|_| rooms.config.enforce.limits);
    match own.filter(|name| rooms.policy.qos(name).is_none()) {
        Some(name) => {
            let why = format!(
                "queue {} has the quality of service {name}, which is not there: an administrator can make it (cadm qos create {name})",
                queue.name
            );
            Err(Refusal::new(RefusalCode::AccessDenied, why).about(About::Qos))
        }
        None => Ok(()),
    }
}

/// The account and the quality of service that it gets. What is there already and is not changed
/// stays, whatever has been enforced since.
fn standing(
    rooms: &Rooms,
    caller: &Caller,
    outcome: &Outcome<'_>,
    queue: QueueId,
) -> Result<Standing, Refusal> {
    let (spec, owner) = (outcome.spec, outcome.owner);
    let queue = rooms.queues.name(queue);
    let as_before = |before: &Submitted| {
        let old = &before.spec;
        before.queue == queue && old.account == spec.account && old.qos == spec.qos
    };
    if outcome.before.is_some_and(as_before) {
        return Ok(Standing {
            account: spec.account.clone(),
            qos: spec.qos.clone(),
        });
    }
    let admin = is_administrator(&rooms.config, &rights_of(caller, owner));
    let books = rooms.reservations.books();
    let account = spec.account.as_deref();
    let asked = Asked {
        user: &owner.name,
        account,
        qos: spec.qos.as_deref(),
        queue,
        is_admin: admin,
        is_member: admin || account.is_some_and(|account| books.lists(account, owner)),
    };
    rooms.policy.standing(rooms.config.enforce, asked)
}

/// What only administrators may give, where the job has not got it already.
fn check_rights(
    config: &ClusterConfig,
    caller: &Caller,
    outcome: &Outcome<'_>,
) -> Result<(), Refusal> {
    let (spec, before) = (outcome.spec, outcome.before);
    let old = before.map(|before| &before.spec);
    let asked = |field| !caller.given.contains(&field);
    if asked(AdminField::Nice) && spec.nice < 0 && old.is_none_or(|old| old.nice != spec.nice) {
        require_admin(config, caller, "use a negative nice value")
            .map_err(|e| e.about(About::Priority))?;
    }
    let site = old.map_or(0, |old| old.site_factor);
    if asked(AdminField::SiteFactor) && spec.site_factor != site {
        require_admin(config, caller, "give a job points of the site")
            .map_err(|e| e.about(About::Priority))?;
    }
    let comment = &spec.admin_comment;
    let commented = asked(AdminField::AdminComment) && !comment.is_empty();
    if commented && old.is_none_or(|old| old.admin_comment != *comment) {
        require_admin(config, caller, "make an administrator's comment")?;
    }
    let raised = before.is_none_or(|before| {
        let number = |spec| order::priority(spec, before.base);
        before.spec.priority != spec.priority && number(spec) > number(&before.spec)
    });
    if asked(AdminField::Priority) && spec.priority.is_some() && raised {
        require_admin(config, caller, "give a job a priority")
            .map_err(|e| e.about(About::Priority))?;
    }
    Ok(())
}

/// The queue in which it would be, and whether its user may be in its reservation.
fn queue_of(
    config: &ClusterConfig,
    queues: &Queues,
    reservations: &Reservations,
    caller: &Caller,
    outcome: &Outcome<'_>,
) -> Result<QueueId, Refusal> {
    let Outcome { spec, before, .. } = *outcome;
    let stays = before.map(|before| before.queue.as_str());
    let Some(reservation) = spec.reservation else {
        return queues.find_queue(config, outcome.queue.or(stays));
    };
    // Who was let in stays in until it comes anew.
    let same = |before: &Submitted| {
        let old = &before.spec;
        outcome.queue.is_none_or(|queue| queue == before.queue)
            && (old.reservation, old.time_limit) == (spec.reservation, spec.time_limit)
    };
    if !outcome.enters && before.is_some_and(same) {
        return queues.find_queue(config, stays);
    }
    let rights = rights_of(caller, outcome.owner);
    let limit = spec.time_limit.filter(|_| !outcome.attached);
    check_inside(config, queues, reservations, &rights, reservation, outcome.queue, limit)
}

/// Whose rights count for a job: its user's, who may ask over a daemon that lessens them.
pub(crate) fn rights_of(caller: &Caller, owner: &User) -> Caller {
    if caller.user.uid == owner.uid {
        return caller.clone();
    }
    Caller::known(owner.clone())
}

/// Whether there is room for the jobs that come into queues.
fn check_counts(
    config: &ClusterConfig,
    queues: &Queues,
    jobs: &Jobs,
    caller: &Caller,
    outcome: &Outcome<'_>,
    queue: QueueId,
) -> Result<(), Refusal> {
    let Outcome {
        owner, jobs: count, ..
    } = *outcome;
    let mut coming = Coming::new();
    if outcome.enters {
        check_total(config, jobs, caller, outcome)?;
        coming = entering(config, queues, outcome.spec, queue);
    } else if outcome.before.map(|before| before.queue.as_str()) != Some(queues.name(queue)) {
        coming.insert(queue, 1);
    }
    for (id, components) in coming {
        let before = outcome.coming.get(&id).copied().unwrap_or(0);
        let rights = rights_of(caller, owner);
        may_submit(config, queues, &rights, id, components.saturating_mul(count) + before)?;
    }
    Ok(())
}

/// The queues that one job is counted in, and how often: each component of it counts.
pub(crate) fn entering(
    config: &ClusterConfig,
    queues: &Queues,
    spec: &JobSpec,
    queue: QueueId,
) -> Coming {
    let mut all = Coming::from([(queue, 1)]);
    let further = spec.components().skip(1);
    let further = further.filter_map(|own| queues.find_queue(config, own.queue).ok());
    further.for_each(|id| *all.entry(id).or_default() += 1);
    all
}

/// How many jobs there may be, of one user and in all. Administrators have a reserve.
fn check_total(
    config: &ClusterConfig,
    jobs: &Jobs,
    caller: &Caller,
    outcome: &Outcome<'_>,
) -> Result<(), Refusal> {
    let owner = outcome.owner;
    let components = outcome.spec.component_count();
    let before: usize = outcome.coming.values().sum();
    let come = outcome
        .jobs
        .saturating_mul(components)
        .saturating_add(before);
    let admin = is_administrator(config, &rights_of(caller, owner));
    let too_many = |why: String| Err(Refusal::new(RefusalCode::TooMany, why));
    let most = config.policy.max_jobs_per_user as usize;
    let mine = jobs.count_of(owner.uid) as usize;
    if !admin && most > 0 && mine + come > most {
        return too_many(format!(
            "user {} has {mine} jobs that wait or run and {come} would come: one user has at most {most} here; wait until some have ended, or make arrays smaller",
            owner.name
        ));
    }
    let all = config.policy.max_jobs as usize;
    let reserve = limits::JOBS_RESERVE.min(all / 10);
    let all = if admin { all } else { all - reserve };
    if jobs.len() + come > all {
        return too_many(format!(
            "{} jobs wait or run and {come} would come: all users together have at most {all} here; try again when some have ended",
            jobs.len()
        ));
    }
    Ok(())
}

/// Counts jobs in their queues and with their user, whatever they wait for.
pub(crate) fn count_in_queue(
    config: &ClusterConfig,
    queues: &mut Queues,
    jobs: &mut Jobs,
    submitted: &Submitted,
    count: u32,
) {
    let components = submitted.spec.component_count() as u32;
    jobs.count_up(submitted.uid, count * components);
    let Some(queue) = queues.queue_id(&submitted.queue) else {
        return;
    };
    for (id, components) in entering(config, queues, &submitted.spec, queue) {
        let come = count * components as u32;
        queues.get_mut(id).came(submitted.uid, come);
    }
}

/// A job is counted no longer.
pub(crate) fn leave_queue(
    config: &ClusterConfig,
    queues: &mut Queues,
    jobs: &mut Jobs,
    submitted: &Submitted,
) {
    let components = submitted.spec.component_count() as u32;
    jobs.count_down(submitted.uid, components);
    let Some(queue) = queues.queue_id(&submitted.queue) else {
        return;
    };
    for (id, components) in entering(config, queues, &submitted.spec, queue) {
        queues.get_mut(id).left(submitted.uid, components as u32);
    }
}
