//! What is durable. Rows are the state: what is loaded is what was saved.
//!
//! An array is one [`SubmissionRow`]; a task gets a [`JobRow`] of its own when it stops
//! being like the others (it starts or ends, or is held or changed alone). A task without a
//! row waits as submitted, or as the array's [`StandingRow`] says.

mod figures;
mod held_by;
mod job_row;
mod node_row;
mod older;
mod part;
mod preempted;
mod reservation;
mod run_row;

pub use crate::policy::row::{PolicyKey, PolicyRow};
pub use crate::reservations::books::row::AccountRow;
use crate::triggers::TriggerRow;
use cosy_model::history;
use cosy_model::node::AttemptKey;
use cosy_model::reservation::LedgerEntry;
use cosy_model::step::StepRecord;
use cosy_model::workflow::{FlowSpec, FlowState, FlowTaskState};
use cosy_model::{
    Attempt, End, FlowId, Gid, JobId, JobSpec, JobState, LicenseUse, OsText, QueueSpec, QueueState,
    ReservationId, Span, Su, TaskIndices, Time, TriggerId, Uid,
};
pub use figures::{FiguresRow, HourPriceRow};
pub use held_by::HeldBy;
pub use node_row::NodeRow;
pub use older::{OlderRow, RestoredRow};
pub use part::PartRow;
pub use preempted::{MovedRow, PreemptedRow, Preemptor, PromisedRow};
pub use reservation::{MakerRow, OfFlow, ReservationRow, ShareRow};
pub use run_row::{AfterRun, RunRow};
use serde::{Deserialize, Serialize};

/// Which of the ids that an array takes each of its tasks has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Numbering {
    /// Ascending, as the indices.
    #[default]
    InOrder,
    /// The last task has the first id, the array's own, and the others those after it: so it
    /// comes out in Slurm, where the rest of an array keeps its id until one task is left.
    LastFirst,
}

impl Numbering {
    /// The id of the task at place `at` of `tasks`.
    pub fn id(self, base: JobId, at: usize, tasks: usize) -> JobId {
        let offset = match self {
            Self::InOrder => at,
            Self::LastFirst if at + 1 >= tasks => 0,
            Self::LastFirst => at + 1,
        };
        JobId(base.0 + offset as u64)
    }

    /// The place of the task with this id, which is one of those that the array takes.
    pub fn place(self, base: JobId, id: JobId, tasks: usize) -> usize {
        let offset = id.0.saturating_sub(base.0) as usize;
        match (self, offset.checked_sub(1)) {
            (Self::InOrder, _) => offset,
            (Self::LastFirst, Some(at)) => at,
            (Self::LastFirst, None) => tasks.saturating_sub(1),
        }
    }
}

/// A submission: one job, or the tasks of an array with consecutive ids.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SubmissionRow {
    /// Id of its first job.
    pub base: JobId,
    /// Indices of the tasks; `None` for a single job.
    pub indices: Option<TaskIndices>,
    /// Which task has which id.
    #[serde(default)]
    pub numbering: Numbering,
    /// Most tasks at once.
    pub at_once: Option<u32>,
    /// The user on whose behalf it runs.
    pub uid: Uid,
    /// Group under which its programs run.
    pub gid: Gid,
    /// Name of the user at submission.
    pub user: String,
    /// Queue, by name.
    pub queue: String,
    /// When it was accepted.
    pub submit: Time,
    /// What was asked for, without the environment (kept beside the script).
    pub spec: std::sync::Arc<JobSpec>,
    /// The workflow that it is a task of; the environment is kept there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<OfFlow>,
}

impl SubmissionRow {
    /// Number of ids that it takes: one for each task, or for each component of a job.
    pub fn ids(&self) -> u64 {
        self.tasks() + self.spec.further_components.len() as u64
    }

    /// Number of its jobs.
    pub fn tasks(&self) -> u64 {
        self.indices.as_ref().map_or(1, |i| i.len() as u64)
    }

    /// The id of the task at place `at`.
    pub fn id_at(&self, at: usize) -> JobId {
        self.numbering.id(self.base, at, self.tasks() as usize)
    }

