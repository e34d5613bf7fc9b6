//! A job in memory.

use crate::jobs::bodies::Body;
use crate::jobs::run::Run;
use crate::jobs::small_map::SmallMap;
use crate::jobs::task_set::TaskSet;
use crate::jobs::uncommon::{MaybeTime, Uncommon};
use crate::record::{HeldBy, JobRow, Numbering, OfFlow, RunRow, SubmissionRow};
use cosy_model::job::ResourceRequest;
use cosy_model::node::AttemptKey;
use cosy_model::{
    AccessLevel, Attempt, Dialect, End, Gid, JobId, JobSpec, JobState, NodeId, Program, QueueId,
    Span, TaskIndices, Time, Uid, WaitReason,
};
use cosy_sched::Demand;
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
    pub spec: Arc<JobSpec>,
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

    /// Whether an attempt that was lost is followed by another one: not more often than its owner
    /// says. What a command stays with is not: it has been told of this attempt.
    pub fn runs_again(&self, may_have_run: bool) -> bool {
        let again = || self.may_run_again() && self.spec.may_be_lost();
        !self.spec.attended && (!may_have_run || again())
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
    /// Zero-based position among the array's tasks, in ascending order of their indices.
    pub at: u32,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(in crate::jobs) id: JobId,
    pub(in crate::jobs) member: Option<Member>,
    pub(in crate::jobs) submitted: Arc<Submitted>,
    /// It was changed alone, not with the others of its array.
    pub(in crate::jobs) own: bool,
    /// It has a row in the store.
    pub(in crate::jobs) has_row: bool,
    pub(in crate::jobs) held: Option<HeldBy>,
    /// The directory service has to tell the user's groups first.
    pub(in crate::jobs) needs_user: bool,
    pub(in crate::jobs) attempt: Attempt,
    pub(in crate::jobs) eligible: MaybeTime,
    pub(in crate::jobs) uncommon: Option<Box<Uncommon>>,
    pub(in crate::jobs) phase: Phase,
}

impl Job {
    /// It waits, and nobody has looked at it yet.
    pub fn fresh(id: JobId, member: Option<Member>, submitted: Arc<Submitted>) -> Self {
        Self {
            id,
            member,
            submitted,
            own: false,
            has_row: false,
            held: None,
            needs_user: false,
            attempt: Attempt(0),
            eligible: MaybeTime::from(None),
            uncommon: None,
            phase: Phase::Waiting(Some(WaitReason::Fresh)),
        }
    }
}

/// What is known of it.
impl Job {
    pub fn id(&self) -> JobId {
        self.id
    }

    pub fn member(&self) -> Option<Member> {
        self.member
    }

    pub fn submitted(&self) -> &Arc<Submitted> {
        &self.submitted
    }

    /// It was changed alone, not with the others of its array.
    pub fn own(&self) -> bool {
        self.own
    }

    /// It has a row in the store.
    pub fn has_row(&self) -> bool {
        self.has_row
    }

    pub fn held(&self) -> Option<HeldBy> {
        self.held
    }

    /// The directory service has to tell the user's groups first.
    pub fn needs_user(&self) -> bool {
        self.needs_user
    }

    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    pub fn eligible(&self) -> Option<Time> {
        self.eligible.get()
    }

    pub fn phase(&self) -> &Phase {
        &self.phase
    }
}

#[derive(Debug)]
pub(crate) enum Phase {
    /// In the planner's queue when there is no reason, else out of it.
    Waiting(Option<WaitReason>),
    /// Holds nodes, also while they clean up.
    Run(Box<Run>),
}

impl Job {
    pub fn key(&self) -> AttemptKey {
        AttemptKey {
            job: self.id,
            attempt: self.attempt,
        }
    }

    // ---- what happens to it

    /// Its attempts so far are followed by this one.
    pub fn starts(&mut self, run: Run) {
        self.attempt = Attempt(self.attempt.0 + 1);
        self.uncommon = None;
        self.phase = Phase::Run(Box::new(run));
    }

    /// It waits: in the planner's queue when there is no reason, else out of it.
    pub fn waits_for(&mut self, reason: Option<WaitReason>) {
        self.phase = Phase::Waiting(reason);
    }

    /// It waits until the directory service has told its user's groups.
    pub fn waits_for_user(&mut self) {
        self.needs_user = true;
        self.waits_for(Some(WaitReason::Directory));
    }

    /// The directory service has told its user's groups.
    pub fn user_is_known(&mut self) {
        self.needs_user = false;
    }

    /// It was looked at while it waits: since when it could run but for its turn, and what it
    /// waits for.
    pub fn was_reviewed(&mut self, eligible: Option<Time>, reason: Option<WaitReason>) {
        self.eligible = eligible.into();
        self.needs_user |= reason == Some(WaitReason::Directory);
        self.waits_for(reason);
    }

    /// What it asks for, or where it may be, is this from now on.
    pub fn asks_for(&mut self, submitted: Arc<Submitted>) {
        self.submitted = submitted;
    }

    /// It is no longer like the others of its array, if that is so.
    pub fn differs(&mut self, alone: bool) {
        self.own |= alone;
    }

    /// It is held, or released.
    pub fn is_held_by(&mut self, held: Option<HeldBy>) {
        self.held = held;
    }

    /// A node knows of a later attempt than the store.
    pub fn has_had(&mut self, attempt: Attempt) {
        self.attempt = attempt;
    }

