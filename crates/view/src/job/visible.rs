//! What of somebody's job others are told, where the cluster tells them anything (`visibility =
//! "all"`): states, sizes and times, which tell how full the machine is, who has it and when it
//! will be free. What a user has written or chosen freely (names, commands, comments, files,
//! addresses, accounts), what a job has used and how it came out is nobody else's.
//!
//! What is not told cannot be asked for either: conditions on such fields fit no job of others.

use cosy_model::api::JobField as F;
use cosy_model::api::{JobField, JobFilter};

/// Whether a list asks for jobs by what others are not told of them.
pub const fn asks_private(filter: &JobFilter) -> bool {
    let JobFilter {
        ids: _,
        users: _,
        queues: _,
        names,
        accounts,
        states: _,
        nodes: _,
        since: _,
        until: _,
        most: _,
        earlier_runs: _,
        pages: _,
        after: _,
    } = filter;
    !names.is_empty() || !accounts.is_empty()
}

/// Whether a field is among what others are told of a job; `over`: it has ended.
pub const fn is_told_to_others(field: JobField, over: bool) -> bool {
    match field {
        // Who, where, and how it stands.
        JobField::Id
        | JobField::Ref
        | JobField::ArrayId
        | JobField::ArrayTask
        | JobField::ArraySpecText
        | JobField::ArrayAtOnce
        | JobField::Component
        | JobField::Components
        | JobField::User
        | JobField::Uid
        | JobField::Gid
        | JobField::Queue
        | JobField::Queues
        | JobField::State
        | JobField::HeldBy
        | JobField::Place
        | JobField::Priority
        | JobField::PriorityFactors
        | JobField::Nice
        | JobField::Attempt
        | JobField::Restarts
        | JobField::Apart
        | JobField::Requeue
        | JobField::Reservation
        | JobField::Attended
        | JobField::Batch
        | JobField::Dialect => true,
        // A word of a waiting job; of one that is over what went wrong, with its files.
        JobField::Reason => !over,
        // Sizes and times.
        JobField::NodeCount
        | JobField::Nodes
        | JobField::BatchHost
        | JobField::Tasks
        | JobField::Cores
        | JobField::MemoryPerNode
        | JobField::Gpus
        | JobField::Gres
        | JobField::TasksPerNode
        | JobField::CoresPerTask
        | JobField::MemoryPerCore
        | JobField::MinMemoryPerNode
        | JobField::MinDisk
        | JobField::MinNodes
        | JobField::MaxNodes
        | JobField::AskedTasks
        | JobField::Exclusive
        | JobField::Oversubscribe
        | JobField::TasksByNode
        | JobField::CoresByNode
        | JobField::Submit
        | JobField::Eligible
        | JobField::Begin
        | JobField::Allocated
        | JobField::Start
        | JobField::End
        | JobField::PredictedStart
        | JobField::LatestEnd
        | JobField::Elapsed
        | JobField::TimeLimit
        | JobField::TimeMin
        | JobField::Deadline
        | JobField::Resized => true,
        JobField::SuspendedFor | JobField::SuspendedSince | JobField::FailedNodes => true,
        JobField::PreemptTime | JobField::PreemptEligible | JobField::Spares => true,
        F::Contiguous | F::MaxSwitches | F::SwitchWait | F::Segment => true,
        // What its user has written, and who pays.
        JobField::Name
        | JobField::Account
        | JobField::Qos
        | JobField::Wckey
        | JobField::Comment
        | JobField::AdminComment
        | JobField::Command
        | JobField::SubmitLine
        | JobField::SubmitHost
        | JobField::SubmitSession
        | JobField::Workdir
        | JobField::Stdout
        | JobField::Stderr
        | JobField::Stdin
        | JobField::OpenMode
        | JobField::Umask
        | JobField::Rlimits
        | JobField::MailTypes
        | JobField::MailTo
        | JobField::Warn
        | JobField::Mpi
        | JobField::EndIfNever => false,
        // What it waits for, and where it would like to be.
        JobField::Dependencies
        | JobField::DependencyText
        | JobField::Licenses
        | JobField::Features
        | JobField::Constraint
        | JobField::Prefer
        | JobField::Avoid
        | JobField::Require
        | JobField::Sets => false,
        // What it has used, and how it came out.
        JobField::ExitCode
        | JobField::Signal
        | JobField::DerivedExitCode
        | JobField::DerivedSignal
        | JobField::UserCpu
        | JobField::SystemCpu
        | JobField::PeakMemory => false,
        JobField::Energy | JobField::GpuBusy | JobField::GpuMemory => false,
        JobField::CoreIds | JobField::GpuIds => false,
    }
}
