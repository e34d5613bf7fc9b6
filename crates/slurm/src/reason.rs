//! Why a job waits, in Slurm's words. Source: squeue(1), "JOB REASON CODES".

use cosy_model::WaitReason;

/// Slurm's word for a reason to wait, as in `squeue -o %r`.
///
/// Two have no counterpart: a directory service that does not answer is told as
/// `SystemFailure`, a reservation in the way as `Resources` (Slurm's `Reservation` means
/// that the job waits for its own).
pub const fn reason(reason: &WaitReason) -> &'static str {
    match reason {
        WaitReason::Fresh => "None",
        WaitReason::Resources | WaitReason::Reservation => "Resources",
        WaitReason::ReservationStart => "Reservation",
        WaitReason::ReservationGone => "ReservationDeleted",
        WaitReason::Priority => "Priority",
        WaitReason::Dependency => "Dependency",
        WaitReason::DependencyNever => "DependencyNeverSatisfied",
        WaitReason::BeginTime => "BeginTime",
        WaitReason::HeldByUser => "JobHeldUser",
        WaitReason::HeldByAdmin => "JobHeldAdmin",
        WaitReason::QueueClosed => "PartitionInactive",
        WaitReason::ArrayLimit => "JobArrayTaskLimit",
        WaitReason::NodesUnavailable => "ReqNodeNotAvail",
        WaitReason::Directory => "SystemFailure",
        WaitReason::NeverFits => "BadConstraints",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let check = |ours, want| assert_eq!(reason(&ours), want);
        check(WaitReason::HeldByUser, "JobHeldUser");
        check(WaitReason::DependencyNever, "DependencyNeverSatisfied");
        check(WaitReason::ArrayLimit, "JobArrayTaskLimit");
    }
}
