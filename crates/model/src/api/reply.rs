//! What the controller answers.

#[cfg(doc)]
use super::Request;
use super::info::{
    Archived, BudgetRow, ControllerRow, EndedJob, HistoryEvent, MeterRow, NodeInfo, QueueInfo,
    StepCursor, StepRow,
};
use super::table::Table;
use crate::policy::PolicyAnswer;
use crate::reservation::{AccountInfo, LedgerEntry, PlanChart, Quote, ReservationInfo};
use crate::workflow::{FlowInfo, FlowPlan};
use crate::{JobId, OsText, Refusal, Time, TriggerId, TriggerInfo, limits};
use serde::{Deserialize, Serialize};

/// What rules at submission would make of a job.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RulesTried {
    /// Login name of the user for whom they were tried.
    pub user: String,
    /// Whether the configuration has `[submit]`, and the user is bound by it.
    pub bound: bool,
    /// Names of the rules that applied, in their order.
    pub applied: Vec<String>,
    /// Fields that they have set, with their values as text.
    pub changes: Vec<(String, String)>,
    /// What the user would be told.
    pub remarks: Vec<String>,
    /// Why the job would be refused; `None` when it would go on.
    pub refused: Option<String>,
    /// What programs and scripts that judge have written for the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logged: Vec<String>,
}

/// What the controller answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The request was refused; nothing was changed.
    Refused(Refusal),
    /// Answer to [`Request::Ping`].
    Pong {
        /// Name of the cluster.
        cluster: String,
        /// Version of the controller.
        version: String,
        /// Time of the controller's clock.
        now: Time,
        /// For administrators: what is set aside and why, one line each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        set_aside: Vec<String>,
        /// Whose clock is off by more than the configuration allows, one line each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        clocks: Vec<String>,
    },
    /// Answer to [`Request::Controllers`].
    Controllers(Vec<ControllerRow>),
    /// Answer to [`Request::Meter`].
    Meter {
        /// By kind, those that hold up longest first.
        kinds: Vec<MeterRow>,
        /// What is counted against a limit, and how much of it is in use.
        budgets: Vec<BudgetRow>,
    },
    /// Answer to [`Request::Archive`].
    Archived(Archived),
    /// Answer to [`Request::TryRules`].
    RulesTried(Box<RulesTried>),
    /// The job is durable.
    Submitted {
        /// Its id, or the first of the array.
        job: JobId,
        /// Number of array tasks; 0 when it is no array.
        tasks: u32,
        /// Something the user should know (one line), or empty.
        note: String,
    },
    /// The allocation is there.
    Allocated {
        /// Its first node and how to reach it.
        entry: crate::step::AllocationEndpoint,
        /// Its latest end; `None` without.
        until: Option<Time>,
        /// Variables for what runs in it, `NAME=value` separated by NUL.
        variables: OsText,
    },
    /// Answer to [`Request::Entry`].
    Entry(crate::step::AllocationEndpoint),
    /// Answer to [`Request::Pass`]: signed, good for a minute.
    Pass(OsText),
    /// Ended steps, by job and step.
    Steps(Vec<StepRow>),
    /// Some steps, by job from the latest job on, and where the rest is.
    StepsPage {
        /// The steps; jobs in the order of their ids.
        rows: Vec<StepRow>,
        /// The list goes on there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        more: Option<StepCursor>,
    },
    /// What was asked for is done.
    Done {
        /// Number of objects changed.
        changed: u64,
        /// Objects that were named but could not be changed, and why.
        refused: Vec<(String, Refusal)>,
    },
    /// Rows of jobs, live or ended.
    Jobs(Table),
    /// One job (a row for each task) with all fields.
    Explained {
        /// The job's rows with every field that there is.
        table: Table,
        /// Sentences: why it waits, what is before it.
        lines: Vec<String>,
    },
    /// The text of a job's script.
    Script(OsText),
    /// The jobs that were waited for.
    Ended(Vec<EndedJob>),
    /// What somebody tells the user of a job: see [`Request::Notify`].
    Said(String),
    /// All queues that the caller may see.
    Queues(Vec<QueueInfo>),
    /// The nodes that were asked for.
    Nodes(Vec<NodeInfo>),
    /// The trigger is durable.
    TriggerSet(TriggerId),
    /// Triggers, by number.
    Triggers(Vec<TriggerInfo>),
    /// How the cluster is set up.
    Settings(Box<crate::Settings>),
    /// A token for `noded join`.
    Token(String),
    /// Events, oldest first.
    Events(Vec<HistoryEvent>),
    /// Starts that are possible, with their prices.
    Quote(Box<Quote>),
    /// Reservations that were held, booked, confirmed or changed.
    Reserved {
        /// Each with its id, by start.
        reservations: Vec<ReservationInfo>,
        /// Starts of a repeating reservation that were not possible, and why.
        conflicts: Vec<(Time, Refusal)>,
        /// Something the user should know (one line), or empty.
        note: String,
    },
    /// Reservations that the caller may see.
    Reservations(Vec<ReservationInfo>),
    /// A workflow's plan.
    FlowPlan(Box<FlowPlan>),
    /// A workflow that was held, booked, submitted or confirmed, with its tasks.
    Flow(Box<FlowInfo>),
    /// Workflows that the caller may see.
    Flows(Vec<FlowInfo>),
    /// A chart of the plan.
    PlanChart(Box<PlanChart>),
    /// Accounts that the caller may see.
    Accounts(Vec<AccountInfo>),
    /// Lines of the ledger.
    Ledger(Vec<LedgerEntry>),
    /// Accounts, users, associations, qualities of service that the caller may see.
    Policy(PolicyAnswer),
}

impl Reply {
    /// The same with no more refusals than an answer has: see [`crate::Refusals`].
    #[must_use]
    pub fn short(self) -> Self {
        match self {
            Self::Done { changed, refused } if refused.len() > limits::REFUSALS + 1 => Self::Done {
                changed,
                refused: crate::Refusals::from(refused).told(),
            },
            other => other,
        }
    }
}
