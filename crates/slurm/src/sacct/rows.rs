//! The records of a job: itself, its script and its steps. Source: sacct(1), "job steps";
//! observed names `12.batch`, `12.0`. There is no `12.extern`: as in Slurm without `PrologFlags`.

use crate::job::JobView;
use crate::state::SlurmState;
use cosy_model::api::{JobField as F, StepRow};
use cosy_model::step::{StepInfo, StepRecord};
use cosy_model::{DeviceUse, End, EndCause, JobState, Span, StepId, Time};

/// What of a job a record is about.
#[derive(Clone, Copy, Debug)]
pub enum Part<'t> {
    /// The whole job.
    Whole,
    /// The batch step of the job, its script.
    Batch,
    /// A step that was started in it.
    Step(StepFacts<'t>),
}

/// What a record tells of a step, whether it has ended or still runs.
#[derive(Clone, Copy, Debug)]
pub struct StepFacts<'t> {
    /// Number within the job.
    pub step: StepId,
    name: &'t str,
    state: SlurmState,
    /// Exit code and signal.
    exit: (i64, i64),
    start: Option<Time>,
    /// `None` while it runs.
    pub end: Option<Time>,
    cores: u32,
    tasks: u32,
    nodes: &'t str,
    /// Of an ended one; of one that runs its node is asked.
    usage: Option<Usage>,
}

impl<'t> From<&'t StepRow> for StepFacts<'t> {
    fn from(row: &'t StepRow) -> Self {
        let StepRow {
            // The record is of the job that it was asked for; attempts are not told apart.
            job: _,
            attempt: _,
            record,
        } = row;
        let StepRecord {
            step,
            name,
            nodes,
            tasks,
            cores,
            end: how,
        } = record;
        let End {
            // `state` and `of_end` tell these.
            cause: _,
            exit_code: _,
            signal: _,
            start,
            end,
            user_cpu_us,
            system_cpu_us,
            peak_memory_bytes,
            // Of whole jobs only.
            devices: _,
        } = how;
        Self {
            step: *step,
            name,
            state: how.state().into(),
            exit: of_end(how),
            start: *start,
            end: Some(*end),
            cores: *cores,
            tasks: *tasks,
            nodes,
            usage: Some(Usage {
                user_us: signed(*user_cpu_us),
                system_us: signed(*system_cpu_us),
                peak_bytes: signed(*peak_memory_bytes),
                ..Usage::default()
            }),
        }
    }
}

impl<'t> From<&'t StepInfo> for StepFacts<'t> {
    fn from(info: &'t StepInfo) -> Self {
        let StepInfo {
            key,
            name,
            nodes,
            tasks,
            start,
            // `sacct` has these of jobs only.
            time_limit: _,
            memory: _,
        } = info;
        Self {
            step: key.step,
            name,
            state: SlurmState::Running,
            exit: (0, 0),
            start: *start,
            end: None,
            cores: *tasks,
            tasks: *tasks,
            nodes,
            usage: None,
        }
    }
}

/// One line: a job, its script or one of its steps.
#[derive(Clone, Copy, Debug)]
pub struct Row<'t> {
    /// Record of the job that the line belongs to.
    pub job: JobView<'t>,
    /// What of it.
    pub part: Part<'t>,
    /// Number of the user who cancelled it, where one did.
    pub canceller: Option<i64>,
    /// A run that another one followed (`--duplicates`).
    pub earlier: bool,
    /// What it has used so far, where its node was asked.
    pub live: Option<Usage>,
    /// What the job has used so far on its first node, where that was asked.
    pub live_devices: Option<UsedDevices>,
    /// When the list is made.
    pub now: Time,
}

/// Processor time in microseconds, and peak memory in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// In user mode.
    pub user_us: i64,
    /// In the kernel.
    pub system_us: i64,
    /// Most memory that a task had, in bytes.
    pub peak_bytes: i64,
    /// Bytes read from disks, while it runs and where that is known.
    pub read_bytes: Option<i64>,
    /// Bytes written to disks, in the same way.
    pub written_bytes: Option<i64>,
}

/// What a whole job has used of energy and GPUs, as far as that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UsedDevices {
    /// An estimate, in joules.
    pub energy_joules: Option<i64>,
    /// Per mille of its time in which its GPUs were busy.
    pub gpu_busy_permille: Option<i64>,
    /// Most memory of its GPUs that was in use on a node, in bytes.
    pub gpu_memory_bytes: Option<i64>,
}

impl From<DeviceUse> for UsedDevices {
    fn from(used: DeviceUse) -> Self {
        Self {
            energy_joules: used.energy_joules().map(signed),
            gpu_busy_permille: used.gpu_busy_permille().map(i64::from),
            gpu_memory_bytes: used.gpu_memory_bytes().map(signed),
        }
    }
}

