//! Why a job waits, in a sentence.

use crate::words::{counted, dependency};
use cosy_model::{JobSpec, WaitReason};

/// What a sentence about a waiting job may name.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// What was asked for.
    pub spec: &'a JobSpec,
    /// Queue that it is in.
    pub queue: &'a str,
    /// Number of jobs that come before it.
    pub before: Option<i64>,
    /// Interactive jobs of one user that may run at once.
    pub interactive_per_user: u32,
    /// The licence of which too little is free for it.
    pub license: Option<LicenseShortage<'a>>,
    /// The limit for which it waits, with level, use and request.
    pub limit: Option<&'a str>,
}

/// A licence of which too little is free.
#[derive(Clone, Copy, Debug)]
pub struct LicenseShortage<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many there are.
    pub total: u64,
    /// How many jobs have.
    pub used: u64,
    /// How many more reservations keep for jobs inside.
    pub kept: u64,
    /// How many are in use outside of the cluster, as an administrator has told.
    pub outside: u64,
    /// How many are wanted.
    pub wanted: u64,
}

impl LicenseShortage<'_> {
    fn told(&self) -> String {
        let Self {
            name,
            total,
            used,
            kept,
            outside,
            wanted,
        } = self;
        let others = match outside {
            0 => String::new(),
            _ => format!(" and {outside} outside of the cluster"),
        };
        let kept_too = match kept {
            0 => String::new(),
            _ => format!(", {kept} are kept for reservations"),
        };
        let have = format!(
            "of the {total} licences '{name}' {used} are in use{others}{kept_too}, and it wants {wanted}"
        );
        let taken = used.saturating_add(*kept).saturating_add(*outside);
        match wanted.saturating_add(taken) <= *total {
            // What is free now is kept: for a reservation, or somebody's guaranteed start.
            true => {
                format!("{have}; those that are free are kept for others before it would be over")
            }
            false => have,
        }
    }
}

/// What is the matter with nodes.
const fn of_nodes(reason: &WaitReason) -> &'static str {
    match reason {
        WaitReason::NodesOff => {
            "nodes that it is to have are switched off or come up; they are switched on in time"
        }
        _ => "nodes that it needs are down, drained or not connected",
    }
}

/// Why it waits.
pub fn why(reason: &WaitReason, waiting: Waiting<'_>) -> String {
    let Waiting {
        spec,
        queue,
        before,
        interactive_per_user,
        license,
        limit,
    } = waiting;
    match reason {
        WaitReason::Fresh => "it is looked at in the next pass".to_owned(),
        WaitReason::Resources => format!(
            "it is the first in line of those that need what is in use now; it starts as soon as enough is free in queue {queue}"
        ),
        WaitReason::Priority => match before {
            Some(n) => format!(
                "{n} waiting jobs come before it, and starting it now could delay the first of them"
            ),
            None => "other jobs come before it".to_owned(),
        },
        WaitReason::Dependency => {
            format!("it waits for other jobs: {}", dependency::all(spec))
        }
        WaitReason::DependencyNever => format!(
            "what it waits for can no longer happen ({}): cancel it or change its dependencies",
            dependency::all(spec)
        ),
        WaitReason::BeginTime => "its begin time has not come".to_owned(),
        WaitReason::HeldByUser
        | WaitReason::HeldByAdmin
        | WaitReason::HeldRequeued
        | WaitReason::HeldSpecial
        | WaitReason::HeldRestored
        | WaitReason::HeldLosses => of_hold(reason).to_owned(),
        WaitReason::QueueTimeLimit => {
            format!("its time limit is more than queue {queue} allows")
        }
        WaitReason::QueueNodeLimit => {
            format!("it asks for more nodes than queue {queue} has or allows")
        }
        WaitReason::QueueLimits => format!("it asks for more than queue {queue} allows"),
        WaitReason::QueueClosed => format!("queue {queue} is closed: it starts no jobs now"),
        WaitReason::ArrayLimit => "as many tasks of its array run as may run at once".to_owned(),
        WaitReason::InteractiveLimit => format!(
            "as many interactive jobs of its user run as may run at once ({interactive_per_user})"
        ),
        WaitReason::NodesUnavailable | WaitReason::NodesOff => of_nodes(reason).to_owned(),
        WaitReason::Reservation => "an accepted reservation is in the way".to_owned(),
        WaitReason::ReservationStart => "its reservation has not begun".to_owned(),
        WaitReason::ReservationGone => RESERVATION_GONE.to_owned(),
        WaitReason::Directory => {
            "the directory service does not tell the user's groups; it is asked again and again"
                .to_owned()
        }
        WaitReason::Licenses => of_licenses(spec, license),
        WaitReason::AccountInvalid
        | WaitReason::AccountNotAllowed
        | WaitReason::QosInvalid
        | WaitReason::QosNotAllowed
        | WaitReason::Limit(_) => of_policy(reason, spec, (queue, limit)),
        WaitReason::Deadline => "it cannot be over at its deadline".to_owned(),
        WaitReason::NeverFits => {
            format!("queue {queue} as configured now can never run it: change it or cancel it")
        }
    }
}

const RESERVATION_GONE: &str =
    "its reservation is over or was given back: change its reservation or cancel it";

/// Who holds it, and how it is let go.
const fn of_hold(reason: &WaitReason) -> &'static str {
    match reason {
        WaitReason::HeldByUser => "it is held by its user: 'cosy release' lets it go",
        WaitReason::HeldRestored => {
            "the controller's store was restored from an old copy: it may have run since. Look at its output, then 'cosy release' lets it run, and 'cosy cancel' ends it"
        }
        WaitReason::HeldLosses => {
            "nodes were lost under it too often (max_requeues), so it may be what they fail of: 'cosy release' lets it run once more, 'cosy cancel' ends it"
        }
        WaitReason::HeldRequeued | WaitReason::HeldSpecial => {
            "it was put back into the queue and is held: 'cosy release' lets it go"
        }
        _ => "it is held by an administrator",
    }
}

/// Which licence it waits for, as far as that is known.
fn of_licenses(spec: &JobSpec, license: Option<LicenseShortage<'_>>) -> String {
    match license {
        Some(license) => license.told(),
        None => format!("licences that it needs are in use ({})", counted::write(&spec.licenses)),
    }
}

/// What of accounts, qualities of service and limits it waits for.
fn of_policy(reason: &WaitReason, spec: &JobSpec, (queue, limit): (&str, Option<&str>)) -> String {
    let account = spec.account.as_deref().unwrap_or("(none)");
    let qos = spec.qos.as_deref().unwrap_or("");
    match reason {
        WaitReason::AccountInvalid => format!(
            "its user is not in account {account}: an administrator can put the user into it, or change the job's account"
        ),
        WaitReason::AccountNotAllowed => {
            format!("queue {queue} takes no jobs of account {account}")
        }
        WaitReason::QosInvalid => format!(
            "its user in account {account} may not have quality of service '{qos}' any more: change the job's ('cosy change --qos'), or an administrator can allow it again"
        ),
        WaitReason::QosNotAllowed => {
            format!("queue {queue} takes no jobs of quality of service '{qos}'")
        }
        hit => match limit {
            Some(limit) => format!("it would be beyond a limit: {limit}"),
            None => format!("it would be beyond a limit ({})", hit.word()),
        },
    }
}
