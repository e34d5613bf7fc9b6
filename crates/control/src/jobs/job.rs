//! A job in memory.

use crate::jobs::bodies::Body;
use crate::jobs::run::Run;
use crate::record::{HeldBy, JobRow, Numbering, OfFlow, RunRow, SubmissionRow};
use cosy_model::job::ResourceRequest;
use cosy_model::node::AttemptKey;
use cosy_model::{
    AccessLevel, Attempt, Dialect, End, Gid, JobId, JobSpec, JobState, NodeId, Program, QueueId,
    Span, Time, Uid, WaitReason,
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
            eligible: self.eligible,
            run: self.run().map(|r| r.row(names)),
            end: None,
            note: String::new(),
            derived: self
                .run()
                .map_or((0, 0), |run| (run.steps().exit_code, run.steps().signal)),
        }
    }

    /// The row of its end.
    pub fn end_row(&self, end: &End, note: &str, names: &dyn Fn(NodeId) -> String) -> JobRow {
        let row = self.row(names);
        JobRow {
            state: end.state(),
            end: Some(end.clone()),
            note: note.to_owned(),
            run: row.run.map(|run| RunRow { after: None, ..run }),
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
