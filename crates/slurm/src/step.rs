//! A step that runs or waits in a running job, as `squeue --steps` and `scontrol show step`
//! both tell of it.

use crate::job::JobView;
use cosy_model::api::{JobField, JobRef};
use cosy_model::step::StepInfo;
use cosy_model::{JobId, JobState, MiB, Span, Time, Uid};

/// Fields of a job from which its steps are told.
pub const NEEDED_FIELDS: &[JobField] = &[
    JobField::Id,
    JobField::Ref,
    JobField::ArrayId,
    JobField::ArrayTask,
    JobField::State,
    JobField::Queue,
    JobField::User,
    JobField::Uid,
    JobField::Start,
    JobField::Batch,
    JobField::BatchHost,
];

/// One step of a running job: its batch script, or what was started in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningStep {
    /// Its job, or the task of an array.
    pub job: JobRef,
    /// The job as lists name it; of a heterogeneous job this names the component.
    pub job_name: String,
    /// Number or name within the job: `0`, `batch`.
    pub step: String,
    /// Name that the step was given, by default its program's.
    pub name: String,
    /// The job's queue, a partition to Slurm.
    pub queue: String,
    /// Login name of the job's owner.
    pub user: String,
    /// Owner of the job.
    pub uid: Uid,
    /// Start; `None` while it waits for room within the job.
    pub start: Option<Time>,
    /// Its own time limit; `None` where only the job's holds.
    pub time_limit: Option<Span>,
    /// Nodes as a host list; empty while it waits.
    pub nodes: String,
    /// Number of nodes.
    pub node_count: u32,
    /// Number of tasks on all nodes together.
    pub tasks: u32,
    /// Cores of its own; the batch script shares those of the job and has none.
    pub cores: u32,
    /// Memory of its own on all nodes together.
    pub memory: Option<MiB>,
}

impl RunningStep {
    /// The steps of `job`, which was read with [`NEEDED_FIELDS`]: its script, then those that
    /// `started` tells of. None of a job that does not run: `started` is asked only of others.
    pub fn of_job(job: &JobView<'_>, started: impl FnOnce(JobId) -> Vec<StepInfo>) -> Vec<Self> {
        if job.our_state() != JobState::Running {
            return Vec::new();
        }
        let script = Self {
            job: job.job_ref(),
            job_name: job.text(JobField::Ref).to_owned(),
            step: "batch".to_owned(),
            name: "batch".to_owned(),
            queue: job.text(JobField::Queue).to_owned(),
            user: job.text(JobField::User).to_owned(),
            uid: Uid(u32::try_from(job.count(JobField::Uid)).unwrap_or_default()),
            start: job.time(JobField::Start),
            time_limit: None,
            nodes: job.text(JobField::BatchHost).to_owned(),
            node_count: 1,
            tasks: 1,
            cores: 0,
            memory: None,
        };
        let id = JobId(u64::try_from(job.count(JobField::Id)).unwrap_or_default());
        let started = started(id).into_iter().map(|info| script.beside(info));
        let has_script = job.flag(JobField::Batch).then(|| script.clone());
        has_script.into_iter().chain(started).collect()
    }

    /// Another step of the same job.
    fn beside(&self, info: StepInfo) -> Self {
        let StepInfo {
            key,
            name,
            nodes,
            tasks,
            start,
            time_limit,
            memory,
        } = info;
        let count = cosy_model::expand(&nodes).map_or(0, |names| names.len());
        let node_count = u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            step: key.step.to_string(),
            name,
            start,
            time_limit,
            nodes,
            node_count,
            tasks,
            cores: tasks,
            memory: memory.map(|each| MiB(each.0.saturating_mul(node_count.into()))),
            ..self.clone()
        }
    }

    /// Whether it has begun: the other state of a step is to wait.
    pub const fn is_running(&self) -> bool {
        self.start.is_some()
    }

    /// State by Slurm's name.
    pub const fn state(&self) -> &'static str {
        if self.is_running() {
            "RUNNING"
        } else {
            "PENDING"
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::job::ClusterFacts;
    use crate::job::tests::table;
    use cosy_model::ids::AttemptKey;
    use cosy_model::step::StepKey;
    use cosy_model::{Attempt, StepId};

    /// The script of job 101 of www-data, which runs on n5 since `start`.
    pub(crate) fn script(start: Time) -> RunningStep {
        RunningStep {
            job: "101".parse().unwrap(),
            job_name: "101".into(),
            step: "batch".into(),
            name: "batch".into(),
            queue: "main".into(),
            user: "www-data".into(),
            uid: Uid(33),
            start: Some(start),
            time_limit: None,
            nodes: "n5".into(),
            node_count: 1,
            tasks: 1,
            cores: 0,
            memory: None,
        }
    }

    fn started(nodes: &str, start: Option<Time>) -> StepInfo {
        StepInfo {
            key: StepKey {
                attempt: AttemptKey {
                    job: JobId(104),
                    attempt: Attempt(1),
                },
                step: StepId(3),
            },
            name: "solver".into(),
            nodes: nodes.into(),
            tasks: 4,
            start,
            time_limit: Some(Span::from_minutes(5)),
            memory: Some(MiB(100)),
        }
    }

    #[test]
    fn steps_of_a_task_of_an_array() {
        use JobField as F;
        let row = |state| {
            table(&[&[
                (F::Id, "104"),
                (F::Ref, "101_3"),
                (F::ArrayId, "101"),
                (F::ArrayTask, "3"),
                (F::State, state),
                (F::Queue, "main"),
                (F::User, "www-data"),
                (F::Uid, "33"),
                (F::Start, "5000"),
                (F::Batch, "1"),
                (F::BatchHost, "n5"),
            ]])
        };
        let around = ClusterFacts::default();
        let running = row("running");
        let job = JobView::new(&running, 0, &around);
        let all = vec![started("n[5-6]", Some(Time(7000))), started("", None)];
        let steps = RunningStep::of_job(&job, |_| all);
        let of_task = RunningStep {
            job: "101_3".parse().unwrap(),
            job_name: "101_3".into(),
            ..script(Time(5000))
        };
        let step = RunningStep {
            step: "3".into(),
            name: "solver".into(),
            start: Some(Time(7000)),
            time_limit: Some(Span::from_minutes(5)),
            nodes: "n[5-6]".into(),
            node_count: 2,
            tasks: 4,
            cores: 4,
            memory: Some(MiB(200)),
            ..of_task.clone()
        };
        assert_eq!(steps[..2], [of_task, step]);
        assert_eq!((steps[2].state(), steps[2].node_count), ("PENDING", 0));
        let waiting = row("waiting");
        let job = JobView::new(&waiting, 0, &around);
        let steps = RunningStep::of_job(&job, |_| unreachable!("its node is not asked"));
        assert_eq!(steps, []);
    }
}
