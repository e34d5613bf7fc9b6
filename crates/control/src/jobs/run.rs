//! An attempt of a job that holds nodes: its phase, its share of each node, its time limit.
//!
//! ```text
//!            began             suspend
//!  Starting ───────▶ Running ──────────▶ Suspended ─┐ wants_on: until it has its cores
//!     │                 │  ◀──────────────   │  ▲───┘
//!     │                 │      goes_on       │
//!     └─────────────────┴── ends ────────────┴──▶ Completing, until each node has given its share back
//! ```
//!
//! Nothing but [`events`] changes it.

mod events;
pub(crate) mod rows;

use crate::record::{AfterRun, HeldBy, PreemptedRow, PromisedRow, StepUse};
use cosy_model::node::KillCause;
use cosy_model::policy::PreemptMode;
use cosy_model::{Amounts, DeviceUse, End, JobState, MiB, NodeId, NodeShare, Span, Time, limits};
use std::collections::{BTreeMap, BTreeSet};

/// One attempt of a job, from its nodes to their clean-up.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    allocated: Time,
    phase: RunPhase,
    parts: Vec<Part>,
    launching: Launching,
    limit: Span,
    cut: Span,
    killed: Option<KillCause>,
    canceller: Option<String>,
    /// How long it was suspended, without the suspension under way.
    suspended_for: Span,
    leaving: Vec<Part>,
    /// When it has given nodes back last.
    resized: Option<Time>,
    hold_after: Option<HeldBy>,
    /// It makes room for another job.
    preempted: Option<PreemptedRow>,
    /// It is to leave before a reservation begins.
    promised: Option<PromisedRow>,
    /// Until then its work is safe.
    checkpoint: Option<Time>,
    lost: BTreeSet<NodeId>,
    /// How many of its nodes, the last ones, stand by for lost ones.
    spares: u32,
    steps: StepUse,
    /// Of the nodes that have given their share back.
    devices: DeviceUse,
    doubtful: bool,
    from_store: bool,
    /// How its program ended, where the job waits again after it.
    reported: Option<End>,
}

#[derive(Clone, Debug)]
enum RunPhase {
    /// Nodes are made ready; the program has not begun.
    Starting,
    Running {
        started: Time,
    },
    Suspended {
        started: Time,
        since: Time,
        /// It goes on as soon as it has its cores again.
        resuming: bool,
    },
    /// Its nodes clean up.
    Completing {
        /// `None` when its program never began.
        started: Option<Time>,
        after: AfterRun,
    },
}

/// How far the order to start the program is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Launching {
    /// It was not given.
    NotYet,
    /// It was given while there was no link to the first node, so it is not there.
    Unsent,
    /// It has left: it may have arrived, also when nothing is heard of it.
    Sent,
    /// An earlier controller may have sent it.
    Unknown,
}

/// The share of one node.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    node: NodeId,
    tasks: u32,
    amounts: Amounts,
    /// For which component of the job.
    component: u16,
    cores: Vec<u32>,
    gpus: Vec<u32>,
    devices: BTreeMap<String, Vec<u32>>,
    boot_id: String,
    /// What it holds while the job is suspended: its cores are lent to others.
    kept: Option<Amounts>,
    step: PartStep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartStep {
    /// An order is under way.
    Ordered,
    /// The node is ready or the program runs.
    Ready,
    /// The node has given its share back.
    Released,
}

/// What a job gets of one node, by number.
pub(crate) struct Numbered {
    pub cores: Vec<u32>,
    pub gpus: Vec<u32>,
    /// Pieces of other resources by name.
    pub devices: BTreeMap<String, Vec<u32>>,
}

/// What a node has back of a job.
pub(crate) struct GivenBack {
    /// Numbers of cores, without those that were lent.
    pub cores: Vec<u32>,
    pub gpus: Vec<u32>,
    /// Pieces of other resources by number.
    pub devices: BTreeMap<String, Vec<u32>>,
    /// No other node holds anything for the job.
    pub last: bool,
}

