//! `srun` outside of jobs: submits a job, runs the step in it, and gives the job back at the end.

use super::in_job::{launch_variables, program_name};
use super::request::{Failure, SRUN, SrunOptions, refused, tell_job};
use super::{bcast, components, step};
use crate::allocation::finish::finish;
use crate::allocation::job_connection::Allocated;
use crate::launch::options::RunOptions;
use crate::launch::session::Outcome;
use crate::launch::spec::StepRequest;
use crate::launch::start::{run_step, with_variables};
use crate::launch::step_socket;
use crate::slurm::messages::say;
use crate::slurm::submit::{self, hosts, submitter, test_only};
use crate::slurm::waiting::{self, WaitOptions};
use crate::{Context, exit};
use cosy_model::api::Submission;
use cosy_model::{ContainerOptions, JobSpec, OsText, Program};
use cosy_slurm::environment::AllocationFacts;
use cosy_slurm::submit::Fault;
use cosy_slurm::submit::options::SubmitOptions;

/// Submits a job, runs the step in it and gives the job back; gives the exit code.
pub fn run(context: &Context, srun_options: &SrunOptions) -> Result<u8, Failure> {
    if srun_options.step_options.relative.is_some() {
        say("srun: fatal: --relative option invalid for job allocation request");
        return Err(Failure::Reported(exit::FAILED));
    }
    let mut job_options = srun_options.job_options.clone();
    honour_tasks_per_node(&mut job_options);
    let name = program_name(&srun_options.command);
    let hosts = hosts::of_tasks(srun_options.hosts.as_ref(), job_options.tasks)?;
    let spec = job(context, srun_options, &mut job_options, &hosts, &name)?;
    if job_options.test_only {
        let submission = Submission {
            spec,
            script: OsText::default(),
            array: None,
        };
        return Ok(test_only::run(context, SRUN, &submission));
    }
    let name = job_options.name.as_ref().unwrap_or(&name);
    let host = submitter::hostname();
    let requested = submitter::requested(SRUN, &job_options, name, &host);
    let environment = submitter::environment(&job_options, &requested)?;
    let mut options = step::options(srun_options, &None, false)?;
    options.places = hosts::runs(&hosts);
    // Errors in the request for the step are found before a job is submitted.
    step::request(srun_options, &options, environment.clone())?;
    let wait_options = WaitOptions {
        max_wait: srun_options.step_options.immediate,
        quiet: job_options.quiet,
    };
    let started = waiting::get(context, SRUN, spec, &wait_options);
    let (job_connection, allocated) = started.map_err(Failure::Reported)?;
    let job = job_connection.job();
    let connection_guard = job_connection.keep_alive();
    let facts = AllocationFacts::read(&allocated.variables.0);
    if let Some(facts) = &facts {
        tell_job(srun_options, facts);
    }
    let environment = variables(&environment, &allocated, &job_options);
    let copied = bcast::copy(context, srun_options, job);
    let done = copied
        .and_then(|copy| {
            options.copy = copy;
            let request = step_request(srun_options, &job_options, options, environment, facts);
            Ok(request?)
        })
        .and_then(|(options, request)| {
            let connected = step_socket::connect_outside(&allocated.entry);
            let program = SRUN.name();
            connected
                .and_then(|(stream, _)| {
                    run_step(program, &options, request, job, stream, Some(job_connection))
                })
                .map_err(|e| refused(job, &e).into())
        });
    let (exit_code, signal) = Outcome::of_job(&done);
    finish(context, job, exit_code, signal);
    drop(connection_guard);
    done.map(|outcome| outcome.code)
}

