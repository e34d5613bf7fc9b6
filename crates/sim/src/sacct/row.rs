//! One row of `sacct -P`, from text to the figures of a job.
//!
//! Times are civil, as `sacct` prints them: without a zone. Where clocks are put back, an
//! hour is there twice; how long a job ran is therefore taken from the elapsed time if
//! that is given.

use super::columns::{Cells, Column, Columns};
use crate::log_input;
use cosy_model::Span;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The most digits of a number that is read: no sum of two such times overflows.
const MOST_DIGITS: usize = 15;

/// What `sacct` prints when nobody asks for another format.
const CIVIL: &str = "2026-01-05T10:00:00";

/// Why a row is no usable job.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The first line does not name what is needed.
    #[error("the first line names no column {0}")]
    MissingColumns(String),
    /// More or fewer cells than columns.
    #[error("a row with {found} cells under {columns} columns (a '|' or a line break in one?)")]
    Cells {
        /// Cells of the row.
        found: usize,
        /// Columns of the first line.
        columns: usize,
    },
    /// A cell that cannot be understood.
    #[error("{column} is {text:?}, which is no {kind}")]
    Cell {
        /// Name of the column, as `sacct` spells it.
        column: String,
        /// The first characters of it.
        text: String,
        /// What the text should be.
        kind: &'static str,
    },
    /// The state says so.
    #[error("a job that still waits")]
    Waits,
    /// The state or an unknown end says so.
    #[error("a job that still runs")]
    Runs,
    /// The time of its start is unknown.
    #[error("a job that never started")]
    NeverStarted,
    /// Its submit time is unknown.
    #[error("a job without submit time")]
    NoSubmit,
    /// It ran for less than a second, or its run time is unknown.
    #[error("a job without run time")]
    NoRun,
    /// Neither processors nor nodes are known.
    #[error("a job without processors and nodes")]
    NoProcessors,
    /// Its time limit is unknown.
    #[error("a job without time limit")]
    NoLimit,
    /// Times contradict each other.
    #[error("a job that started before it was submitted")]
    StartedEarly,
    /// Times contradict each other.
    #[error("a job that ended before it started")]
    EndedEarly,
    /// A replay could not tell when it ends.
    #[error("all jobs up to this one, one after another, end beyond 64 bits (of milliseconds)")]
    AllBeyond64Bits,
    /// Longer than [`log_input::MAX_LINE_BYTES`].
    #[error("a line longer than {} bytes", log_input::MAX_LINE_BYTES)]
    LineTooLong,
}

impl log_input::Fault for Fault {
    fn reason(&self) -> &'static str {
        match self {
            Self::MissingColumns(_) => "without needed columns",
            Self::Cells { .. } => "with more or fewer cells than columns",
            Self::Cell { .. } => "with a cell that cannot be understood",
            Self::Waits => "still waiting",
            Self::Runs => "still running",
            Self::NeverStarted => "never started",
            Self::NoSubmit => "without submit time",
            Self::NoRun => "without run time",
            Self::NoProcessors => "without processors and nodes",
            Self::NoLimit => "without time limit",
            Self::StartedEarly => "started before submitted",
            Self::EndedEarly => "ended before started",
            Self::AllBeyond64Bits => "beyond 64 bits",
            Self::LineTooLong => "too long",
        }
    }

    fn remedy(&self) -> &'static str {
        match self {
            Self::MissingColumns(_) => {
                "make the text with: sacct -a -X -P -S 2026-01-01 -o ALL (from the day that is wanted)"
            }
            Self::Cells { .. }
            | Self::Cell { .. }
            | Self::Waits
            | Self::Runs
            | Self::NeverStarted
            | Self::NoSubmit
            | Self::NoRun
            | Self::NoProcessors
            | Self::NoLimit
            | Self::StartedEarly
            | Self::EndedEarly
            | Self::AllBeyond64Bits
            | Self::LineTooLong => "--lenient leaves such rows out and counts them",
        }
    }
}

/// What a row says about a job, as usable figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Figures {
    /// As numbered by the database, or for a user; `None` when no column names it.
    pub id: Option<u64>,
    /// When it could have started: eligible, else submitted. Civil time.
    pub entered_ms: i64,
    pub waited: Span,
    pub run: Span,
    pub limit: Limit,
    pub processors: u32,
    /// Only when no processors are known.
    pub nodes: Option<u32>,
}

/// How long a job may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// The job's own time limit.
    Known(Span),
    /// As long as its partition lets it.
    OfPartition,
}

/// Rows of steps have a dot in their number: `12.batch`, `12.0`.
pub fn is_step(cells: &Cells<'_>) -> bool {
    let id = cells.first_of(&[Column::JobId, Column::JobIdRaw]);
    id.is_some_and(|(_, id)| id.contains('.'))
}