    /// The place of the task with this id.
    pub fn place_of(&self, id: JobId) -> usize {
        self.numbering.place(self.base, id, self.tasks() as usize)
    }
}

/// A job that is not as submitted any more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobRow {
    /// The id, which is never given out again.
    pub id: JobId,
    /// First id of its submission.
    pub base: JobId,
    /// Index in its array.
    pub index: Option<u32>,
    /// The state when it was written.
    pub state: JobState,
    /// Attempts so far.
    pub attempt: Attempt,
    /// Who holds it back, if somebody does.
    pub held: Option<HeldBy>,
    /// Number of its body; 0 is the submission itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub body: u32,
    /// Its own request in rows of earlier releases, in place of a body.
    pub changed: Option<Box<JobSpec>>,
    /// Its own queue, as well.
    pub queue: Option<String>,
    /// When it could first have started.
    pub eligible: Option<Time>,
    /// Since when it gathers age, where limits say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ages_from: Option<Time>,
    /// The attempt that it is at.
    pub run: Option<RunRow>,
    /// How it ended.
    pub end: Option<End>,
    /// Why it ended as it did, for users.
    pub note: String,
    /// Largest exit code of the steps of its last attempt, and that step's signal.
    #[serde(default)]
    pub derived: (i32, i32),
    /// Its guaranteed start was moved, since room was made for another job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<MovedRow>,
    /// Since then it stands before all others, for others have made room for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Time>,
}

/// How the tasks of an array stand that have no row of their own. Without it they stand as
/// submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StandingRow {
    /// First id of the array.
    pub base: JobId,
    /// Number of their body; 0 is the submission itself.
    pub body: u32,
    /// Who holds them.
    pub held: Option<HeldBy>,
    /// Most tasks of the array at once.
    pub at_once: Option<u32>,
}

/// How the controller's clocks stood to each other when they agreed last: whether the one on the
/// wall is set while the controller does not run is known by that.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClockRow {
    /// The date on the wall then.
    pub wall: Time,
    /// The clock that nobody sets, in milliseconds.
    pub steady_ms: i64,
    /// How long the machine had slept.
    pub slept: Span,
    /// Which run of which machine, in hexadecimal.
    pub boot: String,
}

