//! A job out of a table of jobs, told in Slurm's words: state, reason, memory, trackable
//! resources, exit status. What `squeue`, `sacct`, `scontrol show job` and their JSON have
//! in common.
//!
//! Only names what is in the table: a field that was not asked for is as if it had no
//! value. Sources: squeue(1), scontrol(1), captures of 22.05.

use crate::tres::Tres;
use crate::{SlurmState, reason};
use cosy_model::api::{JobField, JobRef, Table};
use cosy_model::{ArraySpec, JobId, JobState, MiB, Span, Time, WaitReason};
use cosy_view::words::end_note::{CancelNote, NEVER_NOTE};
use cosy_view::words::row_name::{self, Tasks};
use std::collections::BTreeMap;

/// What the whole cluster says about its jobs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterFacts {
    /// Memory for each core that jobs of a queue get when they ask for none.
    pub default_memory: BTreeMap<String, MiB>,
    /// Time limit that jobs of a queue get when they ask for none.
    pub default_limits: BTreeMap<String, Span>,
    /// Names of reservations by number.
    pub reservations: BTreeMap<i64, String>,
    /// Names of groups by number.
    pub groups: BTreeMap<i64, String>,
    /// Name of the cluster.
    pub cluster: String,
}

/// One row of a table.
#[derive(Clone, Copy, Debug)]
pub struct JobView<'t> {
    table: &'t Table,
    row: usize,
    around: &'t ClusterFacts,
    /// The one task that is meant of a row of waiting tasks.
    task: Option<u32>,
    /// The one partition that is meant of those that the job may go to.
    one: Option<&'t str>,
}

/// A component of a heterogeneous job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Het {
    /// The id of the first component, which is that of the job.
    pub job: i64,
    /// Which component it is, from 0.
    pub offset: i64,
    /// The id of the last component.
    pub last: i64,
}

impl Het {
    /// The ids of all components: `5-7`.
    pub fn set(&self) -> String {
        format!("{}-{}", self.job, self.last)
    }

    /// Whether it is meant by an id, and by the number of a component behind it: the job's id
    /// stands for all components.
    pub fn is_named(&self, id: i64, component: Option<i64>) -> bool {
        match component {
            Some(component) => (id, component) == (self.job, self.offset),
            None => id == self.job || id == self.job + self.offset,
        }
    }
}

/// Memory that a job asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestedMemory {
    /// So much for each core.
    PerCore(u64),
    /// So much on each node.
    PerNode(u64),
    /// Nothing, and the queue has no default.
    Nothing,
}

impl<'t> JobView<'t> {
    /// The row `row` of `table`.
    pub const fn new(table: &'t Table, row: usize, around: &'t ClusterFacts) -> Self {
        Self {
            table,
            row,
            around,
            task: None,
            one: None,
        }
    }

    /// A row of waiting tasks as one for each of them; any other row as it is.
    pub fn tasks(self) -> Vec<Self> {
        let folded = self.folded();
        let spec = folded.and_then(|tasks| tasks.indices.parse::<ArraySpec>().ok());
        let Some(spec) = spec else { return vec![self] };
        let one = |task| Self {
            task: Some(task),
            ..self
        };
        spec.indices().iter().map(one).collect()
    }

    /// A job that may go to several partitions as one for each of them, those with the lowest
    /// priority first; any other as it is.
    pub fn in_each_partition(self, priority: impl Fn(&str) -> i64) -> Vec<Self> {
        let mut names: Vec<&'t str> = self.partition().split(',').collect();
        names.sort_by_key(|name| priority(name));
        let one = |name| Self {
            one: Some(name),
            ..self
        };
        names.into_iter().map(one).collect()
    }

    /// Index in its array, of one task alone.
    pub fn task(&self) -> Option<i64> {
        match self.task {
            Some(task) => Some(i64::from(task)),
            None => self.number(JobField::ArrayTask),
        }
    }

    /// The field's number; none where it is empty.
    pub fn number(&self, field: JobField) -> Option<i64> {
        self.table.number(self.row, field)
    }

    /// A number; 0 where there is none.
    pub fn count(&self, field: JobField) -> i64 {
        self.number(field).unwrap_or(0)
    }

