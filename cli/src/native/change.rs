//! `cosy hold`, `release`, `requeue` and `change`.

use crate::native::arg::{self, json, number, parse_limit, parse_name, value, values};
use crate::native::submit::options::{comment, hosts, nice};
use crate::signals::outlive_own_job;
use crate::{Context, exit, output, refs, times};
use clap::{ArgMatches, Command};
use cosy_model::api::{JobChange, JobFilter, Reply, Request};
use cosy_model::job::{MemoryRequest, SwitchRequest};
use cosy_model::limits::{ARRAY_INDEX, NODE_CORES, NODES};
use cosy_model::{Dependency, MiB, Span};
use serde_json::json;

fn ids_command(name: &'static str, about: &'static str) -> Command {
    arg::command(name, about)
        .arg(arg::some_ids("Jobs: 12, a task 12_3, some tasks 12_[3-7]"))
        .arg(json())
}

/// The command line of `cosy hold`.
pub fn hold_command() -> Command {
    ids_command("hold", "Keep waiting jobs from starting")
}

/// The command line of `cosy release`.
pub fn release_command() -> Command {
    ids_command("release", "Let held jobs go")
}

/// The command line of `cosy requeue`.
pub fn requeue_command() -> Command {
    ids_command("requeue", "Put running jobs back into the queue")
}

fn job_filter(matches: &ArgMatches) -> JobFilter {
    JobFilter {
        ids: arg::ids_of(matches),
        ..JobFilter::default()
    }
}

/// Runs `cosy hold`.
///
/// # Errors
/// A refusal, or no controller.
pub fn hold(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let filter = job_filter(matches);
    let reply = context.ask(Request::Hold {
        filter,
        as_user: false,
    })?;
    report(context, reply, matches.get_flag("json"))
}

/// Runs `cosy release`.
///
/// # Errors
/// A refusal, or no controller.
pub fn release(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let filter = job_filter(matches);
    let reply = context.ask(Request::Release { filter })?;
    report(context, reply, matches.get_flag("json"))
}

/// Runs `cosy requeue`.
///
/// # Errors
/// A refusal, or no controller.
pub fn requeue(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let filter = job_filter(matches);
    outlive_own_job();
    let reply = context.ask(Request::Requeue {
        filter,
        hold: false,
        special: false,
    })?;
    report(context, reply, matches.get_flag("json"))
}

/// Reports the refusals in a reply; exit code 1 when there are some.
///
/// # Errors
/// Not the reply to such a request.
pub fn report(context: &Context, reply: Reply, as_json: bool) -> anyhow::Result<u8> {
    let Reply::Done { changed, refused } = reply else {
        return Err(cosy_client::CallError::Unexpected.into());
    };
    for (object, refusal) in &refused {
        output::complain(context.program(), &format!("{object}: {}", refusal.message));
    }
    if as_json {
        let refused: Vec<_> = refused
            .iter()
            .map(|(object, r)| json!({ "object": object, "code": r.code, "message": r.message }))
            .collect();
        let done = json!({ "changed": changed, "refused": refused });
        output::print(&crate::native::stat::json_text(&done));
    } else if changed == 0 && refused.is_empty() {
        output::complain(context.program(), "nothing matched, nothing was changed");
    }
    Ok(if refused.is_empty() {
        exit::OK
    } else {
        exit::FAILED
    })
}

/// Carries out and reports; silent when all is well.
pub fn carry_out(context: &Context, request: Request, matches: &ArgMatches) -> anyhow::Result<u8> {
    let reply = context.ask(request)?;
    let as_json = matches.get_flag("json");
    match reply {
        // Already as it was asked to be: that is no trouble.
        Reply::Done {
            changed: 0,
            refused,
        } if refused.is_empty() && !as_json => Ok(exit::OK),
        reply => report(context, reply, as_json),
    }
}