/// One durable change. A batch of them is one transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// A new submission with what is not kept in memory.
    Submitted {
        /// What is kept of it beside its texts.
        row: Box<SubmissionRow>,
        /// The script, which is stored once for all its jobs.
        script: OsText,
        /// The user's variables.
        environment: OsText,
    },
    /// What changed jobs of a submission ask for; rows of jobs name its number.
    Body {
        /// Number within the submission, from 1.
        number: u32,
        /// The submission as it would be, without its tasks.
        row: Box<SubmissionRow>,
    },
    /// No row names a body any more.
    BodyGone {
        /// First id of the submission.
        base: JobId,
        /// Its number among the bodies of the submission.
        number: u32,
    },
    /// How tasks without a row of their own stand, new or anew.
    Standing(StandingRow),
    /// A job's row, new or anew.
    Job(Box<JobRow>),
    /// A run of a job that waits again: the row as if the job had ended with that run.
    EarlierRun(Box<JobRow>),
    /// The store is older than what nodes have seen.
    Older(OlderRow),
    /// The store that was put back from a backup is taken up: what may have run since is held.
    BackupTakenUp,
    /// How clocks stand to each other from now on.
    Clock(ClockRow),
    /// All jobs of a submission have ended.
    SubmissionDone(JobId),
    /// One of them waits again.
    SubmissionLives(JobId),
    /// What is known of a node beyond the configuration.
    Node {
        /// The name as the configuration has it.
        name: String,
        /// What is known.
        row: NodeRow,
    },
    /// An administrator's word about a queue.
    Queue {
        /// The queue by name.
        name: String,
        /// Whether it takes jobs and starts them.
        state: QueueState,
    },
    /// What an administrator made of a queue beyond the configuration; `None`: the
    /// configuration counts again.
    OwnQueue {
        /// The queue by name.
        name: String,
        /// What it is.
        row: Option<Box<OwnQueue>>,
    },
    /// How many of a licence are in use, as somebody has told anew.
    LicenseUse {
        /// The licence by name.
        license: String,
        /// What was told.
        row: LicenseUse,
    },
    /// The public key of a node that joined.
    NodeKey {
        /// The node by name.
        name: String,
        /// Key in hexadecimal.
        key: String,
    },
    /// A node's key is forgotten.
    NodeKeyGone {
        /// Name of the node.
        name: String,
    },
    /// A key was revoked: it is never accepted again.
    KeyRevoked {
        /// Key in hexadecimal.
        key: String,
        /// The node that had it.
        node: String,
        /// Time on the wall's clock.
        at: Time,
    },
    /// A join token.
    Token {
        /// Hash of its secret.
        hash: String,
        /// Who may join with it.
        node: String,
        /// When it is no longer taken.
        expiry: Time,
    },
    /// A token was used or has expired.
    TokenGone {
        /// Hash of its secret.
        hash: String,
    },
    /// A changing request was answered.
    Answered {
        /// The user whose command asked.
        uid: Uid,
        /// The key that the command drew for its request.
        key: [u8; 16],
        /// Time on the wall's clock.
        at: Time,
        /// What was answered, told again to who asks with that key.
        reply: Box<cosy_model::api::Reply>,
    },
    /// An answer is forgotten: its user has, or all have, too many.
    AnswerGone {
        /// The user whose command asked.
        uid: Uid,
        /// The key that the command drew for its request.
        key: [u8; 16],
    },
    /// Answers before that time may be forgotten.
    ForgetAnswers {
        /// What is older than this is removed.
        before: Time,
    },
    /// One line of history.
    Happened(history::Event),
    /// A trigger's row, new or anew.
    Trigger(Box<TriggerRow>),
    /// A trigger is over.
    TriggerGone(TriggerId),
    /// A reservation's row, new or anew.
    Reservation(Box<ReservationRow>),
    /// An account's row, new or anew.
    Account(AccountRow),
    /// An account was removed; its lines in the ledger stay.
    AccountGone(String),
    /// A row of the policy, new or anew; `None`: it is gone.
    Policy {
        /// Which row.
        key: PolicyKey,
        /// What it is.
        row: Option<Box<PolicyRow>>,
    },
    /// A line of the ledger; never changed.
    Ledger(LedgerEntry),
    /// Figures of a stretch of time, new or anew.
    Figures(FiguresRow),
    /// Figures before that time may be forgotten.
    ForgetFigures {
        /// What is older than this is removed.
        before: Time,
    },
    /// What an hour of the week usually costs, new or anew.
    HourPrice(HourPriceRow),
    /// What a user has used in an account, new or anew.
    Usage(Box<crate::queues::scores::UsageRow>),
    /// Steps have ended. The same ones may come again, then with others behind them.
    Steps(Box<StepBatch>),
    /// A new workflow with what never changes of it.
    FlowMade {
        /// What is kept of it beside its texts.
        row: Box<FlowRow>,
        /// What was asked for, without scripts and environment.
        spec: Box<FlowSpec>,
        /// Variables of all its tasks.
        environment: OsText,
    },
    /// A workflow's row anew.
    Flow(Box<FlowRow>),
    /// The row of a workflow's task, new or anew.
    FlowTask(Box<FlowTaskRow>),
}

/// A workflow, without what never changes of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowRow {
    /// The id, which is never given out again.
    pub id: FlowId,
    /// The user who owns it.
    pub uid: Uid,
    /// Primary group of its owner.
    pub gid: Gid,
    /// Name of its owner when it was made.
    pub user: String,
    /// The state when it was written.
    pub state: FlowState,
    /// When it was asked for.
    pub made: Time,
    /// Deadline, worked out.
    #[serde(default)]
    pub deadline: Option<Time>,
    /// Account that pays.
    #[serde(default)]
    pub account: Option<String>,
    /// A hold's end.
    #[serde(default)]
    pub hold_until: Option<Time>,
    /// When its last job was over; it lives until then.
    #[serde(default)]
    pub closed: Option<Time>,
    /// What users should know.
    #[serde(default)]
    pub note: String,
}

