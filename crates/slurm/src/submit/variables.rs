//! Variables of the environment that stand for options: `SBATCH_PARTITION=short`.
//!
//! They go over options in a script and under those on the command line. Source:
//! sbatch(1), salloc(1), srun(1), "INPUT ENVIRONMENT VARIABLES".

use super::Program;
use super::table;
use crate::getopt::{Argument, GivenOption};
use std::ffi::{OsStr, OsString};

/// For sbatch and salloc: the variable without `SBATCH_` or `SALLOC_`, and the option.
const COMMON: [(&str, &str); 43] = [
    ("ACCOUNT", "account"),
    ("ACCTG_FREQ", "acctg-freq"),
    ("BURST_BUFFER", "bb"),
    ("CLUSTERS", "clusters"),
    ("CONSTRAINT", "constraint"),
    ("CONTAINER", "container"),
    ("CORE_SPEC", "core-spec"),
    ("CPUS_PER_GPU", "cpus-per-gpu"),
    ("CPU_FREQ_REQ", "cpu-freq"),
    ("DEBUG", "verbose"),
    ("DELAY_BOOT", "delay-boot"),
    ("DISTRIBUTION", "distribution"),
    ("EXCLUSIVE", "exclusive"),
    ("GPUS", "gpus"),
    ("GPUS_PER_NODE", "gpus-per-node"),
    ("GPUS_PER_SOCKET", "gpus-per-socket"),
    ("GPUS_PER_TASK", "gpus-per-task"),
    ("GPU_BIND", "gpu-bind"),
    ("GPU_FREQ", "gpu-freq"),
    ("GRES", "gres"),
    ("GRES_FLAGS", "gres-flags"),
    ("HINT", "hint"),
    ("JOB_NAME", "job-name"),
    ("MEM_BIND", "mem-bind"),
    ("MEM_PER_CPU", "mem-per-cpu"),
    ("MEM_PER_GPU", "mem-per-gpu"),
    ("MEM_PER_NODE", "mem"),
    ("NETWORK", "network"),
    ("NO_KILL", "no-kill"),
    ("OVERCOMMIT", "overcommit"),
    ("PARTITION", "partition"),
    ("POWER", "power"),
    ("PROFILE", "profile"),
    ("QOS", "qos"),
    ("REQ_SWITCH", "switches"),
    ("RESERVATION", "reservation"),
    ("SIGNAL", "signal"),
    ("SPREAD_JOB", "spread-job"),
    ("THREADS_PER_CORE", "threads-per-core"),
    ("THREAD_SPEC", "thread-spec"),
    ("TIMELIMIT", "time"),
    ("USE_MIN_NODES", "use-min-nodes"),
    ("WCKEY", "wckey"),
];

const SBATCH: [(&str, &str); 15] = [
    ("SBATCH_ARRAY_INX", "array"),
    ("SBATCH_BATCH", "batch"),
    ("SBATCH_ERROR", "error"),
    ("SBATCH_EXPORT", "export"),
    ("SBATCH_GET_USER_ENV", "get-user-env"),
    ("SBATCH_IGNORE_PBS", "ignore-pbs"),
    ("SBATCH_INPUT", "input"),
    ("SBATCH_NO_REQUEUE", "no-requeue"),
    ("SBATCH_OPEN_MODE", "open-mode"),
    ("SBATCH_OUTPUT", "output"),
    ("SBATCH_REQUEUE", "requeue"),
    ("SBATCH_TIME_MIN", "time-min"),
    ("SBATCH_WAIT", "wait"),
    ("SBATCH_WAIT_ALL_NODES", "wait-all-nodes"),
    ("SLURM_CLUSTERS", "clusters"),
];

const SALLOC: [(&str, &str); 6] = [
    ("SALLOC_BELL", "bell"),
    ("SALLOC_IMMEDIATE", "immediate"),
    ("SALLOC_KILL_CMD", "kill-command"),
    ("SALLOC_NO_BELL", "no-bell"),
    ("SALLOC_WAIT_ALL_NODES", "wait-all-nodes"),
    ("SLURM_CLUSTERS", "clusters"),
];

