//! `cosy web`, `cosy token`: links into the web page, and tokens for programs.
//!
//! `cosy-web` makes both, over a socket at which the kernel tells it who asks.

use crate::native::arg::{self, flag, value};
use crate::page::{http, make_token, socket};
use crate::{Context, exit, output};
use clap::{Arg, ArgMatches, Command};
use cosy_model::Span;
use serde_json::{Value as Json, json};

/// The command line of `cosy web`.
pub fn web_command() -> Command {
    arg::command("web", "A link that opens the web page, logged in")
        .arg(
            Arg::new("place")
                .value_name("PLACE")
                .help("Which page: plan, jobs, jobs/ID, book, workflows, nodes, admin (default: now)"),
        )
        .arg(user())
        .after_help(
            "The link is good once and for two minutes: open it in a browser on this host, or wherever the \
             page's address leads. It works on the host that cosy-web runs on; on others the page asks for \
             a token of 'cosy token' there.\nExit codes: 0 done, 1 refused or no page.",
        )
}

/// The command line of `cosy token`.
pub fn token_command() -> Command {
    arg::command("token", "A token with which programs ask over REST as you")
        .arg(
            value("time", "LENGTH", "How long it is good: minutes, H:MM:SS, 90m, 7d (default: 30m)")
                .short('t')
                .value_parser(arg::parse_limit),
        )
        .arg(flag("revoke", "Take all your tokens back, and log you out of the page everywhere"))
        .arg(user())
        .arg(arg::json())
        .after_help(
            "Examples:\n  \
             curl -H \"Authorization: Bearer $(cosy token)\" \\\n    http://127.0.0.1:8090/api/v1/jobs\n  \
             export SLURM_JWT=$(cosy token -t 7d)\n\
             Who has the token is you until it ends: keep it as you keep a password. It works on the host \
             that cosy-web runs on.\nExit codes: 0 done, 1 refused or no page.",
        )
}

fn user() -> Arg {
    value("user", "USER", "For somebody else (root)")
}

/// Runs `cosy web`.
///
/// # Errors
/// There is no page, or it refuses.
pub fn web(_: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let place = matches.get_one::<String>("place");
    let place = place.map(|place| format!("/{}", place.trim_start_matches('/')));
    let mut ask = with_user(matches);
    ask["place"] = place.into();
    if ask["place"].is_null() {
        ask["place"] = "/".into();
    }
    let told = http::ask(&socket(), "POST", "/api/v1/links", &ask)?;
    output::print(&format!("{}\n", told["link"].as_str().unwrap_or_default()));
    Ok(exit::OK)
}

/// Runs `cosy token`.
///
/// # Errors
/// There is no page, or it refuses.
pub fn token(_: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let mut ask = with_user(matches);
    if matches.get_flag("revoke") {
        let told = http::ask(&socket(), "DELETE", "/api/v1/tokens", &ask)?;
        let user = told["user"].as_str().unwrap_or_default();
        output::print(&format!("all tokens of {user} are revoked\n"));
        return Ok(exit::OK);
    }
    if let Some(length) = matches.get_one::<Span>("time") {
        ask["seconds"] = length.secs().into();
    }
    let told = make_token(&ask)?;
    match matches.get_flag("json") {
        true => output::print(&format!("{told}\n")),
        false => output::print(&format!("{}\n", told["token"].as_str().unwrap_or_default())),
    }
    Ok(exit::OK)
}

fn with_user(matches: &ArgMatches) -> Json {
    match matches.get_one::<String>("user") {
        Some(user) => json!({ "user": user }),
        None => json!({}),
    }
}
