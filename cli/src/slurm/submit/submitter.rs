//! The submitting process, as far as jobs of Slurm's dialect inherit from it.

use super::files;
use cosy_model::OsText;
use cosy_model::limits::ENVIRONMENT_BYTES;
use cosy_slurm::environment::{Memory, Requested};
use cosy_slurm::submit::export::Export;
use cosy_slurm::submit::options::{self, SubmitOptions};
use cosy_slurm::submit::{Fault, Program};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Name of this host; empty when it is unknown.
pub fn hostname() -> String {
    crate::submitter::hostname().unwrap_or_default()
}

/// The working directory of the job: the present one, or `--chdir` as seen from it.
///
/// # Errors
/// When the present one is gone.
pub fn workdir(job_options: &SubmitOptions) -> Result<OsText, Fault> {
    crate::submitter::workdir(job_options.chdir.as_deref()).map_err(Fault::error)
}

/// How the job was requested, as its `SLURM_*` variables tell it.
pub fn requested(
    program: Program,
    job_options: &SubmitOptions,
    name: &str,
    host: &str,
) -> Requested {
    let nodes = job_options.nodes.map(|n| n.least);
    let dealt = || {
        Some(
            nodes
                .unwrap_or(1)
                .saturating_mul(job_options.tasks_per_node?),
        )
    };
    let here = std::env::current_dir().unwrap_or_default();
    let named = job_options.export.as_ref().filter(|e| e.text != "ALL");
    Requested {
        name: name.to_owned(),
        tasks: job_options.tasks.or_else(dealt),
        tasks_per_node: job_options.tasks_per_node,
        cores_per_task: job_options.cores_per_task,
        overcommit: job_options.overcommit,
        memory: memory(program, job_options),
        gpus: job_options.gpus.clone(),
        gpus_per_node: job_options.gpus_per_node.clone(),
        gpus_per_task: job_options.gpus_per_task.clone(),
        gpu_bind: job_options.gpu_bind.clone(),
        submit_dir: here.to_string_lossy().into_owned(),
        submit_host: host.to_owned(),
        export: exported(program, job_options),
        user_env: job_options.login || named.is_some(),
        process_nice: match program {
            Program::Sbatch | Program::Srun => rustix::process::getpriority_process(None).ok(),
            Program::Salloc => None,
        },
        distribution: job_options.distribution.as_ref().map(|d| d.text.clone()),
        plane_size: job_options
            .distribution
            .as_ref()
            .and_then(|d| d.plane_size()),
        umask: match program {
            Program::Srun => Some(crate::submitter::umask()),
            Program::Sbatch | Program::Salloc => None,
        },
    }
}

/// The value of `--export` that steps of the job inherit; none for `srun`, whose job has one step.
fn exported(program: Program, job_options: &SubmitOptions) -> Option<String> {
    let export = job_options.export.as_ref()?;
    (program != Program::Srun).then(|| export.text.clone())
}

fn memory(program: Program, job_options: &SubmitOptions) -> Option<Memory> {
    match (program, job_options.memory) {
        (Program::Salloc, options::Memory::PerNode(size)) => Some(Memory::PerNode(size.0)),
        (Program::Salloc, options::Memory::PerCore(size)) => Some(Memory::PerCore(size.0)),
        _ => None,
    }
}

/// The variables that the job gets, separated by NUL: those of this process that `--export` keeps, or
/// those of `--export-file`, then those that describe the request, then those that `--export` sets.
///
/// # Errors
/// More than the limit, or a file that cannot be read.
pub fn environment(job_options: &SubmitOptions, requested: &Requested) -> Result<OsText, Fault> {
    let everything = Export::default();
    let export = job_options.export.as_ref().unwrap_or(&everything);
    let variables = requested.variables();
    let variables: Vec<String> = variables.texts().collect();
    let mut block = match &job_options.export_file {
        Some(file) => files::variables(file)?,
        None => exported_variables(export, &variables),
    };
    let set = export
        .set
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    for text in variables.iter().cloned().chain(set) {
        add(&mut block, text.as_bytes());
    }
    if block.len() > ENVIRONMENT_BYTES {
        return Err(Fault::error(format!(
            "the environment has {} bytes; at most {ENVIRONMENT_BYTES} are allowed: choose variables with --export",
            block.len()
        )));
    }
    Ok(OsText(block))
}

/// Whether a variable describes the job that this command runs in.
fn of_this_job(name: &str) -> bool {
    name.starts_with(cosy_model::variables::PREFIX) && name != cosy_model::variables::SOCKET
}

/// The variables of this process that `--export` keeps, without those that are set anew.
fn exported_variables(export: &Export, variables: &[String]) -> Vec<u8> {
    let mut block = Vec::with_capacity(4096);
    let anew = |name: &str| {
        let of = |t: &String| t.split_once('=').is_some_and(|(n, _)| n == name);
        name.starts_with("SLURM_") && variables.iter().any(of)
    };
    for (name, value) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if export.takes(&text) && !anew(&text) && !of_this_job(&text) {
            let mut whole = name.into_vec();
            whole.push(b'=');
            whole.extend_from_slice(value.as_bytes());
            add(&mut block, &whole);
        }
    }
    block
}

fn add(block: &mut Vec<u8>, text: &[u8]) {
    if !block.is_empty() {
        block.push(0);
    }
    block.extend_from_slice(text);
}
