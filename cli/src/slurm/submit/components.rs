//! Jobs of several components: command lines with `:`, and what becomes of the components behind
//! the first.

use super::{files, refusal};
use crate::Context;
use cosy_model::job::FurtherComponent;
use cosy_model::limits::FURTHER_COMPONENTS;
use cosy_model::{JobSpec, OsText};
use cosy_slurm::getopt::{self, GivenOption, Order};
use cosy_slurm::submit::components::COLON;
use cosy_slurm::submit::options::SubmitOptions;
use cosy_slurm::submit::{Fault, Program, gres, spec, spread, table};
use std::ffi::OsString;

/// The options of each component of a command line, and the words behind the last.
///
/// # Errors
/// The first usage error behind a colon.
pub fn of_line(
    program: Program,
    first: Vec<GivenOption>,
    words: Vec<OsString>,
) -> Result<(Vec<Vec<GivenOption>>, Vec<OsString>), getopt::UsageError> {
    let (mut components, mut words) = (vec![first], words);
    while words.first().is_some_and(|word| word == COLON) {
        let (found, rest) = next(program, &words[1..])?;
        components.push(found);
        words = rest;
    }
    Ok((components, words))
}

/// The options behind a colon, and the words behind them.
///
/// # Errors
/// The first usage error.
pub fn next(
    program: Program,
    words: &[OsString],
) -> Result<(Vec<GivenOption>, Vec<OsString>), getopt::UsageError> {
    let parsed = getopt::parse(&table::options(program), Order::Stop, words);
    match parsed.mistake {
        Some(mistake) => Err(mistake),
        None => Ok((parsed.found, parsed.words)),
    }
}

/// Gives a job its further components.
///
/// # Errors
/// Too many components, or values that cannot be read.
pub fn add(context: &Context, further: &[SubmitOptions], job: &mut JobSpec) -> Result<(), Fault> {
    if further.len() > FURTHER_COMPONENTS {
        let most = FURTHER_COMPONENTS + 1;
        return Err(Fault::error(format!("a job has at most {most} parts")));
    }
    if further.is_empty() {
        return Ok(());
    }
    // Each component is in one partition.
    job.queues.clear();
    let first_cores = leave_numbers(&mut job.environment);
    let cores = further.iter().map(|job_options| job_options.cores_per_task);
    tell_cores(std::iter::once(first_cores).chain(cores), &mut job.environment);
    let first = job.name.clone();
    for job_options in further {
        let (component, licenses) = component(context, job_options, &first)?;
        for (name, count) in licenses.iter() {
            let before = job.licenses.get(name);
            job.licenses.set(name, before.saturating_add(count));
        }
        job.further_components.push(component);
    }
    Ok(())
}

/// Numbers of the first component that a step in another component would take for its own.
const NUMBERS: [&str; 4] = [
    "SLURM_CPUS_PER_TASK=",
    "SLURM_NTASKS_PER_NODE=",
    "SLURM_GPUS_PER_NODE=",
    "SLURM_GPUS_PER_TASK=",
];

/// Removes these variables from those of the script, where the variables of a component have its
/// number in their names. Gives the cores of each task, if they were set.
fn leave_numbers(environment: &mut OsText) -> Option<u32> {
    let parts = || environment.0.split(|b| *b == 0);
    let cores = parts().find_map(|v| v.strip_prefix(NUMBERS[0].as_bytes()));
    let cores = cores.and_then(|n| std::str::from_utf8(n).ok()?.parse().ok());
    let others = |variable: &&[u8]| {
        let named = |name: &&str| variable.starts_with(name.as_bytes());
        !NUMBERS.iter().any(named)
    };
    let kept = environment.0.split(|b| *b == 0).filter(others);
    environment.0 = kept.collect::<Vec<_>>().join(&0);
    cores
}

/// Adds the cores of each task of each component, where they were asked for.
fn tell_cores(components: impl Iterator<Item = Option<u32>>, environment: &mut OsText) {
    for (at, cores) in components.enumerate() {
        let Some(cores) = cores else { continue };
        for kind in ["HET", "PACK"] {
            let variable = format!("SLURM_CPUS_PER_TASK_{kind}_GROUP_{at}={cores}");
            if !environment.0.is_empty() && environment.0.last() != Some(&0) {
                environment.0.push(0);
            }
            environment.0.extend_from_slice(variable.as_bytes());
        }
    }
}

fn component(
    context: &Context,
    job_options: &SubmitOptions,
    first: &str,
) -> Result<(FurtherComponent, cosy_model::CountedResources), Fault> {
    let mut job_options = job_options.clone();
    files::read_host_files(&mut job_options)?;
    spread::over_nodes(&|| refusal::nodes(context), &mut job_options);
    let licenses = match &job_options.licenses {
        Some(text) => gres::licenses(text)?,
        None => cosy_model::CountedResources::default(),
    };
    let name = job_options.name.as_deref().map(spec::job_name);
    let component = FurtherComponent {
        name: name.filter(|name| name != first),
        queue: spec::queue(&job_options),
        request: spec::request(&job_options)?,
    };
    Ok((component, licenses))
}
