//! Lists and explanations. A user sees what is theirs; administrators see everything.

use crate::columns::{asked_cell, held_cell, held_of_row, held_of_run};
use crate::controller::Controller;
use crate::conversations::listing::{Answering, ListRequest};
use crate::conversations::plans::{PendingPlan, Starts};
use crate::conversations::requests::no_job;
use crate::event::{Caller, ClientId};
use crate::jobs::job::{Job, Phase, Place, Run, Submitted};
use crate::queues::order::priority;
use crate::record::{HeldBy, JobRow};
use crate::table::{Cell, number, text};
use cosy_model::api::{JobField, JobFilter, JobRef, Reply};
use cosy_model::job::{DependencyKind, MemoryRequest, NEVER_NOTE, ResourceRequest};
use cosy_model::{Attempt, JobId, NodeId, Program, Refusal, Time, WaitReason};
use std::collections::BTreeMap;

/// What cells need beside the row.
pub(crate) struct Around<'a> {
    /// Predicted starts.
    pub starts: &'a Starts,
    /// Places in the order of the queue, by job.
    pub places: &'a BTreeMap<JobId, i64>,
    /// Jobs of several parts have a row for each.
    pub by_bundle: bool,
}

impl Around<'_> {
    fn place(&self, job: JobId) -> Option<i64> {
        self.places.get(&job).copied()
    }
}

/// A list as it is asked for.
pub(crate) fn list_of(
    client: ClientId,
    caller: Box<Caller>,
    filter: JobFilter,
    fields: Vec<JobField>,
    fold: bool,
    starts: Option<Starts>,
) -> ListRequest {
    let answering = Answering::List {
        pages: filter.pages,
        after: filter.after,
    };
    ListRequest {
        client,
        caller,
        filter,
        fields,
        fold,
        starts,
        answering,
    }
}

/// A row under way.
pub(crate) enum Row<'a> {
    Live(&'a Job),
    Ended(&'a JobRow, &'a Submitted),
    /// Waiting tasks of one array that look alike.
    Fold(&'a Job, Vec<u32>, Option<u32>),
}

impl Row<'_> {
    /// First id of its submission.
    pub fn base(&self) -> JobId {
        match self {
            Self::Live(job) | Self::Fold(job, ..) => job.submitted.base,
            Self::Ended(row, _) => row.base,
        }
    }

    /// Number of nodes that it held last.
    pub fn nodes(&self) -> usize {
        match self {
            Self::Live(job) | Self::Fold(job, ..) => job.run().map_or(0, |run| run.parts.len()),
            Self::Ended(row, _) => row.run.as_ref().map_or(0, |run| run.parts.len()),
        }
    }
}

impl Controller {
    pub(crate) fn jobs_or_plan(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        filter: JobFilter,
        fields: Vec<JobField>,
        fold: bool,
    ) -> Option<Reply> {
        if fields.contains(&JobField::PredictedStart) && self.must_plan(now) {
            self.ask_plan(
                now,
                PendingPlan::Jobs {
                    client,
                    caller: Box::new(caller.clone()),
                    filter: Box::new(filter),
                    fields,
                    fold,
                },
                None,
            );
            return None;
        }
        let asked = list_of(client, Box::new(caller.clone()), filter, fields, fold, None);
        self.list(now, asked)
    }

