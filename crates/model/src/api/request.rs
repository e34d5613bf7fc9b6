//! Everything that commands ask.

#[cfg(doc)]
use super::Reply;
use super::change::{JobChange, NodeAction, Submission};
use super::filter::{JobFilter, JobRef};
use super::info::StepCursor;
use super::table::JobField;
use crate::policy::{PolicyChange, PolicyQuery};
use crate::reservation::{AccountAction, PlainTerms, ReservationFilter, ReservationSpec};
use crate::workflow::{FlowFilter, FlowSpec};
use crate::{
    FlowId, JobId, QueueSpec, QueueState, ReservationId, Span, Time, TriggerId, TriggerSpec, Uid,
};
use serde::{Deserialize, Serialize};

/// What a command asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Whether the controller is there, and of which version.
    Ping,
    /// How long requests hold the controller up. Answer: [`Reply::Meter`].
    Meter,
    /// A new job. Answer: [`Reply::Submitted`].
    Submit(Box<Submission>),
    /// What the rules at submission would make of a job. Nothing is kept. Answer:
    /// [`Reply::RulesTried`].
    TryRules {
        /// The job as it would be submitted.
        job: Box<Submission>,
        /// As if this user asked (administrators); as if the caller did without.
        user: Option<Uid>,
    },
    /// A new job that its command stays with (its program is `Program::Allocation`).
    /// Answer: [`Reply::Allocated`] when it starts at once, else [`Reply::Submitted`]; the
    /// connection attends to the job from then on.
    Allocate(Box<Submission>),
    /// Attends to an own allocation; answered when it starts ([`Reply::Allocated`], unless
    /// `started`), when it ends ([`Reply::Ended`]), or, once it has started, when there is
    /// something to tell its user ([`Reply::Said`]). When the last connection that
    /// attends to a job with `attended` closes, the job ends.
    Attend {
        /// The job that is meant; no array.
        job: JobId,
        /// The command knows that it has started: only its end is told.
        started: bool,
    },
    /// Gives an own allocation back with the exit code and signal of what ran in it.
    /// Answer: [`Reply::Done`].
    Finish {
        /// The job that is meant; no array.
        job: JobId,
        /// Exit code of what ran in it; 0 when a signal ended it.
        exit_code: i32,
        /// Signal, 0 without.
        signal: i32,
    },
    /// How an own running job's first node is reached. Answer: [`Reply::Entry`].
    Entry {
        /// The job that is meant; no array.
        job: JobId,
    },
    /// Word of the controller for node daemons that whoever shows it asks for the asking user, for a
    /// minute. Answer: [`Reply::Pass`].
    Pass {
        /// An own running job; without, the pass lets files be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<JobId>,
    },
    /// Ended steps of jobs, from the store. Answer: [`Reply::Steps`], or [`Reply::StepsPage`]
    /// where pages are asked for.
    Steps {
        /// Jobs, arrays, and tasks of arrays.
        jobs: Vec<JobRef>,
        /// The answer may be a part, with the place where it goes on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pages: bool,
        /// Go on there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<StepCursor>,
    },
    /// Ends jobs, or sends a signal to running ones. Answer: [`Reply::Done`].
    Cancel {
        /// Which; an empty filter is refused.
        filter: JobFilter,
        /// Send this signal instead of ending them.
        signal: Option<i32>,
        /// The signal goes only to the script itself.
        script_only: bool,
        /// The signal goes to the steps and not to the script.
        #[serde(default)]
        steps_only: bool,
    },
    /// Holds waiting jobs. An administrator's hold is one that only administrators end,
    /// unless `as_user`. Answer: [`Reply::Done`].
    Hold {
        /// The jobs that are meant.
        filter: JobFilter,
        /// True to hold them as their user would, whoever asks.
        #[serde(default)]
        as_user: bool,
    },
    /// Lets held jobs go. Answer: [`Reply::Done`].
    Release {
        /// The jobs that are meant.
        filter: JobFilter,
    },
    /// Puts running jobs, and ended ones that are still remembered, back into the queue.
    /// Answer: [`Reply::Done`].
    Requeue {
        /// The jobs that are meant.
        filter: JobFilter,
        /// True to hold them after that.
        #[serde(default)]
        hold: bool,
        /// True to mark them as jobs that ended in a special way, and hold them.
        #[serde(default)]
        special: bool,
    },
    /// Stops running jobs for a while; they keep their nodes (administrators). Answer:
    /// [`Reply::Done`].
    Suspend {
        /// The jobs that are meant.
        filter: JobFilter,
    },
    /// Lets suspended jobs run on (administrators). Answer: [`Reply::Done`].
    Resume {
        /// The jobs that are meant.
        filter: JobFilter,
    },
    /// Tells running jobs something: it stands in the error output of their scripts, or of the
    /// commands that stay with them. Answer: [`Reply::Done`].
    Notify {
        /// The jobs that are meant.
        filter: JobFilter,
        /// Text of the message, without an end of line.
        text: String,
    },
    /// Puts waiting jobs before the other waiting jobs of their users. Answer:
    /// [`Reply::Done`].
    Top {
        /// The jobs that are meant.
        filter: JobFilter,
    },
    /// Changes jobs. Answer: [`Reply::Done`].
    Change {
        /// The jobs that are meant.
        filter: JobFilter,
        /// The fields that get another value.
        change: Box<JobChange>,
    },
    /// Jobs that wait, run, or ended moments ago. Answer: [`Reply::Jobs`].
    Jobs {
        /// The jobs that are meant.
        filter: JobFilter,
        /// Columns of the answer, in this order.
        fields: Vec<JobField>,
        /// Waiting tasks of one array in one row.
        fold_arrays: bool,
    },
    /// One job whole, also one that ended long ago. Answer: [`Reply::Explained`].
    Explain {
        /// A job, an array, or a task of one.
        job: JobRef,
    },
    /// Ended and running jobs out of the store. Answer: [`Reply::Jobs`].
    History {
        /// The jobs that are meant.
        filter: JobFilter,
        /// Columns of the answer, in this order.
        fields: Vec<JobField>,
    },
    /// The script of a job. Answer: [`Reply::Script`].
    Script {
        /// A job, an array, or a task of one.
        job: JobRef,
    },
    /// Answered when all these jobs have ended. Answer: [`Reply::Ended`].
    Wait {
        /// Jobs, arrays, and tasks of arrays.
        jobs: Vec<JobRef>,
    },
    /// All queues. Answer: [`Reply::Queues`].
    Queues,
    /// All nodes. Answer: [`Reply::Nodes`].
    Nodes,
    /// A new trigger: of an own job, or an administrator's. Answer: [`Reply::TriggerSet`].
    SetTrigger(Box<TriggerSpec>),
    /// Removes triggers that all of this fits; naming nothing is refused. Answer:
    /// [`Reply::Done`].
    ClearTriggers {
        /// Only this trigger; all without.
        id: Option<TriggerId>,
        /// Only triggers on this job.
        job: Option<JobId>,
        /// Only triggers of this user.
        uid: Option<Uid>,
    },
    /// All triggers that the caller may see. Answer: [`Reply::Triggers`].
    Triggers,
    /// How the cluster is set up. Answer: [`Reply::Settings`].
    Settings,
    /// Drains, resumes or gives up nodes (administrators). Answer: [`Reply::Done`].
    NodeControl {
        /// Names of nodes, one each.
        nodes: Vec<String>,
        /// What is done with the nodes.
        action: NodeAction,
    },
    /// Opens or closes a queue (administrators). Answer: [`Reply::Done`].
    QueueControl {
        /// Name of the queue.
        queue: String,
        /// State that the queue gets.
        state: QueueState,
    },
    /// Makes a queue at run time, or changes one (administrators). Answer: [`Reply::Done`].
    SetQueue {
        /// All of it, its state too.
        spec: Box<QueueSpec>,
        /// Whether it must be new, or must be there already.
        new: bool,
        /// Whether it becomes the default queue.
        default: bool,
    },
    /// Takes a queue away at run time (administrators). Answer: [`Reply::Done`].
    DeleteQueue {
        /// Name of the queue.
        queue: String,
    },
    /// Tells how many of a licence are in use, by the cluster and outside of it (administrators).
    /// Answer: [`Reply::Done`].
    UseLicense {
        /// Name of the licence.
        license: String,
        /// Number in use, as the licence server says.
        in_use: u32,
    },
    /// Reads the configuration again (administrators). Answer: [`Reply::Done`].
    Reload,
    /// A one-time token with which a host joins (administrators). Answer: [`Reply::Token`].
    JoinToken {
        /// Name of the node that may join with it.
        node: String,
        /// How long it is good for.
        valid: Span,
    },
    /// What happened, from a cursor on. Answer: [`Reply::Events`].
    Events {
        /// Number of the last event seen; 0 from the start.
        after: u64,
        /// At most so many.
        most: u32,
        /// The latest ones instead of the first.
        #[serde(default)]
        latest: bool,
    },
    /// What a reservation would cost and whom it would delay. Nothing is kept. Answer:
    /// [`Reply::Quote`].
    Quote {
        /// The reservation as it would be asked for.
        ask: Box<ReservationSpec>,
        /// At most so many candidate slots; as configured without.
        most: Option<u32>,
        /// The plain job that [`Quote::plain_start`](crate::reservation::Quote::plain_start) is of, where
        /// more is known of it than that; it is refused what its submission would be.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        as_job: Option<Box<PlainTerms>>,
    },
    /// A reservation, held or booked at once. Answer: [`Reply::Reserved`].
    Reserve {
        /// The reservation as it is asked for.
        ask: Box<ReservationSpec>,
        /// Only held, to be confirmed later (COSY, 3.2 "Two phase commitment").
        hold: bool,
        /// A script that starts with it.
        job: Option<Box<Submission>>,
    },
    /// Makes a held reservation final. Answer: [`Reply::Reserved`].
    Confirm {
        /// The reservation that is meant.
        id: ReservationId,
    },
    /// Gives reservations back. Answer: [`Reply::Done`].
    CancelReservation {
        /// The reservations that are meant.
        ids: Vec<ReservationId>,
        /// True to cancel also those of the same series that have not begun.
        series: bool,
    },
    /// Makes a reservation longer. Answer: [`Reply::Reserved`].
    ExtendReservation {
        /// The reservation that is meant.
        id: ReservationId,
        /// Length of time that is added at its end.
        by: Span,
        /// Refused when that would cost more.
        max_price: Option<crate::Su>,
    },
    /// Makes a reservation shorter that nothing was paid for. Answer: [`Reply::Reserved`].
    ShortenReservation {
        /// The reservation that is meant.
        id: ReservationId,
        /// When it is to end.
        end: Time,
    },
    /// Changes who may use a reservation. Answer: [`Reply::Reserved`].
    ShareReservation {
        /// The reservation that is meant.
        id: ReservationId,
        /// Users, groups and accounts that come or go.
        change: Box<crate::reservation::SharingChange>,
    },
    /// Changes several things of a reservation: all of them or none. Answer: [`Reply::Reserved`].
    AlterReservation {
        /// The reservation that is meant.
        id: ReservationId,
        /// What becomes other.
        change: Box<crate::reservation::ReservationAlteration>,
    },
    /// Reservations. Answer: [`Reply::Reservations`].
    Reservations {
        /// The reservations that are meant.
        filter: ReservationFilter,
    },
    /// What a workflow's plan would be. Nothing is kept. Answer: [`Reply::FlowPlan`].
    PlanFlow {
        /// The workflow as it would be submitted.
        spec: Box<FlowSpec>,
    },
    /// A workflow: with a deadline, all slots of its plan are held or booked, or none is;
    /// without one, all its jobs are submitted, or none is. Answer: [`Reply::Flow`].
    SubmitFlow {
        /// The workflow as it is submitted.
        spec: Box<FlowSpec>,
        /// Only held, to be confirmed later.
        hold: bool,
    },
    /// Makes a held workflow final: its tasks start when their time comes. Answer:
    /// [`Reply::Flow`].
    ConfirmFlow {
        /// The workflow that is meant.
        id: FlowId,
    },
    /// Gives workflows up: what runs is ended, what has not begun is given back. Answer:
    /// [`Reply::Done`].
    CancelFlow {
        /// The workflows that are meant.
        ids: Vec<FlowId>,
    },
    /// Workflows. Answer: [`Reply::Flows`].
    Flows {
        /// The workflows that are meant.
        filter: FlowFilter,
    },
    /// The plan as a Gantt chart. Answer: [`Reply::PlanChart`].
    PlanChart {
        /// Only bars that begin before this time.
        until: Option<Time>,
        /// At most so many waiting jobs.
        most: u32,
    },
    /// Accounts. Answer: [`Reply::Accounts`].
    Accounts {
        /// Names; all that the user may charge when empty.
        names: Vec<String>,
    },
    /// Makes, funds, changes or removes an account (administrators). Answer:
    /// [`Reply::Done`].
    AccountControl {
        /// Name of the account.
        name: String,
        /// What is done with the account.
        action: AccountAction,
    },
    /// Lines of the ledger, by number. Answer: [`Reply::Ledger`].
    Ledger {
        /// Only lines of this account.
        account: Option<String>,
        /// Only lines of this reservation.
        reservation: Option<ReservationId>,
        /// Number of the last line seen; 0 from the start.
        after: u64,
        /// At most so many.
        most: u32,
    },
    /// Accounts, users, associations, qualities of service. Answer: [`Reply::Policy`].
    Policy(PolicyQuery),
    /// All controllers of the cluster and what they are doing. Also one that stands by answers:
    /// [`Reply::Controllers`].
    Controllers,
    /// The leader lays the lead down for another controller (administrators). The answer comes
    /// before it does so.
    HandOver {
        /// Name of the controller that comes first; without, whoever is there.
        #[serde(default)]
        to: Option<String>,
    },
    /// Moves jobs that ended long ago into archives, for a while (administrators). Answer:
    /// [`Reply::Archived`].
    Archive {
        /// Jobs that ended before; without, those that are older than history is kept.
        #[serde(default)]
        before: Option<Time>,
        /// Only says how many there are.
        #[serde(default)]
        dry_run: bool,
    },
    /// Changes the policy, all of it or nothing (administrators; coordinators below their
    /// accounts). Answer: [`Reply::Done`].
    ChangePolicy {
        /// In this order; each sees what those before it did.
        changes: Vec<PolicyChange>,
        /// Only says whether it would be done.
        #[serde(default)]
        dry_run: bool,
    },
}

