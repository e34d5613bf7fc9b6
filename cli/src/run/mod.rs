//! `cosy run`: tasks of a program over the nodes of a job, as if they ran here.
//!
//! Inside a job the step is started by the job's first node; outside one the controller is
//! asked for an allocation first, which is given back at the end. What the ends of tasks
//! mean is decided here; what must happen when this command is gone is decided there.

pub mod ends;
pub mod files;
pub mod inbox;
pub mod input;
pub mod intake;
pub mod interrupt;
pub mod keeper;
pub mod list;
pub mod mpi;
pub mod multiprog;
pub mod options;
pub mod outbox;
pub mod place;
pub mod progress;
pub mod session;
pub mod sink;
pub mod slurmish;
pub mod spec;
pub mod supervisors;
pub mod talk;
pub mod tty;
pub mod verbose;

use crate::alloc::attend::{Allocated, Attendant};
use crate::{Context, alloc, exit, output};
use anyhow::{Context as _, anyhow};
use clap::ArgMatches;
use cosy_model::api::{EndedJob, Reply, Request};
use cosy_model::step::{Entry, StepAsk, StepCommand, StepSpec, Wireup};
use cosy_model::{Dialect, JobId, JobState, OsText, signal};
use cosy_proto::lines::{self, Style};
use intake::Intake;
use interrupt::Rule;
use options::{RunOptions, StepRef};
use session::{Manner, Means, Outcome, Step};
use sink::Sinks;
use spec::Wanted;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use talk::Answered;

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

/// A connection that leads to the first node of a running job.
///
/// # Errors
/// No such job, or no way there.
pub fn way_to(context: &Context, job: JobId) -> anyhow::Result<UnixStream> {
    let notice = |text: &str| output::complain(context.program(), text);
    if place::job() == Some(job)
        && let Some(stream) = place::inside(&notice)
    {
        return stream;
    }
    Ok(place::outside(&entry(context, job)?)?.0)
}

/// How a running job's first node is reached.
///
/// # Errors
/// No such job, or it does not run.
pub fn entry(context: &Context, job: JobId) -> anyhow::Result<Entry> {
    match context.ask(Request::Entry { job })? {
        Reply::Entry(entry) => Ok(entry),
        _ => Err(cosy_client::CallError::Unexpected.into()),
    }
}

