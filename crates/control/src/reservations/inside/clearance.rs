//! Until when jobs inside may run: the end of the reservation, less the time to clear its nodes.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::jobs::run::Run;
use crate::machine::Machine;
use crate::planning::Planning;
use crate::reservations::{Reservation, Reservations};
use cosy_model::{Amounts, JobId, NodeShare, Span, Time};
use cosy_sched::Block;

/// When the jobs inside get their SIGTERM: so early that even with force they are over
/// by the reservation's end.
pub(crate) fn last_call(config: &ClusterConfig, reservation: &Reservation) -> Time {
    last_call_of(config, reservation.row.end, reservation.length())
}

/// The same of one with that end and length.
pub(crate) fn last_call_of(config: &ClusterConfig, end: Time, length: Span) -> Time {
    let grace = config.policy.grace.ms();
    end - Span(grace.min(length.ms() / 10))
}

/// The limit of an attempt that begins now.
pub(crate) fn limit_from(
    config: &ClusterConfig,
    jobs: &Jobs,
    planning: &Planning,
    reservations: &Reservations,
    now: Time,
    id: JobId,
) -> Span {
    let Some(job) = jobs.get(&id) else {
        return Span::UNLIMITED;
    };
    let limit = job.submitted().place.limit();
    let left = job
        .spec()
        .deadline
        .map(|deadline| deadline.since(now).max(Span(1)));
    let limit = limit.min(left.unwrap_or(limit));
    let within = planning.inside(id);
    match within.and_then(|r| reservations.get(r)) {
        Some(reservation) => {
            let left = last_call(config, reservation).since(now).max(Span(1));
            limit.min(left)
        }
        None => limit,
    }
}

/// How long the planner counts on a job of that limit to hold its nodes.
pub(crate) fn with_clearance(config: &ClusterConfig, limit: Span) -> Span {
    limit + config.policy.clearance
}

/// Until when the planner that has a running job counts on it to hold its nodes: the
/// force that may be needed at the end is in it. Inside of a reservation that comes
/// before the reservation's own end, and is kept free there.
pub(crate) fn holds_until(
    config: &ClusterConfig,
    planning: &Planning,
    id: JobId,
    run: &Run,
) -> Time {
    match planning.is_inside(id) {
        true => run.planned_end(),
        false => with_clearance_after(config, run.planned_end()),
    }
}

/// When even force has ended a job whose time is over then.
pub(crate) fn with_clearance_after(config: &ClusterConfig, end: Time) -> Time {
    end + config.policy.clearance
}

/// What keeps jobs that name their limit from starting too late.
pub(crate) fn closing(config: &ClusterConfig, reservation: &Reservation) -> Block {
    Block {
        reservation: reservation.row.id,
        shares: reservation.shares.clone(),
        start: last_call(config, reservation),
        end: Time::FAR,
        holds: Vec::new(),
    }
}

/// True when a node takes jobs and nobody from outside holds the reserved share.
pub(crate) fn is_clear(
    machine: &Machine,
    jobs: &Jobs,
    planning: &Planning,
    reservation: &Reservation,
    share: &NodeShare,
) -> bool {
    let node = machine.node(share.node);
    if !node.takes_jobs() {
        return false;
    }
    let mut outside = Amounts::default();
    for job in node.jobs().iter().filter_map(|id| jobs.get(id)) {
        let own = planning.inside(job.id()) == Some(reservation.row.id);
        let part = job.run().and_then(|run| run.part(share.node));
        if let Some(part) = part.filter(|_| !own) {
            outside.give(part.held());
        }
    }
    outside.give(&share.amounts);
    outside.fits(node.amounts())
}