impl Part {
    /// A share whose node has yet to be ordered to make it ready. `boot_id` is that of the
    /// node's machine: after another boot nothing of the job is there.
    pub fn new(share: NodeShare, numbered: Numbered, boot_id: String) -> Self {
        Self {
            node: share.node,
            tasks: share.tasks,
            amounts: share.amounts,
            component: share.component,
            cores: numbered.cores,
            gpus: numbered.gpus,
            devices: numbered.devices,
            boot_id,
            kept: None,
            step: PartStep::Ordered,
        }
    }

    pub fn node(&self) -> NodeId {
        self.node
    }

    pub fn tasks(&self) -> u32 {
        self.tasks
    }

    /// What the job was given, cores that it lends among it.
    pub fn amounts(&self) -> &Amounts {
        &self.amounts
    }

    /// For which component of the job.
    pub fn component(&self) -> u16 {
        self.component
    }

    /// Numbers of its cores, of those that it lends too.
    pub fn cores(&self) -> &[u32] {
        &self.cores
    }

    pub fn gpus(&self) -> &[u32] {
        &self.gpus
    }

    /// Pieces of other resources by number.
    pub fn devices(&self) -> &BTreeMap<String, Vec<u32>> {
        &self.devices
    }

    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// The node has yet to say that it is ready.
    pub fn is_ordered(&self) -> bool {
        self.step == PartStep::Ordered
    }

    /// The node is ready or the program runs there.
    pub fn is_ready(&self) -> bool {
        self.step == PartStep::Ready
    }

    /// The node has given its share back.
    pub fn is_released(&self) -> bool {
        self.step == PartStep::Released
    }

    /// Its cores are lent while the job is suspended.
    pub fn lends(&self) -> bool {
        self.kept.is_some()
    }

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

impl Run {
    pub fn allocated(&self) -> Time {
        self.allocated
    }

    /// When its program began.
    pub fn started(&self) -> Option<Time> {
        match &self.phase {
            RunPhase::Starting => None,
            RunPhase::Running { started } | RunPhase::Suspended { started, .. } => Some(*started),
            RunPhase::Completing { started, .. } => *started,
        }
    }

    pub fn state(&self) -> JobState {
        match &self.phase {
            RunPhase::Starting => JobState::Starting,
            RunPhase::Running { .. } => JobState::Running,
            RunPhase::Suspended { .. } => JobState::Suspended,
            RunPhase::Completing { .. } => JobState::Completing,
        }
    }

    /// What follows it, once it is over: its nodes are cleaning up.
    pub fn after(&self) -> Option<&AfterRun> {
        match &self.phase {
            RunPhase::Completing { after, .. } => Some(after),
            RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Suspended { .. } => None,
        }
    }

    /// It is over: its nodes are cleaning up.
    pub fn is_over(&self) -> bool {
        self.after().is_some()
    }

    /// Since when it is suspended.
    pub fn suspended(&self) -> Option<Time> {
        match &self.phase {
            RunPhase::Suspended { since, .. } => Some(*since),
            RunPhase::Starting | RunPhase::Running { .. } | RunPhase::Completing { .. } => None,
        }
    }

    /// It is suspended only until it has its cores again.
    pub fn is_resuming(&self) -> bool {
        matches!(self.phase, RunPhase::Suspended { resuming: true, .. })
    }

    /// It has been suspended for so long, without the suspension under way.
    pub fn suspended_for(&self) -> Span {
        self.suspended_for
    }

    /// Its time limit; inside a reservation not beyond its end.
    pub fn limit(&self) -> Span {
        self.limit
    }

    /// By how much its limit was cut because its program began late.
    pub fn cut(&self) -> Span {
        self.cut
    }

    pub fn killed(&self) -> Option<KillCause> {
        self.killed
    }

    /// Who cancelled it.
    pub fn canceller(&self) -> Option<&str> {
        self.canceller.as_deref()
    }

