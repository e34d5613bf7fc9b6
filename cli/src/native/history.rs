//! `chist`: ended jobs out of the controller's store; with `--steps` their steps, with
//! `--cost` what reservations cost.
//!
//! Without anything: the caller's own jobs that ended within the last 24 hours. Named by
//! id: those jobs, however long ago.

use crate::native::arg::{self, flag, json, number, parse_state, value, values};
use crate::native::job_table::{self, JobColumn};
use crate::native::{array_lines, cost, stat, steps};
use crate::{Context, exit, output, times};
use clap::{ArgMatches, Command};
use cosy_model::api::{JobField, JobFilter, Request};
use cosy_model::reservation::{ReservationFilter, ReservationInfo};
use cosy_model::{JobState, ReservationId, Span};
use jiff::Zoned;
use serde_json::json;

/// How far back without `--since`.
const BACK: Span = Span::from_minutes(24 * 60);

/// The command line of `chist`.
pub fn command() -> Command {
    arg::command("hist", "Show ended jobs: exit codes, times, CPU time, peak memory")
        .arg(arg::ids("These jobs, however long ago they ended"))
        .arg(flag("all", "Jobs of all users").short('A'))
        .arg(value(
            "since",
            "TIME",
            "Ended since: now-2h, 8:00, yesterday, 2026-11-21, RFC 3339 (default: 24 hours)",
        ))
        .arg(value("until", "TIME", "Started before"))
        .arg(values("user", "USER[,...]", "Jobs of these users").short('u'))
        .arg(values("queue", "QUEUE[,...]", "Jobs in these queues").short('q'))
        .arg(values("name", "NAME[,...]", "Jobs with these names").short('n'))
        .arg(
            values("state", "STATE[,...]", "Jobs that ended in these states")
                .short('s')
                .value_parser(parse_state),
        )
        .arg(value("most", "N", "The latest N only").value_parser(number(1, 1_000_000)))
        .arg(stat::format_arg())
        .arg(
            flag(
                "cost",
                "Reservations (by their IDs) with what they cost, and the sum of each account",
            )
            .conflicts_with_all(["format", "state"]),
        )
        .arg(
            flag("steps", "Ended steps of the jobs; of jobs named by ID also while they run")
                .conflicts_with_all(["format", "cost"]),
        )
        .arg(
            flag("array", "Each array task in a line of its own, also those that ended alike")
                .short('r')
                .conflicts_with_all(["cost", "steps"]),
        )
        .arg(flag("no-header", "No line of titles"))
        .arg(stat::verbose_arg())
        .arg(json())
        .after_help(stat::on_terminals(LEAVE))
}

/// Runs `chist`.
///
/// # Errors
/// A refusal, or no controller.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let now = times::now();
    let filter = filter(matches, &now)?;
    if matches.get_flag("cost") {
        return costs(context, matches, &filter);
    }
    let as_json = matches.get_flag("json");
    if matches.get_flag("steps") {
        return steps_of(context, matches, filter);
    }
    let format = matches.get_one::<Vec<JobField>>("format");
    let style = stat::table_style(matches);
    let columns = match format {
        Some(fields) => fields.iter().map(|f| JobColumn::Field(*f)).collect(),
        None => default_columns(filter.users.len() != 1, style.width.is_some()),
    };
    let fields = match format {
        Some(fields) => fields.clone(),
        None if as_json => JobField::ALL.to_vec(),
        None => array_lines::with_fields(job_table::fields_of(&columns)),
    };
    let named = !filter.ids.is_empty();
    let table = context.fetch_jobs(Request::History { filter, fields })?;
    let none = table.rows == 0;
    output::print(&match format {
        _ if as_json => stat::json_text(&json!({ "jobs": job_table::json(&table) })),
        Some(_) => job_table::list(&table, &columns, &[], &now, style.uncut()).text,
        None => {
            let every = matches.get_flag("array");
            stat::jobs_text(table, &columns, LEAVE, (&now, style), every, NONE)
        }
    });
    Ok(if named && none {
        none_of_these(context);
        exit::FAILED
    } else {
        exit::OK
    })
}

fn none_of_these(context: &Context) {
    let text = "none of these is in history: 'cstat ID' shows a job that has not ended";
    output::complain(context.program(), text);
}

fn steps_of(context: &Context, matches: &ArgMatches, filter: JobFilter) -> anyhow::Result<u8> {
    let named = !filter.ids.is_empty();
    let rows = steps::fetch(context, filter)?;
    output::print(&if matches.get_flag("json") {
        stat::json_text(&json!({ "steps": steps::json(&rows) }))
    } else {
        steps::list(&rows, &times::now(), stat::table_style(matches))
    });
    Ok(if named && rows.is_empty() {
        none_of_these(context);
        exit::FAILED
    } else {
        exit::OK
    })
}

/// `--cost`: without `--since` of all the time that the controller remembers.
fn costs(context: &Context, matches: &ArgMatches, filter: &JobFilter) -> anyhow::Result<u8> {
    let ids = reservation_ids(filter)?;
    let named = !ids.is_empty();
    let reservations = ReservationFilter {
        ids,
        ended: true,
        ..ReservationFilter::default()
    };
    let mut all = context.fetch_reservations(reservations)?;
    let since = filter.since.filter(|_| matches.contains_id("since"));
    cost::keep_period(&mut all, since, filter.until);
    all.retain(|r| matches_filter(r, filter));
    if let Some(most) = filter.most {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        all.drain(..all.len().saturating_sub(most));
    }
    output::print(&if matches.get_flag("json") {
        stat::json_text(&cost::json(&all))
    } else {
        cost::tables(&all, &times::now(), stat::table_style(matches))
    });
    Ok(if named && all.is_empty() {
        exit::FAILED
    } else {
        exit::OK
    })
}

