//! Tables of jobs as text and as JSON.

use crate::native::array_lines::first_state;
use crate::native::table::{ColumnHead, Grid, Paint, Rendered, Side, TableStyle, shown};
use crate::native::used::Used;
use crate::times;
use crate::units::{brief, bytes, micros};
use cosy_model::api::{FieldKind, JobField, Table, Value};
use cosy_model::{JobState, Span, Time, signal};
use cosy_view::job::tone;
use cosy_view::words::row_name;
use jiff::Zoned;
use std::fmt::Write;

pub use cosy_view::json::{rows as json, span as json_span, time as json_time};

/// How times and lengths are written.
#[derive(Clone, Copy)]
pub struct Clock<'a> {
    /// The present, in the reader's zone.
    pub now: &'a Zoned,
    /// Writes a point in time.
    pub time: fn(Time, &Zoned) -> String,
    /// Writes a length.
    pub length: fn(Span) -> String,
}

impl<'a> Clock<'a> {
    /// To the second, as short as possible.
    pub const fn exact(now: &'a Zoned) -> Self {
        Self {
            now,
            time: times::short,
            length: digits,
        }
    }

    /// As seen from now: `5m ago`, `in 3h20m`.
    pub const fn relative(now: &'a Zoned) -> Self {
        Self {
            now,
            time: times::seen_from_now,
            length: brief,
        }
    }

    /// As a table of that style has it.
    pub const fn of(style: TableStyle, now: &'a Zoned) -> Self {
        match style.is_short() {
            true => Self::relative(now),
            false => Self::exact(now),
        }
    }

    /// A point in time.
    pub fn time(&self, time: Time) -> String {
        (self.time)(time, self.now)
    }
}

/// As digits, days before hours: `1-02:30:00`.
fn digits(span: Span) -> String {
    span.to_string()
}

/// A column of a list of jobs, as the commands show it by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobColumn {
    /// A field as it is, under its own name.
    Field(JobField),
    /// A field under another title, cut to so many characters where needed.
    Titled(JobField, &'static str, Option<usize>),
    /// Start of the job: when it started, is expected to start (`~`), or may start at the earliest
    /// (`from`).
    Start,
    /// Nodes of a job that runs, or the reason why it waits.
    Where,
    /// Nodes of an ended job, with the reason where it ended because a node was lost or the launch
    /// failed.
    Nodes,
    /// Exit code or signal.
    Exit,
    /// CPU time, user and system.
    Cpu,
    /// Per cent of its cores that were busy on average.
    CoresUsed,
    /// Per cent of its memory that it used at most.
    MemoryUsed,
    /// Per cent of its time limit that it ran.
    TimeUsed,
}

impl JobColumn {
    /// The fields that it is made of.
    pub fn fields(self) -> &'static [JobField] {
        use JobField as F;
        match self {
            Self::Field(f) | Self::Titled(f, _, _) => {
                let at = F::ALL.iter().position(|a| *a == f).unwrap_or(0);
                &F::ALL[at..=at]
            }
            Self::Start => &[F::Start, F::PredictedStart, F::Begin],
            Self::Where | Self::Nodes => &[F::Nodes, F::Reason, F::State],
            Self::Exit => &[F::ExitCode, F::Signal, F::State],
            Self::Cpu => &[F::UserCpu, F::SystemCpu],
            Self::CoresUsed => &[F::UserCpu, F::SystemCpu, F::Elapsed, F::Cores, F::Ref],
            Self::MemoryUsed => &[F::PeakMemory, F::MemoryPerNode],
            Self::TimeUsed => &[F::Elapsed, F::TimeLimit],
        }
    }

    fn head(self) -> ColumnHead {
        match self {
            Self::Field(f) => field_head(f, &f.word().to_ascii_uppercase()),
            Self::Titled(f, title, least) => ColumnHead {
                least,
                ..field_head(f, title)
            },
            Self::Start => ColumnHead::left("START"),
            Self::Where => ColumnHead::left("NODES OR REASON").cut(9),
            Self::Nodes => ColumnHead::left("NODES").cut(5),
            Self::Exit => ColumnHead::right("EXIT"),
            Self::Cpu => ColumnHead::right("CPU"),
            Self::CoresUsed => ColumnHead::right("CORES%"),
            Self::MemoryUsed => ColumnHead::right("MEM%"),
            Self::TimeUsed => ColumnHead::right("TIME%"),
        }
    }

    /// Writes its cell; the cell's colour.
    fn write(self, out: &mut String, table: &Table, row: usize, clock: Clock<'_>) -> Paint {
        match self {
            Self::Field(f) | Self::Titled(f, _, _) => {
                write_value(out, (table, row, f), clock);
                if f == JobField::State {
                    return paint(table.text(row, f));
                }
            }
            Self::Start => out.push_str(&start(table, row, clock)),
            Self::Where => place(out, table, row),
            Self::Nodes => out.push_str(&nodes(table, row)),
            Self::Exit => out.push_str(&exit(table, row)),
            Self::Cpu => out.push_str(&cpu(table, row, clock)),
            Self::CoresUsed => percent(out, Used { table, row }.cores_percent()),
            Self::MemoryUsed => percent(out, Used { table, row }.memory_percent()),
            Self::TimeUsed => percent(out, Used { table, row }.time_percent()),
        }
        Paint::Plain
    }
}

