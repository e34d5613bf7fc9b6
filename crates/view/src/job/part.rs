//! Where each field stands when one job is told to a person: first what is asked of it, then what
//! was asked for, and the rest only to who wants everything.

use cosy_model::api::JobField;

/// A part of what is told of one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// State, why, when, where, what was used: told in lines that are made of several fields.
    Front,
    /// What was asked for, a line for each field that says something.
    Asked,
    /// Told only with everything.
    Rest,
}

/// The part in which a field is told.
pub const fn part(field: JobField) -> Part {
    use JobField as F;
    match field {
        F::Id | F::Ref | F::Name | F::User | F::State | F::Reason | F::Place => Part::Front,
        F::Submit | F::Start | F::End | F::PredictedStart | F::LatestEnd => Part::Front,
        F::Elapsed | F::Begin | F::SuspendedSince => Part::Front,
        F::Queue | F::Nodes | F::Reservation | F::Stdout => Part::Front,
        F::ExitCode | F::Signal | F::UserCpu | F::SystemCpu | F::PeakMemory => Part::Front,
        F::Energy | F::GpuBusy | F::GpuMemory => Part::Front,
        F::FailedNodes | F::Spares => Part::Front,
        // How much, in one line.
        F::NodeCount | F::Tasks | F::Cores | F::MemoryPerNode | F::Gpus => Part::Front,
        F::TimeLimit | F::TimeMin | F::Deadline | F::Account | F::Qos => Part::Asked,
        F::MaxNodes | F::TasksPerNode | F::CoresPerTask | F::MemoryPerCore | F::MinDisk => {
            Part::Asked
        }
        F::Gres | F::Licenses | F::Exclusive | F::Oversubscribe | F::Contiguous => Part::Asked,
        F::Features | F::Constraint | F::Prefer | F::Avoid | F::Require | F::Sets => Part::Asked,
        F::MaxSwitches | F::SwitchWait | F::Segment => Part::Asked,
        F::Queues | F::Dependencies | F::ArraySpecText | F::ArrayAtOnce => Part::Asked,
        F::Command | F::Workdir | F::Stderr | F::Stdin => Part::Asked,
        F::Comment | F::AdminComment | F::Nice | F::Requeue => Part::Asked,
        F::MailTypes | F::MailTo | F::Warn | F::Mpi | F::Components => Part::Asked,
        F::ArrayId | F::ArrayTask | F::Uid | F::Gid | F::Eligible | F::Allocated => Part::Rest,
        F::Attempt | F::Restarts | F::Wckey | F::SubmitHost | F::SubmitSession => Part::Rest,
        F::SubmitLine | F::Dialect | F::MinMemoryPerNode | F::MinNodes | F::AskedTasks => {
            Part::Rest
        }
        F::Apart | F::BatchHost | F::DerivedExitCode | F::DerivedSignal | F::Batch => Part::Rest,
        F::Priority | F::PriorityFactors | F::HeldBy | F::DependencyText => Part::Rest,
        F::TasksByNode | F::CoresByNode | F::CoreIds | F::GpuIds => Part::Rest,
        F::Rlimits | F::OpenMode | F::Umask | F::SuspendedFor | F::Resized => Part::Rest,
        F::PreemptTime | F::PreemptEligible | F::Attended | F::EndIfNever => Part::Rest,
        F::Component => Part::Rest,
    }
}

/// Whether a number of a field is what every job has that does not ask for anything else: it is
/// told only with everything.
pub const fn is_usual(field: JobField, number: i64) -> bool {
    match field {
        JobField::Requeue | JobField::CoresPerTask => number == 1,
        _ => number == 0,
    }
}
