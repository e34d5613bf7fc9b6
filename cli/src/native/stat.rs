//! `cstat`: jobs that wait and run, reservations, one job whole, queues, nodes, the plan.
//!
//! Without arguments: the caller's own jobs that have not ended; `--all` shows everyone's (as far
//! as the cluster lets one see them), `--ended` adds those that ended moments ago.

use crate::launch::usage;
use crate::native::arg::{self, flag, json, number, parse_state, values};
use crate::native::job_page::Live;
use crate::native::job_table::{self, JobColumn};
use crate::native::on_node;
use crate::native::record::{self, TimeStyle};
use crate::native::resv::words;
use crate::native::table::{self, TableStyle};
use crate::native::used::LiveUse;
use crate::native::{array_lines, job_page, node_list, plan, reservations, totals};
use crate::{Context, exit, output, refs, times};
use anyhow::anyhow;
use clap::{Arg, ArgMatches, Command};
use cosy_model::api::{JobField, JobFilter, JobRef, QueueInfo, Reply, Request, Table};
use cosy_model::policy::MoreUse;
use cosy_model::reservation::{ReservationFilter, ReservationInfo};
use cosy_model::{JobId, JobState, Span, Time};
use cosy_view::queue;
use jiff::Zoned;
use serde_json::{Value as Json, json};
use std::time::Duration;

/// The command line of `cstat`.
pub fn command() -> Command {
    arg::command("stat", "Show jobs and reservations, one job in full, queues, nodes, the plan")
        .override_usage("cstat [OPTIONS] [ID...]\n       cstat [OPTIONS] queues|nodes|plan|share")
        .arg(
            Arg::new("what")
                .value_name("ID|queues|nodes|plan|share")
                .help("Jobs in full (12, 12_3), all queues, all nodes, the plan as a chart, or your place by fair share")
                .num_args(0..),
        )
        .arg(flag("all", "Jobs of all users; with an ID: every field of the job").short('A'))
        .arg(flag("ended", "Also jobs that ended moments ago").short('E'))
        .arg(values("user", "USER[,...]", "Jobs of these users").short('u'))
        .arg(values("queue", "QUEUE[,...]", "Jobs in these queues").short('q'))
        .arg(
            values("state", "STATE[,...]", "Jobs in these states")
                .short('s')
                .value_parser(parse_state),
        )
        .arg(values("name", "NAME[,...]", "Jobs with these names").short('n'))
        .arg(
            values("node", "NODES", "Jobs on these nodes; with an ID: what it uses over time on them")
                .value_delimiter(None)
                .value_parser(crate::native::submit::options::hosts),
        )
        .arg(format_arg())
        .arg(flag("no-header", "No line of titles"))
        .arg(verbose_arg())
        .arg(
            flag("array", "Each array task in a line of its own, also those that stand alike")
                .short('r'),
        )
        .arg(flag("script", "The script of the job named"))
        .arg(flag(
            "stale-ok",
            "While no controller leads, let one that stands by answer, and say how old its answer is",
        ))
        .arg(arg::value(
            "until",
            "TIME",
            "With plan: until then: now+3d, tomorrow, RFC 3339 (default: 24 hours)",
        ))
        .arg(
            arg::value("after", "CORESxTIME", "With share: your place after one more job: 64x24:00:00")
                .value_parser(super::share::parse_more),
        )
        .arg(
            arg::value("watch", "SECONDS", "Repeat every 2 seconds, or every SECONDS")
                .num_args(0..=1)
                .default_missing_value("2")
                .allow_hyphen_values(false)
                .require_equals(false)
                .value_parser(number(1, 3600)),
        )
        .arg(json())
        .after_help(on_terminals(LEAVE))
}

/// What terminals have no room for, in words.
pub fn on_terminals(leave: &[&str]) -> String {
    format!(
        "On a terminal times of jobs are told as seen from now, and columns for which it has no room \
         are left out, in this order: {}. Pipes and files get everything.",
        leave.join(", ")
    )
}