/// The fields that all these columns are made of, each once.
pub fn fields_of(shown: &[JobColumn]) -> Vec<JobField> {
    let mut fields = Vec::new();
    for f in shown.iter().flat_map(|s| s.fields()) {
        if !fields.contains(f) {
            fields.push(*f);
        }
    }
    fields
}

fn field_head(field: JobField, title: &str) -> ColumnHead {
    let side = match field.kind() {
        FieldKind::Number | FieldKind::Span => Side::Right,
        FieldKind::Bytes | FieldKind::Mebibytes | FieldKind::CpuTime => Side::Right,
        FieldKind::Text if field == JobField::Ref => Side::Right,
        FieldKind::Text | FieldKind::Time | FieldKind::Flag => Side::Left,
    };
    ColumnHead {
        side,
        ..ColumnHead::left(title)
    }
}

/// The colour of a state.
fn paint(state: &str) -> Paint {
    first_state(state).map_or(Paint::Plain, |state| Paint::of(tone(state)))
}

/// Writes the value of a field in a row; nothing where there is none.
fn write_value(out: &mut String, (table, row, field): (&Table, usize, JobField), clock: Clock<'_>) {
    // A text takes all that is written into it.
    let _ = match (table.get(row, field), field.kind()) {
        (Value::Nothing, _) => Ok(()),
        (Value::Text(t), _) => out.write_str(t),
        (Value::Number(n), FieldKind::Time) => out.write_str(&clock.time(Time(n))),
        (Value::Number(n), FieldKind::Span) => out.write_str(&(clock.length)(Span(n))),
        (Value::Number(n), FieldKind::Flag) => out.write_str(if n == 0 { "no" } else { "yes" }),
        (Value::Number(n), FieldKind::Bytes) => out.write_str(&bytes(n)),
        (Value::Number(n), FieldKind::CpuTime) => out.write_str(&micros(n)),
        (Value::Number(n), FieldKind::Mebibytes) => match n.unsigned_abs() {
            0 => out.write_str("unlimited"),
            mib => write!(out, "{}", cosy_model::MiB(mib)),
        },
        (Value::Number(n), FieldKind::Number | FieldKind::Text) => write!(out, "{n}"),
    };
}

fn start(table: &Table, row: usize, clock: Clock<'_>) -> String {
    let time = |f| table.number(row, f).map(|n| clock.time(Time(n)));
    time(JobField::Start)
        .or_else(|| time(JobField::PredictedStart).map(|t| format!("~{t}")))
        .or_else(|| time(JobField::Begin).map(|t| from(&t)))
        .unwrap_or_default()
}

/// From then on: `from 16:00:00`, `after 2h`.
fn from(time: &str) -> String {
    match time.strip_prefix("in ") {
        Some(length) => format!("after {length}"),
        None => format!("from {time}"),
    }
}

fn place(out: &mut String, table: &Table, row: usize) {
    let nodes = table.text(row, JobField::Nodes);
    let reason = table.text(row, JobField::Reason);
    match (nodes.is_empty(), reason.is_empty()) {
        (true, true) => {}
        (true, false) => out.extend(["(", reason, ")"]),
        (false, _) => out.push_str(nodes),
    }
}

fn nodes(table: &Table, row: usize) -> String {
    let nodes = table.text(row, JobField::Nodes);
    let reason = table.text(row, JobField::Reason);
    let state = first_state(table.text(row, JobField::State));
    let why = [JobState::NodeFailed, JobState::LaunchFailed];
    match why.map(Some).contains(&state) && !reason.is_empty() {
        true => format!("{nodes} ({reason})"),
        false => nodes.to_owned(),
    }
}

