//! `cadm rule`: what the site's rules at submission make of a script, and the fields that rules
//! know.

use crate::native::arg::{self, json};
use crate::native::submit::{self, Target, options, script};
use crate::{Context, exit, output, submitter, times, users};
use anyhow::anyhow;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use cosy_model::api::{Reply, Request, RulesTried, Submission};
use cosy_model::{OsText, Program as Runs, Uid};
use cosy_rules::Field;
use cosy_slurm::submit::options::{OptionSources, SubmitOptions};
use cosy_slurm::submit::spec::{self, SubmissionContext};
use cosy_slurm::submit::{Fault, Line, Program, directives};
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The command line of `cadm rule`.
pub fn command() -> Command {
    let options = options::command();
    let test = Command::new("test")
        .about("What the rules at submission would make of a script; nothing is submitted")
        .after_help(
            "The options are those of csub. A script with #SBATCH lines is read as sbatch reads it, \
             and has no others.",
        )
        .arg(
            arg::value("user", "USER", "As if USER submitted it: a login name or a number")
                .value_parser(user),
        )
        .args(options.get_arguments().filter(|one| !one.is_global_set()).cloned());
    Command::new("rule")
        .about("Try the rules at submission, list the fields that they know")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(test)
        .subcommand(
            Command::new("fields")
                .about("The fields that rules read and set")
                .arg(json()),
        )
}

fn user(text: &str) -> Result<u32, String> {
    if let Ok(uid) = text.parse() {
        return Ok(uid);
    }
    let number = users::number(text).and_then(|uid| u32::try_from(uid).ok());
    number.ok_or_else(|| format!("there is no user '{text}'"))
}

/// Runs `cadm rule`.
///
/// # Errors
/// A script that makes no sense, a refusal, or no controller.
pub fn run(context: &Context, (word, m): (&str, &ArgMatches)) -> anyhow::Result<u8> {
    match word {
        "fields" => {
            output::print(&fields(m.get_flag("json")));
            Ok(exit::OK)
        }
        _ => test(context, m),
    }
}

fn fields(as_json: bool) -> String {
    let all = Field::ALL.iter();
    if as_json {
        let one = |field: &Field| {
            json!({
                "name": field.name(),
                "kind": field.kind().to_string(),
                "settable": field.is_settable(),
                "meaning": field.meaning(),
            })
        };
        return format!("{}\n", serde_json::Value::Array(all.map(one).collect()));
    }
    let line = |field: &Field| {
        let set = if field.is_settable() { "set" } else { "read" };
        format!("{:<18} {:<16} {set:<5} {}\n", field.name(), field.kind(), field.meaning())
    };
    let functions = "license(\"NAME\"), resource(\"NAME\"), gpus_of(\"TYPE\"): how many; variable(\"NAME\"): a variable of the job\n";
    all.map(line).collect::<String>() + functions
}

fn test(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let job = Box::new(job(context, m)?);
    let user = m.get_one::<u32>("user").copied().map(Uid);
    let Reply::RulesTried(tried) = context.ask(Request::TryRules { job, user })? else {
        return Err(cosy_client::CallError::Unexpected.into());
    };
    let as_json = m.get_flag("json");
    output::print(&if as_json {
        as_object(&tried)
    } else {
        in_words(&tried)
    });
    Ok(if tried.refused.is_some() {
        exit::FAILED
    } else {
        exit::OK
    })
}

fn as_object(tried: &RulesTried) -> String {
    let changes = tried
        .changes
        .iter()
        .map(|(f, v)| (f.clone(), v.clone().into()));
    let changes: serde_json::Map<String, serde_json::Value> = changes.collect();
    let whole = json!({
        "user": tried.user,
        "bound": tried.bound,
        "applied": tried.applied,
        "changes": changes,
        "remarks": tried.remarks,
        "refused": tried.refused,
        "logged": tried.logged,
    });
    format!("{whole}\n")
}

fn in_words(tried: &RulesTried) -> String {
    if !tried.bound {
        return format!("no rules bind {}: the job goes on as it is\n", tried.user);
    }
    let mut text = match tried.applied.len() {
        0 => format!("no rule applies to this job of {}\n", tried.user),
        _ => format!(
            "rules that apply to this job of {}: {}\n",
            tried.user,
            tried.applied.join(", ")
        ),
    };
    for (field, value) in &tried.changes {
        text += &format!("  {field} becomes {value}\n");
    }
    for remark in &tried.remarks {
        text += &format!("  the user is told: {remark}\n");
    }
    for line in &tried.logged {
        text += &format!("  the log: {line}\n");
    }
    text += &match &tried.refused {
        Some(why) => format!("the job is refused: {why}\n"),
        None => "the job goes on\n".to_owned(),
    };
    text
}