/// `--verbose`, for lists that are short on a terminal.
pub fn verbose_arg() -> Arg {
    let help = "On a terminal: exact times, and nodes and tasks that ended differently in lines of \
                their own";
    flag("verbose", help).short('v')
}

/// `--format`, for lists of jobs.
pub fn format_arg() -> Arg {
    arg::value("format", "FIELD[,...]", "These fields (named as in --json)")
        .value_parser(parse_fields)
}

fn parse_fields(text: &str) -> Result<Vec<JobField>, String> {
    text.split(',').map(|f| f.trim().parse()).collect()
}

/// The kind of list or report that `cstat` prints.
enum Subject {
    List,
    Jobs(Vec<JobRef>),
    Queues,
    Nodes,
    Plan,
    Share,
}

fn subject(matches: &ArgMatches) -> anyhow::Result<Subject> {
    let words: Vec<String> = arg::list(matches, "what");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ids = match words.as_slice() {
        [] | ["jobs"] => return Ok(Subject::List),
        ["queues" | "queue"] => return Ok(Subject::Queues),
        ["nodes" | "node"] => return Ok(Subject::Nodes),
        ["plan"] => return Ok(Subject::Plan),
        ["share" | "shares"] => return Ok(Subject::Share),
        ["job" | "jobs", ids @ ..] => ids,
        ids => ids,
    };
    let mut all = Vec::new();
    for id in ids {
        all.extend(refs::jobs(id).map_err(exit::usage)?);
    }
    if all.is_empty() {
        return Err(exit::usage("a job id is needed"));
    }
    Ok(Subject::Jobs(all))
}

/// Refuses what only one of the lists knows where another one is asked for.
fn check_belongs(matches: &ArgMatches, what: &Subject) -> Result<(), &'static str> {
    if matches.contains_id("after") && !matches!(what, Subject::Share) {
        return Err(
            "--after is told with your place by fair share: cstat share --after 64x24:00:00",
        );
    }
    if matches.contains_id("until") && !matches!(what, Subject::Plan) {
        return Err("--until is how far the plan goes: cstat plan --until now+3d");
    }
    if matches.get_flag("verbose") && matches!(what, Subject::Plan | Subject::Share) {
        return Err("--verbose is for jobs, nodes and queues: cstat -v, cstat nodes -v");
    }
    Ok(())
}

/// Runs `cstat`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    if matches.get_flag("stale-ok") {
        context.accept_stale();
    }
    let what = subject(matches)?;
    check_belongs(matches, &what).map_err(exit::usage)?;
    let Some(seconds) = matches.get_one::<u32>("watch") else {
        let (text, code) = once(context, matches, &what)?;
        output::print(&text);
        return Ok(code);
    };
    let clear = if output::width().is_some() {
        "\u{1b}[H\u{1b}[2J"
    } else {
        ""
    };
    loop {
        let (text, _) = once(context, matches, &what)?;
        let now = times::now().strftime("%Y-%m-%d %H:%M:%S").to_string();
        let title = if matches.get_flag("json") {
            String::new()
        } else {
            format!("{now}\n")
        };
        output::print(&format!("{clear}{title}{text}"));
        std::thread::sleep(Duration::from_secs((*seconds).into()));
    }
}

