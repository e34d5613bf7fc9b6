//! Why a job waits, in Slurm's words. Source: squeue(1), "JOB REASON CODES".

use crate::limit_reason;
use cosy_model::WaitReason;

/// Slurm's word for a reason to wait, as in `squeue -o %r`.
///
/// Two have no counterpart: a directory service that does not answer is told as
/// `SystemFailure`, a reservation in the way as `Resources` (Slurm's `Reservation` means
/// that the job waits for its own).
pub fn reason(reason: &WaitReason) -> &'static str {
    match reason {
        WaitReason::Fresh => "None",
        WaitReason::Resources | WaitReason::Reservation | WaitReason::NodesOff => "Resources",
        WaitReason::ReservationStart => "Reservation",
        WaitReason::ReservationGone => "ReservationDeleted",
        WaitReason::Priority => "Priority",
        WaitReason::Dependency => "Dependency",
        WaitReason::DependencyNever => "DependencyNeverSatisfied",
        WaitReason::BeginTime => "BeginTime",
        WaitReason::HeldByUser | WaitReason::HeldRestored => "JobHeldUser",
        WaitReason::HeldByAdmin => "JobHeldAdmin",
        WaitReason::QueueClosed => "PartitionInactive",
        WaitReason::ArrayLimit => "JobArrayTaskLimit",
        WaitReason::InteractiveLimit => "QOSMaxJobsPerUserLimit",
        WaitReason::NodesUnavailable => "ReqNodeNotAvail",
        WaitReason::Directory => "SystemFailure",
        WaitReason::NeverFits => "BadConstraints",
        WaitReason::Licenses => "Licenses",
        WaitReason::Deadline => "DeadLine",
        WaitReason::HeldRequeued | WaitReason::HeldSpecial => "job requeued in held state",
        WaitReason::HeldLosses => "JobHoldMaxRequeue",
        WaitReason::QueueTimeLimit => "PartitionTimeLimit",
        WaitReason::QueueNodeLimit => "PartitionNodeLimit",
        WaitReason::QueueLimits => "PartitionConfig",
        WaitReason::AccountInvalid => "InvalidAccount",
        WaitReason::AccountNotAllowed => "AccountNotAllowed",
        WaitReason::QosInvalid => "InvalidQOS",
        WaitReason::QosNotAllowed => "QOSNotAllowed",
        WaitReason::Limit(hit) => limit_reason::reason(hit),
    }
}

/// Slurm's word for one of ours ([`WaitReason::word`]); `None` for a word that is none.
pub fn of_word(word: &str) -> Option<&'static str> {
    WaitReason::of_word(word).as_ref().map(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_again() {
        for ours in WaitReason::ALL {
            assert_eq!(of_word(&ours.word()), Some(reason(ours)));
        }
        assert_eq!(of_word("held_by_user"), Some("JobHeldUser"));
        assert_eq!(of_word("nonsense"), None);
    }

    #[test]
    fn words() {
        let check = |ours, want| assert_eq!(reason(&ours), want);
        check(WaitReason::HeldByUser, "JobHeldUser");
        check(WaitReason::DependencyNever, "DependencyNeverSatisfied");
        check(WaitReason::ArrayLimit, "JobArrayTaskLimit");
    }
}
