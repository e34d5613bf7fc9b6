//! What Slurm says when something is refused, and with which exit code: tools match these
//! sentences literally.
//!
//! Knows nothing of how a refusal came about. Source: captures of 22.05.

use cosy_model::{About, Refusal, RefusalCode};

/// A component of a heterogeneous job cannot be dealt with alone.
pub const NOT_A_COMPONENT: &str =
    "Operation not permitted on individual component of heterogeneous job";
/// A job id that nobody knows.
pub const NO_JOB: &str = "Invalid job id specified";
/// Somebody else's object.
pub const NOT_YOURS: &str = "Invalid user id";
/// Something that only administrators may do.
pub const DENIED: &str = "Access/permission denied";
/// A queue that does not exist.
pub const NO_PARTITION: &str = "Invalid partition name specified";
/// A job waits in a partition that starts none.
pub const PARTITION_IS_DOWN: &str = "Partition in DOWN state";
/// A partition with jobs is to be deleted.
pub const PARTITION_IN_USE: &str = "Partition is in use";
/// A node that does not exist.
pub const NO_NODE: &str = "Invalid node name specified";
/// A node that cannot be taken into that state.
pub const NODE_STATE: &str = "Invalid node state specified";
/// More than the queue allows.
pub const PARTITION_LIMIT: &str = "Requested partition configuration not available now";
/// More than the machine has.
pub const NODE_CONFIG: &str = "Requested node configuration is not available";
/// A number of nodes that cannot be.
pub const NODE_COUNT: &str = "Node count specification invalid";
/// A feature that no node has.
pub const NO_FEATURE: &str = "Invalid feature specification";
/// No node has a feature that is preferred.
pub const NO_PREFERENCE: &str = "Invalid preferred feature specification";
/// A queue that takes no jobs.
pub const PARTITION_DOWN: &str = "Required partition not available (inactive or drain)";
/// A job that waits already.
pub const PENDING: &str = "Job is pending execution";
/// A job that has ended.
pub const FINISHED: &str = "Job has already finished";
/// A job that does not wait any more.
pub const RUNNING: &str = "Job is no longer pending execution";
/// What the job's owner has forbidden.
pub const DISABLED: &str = "Requested operation is presently disabled";
/// No way to the controller.
pub const NO_CONTROLLER: &str = "Unable to contact slurm controller (connect failure)";
/// A reservation that does not exist, or cannot be.
pub const NO_RESERVATION: &str = "Requested reservation is invalid";
/// A reservation's nodes that are taken.
pub const NODES_BUSY: &str = "Requested nodes are busy";
/// A reservation's name that is taken.
pub const RESERVATION_NAME: &str = "Duplicate reservation name";
/// A reservation in the way of another.
pub const RESERVATION_OVERLAP: &str = "Requested reservation overlaps with another reservation";
/// A signal for a job that has not begun.
pub const TRANSITION: &str = "Job can not be altered now, try again later";
/// A job that was ended before.
pub const COMPLETED: &str = "Job/step already completing or completed";
/// A controller of another release.
pub const VERSION: &str = "Incompatible versions of client and server code";
/// What the daemons themselves refuse.
pub const NO_PERMISSION: &str = "Permission denied";
/// There is no second controller that could take over.
pub const NO_BACKUP: [&str; 3] = [
    "scontrol: error: slurm_get_port: Address family '0' not supported",
    "scontrol: error: Error connecting, bad data: family = 0, port = 0",
    "slurm_takeover error: Unable to contact slurm controller (connect failure)",
];
/// A time limit that cannot be.
pub const TIME_LIMIT: &str = "Requested time limit is invalid (missing or exceeds some limit)";
/// What is told of tasks of an array with which nothing is wrong.
pub const NO_ERROR: &str = "No error";
/// A priority from somebody who may not give one.
pub const NOT_PERSISTENT: &str = "Changes to job priority are not persistent, change nice instead";
/// A priority for a job that is held.
pub const HELD: &str = "Job is in held state, pending scheduler release";
/// An account that the user is not in. Source: what 22.05 prints.
pub const NO_ACCOUNT: &str = "Invalid account or account/partition combination specified";
/// A quality of service that the user may not have. Source: what 22.05 prints.
pub const NO_QOS: &str = "Invalid qos specification";
/// Where no sentence of Slurm's fits.
pub const UNSPECIFIED: &str = "Unspecified error";