    /// `array_spec`: the indices of the row's array, when they are asked for.
    pub(crate) fn cell<'a>(
        &'a self,
        now: Time,
        row: &'a Row<'_>,
        field: JobField,
        around: &Around<'_>,
        array_spec: Option<&str>,
    ) -> Cell<'a> {
        let by_bundle = around.by_bundle;
        let (id, base, index, submitted, attempt, eligible) = match row {
            Row::Live(j) | Row::Fold(j, ..) => (
                j.id,
                j.submitted.base,
                j.member.map(|m| m.index),
                &*j.submitted,
                j.attempt,
                j.eligible,
            ),
            Row::Ended(r, s) => (r.id, r.base, r.index, *s, r.attempt, r.eligible),
        };
        let spec = &submitted.spec;
        let folded = matches!(row, Row::Fold(..));
        let whole = if spec.bundles.is_empty() { id } else { base };
        match field {
            JobField::Id => number(id.0),
            JobField::Bundle | JobField::Bundles => bundle_cell(id, submitted, field),
            JobField::Ref if by_bundle && !spec.bundles.is_empty() => {
                text(format!("{base}+{}", id.0 - base.0))
            }
            JobField::Ref => text(row_ref(row, id, base, index)),
            JobField::ArrayId => index.map_or(Cell::None, |_| number(base.0)),
            JobField::ArrayTask if folded => Cell::None,
            JobField::ArrayTask => index.map_or(Cell::None, |i| number(u64::from(i))),
            JobField::Name => text(&spec.name),
            JobField::User => text(&submitted.user),
            JobField::Uid => number(u64::from(submitted.uid.0)),
            JobField::Gid => number(u64::from(submitted.gid.0)),
            JobField::Account => text(spec.account.as_deref().unwrap_or_default()),
            JobField::Queue => text(&submitted.queue),
            JobField::Submit => Cell::Number(submitted.submit.0),
            JobField::Eligible => eligible.map_or(Cell::None, |t| Cell::Number(t.0)),
            JobField::Attempt => number(u64::from(attempt.0)),
            JobField::Nice => Cell::Number(spec.nice),
            JobField::Requeue => number(u64::from(spec.requeue)),
            JobField::Dependencies => text(dependencies(spec)),
            JobField::Reservation => spec.reservation.map_or(Cell::None, |r| number(r.0)),
            JobField::Command => text(command(&spec.program)),
            JobField::Workdir => text(spec.workdir.lossy()),
            JobField::Features => text(spec.request.features.join(",")),
            JobField::Prefer => text(crate::columns::preferred(&spec.request)),
            JobField::Avoid => text(cosy_model::fold(&spec.request.avoid)),
            JobField::Comment => text(&spec.comment),
            JobField::AdminComment => text(&spec.admin_comment),
            JobField::Qos
            | JobField::Wckey
            | JobField::Licenses
            | JobField::Deadline
            | JobField::SubmitHost
            | JobField::SubmitSession
            | JobField::SubmitLine
            | JobField::Dialect
            | JobField::TasksPerNode
            | JobField::CoresPerTask
            | JobField::MemoryPerCore
            | JobField::MinMemoryPerNode
            | JobField::MinDisk
            | JobField::MinNodes
            | JobField::MaxNodes
            | JobField::AskedTasks
            | JobField::Require
            | JobField::Exclusive
            | JobField::Oversubscribe
            | JobField::Contiguous
            | JobField::Gres
            | JobField::Constraint
            | JobField::Batch
            | JobField::Rlimits
            | JobField::OpenMode
            | JobField::MailTypes
            | JobField::MailTo
            | JobField::Umask
            | JobField::TimeMin
            | JobField::Attended
            | JobField::Warn
            | JobField::EndIfNever
            | JobField::Mpi
            | JobField::Queues
            | JobField::Sets => asked_cell(submitted, field),
            JobField::Restarts => number(restarts(row, attempt)),
            JobField::Apart => number(u64::from(matches!(row, Row::Live(j) if j.own))),
            JobField::ArraySpecText => text(self.array_spec(row, base, array_spec)),
            JobField::ArrayAtOnce => {
                let group = self.jobs.group(&base);
                let most = group.and_then(|g| g.at_once);
                most.map_or(Cell::None, |n| number(u64::from(n)))
            }
            JobField::TimeLimit => Cell::Number(time_limit(row, submitted).0),
            JobField::Place => around.place(whole).map_or(Cell::None, Cell::Number),
            JobField::PredictedStart => around
                .starts
                .get(&whole)
                .and_then(|p| p.start)
                .map_or(Cell::None, |t| Cell::Number(t.0)),
            JobField::State
            | JobField::Reason
            | JobField::Start
            | JobField::End
            | JobField::LatestEnd
            | JobField::Elapsed
            | JobField::NodeCount
            | JobField::Nodes
            | JobField::Tasks
            | JobField::Cores
            | JobField::MemoryPerNode
            | JobField::Gpus
            | JobField::ExitCode
            | JobField::Signal
            | JobField::UserCpu
            | JobField::SystemCpu
            | JobField::PeakMemory
            | JobField::Stdout
            | JobField::Stderr
            | JobField::Stdin
            | JobField::Begin
            | JobField::BatchHost
            | JobField::DerivedExitCode
            | JobField::DerivedSignal
            | JobField::Priority
            | JobField::HeldBy
            | JobField::DependencyText
            | JobField::TasksByNode
            | JobField::CoresByNode
            | JobField::CoreIds
            | JobField::GpuIds
            | JobField::Allocated
            | JobField::SuspendedFor
            | JobField::SuspendedSince
            | JobField::Resized => match row {
                Row::Live(job) | Row::Fold(job, ..) => self.live_cell(now, job, field),
                Row::Ended(row, submitted) => ended_cell(row, submitted, field),
            },
        }
    }

    fn live_cell<'a>(&'a self, now: Time, job: &'a Job, field: JobField) -> Cell<'a> {
        let run = job.run();
        let started = run.and_then(|r| r.started);
        match field {
            JobField::State => text(job.state().word()),
            JobField::Reason => text(self.reason(now, job)),
            JobField::Start => run.map_or(Cell::None, |r| {
                Cell::Number(started.unwrap_or(r.allocated).0)
            }),
            JobField::LatestEnd => match run.and_then(Run::ends_at) {
                Some(end) => Cell::Number(end.0),
                None => Cell::None,
            },
            JobField::Elapsed => match run.filter(|r| r.started.is_some()) {
                Some(run) => Cell::Number(run.elapsed(now).0),
                None => Cell::None,
            },
            JobField::SuspendedFor => run.map_or(Cell::None, |r| Cell::Number(r.suspended_for.0)),
            JobField::SuspendedSince => match run.and_then(|r| r.suspended) {
                Some(since) => Cell::Number(since.0),
                None => Cell::None,
            },
            JobField::Resized => match run.and_then(|r| r.resized) {
                Some(at) => Cell::Number(at.0),
                None => Cell::None,
            },
            JobField::DerivedExitCode => {
                run.map_or(Cell::None, |r| Cell::Number(i64::from(r.steps.exit_code)))
            }
            JobField::DerivedSignal => {
                run.map_or(Cell::None, |r| Cell::Number(i64::from(r.steps.signal)))
            }
            JobField::Nodes => run.map_or(Cell::None, |r| text(self.node_list(r))),
            JobField::NodeCount => match run {
                Some(run) => number(run.parts.len() as u64),
                None => number(u64::from(asked_nodes(&job.submitted))),
            },
            JobField::Tasks => match run {
                Some(run) => number(run.parts.iter().map(|p| u64::from(p.tasks)).sum()),
                None => number(asked_of(&job.submitted, |request| {
                    u64::from(asked_tasks(request))
                })),
            },
            JobField::Cores => match run {
                Some(run) => number(run.parts.iter().map(|p| u64::from(p.amounts.cores)).sum()),
                None => number(asked_cores(&job.submitted)),
            },
            JobField::MemoryPerNode => {
                match (run.and_then(|r| r.parts.first()), job.spec().request.memory) {
                    (Some(part), _) => number(part.amounts.memory.0),
                    (None, MemoryRequest::PerNode(m)) => number(m.0),
                    (None, MemoryRequest::PerCore(_) | MemoryRequest::QueueDefault) => Cell::None,
                }
            }
            JobField::Gpus => match run {
                Some(run) => number(run.parts.iter().map(|p| u64::from(p.amounts.gpus)).sum()),
                None if job.submitted.requests().count() == 1 => number(
                    u64::from(job.spec().request.gpus_per_node)
                        * u64::from(asked_nodes(&job.submitted)),
                ),
                None => number(asked_of(&job.submitted, |request| {
                    u64::from(request.gpus_per_node) * u64::from(request.nodes.unwrap_or(1))
                })),
            },
            JobField::Stdout | JobField::Stderr | JobField::Stdin => {
                file_cell(field, self.job_files(job, run))
            }
            JobField::BatchHost
            | JobField::TasksByNode
            | JobField::CoresByNode
            | JobField::CoreIds
            | JobField::GpuIds => run.map_or(Cell::None, |run| {
                let name = |n: NodeId| self.machine.node(n).spec.name.as_str();
                held_cell(&held_of_run(run, name), field)
            }),
            JobField::Allocated => run.map_or(Cell::None, |r| Cell::Number(r.allocated.0)),
            JobField::Begin => match job.spec().begin.max(job.not_before) {
                Some(begin) => Cell::Number(begin.0),
                None => Cell::None,
            },
            JobField::Priority if job.held.is_some() => number(0),
            JobField::Priority => Cell::Number(priority(job.spec(), job.submitted.rank())),
            JobField::HeldBy => text(held_word(job.held)),
            JobField::DependencyText if job.is_waiting() => text(self.dependency_text(now, job)),
            _ => Cell::None,
        }
    }

    /// Indices of an array as they were asked for (`all`), or those of a row's tasks.
    fn array_spec(&self, row: &Row<'_>, base: JobId, all: Option<&str>) -> String {
        let group = self.jobs.group(&base);
        let most = group.and_then(|g| g.at_once);
        let most = most.map_or(String::new(), |n| format!("%{n}"));
        let is_array = group.is_some_and(|g| g.indices.is_some());
        match row {
            Row::Fold(_, tasks, _) => format!("{}{most}", index_ranges(tasks)),
            Row::Live(_) | Row::Ended(..) if is_array => {
                format!("{}{most}", all.unwrap_or_default())
            }
            Row::Live(_) | Row::Ended(..) => String::new(),
        }
    }

    fn job_files(
        &self,
        job: &Job,
        run: Option<&Run>,
    ) -> (cosy_model::OsText, cosy_model::OsText, cosy_model::OsText) {
        match run {
            Some(run) => self.files(job, run),
            None => {
                let index = job.member.map(|m| m.index);
                crate::planning::launch::files(&job.submitted, job.id, index, "%N")
            }
        }
    }

    /// Why a job waits, in one word.
    pub(crate) fn reason(&self, now: Time, job: &Job) -> String {
        match &job.phase {
            // It runs on as soon as it has its cores again.
            Phase::Run(run) if run.resuming => WaitReason::Resources.word().to_owned(),
            Phase::Run(_) => String::new(),
            Phase::Waiting(Some(reason)) => reason.word().to_owned(),
            Phase::Waiting(None) => self.planner_reason(now, job).word().to_owned(),
        }
    }

    /// What the planner says; it does not know that some nodes have not told yet what
    /// they have.
    pub(crate) fn planner_reason(&self, now: Time, job: &Job) -> WaitReason {
        let reason = self.planner_for(job.id).why(now, job.id);
        let reason = reason.unwrap_or(WaitReason::Priority);
        let untold = || match &job.submitted.place {
            Place::Good { demand, .. } => {
                let further = demand.more.iter().flat_map(|part| part.allowed.iter());
                let mut nodes = demand.allowed.iter().chain(further);
                nodes.any(|n| !self.machine.node(n).known)
            }
            Place::Lost | Place::Beyond { .. } => false,
        };
        if reason == WaitReason::NeverFits && untold() {
            return WaitReason::NodesUnavailable;
        }
        reason
    }

    pub(crate) fn explain(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        target: JobRef,
    ) -> Result<Option<Reply>, Refusal> {
        let submitted = self.submitted_of(target);
        if !submitted.is_some_and(|job| self.may_see(caller, job)) {
            return Err(no_job(target));
        }
        let queued = self.first_queued(target);
        let waiting = queued.or_else(|| self.first_inside_that_awaits_turn(target));
        let Some(waiting) = waiting.filter(|_| self.plans.have_room()) else {
            let starts = self.plans.last().clone();
            return Ok(self.explained(now, client, Box::new(caller.clone()), target, starts));
        };
        self.ask_plan(
            now,
            PendingPlan::Explain {
                client,
                caller: Box::new(caller.clone()),
                job: target,
            },
            Some(waiting),
        );
        Ok(None)
    }

    /// Begins to explain a job with the starts that a plan predicts; the answer, or `None`
    /// when it comes later.
    pub(crate) fn explained(
        &mut self,
        now: Time,
        client: ClientId,
        caller: Box<Caller>,
        target: JobRef,
        starts: Starts,
    ) -> Option<Reply> {
        let filter = JobFilter {
            ids: vec![target],
            ..JobFilter::default()
        };
        let asked = ListRequest {
            client,
            caller,
            filter,
            fields: JobField::ALL.to_vec(),
            fold: true,
            starts: Some(starts),
            answering: Answering::Job(target),
        };
        self.list(now, asked)
    }

    /// Sentences about a job that has not ended. `place`: its place among all that wait, from 1.
    pub(crate) fn lines(
        &self,
        now: Time,
        job: &Job,
        (starts, place): (&Starts, Option<i64>),
    ) -> Vec<String> {
        let mut first = Vec::new();
        if job.spec().attended {
            first.push("it is interactive: it ends when its command goes".to_owned());
        } else if job.submitted.is_held() {
            first.push(
                "it is an allocation: steps are started in it until it is given back".to_owned(),
            );
        }
        first.extend(Self::told_cut(job));
        let Phase::Waiting(reason) = &job.phase else {
            return first;
        };
        let reason = reason
            .clone()
            .unwrap_or_else(|| self.planner_reason(now, job));
        let queue = &job.submitted.queue;
        let before = place.map(|place| place - 1);
        let line = match reason {
            WaitReason::Fresh => "it is looked at in the next pass".to_owned(),
            WaitReason::Resources => format!(
                "it is the first in line of those that need what is in use now; it starts as soon as enough is free in queue {queue}"
            ),
            WaitReason::Priority => match before {
                Some(n) => format!(
                    "{n} waiting jobs come before it, and starting it now could delay the first of them"
                ),
                None => "other jobs come before it".to_owned(),
            },
            WaitReason::Dependency => {
                format!("it waits for other jobs: {}", dependencies(job.spec()))
            }
            WaitReason::DependencyNever => format!(
                "what it waits for can no longer happen ({}): cancel it or change its dependencies",
                dependencies(job.spec())
            ),
            WaitReason::BeginTime => "its begin time has not come".to_owned(),
            WaitReason::HeldByUser => {
                "it is held by its user: 'cosy release' lets it go".to_owned()
            }
            WaitReason::HeldByAdmin => "it is held by an administrator".to_owned(),
            WaitReason::HeldRequeued | WaitReason::HeldSpecial => {
                "it was put back into the queue and is held: 'cosy release' lets it go".to_owned()
            }
            WaitReason::HeldRestored => {
                "the controller's store was restored from an old copy: it may have run since. Look at its output, then 'cosy release' lets it run, and 'cosy cancel' ends it".to_owned()
            }
            WaitReason::QueueTimeLimit => {
                format!("its time limit is more than queue {queue} allows")
            }
            WaitReason::QueueNodeLimit => {
                format!("it asks for more nodes than queue {queue} has or allows")
            }
            WaitReason::QueueLimits => format!("it asks for more than queue {queue} allows"),
            WaitReason::QueueClosed => format!("queue {queue} is closed: it starts no jobs now"),
            WaitReason::ArrayLimit => {
                "as many tasks of its array run as may run at once".to_owned()
            }
            WaitReason::InteractiveLimit => format!(
                "as many interactive jobs of its user run as may run at once ({})",
                self.config.policy.interactive_per_user
            ),
            WaitReason::NodesUnavailable => {
                "nodes that it needs are down, drained or not connected".to_owned()
            }
            WaitReason::Reservation => "an accepted reservation is in the way".to_owned(),
            WaitReason::ReservationStart => "its reservation has not begun".to_owned(),
            WaitReason::ReservationGone => {
                "its reservation is over or was given back: change its reservation or cancel it"
                    .to_owned()
            }
            WaitReason::Directory => {
                "the directory service does not tell the user's groups; it is asked again and again"
                    .to_owned()
            }
            WaitReason::Licenses => format!(
                "licences that it needs are in use ({})",
                crate::columns::counted(&job.spec().licenses)
            ),
            WaitReason::Deadline => "it cannot be over at its deadline".to_owned(),
            WaitReason::NeverFits => {
                format!("queue {queue} as configured now can never run it: change it or cancel it")
            }
        };
        let mut lines = first;
        lines.push(line);
        lines.extend(self.delay_lines(job.id));
        if let Some(prediction) = starts.get(&job.id)
            && prediction.start.is_none()
        {
            lines.push("no start can be predicted".to_owned());
        }
        lines
    }
}

