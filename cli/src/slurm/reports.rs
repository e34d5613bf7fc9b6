//! What `squeue`, `sinfo`, `sacct` and the small reports share: facts of the cluster beside its jobs,
//! the style of values, and the answers to `--help`, `--version` and failed requests.

use super::messages::say;
use super::{names, words};
use crate::{Context, exit, output, times, users};
use cosy_client::CallError;
use cosy_model::Span;
use cosy_model::api::{JobField, Reply, Request, Table};
use cosy_slurm::getopt::UsageError;
use cosy_slurm::job::ClusterFacts;
use cosy_slurm::show::reservation;
use cosy_slurm::squeue::cells::{BITS, ValueStyle};
use cosy_slurm::table::{self, Row};
use cosy_slurm::times::{TimeFormat, TimeWriter};
use jiff::Zoned;

/// A variable of the environment; `None` also where it is empty or no UTF-8.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// The version line on standard output.
pub fn version() -> u8 {
    super::command_line::version()
}

/// The release whose behaviour these commands have: `22.05.11`.
pub fn release() -> &'static str {
    super::command_line::VERSION.trim_start_matches("slurm ")
}

/// Answers `--help`; gives the exit code.
pub fn help(context: &Context, options: &[Row]) -> u8 {
    let usage = format!("{} [OPTIONS]", context.program());
    output::print(&table::help(&usage, options));
    exit::OK
}

/// Answers `--usage`; gives the exit code.
pub fn usage(context: &Context, options: &[Row]) -> u8 {
    output::print(&table::synopsis(context.program(), options));
    exit::OK
}

/// Prints a text about the command itself; gives the exit code.
pub fn print_text(text: &str) -> u8 {
    output::print(text);
    exit::OK
}

/// Reports an error on the command line; gives the exit code.
pub fn mistake(context: &Context, mistake: &UsageError) -> u8 {
    super::command_line::mistake(context, mistake)
}

/// Reports that a request failed, as `slurm_load_jobs error: ...`; gives the exit code.
pub fn failed(function: &str, error: &CallError) -> u8 {
    say(&format!("{function} error: {}", words::of_call(error)));
    exit::FAILED
}

/// The whole table of jobs that a request asks for.
///
/// # Errors
/// No answer, a refusal, or an answer that is no table.
pub fn table(context: &Context, request: Request) -> Result<Table, CallError> {
    context.fetch_jobs(request)
}

/// Facts of the cluster beside its jobs that a report shows; only these are requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NeededFacts {
    /// Memory and time limits that queues give by default.
    pub memory: bool,
    /// Names of reservations.
    pub reservations: bool,
    /// Names of groups.
    pub groups: bool,
    /// The cluster's name.
    pub cluster: bool,
}

/// Requests these facts for the jobs of a table; those that cannot be had stay empty.
pub fn cluster_facts(context: &Context, needed: NeededFacts, jobs: &Table) -> ClusterFacts {
    let mut facts = ClusterFacts::default();
    if needed.memory
        && let Ok(Reply::Queues(queues)) = context.ask(Request::Queues)
    {
        for q in queues {
            let limit = q.spec.default_time.or(q.spec.max_time);
            let limit = limit.unwrap_or(Span::UNLIMITED);
            facts.default_limits.insert(q.spec.name.clone(), limit);
            if let Some(memory) = q.spec.default_memory_per_core {
                facts.default_memory.insert(q.spec.name, memory);
            }
        }
    }
    if needed.reservations
        && (0..jobs.rows).any(|r| jobs.number(r, JobField::Reservation).is_some())
    {
        let all = names::reservations(context).into_iter();
        let named = all.filter_map(|r| Some((i64::try_from(r.id.0).ok()?, reservation::name(&r))));
        facts.reservations = named.collect();
    }
    if needed.groups {
        for row in 0..jobs.rows {
            let gid = jobs.number(row, JobField::Gid);
            if let Some((gid, short)) = gid.and_then(|g| Some((g, u32::try_from(g).ok()?))) {
                facts
                    .groups
                    .entry(gid)
                    .or_insert_with(|| users::group(short));
            }
        }
    }
    if needed.cluster {
        facts.cluster = cluster(context);
    }
    facts
}

/// The cluster's name; empty when the controller does not answer.
pub fn cluster(context: &Context) -> String {
    match context.ask(Request::Ping) {
        Ok(Reply::Pong { cluster, .. }) => cluster,
        Ok(_) | Err(_) => String::new(),
    }
}

/// How values are written: with the present, and the formats that variables ask for.
pub fn value_style(now: &Zoned, raw_sizes: bool) -> ValueStyle {
    ValueStyle {
        now: times::time_of(now),
        stamps: stamps(now),
        raw_sizes,
        bits: bits(variable("SLURM_BITSTR_LEN")),
    }
}

/// The format of points in time, by `SLURM_TIME_FORMAT`.
pub fn stamps(now: &Zoned) -> TimeWriter {
    let form = variable("SLURM_TIME_FORMAT");
    TimeWriter::new(now, form.as_deref().map_or(TimeFormat::Standard, Into::into))
}

fn bits(text: Option<String>) -> Option<usize> {
    match text.and_then(|t| t.parse::<usize>().ok()) {
        Some(0) => None,
        Some(most) => Some(most),
        None => Some(BITS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_task_expressions() {
        let check = |text: Option<&str>, want| {
            assert_eq!(bits(text.map(str::to_owned)), want, "{text:?}");
        };
        check(None, Some(BITS));
        check(Some("0"), None);
        check(Some("200"), Some(200));
        check(Some("x"), Some(BITS));
    }

    #[test]
    fn releases() {
        assert_eq!(release(), "22.05.11");
    }
}