/// The sentence of an error number; Slurm gives the number back when it has none.
pub fn of_number(text: &str) -> String {
    let known = text.parse().ok().and_then(crate::error_numbers::sentence);
    known.map_or_else(
        || format!("Unknown error {}", text.chars().take(20).collect::<String>()),
        str::to_owned,
    )
}

/// Slurm's sentence for a refused job: that of the number that a script of the site gave, if it
/// gave one.
pub fn about_refused(refusal: &Refusal) -> &'static str {
    let named = refusal
        .slurm_number
        .and_then(crate::error_numbers::sentence);
    named.unwrap_or(about_job(refusal.code))
}

/// Slurm's sentence for a refusal about a job.
pub const fn about_job(code: RefusalCode) -> &'static str {
    match code {
        RefusalCode::NotFound => NO_JOB,
        RefusalCode::Forbidden | RefusalCode::AccessDenied => DENIED,
        RefusalCode::QueueLimit => PARTITION_LIMIT,
        RefusalCode::NeverFits => NODE_CONFIG,
        RefusalCode::QueueClosed => PARTITION_DOWN,
        RefusalCode::WrongState => FINISHED,
        RefusalCode::Unavailable => "Slurm temporarily unable to accept job, sleeping and retrying",
        RefusalCode::Standby => NO_CONTROLLER,
        RefusalCode::DirectoryDown => "Slurm backend database or directory does not answer",
        RefusalCode::Version => VERSION,
        RefusalCode::TooMany => {
            "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
        }
        RefusalCode::NotFree => NODES_BUSY,
        RefusalCode::Invalid | RefusalCode::Admission | RefusalCode::Price => UNSPECIFIED,
    }
}

/// Slurm's sentence for a refused change of a job, as far as the refusal says what it is
/// about.
pub const fn about_change(about: About) -> Option<&'static str> {
    match about {
        About::License => Some("Invalid license specification"),
        About::Account => Some(NO_ACCOUNT),
        About::Qos => Some(NO_QOS),
        About::Feature => Some(NO_FEATURE),
        About::Preference => Some(NO_PREFERENCE),
        About::Node => Some(NO_NODE),
        About::NodeCount => Some(NODE_COUNT),
        About::Tasks | About::Cores | About::Memory | About::Disk => Some(NODE_CONFIG),
        About::Gres => Some("Invalid generic resource (gres) specification"),
        About::Queue => Some(NO_PARTITION),
        About::Dependency => Some("Job dependency problem"),
        About::Reservation => Some(NO_RESERVATION),
        About::TimeLimit => Some(TIME_LIMIT),
        About::Deadline => Some("Requested deadline is invalid"),
        About::Array => Some("Invalid job array specification"),
        About::Waiting => Some(PENDING),
        About::Running => Some(RUNNING),
        About::Held => Some(HELD),
        About::Requeue => Some(DISABLED),
        About::Ended => Some(FINISHED),
        About::Priority | About::Suspended | About::Trigger => None,
    }
}

/// Slurm's sentence for a refusal about a reservation.
pub const fn about_reservation(code: RefusalCode) -> &'static str {
    match code {
        RefusalCode::NotFound => NO_RESERVATION,
        RefusalCode::Forbidden | RefusalCode::AccessDenied => NOT_YOURS,
        RefusalCode::NeverFits | RefusalCode::NotFree | RefusalCode::QueueLimit => NODES_BUSY,
        RefusalCode::QueueClosed => PARTITION_DOWN,
        RefusalCode::WrongState | RefusalCode::Invalid => NO_RESERVATION,
        RefusalCode::Admission | RefusalCode::Price => DENIED,
        RefusalCode::Unavailable
        | RefusalCode::Standby
        | RefusalCode::DirectoryDown
        | RefusalCode::Version
        | RefusalCode::TooMany => about_job(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences() {
        let check = |code, job, reservation| {
            assert_eq!((about_job(code), about_reservation(code)), (job, reservation));
        };
        check(RefusalCode::NotFound, NO_JOB, NO_RESERVATION);
        check(RefusalCode::Forbidden, DENIED, NOT_YOURS);
        check(RefusalCode::NotFree, NODES_BUSY, NODES_BUSY);
    }
}