impl FlowRow {
    /// True until its last job is over.
    pub fn is_live(&self) -> bool {
        self.closed.is_none()
    }
}

/// A task of a workflow, as far as it changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FlowTaskRow {
    /// The workflow, and the number of the task in it.
    pub of: OfFlow,
    /// State; a task whose job has nodes is still kept as waiting.
    pub state: FlowTaskState,
    /// The job that does the task.
    pub job: JobId,
    /// The slot of the task, with a deadline.
    #[serde(default)]
    pub reservation: Option<ReservationId>,
    /// Start and end of its slot.
    #[serde(default)]
    pub slot: Option<(Time, Time)>,
    /// Its slot is of no use any more: it waits for another one.
    #[serde(default)]
    pub replan: bool,
    /// The node set that its slot is in; empty for nodes in no set that the workflow names.
    #[serde(default)]
    pub set: String,
    /// Its estimate where it is going to run, or ran.
    pub estimate: Span,
    /// Times that it failed.
    #[serde(default)]
    pub failures: u32,
    /// When its job started.
    #[serde(default)]
    pub start: Option<Time>,
    /// When its job ended.
    #[serde(default)]
    pub end: Option<Time>,
    /// Nodes that it ran on.
    #[serde(default)]
    pub nodes: String,
    /// What its slot costs.
    #[serde(default)]
    pub price: Su,
    /// What users should know.
    #[serde(default)]
    pub note: String,
}

/// A workflow as it is loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadedFlow {
    /// What is kept of it beside its texts.
    pub row: FlowRow,
    /// What was asked for, without scripts and environment.
    pub spec: FlowSpec,
    /// Rows of all its tasks, by place.
    pub tasks: Vec<FlowTaskRow>,
}

/// What the steps of an attempt have used, and how many of their records are durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StepUse {
    /// Records of steps that are durable.
    pub count: u64,
    /// User CPU time, in microseconds.
    pub user_cpu_us: u64,
    /// System CPU time, in microseconds.
    pub system_cpu_us: u64,
    /// Largest peak memory of a step on one node, in bytes.
    pub peak_memory_bytes: u64,
    /// Largest exit code.
    pub exit_code: i32,
    /// Signal that ended the step with that exit code.
    pub signal: i32,
}

impl StepUse {
    /// With a step more.
    #[must_use]
    pub fn and(self, end: &End) -> Self {
        let own = (self.exit_code, self.signal);
        let (exit_code, signal) = own.max((end.exit_code, end.signal));
        Self {
            exit_code,
            signal,
            count: self.count.saturating_add(1),
            user_cpu_us: self.user_cpu_us.saturating_add(end.user_cpu_us),
            system_cpu_us: self.system_cpu_us.saturating_add(end.system_cpu_us),
            peak_memory_bytes: self.peak_memory_bytes.max(end.peak_memory_bytes),
        }
    }
}

/// Records of steps that came in one report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepBatch {
    /// Job and attempt.
    pub key: AttemptKey,
    /// Records of this attempt that came before.
    pub before: u64,
    /// How they ended.
    pub records: Vec<StepRecord>,
}

/// A queue as it was made, changed or taken away at run time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OwnQueue {
    /// What it is; `None`: it was taken away.
    pub spec: Option<QueueSpec>,
    /// It is the default queue.
    #[serde(default)]
    pub default: bool,
}

/// Something that is kept in the store and not taken up: it cannot be read, or the controller
/// failed at it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetAside {
    /// What: `job 12`, `reservation 3`.
    pub what: String,
    /// Since when it has been so.
    pub at: Time,
    /// Why, in one line.
    pub why: String,
    /// Ids of jobs that go with it: the first, and how many.
    pub ids: Option<(JobId, u64)>,
    /// It is what was known of this node.
    pub node: Option<String>,
}