    /// A text; empty where there is none.
    pub fn text(&self, field: JobField) -> &'t str {
        self.table.text(self.row, field)
    }

    /// A point in time.
    pub fn time(&self, field: JobField) -> Option<Time> {
        self.number(field).map(Time)
    }

    /// A length of time.
    pub fn span(&self, field: JobField) -> Option<Span> {
        self.number(field).map(Span)
    }

    /// The field's flag; false where it is empty.
    pub fn flag(&self, field: JobField) -> bool {
        self.count(field) != 0
    }

    /// What the cluster says about its jobs.
    pub const fn around(&self) -> &'t ClusterFacts {
        self.around
    }

    /// Cosy's state; a word that is none counts as waiting.
    pub fn our_state(&self) -> JobState {
        let word = self.text(JobField::State);
        let is = |s: &JobState| s.word() == word;
        let found = JobState::ALL.into_iter().find(is);
        found.unwrap_or(JobState::Waiting)
    }

    /// Its state in Slurm's words.
    pub fn state(&self) -> SlurmState {
        match self.our_state() {
            JobState::Waiting if self.text(JobField::Reason) == WaitReason::HeldSpecial.word() => {
                SlurmState::SpecialExit
            }
            state => state.into(),
        }
    }

    /// True while it waits.
    pub fn waits(&self) -> bool {
        self.our_state() == JobState::Waiting
    }

    /// Why it waits or ended as it did, in one word (two for a job that was requeued and
    /// held). `None` (the word) where there is nothing to say.
    pub fn reason(&self) -> &'static str {
        match self.our_state() {
            JobState::Waiting => reason::of_word(self.text(JobField::Reason)).unwrap_or("None"),
            JobState::Cancelled if self.text(JobField::Reason) == NEVER_NOTE => {
                "DependencyNeverSatisfied"
            }
            JobState::Starting
            | JobState::Running
            | JobState::Suspended
            | JobState::Completing
            | JobState::Completed => "None",
            JobState::Cancelled => CancelNote::read(self.text(JobField::Reason))
                .and_then(|note| reason::of_word(note.waited_for?))
                .unwrap_or("None"),
            JobState::Failed if self.count(JobField::Signal) != 0 => "JobLaunchFailure",
            JobState::Failed => "NonZeroExitCode",
            JobState::TimedOut => "TimeLimit",
            JobState::OutOfMemory => "OutOfMemory",
            JobState::NodeFailed => "NodeDown",
            JobState::Preempted => "None",
            JobState::Deadline => "DeadLine",
            JobState::LaunchFailed => "JobLaunchFailure",
        }
    }

    /// The tasks of a row that stands for waiting tasks of an array.
    pub fn folded(&self) -> Option<Tasks<'t>> {
        match self.task {
            Some(_) => None,
            None => row_name::tasks(self.text(JobField::Ref)),
        }
    }

    /// The number that the row is known by alone; of a row of waiting tasks the array's.
    pub fn raw_id(&self) -> i64 {
        let several = |tasks: Tasks<'_>| tasks.indices.contains(['-', ',']);
        let id = match (self.folded(), self.task) {
            (Some(tasks), _) if several(tasks) => self.number(JobField::ArrayId),
            (None, Some(_)) => self.number(JobField::ArrayId),
            (Some(_) | None, None) | (Some(_), Some(_)) => None,
        };
        id.unwrap_or_else(|| self.count(JobField::Id))
    }

    /// The job, or the task of an array, that the row is about.
    pub fn job_ref(&self) -> JobRef {
        let base = self.number(JobField::ArrayId);
        let id = base.unwrap_or_else(|| self.count(JobField::Id));
        JobRef {
            job: JobId(u64::try_from(id).unwrap_or(0)),
            task: self.task().and_then(|task| u32::try_from(task).ok()),
        }
    }

    /// Which component of a heterogeneous job it is.
    pub fn het(&self) -> Option<Het> {
        let (offset, components) =
            (self.number(JobField::Component)?, self.number(JobField::Components)?);
        let job = self.count(JobField::Id) - offset;
        Some(Het {
            job,
            offset,
            last: job + components - 1,
        })
    }

    /// First id of its array or heterogeneous job, or its own.
    pub fn base_id(&self) -> i64 {
        if let Some(het) = self.het() {
            return het.job;
        }
        let base = self.number(JobField::ArrayId);
        base.unwrap_or_else(|| self.count(JobField::Id))
    }

    /// Its partition; while it waits all that it may go to.
    pub fn partition(&self) -> &'t str {
        if let Some(one) = self.one {
            return one;
        }
        match self.text(JobField::Queues) {
            several if self.waits() && !several.is_empty() => several,
            _ => self.text(JobField::Queue),
        }
    }

    /// Whether it shares what it holds: `NO` whole nodes, `YES` also its cores, `OK` nodes.
    pub fn oversubscribe(&self) -> &'static str {
        if self.flag(JobField::Exclusive) {
            "NO"
        } else if self.flag(JobField::Oversubscribe) {
            "YES"
        } else {
            "OK"
        }
    }

    /// Number of cores held or asked for; at least one.
    pub fn cores(&self) -> i64 {
        self.count(JobField::Cores).max(1)
    }

    /// Number of nodes held or asked for; at least one while it waits.
    pub fn nodes(&self) -> i64 {
        let least = i64::from(self.waits());
        self.count(JobField::NodeCount).max(least)
    }

    /// Fewest cores on each node that the request needs.
    pub fn cores_per_node(&self) -> i64 {
        let each = self.count(JobField::CoresPerTask).max(1);
        each.saturating_mul(self.count(JobField::TasksPerNode).max(1))
    }

    /// Memory that it asks for.
    pub fn memory(&self) -> RequestedMemory {
        let positive = |field| self.number(field).and_then(|n| u64::try_from(n).ok());
        if let Some(mib) = positive(JobField::MemoryPerCore) {
            return RequestedMemory::PerCore(mib);
        }
        if let Some(mib) = positive(JobField::MinMemoryPerNode) {
            return RequestedMemory::PerNode(mib);
        }
        let queue = self.text(JobField::Queue);
        match self.around.default_memory.get(queue) {
            Some(mib) if mib.0 > 0 => RequestedMemory::PerCore(mib.0),
            Some(_) | None => RequestedMemory::Nothing,
        }
    }

    /// What it holds; nothing while it waits and where it never ran.
    pub fn tres_held(&self) -> Option<Tres> {
        let holds = !self.waits() && !self.text(JobField::Nodes).is_empty();
        holds.then(|| self.tres(self.cores(), self.nodes()))
    }

    /// What it asked for.
    pub fn tres_asked(&self) -> Tres {
        let nodes = self.number(JobField::MinNodes);
        let nodes = nodes.unwrap_or_else(|| self.nodes()).max(1);
        let tasks = match self.number(JobField::AskedTasks) {
            Some(tasks) => tasks,
            None => nodes.saturating_mul(self.count(JobField::TasksPerNode).max(1)),
        };
        let cores = tasks.saturating_mul(self.count(JobField::CoresPerTask).max(1));
        self.tres(cores.max(1), nodes)
    }

    fn tres(&self, cores: i64, nodes: i64) -> Tres {
        let times = |mib: u64, n: i64| mib.saturating_mul(n.unsigned_abs());
        let memory = match self.memory() {
            RequestedMemory::PerCore(mib) => times(mib, cores),
            RequestedMemory::PerNode(mib) => times(mib, nodes),
            RequestedMemory::Nothing => 0,
        };
        Tres {
            cores,
            memory,
            nodes,
            gpus: self.count(JobField::Gpus),
        }
    }

    /// Exit code and signal as Slurm pairs them.
    pub fn exit(&self) -> (i64, i64) {
        self.pair(JobField::ExitCode, JobField::Signal)
    }

    /// The same for the step that ended worst.
    pub fn derived_exit(&self) -> (i64, i64) {
        self.pair(JobField::DerivedExitCode, JobField::DerivedSignal)
    }

    fn pair(&self, code: JobField, signal: JobField) -> (i64, i64) {
        match (self.count(code), self.count(signal)) {
            (_, signal) if signal != 0 => (0, signal),
            (code, _) => (code, 0),
        }
    }

    /// Its time limit: its own, else its queue's.
    pub fn limit(&self) -> Option<Span> {
        let queue = self.text(JobField::Queue);
        let usual = || self.around.default_limits.get(queue).copied();
        self.span(JobField::TimeLimit).or_else(usual)
    }

    /// How long it has run.
    pub fn elapsed(&self) -> Span {
        self.span(JobField::Elapsed).unwrap_or(Span(0))
    }

    /// Its end: known, latest, or predicted.
    pub fn end(&self) -> Option<Time> {
        self.time(JobField::End)
            .or_else(|| self.time(JobField::LatestEnd))
            .or_else(|| {
                let start = self.time(JobField::PredictedStart)?;
                let limit = self.span(JobField::TimeLimit)?;
                (!limit.is_unlimited()).then(|| start + limit)
            })
    }

    /// Its start: real, else predicted, else not before which it may start.
    pub fn start(&self) -> Option<Time> {
        self.time(JobField::Start)
            .or_else(|| self.time(JobField::PredictedStart))
            .or_else(|| self.time(JobField::Begin))
    }
}