/// The exit code or signal; empty for a job that was ended without an exit code of its own, where 0
/// would look like success.
pub fn exit(table: &Table, row: usize) -> String {
    let completed = first_state(table.text(row, JobField::State)) == Some(JobState::Completed);
    let code = table.number(row, JobField::ExitCode);
    match table.number(row, JobField::Signal) {
        Some(signal) if signal != 0 => signal::name(signal),
        _ => code
            .filter(|code| completed || *code != 0)
            .map_or_else(String::new, |n| n.to_string()),
    }
}

fn cpu(table: &Table, row: usize, clock: Clock<'_>) -> String {
    match (Used { table, row }).cpu_us() {
        None => String::new(),
        Some(us @ ..60_000_000) => micros(us),
        Some(us) => (clock.length)(Span(us / 1000)),
    }
}

fn percent(out: &mut String, share: Option<i64>) {
    if let Some(share) = share {
        let _ = write!(out, "{share}%");
    }
}

/// A list of jobs as text. Where a terminal has no room for all columns, those in `leave` are left
/// out, the first first.
pub fn list(
    table: &Table,
    shown: &[JobColumn],
    leave: &[&str],
    now: &Zoned,
    style: TableStyle,
) -> Rendered {
    let clock = Clock::of(style, now);
    let head = |column: &JobColumn| {
        let head = column.head();
        let head = ColumnHead {
            leave: leave.iter().position(|title| *title == head.title),
            ..head
        };
        match column.fields() == [JobField::Ref] && style.width.is_some() {
            true => id_head(table, head),
            false => head,
        }
    };
    let heads: Vec<ColumnHead> = shown.iter().map(head).collect();
    let mut grid = Grid::new(&heads, table.rows);
    for row in 0..table.rows {
        grid.row(|at, out| {
            let column = shown.get(at);
            column.map_or(Paint::Plain, |column| column.write(out, table, row, clock))
        });
    }
    grid.render(style)
}

/// Ids are shown whole; of the indices of an array's tasks as many as there is room for.
fn id_head(table: &Table, head: ColumnHead) -> ColumnHead {
    let least = |row| {
        let name = table.text(row, JobField::Ref);
        match row_name::tasks(name) {
            Some(tasks) => tasks.base.to_string().len() + "_[+]".len(),
            None => name.len(),
        }
    };
    ColumnHead {
        list: true,
        least: (0..table.rows).map(least).max(),
        ..head
    }
}

/// The value of a field in a row; empty where there is none.
pub fn value(table: &Table, row: usize, field: JobField, clock: Clock<'_>) -> String {
    let mut value = String::new();
    write_value(&mut value, (table, row, field), clock);
    value
}

