//! `ccancel`: ends jobs or sends them a signal.

use crate::native::arg::{self, flag, json, parse_state, value, values};
use crate::native::{change, stat};
use crate::{Context, exit, signals};
use clap::{ArgMatches, Command};
use cosy_model::api::{JobFilter, Request};

/// The command line of `ccancel`.
pub fn command() -> Command {
    arg::command("cancel", "End jobs, or send them a signal")
        .override_usage("ccancel [OPTIONS] ID...\n       ccancel [OPTIONS] -u USER | -q QUEUE | -n NAME | -s STATE")
        .arg(arg::ids("Jobs: 12, a whole array or a task 12_3, some tasks 12_[3-7]"))
        .arg(flag("all", "With -q, -n, -s: jobs of all users, not only your own").short('A'))
        .arg(values("user", "USER[,...]", "Jobs of these users").short('u'))
        .arg(values("queue", "QUEUE[,...]", "Jobs in these queues").short('q'))
        .arg(values("name", "NAME[,...]", "Jobs with these names").short('n'))
        .arg(values("state", "STATE[,...]", "Jobs in these states").short('s').value_parser(parse_state))
        .arg(value("signal", "SIGNAL", "Send this signal (name or number) instead of ending them").value_parser(signals::parse))
        .arg(flag("script-only", "With --signal: only to the script itself, not to what it started"))
        .arg(json())
}

/// Runs `ccancel`.
///
/// # Errors
/// Nothing named, a refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let filter = filter(matches)?;
    let signal = matches.get_one::<i32>("signal").copied();
    let script_only = matches.get_flag("script-only");
    if script_only && signal.is_none() {
        return Err(exit::usage("--script-only needs --signal"));
    }
    let reply = context.ask(Request::Cancel {
        filter,
        signal,
        script_only,
        steps_only: false,
    })?;
    change::report(context, reply, matches.get_flag("json"))
}

fn filter(matches: &ArgMatches) -> anyhow::Result<JobFilter> {
    let ids = arg::ids_of(matches);
    let conditions = ["user", "queue", "name", "state"];
    let chosen = conditions.iter().any(|c| matches.contains_id(c));
    if ids.is_empty() && !chosen {
        return Err(exit::usage(
            "which jobs? Name ids, or choose with --user, --queue, --name, --state",
        ));
    }
    let mut filter = stat::filter(matches);
    if !ids.is_empty() && !matches.contains_id("user") {
        filter.users.clear();
    }
    filter.ids = ids;
    Ok(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters() {
        let own = rustix::process::getuid().as_raw().to_string();
        let check = |args: &[&str], want: Option<(usize, Vec<&str>)>| {
            let matches = command().try_get_matches_from([&["ccancel"], args].concat());
            let got = matches.ok().and_then(|m| filter(&m).ok());
            let want = want.map(|(n, users)| {
                (
                    n,
                    users
                        .into_iter()
                        .map(|u| if u == "me" { own.clone() } else { u.into() })
                        .collect(),
                )
            });
            assert_eq!(got.map(|f| (f.ids.len(), f.users)), want, "{args:?}");
        };
        check(&["12", "13_[1-3]"], Some((4, vec![])));
        check(&["-q", "day"], Some((0, vec!["me"])));
        check(&["-q", "day", "-A"], Some((0, vec![])));
        check(&["-u", "ann,bob"], Some((0, vec!["ann", "bob"])));
        check(&["12", "-u", "ann"], Some((1, vec!["ann"])));
        check(&[], None);
        check(&["-A"], None);
        check(&["x"], None);
        check(&["-s", "x"], None);
        check(&["1", "--signal", "FOO"], None);
        check(&["12_[1-4000000]"], None);
    }
}