/// The job of the script, which may be written for `csub` or for `sbatch`.
fn job(context: &Context, m: &ArgMatches) -> anyhow::Result<Submission> {
    let mut words: Vec<OsString> = arg::list(m, "words");
    if words.is_empty() {
        return Err(exit::usage("which script? Give its file, or - for standard input"));
    }
    let behind_dashes = context.args().iter().any(|word| word == "--");
    if behind_dashes {
        return Ok(submit::assemble(Target::Command { argv: words }, Vec::new(), m)?.0);
    }
    let file = words.remove(0);
    let text = script::read(Some(&file))?;
    let shown = String::from_utf8_lossy(&text).into_owned();
    let of_slurm =
        directives::read(&shown, true).map_err(|mistake| exit::usage(mistake.text("sbatch")))?;
    if of_slurm.is_empty() {
        let target = Target::Script {
            file: Some(file),
            args: words,
        };
        return Ok(submit::assemble(target, text, m)?.0);
    }
    let own = ["words", "user", "json"];
    let given = |id: &&clap::Id| m.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    if let Some(option) = m.ids().filter(given).find(|id| !own.contains(&id.as_str())) {
        let option = option.as_str();
        return Err(exit::usage(format!(
            "--{option} is an option of csub, and the script has lines of sbatch: write it there"
        )));
    }
    let mut job_options = SubmitOptions::default();
    let sources = OptionSources {
        program: Program::Sbatch,
        now: &times::now,
        root: false,
    };
    for found in &of_slurm {
        job_options
            .apply(found, &sources)
            .map_err(|f| in_one_line(&f))?;
    }
    slurm_job(&job_options, file, words, text)
}

/// A job as `sbatch` makes it, but for what it asks the controller about: names of reservations are
/// left out.
fn slurm_job(
    job_options: &SubmitOptions,
    file: OsString,
    args: Vec<OsString>,
    text: Vec<u8>,
) -> anyhow::Result<Submission> {
    let name = std::path::Path::new(&file).file_name().unwrap_or(&file);
    let context = SubmissionContext {
        now: cosy_model::Time(times::now().timestamp().as_millisecond()),
        default_name: name.to_string_lossy().into_owned(),
        program: Runs::Script {
            name: OsText(file.into_vec()),
            args: args.into_iter().map(|a| OsText(a.into_vec())).collect(),
        },
        workdir: submitter::workdir(None).map_err(|e| anyhow!(e))?,
        environment: submitter::environment(&[], std::env::vars_os()).map_err(|e| anyhow!(e))?,
        umask: submitter::umask(),
        rlimits: submitter::rlimits(),
        host: submitter::hostname(),
        session: submitter::session_id(),
        line: submitter::command_line(),
        reservation: None,
        root: false,
    };
    let (mut spec, array) = spec::build(job_options, context).map_err(|f| in_one_line(&f))?;
    if let Some(list) = spec.queue.take() {
        let queues: Vec<String> = list.split(',').map(str::to_owned).collect();
        spec.queue = queues.first().cloned();
        spec.queues = if queues.len() > 1 { queues } else { Vec::new() };
    }
    Ok(Submission {
        spec,
        script: OsText(text),
        array,
    })
}

fn in_one_line(fault: &Fault) -> anyhow::Error {
    let text = |line: &Line| match line {
        Line::Plain(text) | Line::Error(text) | Line::Fatal(text) | Line::Refusal(text) => {
            text.clone()
        }
    };
    let lines: Vec<String> = fault.lines.iter().map(text).collect();
    exit::usage(lines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_line() {
        let text = fields(false);
        assert_eq!(text.lines().count(), Field::ALL.len() + 1);
        assert!(text.contains("time_limit"), "{text}");
        let parsed: serde_json::Value = serde_json::from_str(&fields(true)).unwrap();
        assert_eq!(parsed.as_array().map(Vec::len), Some(Field::ALL.len()));
    }

    #[test]
    fn in_words_and_as_an_object() {
        let tried = RulesTried {
            user: "ann".into(),
            bound: true,
            applied: vec!["gpu".into()],
            changes: vec![("queue".into(), "gpu".into())],
            remarks: vec!["moved".into()],
            refused: Some("no".into()),
            logged: vec!["lua: seen".into()],
        };
        let want = "rules that apply to this job of ann: gpu\n  queue becomes gpu\n  the user is told: moved\n  the log: lua: seen\nthe job is refused: no\n";
        assert_eq!(in_words(&tried), want);
        let object: serde_json::Value = serde_json::from_str(&as_object(&tried)).unwrap();
        assert_eq!(object["changes"]["queue"], "gpu");
        let free = RulesTried::default();
        assert!(in_words(&free).starts_with("no rules bind"));
    }
}
