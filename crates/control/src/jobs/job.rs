//! A job in memory.

use crate::jobs::bodies::Body;
use crate::record::{
    AfterRun, HeldBy, JobRow, Numbering, OfFlow, PartRow, RunRow, StepUse, SubmissionRow,
};
use cosy_model::job::ResourceRequest;
use cosy_model::node::{AttemptKey, KillCause};
use cosy_model::{
    AccessLevel, Amounts, Attempt, ClockStep, Dialect, End, Gid, JobId, JobSpec, JobState, MiB,
    NodeId, NodeShare, Program, QueueId, Span, Time, Uid, WaitReason, limits,
};
use cosy_sched::Demand;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the tasks of an array, or a single job, share.
#[derive(Debug)]
pub(crate) struct Submitted {
    pub base: JobId,
    /// Its number among the bodies of the submission.
    pub body: u32,
    pub uid: Uid,
    pub gid: Gid,
    pub user: String,
    pub submit: Time,
    pub spec: JobSpec,
    /// The queue by name; `place` is its number in the present configuration.
    pub queue: String,
    pub place: Place,
    /// The workflow that it is a task of.
    pub flow: Option<OfFlow>,
    /// In lists by component: only this one is meant.
    pub only: Option<u16>,
}

/// What the present configuration makes of a submission.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// The planner can work with it.
    Good {
        queue: QueueId,
        level: AccessLevel,
        demand: Arc<Demand>,
        limit: Span,
        /// The fewest nodes on which it could be.
        least: u32,
    },
    /// The queue is gone or the machine has become too small: it waits for a better one.
    Lost,
    /// It asks for more than its queue allows and waits until the queue allows it.
    Beyond {
        reason: WaitReason,
        limit: Span,
        /// The fewest nodes on which it could be if the queue had enough.
        least: u32,
    },
}

impl Submitted {
    /// True when nothing is launched: its owner starts steps until it is given back.
    pub fn is_held(&self) -> bool {
        self.spec.program == Program::Allocation
    }

    /// Whether an attempt that was lost is followed by another one. What a command stays
    /// with is not: it has been told of this attempt.
    pub fn runs_again(&self, may_have_run: bool) -> bool {
        !self.spec.attended && (self.may_run_again() || !may_have_run)
    }

    /// Whether it may run again. Every job of Slurm's says so, but only batch jobs do.
    pub fn may_run_again(&self) -> bool {
        self.spec.requeue && !(self.is_held() && self.spec.dialect == Dialect::Slurm)
    }

    /// One of those of which a user may have only so many at once. Slurm has no such limit.
    pub fn counts_as_interactive(&self) -> bool {
        self.spec.attended && self.spec.dialect == Dialect::Cosy
    }

    /// It asked for memory or disk; where it is not known any more, it counts as if.
    pub fn asks_for_room(&self) -> bool {
        match &self.place {
            Place::Good { demand, .. } => {
                let mut each = demand.iter().flat_map(|one| [&one.per_task, &one.per_node]);
                each.any(|a| a.memory.0 > 0 || a.disk.0 > 0)
            }
            Place::Lost | Place::Beyond { .. } => true,
        }
    }

    /// True when it gets whole nodes.
    pub fn is_exclusive(&self) -> bool {
        match &self.place {
            Place::Good { demand, .. } => demand.holds_whole_nodes(),
            Place::Lost | Place::Beyond { .. } => false,
        }
    }

    /// The id by which its priority is told: in lists by component that of the component.
    pub fn rank(&self) -> JobId {
        JobId(self.base.0 + u64::from(self.only.unwrap_or(0)))
    }

    /// What is asked for, by the component that is meant or by all.
    pub fn requests(&self) -> impl Iterator<Item = &ResourceRequest> {
        // The request of the one that is meant stands in the place of the first.
        let count = self.only.map_or(usize::MAX, |_| 1);
        let components = self.spec.components().take(count);
        components.map(|component| component.request)
    }
}

impl Place {
    pub fn limit(&self) -> Span {
        match self {
            Self::Good { limit, .. } => *limit,
            Self::Beyond { limit, .. } => *limit,
            Self::Lost => Span::UNLIMITED,
        }
    }

