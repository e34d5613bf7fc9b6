//! What `sbatch`, `srun` and `salloc` share: command lines, environment and files become
//! wishes, wishes a job, and a refusal the original's sentences.

mod describe;
pub mod files;
pub mod hosts;
mod partition;
pub mod parts;
pub mod refusal;
mod spread;
pub mod surroundings;
pub mod trial;

pub use describe::{describe, details};

use super::command_line::VERSION;
use super::messages::{called, say};
use super::{accounts, clusters};
use crate::{Context, exit, output, times};
use cosy_model::{ArraySpec, JobSpec, Program as Runs};
use cosy_slurm::getopt::{self, Found, Order, Parsed};
use cosy_slurm::submit::spec::{self, Surroundings};
use cosy_slurm::submit::wishes::{Scene, SubmitOptions};
use cosy_slurm::submit::{Fault, Program, help, table, variables};

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
        return Err(mistaken(program, mistake));
    }
    Ok(parsed)
}

/// Says what is wrong with a command line; gives the exit code.
pub fn mistaken(program: Program, mistake: &getopt::Mistake) -> u8 {
    say(&mistake.text(&called()));
    say(&getopt::hint(program.name()));
    USAGE
}

/// The options that the environment sets.
pub fn environment(program: Program) -> Vec<Found> {
    variables::options(program, &|name| std::env::var_os(name))
}

/// Puts options together, later ones over earlier ones; gives also those that are the
/// program's own (`--label`, `--bell`).
///
/// # Errors
/// A value that cannot be read, or an option that is not available.
pub fn wishes<'a>(
    program: Program,
    options: impl IntoIterator<Item = &'a Found>,
) -> Result<(SubmitOptions, Vec<Found>), Fault> {
    let scene = Scene {
        program,
        now: &times::now,
        root: is_root(),
    };
    let mut wishes = SubmitOptions::default();
    let mut own = Vec::new();
    for found in options {
        if !wishes.apply(found, &scene)? {
            own.push(found.clone());
        }
    }
    Ok((wishes, own))
}

/// Whether this is root, as far as options are only for root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Prints the lines about options that have no effect here, unless `--quiet`.
pub fn remarks(program: Program, wishes: &SubmitOptions) {
    let text = |line: &String| format!("{}: {line}", program.name());
    if !wishes.quiet {
        wishes.remarks.iter().map(text).for_each(|line| say(&line));
    }
}

/// The job that was wished for.
///
/// # Errors
/// What the original refuses before or at submission.
pub fn job(
    context: &Context,
    program: Program,
    mut wishes: SubmitOptions,
    runs: Runs,
    default_name: &str,
) -> Result<(JobSpec, Option<ArraySpec>), Fault> {
    if let Some(names) = &wishes.clusters
        && !clusters::names_this(context, names)
    {
        return Err(Fault {
            lines: Vec::new(),
            code: exit::FAILED,
        });
    }
    let hosts = match program {
        // It has put its tasks on them already.
        Program::Srun => None,
        Program::Sbatch | Program::Salloc => hosts::arranged(&wishes, false)?,
    };
    if let Some(all) = hosts {
        let hosts = hosts::of_tasks(Some(&all), wishes.tasks)?;
        hosts::ask_for(&hosts, &mut wishes);
    }
    files::read_host_files(&mut wishes)?;
    spread::over_nodes(context, &mut wishes);
    wishes.account = wishes.account.map(|a| accounts::charged(context, &a));
    let reservation = match &wishes.reservation {
        Some(name) => Some(refusal::reservation(context, name)?),
        None => None,
    };
    let host = surroundings::host();
    let name = wishes
        .name
        .clone()
        .unwrap_or_else(|| default_name.to_owned());
    let asked = surroundings::asked(program, &wishes, &name, &host);
    let surroundings = Surroundings {
        now: cosy_model::Time(times::now().timestamp().as_millisecond()),
        program: runs,
        default_name: default_name.to_owned(),
        workdir: surroundings::workdir(&wishes)?,
        environment: surroundings::environment(&wishes, &asked)?,
        umask: crate::surroundings::mask(),
        rlimits: crate::surroundings::limits(),
        host: Some(host),
        session: crate::surroundings::session(),
        line: crate::surroundings::line(),
        reservation,
        root: is_root(),
    };
    let (mut spec, array) = spec::build(&wishes, surroundings)?;
    if let Some(list) = &wishes.partition {
        partition::choose(context, &mut spec, list)?;
    }
    Ok((spec, array))
}
