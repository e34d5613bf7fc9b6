//! Starts a step on the way to a running job's first node, and opens what its streams need.

use super::intake::Intake;
use super::options::RunOptions;
use super::session::{self, Outcome, SessionOptions, SessionResources, Step};
use super::sink::{self, Sinks};
use super::spec::StepRequest;
use super::talk::{self, Answered};
use super::tty::{self, say};
use super::{files, keeper, place, supervisors, verbose};
use crate::allocation::attend::Attendant;
use crate::{Context, output};
use anyhow::{Context as _, anyhow};
use cosy_model::api::{Reply, Request};
use cosy_model::step::{AllocationEndpoint, StepAsk, StepCommand, StepSpec, Wireup};
use cosy_model::{Dialect, JobId, OsText};
use cosy_proto::lines::{self, Style};
use std::os::unix::net::UnixStream;

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
pub fn entry(context: &Context, job: JobId) -> anyhow::Result<AllocationEndpoint> {
    match context.ask(Request::Entry { job })? {
        Reply::Entry(entry) => Ok(entry),
        _ => Err(cosy_client::CallError::Unexpected.into()),
    }
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
///
/// # Errors
/// A refusal, files that cannot be opened, a lost connection, an interrupt.
pub fn go(
    program: &str,
    options: &RunOptions,
    mut wanted: StepRequest,
    job: JobId,
    stream: UnixStream,
    attendant: Option<Attendant>,
) -> anyhow::Result<Outcome> {
    let raw = options.pty && tty::is_there();
    let manner = SessionOptions {
        program: program.to_owned(),
        kill_on_bad_exit: options
            .kill_on_bad_exit
            .unwrap_or(wanted.spec.wireup != Wireup::None),
        looks_on: false,
        raw,
        quiet: options.job.quiet,
        dialect: wanted.spec.dialect,
        verbose: options.verbose && !options.job.quiet,
        supervisors: supervisors::SupervisorOptions {
            level: options.supervisors,
            programs: options.stopped.then(|| programs(&wanted.spec)),
        },
        interrupts: options.interrupts,
        wait: options.wait,
    };
    let mut intake = Intake::new(&keeper::SIGNALS)?;
    let step = start(program, &wanted.spec, job, stream, &mut intake, manner.quiet)?;
    if manner.verbose {
        let lines = verbose::launching(step.key, &step.layout);
        lines.iter().for_each(|line| say(program, line));
    }
    let sinks = sinks(options, &wanted, &step)?;
    let resources = SessionResources {
        sinks,
        input: wanted.input.take(),
        intake,
        attendant,
    };
    session::run(step, manner, resources).context("cannot follow the step")
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

fn sinks(options: &RunOptions, wanted: &StepRequest, step: &Step) -> anyhow::Result<Sinks> {
    let tasks = step.layout.tasks;
    let style = match (options.label, options.unbuffered || options.pty || tasks <= 1) {
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
}
