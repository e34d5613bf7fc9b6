//! What `sbatch`, `srun` and `salloc` share: command lines, environment and files become
//! options, options a job, and a refusal the original's sentences.

pub mod components;
mod describe;
pub mod files;
pub mod hosts;
mod partition;
pub mod refusal;
pub mod submitter;
pub mod test_only;

pub use describe::{describe, details};

use super::command_line::VERSION;
use super::messages::{called_name, say};
use super::{accounts, names};
use crate::{Context, exit, output, times};
use cosy_model::{ArraySpec, JobSpec, Program as Runs};
use cosy_slurm::getopt::{self, GivenOption, Order, Parsed};
use cosy_slurm::submit::options::{OptionSources, SubmitOptions};
use cosy_slurm::submit::spec::{self, SubmissionContext};
use cosy_slurm::submit::{Fault, Program, help, spread, table, variables};

/// The exit code for command lines that cannot be read.
pub const USAGE: u8 = 255;

/// Takes the command line apart; answers `--help`, `--usage` and `--version`.
///
/// # Errors
/// The exit code, when there is nothing left to do.
pub fn command_line(context: &Context, program: Program) -> Result<Parsed, u8> {
    let parsed = getopt::parse(&table::options(program), Order::Stop, context.args());
    for found in &parsed.found {
        match found.name {
            "help" => output::print(&help::help(program)),
            "usage" => output::print(&help::usage(program)),
            "version" => output::print(&format!("{VERSION}\n")),
            _ => continue,
        }
        return Err(exit::OK);
    }
    if let Some(mistake) = &parsed.mistake {
        return Err(report_usage_error(program, mistake));
    }
    Ok(parsed)
}

/// Reports an error on the command line; gives the exit code.
pub fn report_usage_error(program: Program, mistake: &getopt::UsageError) -> u8 {
    say(&mistake.text(&called_name()));
    say(&getopt::hint(program.name()));
    USAGE
}

/// The options that the environment sets.
pub fn environment(program: Program) -> Vec<GivenOption> {
    variables::options(program, &|name| std::env::var_os(name))
}

/// Puts options together, later ones over earlier ones; gives also those that are the
/// program's own (`--label`, `--bell`).
///
/// # Errors
/// A value that cannot be read, or an option that is not available.
pub fn job_options<'a>(
    program: Program,
    options: impl IntoIterator<Item = &'a GivenOption>,
) -> Result<(SubmitOptions, Vec<GivenOption>), Fault> {
    let scene = OptionSources {
        program,
        now: &times::now,
        root: is_root(),
    };
    let mut job_options = SubmitOptions::default();
    let mut own = Vec::new();
    for found in options {
        if !job_options.apply(found, &scene)? {
            own.push(found.clone());
        }
    }
    Ok((job_options, own))
}

/// Whether this is root, as far as options are only for root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Prints the lines about options that have no effect here, unless `--quiet`.
pub fn remarks(program: Program, job_options: &SubmitOptions) {
    let text = |line: &String| format!("{}: {line}", program.name());
    if !job_options.quiet {
        job_options
            .remarks
            .iter()
            .map(text)
            .for_each(|line| say(&line));
    }
}

/// The job that the options describe, and its array if it is one.
///
/// # Errors
/// Everything that Slurm refuses before or at submission.
pub fn job(
    context: &Context,
    program: Program,
    mut job_options: SubmitOptions,
    runs: Runs,
    default_name: &str,
) -> Result<(JobSpec, Option<ArraySpec>), Fault> {
    if let Some(list) = &job_options.clusters
        && !names::is_this_cluster(context, list)
    {
        return Err(Fault {
            lines: Vec::new(),
            code: exit::FAILED,
        });
    }
    let hosts = match program {
        // `srun` puts its tasks on hosts itself.
        Program::Srun => None,
        Program::Sbatch | Program::Salloc => hosts::arbitrary_hosts(&job_options, false)?,
    };
    if let Some(all) = hosts {
        let hosts = hosts::of_tasks(Some(&all), job_options.tasks)?;
        hosts::ask_for(&hosts, &mut job_options);
    }
    files::read_host_files(&mut job_options)?;
    spread::over_nodes(&|| refusal::nodes(context), &mut job_options);
    job_options.account = job_options
        .account
        .map(|a| accounts::account_name(context, &a));
    let reservation = match &job_options.reservation {
        Some(name) => Some(refusal::reservation(context, name)?),
        None => None,
    };
    let host = submitter::hostname();
    let name = job_options
        .name
        .clone()
        .unwrap_or_else(|| default_name.to_owned());
    let requested = submitter::requested(program, &job_options, &name, &host);
    let surroundings = SubmissionContext {
        now: cosy_model::Time(times::now().timestamp().as_millisecond()),
        program: runs,
        default_name: default_name.to_owned(),
        workdir: submitter::workdir(&job_options)?,
        environment: submitter::environment(&job_options, &requested)?,
        umask: crate::submitter::umask(),
        rlimits: crate::submitter::rlimits(),
        host: Some(host),
        session: crate::submitter::session_id(),
        line: crate::submitter::command_line(),
        reservation,
        root: is_root(),
    };
    let (mut spec, array) = spec::build(&job_options, surroundings)?;
    if let Some(list) = &job_options.partition {
        partition::choose(context, &mut spec, list)?;
    }
    Ok((spec, array))
}