/// Everything that the store has of what still lives.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Submissions with jobs that have not ended.
    pub submissions: Vec<SubmissionRow>,
    /// All rows of those submissions' jobs, also of ended ones.
    pub jobs: Vec<JobRow>,
    /// Bodies of those submissions by number.
    pub bodies: Vec<(u32, SubmissionRow)>,
    /// How tasks of those submissions stand that have no row.
    pub standings: Vec<StandingRow>,
    /// First id that was never given out.
    pub next_job: u64,
    /// Number of the last event.
    pub last_event: u64,
    /// What is known of nodes.
    pub nodes: Vec<(String, NodeRow)>,
    /// How jobs ended that live ones depend on.
    pub facts: Vec<(cosy_model::api::JobRef, bool)>,
    /// Words about queues.
    pub queues: Vec<(String, QueueState)>,
    /// Queues that were made, changed or taken away at run time.
    pub own_queues: Vec<(String, OwnQueue)>,
    /// How many of each licence are in use, as was last told.
    pub license_use: Vec<(String, LicenseUse)>,
    /// Keys of nodes that joined.
    pub node_keys: Vec<(String, String)>,
    /// Revoked keys: key, node, when.
    pub revoked_keys: Vec<(String, String, Time)>,
    /// Tokens: hash, node, expiry.
    pub tokens: Vec<(String, String, Time)>,
    /// Answers: user, key, time, answer.
    pub answers: Vec<(Uid, [u8; 16], Time, cosy_model::api::Reply)>,
    /// Live reservations, and those that ended within the last day.
    pub reservations: Vec<ReservationRow>,
    /// First id that was never given out.
    pub next_reservation: u64,
    /// Accounts with what they have, hold and have spent.
    pub accounts: Vec<AccountRow>,
    /// Accounts in the tree, users, associations and qualities of service.
    pub policy: Vec<PolicyRow>,
    /// Number of the last line of the ledger.
    pub last_entry: u64,
    /// Figures, by time.
    pub figures: Vec<FiguresRow>,
    /// Prices of hours.
    pub hour_prices: Vec<HourPriceRow>,
    /// What users have used.
    pub usage: Vec<crate::queues::scores::UsageRow>,
    /// What the steps of the last attempts of live jobs have used.
    pub steps: Vec<(AttemptKey, StepUse)>,
    /// Live workflows, and those that were over within the last day.
    pub flows: Vec<LoadedFlow>,
    /// First id that was never given out.
    pub next_flow: u64,
    /// Triggers that are not over.
    pub triggers: Vec<TriggerRow>,
    /// First id that was never given out.
    pub next_trigger: u64,
    /// What is not taken up, though it lives.
    pub set_aside: Vec<SetAside>,
    /// When the store was older than what nodes had seen.
    pub older: Vec<OlderRow>,
    /// It was put back from a backup and is taken up for the first time.
    pub restored: Option<RestoredRow>,
    /// How the clocks of the controller stood that wrote last.
    pub clock: Option<ClockRow>,
}

impl Loaded {
    /// Numbers that a lost store has given out are not given out again.
    pub fn go_on_above_older(&mut self) {
        for row in &self.older {
            self.next_job = self.next_job.max(row.next.0);
            self.last_event = self.last_event.max(row.mark.events);
            self.next_reservation = self.next_reservation.max(row.mark.reservations);
            self.next_flow = self.next_flow.max(row.mark.flows);
            self.next_trigger = self.next_trigger.max(row.mark.triggers);
        }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_tasks() {
        let check = |numbering: Numbering, tasks: usize, ids: &[u64]| {
            let given: Vec<JobId> = (0..tasks)
                .map(|at| numbering.id(JobId(7), at, tasks))
                .collect();
            let wanted: Vec<JobId> = ids.iter().map(|id| JobId(*id)).collect();
            assert_eq!(given, wanted);
            for (at, id) in given.into_iter().enumerate() {
                assert_eq!(numbering.place(JobId(7), id, tasks), at);
            }
        };
        check(Numbering::InOrder, 1, &[7]);
        check(Numbering::InOrder, 3, &[7, 8, 9]);
        check(Numbering::LastFirst, 1, &[7]);
        check(Numbering::LastFirst, 2, &[8, 7]);
        check(Numbering::LastFirst, 4, &[8, 9, 10, 7]);
    }
}