/// The fields that [`JobView::tres_held`] and [`JobView::tres_asked`] look at.
pub const TRES: &[JobField] = &[
    JobField::State,
    JobField::Queue,
    JobField::Nodes,
    JobField::NodeCount,
    JobField::Cores,
    JobField::MinNodes,
    JobField::AskedTasks,
    JobField::TasksPerNode,
    JobField::CoresPerTask,
    JobField::MemoryPerCore,
    JobField::MinMemoryPerNode,
    JobField::Gpus,
];
/// The fields that [`JobView::het`] looks at.
pub const HET: &[JobField] = &[JobField::Id, JobField::Component, JobField::Components];
/// The fields that [`JobView::partition`] looks at.
pub const PARTITION: &[JobField] = &[JobField::Queue, JobField::Queues, JobField::State];
/// The fields that [`JobView::oversubscribe`] looks at.
pub const OVERSUBSCRIBE: &[JobField] = &[JobField::Exclusive, JobField::Oversubscribe];
/// The fields that [`JobView::reason`] looks at.
pub const REASON: &[JobField] = &[
    JobField::State,
    JobField::Reason,
    JobField::Signal,
    JobField::Restarts,
];
/// The fields that [`JobView::end`] looks at.
pub const END: &[JobField] = &[
    JobField::End,
    JobField::LatestEnd,
    JobField::PredictedStart,
    JobField::TimeLimit,
];