    /// The fewest nodes on which it could be, where that is known.
    pub const fn least(&self) -> Option<u32> {
        match self {
            Self::Good { least, .. } | Self::Beyond { least, .. } => Some(*least),
            Self::Lost => None,
        }
    }
}

/// Its place in an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub index: u32,
    /// The how-manieth task it is.
    pub at: u32,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub id: JobId,
    pub member: Option<Member>,
    pub submitted: Arc<Submitted>,
    /// It was changed alone, not with the others of its array.
    pub own: bool,
    /// It has a row in the store.
    pub has_row: bool,
    pub held: Option<HeldBy>,
    /// The directory service has to tell the user's groups first.
    pub needs_user: bool,
    pub attempt: Attempt,
    pub eligible: Option<Time>,
    /// It waits again, and not before then.
    pub not_before: Option<Time>,
    pub phase: Phase,
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// In the planner's queue when there is no reason, else out of it.
    Waiting(Option<WaitReason>),
    /// Holds nodes.
    Run(Box<Run>),
}

/// An attempt.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub allocated: Time,
    pub started: Option<Time>,
    pub parts: Vec<Part>,
    /// Whether the program was ordered to start on the first node.
    pub launching: Launching,
    /// Its time limit; inside a reservation not beyond its end.
    pub limit: Span,
    /// By how much that was cut because its program began late.
    pub cut: Span,
    pub after: Option<AfterRun>,
    pub killed: Option<KillCause>,
    /// Who cancelled it.
    pub canceller: Option<String>,
    /// Stopped since then.
    pub suspended: Option<Time>,
    /// How long it was stopped before.
    pub suspended_for: Span,
    /// Stopped only until it has its cores again.
    pub resuming: bool,
    /// Nodes that it gives back while it goes on, until they are clean.
    pub leaving: Vec<Part>,
    /// When it has given nodes back last.
    pub resized: Option<Time>,
    /// When it waits again, it is held.
    pub hold_after: Option<HeldBy>,
    /// Nodes whose loss ends it.
    pub lost: BTreeSet<NodeId>,
    /// What its steps have used, as far as their records have come.
    pub steps: StepUse,
    /// The store was restored since: whether it still runs, its nodes have to tell.
    pub doubtful: bool,
    /// It began under an earlier controller.
    pub from_store: bool,
}

/// How far the order to start the program is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Launching {
    /// It was not given.
    NotYet,
    /// It was given while there was no link to the first node, so it is not there.
    Unsent,
    /// It has left: it may have arrived, also when nothing is heard of it.
    Sent,
    /// An earlier controller may have sent it.
    Unknown,
}

impl Launching {
    /// It was given.
    pub const fn is_given(self) -> bool {
        match self {
            Self::Unsent | Self::Sent => true,
            Self::NotYet | Self::Unknown => false,
        }
    }

    /// The first node may have it.
    pub const fn may_be_there(self) -> bool {
        match self {
            Self::Sent | Self::Unknown => true,
            Self::NotYet | Self::Unsent => false,
        }
    }
}

/// The share of one node.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub node: NodeId,
    pub tasks: u32,
    pub amounts: Amounts,
    /// For which component of the job.
    pub component: u16,
    pub cores: Vec<u32>,
    pub gpus: Vec<u32>,
    /// Pieces of other resources by number.
    pub devices: BTreeMap<String, Vec<u32>>,
    pub boot_id: String,
    /// All that it holds while the job is suspended: its cores are lent to others.
    pub kept: Option<Amounts>,
    pub step: PartStep,
}

impl Part {
    /// What nobody else may have now.
    pub fn held(&self) -> &Amounts {
        self.kept.as_ref().unwrap_or(&self.amounts)
    }

    /// The cores that nobody else may have now, by number.
    pub fn held_cores(&self) -> &[u32] {
        match self.kept {
            Some(_) => &[],
            None => &self.cores,
        }
    }

