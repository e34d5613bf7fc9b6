//! `cosy run`: tasks of a program over the nodes of a job, as if they ran here.
//!
//! Inside a job the job's first node starts the step; outside, the controller is asked for an
//! allocation first, which is given back at the end. What the ends of tasks mean is decided here;
//! what must happen when this command is gone is decided on that node.

pub mod job;
pub mod list;
pub mod options;

use crate::allocation::finish::finish;
use crate::allocation::job_connection::{Allocated, JobConnection};
use crate::launch::interrupt::InterruptMode;
use crate::launch::node_request::{self, NodeReply};
use crate::launch::options::{RunOptions, StepRef};
use crate::launch::session::{self, Outcome, SessionOptions, SessionResources};
use crate::launch::signal_pipe::SignalPipe;
use crate::launch::sink::Sinks;
use crate::launch::spec::{self, StepRequest};
use crate::launch::start::{connect_to_job, run_step, with_variables};
use crate::launch::{step_socket, supervisors};
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
        let job = options.inside.or_else(step_socket::current_job);
        return list::list(context, job, matches.get_flag("json"));
    }
    match options.inside.or_else(step_socket::current_job) {
        Some(job) => in_job(context, &options, job),
        None => with_allocation(context, &options),
    }
}

fn in_job(context: &Context, options: &RunOptions, job: JobId) -> anyhow::Result<u8> {
    let gpus = [&options.job.gpus, &options.gpus_per_task];
    if gpus.into_iter().flatten().any(|g| !g.types.is_empty()) {
        return Err(exit::usage(
            "types of GPUs are chosen with the job: a step inside it takes a number of them",
        ));
    }
    let step_request = spec::step(options)?;
    let stream = connect_to_job(context, job)?;
    let outcome = run_step(context.program(), options, step_request, job, stream, None)?;
    Ok(outcome.code)
}

fn with_allocation(context: &Context, options: &RunOptions) -> anyhow::Result<u8> {
    let mut inner = options.clone();
    // The step gets all memory, time and nodes of its job.
    (inner.job.memory, inner.job.time, inner.max_wait) = (None, None, None);
    (inner.job.require, inner.job.avoid) = (Vec::new(), Vec::new());
    let mut step_request = spec::step(&inner)?;
    let around = job::around(options, step_request.spec.tasks)?;
    let name = step_request.spec.name.clone();
    let submission = job::allocation(&around, name, true, options.mpi.clone())?;
    let wait_options = alloc::wait::WaitOptions {
        max_wait: options.max_wait,
        quiet: options.job.quiet,
    };
    let (job_connection, allocated) =
        alloc::wait::get(context.program(), submission, &wait_options)?;
    let job = job_connection.job();
    step_request.spec.environment =
        with_variables(&step_request.spec.environment, &allocated.variables);
    let connection_guard = job_connection.keep_alive();
    let done = in_allocation(context, options, step_request, &allocated, job_connection);
    let (exit_code, signal) = Outcome::of_job(&done);
    finish(context, job, exit_code, signal);
    drop(connection_guard);
    done.map(|outcome| outcome.code)
}

fn in_allocation(
    context: &Context,
    options: &RunOptions,
    step_request: StepRequest,
    allocated: &Allocated,
    job_connection: JobConnection,
) -> anyhow::Result<Outcome> {
    let job = job_connection.job();
    let (stream, _) = step_socket::connect_outside(&allocated.entry)?;
    let program = context.program();
    run_step(program, options, step_request, job, stream, Some(job_connection))
}

fn attach(context: &Context, step: StepRef) -> anyhow::Result<u8> {
    let stream = connect_to_job(context, step.job)?;
    let request = StepAsk::Attach {
        job: step.job,
        step: step.step,
    };
    let NodeReply::Step(step) = node_request::send(stream, &request, None, &mut |_| ())? else {
        return Err(anyhow!("the node daemon's answer does not fit the request"));
    };
    let style = if step.layout.tasks <= 1 {
        Style::Raw
    } else {
        Style::Whole
    };
    let resources = SessionResources {
        sinks: Sinks::to_streams(style),
        input: None,
        clients: None,
        signals: SignalPipe::new(&[])?,
        job_connection: None,
    };
    let session_options = SessionOptions {
        program: context.program().to_owned(),
        kill_on_bad_exit: false,
        observer: true,
        raw: false,
        quiet: false,
        verbose: false,
        supervisors: supervisors::SupervisorOptions::default(),
        dialect: Dialect::Cosy,
        interrupts: InterruptMode::default(),
        wait: None,
    };
    Ok(session::run(*step, session_options, resources)?.code)
}