const SRUN: [(&str, &str); 77] = [
    ("SLURM_ACCOUNT", "account"),
    ("SLURM_ACCTG_FREQ", "acctg-freq"),
    ("SLURM_BCAST", "bcast"),
    ("SLURM_BCAST_EXCLUDE", "bcast-exclude"),
    ("SLURM_BURST_BUFFER", "bb"),
    ("SLURM_CLUSTERS", "clusters"),
    ("SLURM_COMPRESS", "compress"),
    ("SLURM_CONSTRAINT", "constraint"),
    ("SLURM_CONTAINER", "container"),
    ("SLURM_CORE_SPEC", "core-spec"),
    ("SLURM_CPUS_PER_GPU", "cpus-per-gpu"),
    ("SRUN_CPUS_PER_TASK", "cpus-per-task"),
    ("SLURM_CPU_BIND", "cpu-bind"),
    ("SLURM_CPU_FREQ_REQ", "cpu-freq"),
    ("SLURM_DEBUG", "verbose"),
    ("SLURM_DELAY_BOOT", "delay-boot"),
    ("SLURM_DEPENDENCY", "dependency"),
    ("SLURM_DISABLE_STATUS", "disable-status"),
    ("SLURM_DISTRIBUTION", "distribution"),
    ("SLURM_EPILOG", "epilog"),
    ("SLURM_EXACT", "exact"),
    ("SLURM_EXCLUSIVE", "exclusive"),
    ("SLURM_EXPORT_ENV", "export"),
    ("SRUN_EXPORT_ENV", "export"),
    ("SLURM_GPUS", "gpus"),
    ("SLURM_GPUS_PER_NODE", "gpus-per-node"),
    ("SLURM_GPUS_PER_SOCKET", "gpus-per-socket"),
    ("SLURM_GPUS_PER_TASK", "gpus-per-task"),
    ("SLURM_GPU_BIND", "gpu-bind"),
    ("SLURM_GPU_FREQ", "gpu-freq"),
    ("SLURM_GRES", "gres"),
    ("SLURM_GRES_FLAGS", "gres-flags"),
    ("SLURM_HINT", "hint"),
    ("SLURM_IMMEDIATE", "immediate"),
    ("SLURM_JOB_ID", "jobid"),
    ("SLURM_JOB_NAME", "job-name"),
    ("SLURM_KILL_BAD_EXIT", "kill-on-bad-exit"),
    ("SLURM_LABELIO", "label"),
    ("SLURM_MEM_BIND", "mem-bind"),
    ("SLURM_MEM_PER_CPU", "mem-per-cpu"),
    ("SLURM_MEM_PER_GPU", "mem-per-gpu"),
    ("SLURM_MEM_PER_NODE", "mem"),
    ("SLURM_MPI_TYPE", "mpi"),
    ("SLURM_NETWORK", "network"),
    ("SLURM_NNODES", "nodes"),
    ("SLURM_JOB_NUM_NODES", "nodes"),
    ("SLURM_NO_KILL", "no-kill"),
    ("SLURM_NPROCS", "ntasks"),
    ("SLURM_NTASKS", "ntasks"),
    ("SLURM_NTASKS_PER_CORE", "ntasks-per-core"),
    ("SLURM_NTASKS_PER_GPU", "ntasks-per-gpu"),
    ("SLURM_NTASKS_PER_NODE", "ntasks-per-node"),
    ("SLURM_NTASKS_PER_SOCKET", "ntasks-per-socket"),
    ("SLURM_OPEN_MODE", "open-mode"),
    ("SLURM_OVERCOMMIT", "overcommit"),
    ("SLURM_OVERLAP", "overlap"),
    ("SLURM_PARTITION", "partition"),
    ("SLURM_PROFILE", "profile"),
    ("SLURM_PROLOG", "prolog"),
    ("SLURM_QOS", "qos"),
    ("SLURM_REMOTE_CWD", "chdir"),
    ("SLURM_WORKING_DIR", "chdir"),
    ("SLURM_REQ_SWITCH", "switches"),
    ("SLURM_RESERVATION", "reservation"),
    ("SLURM_SEND_LIBS", "send-libs"),
    ("SLURM_SIGNAL", "signal"),
    ("SLURM_STDERRMODE", "error"),
    ("SLURM_STDINMODE", "input"),
    ("SLURM_STDOUTMODE", "output"),
    ("SLURM_TASK_EPILOG", "task-epilog"),
    ("SLURM_TASK_PROLOG", "task-prolog"),
    ("SLURM_THREADS", "threads"),
    ("SLURM_THREADS_PER_CORE", "threads-per-core"),
    ("SLURM_TIMELIMIT", "time"),
    ("SLURM_UNBUFFEREDIO", "unbuffered"),
    ("SLURM_WAIT", "wait"),
    ("SLURM_WCKEY", "wckey"),
];

/// The variables of a program with the options that they stand for; where two stand for
/// the same, the later one goes over the earlier.
fn of(program: Program) -> Vec<(String, &'static str)> {
    let own: &[(&str, &str)] = match program {
        Program::Sbatch => &SBATCH,
        Program::Salloc => &SALLOC,
        Program::Srun => &SRUN,
    };
    let prefix = match program {
        Program::Sbatch => "SBATCH_",
        Program::Salloc => "SALLOC_",
        Program::Srun => "",
    };
    let common = if prefix.is_empty() {
        &[][..]
    } else {
        &COMMON[..]
    };
    let common = common.iter().map(|(v, o)| (format!("{prefix}{v}"), *o));
    let own = own.iter().map(|(v, o)| ((*v).to_owned(), *o));
    own.chain(common).collect()
}