impl<'t> Row<'t> {
    /// All records of a job: itself, and without `whole` its steps too.
    pub fn of_job(
        job: JobView<'t>,
        steps: &'t [StepRow],
        running: &'t [StepInfo],
        canceller: Option<i64>,
        now: Time,
    ) -> Vec<Self> {
        let row = |part| Self {
            job,
            part,
            canceller,
            earlier: false,
            live: None,
            live_devices: None,
            now,
        };
        let mut all = vec![row(Part::Whole)];
        if job.time(F::Start).is_none() || job.text(F::Nodes).is_empty() {
            return all;
        }
        let script = job.flag(F::Batch) || !job.flag(F::Attended);
        if script && job.het().is_none_or(|het| het.offset == 0) {
            all.push(row(Part::Batch));
        }
        all.extend(steps.iter().map(|s| row(Part::Step(s.into()))));
        all.extend(running.iter().map(|s| row(Part::Step(s.into()))));
        all
    }

    /// All records of a run that another one followed.
    pub fn of_earlier_run(job: JobView<'t>, steps: &'t [StepRow], now: Time) -> Vec<Self> {
        let mut all = Self::of_job(job, steps, &[], None, now);
        all.iter_mut().for_each(|row| row.earlier = true);
        all
    }

    /// The whole job, not a step.
    pub const fn is_whole(&self) -> bool {
        matches!(self.part, Part::Whole)
    }

    /// `batch`, `0`; `None` of the whole job.
    pub fn step(&self) -> Option<String> {
        match self.part {
            Part::Whole => None,
            Part::Batch => Some("batch".to_owned()),
            Part::Step(s) => Some(s.step.to_string()),
        }
    }

    /// Id as users write it: `12_3`, `12_3.batch`.
    pub fn id(&self) -> String {
        self.with_step(self.job.text(F::Ref).to_owned())
    }

    /// `13.batch`: with the number that the job is known by alone.
    pub fn raw_id(&self) -> String {
        self.with_step(self.job.raw_id().to_string())
    }

    fn with_step(&self, job: String) -> String {
        match self.step() {
            Some(step) => format!("{job}.{step}"),
            None => job,
        }
    }

    /// Name of the job or step.
    pub fn name(&self) -> &'t str {
        match self.part {
            Part::Whole => self.job.text(F::Name),
            Part::Batch => "batch",
            Part::Step(s) => s.name,
        }
    }

    /// State in Slurm's words; a batch step of a job at its time limit counts as cancelled. A run
    /// that somebody put back is kept as cancelled.
    pub fn state(&self) -> SlurmState {
        match self.part {
            Part::Whole if self.earlier && self.job.our_state() == JobState::Cancelled => {
                SlurmState::Requeued
            }
            Part::Batch if self.job.our_state() == JobState::TimedOut => SlurmState::Cancelled,
            Part::Batch if self.job.our_state() == JobState::Preempted => match self.job.exit() {
                (0, 0) => SlurmState::Completed,
                (_, 0) => SlurmState::Failed,
                (_, _) => SlurmState::Cancelled,
            },
            Part::Whole | Part::Batch => accounted(self.job.our_state()),
            Part::Step(s) => s.state,
        }
    }

    /// State as it is shown: `CANCELLED by 33`.
    pub fn state_text(&self) -> String {
        let state = self.state();
        match (state, self.canceller) {
            (SlurmState::Cancelled, Some(uid)) if self.is_whole() => {
                format!("{} by {uid}", state.name())
            }
            (_, _) => state.name().to_owned(),
        }
    }

    /// Exit code and signal.
    pub fn exit(&self) -> (i64, i64) {
        use JobState as S;
        if let Part::Step(s) = self.part {
            return s.exit;
        }
        match self.job.our_state() {
            S::OutOfMemory => (0, OUT_OF_MEMORY),
            // The end of a job by Slurm itself is that of its script, told there.
            S::TimedOut | S::Cancelled | S::Preempted if self.is_whole() => (0, 0),
            S::TimedOut | S::Cancelled | S::Preempted => self.job.exit(),
            S::Waiting | S::Starting | S::Running | S::Suspended | S::Completing => self.job.exit(),
            S::Completed | S::Failed | S::NodeFailed => self.job.exit(),
            S::LaunchFailed | S::Deadline => self.job.exit(),
        }
    }

    /// When it began; none for what never did.
    pub fn start(&self) -> Option<Time> {
        match self.part {
            Part::Whole | Part::Batch => self.job.time(F::Start),
            Part::Step(s) => s.start,
        }
    }

    /// End, once there is one.
    pub fn end(&self) -> Option<Time> {
        match self.part {
            Part::Whole | Part::Batch => self.job.time(F::End),
            Part::Step(s) => s.end,
        }
    }

    /// How long it ran or has been running.
    pub fn elapsed(&self) -> Span {
        match self.part {
            Part::Whole | Part::Batch => self.job.elapsed(),
            Part::Step(_) => match (self.start(), self.end()) {
                (Some(start), Some(end)) => end.since(start),
                (Some(start), None) => self.now.since(start),
                (None, _) => Span(0),
            },
        }
    }

    /// Cores that are or were held.
    pub fn cores(&self) -> i64 {
        match self.part {
            Part::Whole => self.job.cores(),
            Part::Batch => {
                let nodes = self.job.nodes().max(1);
                (self.job.cores() / nodes).max(1)
            }
            Part::Step(s) => s.cores.into(),
        }
    }

    /// Tasks; `None` of the whole job.
    pub fn tasks(&self) -> Option<i64> {
        match self.part {
            Part::Whole => None,
            Part::Batch => Some(1),
            Part::Step(s) => Some(s.tasks.into()),
        }
    }

    /// Nodes as a host list.
    pub fn nodes(&self) -> &'t str {
        match self.part {
            Part::Whole => self.job.text(F::Nodes),
            Part::Batch => self.job.text(F::BatchHost),
            Part::Step(s) => s.nodes,
        }
    }

    /// Number of nodes.
    pub fn node_count(&self) -> i64 {
        match self.part {
            Part::Whole => self.job.nodes(),
            Part::Batch => 1,
            Part::Step(_) => {
                let names = cosy_model::hostlist::expand(self.nodes());
                names.map_or(0, |n| i64::try_from(n.len()).unwrap_or(i64::MAX))
            }
        }
    }

    /// What the whole job has used of energy and GPUs; while it runs on its first node.
    pub fn devices(&self) -> UsedDevices {
        self.live_devices.unwrap_or_else(|| UsedDevices {
            energy_joules: self.job.number(F::Energy),
            gpu_busy_permille: self.job.number(F::GpuBusy),
            gpu_memory_bytes: self.job.number(F::GpuMemory),
        })
    }

    /// An estimate in joules: nobody measures steps, so each has its share of the job's by cores and
    /// time.
    pub fn energy_joules(&self) -> Option<i64> {
        let whole = self.devices().energy_joules?;
        if self.is_whole() {
            return Some(whole);
        }
        // While it runs what is known is of one node.
        let (all_nodes, own_nodes) = match self.live_devices {
            Some(_) => (self.job.nodes().max(1), self.node_count().max(1)),
            None => (1, 1),
        };
        let time = |cores: i64, nodes: i64, span: Span| {
            i128::from((cores / nodes).max(1)) * i128::from(span.ms().max(0))
        };
        let all = time(self.job.cores(), all_nodes, self.job.elapsed());
        let own = time(self.cores(), own_nodes, self.elapsed()).min(all);
        let share = (i128::from(whole) * own).checked_div(all)?;
        i64::try_from(share).ok()
    }

    /// What it used; `None` where that is not known, or is another record's.
    pub fn usage(&self) -> Option<Usage> {
        if self.live.is_some() {
            return self.live;
        }
        match self.part {
            Part::Whole | Part::Batch => self.job.number(F::UserCpu).map(|user_us| Usage {
                user_us,
                system_us: self.job.count(F::SystemCpu),
                peak_bytes: self.job.count(F::PeakMemory),
                ..Usage::default()
            }),
            Part::Step(s) => s.usage,
        }
    }
}