fn once(context: &Context, matches: &ArgMatches, what: &Subject) -> anyhow::Result<(String, u8)> {
    let as_json = matches.get_flag("json");
    let style = table_style(matches);
    let fine = |text| Ok((text, exit::OK));
    match what {
        Subject::Jobs(ids) if matches.get_flag("script") => fine(scripts(context, ids)?),
        Subject::Jobs(ids) if matches.contains_id("node") => {
            let nodes = matches.get_one::<Vec<String>>("node");
            let nodes = nodes.map_or(&[][..], Vec::as_slice);
            fine(on_node::text(context, (ids, nodes), as_json)?)
        }
        Subject::Jobs(ids) => job_details(context, matches, ids, style),
        Subject::List => fine(list(context, matches, as_json, style)?),
        Subject::Plan => fine(plan_text(context, matches, as_json)?),
        Subject::Share => {
            let more = matches
                .get_one::<(u32, Span)>("after")
                .map(|after| MoreUse {
                    cores: after.0,
                    length: after.1,
                    queue: arg::list(matches, "queue").into_iter().next(),
                });
            let users: Vec<String> = arg::list(matches, "user");
            fine(super::share::text(context, &users, more.as_ref(), as_json)?)
        }
        Subject::Queues => match context.ask(Request::Queues)? {
            Reply::Queues(all) if as_json => {
                fine(json_text(&json!({ "queues": queues_json(&all) })))
            }
            Reply::Queues(all) => fine(queues(&all, style)),
            _ => Err(cosy_client::CallError::Unexpected.into()),
        },
        Subject::Nodes => match context.ask(Request::Nodes)? {
            Reply::Nodes(all) if as_json => {
                fine(json_text(&json!({ "nodes": node_list::json(&all) })))
            }
            Reply::Nodes(all) => fine(node_list::text(&all, style)),
            _ => Err(cosy_client::CallError::Unexpected.into()),
        },
    }
}

/// The style of tables for standard output, with `--no-header`.
pub fn table_style(matches: &ArgMatches) -> TableStyle {
    TableStyle {
        width: output::width(),
        colour: output::colour(),
        bare: matches.get_flag("no-header"),
        exact: matches!(arg::optional(matches, "verbose"), Some(true)),
    }
}

/// JSON as text, indented, with a line break at the end.
pub fn json_text(json: &Json) -> String {
    format!("{json:#}\n")
}

/// Conditions that `cstat`, `ccancel` and `chist` share: `-u -q -n -s` and `--all`; the
/// caller's own jobs when no user is named.
pub fn filter(matches: &ArgMatches) -> JobFilter {
    let mut filter = JobFilter {
        users: arg::list(matches, "user"),
        queues: arg::list(matches, "queue"),
        names: arg::list(matches, "name"),
        states: arg::list(matches, "state"),
        ..JobFilter::default()
    };
    if filter.users.is_empty() && !matches.get_flag("all") {
        filter.users = vec![rustix::process::getuid().as_raw().to_string()];
    }
    filter
}

fn list(
    context: &Context,
    matches: &ArgMatches,
    as_json: bool,
    style: TableStyle,
) -> anyhow::Result<String> {
    let mut filter = filter(matches);
    if let Some(nodes) = matches.get_one::<Vec<String>>("node") {
        filter.nodes.clone_from(nodes);
    }
    if filter.states.is_empty() && !matches.get_flag("ended") {
        filter.states = JobState::ALL.into_iter().filter(|s| !s.is_end()).collect();
    }
    let format = matches.get_one::<Vec<JobField>>("format");
    let columns = match format {
        Some(fields) => fields.iter().map(|f| JobColumn::Field(*f)).collect(),
        None => default_columns(matches.get_flag("all") || matches.contains_id("user")),
    };
    let fields = match format {
        Some(fields) => fields.clone(),
        None if as_json => JobField::ALL.to_vec(),
        None => array_lines::with_fields(job_table::fields_of(&columns)),
    };
    let fold_arrays = !matches.get_flag("array");
    let request = Request::Jobs {
        filter,
        fields,
        fold_arrays,
    };
    let table = context.fetch_jobs(request)?;
    let reserved = live_reservations(context, matches)?;
    if as_json {
        let mut all = json!({ "jobs": job_table::json(&table) });
        if let Some(reserved) = reserved {
            all["reservations"] = reserved.iter().map(reservations::json).collect();
        }
        return Ok(json_text(&all));
    }
    let now = times::now();
    let mut text = match format {
        Some(_) => job_table::list(&table, &columns, &[], &now, style.uncut()).text,
        None => jobs_text(table, &columns, LEAVE, (&now, style), !fold_arrays, NONE),
    };
    let most = if matches.get_flag("all") {
        usize::MAX
    } else {
        SHORT_LIST
    };
    let reserved = reservations::list(&reserved.unwrap_or_default(), &now, style, most);
    if !reserved.is_empty() {
        text.push('\n');
        text.push_str(&reserved);
    }
    Ok(text)
}

