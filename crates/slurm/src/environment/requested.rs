//! What `sbatch`, `salloc` and `srun` put into the environment of what they start, because
//! only they know what was asked for.

use super::{Memory, Variables};

/// What was asked for, and from where. What was not given is `None`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Requested {
    /// Name of the job.
    pub name: String,
    /// Tasks: given, or nodes times tasks on each.
    pub tasks: Option<u32>,
    /// Tasks on each node.
    pub tasks_per_node: Option<u32>,
    /// Cores of each task.
    pub cores_per_task: Option<u32>,
    /// More tasks than cores.
    pub overcommit: bool,
    /// Memory; in the environment of `salloc` only, elsewhere the node sets it.
    pub memory: Option<Memory>,
    /// GPUs of the job, as given.
    pub gpus: Option<String>,
    /// GPUs of each node, as given.
    pub gpus_per_node: Option<String>,
    /// GPUs of each task, as given.
    pub gpus_per_task: Option<String>,
    /// Which GPUs tasks see, as given.
    pub gpu_bind: Option<String>,
    /// Where the command was called.
    pub submit_dir: String,
    /// On which host.
    pub submit_host: String,
    /// `--export` as given.
    pub export: Option<String>,
    /// The login environment was asked for (`--get-user-env`, or `--export` with names).
    pub user_env: bool,
    /// Nice value of the process that submits.
    pub process_nice: Option<i32>,
    /// `--distribution`, in words.
    pub distribution: Option<String>,
    /// The size of its planes.
    pub plane_size: Option<u32>,
    /// File mode mask, for `srun`.
    pub umask: Option<u32>,
}

impl Requested {
    /// Variables of the options that were given, without those of the others.
    pub fn variables(&self) -> Variables {
        let mut all = Variables::default();
        all.set("SLURM_JOB_NAME", &self.name);
        all.set("SLURM_SUBMIT_DIR", &self.submit_dir);
        all.set("SLURM_SUBMIT_HOST", &self.submit_host);
        if let Some(tasks) = self.tasks {
            all.set_all(&["SLURM_NTASKS", "SLURM_NPROCS"], tasks);
        }
        all.set_some("SLURM_NTASKS_PER_NODE", self.tasks_per_node);
        all.set_some("SLURM_CPUS_PER_TASK", self.cores_per_task);
        if self.overcommit {
            all.set("SLURM_OVERCOMMIT", 1);
        }
        if let Some(memory) = self.memory {
            memory.set(&mut all);
        }
        all.set_some("SLURM_GPUS", self.gpus.as_ref());
        all.set_some("SLURM_GPUS_PER_NODE", self.gpus_per_node.as_ref());
        all.set_some("SLURM_GPUS_PER_TASK", self.gpus_per_task.as_ref());
        all.set_some("SLURM_GPU_BIND", self.gpu_bind.as_ref());
        all.set_some("SLURM_EXPORT_ENV", self.export.as_ref());
        if self.user_env {
            all.set("SLURM_GET_USER_ENV", 1);
        }
        all.set_some("SLURM_PRIO_PROCESS", self.process_nice);
        all.set_some("SLURM_DISTRIBUTION", self.distribution.as_ref());
        all.set_some("SLURM_DIST_PLANESIZE", self.plane_size);
        let mask = self.umask.map(|m| format!("{:04o}", m & 0o777));
        all.set_some("SLURM_UMASK", mask);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_given() {
        let check = |asked: Requested, want: &[&str]| {
            let mut got: Vec<String> = asked.variables().texts().collect();
            got.sort();
            assert_eq!(got, want);
        };
        let plain = Requested {
            name: "env.sh".into(),
            submit_dir: "/w".into(),
            submit_host: "vm".into(),
            ..Requested::default()
        };
        check(
            plain.clone(),
            &[
                "SLURM_JOB_NAME=env.sh",
                "SLURM_SUBMIT_DIR=/w",
                "SLURM_SUBMIT_HOST=vm",
            ],
        );
        check(
            Requested {
                tasks: Some(6),
                tasks_per_node: Some(3),
                export: Some("ALL,X=1".into()),
                user_env: true,
                process_nice: Some(0),
                umask: Some(0o22),
                ..plain
            },
            &[
                "SLURM_EXPORT_ENV=ALL,X=1",
                "SLURM_GET_USER_ENV=1",
                "SLURM_JOB_NAME=env.sh",
                "SLURM_NPROCS=6",
                "SLURM_NTASKS=6",
                "SLURM_NTASKS_PER_NODE=3",
                "SLURM_PRIO_PROCESS=0",
                "SLURM_SUBMIT_DIR=/w",
                "SLURM_SUBMIT_HOST=vm",
                "SLURM_UMASK=0022",
            ],
        );
    }
}