fn bundle_cell(id: JobId, submitted: &Submitted, field: JobField) -> Cell<'static> {
    let further = submitted.spec.bundles.len() as u64;
    match field {
        _ if further == 0 => Cell::None,
        JobField::Bundles => number(further + 1),
        _ => number(id.0 - submitted.base.0),
    }
}

/// Its time limit; of one that runs the present one, but not what a reservation leaves of
/// it.
fn time_limit(row: &Row<'_>, submitted: &Submitted) -> cosy_model::Span {
    let asked = submitted.place.limit();
    let inside = submitted.spec.reservation.is_some();
    match row {
        Row::Live(job) if !inside => job.run().map_or(asked, |run| run.limit),
        Row::Ended(row, _) if !inside => {
            let run = row.run.as_ref();
            run.and_then(|run| run.limit).unwrap_or(asked)
        }
        Row::Live(_) | Row::Fold(..) | Row::Ended(..) => asked,
    }
}

/// How often a job was begun anew; one that waits to be is counted as begun.
fn restarts(row: &Row<'_>, attempt: Attempt) -> u64 {
    let again = matches!(row, Row::Live(j) | Row::Fold(j, ..) if j.is_waiting());
    u64::from(attempt.0.saturating_sub(u32::from(!again)))
}

fn row_ref(row: &Row<'_>, id: JobId, base: JobId, index: Option<u32>) -> String {
    match (row, index) {
        (Row::Fold(_, tasks, at_once), _) => {
            let throttle = at_once.map_or(String::new(), |n| format!("%{n}"));
            format!("{base}_[{}{throttle}]", index_ranges(tasks))
        }
        (_, Some(index)) => format!("{base}_{index}"),
        (_, None) => id.to_string(),
    }
}