/// What stands in the place of an empty list on a terminal.
const NONE: &str = "no jobs here that wait or run: -E adds those that ended moments ago, -A \
                    everyone's; 'chist' has what ended before";

/// A list of jobs for people: ended tasks of arrays share lines unless `every` has a line of its own,
/// and on a terminal a line below tells how many there are, or `none` that there are none.
pub fn jobs_text(
    table: Table,
    columns: &[JobColumn],
    leave: &[&str],
    (now, style): (&Zoned, TableStyle),
    every: bool,
    none: &str,
) -> String {
    let told_below = style.width.is_some() && !style.bare;
    if table.rows == 0 && told_below {
        return table::dimmed(none, style);
    }
    let total = told_below.then(|| totals::of_jobs(&table));
    let lines = match every {
        true => table,
        false => totals::folded(table, style),
    };
    let rendered = job_table::list(&lines, columns, leave, now, style);
    totals::below(rendered, &total.unwrap_or_default(), style)
}

/// Reservations shown below the jobs without `--all`.
const SHORT_LIST: usize = 20;

/// The reservations that hold nodes now or later: everyone's, for they keep everyone's jobs
/// from nodes. `None` where the list was asked for in a way that only jobs can meet, or
/// for a program.
fn live_reservations(
    context: &Context,
    matches: &ArgMatches,
) -> anyhow::Result<Option<Vec<ReservationInfo>>> {
    let only_jobs = ["state", "name", "node", "format"].iter();
    if matches.get_flag("no-header") || only_jobs.into_iter().any(|o| matches.contains_id(o)) {
        return Ok(None);
    }
    let filter = ReservationFilter {
        users: arg::list(matches, "user"),
        ..ReservationFilter::default()
    };
    let mut all = match context.fetch_reservations(filter) {
        Ok(all) => all,
        // The jobs are there: they are shown all the same.
        Err(cosy_client::CallError::Refused(refusal)) => {
            output::complain(context.program(), &refusal.message);
            return Ok(None);
        }
        Err(e) => return Err(e.into()),
    };
    let queues: Vec<String> = arg::list(matches, "queue");
    all.retain(|r| r.state.is_live() && (queues.is_empty() || queues.contains(&r.queue)));
    Ok(Some(all))
}

fn plan_text(context: &Context, matches: &ArgMatches, json: bool) -> anyhow::Result<String> {
    let time = |text: &String| -> anyhow::Result<Time> {
        times::parse(text, &times::now(), times::Direction::Future)
            .map_err(|e| exit::usage(format!("--until: '{text}' is {e}")))
    };
    let nodes = matches.get_one::<Vec<String>>("node");
    let query = plan::PlanQuery {
        until: matches.get_one::<String>("until").map(time).transpose()?,
        nodes: nodes.map_or(&[], Vec::as_slice),
        json,
    };
    plan::show(context, &query)
}

/// What a terminal too narrow for all columns has no room for, the first first.
pub(super) const LEAVE: &[&str] = &[
    "QUEUE",
    "TIME",
    "NODES",
    "CORES",
    "LIMIT",
    "START",
    "NODES OR REASON",
    "USER",
    "NAME",
];