    /// Memory there; `None` is not limited.
    pub fn memory(&self) -> Option<MiB> {
        Some(self.amounts.memory).filter(|m| m.0 > 0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartStep {
    /// An order is under way.
    Ordered,
    /// The node is ready or the program runs.
    Ready,
    /// The node has given its share back.
    Released,
}

impl Job {
    pub fn key(&self) -> AttemptKey {
        AttemptKey {
            job: self.id,
            attempt: self.attempt,
        }
    }

    pub fn spec(&self) -> &JobSpec {
        &self.submitted.spec
    }

    /// Its place among jobs of the same moment: tasks of an array go in the order of their
    /// indices, whatever their ids.
    pub fn rank(&self) -> JobId {
        let at = self.member.map_or(0, |member| u64::from(member.at));
        JobId(self.submitted.base.0 + at)
    }

    pub fn run(&self) -> Option<&Run> {
        match &self.phase {
            Phase::Run(run) => Some(run),
            Phase::Waiting(_) => None,
        }
    }

    pub fn run_mut(&mut self) -> Option<&mut Run> {
        match &mut self.phase {
            Phase::Run(run) => Some(run),
            Phase::Waiting(_) => None,
        }
    }

    /// Nobody else may be on the nodes that it holds.
    pub fn holds_whole_nodes(&self) -> bool {
        let lends = |run: &Run| run.lends() && !run.resuming;
        self.submitted.is_exclusive() && !self.run().is_some_and(lends)
    }

    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_))
    }

    pub fn state(&self) -> JobState {
        match &self.phase {
            Phase::Waiting(_) => JobState::Waiting,
            Phase::Run(run) if run.after.is_some() => JobState::Completing,
            Phase::Run(run) if run.suspended.is_some() => JobState::Suspended,
            Phase::Run(run) if run.started.is_some() => JobState::Running,
            Phase::Run(_) => JobState::Starting,
        }
    }

    /// The row as it is now; `names` are the node names by number.
    pub fn row(&self, names: &dyn Fn(NodeId) -> String) -> JobRow {
        JobRow {
            id: self.id,
            base: self.submitted.base,
            index: self.member.map(|m| m.index),
            state: self.state(),
            attempt: self.attempt,
            held: self.held,
            body: self.submitted.body,
            changed: None,
            queue: None,
            eligible: self.eligible,
            run: self.run().map(|r| r.row(names)),
            end: None,
            note: String::new(),
            derived: self
                .run()
                .map_or((0, 0), |run| (run.steps.exit_code, run.steps.signal)),
        }
    }

    /// The row of its end.
    pub fn end_row(&self, end: &End, note: &str, names: &dyn Fn(NodeId) -> String) -> JobRow {
        JobRow {
            state: end.state(),
            end: Some(end.clone()),
            note: note.to_owned(),
            ..self.row(names)
        }
    }
}

impl Run {
    fn row(&self, names: &dyn Fn(NodeId) -> String) -> RunRow {
        let part = |p: &Part| PartRow {
            node: names(p.node),
            tasks: p.tasks,
            amounts: p.amounts.clone(),
            component: p.component,
            cores: p.cores.clone(),
            gpus: p.gpus.clone(),
            devices: p.devices.clone(),
            boot_id: p.boot_id.clone(),
            kept: p.kept.clone(),
            released: p.step == PartStep::Released,
        };
        RunRow {
            allocated: self.allocated,
            started: self.started,
            limit: Some(self.limit),
            cut: self.cut,
            parts: self.parts.iter().map(part).collect(),
            after: self.after.clone(),
            killed: self.killed,
            canceller: self.canceller.clone(),
            suspended: self.suspended,
            suspended_for: self.suspended_for,
            resuming: self.resuming,
            leaving: self.leaving.iter().map(part).collect(),
            resized: self.resized,
            hold_after: self.hold_after.is_some(),
            special_after: self.hold_after == Some(HeldBy::Special),
            lost: self.lost.iter().map(|node| names(*node)).collect(),
            doubtful: self.doubtful,
        }
    }

    /// When its time is over; `None` without limit, before its start, and while it is
    /// suspended.
    pub fn ends_at(&self) -> Option<Time> {
        let limited = self.suspended.is_none() && !self.limit.is_unlimited();
        self.started.filter(|_| limited).map(|_| self.planned_end())
    }

