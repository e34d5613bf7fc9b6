//! The tree of accounts, users in it and qualities of service: `cadm account`, `cadm user`,
//! `cadm qos`. What is set is written as `NAME=VALUE`, with Slurm's names of limits.

pub mod file;
pub mod qos;
pub mod settings;
pub mod tree;
pub mod user;

use crate::native::arg::{flag, json, parse_name};
use crate::native::change;
use crate::{Context, exit};
use clap::{Arg, ArgMatches, Command};
use cosy_model::api::{Reply, Request};
use cosy_model::policy::{PolicyAnswer, PolicyChange, PolicyQuery};

/// An argument with one name.
fn name(id: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(id)
        .value_name(value)
        .help(help)
        .required(true)
        .value_parser(parse_name)
}

/// Settings behind the names.
fn pairs(help: &'static str) -> Arg {
    Arg::new("set")
        .value_name("NAME=VALUE")
        .help(help)
        .num_args(0..)
}

/// A command that changes something.
fn changing(word: &'static str, about: &'static str) -> Command {
    Command::new(word)
        .about(about)
        .arg(flag("dry-run", "Only say whether it would be done"))
        .arg(json())
}

fn settings_of(matches: &ArgMatches) -> Vec<String> {
    let all = matches.get_many::<String>("set");
    all.into_iter().flatten().cloned().collect()
}

fn named(matches: &ArgMatches, id: &str) -> String {
    matches.get_one::<String>(id).cloned().unwrap_or_default()
}

/// Carries changes out, all or none, and reports.
fn carry_out(
    context: &Context,
    changes: Vec<PolicyChange>,
    matches: &ArgMatches,
) -> anyhow::Result<u8> {
    let dry_run = matches.get_flag("dry-run");
    let reply = context.ask(Request::ChangePolicy { changes, dry_run })?;
    match reply {
        Reply::Done {
            changed: 0,
            refused,
        } if dry_run && refused.is_empty() => Ok(exit::OK),
        reply => change::report(context, reply, matches.get_flag("json")),
    }
}

fn ask(context: &Context, query: PolicyQuery) -> anyhow::Result<PolicyAnswer> {
    match context.ask(Request::Policy(query))? {
        Reply::Policy(answer) => Ok(answer),
        _ => Err(cosy_client::CallError::Unexpected.into()),
    }
}
