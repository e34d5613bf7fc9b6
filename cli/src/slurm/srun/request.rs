//! The options of `srun`, from environment and command line, and its messages when the step cannot be
//! started.

use super::step_options::{StepOptions, check_bcast};
use crate::launch::node_request::StepRefused;
use crate::launch::supervisors::HIGHEST_LEVEL;
use crate::slurm::messages::{fail, say};
use crate::slurm::{submit, words};
use crate::{exit, output};
use cosy_model::RefusalCode;
use cosy_slurm::environment::AllocationFacts;
use cosy_slurm::getopt::GivenOption;
use cosy_slurm::submit::components::is_own;
use cosy_slurm::submit::distribution;
use cosy_slurm::submit::options::{SubmitOptions, check_together};
use cosy_slurm::submit::{Fault, Program};
use std::ffi::OsString;

pub(super) const SRUN: Program = Program::Srun;

/// The options of one component of a command line of `srun`.
#[derive(Clone)]
pub(super) struct SrunOptions {
    /// Options about the job, from environment and command line.
    pub(super) job_options: SubmitOptions,
    /// The same from the command line alone.
    pub(super) line: SubmitOptions,
    /// Options about the step.
    pub(super) step_options: StepOptions,
    /// The host of each task, by rank, where hosts are given one by one.
    pub(super) hosts: Option<Vec<String>>,
    /// Program and arguments.
    pub(super) command: Vec<OsString>,
    /// The components behind `:` of a heterogeneous job.
    pub(super) further: Vec<SrunOptions>,
}

/// A command line that was read.
pub(super) enum ReadResult {
    /// A step is to be run.
    Request(Box<SrunOptions>),
    /// It asked only for a text, which was printed; this is the exit code.
    Answered(u8),
}

/// Reads the options of one component; `alone`: counts in the environment are about it.
///
/// # Errors
/// A value that cannot be read.
pub(super) fn read(
    line: &[GivenOption],
    command: Vec<OsString>,
    alone: bool,
) -> Result<ReadResult, Fault> {
    let mut environment = submit::environment(SRUN);
    environment.retain(|found| alone || !is_own(found));
    let all: Vec<GivenOption> = [&environment[..], line].concat();
    check_together(&environment, line)?;
    let (mut job_options, other_options) = submit::job_options(SRUN, &all)?;
    let (mut line_options, _) = submit::job_options(SRUN, line)?;
    let step_options = StepOptions::read(&other_options)?;
    if let Some(code) = answer_query(&step_options) {
        return Ok(ReadResult::Answered(code));
    }
    if command.is_empty() {
        say("srun: fatal: No command given to execute.");
        return Ok(ReadResult::Answered(exit::FAILED));
    }
    check_mpi(step_options.mpi.as_deref())?;
    check_bcast(&step_options, &job_options)?;
    if step_options.supervisors > HIGHEST_LEVEL && !job_options.quiet {
        say(&format!("srun: Using srun's max debug increment of {HIGHEST_LEVEL}"));
    }
    if job_options.verbose > 0 {
        submit::describe(SRUN, &all);
    }
    submit::remarks(SRUN, &line_options);
    let hosts = submit::hosts::arbitrary_hosts(&job_options, true)?;
    for job_options in [&mut job_options, &mut line_options] {
        match &hosts {
            Some(_) => {
                (job_options.nodelist, job_options.nodefile) = (None, None);
                job_options.distribution = Some(distribution::read("arbitrary")?);
            }
            None => submit::files::read_host_files(job_options)?,
        }
    }
    Ok(ReadResult::Request(Box::new(SrunOptions {
        job_options,
        line: line_options,
        step_options,
        hosts,
        command,
        further: Vec::new(),
    })))
}

/// Answers `--mpi=list` and `--cpu-bind=help`.
fn answer_query(step_options: &StepOptions) -> Option<u8> {
    if step_options.mpi.as_deref() == Some("list") {
        output::print("MPI plugin types are...\n\tpmix\n\tnone\n\tpmi2\n");
        return Some(exit::OK);
    }
    if step_options.cpu_bind.as_ref().is_some_and(|b| b.help) {
        output::print("CPU bind options not supported with current configuration\n");
        return Some(exit::FAILED);
    }
    None
}