/// The columns of jobs that are live; with their users where these may be several.
pub(super) fn default_columns(with_user: bool) -> Vec<JobColumn> {
    use JobField as F;
    let mut shown = vec![
        JobColumn::Titled(F::Ref, "ID", None),
        JobColumn::Titled(F::Name, "NAME", Some(6)),
        JobColumn::Titled(F::Queue, "QUEUE", Some(5)),
        JobColumn::Titled(F::State, "STATE", Some(9)),
        JobColumn::Titled(F::Elapsed, "TIME", None),
        JobColumn::Titled(F::TimeLimit, "LIMIT", None),
        JobColumn::Titled(F::NodeCount, "NODES", None),
        JobColumn::Titled(F::Cores, "CORES", None),
        JobColumn::Start,
        JobColumn::Where,
    ];
    if with_user {
        shown.insert(2, JobColumn::Titled(F::User, "USER", Some(6)));
    }
    shown
}

fn job_details(
    context: &Context,
    matches: &ArgMatches,
    ids: &[JobRef],
    style: TableStyle,
) -> anyhow::Result<(String, u8)> {
    let (as_json, all) = (matches.get_flag("json"), matches.get_flag("all"));
    let mut texts = Vec::new();
    let mut objects = Vec::new();
    let mut code = exit::OK;
    for id in ids {
        let (table, sentences) = match context.ask(Request::Explain { job: *id }) {
            Ok(Reply::Explained { table, lines }) if table.is_sound() => (table, lines),
            Ok(_) => return Err(cosy_client::CallError::Unexpected.into()),
            Err(cosy_client::CallError::Refused(refusal)) => {
                output::complain(context.program(), &refusal.message);
                code = exit::FAILED;
                continue;
            }
            Err(e) => return Err(e.into()),
        };
        if as_json {
            for mut job in job_table::json(&table) {
                job["explanation"] = sentences.clone().into();
                objects.push(job);
            }
        } else {
            let every = matches.get_flag("array");
            texts.push(explanation(table, &sentences, (all, every), style));
        }
    }
    let text = if as_json {
        json_text(&json!({ "jobs": objects }))
    } else {
        texts.join("\n")
    };
    Ok((text, code))
}

/// One job, or the tasks of an array. On a terminal a person reads it: `all` tells every field, `every`
/// gives each task a line of its own.
fn explanation(
    table: Table,
    sentences: &[String],
    (all, every): (bool, bool),
    style: TableStyle,
) -> String {
    let now = times::now();
    if table.rows == 1 && style.width.is_some() {
        return job_page::text((&table, 0, &live_use(&table)), sentences, all, &now, style);
    }
    let columns = default_columns(true);
    let mut text = match (table.rows, style.width) {
        (1, _) => job_table::block(&table, 0, &now),
        (_, Some(_)) => jobs_text(table, &columns, LEAVE, (&now, style), every, NONE),
        (_, None) => job_table::list(&table, &columns, &[], &now, style).text,
    };
    for sentence in sentences {
        match style.width {
            Some(_) => text.push_str(&table::dimmed(&words::local_times(sentence, &now), style)),
            None => text.extend([table::shown(sentence).as_str(), "\n"]),
        }
    }
    text
}

/// For so long the node of a job is asked what it uses.
const NODE_ANSWER: Duration = Duration::from_secs(1);

/// What an own running job uses now.
fn live_use(table: &Table) -> Live {
    let own = rustix::process::getuid();
    let is_own = table.number(0, JobField::Uid) == Some(i64::from(own.as_raw()));
    let runs = table.text(0, JobField::State) == JobState::Running.word();
    let id = table
        .number(0, JobField::Id)
        .and_then(|id| u64::try_from(id).ok());
    let asked = id.filter(|_| runs && (is_own || own.is_root()));
    let told = asked.and_then(|id| usage::within(NODE_ANSWER, JobId(id)));
    let (used, samples) = told.unwrap_or_default();
    Live {
        used: LiveUse::of(&used),
        samples: samples.unwrap_or_default(),
    }
}