/// `1-3,7`.
pub(crate) fn index_ranges(tasks: &[u32]) -> String {
    let numbers: Vec<u64> = tasks.iter().map(|t| u64::from(*t)).collect();
    cosy_model::hostlist::ranges(&numbers, 1)
}

/// Fields of a job that has ended, out of its row.
fn ended_cell<'a>(row: &'a JobRow, submitted: &'a Submitted, field: JobField) -> Cell<'a> {
    let end = row.end.as_ref();
    let run = row.run.as_ref();
    let start = end.and_then(|e| e.start).or(run.and_then(|r| r.started));
    let parts = || run.map(|r| r.parts.as_slice()).unwrap_or_default();
    match field {
        JobField::State => text(row.state.word()),
        JobField::Reason => text(&row.note),
        JobField::Start => start.map_or(Cell::None, |t| Cell::Number(t.0)),
        JobField::End => end.map_or(Cell::None, |e| Cell::Number(e.end.0)),
        JobField::Elapsed => match (start, end) {
            (Some(start), Some(end)) => {
                let stopped = run.map_or(0, |r| r.suspended_for.0);
                Cell::Number((end.end.since(start).0 - stopped).max(0))
            }
            _ => Cell::None,
        },
        JobField::NodeCount => number(parts().len() as u64),
        JobField::Nodes => {
            let names: Vec<&str> = parts().iter().map(|p| p.node.as_str()).collect();
            text(cosy_model::fold(&names))
        }
        JobField::Tasks => number(parts().iter().map(|p| u64::from(p.tasks)).sum()),
        JobField::Cores => number(parts().iter().map(|p| u64::from(p.amounts.cores)).sum()),
        JobField::MemoryPerNode => parts()
            .first()
            .map_or(Cell::None, |p| number(p.amounts.memory.0)),
        JobField::Gpus => number(parts().iter().map(|p| u64::from(p.amounts.gpus)).sum()),
        JobField::ExitCode => end.map_or(Cell::None, |e| Cell::Number(i64::from(e.exit_code))),
        JobField::Signal => end.map_or(Cell::None, |e| Cell::Number(i64::from(e.signal))),
        JobField::UserCpu => end.map_or(Cell::None, |e| number(e.user_cpu_us)),
        JobField::SystemCpu => end.map_or(Cell::None, |e| number(e.system_cpu_us)),
        JobField::PeakMemory => end.map_or(Cell::None, |e| number(e.peak_memory_bytes)),
        JobField::Stdout | JobField::Stderr | JobField::Stdin => {
            let node = parts().first().map_or("", |p| &p.node);
            let files = crate::planning::launch::files(submitted, row.id, row.index, node);
            file_cell(field, files)
        }
        JobField::BatchHost
        | JobField::TasksByNode
        | JobField::CoresByNode
        | JobField::CoreIds
        | JobField::GpuIds => run.map_or(Cell::None, |run| held_cell(&held_of_row(run), field)),
        JobField::Begin => asked_cell(submitted, field),
        JobField::SuspendedFor => run.map_or(Cell::None, |r| Cell::Number(r.suspended_for.0)),
        JobField::Resized => match run.and_then(|r| r.resized) {
            Some(at) => Cell::Number(at.0),
            None => Cell::None,
        },
        JobField::DerivedExitCode => Cell::Number(i64::from(row.derived.0)),
        JobField::DerivedSignal => Cell::Number(i64::from(row.derived.1)),
        JobField::Allocated => run.map_or(Cell::None, |r| Cell::Number(r.allocated.0)),
        JobField::Priority => Cell::Number(priority(&submitted.spec, submitted.rank())),
        JobField::DependencyText if row.note == NEVER_NOTE => {
            text(dependencies(&submitted.spec).replace(',', "(failed),") + "(failed)")
        }
        _ => Cell::None,
    }
}

