//! `cadm`: what administrators do to nodes, queues, accounts and the controller.

use crate::native::arg::{self, flag, json, number, parse_limit, parse_name, value};
use crate::native::submit::options::{comment, hosts};
use crate::native::{
    account, archive, change, import, license, meter, policy, record, rule, stat, store,
};
use crate::{Context, controllers, exit, output, times};
use clap::{Arg, ArgMatches, Command};
use cosy_model::api::{HistoryEvent, NodeAction, Reply, Request};
use cosy_model::{QueueState, Span};
use cosy_view::event;
use serde_json::json;
use std::time::Duration;

/// The command line of `cadm`.
pub fn command() -> Command {
    arg::command("adm", "Administer nodes, queues, accounts, licences, the controller")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(node_command())
        .subcommand(queue_command())
        .subcommand(account::command())
        .subcommand(policy::user::command())
        .subcommand(policy::qos::command())
        .subcommand(license::command())
        .subcommand(import::command())
        .subcommand(rule::command())
        .subcommand(archive::command())
        .subcommand(store::command())
        .subcommand(controllers::command())
        .subcommand(
            Command::new("reload")
                .about("Read the configuration again")
                .arg(json()),
        )
        .subcommand(
            Command::new("ping")
                .about("Is the controller there, who leads, whose clock is off?")
                .arg(
                    flag(
                        "verbose",
                        "Also how long requests hold the controller up, by kind, and how much of what is limited is in use",
                    )
                    .short('v'),
                )
                .arg(json()),
        )
        .subcommand(
            Command::new("events")
                .about("What happened")
                .arg(flag("follow", "Go on with new events as they come").short('f'))
                .arg(
                    value("after", "NUMBER", "Events after the one with this number")
                        .value_parser(clap::value_parser!(u64)),
                )
                .arg(
                    value(
                        "most",
                        "N",
                        "The latest N only; with --after the first N behind it",
                    )
                    .value_parser(number(1, 1_000_000)),
                )
                .arg(json()),
        )
}

fn node_command() -> Command {
    let nodes = || {
        Arg::new("nodes")
            .value_name("NODES")
            .help("Nodes, like n[1-3,7]")
            .required(true)
            .num_args(1..)
            .value_parser(hosts)
    };
    let reason = || {
        value("reason", "TEXT", "Why")
            .short('r')
            .value_parser(comment)
    };
    Command::new("node")
        .about("Drain, resume, give up, switch or revoke nodes; let a new one join")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("drain")
                .about("Finish what runs there, start nothing new")
                .arg(nodes())
                .arg(reason())
                .arg(json()),
        )
        .subcommand(
            Command::new("resume")
                .about("Take nodes into service again")
                .arg(nodes())
                .arg(json()),
        )
        .subcommand(
            Command::new("down")
                .about("Give nodes up, with the jobs there")
                .arg(nodes())
                .arg(reason())
                .arg(json()),
        )
        .subcommands(power_commands(&nodes))
        .subcommand(
            Command::new("revoke")
                .about("Never accept their keys again; give them and their jobs up")
                .arg(nodes())
                .arg(reason())
                .arg(json()),
        )
        .subcommand(
            Command::new("token")
                .about("A one-time token with which a new node joins")
                .arg(
                    Arg::new("name")
                        .value_name("NAME")
                        .help("The node's name")
                        .required(true)
                        .value_parser(parse_name),
                )
                .arg(
                    value("valid", "TIME", "How long it is good for")
                        .default_value("1h")
                        .value_parser(parse_limit),
                )
                .arg(json()),
        )
}

/// What switches nodes.
fn power_commands(nodes: &dyn Fn() -> Arg) -> [Command; 2] {
    let wake = Command::new("wake")
        .about("Switch nodes on that are off")
        .arg(nodes())
        .arg(json());
    let sleep = Command::new("sleep")
        .about("Switch nodes off when their jobs have ended, start nothing new")
        .arg(nodes())
        .arg(flag("force", "Give their jobs up at once"))
        .arg(json());
    [wake, sleep]
}

