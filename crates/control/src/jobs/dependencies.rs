//! Dependencies, and everything else that keeps a job out of the planner's queue.

pub(crate) mod procedures;

use crate::jobs::job::{Member, Submitted};
use crate::jobs::reviews::Again;
use cosy_model::api::JobRef;
use cosy_model::{ClockStep, Dependency, DependencyKind, JobId, JobSpec, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs whose begin time has come are put into the line so many at a time.
const BEGINS: usize = 2000;

/// How a dependency stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Met {
    Yes,
    NotYet,
    Never,
}

/// Who waits: the jobs of a submission that ask for the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Waiter {
    /// The submission's first id.
    pub base: JobId,
    /// The number of what they ask for.
    pub body: u32,
}

/// Who waits for a job or an array.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    /// For all of it.
    whole: BTreeSet<Waiter>,
    /// For tasks of it.
    tasks: BTreeSet<Waiter>,
}

/// Which jobs others wait for, and what is known of those.
#[derive(Debug, Default)]
pub(crate) struct Dependencies {
    /// Who waits for a live job or array, by its first id.
    dependents: BTreeMap<JobId, Awaited>,
    /// Who names a job in a dependency, by the id that is named, also while it has ended: it
    /// may be put back into the queue.
    named: BTreeMap<JobId, BTreeSet<Waiter>>,
    /// The latest start of what has ended and others wait for, by its first id.
    last_starts: BTreeMap<JobId, Time>,
    /// How jobs ended that others wait for, when they are no longer in memory: with success?
    facts: BTreeMap<JobRef, bool>,
}

impl Dependencies {
    /// With what the store has of ended jobs.
    pub fn restore(facts: impl IntoIterator<Item = (JobRef, bool)>) -> Self {
        Self {
            facts: facts.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Nothing of that submission lives any more.
    pub fn over(&mut self, base: JobId) {
        self.dependents.remove(&base);
    }

    /// An ended job is no longer in memory.
    pub fn forgotten(&mut self, id: JobId) {
        self.last_starts.remove(&id);
    }

    /// The clock on the wall was set.
    pub fn clock_set(&mut self, step: ClockStep) {
        for at in self.last_starts.values_mut() {
            *at = at.set_by(step);
        }
    }
}

/// What has happened to a submission that others may wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub base: JobId,
    /// The job that has started or ended.
    pub id: JobId,
    /// Its index in the array.
    pub index: Option<u32>,
    /// All of it has now started or ended.
    pub whole: bool,
}

struct Standing {
    started: bool,
    ended: bool,
    ok: bool,
}

impl Waiter {
    pub fn of(submitted: &Submitted) -> Self {
        Self {
            base: submitted.base,
            body: submitted.body,
        }
    }

    fn again(self) -> Again {
        Again::Jobs(self)
    }
}

/// True when each task waits for the task with its own index.
pub(crate) fn waits_by_task(dependency: &Dependency) -> bool {
    dependency.kind == DependencyKind::AfterCorr && dependency.task.is_none()
}

/// The job, or the task of an array that belongs to this one.
fn target_of(member: Option<Member>, dependency: &Dependency) -> JobRef {
    let own = member.map(|member| member.index);
    let own = own.filter(|_| dependency.kind == DependencyKind::AfterCorr);
    JobRef {
        job: dependency.job,
        task: dependency.task.or(own),
    }
}

/// The last moment at which a job can start and still be over at its deadline.
pub(crate) fn latest_start(spec: &JobSpec) -> Option<Time> {
    let least = spec.time_min.or(spec.time_limit).unwrap_or(Span::ZERO);
    spec.deadline.map(|deadline| deadline - least)
}

fn met(kind: DependencyKind, standing: Standing, early: bool) -> Met {
    let after_end = |good: bool| match (standing.ended, good) {
        (false, _) => Met::NotYet,
        (true, true) => Met::Yes,
        (true, false) => Met::Never,
    };
    match kind {
        DependencyKind::After if standing.started && !early => Met::Yes,
        DependencyKind::After => Met::NotYet,
        DependencyKind::AfterAny => after_end(true),
        DependencyKind::AfterOk | DependencyKind::AfterCorr => after_end(standing.ok),
        DependencyKind::AfterNotOk => after_end(!standing.ok),
        DependencyKind::Singleton => Met::Yes,
    }
}
