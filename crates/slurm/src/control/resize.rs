//! The scripts that `scontrol update` leaves in the working directory when it has made the
//! job smaller that it was called in: sourced, they set the variables of the job anew.
//!
//! Beside Slurm's variables they set Cosy's, from which steps and MPI plugins learn where
//! they are. Source: scontrol(1), "NumNodes"; files written by 22.05.

use cosy_model::variables;
use cosy_view::words::by_node;
use std::fmt::Write;

/// What a job has left.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemainingNodes {
    /// Its nodes as a host list.
    pub nodes: String,
    /// How many these are.
    pub count: u64,
    /// Cores of each node.
    pub cores: Vec<u32>,
    /// Tasks of each node.
    pub tasks: Vec<u32>,
}

/// One of the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shell {
    /// For sh and its like.
    Sh,
    /// For csh and its like.
    Csh,
}

impl Shell {
    /// Name of the file.
    pub fn file(self, job: &str) -> String {
        let end = match self {
            Self::Sh => "sh",
            Self::Csh => "csh",
        };
        format!("slurm_job_{job}_resize.{end}")
    }

    /// What is in it.
    pub fn text(self, left: &RemainingNodes) -> String {
        let (nodes, count) = (format!("\"{}\"", left.nodes), left.count.to_string());
        let cores = by_node::write(left.cores.iter().copied());
        let sum: u64 = left.tasks.iter().map(|n| u64::from(*n)).sum();
        let set = [
            ("SLURM_NODELIST", nodes.clone()),
            ("SLURM_JOB_NODELIST", nodes.clone()),
            ("SLURM_NNODES", count.clone()),
            ("SLURM_JOB_NUM_NODES", count.clone()),
            ("SLURM_JOB_CPUS_PER_NODE", format!("\"{cores}\"")),
            (variables::NODES, nodes),
            (variables::NODE_COUNT, count),
            (variables::CORES_BY_NODE, list(&left.cores)),
            (variables::TASKS, sum.to_string()),
            (variables::TASKS_BY_NODE, list(&left.tasks)),
        ];
        let unset = ["SLURM_NPROCS", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE"];
        let mut text = String::new();
        for (name, value) in set {
            let _ = match self {
                Self::Sh => writeln!(text, "export {name}={value}"),
                Self::Csh => writeln!(text, "setenv {name} {value}"),
            };
        }
        for name in unset {
            let _ = match self {
                Self::Sh => writeln!(text, "unset {name}"),
                Self::Csh => writeln!(text, "unsetenv {name}"),
            };
        }
        text
    }
}

/// What is said about the two files of a job.
pub fn note(job: &str) -> String {
    format!(
        "To reset Slurm environment variables, execute\n  For bash or sh shells:  . ./{}\n  For csh shells:         source ./{}",
        Shell::Sh.file(job),
        Shell::Csh.file(job)
    )
}

fn list(numbers: &[u32]) -> String {
    variables::write_counts(numbers.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left() -> RemainingNodes {
        RemainingNodes {
            nodes: "n[1-3]".to_owned(),
            count: 3,
            cores: vec![5, 1, 1],
            tasks: vec![2, 2, 2],
        }
    }

    #[test]
    fn scripts() {
        assert_eq!(Shell::Sh.file("7"), "slurm_job_7_resize.sh");
        let sh = "export SLURM_NODELIST=\"n[1-3]\"\n\
            export SLURM_JOB_NODELIST=\"n[1-3]\"\n\
            export SLURM_NNODES=3\n\
            export SLURM_JOB_NUM_NODES=3\n\
            export SLURM_JOB_CPUS_PER_NODE=\"5,1(x2)\"\n\
            export COSY_NODES=\"n[1-3]\"\n\
            export COSY_NODE_COUNT=3\n\
            export COSY_CORES_BY_NODE=5,1,1\n\
            export COSY_TASKS=6\n\
            export COSY_TASKS_BY_NODE=2,2,2\n\
            unset SLURM_NPROCS\n\
            unset SLURM_NTASKS\n\
            unset SLURM_TASKS_PER_NODE\n";
        assert_eq!(Shell::Sh.text(&left()), sh);
        let csh = Shell::Csh.text(&left());
        assert!(csh.starts_with("setenv SLURM_NODELIST \"n[1-3]\"\n"), "{csh}");
        assert!(csh.ends_with("unsetenv SLURM_TASKS_PER_NODE\n"), "{csh}");
    }
}
