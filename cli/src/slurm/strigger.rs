//! `strigger`: programs that run when something happens to jobs or nodes. Source:
//! strigger(1), captures.

use super::command_line::read;
use super::messages::{error, say};
use super::words;
use crate::{Context, exit, output, users};
use cosy_client::CallError;
use cosy_model::api::{Reply, Request};
use cosy_model::{About, OsText, Refusal, RefusalCode, TriggerSpec, Uid, variables};
use cosy_slurm::sentences;
use cosy_slurm::strigger::{Action, Filter, Invocation, OPTIONS, asked, list};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

const USAGE: &str = "strigger [--set | --get | --clear] [OPTIONS]";

/// Why a trigger was not set, listed or cleared.
enum TriggerError {
    /// The command line asks for something impossible.
    Line(String),
    /// The controller refused this function of Slurm's library.
    Call(&'static str, CallError),
}

/// Runs `strigger`; gives its exit code.
pub fn run(context: &Context) -> u8 {
    let parsed = match read(context, USAGE, OPTIONS) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let done = asked(&parsed).map_err(TriggerError::Line);
    match done.and_then(|invocation| perform(context, &invocation)) {
        Ok(()) => exit::OK,
        Err(TriggerError::Line(text)) => {
            error(context, &text);
            exit::FAILED
        }
        Err(TriggerError::Call(function, e)) => {
            say(&format!("{function}: {}", sentence(function, &e)));
            exit::FAILED
        }
    }
}

fn perform(context: &Context, invocation: &Invocation) -> Result<(), TriggerError> {
    let verbose = |text: &str| {
        if invocation.verbose {
            say(&format!("{}: {text}", context.program()));
        }
    };
    match &invocation.action {
        Action::Set(spec) => {
            set(context, spec)?;
            verbose("trigger set");
        }
        Action::Get { filter, header } => {
            let uid = uid_of(filter)?;
            let all = match context.ask(Request::Triggers) {
                Ok(Reply::Triggers(all)) => all,
                Ok(_) => return Err(TriggerError::Call(GET, CallError::Unexpected)),
                Err(e) => return Err(TriggerError::Call(GET, e)),
            };
            verbose(&format!("Read {} trigger records", all.len()));
            let chosen = all.into_iter().filter(|info| filter.takes(info, uid));
            let chosen: Vec<_> = chosen.collect();
            output::print(&list(&chosen, *header));
        }
        Action::Clear(filter) => {
            let uid = uid_of(filter)?;
            clear(context, filter, uid, invocation.quiet)?;
            verbose(&match (filter.id, filter.job) {
                (Some(id), _) => format!("trigger {id} cleared"),
                (None, Some(job)) => format!("triggers for job {job} cleared"),
                (None, None) => format!("triggers for user {} cleared", uid.unwrap_or_default()),
            });
        }
    }
    Ok(())
}

const SET: &str = "slurm_set_trigger";
const GET: &str = "slurm_get_triggers";
const CLEAR: &str = "slurm_clear_trigger";

/// Sets a trigger; its program must exist now.
fn set(context: &Context, spec: &TriggerSpec) -> Result<(), TriggerError> {
    let mut path = spec.program.0.split(u8::is_ascii_whitespace);
    let path = OsStr::from_bytes(path.next().unwrap_or_default());
    if std::fs::metadata(path).is_err() {
        let why = "Invalid --program value, file not found";
        return Err(TriggerError::Line(why.to_owned()));
    }
    let spec = TriggerSpec {
        environment: environment(),
        ..spec.clone()
    };
    match context.ask(Request::SetTrigger(Box::new(spec))) {
        Ok(Reply::TriggerSet(_)) => Ok(()),
        Ok(_) => Err(TriggerError::Call(SET, CallError::Unexpected)),
        Err(e) => Err(TriggerError::Call(SET, e)),
    }
}

/// The variables by which the program finds commands, and commands find the cluster.
fn environment() -> OsText {
    let set = ["PATH", variables::SOCKET].map(|name| {
        let value = std::env::var_os(name)?;
        Some([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat())
    });
    OsText(set.into_iter().flatten().collect::<Vec<_>>().concat())
}

fn clear(
    context: &Context,
    filter: &Filter,
    uid: Option<u32>,
    quiet: bool,
) -> Result<(), TriggerError> {
    let request = Request::ClearTriggers {
        id: filter.id,
        job: filter.job,
        uid: uid.map(Uid),
    };
    match context.ask(request) {
        Ok(Reply::Done { .. }) => Ok(()),
        Ok(_) => Err(TriggerError::Call(CLEAR, CallError::Unexpected)),
        Err(CallError::Refused(refusal)) if quiet && refusal.code == RefusalCode::NotFound => {
            Ok(())
        }
        Err(e) => Err(TriggerError::Call(CLEAR, e)),
    }
}

fn uid_of(filter: &Filter) -> Result<Option<u32>, TriggerError> {
    let Some(user) = &filter.user else {
        return Ok(None);
    };
    let known = user.parse().ok();
    let known = known.or_else(|| u32::try_from(users::number(user)?).ok());
    let wrong = || TriggerError::Line(format!("Invalid user {user}"));
    known.map(Some).ok_or_else(wrong)
}

/// The sentence of the original for what went wrong.
fn sentence<'a>(function: &str, e: &'a CallError) -> &'a str {
    let CallError::Refused(refusal) = e else {
        return words::of_call(e);
    };
    let Refusal { code, about, .. } = refusal;
    let known = match (code, about) {
        (RefusalCode::NotFound, _) if function == CLEAR => Some("No such process"),
        (RefusalCode::NotFound, Some(About::Node)) => Some(sentences::NO_NODE),
        (RefusalCode::NotFound, _) => Some(sentences::NO_JOB),
        (RefusalCode::Forbidden | RefusalCode::AccessDenied, _) => Some(sentences::DENIED),
        (RefusalCode::WrongState, Some(About::Trigger)) => Some("Duplicate event trigger"),
        (RefusalCode::WrongState, _) => Some(sentences::COMPLETED),
        (RefusalCode::Invalid | RefusalCode::TooMany, _) => None,
        _ => return words::of_call(e),
    };
    known.unwrap_or(&refusal.message)
}