    /// When it has given nodes back last.
    pub fn resized(&self) -> Option<Time> {
        self.resized
    }

    /// Who holds the job when it waits again.
    pub fn hold_after(&self) -> Option<HeldBy> {
        self.hold_after
    }

    /// What its steps have used, as far as their records have come.
    pub fn steps(&self) -> StepUse {
        self.steps
    }

    /// What it has used of the energy and the GPUs of nodes that have given their share back.
    pub fn devices(&self) -> DeviceUse {
        self.devices
    }

    /// The store was restored since: whether it still runs, its nodes have to tell.
    pub fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// It began under an earlier controller.
    pub fn is_from_store(&self) -> bool {
        self.from_store
    }

    /// It makes room for another job, or stands still for that.
    pub fn preempted(&self) -> Option<PreemptedRow> {
        self.preempted
    }

    /// It is ended to make room for another job.
    pub fn gives_way(&self) -> Option<PreemptedRow> {
        self.preempted.filter(|p| p.mode != PreemptMode::Suspend)
    }

    /// An end for this cause makes room, and is not one that somebody wants meanwhile.
    pub fn ends_to_make_room(&self, cause: KillCause) -> bool {
        let ordered = matches!(cause, KillCause::Cancelled | KillCause::Requeued);
        ordered && self.canceller.is_none() && self.gives_way().is_some_and(|way| way.told)
    }

    /// It is to leave before a reservation begins, and was not told yet.
    pub fn promised(&self) -> Option<PromisedRow> {
        self.promised
    }

    /// Until then its work is safe, as it says itself.
    pub fn checkpoint(&self) -> Option<Time> {
        self.checkpoint
    }

    /// How its program ended, where the job waits again after it and its node has told.
    pub fn reported(&self) -> Option<&End> {
        self.reported.as_ref()
    }

    /// Nodes whose loss ends it.
    pub fn lost(&self) -> &BTreeSet<NodeId> {
        &self.lost
    }

    /// The order to start its program was given.
    pub fn is_launched(&self) -> bool {
        match self.launching {
            Launching::Unsent | Launching::Sent => true,
            Launching::NotYet | Launching::Unknown => false,
        }
    }

    /// The first node may have the order to start its program.
    fn launch_may_be_there(&self) -> bool {
        match self.launching {
            Launching::Sent | Launching::Unknown => true,
            Launching::NotYet | Launching::Unsent => false,
        }
    }

    /// Its program may have run: its node has said so, or may have the order to start it.
    pub fn may_have_run(&self) -> bool {
        self.started().is_some() || self.launch_may_be_there()
    }

    // ---- time

    /// When its time is over; `None` without limit, before its start, and while it is
    /// suspended.
    pub fn ends_at(&self) -> Option<Time> {
        let limited = self.suspended().is_none() && !self.limit.is_unlimited();
        self.started()
            .filter(|_| limited)
            .map(|_| self.planned_end())
    }

    /// When its time is over: what is planned on, promised to others, enforced and shown.
    /// Without end while it is suspended.
    pub fn planned_end(&self) -> Time {
        match self.suspended() {
            Some(_) => Time::FAR,
            None => self.end_if_it_goes_on(),
        }
    }

    /// The same, were it not suspended any more.
    pub fn end_if_it_goes_on(&self) -> Time {
        let end = self.own_end();
        let end = self.gives_way().map_or(end, |way| end.min(way.until));
        self.promised.map_or(end, |row| end.min(row.until))
    }

    /// The same, if no reservation needed its nodes, and nobody for whom it makes room and may still be
    /// spared.
    pub fn end_unless_promised(&self) -> Time {
        let told = self.gives_way().filter(|way| way.told);
        told.map_or(self.own_end(), |way| self.own_end().min(way.until))
    }

    /// When its limit is over.
    fn own_end(&self) -> Time {
        self.counts_from() + self.limit + self.suspended_for
    }