fn file_cell(
    field: JobField,
    files: (cosy_model::OsText, cosy_model::OsText, cosy_model::OsText),
) -> Cell<'static> {
    match field {
        JobField::Stdout => text(files.0.lossy()),
        JobField::Stderr => text(files.1.lossy()),
        _ => text(files.2.lossy()),
    }
}

/// Cores that a job asks for as a whole.
fn asked_cores(job: &Submitted) -> u64 {
    let cores = |request: &ResourceRequest| {
        let takers = match request.overcommit && !job.is_exclusive() {
            true if job.requests().count() == 1 => asked_nodes(job),
            true => request.nodes.unwrap_or(1),
            false => asked_tasks(request),
        };
        u64::from(takers) * u64::from(request.cores_per_task)
    };
    asked_of(job, cores)
}

/// The sum over all parts of a job.
fn asked_of(job: &Submitted, each: impl Fn(&ResourceRequest) -> u64) -> u64 {
    job.requests().map(each).fold(0, u64::saturating_add)
}

pub(crate) fn asked_tasks(request: &ResourceRequest) -> u32 {
    request
        .tasks
        .or(request
            .nodes
            .or(request.counted_nodes())
            .map(|n| n.saturating_mul(request.tasks_per_node.unwrap_or(1))))
        .or(request.tasks_per_node)
        .unwrap_or(1)
}

