//! `cadm license`: licences of the cluster, and how many are in use outside of it.

use crate::native::arg::{flag, json, number, parse_name};
use crate::native::{change, record, stat};
use crate::{Context, exit, output, times};
use clap::{Arg, ArgMatches, Command};
use cosy_model::api::{Reply, Request};
use cosy_model::{License, near};
use cosy_view::license;
use record::TimeStyle;
use serde_json::{Value as Json, json};

const USE: &str = "Licences that NAME's server says are in use: those that jobs of the cluster hold, and those that others have. As many fewer are there for new jobs as others have, until it is told again; running jobs keep theirs. Meant for cron: without a difference nothing is written into the history.";

/// The command line of `cadm license`.
pub fn command() -> Command {
    let name = || {
        Arg::new("name")
            .value_name("NAME")
            .help("Licence")
            .required(true)
            .value_parser(parse_name)
    };
    Command::new("license")
        .about("Licences: how many there are, are in use here and outside of the cluster")
        .visible_alias("licence")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands([
            Command::new("list")
                .about("List all licences")
                .arg(flag("no-header", "No line of titles"))
                .arg(json()),
            Command::new("show")
                .about("Show one licence")
                .arg(name())
                .arg(json()),
            Command::new("use")
                .about("Tell how many are in use, as the licence server says")
                .long_about(USE)
                .arg(name())
                .arg(
                    Arg::new("number")
                        .value_name("N")
                        .help("Licences in use, by the cluster and outside of it")
                        .required(true)
                        .allow_hyphen_values(true)
                        .value_parser(number(0, u32::MAX)),
                )
                .arg(json()),
        ])
}

/// Runs `cadm license`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, (word, m): (&str, &ArgMatches)) -> anyhow::Result<u8> {
    match word {
        "list" => list(context, m),
        "show" => show(context, m),
        _ => change::carry_out(context, request(m), m),
    }
}

fn request(m: &ArgMatches) -> Request {
    Request::UseLicense {
        license: m.get_one::<String>("name").cloned().unwrap_or_default(),
        in_use: m.get_one::<u32>("number").copied().unwrap_or(0),
    }
}

fn licenses(context: &Context) -> anyhow::Result<Vec<License>> {
    match context.ask(Request::Settings)? {
        Reply::Settings(settings) => Ok(settings.licenses),
        _ => Err(cosy_client::CallError::Unexpected.into()),
    }
}

fn as_json(license: &License) -> Json {
    record::json(&license::fields(license))
}

fn list(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let all = licenses(context)?;
    output::print(&if m.get_flag("json") {
        let all: Vec<Json> = all.iter().map(as_json).collect();
        stat::json_text(&json!({ "licenses": all }))
    } else {
        let now = times::now();
        record::list(license::LIST, &all, TimeStyle::in_lists(&now), stat::table_style(m))
    });
    Ok(exit::OK)
}

fn show(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let name = m.get_one::<String>("name").cloned().unwrap_or_default();
    let all = licenses(context)?;
    let Some(one) = all.iter().find(|license| license.name == name) else {
        let names = all.iter().map(|license| license.name.as_str());
        output::complain(context.program(), &missing(&name, names));
        return Ok(exit::FAILED);
    };
    output::print(&if m.get_flag("json") {
        stat::json_text(&as_json(one))
    } else {
        let lines = record::lines(&license::details(one), 12, &times::now());
        format!("licence {}\n{lines}", one.name)
    });
    Ok(exit::OK)
}

fn missing<'a>(name: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let hint = match near::nearest(name, names.clone()) {
        Some(near) => format!("'{near}' is one"),
        None => match names.collect::<Vec<_>>().as_slice() {
            [] => "[licenses] of cosy.toml names none".to_owned(),
            _ => "'cadm license list' lists them".to_owned(),
        },
    };
    format!("there is no licence '{name}': {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let check = |args: &[&str], want: Option<u32>| {
            let matches = command().try_get_matches_from([&["license"], args].concat());
            let got = matches.ok().and_then(|m| match request(m.subcommand()?.1) {
                Request::UseLicense { in_use, .. } => Some(in_use),
                _ => None,
            });
            assert_eq!(got, want, "{args:?}");
        };
        check(&["use", "matlab", "7"], Some(7));
        check(&["use", "matlab", "0"], Some(0));
        check(&["use", "matlab", "-1"], None);
        check(&["use", "matlab", "4294967296"], None);
        check(&["use", "matlab", "some"], None);
        check(&["use", "matlab"], None);
        check(&["use"], None);
    }

    #[test]
    fn what_may_be_meant() {
        let check = |name, names: &[&str], want: &str| {
            let told = missing(name, names.iter().copied());
            assert!(told.ends_with(want), "{told}");
        };
        check("matlap", &["matlab", "x"], "'matlab' is one");
        check("comsol", &["matlab", "x"], "'cadm license list' lists them");
        check("comsol", &[], "[licenses] of cosy.toml names none");
    }
}