fn queue_command() -> Command {
    let one = |name: &'static str, about: &'static str| {
        let queue = Arg::new("queue")
            .value_name("QUEUE")
            .help("Queue")
            .required(true);
        Command::new(name)
            .about(about)
            .arg(queue.value_parser(parse_name))
            .arg(json())
    };
    Command::new("queue")
        .about("Open, drain, stop or close a queue")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(one("open", "Take and start jobs"))
        .subcommand(one("drain", "Take no new jobs, start those that wait"))
        .subcommand(one("stop", "Take jobs, start none"))
        .subcommand(one("close", "Take no jobs and start none"))
}

/// Runs `cadm`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let nothing = || exit::usage("what? See --help");
    match matches.subcommand().ok_or_else(nothing)? {
        ("node", m) => node(context, m.subcommand().ok_or_else(nothing)?),
        ("account", m) => account::run(context, m.subcommand().ok_or_else(nothing)?),
        ("user", m) => policy::user::run(context, m.subcommand().ok_or_else(nothing)?),
        ("qos", m) => policy::qos::run(context, m.subcommand().ok_or_else(nothing)?),
        ("license", m) => license::run(context, m.subcommand().ok_or_else(nothing)?),
        ("import-slurm", m) => import::run(context, m),
        ("rule", m) => rule::run(context, m.subcommand().ok_or_else(nothing)?),
        ("queue", m) => queue(context, m.subcommand().ok_or_else(nothing)?),
        ("reload", m) => reload(context, m),
        ("archive", m) => archive::run(context, m),
        ("store", m) => store::run(m.subcommand().ok_or_else(nothing)?),
        ("takeover", m) => controllers::takeover(context, m),
        ("ping", m) => meter::ping(context, m.get_flag("json"), m.get_flag("verbose")),
        ("events", m) => events(context, m),
        _ => Err(nothing()),
    }
}

/// Reloads the configuration; prints the settings that wait for a restart.
fn reload(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let reply = context.ask(Request::Reload)?;
    change::report(context, reply, matches.get_flag("json"))?;
    Ok(exit::OK)
}

fn node(context: &Context, (word, m): (&str, &ArgMatches)) -> anyhow::Result<u8> {
    let reason = || {
        let given = m.get_one::<String>("reason").cloned();
        given.unwrap_or_else(|| "by an administrator".to_owned())
    };
    let action = match word {
        "token" => return token(context, m),
        "drain" => NodeAction::Drain { reason: reason() },
        "down" => NodeAction::Down { reason: reason() },
        "revoke" => NodeAction::Revoke { reason: reason() },
        "wake" => NodeAction::PowerUp,
        "sleep" => NodeAction::PowerDown {
            force: m.get_flag("force"),
        },
        _ => NodeAction::Resume,
    };
    let nodes: Vec<Vec<String>> = arg::list(m, "nodes");
    let nodes = nodes.concat();
    change::carry_out(context, Request::NodeControl { nodes, action }, m)
}

fn token(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let name = m.get_one::<String>("name").cloned().unwrap_or_default();
    let valid = m
        .get_one::<Span>("valid")
        .copied()
        .unwrap_or(Span::from_minutes(60));
    let request = Request::JoinToken {
        node: name.clone(),
        valid,
    };
    let Reply::Token(token) = context.ask(request)? else {
        return Err(cosy_client::CallError::Unexpected.into());
    };
    output::print(&if m.get_flag("json") {
        stat::json_text(
            &json!({ "node": name, "token": token, "valid": crate::native::job_table::json_span(valid) }),
        )
    } else {
        // The token goes over standard input: every user of the host can read command lines.
        format!("echo {token} | noded join --controller HOST:PORT --name {name} --token -\n")
    });
    Ok(exit::OK)
}

fn queue(context: &Context, (word, m): (&str, &ArgMatches)) -> anyhow::Result<u8> {
    let queue = m.get_one::<String>("queue").cloned().unwrap_or_default();
    let state = match word {
        "drain" => QueueState::Drained,
        "stop" => QueueState::Stopped,
        "close" => QueueState::Closed,
        _ => QueueState::Open,
    };
    change::carry_out(context, Request::QueueControl { queue, state }, m)
}