/// One job whole: a line for each field that has a value.
pub fn block(table: &Table, row: usize, now: &Zoned) -> String {
    let clock = Clock {
        time: times::long,
        ..Clock::exact(now)
    };
    let lines: Vec<(&str, String)> = table
        .fields
        .iter()
        .map(|f| (f.word(), value(table, row, *f, clock)))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let width = lines.iter().map(|(word, _)| word.len()).max().unwrap_or(0);
    lines
        .iter()
        .map(|(word, value)| format!("{word:<width$}  {}\n", shown(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::api::{Column, NO_NUMBER};
    use serde_json::{Value as Json, json};

    fn now() -> Zoned {
        "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap()
    }

    fn sample() -> Table {
        use JobField as F;
        let hour = 3_600_000;
        let noon = times::time_of(&now()).0;
        let texts = |t: [&str; 2]| Column::Texts(t.map(str::to_owned).to_vec());
        let columns = [
            (F::Ref, texts(["12", "13_[1-9]"])),
            (F::Name, texts(["first", "second"])),
            (F::State, texts(["running", "waiting"])),
            (F::Reason, texts(["", "resources"])),
            (F::Nodes, texts(["n[1-2]", ""])),
            (F::Start, Column::Numbers(vec![noon - hour, NO_NUMBER])),
            (F::PredictedStart, Column::Numbers(vec![NO_NUMBER, noon + hour])),
            (F::Elapsed, Column::Numbers(vec![hour + 500, NO_NUMBER])),
            (F::TimeLimit, Column::Numbers(vec![2 * hour, i64::MAX])),
            (F::Requeue, Column::Numbers(vec![1, 0])),
            (F::UserCpu, Column::Numbers(vec![1_500_000, NO_NUMBER])),
        ];
        let (fields, columns) = columns.into_iter().unzip();
        let table = Table::of(fields, columns, 2);
        assert!(table.is_sound());
        table
    }

    #[test]
    fn lists() {
        use JobField as F;
        let shown = [
            JobColumn::Titled(F::Ref, "ID", None),
            JobColumn::Field(F::Name),
            JobColumn::Field(F::State),
            JobColumn::Field(F::Elapsed),
            JobColumn::Titled(F::TimeLimit, "LIMIT", None),
            JobColumn::Start,
            JobColumn::Where,
            JobColumn::Cpu,
        ];
        let text = list(&sample(), &shown, &[], &now(), TableStyle::default()).text;
        let want = "      ID  NAME    STATE     ELAPSED      LIMIT  START      NODES OR REASON    CPU\n\
                    \u{20}     12  first   running  01:00:00   02:00:00  11:00:00   n[1-2]           1.50s\n\
                    13_[1-9]  second  waiting            unlimited  ~13:00:00  (resources)\n";
        assert_eq!(text, want);
        assert_eq!(fields_of(&[JobColumn::Start, JobColumn::Field(F::Start)]).len(), 3);
    }

    #[test]
    fn lists_on_terminals() {
        use JobField as F;
        let shown = [
            JobColumn::Titled(F::Ref, "ID", None),
            JobColumn::Titled(F::Name, "NAME", Some(6)),
            JobColumn::Field(F::State),
            JobColumn::Field(F::Elapsed),
            JobColumn::Titled(F::TimeLimit, "LIMIT", None),
            JobColumn::Start,
            JobColumn::Where,
        ];
        let check = |width: usize, exact: bool, want: &[&str]| {
            let style = TableStyle {
                width: Some(width),
                exact,
                ..TableStyle::default()
            };
            let got = list(&sample(), &shown, &["LIMIT", "ELAPSED"], &now(), style);
            assert_eq!(got.text.lines().collect::<Vec<_>>(), want, "{width} {exact}");
        };
        check(
            80,
            false,
            &[
                "      ID  NAME    STATE    ELAPSED      LIMIT  START   NODES OR REASON",
                "      12  first   running       1h         2h  1h ago  n[1-2]",
                "13_[1-9]  second  waiting           unlimited  ~in 1h  (resources)",
            ],
        );
        check(
            50,
            false,
            &[
                "      ID  NAME    STATE    START   NODES OR REASON",
                "      12  first   running  1h ago  n[1-2]",
                "13_[1-9]  second  waiting  ~in 1h  (resources)",
            ],
        );
        check(
            54,
            true,
            &[
                "      ID  NAME    STATE    START      NODES OR REASON",
                "      12  first   running  11:00:00   n[1-2]",
                "13_[1-9]  second  waiting  ~13:00:00  (resources)",
            ],
        );
    }

    #[test]
    fn lost_nodes_stand_beside_the_others() {
        use JobField as F;
        let check = |state: &str, reason: &str, want: &str| {
            let texts = |t: &str| Column::Texts(vec![t.to_owned()]);
            let columns = vec![texts("n[1-2]"), texts(reason), texts(state)];
            let table = Table::of(vec![F::Nodes, F::Reason, F::State], columns, 1);
            assert_eq!(nodes(&table, 0), want);
        };
        let why = "node n2 was lost";
        check("node_failed", why, "n[1-2] (node n2 was lost)");
        check("node_failed", "", "n[1-2]");
        check("cancelled", "cancelled by ann", "n[1-2]");
    }

    #[test]
    fn blocks() {
        let text = block(&sample(), 0, &now());
        assert!(text.contains("start        2026-11-21 11:00:00 +00:00\n"), "{text}");
        assert!(text.contains("requeue      yes\n") && !text.contains("reason"), "{text}");
    }

    #[test]
    fn json_has_fixed_units() {
        let all = json(&sample());
        let want = json!({
            "ref": "12", "name": "first", "state": "running", "reason": "", "nodes": "n[1-2]",
            "start": "2026-11-21T11:00:00.000Z", "predicted_start": null, "elapsed": 3600.5,
            "time_limit": 7200, "requeue": true, "user_cpu_us": 1_500_000,
        });
        assert_eq!(all[0], want);
        assert_eq!(all[1]["time_limit"], Json::Null);
    }
}