    /// One of its components as a job of its own, for lists by component; `reason` is asked
    /// for when only the planner knows what the job waits for.
    pub fn component(
        &self,
        number: u16,
        submitted: Submitted,
        reason: impl FnOnce() -> WaitReason,
    ) -> Self {
        Self {
            id: JobId(self.id.0 + u64::from(number)),
            member: None,
            submitted: Arc::new(submitted),
            own: self.own,
            has_row: self.has_row,
            held: self.held,
            needs_user: self.needs_user,
            attempt: self.attempt,
            eligible: self.eligible,
            uncommon: self.uncommon.clone(),
            phase: match &self.phase {
                Phase::Waiting(known) => Phase::Waiting(Some(known.clone().unwrap_or_else(reason))),
                Phase::Run(run) => Phase::Run(Box::new(run.of_component(number))),
            },
        }
    }

    // ---- what is known of it

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
        let lends = |run: &Run| run.lends() && !run.is_resuming();
        self.submitted.is_exclusive() && !self.run().is_some_and(lends)
    }

    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_))
    }

    pub fn state(&self) -> JobState {
        match &self.phase {
            Phase::Waiting(_) => JobState::Waiting,
            Phase::Run(run) => run.state(),
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
            eligible: self.eligible(),
            ages_from: self.ages().stored(),
            run: self.run().map(|r| r.row(names)),
            end: None,
            note: String::new(),
            derived: self
                .run()
                .map_or((0, 0), |run| (run.steps().exit_code, run.steps().signal)),
            moved: self.moved(),
            ahead: self.room_is_made(),
        }
    }

    /// The row of its end.
    pub fn end_row(&self, end: &End, note: &str, names: &dyn Fn(NodeId) -> String) -> JobRow {
        let row = self.row(names);
        JobRow {
            state: end.state(),
            end: Some(end.clone()),
            note: note.to_owned(),
            run: row.run.map(RunRow::of_ended),
            ..row
        }
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
    pub(in crate::jobs) submitted: Arc<Submitted>,
    /// Who holds those.
    pub(in crate::jobs) held: Option<HeldBy>,
    /// Live tasks without a row of their own.
    pub(in crate::jobs) plain: u32,
    /// What its live jobs ask for, by number.
    pub(in crate::jobs) bodies: SmallMap<u32, Body>,
    /// A number that no body has had.
    pub(in crate::jobs) next_body: u32,
    /// Indices of an array.
    pub(in crate::jobs) indices: Option<TaskIndices>,
    /// Which task has which id.
    pub(in crate::jobs) numbering: Numbering,
    pub(in crate::jobs) at_once: Option<u32>,
    pub(in crate::jobs) fates: Vec<TaskOutcome>,
    /// Tasks that have not ended.
    pub(in crate::jobs) live: u32,
    /// Tasks that have ended otherwise than with exit code 0.
    pub(in crate::jobs) failed: u32,
    /// The latest start of a task.
    pub(in crate::jobs) last_start: Option<Time>,
    /// Tasks that hold nodes.
    pub(in crate::jobs) running: u32,
    /// Tasks in the planner's queue.
    pub(in crate::jobs) queued: u32,
    /// Tasks that have started or ended.
    pub(in crate::jobs) touched: u32,
    /// Tasks that wait only for others of the array to start or to end, by their place.
    pub(in crate::jobs) throttled: TaskSet,
}

/// What is known of it.
impl Group {
    /// What tasks without a row of their own ask for.
    pub fn submitted(&self) -> &Arc<Submitted> {
        &self.submitted
    }

    /// Who holds those.
    pub fn held(&self) -> Option<HeldBy> {
        self.held
    }

    /// Live tasks without a row of their own.
    pub fn plain(&self) -> u32 {
        self.plain
    }

    /// What its live jobs ask for, by number.
    pub fn bodies(&self) -> &SmallMap<u32, Body> {
        &self.bodies
    }

    /// Indices of an array.
    pub fn indices(&self) -> Option<&TaskIndices> {
        self.indices.as_ref()
    }

    pub fn at_once(&self) -> Option<u32> {
        self.at_once
    }

    pub fn fates(&self) -> &[TaskOutcome] {
        &self.fates
    }

    /// Tasks in the planner's queue.
    pub fn queued(&self) -> u32 {
        self.queued
    }
}

impl Group {
    pub fn of_row(row: &SubmissionRow, submitted: Arc<Submitted>) -> Self {
        let ids = row.tasks() as usize;
        Self {
            held: submitted.spec.hold.then_some(HeldBy::User),
            plain: ids as u32,
            bodies: SmallMap::default(),
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
            throttled: TaskSet::default(),
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

    /// A task holds nodes; `first` is true for its first attempt.
    pub fn task_started(&mut self, now: Time, first: bool) {
        self.running += 1;
        self.touched += u32::from(first);
        self.note_start(now);
    }

    /// A task holds no nodes any more.
    pub fn task_stopped(&mut self) {
        self.running = self.running.saturating_sub(1);
    }

    /// The task at that place waits for others of the array to start or to end, or does not.
    pub fn throttle(&mut self, at: usize, waits: bool) {
        match waits {
            true => self.throttled.insert(at),
            false => self.throttled.remove(at),
        }
    }

    /// So many tasks run at once, at most.
    pub fn limit_at_once(&mut self, tasks: Option<u32>) {
        self.at_once = tasks;
    }

    /// A task has started then.
    pub fn note_start(&mut self, at: Time) {
        self.last_start = self.last_start.max(Some(at));
    }

    /// Task id and fate for an index.
    pub fn task(&self, index: u32) -> Option<(JobId, TaskOutcome)> {
        let at = self.indices.as_ref()?.place_of(index)?;
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