/// Exit code and signal as `sacct` and `scontrol` write them: `1:0`, `0:15`.
pub fn exit_text((code, signal): (i64, i64)) -> String {
    format!("{code}:{signal}")
}

/// The status as wait(2) gives it: what JSON tells.
pub const fn wait_status((code, signal): (i64, i64)) -> i64 {
    (code & 0xff) << 8 | (signal & 0x7f)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use cosy_model::api::Column;

    /// A table out of rows of fields and values; a number is taken as one where the field
    /// has numbers.
    pub(crate) fn table(rows: &[&[(JobField, &str)]]) -> Table {
        let mut fields: Vec<JobField> = rows.iter().flat_map(|r| r.iter().map(|c| c.0)).collect();
        fields.sort();
        fields.dedup();
        let mut table = Table::new(&fields);
        for row in rows {
            for (field, column) in fields.iter().zip(&mut table.columns) {
                let value = row.iter().find(|c| c.0 == *field).map(|c| c.1);
                match column {
                    Column::Numbers(v) => v.push(
                        value
                            .and_then(|n| n.parse().ok())
                            .unwrap_or(cosy_model::api::NO_NUMBER),
                    ),
                    Column::Texts(v) => v.push(value.unwrap_or_default().to_owned()),
                    Column::Words { .. } => unreachable!("a new table has none"),
                }
            }
            table.rows += 1;
        }
        assert!(table.is_sound());
        table
    }

    #[test]
    fn reasons() {
        use JobField as F;
        let check = |row: &[(F, &str)], want: &str| {
            let table = table(&[row]);
            let around = ClusterFacts::default();
            assert_eq!(JobView::new(&table, 0, &around).reason(), want, "{row:?}");
        };
        check(&[(F::State, "waiting"), (F::Reason, "resources")], "Resources");
        check(&[(F::State, "waiting"), (F::Reason, "odd")], "None");
        let held = [(F::State, "waiting"), (F::Reason, "held_by_user")];
        check(&held, "JobHeldUser");
        check(&[held[0], held[1], (F::Restarts, "1")], "JobHeldUser");
        check(&[held[0], (F::Reason, "held_requeued")], "job requeued in held state");
        let never = NEVER_NOTE;
        check(&[(F::State, "cancelled"), (F::Reason, never)], "DependencyNeverSatisfied");
        check(&[(F::State, "failed"), (F::ExitCode, "1")], "NonZeroExitCode");
        check(&[(F::State, "failed"), (F::Signal, "9")], "JobLaunchFailure");
        check(&[(F::State, "timed_out"), (F::Signal, "15")], "TimeLimit");
        let never = [(F::State, "cancelled"), (F::Reason, NEVER_NOTE)];
        check(&never, "DependencyNeverSatisfied");
        let waited = "cancelled by ann while it waited: held_by_user";
        check(&[(F::State, "cancelled"), (F::Reason, waited)], "JobHeldUser");
        check(&[(F::State, "cancelled"), (F::Reason, "cancelled by ann")], "None");
    }

    #[test]
    fn trackable_resources() {
        use JobField as F;
        let around = ClusterFacts {
            default_memory: [("main".to_owned(), MiB(100))].into(),
            ..ClusterFacts::default()
        };
        let filler = [
            (F::State, "running"),
            (F::Queue, "main"),
            (F::Nodes, "n[5-8]"),
            (F::NodeCount, "4"),
            (F::Cores, "64"),
            (F::MinNodes, "4"),
        ];
        let table = table(&[
            &filler,
            &[(F::State, "waiting"), (F::Queue, "main"), (F::Cores, "16")],
            &[
                (F::State, "running"),
                (F::Nodes, "n1"),
                (F::NodeCount, "1"),
                (F::Cores, "2"),
                (F::MinMemoryPerNode, "2048"),
                (F::Gpus, "1"),
            ],
        ]);
        let view = |row| JobView::new(&table, row, &around);
        assert_eq!(view(0).tres_held().unwrap().to_string(), "cpu=64,mem=6400M,node=4,billing=64");
        assert_eq!(view(0).tres_asked().to_string(), "cpu=4,mem=400M,node=4,billing=4");
        assert_eq!(view(1).tres_held(), None);
        assert_eq!(
            view(2).tres_held().unwrap().to_string(),
            "cpu=2,mem=2G,node=1,billing=2,gres/gpu=1"
        );
    }

    #[test]
    fn tasks_of_a_row() {
        use JobField as F;
        let table = table(&[
            &[(F::Ref, "7_[1-3,8%2]"), (F::ArrayId, "7"), (F::Id, "8")],
            &[
                (F::Ref, "7_4"),
                (F::ArrayId, "7"),
                (F::ArrayTask, "4"),
                (F::Id, "11"),
            ],
        ]);
        let around = ClusterFacts::default();
        let view = |row| JobView::new(&table, row, &around);
        let tasks: Vec<_> = view(0)
            .tasks()
            .iter()
            .map(|t| (t.task(), t.raw_id()))
            .collect();
        assert_eq!(tasks, [(Some(1), 7), (Some(2), 7), (Some(3), 7), (Some(8), 7)]);
        let whole: Vec<_> = view(1)
            .tasks()
            .iter()
            .map(|t| (t.task(), t.raw_id()))
            .collect();
        assert_eq!(whole, [(Some(4), 11)]);
        assert_eq!(view(0).folded().map(|tasks| tasks.spec), Some("1-3,8%2"));
        assert_eq!(view(0).raw_id(), 7);
    }

    #[test]
    fn partitions_that_a_waiting_job_may_go_to() {
        use JobField as F;
        let table = table(&[
            &[(F::State, "waiting"), (F::Queue, "b"), (F::Queues, "b,a")],
            &[(F::State, "running"), (F::Queue, "b"), (F::Queues, "b,a")],
        ]);
        let around = ClusterFacts::default();
        let each = |row, first: &str| {
            let job = JobView::new(&table, row, &around);
            let rows = job.in_each_partition(|name| i64::from(name != first));
            let names: Vec<&str> = rows.iter().map(JobView::partition).collect();
            names.join(" ")
        };
        assert_eq!(each(0, "a"), "a b");
        assert_eq!(each(0, "b"), "b a");
        assert_eq!(each(1, "a"), "b");
    }

    #[test]
    fn a_row_of_one_waiting_task_has_that_tasks_number() {
        use JobField as F;
        let row = |tasks, id| {
            let table = table(&[&[(F::Ref, tasks), (F::ArrayId, "7"), (F::Id, id)]]);
            JobView::new(&table, 0, &ClusterFacts::default()).raw_id()
        };
        assert_eq!(row("7_[2]", "9"), 9);
        assert_eq!(row("7_[2%1]", "9"), 9);
        assert_eq!(row("7_[2,5]", "9"), 7);
        assert_eq!(row("7_[5]", "7"), 7, "the last task has the array's");
    }

    #[test]
    fn exits() {
        assert_eq!(exit_text((1, 0)), "1:0");
        assert_eq!(wait_status((0, 15)), 15);
        assert_eq!(wait_status((5, 0)), 1280);
    }
}