/// Events that are asked for at once.
const PAGE: u32 = 1000;
/// Between two looks for new events.
const PAUSE: Duration = Duration::from_millis(500);

fn events(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let (follow, as_json) = (m.get_flag("follow"), m.get_flag("json"));
    let given = m.get_one::<u64>("after").copied();
    let most = m.get_one::<u32>("most").copied();
    let mut after = match (given, most) {
        (Some(after), _) => after,
        (None, None) => 0,
        (None, Some(most)) => before_latest(context, most)?,
    };
    let mut left = most.unwrap_or(u32::MAX);
    while left > 0 {
        let most = left.min(PAGE);
        let page = page(context, after, most, false)?;
        let Some(last) = page.iter().map(|e| e.seq).max().filter(|s| *s > after) else {
            if !follow {
                break;
            }
            std::thread::sleep(PAUSE);
            continue;
        };
        let now = times::now();
        let show = |e: &HistoryEvent| {
            if as_json {
                event_json(e)
            } else {
                event_line(e, &now)
            }
        };
        output::print(&page.iter().map(show).collect::<String>());
        left = left.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        after = last;
    }
    Ok(exit::OK)
}

fn page(
    context: &Context,
    after: u64,
    most: u32,
    latest: bool,
) -> anyhow::Result<Vec<HistoryEvent>> {
    let request = Request::Events {
        after,
        most,
        latest,
    };
    match context.ask(request)? {
        Reply::Events(page) => Ok(page),
        _ => Err(cosy_client::CallError::Unexpected.into()),
    }
}

/// The number behind which there are so many events.
fn before_latest(context: &Context, most: u32) -> anyhow::Result<u64> {
    let last = page(context, 0, 1, true)?;
    let last = last.last().map_or(0, |e| e.seq);
    Ok(last.saturating_sub(most.into()))
}

fn event_line(e: &HistoryEvent, now: &jiff::Zoned) -> String {
    let clean = |t: &str| t.replace(char::is_control, "?");
    let parts = [&e.object, &e.what, &e.detail].map(|t| clean(t));
    let text = parts.join(" ");
    format!("{} {} {} ({})\n", e.seq, times::long(e.at, now), text.trim_end(), clean(&e.who))
}

/// One JSON object in one line, so that a stream of events can be read as it comes.
fn event_json(e: &HistoryEvent) -> String {
    format!("{}\n", record::json(&event::fields(e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_dates() {
        let now: jiff::Zoned = "2026-11-21T12:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let at = "2025-12-31T23:30:00Z".parse::<jiff::Timestamp>().unwrap();
        let event = HistoryEvent {
            seq: 7,
            at: cosy_model::Time(at.as_millisecond()),
            what: "lost".into(),
            who: "controller".into(),
            object: "node n1".into(),
            detail: String::new(),
        };
        let want = "7 2026-01-01 00:30:00 +01:00 node n1 lost (controller)\n";
        assert_eq!(event_line(&event, &now), want);
    }

    #[test]
    fn command_lines() {
        let check = |args: &[&str], fine: bool| {
            let got = command().try_get_matches_from([&["cadm"], args].concat());
            assert_eq!(got.is_ok(), fine, "{args:?}");
        };
        check(&["node", "drain", "n[1-3]", "n7", "--reason", "disk"], true);
        check(&["node", "drain"], false);
        check(&["node", "drain", "n[1-1000000000]"], false);
        check(&["node", "token", "n9", "--valid", "90m"], true);
        check(&["node", "token", "n9", "--valid", "x"], false);
        check(&["node", "revoke", "n[1-3]", "-r", "stolen"], true);
        check(&["node", "revoke"], false);
        check(&["node", "explode", "n1"], false);
        check(&["queue", "close", "day"], true);
        check(&["queue", "close"], false);
        check(&["rule", "test", "job.sh", "--user", "ann", "-q", "day"], true);
        check(&["rule", "test", "--nodes", "x", "job.sh"], false);
        check(&["rule", "fields"], true);
        check(&["rule"], false);
        check(&["events", "--follow", "--after", "5"], true);
        check(&["events", "--after", "x"], false);
        check(&[], false);
    }
}