fn asked_nodes(job: &Submitted) -> u32 {
    let least = job.place.least();
    least.or(job.spec.request.nodes).unwrap_or(1)
}

/// `afterok:12`, `after:12+5`, `singleton`; `afterok:12_*` for all tasks of an array.
pub(crate) fn dependency(d: &cosy_model::Dependency, whole: bool) -> String {
    let word = match d.kind {
        DependencyKind::After => "after",
        DependencyKind::AfterAny => "afterany",
        DependencyKind::AfterOk => "afterok",
        DependencyKind::AfterNotOk => "afternotok",
        DependencyKind::AfterCorr => "aftercorr",
        DependencyKind::Singleton => return "singleton".to_owned(),
    };
    let job = JobRef {
        job: d.job,
        task: d.task,
    };
    let star = if whole { "_*" } else { "" };
    let delay = match d.delay.secs() / 60 {
        0 => String::new(),
        minutes => format!("+{minutes}"),
    };
    format!("{word}:{job}{star}{delay}")
}

/// `afterok:12,singleton`.
pub(crate) fn dependencies(spec: &cosy_model::JobSpec) -> String {
    let one = |d: &cosy_model::Dependency| dependency(d, false);
    let all: Vec<String> = spec.dependencies.iter().map(one).collect();
    all.join(if spec.any_dependency { "?" } else { "," })
}