fn with_allocation(context: &Context, options: &RunOptions) -> anyhow::Result<u8> {
    let mut inner = options.clone();
    // What the job has as a whole is the step's whole.
    (inner.job.memory, inner.job.time, inner.patience) = (None, None, None);
    (inner.job.require, inner.job.avoid) = (Vec::new(), Vec::new());
    let mut wanted = spec::step(&inner)?;
    let around = spec::around(options, wanted.spec.tasks)?;
    let name = wanted.spec.name.clone();
    let submission = spec::allocation(&around, name, true, options.mpi.clone())?;
    let manner = alloc::wait::Manner {
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
    alloc::finish(context, job, exit_code, signal);
    drop(there);
    done.map(|outcome| outcome.code)
}

fn in_allocation(
    context: &Context,
    options: &RunOptions,
    wanted: Wanted,
    allocated: &Allocated,
    attendant: Attendant,
) -> anyhow::Result<Outcome> {
    let job = attendant.job();
    let (stream, _) = place::outside(&allocated.entry)?;
    let program = context.program();
    go(program, options, wanted, job, stream, Some(attendant))
}

/// Variables of `block` with those of `more` over them; both separated by NUL.
pub fn with_variables(block: &OsText, more: &OsText) -> OsText {
    let name = |v: &[u8]| v.iter().position(|b| *b == b'=').map(|at| v[..at].to_vec());
    let split = |t: &OsText| -> Vec<Vec<u8>> {
        let parts = t.0.split(|b| *b == 0).filter(|v| !v.is_empty());
        parts.map(<[u8]>::to_vec).collect()
    };
    let more = split(more);
    let over: std::collections::BTreeSet<_> = more.iter().map(|v| name(v)).collect();
    let mut all: Vec<Vec<u8>> = split(block);
    all.retain(|v| !over.contains(&name(v)));
    all.extend(more);
    OsText(all.join(&0))
}

/// Starts a step on `stream` and stays with it until its end.
pub(crate) fn go(
    program: &str,
    options: &RunOptions,
    mut wanted: Wanted,
    job: JobId,
    stream: UnixStream,
    attendant: Option<Attendant>,
) -> anyhow::Result<Outcome> {
    let raw = options.pty && tty::is_there();
    let manner = Manner {
        program: program.to_owned(),
        kill_on_bad_exit: options
            .kill_on_bad_exit
            .unwrap_or(wanted.spec.wireup != Wireup::None),
        looks_on: false,
        raw,
        quiet: options.job.quiet,
        dialect: wanted.spec.dialect,
        verbose: options.verbose && !options.job.quiet,
        supervisors: supervisors::Wish {
            level: options.supervisors,
            programs: options.stopped.then(|| programs(&wanted.spec)),
        },
        interrupts: options.interrupts,
        wait: options.wait,
    };
    let mut intake = Intake::new(&keeper::SIGNALS)?;
    let step = start(
        program,
        &wanted.spec,
        job,
        stream,
        &mut intake,
        manner.quiet,
    )?;
    if manner.verbose {
        let lines = verbose::launching(step.key, &step.layout);
        lines.iter().for_each(|line| say(program, line));
    }
    let sinks = sinks(options, &wanted, &step)?;
    let means = Means {
        sinks,
        input: wanted.input.take(),
        intake,
        attendant,
    };
    session::run(step, manner, means).context("cannot follow the step")
}

/// The programs of the tasks, by their ranks; one alone is that of all.
fn programs(spec: &StepSpec) -> Vec<String> {
    let mut all = Vec::new();
    for program in &spec.programs {
        let StepCommand::Run { argv, .. } = &program.command else {
            continue;
        };
        let name = argv.first().map(OsText::lossy).unwrap_or_default();
        if program.ranks.is_empty() {
            return vec![name];
        }
        for (first, last) in &program.ranks {
            let end = (*last as usize + 1).min(cosy_model::limits::STEP_TASKS as usize);
            if all.len() < end {
                all.resize(end, String::new());
            }
            all[end.min(*first as usize)..end].fill(name.clone());
        }
    }
    all
}

/// Has a step started.
///
/// # Errors
/// A refusal, a lost connection, an interrupt.
pub fn start(
    program: &str,
    spec: &StepSpec,
    job: JobId,
    stream: UnixStream,
    intake: &mut Intake,
    quiet: bool,
) -> anyhow::Result<Step> {
    let dialect = spec.dialect;
    let silent = quiet || dialect == Dialect::Slurm && spec.patience.is_some();
    let spec = Box::new(spec.clone());
    let ask = StepAsk::Start { job, spec };
    let mut waited = false;
    let mut on_wait = |reason: &str| {
        waited = true;
        if !silent {
            output::complain(program, &step_waits(dialect, job, reason));
        }
    };
    match talk::ask(stream, &ask, Some(intake), &mut on_wait)? {
        Answered::Step(step) => {
            if waited && !silent && dialect == Dialect::Slurm {
                output::complain(program, &format!("Step created for job {job}"));
            }
            Ok(*step)
        }
        Answered::Other(_) => Err(anyhow!("the node daemon's answer does not fit the request")),
    }
}

fn step_waits(dialect: Dialect, job: JobId, reason: &str) -> String {
    match dialect {
        Dialect::Cosy => format!("the step waits: {reason}"),
        Dialect::Slurm => format!(
            "Job {job} step creation temporarily disabled, retrying (Requested nodes are busy)"
        ),
    }
}

fn sinks(options: &RunOptions, wanted: &Wanted, step: &Step) -> anyhow::Result<Sinks> {
    let tasks = step.layout.tasks;
    let style = match (
        options.label,
        options.unbuffered || options.pty || tasks <= 1,
    ) {
        (true, _) => Style::Label(lines::width(tasks)),
        (false, true) => Style::Raw,
        (false, false) => Style::Whole,
    };
    let user = std::env::var("USER").unwrap_or_else(|_| own_name());
    let facts = files::Facts {
        key: step.key,
        name: &wanted.spec.name,
        user: &user,
    };
    let place = sink::Place {
        workdir: &wanted.spec.workdir,
        mode: wanted.spec.open_mode,
    };
    let ways = [&wanted.output, &wanted.error];
    Ok(Sinks::open(ways, style, &place, &facts)?)
}

/// The login name of who runs this, else the number.
fn own_name() -> String {
    crate::users::me().unwrap_or_else(|| nix::unistd::getuid().to_string())
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
    let means = Means {
        sinks: Sinks::own(style),
        input: None,
        intake: Intake::new(&[])?,
        attendant: None,
    };
    let manner = Manner {
        program: context.program().to_owned(),
        kill_on_bad_exit: false,
        looks_on: true,
        raw: false,
        quiet: false,
        verbose: false,
        supervisors: supervisors::Wish::default(),
        dialect: Dialect::Cosy,
        interrupts: Rule::default(),
        wait: None,
    };
    Ok(session::run(*step, manner, means)?.code)
}

/// One line on standard error, also while the terminal is raw.
pub fn say(program: &str, text: &str) {
    let raw = tty::is_raw();
    let turn = || {
        if raw {
            let _ = io::stderr().write_all(b"\r");
        }
    };
    turn();
    output::complain(program, text);
    turn();
}

/// How a job ended, in words.
pub fn job_words(job: &EndedJob) -> String {
    let how = match job.state {
        JobState::Completed => "has ended".to_owned(),
        JobState::TimedOut => "was ended at its time limit".to_owned(),
        JobState::Cancelled => "was cancelled".to_owned(),
        JobState::OutOfMemory => "was ended because it ran out of memory".to_owned(),
        JobState::NodeFailed if job.note.is_empty() => {
            "was ended because one of its nodes was lost".to_owned()
        }
        JobState::NodeFailed => format!("was ended: {}", job.note),
        JobState::Preempted => "was ended for something more important".to_owned(),
        JobState::LaunchFailed => "could not be started".to_owned(),
        JobState::Deadline => "was ended at its deadline".to_owned(),
        JobState::Failed => match (job.signal, job.exit_code) {
            (0, code) => format!("has ended with exit code {code}"),
            (signal, _) => format!("was ended by signal {}", signal::name(signal.into())),
        },
        JobState::Waiting
        | JobState::Starting
        | JobState::Running
        | JobState::Suspended
        | JobState::Completing => format!("is {}", job.state),
    };
    format!("job {} {how}", job.job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_lie_over_others() {
        let check = |block: &str, more: &str, want: &str| {
            let got = with_variables(&block.into(), &more.into());
            assert_eq!(got.lossy(), want);
        };
        check("A=1\0B=2", "B=3\0C=4", "A=1\0B=3\0C=4");
        check("", "", "");
        check("A=1", "", "A=1");
        check("odd\0A=x=y", "A=2", "odd\0A=2");
    }

    #[test]
    fn ends_of_jobs() {
        let check = |state, exit_code, signal, note: &str, want: &str| {
            let job = EndedJob {
                job: cosy_model::api::JobRef {
                    job: JobId(12),
                    task: None,
                },
                state,
                exit_code,
                signal,
                note: note.to_owned(),
            };
            assert_eq!(job_words(&job), want);
        };
        check(
            JobState::TimedOut,
            0,
            15,
            "",
            "job 12 was ended at its time limit",
        );
        let failed = |code, signal, want| check(JobState::Failed, code, signal, "", want);
        failed(3, 0, "job 12 has ended with exit code 3");
        failed(0, 9, "job 12 was ended by signal KILL");
        let lost = |note, want| check(JobState::NodeFailed, 0, 0, note, want);
        lost(
            "nodes n[1-2] were lost",
            "job 12 was ended: nodes n[1-2] were lost",
        );
        lost("", "job 12 was ended because one of its nodes was lost");
    }
}