/// The usable figures of a row.
pub fn figures(columns: &Columns, cells: &Cells<'_>) -> Result<Figures, Fault> {
    let state = cells
        .get(Column::State)
        .and_then(|state| state.split(' ').next());
    if matches!(state, Some("PENDING" | "REQUEUE_HOLD" | "SPECIAL_EXIT")) {
        return Err(Fault::Waits);
    }
    let submit_ms = time_ms(cells, Column::Submit)?.ok_or(Fault::NoSubmit)?;
    let start_ms = time_ms(cells, Column::Start)?.ok_or(Fault::NeverStarted)?;
    let end_ms = time_ms(cells, Column::End)?;
    let is_open = columns.has(Column::End) && end_ms.is_none();
    if is_open || state.is_some_and(is_running) {
        return Err(Fault::Runs);
    }
    if start_ms < submit_ms {
        return Err(Fault::StartedEarly);
    }
    if end_ms.is_some_and(|end_ms| end_ms < start_ms) {
        return Err(Fault::EndedEarly);
    }
    let eligible_ms = time_ms(cells, Column::Eligible)?;
    let could_start = eligible_ms.filter(|ms| (submit_ms..=start_ms).contains(ms));
    let entered_ms = could_start.unwrap_or(submit_ms);
    let (processors, nodes) = size(cells)?;
    Ok(Figures {
        id: id(cells)?,
        entered_ms,
        waited: Span(start_ms - entered_ms),
        run: run(cells, start_ms, end_ms)?,
        limit: limit(cells)?,
        processors,
        nodes,
    })
}

fn is_running(state: &str) -> bool {
    const RUNNING: [&str; 8] = [
        "RUNNING",
        "SUSPENDED",
        "STOPPED",
        "COMPLETING",
        "CONFIGURING",
        "RESIZING",
        "SIGNALING",
        "STAGE_OUT",
    ];
    RUNNING.contains(&state)
}

/// `12`, `12_3` and `12+1` are 12 where the database's own number is not given.
fn id(cells: &Cells<'_>) -> Result<Option<u64>, Fault> {
    let Some((column, text)) = cells.first_of(&[Column::JobIdRaw, Column::JobId]) else {
        return Ok(None);
    };
    let own = text.split(['_', '+']).next().and_then(number);
    own.map(Some)
        .ok_or_else(|| cell(column, text, "job number"))
}

/// Processors and nodes; the latter only when no column says how many processors.
fn size(cells: &Cells<'_>) -> Result<(u32, Option<u32>), Fault> {
    let processors = [Column::AllocCpus, Column::NCpus, Column::ReqCpus];
    let nodes = [Column::AllocNodes, Column::NNodes, Column::ReqNodes];
    match (count(cells, &processors)?, count(cells, &nodes)?) {
        (Some(processors), _) => Ok((processors, None)),
        (None, Some(nodes)) => Ok((nodes, Some(nodes))),
        (None, None) => Err(Fault::NoProcessors),
    }
}

/// The first count above zero.
fn count(cells: &Cells<'_>, columns: &[Column]) -> Result<Option<u32>, Fault> {
    for column in columns {
        let Some(text) = cells.get(*column) else {
            continue;
        };
        let count = number(text).and_then(|count| u32::try_from(count).ok());
        match count.ok_or_else(|| cell(*column, text, "count below 2^32"))? {
            0 => {}
            count => return Ok(Some(count)),
        }
    }
    Ok(None)
}

fn run(cells: &Cells<'_>, start_ms: i64, end_ms: Option<i64>) -> Result<Span, Fault> {
    let elapsed = match cells.first_of(&[Column::ElapsedRaw, Column::Elapsed]) {
        Some((Column::ElapsedRaw, text)) => {
            let secs = number(text).and_then(|secs| i64::try_from(secs).ok());
            Some(
                secs.map(Span::from_secs)
                    .ok_or_else(|| cell(Column::ElapsedRaw, text, "number of seconds"))?,
            )
        }
        Some((column, text)) => Some(span(column, text)?),
        None => end_ms.map(|end_ms| Span(end_ms - start_ms)),
    };
    elapsed.filter(|run| *run > Span::ZERO).ok_or(Fault::NoRun)
}

fn limit(cells: &Cells<'_>) -> Result<Limit, Fault> {
    match cells.first_of(&[Column::TimeLimit, Column::TimeLimitRaw]) {
        None => Err(Fault::NoLimit),
        Some((_, "Partition_Limit")) => Ok(Limit::OfPartition),
        Some((column, text)) => match span(column, text)? {
            Span::ZERO => Err(Fault::NoLimit),
            limit => Ok(Limit::Known(limit)),
        },
    }
}

/// The raw time limit is in minutes, as a number without a unit is.
fn span(column: Column, text: &str) -> Result<Span, Fault> {
    text.parse()
        .map_err(|_| cell(column, text, "length of time"))
}

/// Civil time in milliseconds, seconds since 1970 (`SLURM_TIME_FORMAT=%s`), or a time with
/// its distance to UTC (`%FT%T%z`); `None` when it is unknown.
fn time_ms(cells: &Cells<'_>, column: Column) -> Result<Option<i64>, Fault> {
    let Some(text) = cells.get(column) else {
        return Ok(None);
    };
    if matches!(text, "Unknown" | "None" | "N/A") {
        return Ok(None);
    }
    if let Some(secs) = number(text).and_then(|secs| i64::try_from(secs).ok()) {
        return Ok(Some(secs * 1000));
    }
    let ms = instant(text).map(|instant| instant.as_millisecond());
    ms.map(Some).ok_or_else(|| cell(column, text, "time"))
}

/// A civil time as if it were UTC, or a time with its distance to UTC.
fn instant(text: &str) -> Option<Timestamp> {
    if text.len() > CIVIL.len()
        && let Ok(instant) = text.parse()
    {
        return Some(instant);
    }
    let civil = text.parse::<DateTime>().ok()?;
    TimeZone::UTC.to_timestamp(civil).ok()
}

fn number(text: &str) -> Option<u64> {
    let is_number = text.len() <= MOST_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn cell(column: Column, text: &str, kind: &'static str) -> Fault {
    Fault::Cell {
        column: column.to_string(),
        text: text.chars().take(40).collect(),
        kind,
    }
}