fn command(program: &Program) -> String {
    let (first, rest): (String, &[cosy_model::OsText]) = match program {
        Program::Script { name, args } => (name.lossy(), args),
        Program::Command { argv } => match argv.split_first() {
            Some((first, rest)) => (first.lossy(), rest),
            None => (String::new(), &[]),
        },
        Program::Allocation => (String::new(), &[]),
    };
    let mut words = vec![first];
    words.extend(rest.iter().map(cosy_model::OsText::lossy));
    words.join(" ")
}

fn held_word(held: Option<HeldBy>) -> &'static str {
    match held {
        Some(HeldBy::User) => "user",
        Some(HeldBy::Admin) => "admin",
        Some(HeldBy::Requeued | HeldBy::Special) => "requeued",
        Some(HeldBy::Restored) => "restored",
        None => "",
    }
}

pub(crate) fn history_cell<'a>(
    row: &'a JobRow,
    submitted: &'a Submitted,
    field: JobField,
) -> Cell<'a> {
    let spec = &submitted.spec;
    match field {
        JobField::Id => number(row.id.0),
        JobField::Bundle | JobField::Bundles => bundle_cell(row.id, submitted, field),
        JobField::Ref => text(match row.index {
            Some(index) => format!("{}_{index}", row.base),
            None => row.id.to_string(),
        }),
        JobField::ArrayId => row.index.map_or(Cell::None, |_| number(row.base.0)),
        JobField::ArrayTask => row.index.map_or(Cell::None, |i| number(u64::from(i))),
        JobField::Name => text(&spec.name),
        JobField::User => text(&submitted.user),
        JobField::Uid => number(u64::from(submitted.uid.0)),
        JobField::Gid => number(u64::from(submitted.gid.0)),
        JobField::Account => text(spec.account.as_deref().unwrap_or_default()),
        JobField::Queue => text(&submitted.queue),
        JobField::Submit => Cell::Number(submitted.submit.0),
        JobField::Eligible => row.eligible.map_or(Cell::None, |t| Cell::Number(t.0)),
        JobField::TimeLimit => {
            let run = row.run.as_ref().filter(|_| spec.reservation.is_none());
            let limit = run.and_then(|run| run.limit).or(spec.time_limit);
            limit.map_or(Cell::None, |l| Cell::Number(l.0))
        }
        JobField::Attempt => number(u64::from(row.attempt.0)),
        JobField::Nice => Cell::Number(spec.nice),
        JobField::Requeue => number(u64::from(spec.requeue)),
        JobField::Dependencies => text(dependencies(spec)),
        JobField::Command => text(command(&spec.program)),
        JobField::Workdir => text(spec.workdir.lossy()),
        JobField::Features => text(spec.request.features.join(",")),
        JobField::Comment => text(&spec.comment),
        JobField::AdminComment => text(&spec.admin_comment),
        JobField::Reservation => spec.reservation.map_or(Cell::None, |r| number(r.0)),
        JobField::Avoid => text(cosy_model::fold(&spec.request.avoid)),
        JobField::Prefer => text(crate::columns::preferred(&spec.request)),
        JobField::Restarts => number(u64::from(row.attempt.0.saturating_sub(1))),
        JobField::Qos
        | JobField::Wckey
        | JobField::Licenses
        | JobField::Deadline
        | JobField::SubmitHost
        | JobField::SubmitSession
        | JobField::SubmitLine
        | JobField::Dialect
        | JobField::TasksPerNode
        | JobField::CoresPerTask
        | JobField::MemoryPerCore
        | JobField::MinMemoryPerNode
        | JobField::MinDisk
        | JobField::MinNodes
        | JobField::MaxNodes
        | JobField::AskedTasks
        | JobField::Require
        | JobField::Exclusive
        | JobField::Oversubscribe
        | JobField::Contiguous
        | JobField::Gres
        | JobField::Constraint
        | JobField::Batch
        | JobField::Rlimits
        | JobField::OpenMode
        | JobField::MailTypes
        | JobField::MailTo
        | JobField::Umask
        | JobField::TimeMin
        | JobField::Begin
        | JobField::Attended
        | JobField::Warn
        | JobField::EndIfNever
        | JobField::Mpi
        | JobField::Queues
        | JobField::Sets => asked_cell(submitted, field),
        _ => ended_cell(row, submitted, field),
    }
}
