//! The request for a workflow: its file, with the options of the command line over it.

use crate::exit;
use crate::native::arg::{flag, parse_name, value};
use crate::native::flow::amounts;
use crate::native::flow::file::{self, SourceFile};
use crate::native::flow::source_lines::SourceLines;
use crate::native::resv::{self, request as reservation, window};
use crate::times::{self, Direction};
use clap::{Arg, ArgMatches};
use cosy_model::workflow::{FlowDeadline, FlowScheduler, FlowSlackPolicy, FlowSpec, Overrun};
use cosy_model::{Su, Time};
use jiff::Zoned;
use std::ffi::OsString;

/// A workflow as the command line and its file describe it.
pub struct FlowRequest {
    /// The workflow, ready to be sent.
    pub spec: FlowSpec,
    /// The present, in the zone in which times are read and shown.
    pub now: Zoned,
    /// Lines of the file, for errors of the controller.
    pub source_lines: SourceLines,
}

/// The options that override values of the file.
pub fn args() -> [Arg; 12] {
    [
        value("finish-by", "TIME", "Deadline: now+6h, 16:30, 'tomorrow 8:00', RFC 3339")
            .conflicts_with("slack"),
        value(
            "slack",
            "SHARE",
            "Deadline: this share longer than the shortest schedule, like 50%",
        )
        .value_parser(amounts::share),
        value("not-before", "TIME", "No task starts before"),
        value("scheduler", "NAME", "How the first schedule is made: heft, hbmct (the default), fcp, dls")
            .value_parser(scheduler),
        value(
            "slack-policy",
            "NAME",
            "How spare time is shared out: r_even_time, r_even_percent1, r_cp_first, r_even_percent2, cp_even_time, cp_even_percent (the default)",
        )
        .value_parser(slack_policy),
        value(
            "threshold",
            "SHARE",
            "Sharing out ends when less spare time is left than this share of the schedule (default: 5%)",
        )
        .value_parser(amounts::share),
        flag("early", "Start tasks before their slots when their parents are done and nodes are free"),
        value(
            "on-overrun",
            "WAY",
            "What becomes of a task that outlives its slot: kill (the default), extend, replan",
        )
        .value_parser(overrun),
        value("max-price", "SU", "Refuse when all slots together cost more").value_parser(reservation::price),
        value("account", "NAME", "Account that pays").short('A').value_parser(parse_name),
        value("name", "NAME", "Name of the workflow").short('J').value_parser(parse_name),
        value("comment", "TEXT", "Any text").value_parser(crate::native::submit::options::comment),
    ]
}

fn scheduler(text: &str) -> Result<FlowScheduler, String> {
    text.parse()
}

fn slack_policy(text: &str) -> Result<FlowSlackPolicy, String> {
    text.parse()
}

fn overrun(text: &str) -> Result<Overrun, String> {
    text.parse()
}

/// Reads the command line and the file that it names; prints notes about times that were not clear.
///
/// # Errors
/// A file that cannot be read or makes no sense, or a mistake on the command line.
pub fn read(context: &crate::Context, m: &ArgMatches) -> anyhow::Result<FlowRequest> {
    let now = window::present(m).map_err(exit::usage)?;
    let name = m.get_one::<OsString>("file").cloned().unwrap_or_default();
    let source = SourceFile::read(&name)?;
    let file = file::parse(&source, &now).map_err(|e| exit::usage(e.in_file(&source.name)))?;
    let (mut spec, mut notes, mut source_lines) = (file.spec, file.notes, file.source_lines);
    if m.contains_id("finish-by") || m.contains_id("slack") {
        source_lines.deadline = None;
    }
    apply(&mut spec, m, &now, &mut notes).map_err(exit::usage)?;
    resv::print_notes(context, &notes);
    Ok(FlowRequest {
        spec,
        now,
        source_lines,
    })
}

fn apply(
    spec: &mut FlowSpec,
    m: &ArgMatches,
    now: &Zoned,
    notes: &mut Vec<String>,
) -> Result<(), String> {
    if let Some(by) = time(m, "finish-by", now, notes)? {
        spec.deadline = Some(FlowDeadline::By(by));
    }
    if let Some(slack) = m.get_one("slack") {
        spec.deadline = Some(FlowDeadline::Slack(*slack));
    }
    if let Some(earliest) = time(m, "not-before", now, notes)? {
        spec.earliest = Some(earliest);
    }
    replace(&mut spec.scheduler, m, "scheduler");
    replace(&mut spec.slack_policy, m, "slack-policy");
    replace(&mut spec.threshold_permille, m, "threshold");
    spec.early |= m.get_flag("early");
    replace(&mut spec.overrun, m, "on-overrun");
    if let Some(price) = m.get_one::<Su>("max-price") {
        spec.max_price = Some(*price);
    }
    if let Some(account) = m.get_one::<String>("account") {
        spec.account = Some(account.clone());
    }
    replace(&mut spec.name, m, "name");
    replace(&mut spec.comment, m, "comment");
    in_order(spec)
}

fn replace<T: Clone + Send + Sync + 'static>(slot: &mut T, m: &ArgMatches, name: &str) {
    if let Some(value) = m.get_one::<T>(name) {
        slot.clone_from(value);
    }
}

fn time(
    m: &ArgMatches,
    name: &str,
    now: &Zoned,
    notes: &mut Vec<String>,
) -> Result<Option<Time>, String> {
    let Some(text) = m.get_one::<String>(name) else {
        return Ok(None);
    };
    let time = times::parse_noting(text, now, Direction::Future, notes);
    time.map(Some)
        .map_err(|e| format!("--{name}: '{text}' is {e}"))
}

fn in_order(spec: &FlowSpec) -> Result<(), String> {
    match (spec.deadline, spec.earliest) {
        (Some(FlowDeadline::By(by)), Some(earliest)) if by <= earliest => {
            Err("the deadline is not after the time before which no task starts".to_owned())
        }
        _ => Ok(()),
    }
}