impl Request {
    /// True when it changes something and so carries a key.
    pub const fn changes(&self) -> bool {
        match self {
            Self::Submit(_)
            | Self::Allocate(_)
            | Self::Finish { .. }
            | Self::Cancel { .. }
            | Self::Hold { .. }
            | Self::Release { .. }
            | Self::Requeue { .. }
            | Self::Suspend { .. }
            | Self::Resume { .. }
            | Self::Notify { .. }
            | Self::Top { .. }
            | Self::Change { .. }
            | Self::NodeControl { .. }
            | Self::QueueControl { .. }
            | Self::SetQueue { .. }
            | Self::DeleteQueue { .. }
            | Self::UseLicense { .. }
            | Self::Reload
            | Self::JoinToken { .. }
            | Self::Reserve { .. }
            | Self::Confirm { .. }
            | Self::CancelReservation { .. }
            | Self::ExtendReservation { .. }
            | Self::ShortenReservation { .. }
            | Self::ShareReservation { .. }
            | Self::AlterReservation { .. }
            | Self::SubmitFlow { .. }
            | Self::ConfirmFlow { .. }
            | Self::CancelFlow { .. }
            | Self::SetTrigger(_)
            | Self::ClearTriggers { .. }
            | Self::ChangePolicy { .. }
            | Self::AccountControl { .. } => true,
            Self::Ping
            | Self::Meter
            | Self::TryRules { .. }
            | Self::Attend { .. }
            | Self::Entry { .. }
            | Self::Pass { .. }
            | Self::Steps { .. }
            | Self::Jobs { .. }
            | Self::Explain { .. }
            | Self::History { .. }
            | Self::Script { .. }
            | Self::Wait { .. }
            | Self::Queues
            | Self::Nodes
            | Self::Settings
            | Self::Triggers
            | Self::Events { .. }
            | Self::Quote { .. }
            | Self::Reservations { .. }
            | Self::PlanFlow { .. }
            | Self::Flows { .. }
            | Self::PlanChart { .. }
            | Self::Accounts { .. }
            | Self::Policy(_)
            | Self::Archive { .. }
            | Self::Controllers
            | Self::HandOver { .. }
            | Self::Ledger { .. } => false,
        }
    }