/// The options that the environment sets; `get` gives the value of a variable.
pub fn options(program: Program, get: &dyn Fn(&str) -> Option<OsString>) -> Vec<GivenOption> {
    let mut found = Vec::new();
    // Steps of a job have the names of their programs, not the job's.
    let in_job = program == Program::Srun && get("SLURM_JOB_ID").is_some();
    for (variable, name) in of(program) {
        if in_job && variable == "SLURM_JOB_NAME" {
            continue;
        }
        let Some(value) = get(&variable) else {
            continue;
        };
        let Some(entry) = table::find(program, name) else {
            continue;
        };
        let given = value.clone();
        let value = match (name, value.to_str()) {
            ("distribution", Some("plane")) => with_size(value, get),
            _ => value,
        };
        let value = match entry.opt.argument {
            Argument::Value => Some(value).filter(|v| !v.is_empty()),
            // Any text means the flag; one word more was added later.
            Argument::Perhaps if name == "requeue" && unset(&value) => continue,
            Argument::Perhaps if name == "requeue" => Some(value).filter(|v| v == "expedite"),
            Argument::Perhaps => Some(value).filter(|v| !v.is_empty()),
            Argument::Nothing if unset(&value) => continue,
            Argument::Nothing => None,
        };
        if entry.opt.argument == Argument::Value && value.is_none() {
            continue;
        }
        let name = entry.opt.name;
        let times = match name {
            "verbose" => times(&given),
            _ => 1,
        };
        found.extend((0..times).map(|_| GivenOption {
            name,
            value: value.clone(),
        }));
    }
    found
}

/// `plane` with the size that another variable has.
fn with_size(plane: OsString, get: &dyn Fn(&str) -> Option<OsString>) -> OsString {
    let Some(size) = get("SLURM_DIST_PLANESIZE") else {
        return plane;
    };
    [&plane, OsStr::new("="), &size].into_iter().collect()
}

/// A flag whose variable says that it is not set.
fn unset(value: &OsString) -> bool {
    value == "0" || value == "no" || value == "n"
}

/// How often a flag counts that may be given several times.
fn times(value: &OsString) -> usize {
    const MOST: usize = 9;
    let number = value.to_str().and_then(|v| v.trim().parse().ok());
    number.unwrap_or(1).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_stand_for_options() {
        for program in [Program::Sbatch, Program::Srun, Program::Salloc] {
            for (variable, name) in of(program) {
                // Two of the common ones are no options of salloc.
                let known = table::find(program, name).is_some();
                assert!(known || name == "job-name", "{variable}");
            }
        }
    }

    #[test]
    fn values() {
        let check = |program, set: &[(&str, &str)], want: &[(&str, Option<&str>)]| {
            let get = |name: &str| {
                let found = set.iter().find(|(n, _)| *n == name);
                found.map(|(_, v)| OsString::from(v))
            };
            let got = options(program, &get);
            let got: Vec<_> = got.iter().map(|f| (f.name, f.value.clone())).collect();
            let want: Vec<_> = want
                .iter()
                .map(|(n, v)| (*n, v.map(OsString::from)))
                .collect();
            assert_eq!(got, want);
        };
        check(
            Program::Sbatch,
            &[
                ("SBATCH_PARTITION", "short"),
                ("SBATCH_WAIT", "1"),
                ("SALLOC_QOS", "x"),
            ],
            &[("wait", None), ("partition", Some("short"))],
        );
        check(Program::Sbatch, &[("SBATCH_WAIT", "0"), ("SBATCH_QOS", "")], &[]);
        check(Program::Sbatch, &[("SBATCH_EXCLUSIVE", "")], &[("exclusive", None)]);
        check(Program::Srun, &[("SLURM_NTASKS", "3")], &[("ntasks", Some("3"))]);
        check(Program::Srun, &[("SLURM_JOB_NAME", "one")], &[("job-name", Some("one"))]);
        let in_job = [("SLURM_JOB_NAME", "one"), ("SLURM_JOB_ID", "7")];
        check(Program::Srun, &in_job, &[("jobid", Some("7"))]);
        check(Program::Salloc, &[("SALLOC_BELL", "1")], &[("bell", None)]);
        check(
            Program::Sbatch,
            &[("SBATCH_DEBUG", "2"), ("SBATCH_OUTPUT", "o")],
            &[("output", Some("o")), ("verbose", None), ("verbose", None)],
        );
    }
}