/// The wire-up that a name of `--mpi` stands for: `Some(None)` is found out from the program, `None` is
/// no such name.
pub(super) fn wireup(name: &str) -> Option<Option<&'static str>> {
    let plain = name.split('_').next().unwrap_or(name);
    match plain {
        "none" => Some(Some("none")),
        "pmi2" | "pmi1" | "pmi" => Some(Some("pmi")),
        "pmix" => Some(Some("pmix")),
        "openmpi" => Some(None),
        _ => None,
    }
}

fn check_mpi(name: Option<&str>) -> Result<(), Fault> {
    let Some(name) = name.filter(|n| wireup(n).is_none()) else {
        return Ok(());
    };
    let name: String = name.chars().take(100).collect();
    let lines = [
        format!("Couldn't find the specified plugin name for mpi/{name} looking at all files"),
        format!("cannot find mpi plugin for mpi/{name}"),
        format!("MPI: Cannot create context for mpi/{name}"),
        "MPI: Unable to load any plugin".to_owned(),
        format!("Invalid MPI type '{name}', --mpi=list for acceptable types"),
    ];
    let lines = lines.into_iter().map(cosy_slurm::submit::Line::Error);
    Err(Fault {
        lines: lines.collect(),
        code: exit::FAILED,
    })
}

/// With `--verbose`, prints the nodes and cores of the job.
pub(super) fn tell_job(srun_options: &SrunOptions, facts: &AllocationFacts) {
    if srun_options.job_options.verbose > 0 && !srun_options.job_options.quiet {
        let nodes = facts.cores.len();
        let cores = cpu_counts(&facts.cores);
        let (job, list) = (&facts.job, &facts.nodes);
        say(&format!("srun: jobid {job}: nodes({nodes}):`{list}', cpu counts: {cores}"));
    }
}

/// Cores of nodes, each number with how often it follows itself: `4(x2),3(x1)`.
fn cpu_counts(cores: &[u32]) -> String {
    let parts = cores.chunk_by(|a, b| a == b);
    let words = parts.map(|same| format!("{}(x{})", same[0], same.len()));
    words.collect::<Vec<_>>().join(",")
}

/// Why there is no step.
pub(super) enum Failure {
    /// The original's lines and exit code.
    Fault(Fault),
    /// The reason was printed; this is the exit code.
    Reported(u8),
}

impl Failure {
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Fault(fault) => fail(SRUN, &fault),
            Self::Reported(code) => code,
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Slurm's sentence for a step that was not started.
pub(super) fn refused(job: cosy_model::JobId, error: &anyhow::Error) -> Fault {
    let Some(StepRefused(refusal)) = error.downcast_ref::<StepRefused>() else {
        return Fault::error(format!("{error:#}"));
    };
    let why = match refusal.code {
        RefusalCode::NeverFits => "More processors requested than permitted",
        RefusalCode::NotFree => "Requested nodes are busy",
        RefusalCode::WrongState => "Job/step already completing or completed",
        RefusalCode::NotFound => "Invalid job id specified",
        RefusalCode::Forbidden | RefusalCode::AccessDenied => "Access/permission denied",
        RefusalCode::Invalid
        | RefusalCode::QueueLimit
        | RefusalCode::QueueClosed
        | RefusalCode::Unavailable
        | RefusalCode::Standby
        | RefusalCode::DirectoryDown
        | RefusalCode::Version
        | RefusalCode::TooMany
        | RefusalCode::Admission
        | RefusalCode::Price => refusal.message.as_str(),
    };
    Fault::error(format!("Unable to create step for job {job}: {why}"))
}

/// Slurm's sentence for a failed request to the controller.
pub(super) fn unreachable(error: &anyhow::Error) -> Fault {
    match error.downcast_ref::<cosy_client::CallError>() {
        Some(error) => Fault::error(words::of_call(error)),
        None => Fault::error(format!("{error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_cores() {
        assert_eq!(cpu_counts(&[4, 4, 3]), "4(x2),3(x1)");
        assert_eq!(cpu_counts(&[]), "");
    }

    #[test]
    fn kinds_of_mpi() {
        let check = |name: &str, want: Option<Option<&str>>| assert_eq!(wireup(name), want);
        check("none", Some(Some("none")));
        check("pmi2", Some(Some("pmi")));
        check("pmix_v4", Some(Some("pmix")));
        check("openmpi", Some(None));
        check("foo", None);
        assert!(check_mpi(Some("foo")).is_err() && check_mpi(None).is_ok());
    }
}