/// The command line of `cosy change`.
pub fn command() -> Command {
    ids_command("change", "Change waiting jobs")
        .arg(
            value("name", "NAME", "Name")
                .short('J')
                .value_parser(parse_name),
        )
        .arg(
            value("queue", "NAME", "Queue")
                .short('q')
                .value_parser(parse_name),
        )
        .arg(value("account", "NAME", "Account").value_parser(parse_name))
        .arg(value("qos", "NAME", "Quality of service").value_parser(parse_name))
        .arg(value("comment", "TEXT", "Comment").value_parser(comment))
        .arg(
            value("time", "LIMIT", "Time limit")
                .short('t')
                .value_parser(parse_limit),
        )
        .arg(
            value("nodes", "N", "Number of nodes")
                .short('N')
                .value_parser(number(1, NODES as u32)),
        )
        .arg(
            value("tasks", "N", "Number of tasks")
                .short('n')
                .value_parser(number(1, 10_000_000)),
        )
        .arg(
            value("cores-per-task", "N", "Cores of each task")
                .short('c')
                .value_parser(number(1, NODE_CORES)),
        )
        .arg(value("mem", "SIZE", "Memory on each node").value_parser(clap::value_parser!(MiB)))
        .arg(
            value("mem-per-core", "SIZE", "Memory for each core")
                .value_parser(clap::value_parser!(MiB))
                .conflicts_with("mem"),
        )
        .arg(value("begin", "TIME", "Not before this time"))
        .arg(value("nice", "N", "Nice value").value_parser(nice))
        .arg(
            value("site-factor", "N", "Points of the site in queues with weights (administrators)")
                .value_parser(nice),
        )
        .arg(value("requeue", "yes|no", "Run again after a node was lost").value_parser(yes_no))
        .arg(values("features", "NAME[,...]", "Features").short('C'))
        .arg(value("prefer", "NODES", "Nodes to take first").value_parser(hosts))
        .arg(value("avoid", "NODES", "Nodes not to take").value_parser(hosts))
        .arg(values("sets", "SET[,...]", "Node sets in order"))
        .arg(
            value("switches", "N[@TIME]", "Most switches, and how long it waits for them; 0: any")
                .value_parser(SwitchRequest::of_change),
        )
        .arg(
            value("depend", "LIST", "Conditions, in place of all present ones")
                .short('d')
                .value_parser(refs::dependencies),
        )
        .arg(
            value("at-once", "N", "Array tasks at once, at most; 0 is no limit")
                .value_parser(number(0, ARRAY_INDEX)),
        )
}

fn yes_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("yes or no is needed".to_owned()),
    }
}

/// Runs `cosy change`.
///
/// # Errors
/// Nothing to change, a refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let change = change(matches)?;
    if change == JobChange::default() {
        return Err(exit::usage("change what? Give at least one of the options"));
    }
    let reply = context.ask(Request::Change {
        filter: job_filter(matches),
        change: Box::new(change),
    })?;
    report(context, reply, matches.get_flag("json"))
}

fn change(m: &ArgMatches) -> anyhow::Result<JobChange> {
    let begin = m
        .get_one::<String>("begin")
        .map(|text| {
            times::parse(text, &times::now(), times::Direction::Future)
                .map_err(|e| exit::usage(format!("--begin: '{text}' is {e}")))
        })
        .transpose()?;
    let per_node = m.get_one::<MiB>("mem").copied().map(MemoryRequest::PerNode);
    let per_core = m
        .get_one::<MiB>("mem-per-core")
        .copied()
        .map(MemoryRequest::PerCore);
    let text = |name| m.get_one::<String>(name).cloned();
    let count = |name| m.get_one::<u32>(name).copied();
    let names = |name| m.contains_id(name).then(|| arg::list(m, name));
    let hosts = |name| m.get_one::<Vec<String>>(name).cloned();
    Ok(JobChange {
        name: text("name"),
        queue: text("queue"),
        account: text("account"),
        qos: text("qos"),
        comment: text("comment"),
        time_limit: m.get_one::<Span>("time").copied(),
        nodes: count("nodes"),
        tasks: count("tasks"),
        cores_per_task: count("cores-per-task"),
        memory: per_node.or(per_core),
        begin,
        nice: m.get_one::<i64>("nice").copied(),
        site_factor: m.get_one::<i64>("site-factor").copied(),
        requeue: m.get_one::<bool>("requeue").copied(),
        features: names("features"),
        prefer: hosts("prefer"),
        avoid: hosts("avoid"),
        sets: names("sets"),
        switches: m.get_one::<SwitchRequest>("switches").copied(),
        dependencies: m.get_one::<Vec<Dependency>>("depend").cloned(),
        at_once: count("at-once"),
        ..JobChange::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes() {
        let check = |args: &[&str], want: Option<JobChange>| {
            let matches = command().try_get_matches_from([&["cosy change", "12"], args].concat());
            assert_eq!(matches.ok().and_then(|m| change(&m).ok()), want, "{args:?}");
        };
        let none = JobChange::default;
        check(&[], Some(none()));
        check(
            &["--time", "10", "--nodes", "3", "--requeue", "no"],
            Some(JobChange {
                time_limit: Some(Span::from_minutes(10)),
                nodes: Some(3),
                requeue: Some(false),
                ..none()
            }),
        );
        check(
            &["--mem-per-core", "1G", "--sets", "a,b", "--at-once", "0"],
            Some(JobChange {
                memory: Some(MemoryRequest::PerCore(MiB(1024))),
                sets: Some(vec!["a".into(), "b".into()]),
                at_once: Some(0),
                ..none()
            }),
        );
        check(&["--time", "x"], None);
        check(&["--begin", "x"], None);
        check(&["--requeue", "maybe"], None);
        check(&["--mem", "1G", "--mem-per-core", "1G"], None);
        assert!(command().try_get_matches_from(["cosy change"]).is_err());
    }
}
