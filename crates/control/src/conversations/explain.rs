//! Lists that are asked for, and why a job waits. A user sees what is theirs; administrators see
//! everything.

use crate::config::ClusterConfig;
use crate::conversations::listing::{Answering, ListRequest};
use crate::conversations::plans::Starts;
use crate::event::{Caller, ClientId};
use crate::jobs::job::{Job, Phase, Place};
use crate::jobs::switches::first_until;
use crate::machine::Machine;
use crate::planning::Planning;
use crate::planning::late_starts::told_cut;
use crate::planning::pools::PoolOf;
use crate::planning::pools::procedures::licenses_at;
use crate::reservations::Reservations;
use crate::reservations::inside::kept::license_kept;
use crate::reservations::inside::procedures::planner_for;
use cosy_model::api::{JobField, JobFilter};
use cosy_model::{Span, Time, WaitReason};
use cosy_view::job::{LicenseShortage, Waiting, why};

/// A list as it is asked for.
pub(crate) fn list_of(
    client: ClientId,
    caller: Box<Caller>,
    filter: JobFilter,
    fields: Vec<JobField>,
    fold: bool,
    starts: Option<Starts>,
) -> ListRequest {
    let answering = Answering::List {
        pages: filter.pages,
        after: filter.after,
    };
    ListRequest {
        client,
        caller,
        filter,
        fields,
        fold,
        starts,
        answering,
    }
}

/// Why a job waits, or has not gone on yet.
pub(crate) fn reason(
    machine: &Machine,
    planning: &Planning,
    reservations: &Reservations,
    now: Time,
    job: &Job,
) -> Option<WaitReason> {
    match &job.phase() {
        // It runs on as soon as it has its cores again.
        Phase::Run(run) => run.is_resuming().then_some(WaitReason::Resources),
        Phase::Waiting(Some(reason)) => Some(reason.clone()),
        Phase::Waiting(None) => Some(planner_reason(machine, planning, reservations, now, job)),
    }
}

/// What the planner says; it does not know that some nodes have not told yet what
/// they have.
pub(crate) fn planner_reason(
    machine: &Machine,
    planning: &Planning,
    reservations: &Reservations,
    now: Time,
    job: &Job,
) -> WaitReason {
    let reason = planner_for(planning, reservations, job.id()).why(now, job.id());
    let reason = reason.unwrap_or(WaitReason::Priority);
    let untold = || match &job.submitted().place {
        Place::Good { demand, .. } => {
            let mut nodes = demand.iter().flat_map(|component| component.allowed.iter());
            nodes.any(|n| !machine.node(n).known())
        }
        Place::Lost | Place::Beyond { .. } => false,
    };
    if reason == WaitReason::NeverFits && untold() {
        return WaitReason::NodesUnavailable;
    }
    reason
}

/// The licence for which a job waits, if for one. A reservation's planner knows only of what is left
/// to it: what jobs outside of the reservation hold is added, so that figures are of the cluster.
fn license_shortage<'a>(
    config: &ClusterConfig,
    planning: &'a Planning,
    reservations: &Reservations,
    now: Time,
    job: &Job,
) -> Option<LicenseShortage<'a>> {
    let short = planner_for(planning, reservations, job.id()).pool_shortage(now, job.id())?;
    let PoolOf::License(name) = planning.pools().of(short.pool)?;
    let total = u64::from(licenses_at(config, now, name));
    let known = planning.cluster().pool_use(now, short.pool);
    let here = known.and_then(|pool| pool.capacity).unwrap_or(total);
    let elsewhere = here.saturating_sub(short.capacity);
    let own = planning.inside(job.id());
    let (kept, of_these) = license_kept(planning, reservations, name, own);
    let kept = u64::from(kept.saturating_sub(of_these));
    let taken = short.held.saturating_add(elsewhere);
    Some(LicenseShortage {
        name,
        total,
        used: taken.saturating_sub(kept),
        kept: kept.min(taken),
        outside: total.saturating_sub(here),
        wanted: short.wanted,
    })
}

/// That it is kept to a number of switches, and for how long still.
fn kept_to_switches(config: &ClusterConfig, now: Time, job: &Job) -> Option<String> {
    let (until, most) = first_until(job, job.eligible()?, config.policy.max_switch_wait)?;
    let still = until.since(now).max(Span::ZERO);
    let switches = if most == 1 { "switch" } else { "switches" };
    Some(format!(
        "it gets nodes on no more than {most} {switches} for {still} more, then on any number: 'cosy change --switches 0' makes it so now"
    ))
}

/// Sentences about a job that has not ended. `place`: its place among all that wait, from 1.
pub(crate) fn lines(
    config: &ClusterConfig,
    machine: &Machine,
    planning: &Planning,
    reservations: &Reservations,
    now: Time,
    job: &Job,
    (starts, place, limit): (&Starts, Option<i64>, Option<&str>),
) -> Vec<String> {
    let mut first = Vec::new();
    if job.spec().attended {
        first.push("it is interactive: it ends when its command goes".to_owned());
    } else if job.submitted().is_held() {
        first
            .push("it is an allocation: steps are started in it until it is given back".to_owned());
    }
    first.extend(told_cut(job));
    let Phase::Waiting(reason) = &job.phase() else {
        return first;
    };
    let reason = reason
        .clone()
        .unwrap_or_else(|| planner_reason(machine, planning, reservations, now, job));
    let short = license_shortage(config, planning, reservations, now, job);
    let line = why(
        &reason,
        Waiting {
            spec: job.spec(),
            queue: &job.submitted().queue,
            before: place.map(|place| place - 1),
            interactive_per_user: config.policy.interactive_per_user,
            license: short.filter(|_| reason == WaitReason::Licenses),
            limit,
        },
    );
    let mut lines = first;
    lines.push(line);
    lines.extend(kept_to_switches(config, now, job));
    lines.extend(reservations.delay_lines(job.id()));
    if let Some(prediction) = starts.get(&job.id())
        && prediction.start.is_none()
    {
        lines.push("no start can be predicted".to_owned());
    }
    lines
}
