//! Writes lists, lines and JSON of nodes, queues, reservations and workflows. Their fields come
//! from [`cosy_view`]; here they become text, in the reader's zone and colours, or JSON.

use crate::native::job_table::Clock;
use crate::native::resv::words;
use crate::native::table::{Cell, ColumnHead, Paint, Rendered, TableStyle, rendered_cells};
use crate::units::{bytes, micros};
use cosy_model::{Span, Time};
use cosy_view::column::{Column, Details};
use cosy_view::value::FieldValue;
use jiff::Zoned;

pub use cosy_view::json::{object as json, object_with_ms as json_with_ms, su};

/// How a list writes points in time and lengths.
#[derive(Clone, Copy)]
pub struct TimeStyle<'a> {
    /// The present, in the reader's zone.
    pub now: &'a Zoned,
    /// Writes a point in time as this list has it.
    write: fn(Time, &Zoned) -> String,
    /// Writes a length as this list has it.
    length: fn(Span) -> String,
}

impl<'a> TimeStyle<'a> {
    /// Times as sentences have them: as short as possible.
    pub const fn in_words(now: &'a Zoned) -> Self {
        let (write, length) = (words::clock, words::span);
        Self { now, write, length }
    }

    /// Times as lists have them: to the second.
    pub const fn in_lists(now: &'a Zoned) -> Self {
        Self::by(Clock::exact(now))
    }

    /// Times as lists of jobs have them: on a terminal as seen from now.
    pub const fn of_jobs(now: &'a Zoned, style: TableStyle) -> Self {
        Self::by(Clock::of(style, now))
    }

    const fn by(clock: Clock<'a>) -> Self {
        let Clock { now, time, length } = clock;
        let write = time;
        Self { now, write, length }
    }
}

/// A list, a row for each of `all`.
pub fn list<T>(
    columns: &[Column<T>],
    all: &[T],
    time_style: TimeStyle<'_>,
    style: TableStyle,
) -> String {
    rendered(columns, all, time_style, style).with_note(style)
}

/// The same, with what a terminal has no room for told apart.
pub fn rendered<T>(
    columns: &[Column<T>],
    all: &[T],
    time_style: TimeStyle<'_>,
    style: TableStyle,
) -> Rendered {
    let heads: Vec<ColumnHead> = columns.iter().map(ColumnHead::from).collect();
    let cells = |one| -> Vec<Cell> {
        let each = columns.iter().map(|column| (column.cell)(one));
        each.map(|value| cell(&value, time_style)).collect()
    };
    let rows: Vec<Vec<Cell>> = all.iter().map(cells).collect();
    rendered_cells(&heads, &rows, style)
}

/// All values of one thing, a line each; titles take `titles` columns.
pub fn lines(details: &Details<'_>, titles: usize, now: &Zoned) -> String {
    let time_style = TimeStyle::in_words(now);
    let each = details
        .iter()
        .map(|(title, value)| (title, cell(value, time_style).text));
    let lines = each.filter(|(_, text)| !text.is_empty());
    let line =
        |(title, text): (_, String)| format!("  {title:<titles$}  {}\n", words::clean(&text));
    lines.map(line).collect()
}

fn cell(value: &FieldValue<'_>, time_style: TimeStyle<'_>) -> Cell {
    let text = match value {
        FieldValue::State(word, tone) => {
            let text = word.to_string();
            let paint = Paint::of(*tone);
            return Cell { text, paint };
        }
        FieldValue::Verdict(text, tone) => {
            let text = words::local_times(text, time_style.now);
            let paint = Paint::of(*tone);
            return Cell { text, paint };
        }
        FieldValue::Nothing | FieldValue::Time(None) => String::new(),
        FieldValue::Text(text) => text.to_string(),
        FieldValue::Sentence(text) => words::local_times(text, time_style.now),
        FieldValue::Number(n) => n.to_string(),
        FieldValue::Signed(n) => n.to_string(),
        FieldValue::Real(n) => n.to_string(),
        FieldValue::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        FieldValue::Time(Some(time)) => (time_style.write)(*time, time_style.now),
        FieldValue::Period(start, end) => words::clocks(*start, *end, time_style.now),
        FieldValue::Span(span) => (time_style.length)(*span),
        FieldValue::CpuTime(us) => micros(i64::try_from(*us).unwrap_or(i64::MAX)),
        FieldValue::Bytes(n) => bytes(i64::try_from(*n).unwrap_or(i64::MAX)),
        FieldValue::Su(sum) => sum.to_string(),
        FieldValue::Price(sum) => cosy_view::phrase::price(*sum),
        FieldValue::Texts(all) => all.join(","),
        FieldValue::List(all) => {
            let each = all.iter().map(|value| cell(value, time_style).text);
            each.collect::<Vec<_>>().join(",")
        }
        FieldValue::Record(fields) => {
            let each = fields.iter();
            let each = each.map(|(name, value)| format!("{name}={}", cell(value, time_style).text));
            each.collect::<Vec<_>>().join(",")
        }
    };
    text.into()
}