    /// True when a program inside a job may need it: to look, and to submit and steer jobs.
    /// A node that is no login host passes on nothing else, so that its key is worth no
    /// more: no bookings, no money, no scripts of other jobs, nothing of administrators.
    pub const fn is_of_jobs(&self) -> bool {
        match self {
            Self::Ping
            | Self::Submit(_)
            | Self::Allocate(_)
            | Self::Attend { .. }
            | Self::Finish { .. }
            | Self::Entry { .. }
            | Self::Cancel { .. }
            | Self::Hold { .. }
            | Self::Release { .. }
            | Self::Requeue { .. }
            | Self::Suspend { .. }
            | Self::Resume { .. }
            | Self::Notify { .. }
            | Self::Top { .. }
            | Self::Change { .. }
            | Self::Jobs { .. }
            | Self::Explain { .. }
            | Self::Steps { .. }
            | Self::History { .. }
            | Self::Wait { .. }
            | Self::Queues
            | Self::Nodes
            | Self::Settings
            | Self::Triggers
            | Self::SetTrigger(_)
            | Self::ClearTriggers { .. }
            | Self::Quote { .. }
            | Self::Reservations { .. }
            | Self::PlanFlow { .. }
            | Self::Flows { .. }
            | Self::CancelFlow { .. }
            | Self::PlanChart { .. }
            | Self::Meter
            | Self::Controllers
            | Self::Policy(_)
            | Self::TryRules { .. }
            | Self::Accounts { .. } => true,
            Self::SubmitFlow { spec, .. } => spec.deadline.is_none(),
            Self::Pass { .. }
            | Self::Script { .. }
            | Self::Events { .. }
            | Self::Ledger { .. }
            | Self::Reserve { .. }
            | Self::Confirm { .. }
            | Self::CancelReservation { .. }
            | Self::ExtendReservation { .. }
            | Self::ShortenReservation { .. }
            | Self::ShareReservation { .. }
            | Self::AlterReservation { .. }
            | Self::ConfirmFlow { .. }
            | Self::AccountControl { .. }
            | Self::NodeControl { .. }
            | Self::QueueControl { .. }
            | Self::SetQueue { .. }
            | Self::DeleteQueue { .. }
            | Self::UseLicense { .. }
            | Self::Reload
            | Self::ChangePolicy { .. }
            | Self::Archive { .. }
            | Self::HandOver { .. }
            | Self::JoinToken { .. } => false,
        }
    }
}
