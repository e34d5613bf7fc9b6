//! Who gets no guaranteed start: it starts in what others leave free.
//!
//! Jobs of a quality of service with `NoReserve`, and those whose priority is below the threshold of
//! their quality of service or association, as long as it is. Source: sacctmgr(1), `NoReserve`,
//! `MinPrioThreshold`.

use crate::jobs::job::Job;
use crate::policy::Policy;
use crate::policy::limits::rules::Rule;
use crate::queues::{Queues, order};
use crate::rooms::Rooms;
use cosy_model::policy::{LimitKind, QosFlag};

/// Why a job gets no guaranteed start.
#[derive(Debug)]
pub(crate) enum NoPlace<'a> {
    /// A quality of service gives none.
    Flag(&'a str),
    /// Its priority is that, below a threshold.
    Below(&'a Rule, i64),
}

/// Why a waiting job gets no guaranteed start; `None` where it gets one in its turn.
pub(crate) fn no_place<'a>(
    queues: &Queues,
    policy: &'a Policy,
    job: &'a Job,
) -> Option<NoPlace<'a>> {
    if !policy.may_deny_places() {
        return None; // asked of each job whose rank changes
    }
    let qos = job.spec().qos.as_deref().and_then(|name| policy.qos(name));
    if let Some(row) = qos.filter(|row| row.flags.contains(&QosFlag::NoReserve)) {
        return Some(NoPlace::Flag(&row.name));
    }
    let rule = threshold(policy, job)?;
    let priority = priority(queues, job)?;
    let below = u64::try_from(priority).is_ok_and(|priority| priority < rule.value);
    below.then_some(NoPlace::Below(rule, priority))
}

/// The threshold of priority that a job is under.
pub(crate) fn threshold<'a>(policy: &'a Policy, job: &Job) -> Option<&'a Rule> {
    let of = policy.counts().of(job.id())?;
    let mut all = of.rules.all.iter();
    all.find(|rule| rule.key.kind == LimitKind::MinPrioThreshold)
}

/// The number that users see, as it was when priorities were last looked at.
fn priority(queues: &Queues, job: &Job) -> Option<i64> {
    let submitted = job.submitted();
    let queue = queues.get(queues.id_of(&submitted.queue)?).spec();
    let scored = queues.scores().priority_at_mark(queue, job);
    Some(scored.unwrap_or_else(|| order::priority(job.spec(), submitted.base)))
}

/// What a waiting job is told of it.
pub(crate) fn line(rooms: &Rooms, job: &Job) -> Option<String> {
    let why = no_place(&rooms.queues, &rooms.policy, job).filter(|_| job.is_waiting())?;
    Some(match why {
        NoPlace::Flag(name) => format!(
            "it gets no guaranteed start: quality of service {name} gives none (NoReserve), so it starts in what others leave free"
        ),
        NoPlace::Below(rule, priority) => format!(
            "it gets no guaranteed start as long as its priority, {priority}, is below {} ({}: MinPrioThreshold)",
            rule.value, rule.of
        ),
    })
}
