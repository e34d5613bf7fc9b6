//! What is true of a row of a list of jobs, as whoever has the jobs tells it.

use crate::words::dependency::OpenDependency;
use crate::words::priority_factors::PriorityFactors;
use crate::words::row_name::RowName;
use cosy_model::job::ResourceRequest;
use cosy_model::{
    Amounts, Attempt, End, Gid, JobSpec, JobState, OsText, Span, TaskIndices, Time, Uid, WaitReason,
};

/// What is true of one row: a job, some waiting tasks of an array that look alike, or a component
/// of a job. Nothing here has a default, so each kind of row says what it knows of each fact.
pub trait JobFacts {
    /// Which job or jobs it is about.
    fn name(&self) -> RowName<'_>;
    /// Who has asked for what.
    fn submission(&self) -> Submission<'_>;
    /// How it stands.
    fn status(&self) -> JobStatus;
    /// Dates and lengths of the last attempt.
    fn attempt_times(&self) -> AttemptTimes;
    /// How it ended.
    fn end(&self) -> Option<&End>;
    /// Why it waits, or what there is to say of its end.
    fn reason(&self) -> Reason<'_>;
    /// What it holds or held last, node by node; nothing while it waits.
    fn held(&self) -> impl Iterator<Item = NodeHoldings<'_>>;
    /// Nodes that it was lost with: see [`JobField::FailedNodes`](cosy_model::api::JobField).
    fn failed_nodes(&self) -> Vec<&str>;
    /// Its number in the order of service; 0 when held.
    fn priority(&self) -> i64;
    /// What its priority is made of, where its queue orders by more than dates and it waits for its turn.
    fn factors(&self) -> Option<PriorityFactors>;
    /// Its place among all that wait, from 1.
    fn place(&self) -> Option<i64>;
    /// When it will start, as far as a plan says.
    fn predicted_start(&self) -> Option<Time>;
    /// Its files, with their patterns filled in.
    fn files(&self) -> Files;
    /// What it still waits for, or cannot have any more.
    fn waits_for(&self) -> Vec<OpenDependency<'_>>;
    /// The array that it belongs to, where that is known.
    fn array(&self) -> Option<Array<'_>>;
    /// Whether it gets whole nodes whatever it asked for.
    fn gets_whole_nodes(&self) -> bool;
    /// The fewest nodes on which it could be, where that is known.
    fn least_nodes(&self) -> Option<u32>;
    /// What each of its components asks for; of a row for one component what that asks for.
    fn requests(&self) -> impl Iterator<Item = &ResourceRequest>;
}

/// Who has asked for what.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// Login name of the owner.
    pub user: &'a str,
    /// Number of the user.
    pub uid: Uid,
    /// Number of the group.
    pub gid: Gid,
    /// Queue that it is in.
    pub queue: &'a str,
    /// When the controller took it.
    pub submit: Time,
    /// What was asked for.
    pub spec: &'a JobSpec,
}

/// How a job stands.
#[derive(Clone, Copy, Debug)]
pub struct JobStatus {
    /// What has become of it.
    pub state: JobState,
    /// It is over: others are told less of its reason.
    pub over: bool,
    /// Number of the last attempt.
    pub attempt: Attempt,
    /// From when on it could start.
    pub eligible: Option<Time>,
    /// It waits again, and not before then.
    pub not_before: Option<Time>,
    /// Who holds it.
    pub held_by: Option<Holder>,
    /// How many of its nodes stand by for lost ones.
    pub spares: u32,
    /// It was changed and is not like the others of its array; unknown in history.
    pub apart: Option<bool>,
}

/// Dates and lengths of the last attempt.
#[derive(Clone, Copy, Debug)]
pub struct AttemptTimes {
    /// When it was given its nodes.
    pub allocated: Option<Time>,
    /// When its program started; while it starts, when it was given its nodes.
    pub start: Option<Time>,
    /// Its latest end, where it has one.
    pub latest_end: Option<Time>,
    /// Time that it has run, without what it was suspended.
    pub elapsed: Option<Span>,
    /// Its time limit.
    pub limit: Option<Span>,
    /// How long it was suspended in all.
    pub suspended_for: Option<Span>,
    /// Since when it is suspended.
    pub suspended_since: Option<Time>,
    /// When it gave nodes back last.
    pub resized: Option<Time>,
    /// When it was told to make room for a more important job.
    pub preempted: Option<Time>,
    /// From when on it may have to make room for one.
    pub preemptible: Option<Time>,
    /// Largest exit code of its steps, and the signal of that step.
    pub derived: Option<(i32, i32)>,
}

/// Who holds a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// The job's own user, by `--hold` or by hand.
    User,
    /// An administrator, who alone may release it.
    Admin,
    /// Whoever put it back into the queue.
    Requeued,
    /// The controller: the store was restored, and nobody knows whether it has run.
    Restored,
}

impl Holder {
    /// In one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Admin => "admin",
            Self::Requeued => "requeued",
            Self::Restored => "restored",
        }
    }
}

/// Why a job waits or ended as it did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason<'a> {
    /// There is nothing to say.
    Nothing,
    /// What keeps a waiting job from starting.
    Waits(WaitReason),
    /// It has ended: for users.
    Ended(&'a str),
}

/// What a job holds of a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeHoldings<'a> {
    /// Name of the node.
    pub node: &'a str,
    /// Tasks of the job that run on the node.
    pub tasks: u32,
    /// Cores, memory and the rest that the job has of the node.
    pub amounts: &'a Amounts,
    /// Cores by number.
    pub core_ids: &'a [u32],
    /// GPUs by number.
    pub gpu_ids: &'a [u32],
}

/// Names of files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    /// Standard output of the script.
    pub stdout: OsText,
    /// For errors; empty when they go where the output goes.
    pub stderr: OsText,
    /// Input; empty without.
    pub stdin: OsText,
}

/// The array that a job is a task of.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    /// Ascending indices of its tasks; a single job has none.
    pub indices: Option<&'a TaskIndices>,
    /// Most tasks at once.
    pub at_once: Option<u32>,
}