/// The step in the allocation: over the components of a heterogeneous job, else on all nodes of the
/// job, which are filled with tasks where that was asked for.
///
/// # Errors
/// A step that the allocation has no room for, or files that cannot be read.
fn step_request(
    srun_options: &SrunOptions,
    job_options: &SubmitOptions,
    options: RunOptions,
    environment: OsText,
    facts: Option<AllocationFacts>,
) -> Result<(RunOptions, StepRequest), Fault> {
    let chosen = components::selected(srun_options, facts.as_ref())?;
    if let Some(facts) = facts.as_ref().filter(|_| !chosen.is_empty()) {
        return components::ComponentStep::new(&chosen, facts)?.request(&chosen, environment);
    }
    let mut request = step::request(srun_options, &options, environment)?;
    request.spec.cores_per_task = job_options.cores_per_task;
    let filled = facts.and_then(|facts| tasks_that_fill(job_options, &facts.cores));
    if let Some((nodes, tasks)) = filled.filter(|_| options.places.is_empty()) {
        (request.spec.nodes, request.spec.tasks) = (Some(nodes), Some(tasks));
    }
    Ok((options, request))
}

/// Whole nodes that were asked for by the cores of a task are filled with tasks: how many
/// nodes, and how many tasks, given the cores of each node.
fn tasks_that_fill(job_options: &SubmitOptions, cores: &[u32]) -> Option<(u32, u32)> {
    let given = job_options.tasks.is_some() || job_options.tasks_per_node.is_some();
    let each = job_options.cores_per_task.filter(|c| !given && *c > 0)?;
    let tasks = cores.iter().map(|cores| cores / each);
    let tasks = tasks.fold(0, u32::saturating_add);
    let nodes = u32::try_from(cores.len()).unwrap_or(u32::MAX);
    (job_options.exclusive == Some(true) && tasks > 0).then_some((nodes, tasks))
}

/// The job around the step, with all components and, where tasks are put on hosts one by one, on
/// these hosts.
fn job(
    context: &Context,
    srun_options: &SrunOptions,
    job_options: &mut SubmitOptions,
    hosts: &[String],
    name: &str,
) -> Result<JobSpec, Fault> {
    let mut own = job_options.clone();
    if !hosts.is_empty() {
        hosts::ask_for(hosts, &mut own);
        job_options.tasks = u32::try_from(hosts.len()).ok();
    }
    (own.output, own.error, own.input) = (None, None, None);
    own.container = ContainerOptions::default(); // the tasks run in it
    if own.cores_per_node.is_some() && own.tasks_per_node.is_none() {
        // More cores of a node are no more tasks.
        own.tasks = own.tasks.or(Some(own.nodes.map_or(1, |n| n.least)));
    }
    let (spec, _) = submit::job(context, SRUN, own, Program::Allocation, name)?;
    let mut spec = JobSpec {
        attended: true,
        environment: OsText::default(),
        ..spec
    };
    let further = srun_options.further.iter();
    let further: Vec<SubmitOptions> = further.map(|c| c.job_options.clone()).collect();
    submit::components::add(context, &further, &mut spec)?;
    Ok(spec)
}

/// Tasks on each node that do not make up the tasks asked for are left out of account.
fn honour_tasks_per_node(job_options: &mut SubmitOptions) {
    let (Some(each), Some(tasks), Some(nodes)) =
        (job_options.tasks_per_node, job_options.tasks, job_options.nodes)
    else {
        return;
    };
    if each.saturating_mul(nodes.least) != tasks {
        say(&format!(
            "srun: Warning: can't honor --ntasks-per-node set to {each} which doesn't match the \
             requested tasks {tasks} with the number of requested nodes {}. Ignoring \
             --ntasks-per-node.",
            nodes.least
        ));
        job_options.tasks_per_node = None;
    }
}

/// The variables of the step: those of this process, over them those of the job, and those that
/// `srun` sets.
fn variables(environment: &OsText, allocated: &Allocated, job_options: &SubmitOptions) -> OsText {
    let mut all = with_variables(environment, &allocated.variables);
    if let Some(facts) = AllocationFacts::read(&allocated.variables.0) {
        let mut shared: Vec<String> = facts.shared().texts().collect();
        if job_options.tasks.is_some() && job_options.distribution.is_none() {
            let tasks: u32 = facts.tasks.iter().fold(0, |sum, n| sum.saturating_add(*n));
            let alone = tasks as usize <= facts.tasks.len();
            let kind = if alone { "cyclic" } else { "block" };
            shared.push(format!("SLURM_DISTRIBUTION={kind}"));
        }
        all = with_variables(&all, &shared.join("\0").into());
    }
    with_variables(&all, &launch_variables(&submitter::hostname()))
}
