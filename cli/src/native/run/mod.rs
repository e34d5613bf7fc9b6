//! `cosy run`: tasks of a program over the nodes of a job, as if they ran here.
//!
//! Inside a job the step is started by the job's first node; outside one the controller is
//! asked for an allocation first, which is given back at the end. What the ends of tasks
//! mean is decided here; what must happen when this command is gone is decided there.

pub mod job;
pub mod list;
pub mod options;

use crate::allocation::attend::{Allocated, Attendant};
use crate::allocation::finish::finish;
use crate::launch::intake::Intake;
use crate::launch::interrupt::Rule;
use crate::launch::options::{RunOptions, StepRef};
use crate::launch::session::{self, Outcome, SessionOptions, SessionResources};
use crate::launch::sink::Sinks;
use crate::launch::spec::{self, StepRequest};
use crate::launch::start::{go, way_to, with_variables};
use crate::launch::talk::{self, Answered};
use crate::launch::{place, supervisors};
use crate::native::alloc;
use crate::{Context, exit};
use anyhow::anyhow;
use clap::ArgMatches;
use cosy_model::step::StepAsk;
use cosy_model::{Dialect, JobId};
use cosy_proto::lines::Style;

/// Runs `cosy run`.
///
/// # Errors
/// Bad input, a refusal, nobody there.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let options = RunOptions::from_matches(matches).map_err(exit::usage)?;
    if let Some(step) = options.attach {
        return attach(context, step);
    }
    if let Some(step) = options.cancel {
        return list::cancel(context, step);
    }
    if options.list {
        let job = options.inside.or_else(place::job);
        return list::list(context, job, matches.get_flag("json"));
    }
    match options.inside.or_else(place::job) {
        Some(job) => in_job(context, &options, job),
        None => with_allocation(context, &options),
    }
}

fn in_job(context: &Context, options: &RunOptions, job: JobId) -> anyhow::Result<u8> {
    let asked = [&options.job.gpus, &options.gpus_per_task];
    if asked.into_iter().flatten().any(|g| !g.types.is_empty()) {
        return Err(exit::usage(
            "types of GPUs are chosen with the job: a step inside it takes a number of them",
        ));
    }
    let wanted = spec::step(options)?;
    let stream = way_to(context, job)?;
    let outcome = go(context.program(), options, wanted, job, stream, None)?;
    Ok(outcome.code)
}

fn with_allocation(context: &Context, options: &RunOptions) -> anyhow::Result<u8> {
    let mut inner = options.clone();
    // What the job has as a whole is the step's whole.
    (inner.job.memory, inner.job.time, inner.patience) = (None, None, None);
    (inner.job.require, inner.job.avoid) = (Vec::new(), Vec::new());
    let mut wanted = spec::step(&inner)?;
    let around = job::around(options, wanted.spec.tasks)?;
    let name = wanted.spec.name.clone();
    let submission = job::allocation(&around, name, true, options.mpi.clone())?;
    let manner = alloc::wait::WaitOptions {
        patience: options.patience,
        quiet: options.job.quiet,
    };
    let (attendant, allocated) = alloc::wait::get(context.program(), submission, &manner)?;
    let job = attendant.job();
    wanted.spec.environment = with_variables(&wanted.spec.environment, &allocated.variables);
    let there = attendant.presence();
    let done = in_allocation(context, options, wanted, &allocated, attendant);
    let (exit_code, signal) = match &done {
        Ok(outcome) => outcome.worst,
        Err(_) => (exit::FAILED.into(), 0),
    };
    finish(context, job, exit_code, signal);
    drop(there);
    done.map(|outcome| outcome.code)
}

fn in_allocation(
    context: &Context,
    options: &RunOptions,
    wanted: StepRequest,
    allocated: &Allocated,
    attendant: Attendant,
) -> anyhow::Result<Outcome> {
    let job = attendant.job();
    let (stream, _) = place::outside(&allocated.entry)?;
    let program = context.program();
    go(program, options, wanted, job, stream, Some(attendant))
}

fn attach(context: &Context, step: StepRef) -> anyhow::Result<u8> {
    let stream = way_to(context, step.job)?;
    let ask = StepAsk::Attach {
        job: step.job,
        step: step.step,
    };
    let Answered::Step(step) = talk::ask(stream, &ask, None, &mut |_| ())? else {
        return Err(anyhow!("the node daemon's answer does not fit the request"));
    };
    let style = if step.layout.tasks <= 1 {
        Style::Raw
    } else {
        Style::Whole
    };
    let resources = SessionResources {
        sinks: Sinks::own(style),
        input: None,
        intake: Intake::new(&[])?,
        attendant: None,
    };
    let manner = SessionOptions {
        program: context.program().to_owned(),
        kill_on_bad_exit: false,
        looks_on: true,
        raw: false,
        quiet: false,
        verbose: false,
        supervisors: supervisors::SupervisorOptions::default(),
        dialect: Dialect::Cosy,
        interrupts: Rule::default(),
        wait: None,
    };
    Ok(session::run(*step, manner, resources)?.code)
}
