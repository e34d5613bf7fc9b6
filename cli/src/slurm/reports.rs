//! What `squeue`, `sinfo`, `sacct` and the small reports share: what the cluster says of
//! its jobs, how values are to look here and now, and the ends of a command that shows.

use super::messages::say;
use super::{clusters, words};
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

/// A variable of the environment; empty ones and such that are no text are none.
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

/// A text about the command itself.
pub fn told(text: &str) -> u8 {
    output::print(text);
    exit::OK
}

/// A command line that cannot be read.
pub fn mistake(context: &Context, mistake: &UsageError) -> u8 {
    super::command_line::mistake(context, mistake)
}

/// Why a list could not be had, as `slurm_load_jobs error: ...`; gives the exit code.
pub fn failed(function: &str, error: &CallError) -> u8 {
    say(&format!("{function} error: {}", words::of_call(error)));
    exit::FAILED
}

/// The table in a reply, checked: it came from outside.
///
/// # Errors
/// No answer, or another one.
pub fn table(context: &Context, request: Request) -> Result<Table, CallError> {
    context.fetch_jobs(request)
}

/// What is asked of the cluster beside its jobs, each only where something shows it.
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

/// Asks for it; what cannot be had stays empty.
pub fn cluster_facts(context: &Context, wanted: NeededFacts, jobs: &Table) -> ClusterFacts {
    let mut around = ClusterFacts::default();
    if wanted.memory
        && let Ok(Reply::Queues(queues)) = context.ask(Request::Queues)
    {
        for q in queues {
            let limit = q.spec.default_time.or(q.spec.max_time);
            let limit = limit.unwrap_or(Span::UNLIMITED);
            around.default_limits.insert(q.spec.name.clone(), limit);
            if let Some(memory) = q.spec.default_memory_per_core {
                around.default_memory.insert(q.spec.name, memory);
            }
        }
    }
    if wanted.reservations
        && (0..jobs.rows).any(|r| jobs.number(r, JobField::Reservation).is_some())
    {
        let all = clusters::reservations(context).into_iter();
        let named = all.filter_map(|r| Some((i64::try_from(r.id.0).ok()?, reservation::name(&r))));
        around.reservations = named.collect();
    }
    if wanted.groups {
        for row in 0..jobs.rows {
            let gid = jobs.number(row, JobField::Gid);
            if let Some((gid, short)) = gid.and_then(|g| Some((g, u32::try_from(g).ok()?))) {
                around
                    .groups
                    .entry(gid)
                    .or_insert_with(|| users::group(short));
            }
        }
    }
    if wanted.cluster {
        around.cluster = cluster(context);
    }
    around
}

/// The cluster's name; empty while it does not answer.
pub fn cluster(context: &Context) -> String {
    match context.ask(Request::Ping) {
        Ok(Reply::Pong { cluster, .. }) => cluster,
        Ok(_) | Err(_) => String::new(),
    }
}

/// How values look here and now.
pub fn look(now: &Zoned, raw_sizes: bool) -> ValueStyle {
    ValueStyle {
        now: times::time_of(now),
        stamps: stamps(now),
        raw_sizes,
        bits: bits(variable("SLURM_BITSTR_LEN")),
    }
}

/// Points of time as `SLURM_TIME_FORMAT` wants them.
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