    /// When its time is over: what is planned on, promised to others, enforced and shown.
    /// Without end while it is suspended.
    pub fn planned_end(&self) -> Time {
        match self.suspended {
            Some(_) => Time::FAR,
            None => self.end_if_it_goes_on(),
        }
    }

    /// The same, were it not suspended any more.
    pub fn end_if_it_goes_on(&self) -> Time {
        self.counts_from() + self.limit + self.suspended_for
    }

    /// From when its limit counts: its allocation, or the start of its program where that
    /// came late. Where others had a promise, the limit itself was cut by that.
    fn counts_from(&self) -> Time {
        let late = self.late();
        self.started
            .filter(|_| late > limits::LATE_START)
            .unwrap_or(self.allocated)
    }

    /// How much later than its allocation its program began.
    pub fn late(&self) -> Span {
        self.started
            .map_or(Span::ZERO, |start| start.since(self.allocated))
    }

    /// The clock on the wall was set: its dates become those that this clock
    /// would have shown, so that what has passed since stays what it was.
    pub fn clock_set(&mut self, step: ClockStep) {
        self.allocated = self.allocated.set_by(step);
        let dates = [&mut self.started, &mut self.suspended, &mut self.resized];
        for date in dates.into_iter().flatten() {
            *date = date.set_by(step);
        }
    }

    /// How long it has run, without the time in which it was suspended.
    pub fn elapsed(&self, now: Time) -> Span {
        let until = self.suspended.unwrap_or(now);
        let whole = self.started.map_or(Span::ZERO, |start| until.since(start));
        Span((whole.0 - self.suspended_for.0).max(0))
    }

    /// Core-milliseconds that it has had until now, without the time in which it was
    /// suspended.
    pub fn core_ms(&self, now: Time) -> i128 {
        let cores = self.parts.iter().map(|p| i128::from(p.amounts.cores));
        let stopped = self.suspended.map_or(0, |since| now.since(since).ms());
        let held = now.since(self.allocated).ms() - self.suspended_for.ms() - stopped;
        cores.sum::<i128>() * i128::from(held.max(0))
    }

    /// Its program may have run: its node has said so, or may have the order to start it.
    pub fn may_have_run(&self) -> bool {
        self.started.is_some() || self.launching.may_be_there()
    }

    /// What it was given and has not given back, by node, cores that are lent among it.
    pub fn shares(&self) -> Vec<NodeShare> {
        self.shares_of(|part| &part.amounts)
    }

    /// What the planner keeps for it: when it is suspended, what it still holds.
    pub fn planned_shares(&self) -> Vec<NodeShare> {
        if !self.lends() || self.resuming {
            return self.shares();
        }
        let mut shares = self.shares_of(Part::held);
        shares.retain(|share| share.amounts != Amounts::default());
        shares
    }

    fn shares_of(&self, amounts: impl Fn(&Part) -> &Amounts) -> Vec<NodeShare> {
        let held = self.all_parts().filter(|p| p.step != PartStep::Released);
        let share = |p: &Part| NodeShare {
            component: p.component,
            node: p.node,
            tasks: p.tasks,
            amounts: amounts(p).clone(),
        };
        held.map(share).collect()
    }

    /// Others may have its cores.
    pub fn lends(&self) -> bool {
        self.parts.iter().any(|part| part.kept.is_some())
    }

    /// Its nodes and those that it gives back.
    pub fn all_parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().chain(&self.leaving)
    }

    /// It gives that node back while it goes on.
    pub fn leaves(&self, node: NodeId) -> bool {
        self.leaving.iter().any(|p| p.node == node)
    }

    pub fn part(&self, node: NodeId) -> Option<&Part> {
        self.all_parts().find(|p| p.node == node)
    }

    pub fn part_mut(&mut self, node: NodeId) -> Option<&mut Part> {
        let mut all = self.parts.iter_mut().chain(&mut self.leaving);
        all.find(|p| p.node == node)
    }

    pub fn first(&self) -> Option<NodeId> {
        self.parts.first().map(|p| p.node)
    }
}