fn reservation_ids(filter: &JobFilter) -> anyhow::Result<Vec<ReservationId>> {
    let one = |id: &cosy_model::api::JobRef| match id.task {
        None => Ok(ReservationId(id.job.0)),
        Some(_) => Err(exit::usage(format!("'{id}' is no id of a reservation"))),
    };
    filter.ids.iter().map(one).collect()
}

/// Users may be named by their numbers too.
fn matches_filter(r: &ReservationInfo, filter: &JobFilter) -> bool {
    let among = |all: &[String], one: &str| all.is_empty() || all.iter().any(|a| a == one);
    let user = among(&filter.users, &r.user) || among(&filter.users, &r.uid.to_string());
    user && among(&filter.queues, &r.queue) && among(&filter.names, &r.name)
}

fn filter(matches: &ArgMatches, now: &Zoned) -> anyhow::Result<JobFilter> {
    let mut filter = stat::filter(matches);
    filter.ids = arg::ids_of(matches);
    filter.since = arg::past(matches, "since", now)?;
    filter.until = arg::past(matches, "until", now)?;
    filter.most = matches.get_one("most").copied();
    if filter.states.is_empty() {
        filter.states = JobState::ALL.into_iter().filter(|s| s.is_end()).collect();
    }
    if !filter.ids.is_empty() && !matches.contains_id("user") {
        filter.users.clear();
    }
    if filter.ids.is_empty() && filter.since.is_none() {
        filter.since = Some(filter.until.unwrap_or(times::time_of(now)) - BACK);
    }
    Ok(filter)
}

/// What stands in the place of an empty list on a terminal.
const NONE: &str = "no jobs here that have ended: --since reaches further back, -A shows \
                    everyone's; 'cstat' has what waits and runs";

/// What a terminal too narrow for all columns has no room for, the first first.
const LEAVE: &[&str] = &[
    "TIME%", "CORES%", "MEM%", "QUEUE", "START", "CPU", "NODES", "MEMORY", "TIME", "USER", "END",
    "NAME", "EXIT",
];

/// The columns of the list. What was used in per cent is for people: programs that read the list have the
/// columns that they had.
fn default_columns(with_user: bool, on_terminal: bool) -> Vec<JobColumn> {
    use JobField as F;
    let mut shown = vec![
        JobColumn::Titled(F::Ref, "ID", None),
        JobColumn::Titled(F::Name, "NAME", Some(6)),
        JobColumn::Titled(F::Queue, "QUEUE", Some(5)),
        JobColumn::Titled(F::State, "STATE", Some(9)),
        JobColumn::Exit,
        JobColumn::Titled(F::Start, "START", None),
        JobColumn::Titled(F::End, "END", None),
        JobColumn::Titled(F::Elapsed, "TIME", None),
        JobColumn::Cpu,
        JobColumn::Titled(F::PeakMemory, "MEMORY", None),
        JobColumn::Nodes,
    ];
    if on_terminal {
        let used = [
            JobColumn::CoresUsed,
            JobColumn::MemoryUsed,
            JobColumn::TimeUsed,
        ];
        shown.extend(used);
    }
    if with_user {
        shown.insert(2, JobColumn::Titled(F::User, "USER", Some(6)));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters() {
        let now: Zoned = "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap();
        let get = |args: &[&str]| {
            let matches = command().try_get_matches_from([&["chist"], args].concat());
            filter(&matches.unwrap(), &now)
        };
        let own = get(&[]).unwrap();
        assert_eq!(own.since, Some(times::time_of(&now) - BACK));
        assert_eq!(own.users.len(), 1);
        assert!(own.states.iter().all(|s| s.is_end()));
        let named = get(&["12"]).unwrap();
        assert!(named.users.is_empty() && named.since.is_none());
        let span = get(&["-A", "--since", "8:00", "--until", "now-1h", "--most", "5"]).unwrap();
        assert_eq!(
            span.since.and_then(times::rfc3339).as_deref(),
            Some("2026-11-21T08:00:00.000Z")
        );
        assert_eq!(span.most, Some(5));
        assert!(get(&["--since", "foo"]).is_err());
    }

    #[test]
    fn the_guide_tells_what_is_left_out() {
        assert!(stat::tests::guide_has("chist", LEAVE));
    }

    #[test]
    fn whose_reservations() {
        use cosy_model::reservation::ReservationState;
        let ann = crate::native::reservations::sample(7, "ann", ReservationState::Ended); // uid 1000
        let check = |users: &[&str], queues: &[&str], want: bool| {
            let names = |all: &[&str]| all.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
            let filter = JobFilter {
                users: names(users),
                queues: names(queues),
                ..JobFilter::default()
            };
            assert_eq!(matches_filter(&ann, &filter), want, "{users:?} {queues:?}");
        };
        check(&[], &[], true);
        check(&["bob", "ann"], &["main"], true);
        check(&["1000"], &[], true);
        check(&["bob", "1001"], &[], false);
        check(&["ann"], &["night"], false);
    }
}
