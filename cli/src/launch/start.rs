//! Connects to a running job's first node, starts a step there, and opens the targets of its output.

use super::display::{self, clients::Clients};
use super::node_request::{self, NodeReply};
use super::options::RunOptions;
use super::session::{self, Outcome, SessionOptions, SessionResources, Step};
use super::signal_pipe::SignalPipe;
use super::sink::{self, Sinks};
use super::spec::StepRequest;
use super::tty::{self, say};
use super::{control_thread, files, step_socket, supervisors, verbose};
use crate::allocation::job_connection::JobConnection;
use crate::{Context, output};
use anyhow::{Context as _, anyhow};
use cosy_client::CallError;
use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request};
use cosy_model::step::{AllocationEndpoint, DisplayNodes, StepAsk, StepCommand, StepSpec, Wireup};
use cosy_model::{Dialect, JobId, OsText};
use cosy_proto::lines::{self, Style};
use std::os::unix::net::UnixStream;

/// Connects to the first node of a running job, for requests about its steps.
///
/// # Errors
/// No such job, or no way there.
pub fn connect_to_job(context: &Context, job: JobId) -> anyhow::Result<UnixStream> {
    let notice = |text: &str| output::complain(context.program(), text);
    if step_socket::current_job() == Some(job)
        && let Some(stream) = step_socket::connect_inside(&notice)
    {
        return stream;
    }
    Ok(step_socket::connect_outside(&endpoint(context, job)?)?.0)
}

/// Asks the controller how a running job's first node is reached.
///
/// # Errors
/// No such job, or it does not run.
pub fn endpoint(context: &Context, job: JobId) -> anyhow::Result<AllocationEndpoint> {
    match context.ask(Request::Entry { job })? {
        Reply::Entry(entry) => Ok(entry),
        _ => Err(CallError::Unexpected.into()),
    }
}

/// The ids of the jobs that `job` names: one, or those of an array.
///
/// # Errors
/// The controller does not say them.
pub fn ids_of(context: &Context, job: JobRef) -> Result<Vec<JobId>, CallError> {
    let request = Request::Jobs {
        filter: JobFilter {
            ids: vec![job],
            ..JobFilter::default()
        },
        fields: vec![JobField::Id],
        fold_arrays: false,
    };
    let Reply::Jobs(table) = context.ask(request)? else {
        return Err(CallError::Unexpected);
    };
    let ids = (0..table.rows).filter_map(|row| table.number(row, JobField::Id));
    Ok(ids
        .filter_map(|id| u64::try_from(id).ok().map(JobId))
        .collect())
}

/// The variables of `block`, replaced and extended by those of `more`; `NAME=value`, separated by
/// NUL.
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

/// The same, and the one by which steps of the job show windows on those nodes, where they do.
pub fn with_display(block: OsText, nodes: Option<DisplayNodes>, job: JobId) -> OsText {
    match nodes {
        Some(nodes) => with_variables(&block, &display::variable(nodes, job).into()),
        None => block,
    }
}

/// Starts a step on `stream` and follows it to its end.
///
/// # Errors
/// A refusal, files that cannot be opened, a lost connection, an interrupt.
pub fn run_step(
    program: &str,
    options: &RunOptions,
    mut request: StepRequest,
    job: JobId,
    stream: UnixStream,
    job_connection: Option<JobConnection>,
) -> anyhow::Result<Outcome> {
    let raw = options.pty && tty::is_there();
    let session_options = SessionOptions {
        program: program.to_owned(),
        kill_on_bad_exit: options
            .kill_on_bad_exit
            .unwrap_or(request.spec.wireup != Wireup::None),
        observer: false,
        raw,
        quiet: options.job.quiet,
        dialect: request.spec.dialect,
        verbose: options.verbose && !options.job.quiet,
        supervisors: supervisors::SupervisorOptions {
            level: options.supervisors,
            programs: options.stopped.then(|| programs(&request.spec)),
        },
        interrupts: options.interrupts,
        wait: options.wait,
    };
    let mut signals = SignalPipe::new(&control_thread::SIGNALS)?;
    let step =
        start_step(program, &request.spec, job, stream, &mut signals, session_options.quiet)?;
    if session_options.verbose {
        let lines = verbose::launching(step.key, &step.layout);
        lines.iter().for_each(|line| say(program, line));
    }
    let sinks = sinks(options, &request, &step)?;
    let display = request.display.take().zip(request.spec.display.clone());
    let clients = display.map(|(real, asked)| Clients::new(program, real, asked, &step.layout));
    let resources = SessionResources {
        sinks,
        input: request.input.take(),
        clients,
        signals,
        job_connection,
    };
    session::run(step, session_options, resources).context("cannot follow the step")
}

/// The programs of the tasks by rank; one alone is that of all tasks.
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

/// Requests a step and waits until it is created.
///
/// # Errors
/// A refusal, a lost connection, an interrupt.
pub fn start_step(
    program: &str,
    spec: &StepSpec,
    job: JobId,
    stream: UnixStream,
    signals: &mut SignalPipe,
    quiet: bool,
) -> anyhow::Result<Step> {
    let dialect = spec.dialect;
    let quiet_wait = quiet || dialect == Dialect::Slurm && spec.patience.is_some();
    let spec = Box::new(spec.clone());
    let ask = match spec.display {
        Some(_) => StepAsk::StartWithDisplay { job, spec },
        None => StepAsk::Start { job, spec },
    };
    let mut waited = false;
    let mut on_wait = |reason: &str| {
        waited = true;
        if !quiet_wait {
            output::complain(program, &step_waits(dialect, job, reason));
        }
    };
    match node_request::send(stream, &ask, Some(signals), &mut on_wait)? {
        NodeReply::Step(step) => {
            if waited && !quiet_wait && dialect == Dialect::Slurm {
                output::complain(program, &format!("Step created for job {job}"));
            }
            Ok(*step)
        }
        NodeReply::Other(_) => Err(anyhow!("the node daemon's answer does not fit the request")),
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

fn sinks(options: &RunOptions, request: &StepRequest, step: &Step) -> anyhow::Result<Sinks> {
    let tasks = step.layout.tasks;
    let style = match (options.label, options.unbuffered || options.pty || tasks <= 1) {
        (true, _) => Style::Label(lines::width(tasks)),
        (false, true) => Style::Raw,
        (false, false) => Style::Whole,
    };
    let user = std::env::var("USER").unwrap_or_else(|_| own_name());
    let values = files::PatternValues {
        key: step.key,
        name: &request.spec.name,
        user: &user,
    };
    let settings = sink::OpenSettings {
        workdir: &request.spec.workdir,
        mode: request.spec.open_mode,
    };
    let targets = [&request.output, &request.error];
    Ok(Sinks::open(targets, style, &settings, &values)?)
}

/// Login name of the user of this process, else the uid.
fn own_name() -> String {
    crate::users::current_user().unwrap_or_else(|| nix::unistd::getuid().to_string())
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