    /// From when its limit counts: its allocation, or the start of its program where that
    /// came late. Where others had a promise, the limit itself was cut by that.
    fn counts_from(&self) -> Time {
        let late = self.late();
        self.started()
            .filter(|_| late > limits::LATE_START)
            .unwrap_or(self.allocated)
    }

    /// How much later than its allocation its program began.
    pub fn late(&self) -> Span {
        self.started()
            .map_or(Span::ZERO, |start| start.since(self.allocated))
    }

    /// How long it has run, without the time in which it was suspended.
    pub fn elapsed(&self, now: Time) -> Span {
        let until = self.suspended().unwrap_or(now);
        let whole = self
            .started()
            .map_or(Span::ZERO, |start| until.since(start));
        Span((whole.0 - self.suspended_for.0).max(0))
    }

    /// Core-milliseconds that it has had until now, without the time in which it was
    /// suspended.
    pub fn core_ms(&self, now: Time) -> i128 {
        let cores = self.parts.iter().map(|p| i128::from(p.amounts.cores));
        let stopped = self.suspended().map_or(0, |since| now.since(since).ms());
        let held = now.since(self.allocated).ms() - self.suspended_for.ms() - stopped;
        cores.sum::<i128>() * i128::from(held.max(0))
    }

    // ---- nodes

    /// Its share of each node that it does not give back.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Its nodes and those that it gives back.
    pub fn all_parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().chain(&self.leaving)
    }

    /// Its share of that node, also when it gives that back.
    pub fn part(&self, node: NodeId) -> Option<&Part> {
        self.all_parts().find(|p| p.node == node)
    }

    fn part_mut(&mut self, node: NodeId) -> Option<&mut Part> {
        let mut all = self.parts.iter_mut().chain(&mut self.leaving);
        all.find(|p| p.node == node)
    }

    /// The node on which its program is started.
    pub fn first(&self) -> Option<NodeId> {
        self.parts.first().map(|p| p.node)
    }

    /// Nodes of it that stand by for lost ones.
    pub fn spares(&self) -> u32 {
        let others = self.parts.len().saturating_sub(1);
        self.spares.min(u32::try_from(others).unwrap_or(u32::MAX))
    }

    /// Its shares of the nodes that serve: all but those that stand by.
    pub fn serving(&self) -> &[Part] {
        let standing_by = self.spares() as usize;
        let serving = self.parts.len().checked_sub(standing_by);
        serving
            .and_then(|n| self.parts.get(..n))
            .unwrap_or(&self.parts)
    }

    /// It gives that node back while it goes on.
    pub fn leaves(&self, node: NodeId) -> bool {
        self.leaving.iter().any(|p| p.node == node)
    }

    /// Others may have its cores.
    pub fn lends(&self) -> bool {
        self.parts.iter().any(Part::lends)
    }

    /// What it was given and has not given back, by node, cores that are lent among it.
    pub fn shares(&self) -> Vec<NodeShare> {
        self.shares_of(|part| &part.amounts)
    }

    /// What the planner keeps for it: when it is suspended, what it still holds.
    pub fn planned_shares(&self) -> Vec<NodeShare> {
        if !self.lends() || self.is_resuming() {
            return self.shares();
        }
        let mut shares = self.shares_of(Part::held);
        shares.retain(|share| share.amounts != Amounts::default());
        shares
    }

    fn shares_of(&self, amounts: impl Fn(&Part) -> &Amounts) -> Vec<NodeShare> {
        let held = self.all_parts().filter(|p| !p.is_released());
        let share = |p: &Part| NodeShare {
            component: p.component,
            node: p.node,
            tasks: p.tasks,
            amounts: amounts(p).clone(),
        };
        held.map(share).collect()
    }

    /// The same attempt with the nodes of one component.
    pub fn of_component(&self, component: u16) -> Self {
        let parts = self.parts.iter();
        let parts = parts.filter(|part| part.component == component);
        Self {
            parts: parts.cloned().collect(),
            ..self.clone()
        }
    }
}