fn scripts(context: &Context, ids: &[JobRef]) -> anyhow::Result<String> {
    let [id] = ids else {
        return Err(exit::usage("--script shows one job's script: name one job"));
    };
    match context.ask(Request::Script { job: *id })? {
        Reply::Script(text) if text.is_empty() => {
            Err(anyhow!("job {id} is a command, not a script"))
        }
        Reply::Script(text) => Ok(match output::width() {
            // A script of somebody else must not change an administrator's terminal.
            Some(_) => table::shown_lines(&text.lossy()),
            None => text.lossy(),
        }),
        _ => Err(cosy_client::CallError::Unexpected.into()),
    }
}

fn queues(all: &[QueueInfo], style: TableStyle) -> String {
    record::list(queue::LIST, all, TimeStyle::in_lists(&times::now()), style)
}

fn queues_json(all: &[QueueInfo]) -> Vec<Json> {
    let fields = all.iter().map(queue::fields);
    fields.map(|f| record::json(&f)).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn words() {
        let check = |args: &[&str], want: Option<usize>| {
            let matches = command()
                .try_get_matches_from([&["cstat"], args].concat())
                .unwrap();
            let got = subject(&matches).ok().map(|w| match w {
                Subject::List => 0,
                Subject::Jobs(ids) => ids.len(),
                Subject::Queues => 100,
                Subject::Nodes => 101,
                Subject::Plan => 102,
                Subject::Share => 103,
            });
            assert_eq!(got, want, "{args:?}");
        };
        check(&[], Some(0));
        check(&["jobs"], Some(0));
        check(&["--watch"], Some(0));
        check(&["--watch", "5", "queues"], Some(100));
        check(&["nodes", "--watch"], Some(101));
        check(&["12", "13_[1-3]"], Some(4));
        check(&["job", "12"], Some(1));
        check(&["job"], None);
        check(&["nonsense"], None);
        check(&["queues", "nodes"], None);
        check(&["plan", "--until", "now+3d", "--node", "n1"], Some(102));
        check(&["plan", "12"], None);
        check(&["share"], Some(103));
        check(&["share", "12"], None);
    }

    /// Whether the guide tells the order in which a list leaves columns out.
    pub fn guide_has(name: &str, leave: &[&str]) -> bool {
        let guide = include_str!("../../../docs/user-guide.md");
        let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
        guide.contains(&format!("of `{name}` {}", leave.join(", ")))
    }

    #[test]
    fn the_guide_tells_what_is_left_out() {
        assert!(guide_has("cstat", LEAVE));
        let help = command().render_help().to_string();
        assert!(help.contains("in this order: QUEUE, TIME,"), "{help}");
    }

    #[test]
    fn options_of_one_list() {
        let check = |args: &[&str], want: Option<&str>| {
            let matches = command()
                .try_get_matches_from([&["cstat"], args].concat())
                .unwrap();
            let told = check_belongs(&matches, &subject(&matches).unwrap()).err();
            let begins = told.map(|text| text.split(' ').next().unwrap());
            assert_eq!(begins, want, "{args:?}");
            assert!(told.is_none_or(|text| text.contains(": cstat ")), "{told:?}");
        };
        check(&["share", "--after", "4x90"], None);
        check(&["plan", "--until", "now+3d"], None);
        check(&["--until", "now+3d"], Some("--until"));
        check(&["share", "--until", "now+3d"], Some("--until"));
        check(&["--after", "4x90"], Some("--after"));
        check(&["12", "--after", "4x90"], Some("--after"));
        check(&["plan", "--after", "4x90"], Some("--after"));
        check(&["queues"], None);
        check(&["-v"], None);
        check(&["nodes", "-v"], None);
        check(&["plan", "-v"], Some("--verbose"));
        check(&["share", "--verbose"], Some("--verbose"));
    }

    #[test]
    fn nonsense() {
        for args in [
            &["-s", "sleeping"][..],
            &["--watch=0"],
            &["--watch=x"],
            &["--format", "id,size"],
            &["--node", "n[1-1000000000]"],
            &["-u", ""],
        ] {
            let result = command().try_get_matches_from([&["cstat"], args].concat());
            assert!(result.is_err(), "{args:?}");
        }
    }
}