/// What became of an array's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskOutcome {
    Live,
    Ok,
    NotOk,
}

/// A submission with jobs that live.
#[derive(Debug)]
pub(crate) struct Group {
    /// What tasks without a row of their own ask for.
    pub submitted: Arc<Submitted>,
    /// Who holds those.
    pub held: Option<HeldBy>,
    /// Live tasks without a row of their own.
    pub plain: u32,
    /// What its live jobs ask for, by number.
    pub bodies: BTreeMap<u32, Body>,
    /// A number that no body has had.
    pub next_body: u32,
    /// Indices of an array.
    pub indices: Option<Vec<u32>>,
    /// Which task has which id.
    pub numbering: Numbering,
    pub at_once: Option<u32>,
    pub fates: Vec<TaskOutcome>,
    /// Tasks that have not ended.
    pub live: u32,
    /// Tasks that have ended otherwise than with exit code 0.
    pub failed: u32,
    /// The latest start of a task.
    pub last_start: Option<Time>,
    /// Tasks that hold nodes.
    pub running: u32,
    /// Tasks in the planner's queue.
    pub queued: u32,
    /// Tasks that have started or ended.
    pub touched: u32,
    /// Tasks that wait only for others of the array to end, by their place.
    pub throttled: BTreeSet<usize>,
}

impl Group {
    pub fn of_row(row: &SubmissionRow, submitted: Arc<Submitted>) -> Self {
        let ids = row.tasks() as usize;
        Self {
            held: submitted.spec.hold.then_some(HeldBy::User),
            plain: ids as u32,
            bodies: BTreeMap::new(),
            next_body: submitted.body + 1,
            submitted,
            indices: row.indices.clone(),
            numbering: row.numbering,
            at_once: row.at_once,
            fates: vec![TaskOutcome::Live; ids],
            live: ids as u32,
            failed: 0,
            last_start: None,
            running: 0,
            queued: 0,
            touched: 0,
            throttled: BTreeSet::new(),
        }
    }

    /// All tasks have started or ended.
    pub fn all_touched(&self) -> bool {
        self.touched as usize == self.fates.len()
    }

    /// The task at that place has ended.
    pub fn settle(&mut self, at: usize, ok: bool) {
        let Some(fate) = self.fates.get_mut(at) else {
            return;
        };
        if *fate == TaskOutcome::Live {
            *fate = if ok {
                TaskOutcome::Ok
            } else {
                TaskOutcome::NotOk
            };
            self.live -= 1;
            self.failed += u32::from(!ok);
        }
    }

    /// The task at that place, which has ended, waits again.
    pub fn unsettle(&mut self, at: usize) {
        let Some(fate) = self.fates.get_mut(at) else {
            return;
        };
        match std::mem::replace(fate, TaskOutcome::Live) {
            TaskOutcome::Live => return,
            TaskOutcome::Ok => {}
            TaskOutcome::NotOk => self.failed -= 1,
        }
        self.live += 1;
    }

    /// A task has started then.
    pub fn note_start(&mut self, at: Time) {
        self.last_start = self.last_start.max(Some(at));
    }

    /// Task id and fate for an index.
    pub fn task(&self, index: u32) -> Option<(JobId, TaskOutcome)> {
        let at = self.indices.as_ref()?.binary_search(&index).ok()?;
        Some((self.id_at(at), self.fates[at]))
    }

    /// The id of the task at place `at`.
    pub fn id_at(&self, at: usize) -> JobId {
        self.numbering.id(self.submitted.base, at, self.fates.len())
    }

    /// The place of the task with this id.
    pub fn place_of(&self, id: JobId) -> usize {
        self.numbering
            .place(self.submitted.base, id, self.fates.len())
    }

    /// All ids, in the order of the indices.
    pub fn ids(&self) -> impl Iterator<Item = JobId> + use<> {
        let (numbering, base, tasks) = (self.numbering, self.submitted.base, self.fates.len());
        (0..tasks).map(move |at| numbering.id(base, at, tasks))
    }
}