/// The signal that Slurm tells of a job that used too much memory.
const OUT_OF_MEMORY: i64 = 125;

fn of_end(end: &End) -> (i64, i64) {
    match (&end.cause, end.signal) {
        (EndCause::OutOfMemory, _) => (0, OUT_OF_MEMORY),
        (_, 0) => (end.exit_code.into(), 0),
        (_, signal) => (0, signal.into()),
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The fields of a job that records are made of.
pub const NEEDS: &[F] = &[
    F::Id,
    F::Ref,
    F::ArrayId,
    F::ArrayTask,
    F::Component,
    F::Components,
    F::Name,
    F::User,
    F::Uid,
    F::Gid,
    F::Account,
    F::Queue,
    F::Queues,
    F::State,
    F::Reason,
    F::Submit,
    F::Eligible,
    F::Start,
    F::End,
    F::Elapsed,
    F::TimeLimit,
    F::NodeCount,
    F::Nodes,
    F::Tasks,
    F::Cores,
    F::Gpus,
    F::MinNodes,
    F::AskedTasks,
    F::TasksPerNode,
    F::CoresPerTask,
    F::MemoryPerCore,
    F::MinMemoryPerNode,
    F::ExitCode,
    F::Signal,
    F::DerivedExitCode,
    F::DerivedSignal,
    F::UserCpu,
    F::SystemCpu,
    F::PeakMemory,
    F::Energy,
    F::GpuBusy,
    F::GpuMemory,
    F::Priority,
    F::Qos,
    F::Wckey,
    F::Constraint,
    F::Reservation,
    F::Workdir,
    F::SubmitLine,
    F::Comment,
    F::BatchHost,
    F::Batch,
    F::Attended,
    F::Restarts,
    F::SuspendedFor,
    F::FailedNodes,
];

/// In the accounts of Slurm a job that has nodes runs until its end: that they get ready or
/// are cleaned up is a flag that is not kept there. Tools take a state that they do not know
/// for an end.
fn accounted(state: JobState) -> SlurmState {
    match state.into() {
        SlurmState::Configuring | SlurmState::Completing => SlurmState::Running,
        told => told,
    }
}
