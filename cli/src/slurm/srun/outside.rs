//! A step in a job of its own, which is asked for first and given back at the end.

use super::inside::{launched, program_name};
use super::request::{SRUN, SrunOptions, Stop, refused, tell_job};
use super::{components, step};
use crate::allocation::attend::Allocated;
use crate::allocation::finish::finish;
use crate::launch::place;
use crate::launch::start::{go, with_variables};
use crate::slurm::messages::say;
use crate::slurm::submit::{self, hosts, surroundings, trial};
use crate::slurm::waiting::{self, WaitOptions};
use crate::{Context, exit};
use cosy_model::api::Submission;
use cosy_model::{JobSpec, OsText, Program};
use cosy_slurm::environment::AllocationFacts;
use cosy_slurm::submit::Fault;
use cosy_slurm::submit::options::SubmitOptions;

/// Runs it; gives the exit code.
pub fn run(context: &Context, asked: &SrunOptions) -> Result<u8, Stop> {
    if asked.step_options.relative.is_some() {
        say("srun: fatal: --relative option invalid for job allocation request");
        return Err(Stop::Code(exit::FAILED));
    }
    let mut job_options = asked.job_options.clone();
    honour_tasks_per_node(&mut job_options);
    let name = program_name(&asked.command);
    let hosts = hosts::of_tasks(asked.hosts.as_ref(), job_options.tasks)?;
    let mut around = job_options.clone();
    if !hosts.is_empty() {
        hosts::ask_for(&hosts, &mut around);
        job_options.tasks = u32::try_from(hosts.len()).ok();
    }
    let mut spec = job(context, around, &name)?;
    let further: Vec<SubmitOptions> = asked
        .further
        .iter()
        .map(|component| component.job_options.clone())
        .collect();
    submit::components::add(context, &further, &mut spec)?;
    if job_options.test_only {
        let submission = Submission {
            spec,
            script: OsText::default(),
            array: None,
        };
        return Ok(trial::run(context, SRUN, &submission));
    }
    // What can be wrong with the step is found before a job is asked for.
    let told = surroundings::asked(
        SRUN,
        &job_options,
        job_options.name.as_ref().unwrap_or(&name),
        &surroundings::host(),
    );
    let environment = surroundings::environment(&job_options, &told)?;
    let mut options = step::options(asked, &None, false)?;
    options.places = hosts::runs(&hosts);
    step::wanted(asked, &options, environment.clone())?;
    let manner = WaitOptions {
        patience: asked.step_options.immediate,
        quiet: job_options.quiet,
    };
    let got = waiting::get(context, SRUN, spec, &manner);
    let (attendant, allocated) = got.map_err(Stop::Code)?;
    let job = attendant.job();
    let there = attendant.presence();
    let facts = AllocationFacts::read(&allocated.variables.0);
    if let Some(facts) = &facts {
        tell_job(asked, facts);
    }
    let environment = variables(&environment, &allocated, &job_options);
    let components = components::chosen(asked, facts.as_ref());
    let over = components.and_then(|chosen| match &facts {
        Some(facts) if !chosen.is_empty() => {
            let step = components::Step::new(&chosen, facts)?;
            step.wanted(&chosen, environment.clone()).map(Some)
        }
        Some(_) | None => Ok(None),
    });
    let over = match over {
        Ok(over) => over,
        Err(fault) => {
            finish(context, job, exit::FAILED.into(), 0);
            return Err(fault.into());
        }
    };
    let several = over.is_some();
    let (options, mut wanted) = match over {
        Some(over) => over,
        None => {
            let wanted = step::wanted(asked, &options, environment)?;
            (options, wanted)
        }
    };
    if !several {
        wanted.spec.cores_per_task = job_options.cores_per_task;
    }
    let facts = facts.filter(|_| !several);
    let filled = facts.and_then(|facts| filling(&job_options, &facts.cores));
    if let Some((nodes, tasks)) = filled.filter(|_| hosts.is_empty()) {
        (wanted.spec.nodes, wanted.spec.tasks) = (Some(nodes), Some(tasks));
    }
    let done = place::outside(&allocated.entry)
        .and_then(|(stream, _)| go(SRUN.name(), &options, wanted, job, stream, Some(attendant)));
    let (exit_code, signal) = match &done {
        Ok(outcome) => outcome.worst,
        Err(_) => (exit::FAILED.into(), 0),
    };
    finish(context, job, exit_code, signal);
    drop(there);
    match done {
        Ok(outcome) => Ok(outcome.code),
        Err(e) => Err(refused(job, &e).into()),
    }
}

/// Whole nodes that were asked for by the cores of a task are filled with tasks: how many
/// nodes, and how many tasks, given the cores of each node.
fn filling(job_options: &SubmitOptions, cores: &[u32]) -> Option<(u32, u32)> {
    let given = job_options.tasks.is_some() || job_options.tasks_per_node.is_some();
    let each = job_options.cores_per_task.filter(|c| !given && *c > 0)?;
    let tasks = cores.iter().map(|cores| cores / each);
    let tasks = tasks.fold(0, u32::saturating_add);
    let nodes = u32::try_from(cores.len()).unwrap_or(u32::MAX);
    (job_options.exclusive == Some(true) && tasks > 0).then_some((nodes, tasks))
}

/// The job around the step.
fn job(context: &Context, mut around: SubmitOptions, name: &str) -> Result<JobSpec, Fault> {
    (around.output, around.error, around.input) = (None, None, None);
    if around.cores_per_node.is_some() && around.tasks_per_node.is_none() {
        // More cores of a node are no more tasks.
        around.tasks = around.tasks.or(Some(around.nodes.map_or(1, |n| n.least)));
    }
    let (spec, _) = submit::job(context, SRUN, around, Program::Allocation, name)?;
    Ok(JobSpec {
        attended: true,
        environment: OsText::default(),
        ..spec
    })
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

/// The step's variables: as they go along, the job's over them, and what `srun` adds.
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
    with_variables(&all, &launched(&surroundings::host()))
}
