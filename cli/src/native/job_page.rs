//! One job told to a person on a terminal: how it stands, why, when, where, and what can be done;
//! then what was asked for.

use crate::native::job_table::{Clock, exit, value};
use crate::native::over_time;
use crate::native::resv::chart::ChartStyle;
use crate::native::resv::words;
use crate::native::table::{self, TableStyle, broken, dimmed, shown};
use crate::native::used::{LiveUse, Used};
use crate::times;
use cosy_model::api::{JobField, Table};
use cosy_model::step::JobSamples;
use cosy_model::{JobState, MiB, Span, Time};
use cosy_view::job::{Part, is_usual, part, tone};
use cosy_view::phrase::count;
use jiff::Zoned;
use unicode_width::UnicodeWidthStr;

/// What the node of a running job says of it.
#[derive(Debug, Default)]
pub struct Live {
    /// What it uses now.
    pub used: Option<LiveUse>,
    /// What it used over time.
    pub samples: JobSamples,
}

/// A line: its title, and what stands behind it.
type Line = (String, String);

/// The job in a row of a table, told in as many lines as it takes on a terminal. `told`: the sentences
/// of the controller about it. With `all` every field stands below.
pub fn text(
    (table, row, live): (&Table, usize, &Live),
    told: &[String],
    all: bool,
    now: &Zoned,
    style: TableStyle,
) -> String {
    let job = Page {
        table,
        row,
        live,
        now,
        clock: Clock::of(style, now),
        exact: style.exact,
    };
    let width = style.width.unwrap_or(usize::MAX);
    let mut text = job.title(style);
    text.push_str(&lines(&job.front(told), width));
    let below = match all {
        true => job.fields(|_| true),
        false => job.asked(),
    };
    if !below.is_empty() {
        text.push_str(if all {
            "\nall fields\n"
        } else {
            "\nasked for\n"
        });
        text.push_str(&lines(&below, width));
    }
    if !all {
        let hint = format!("\ncstat --all {}: every field", job.id());
        text.push('\n');
        text.push_str(&dimmed(hint.trim_start(), style));
    }
    text
}

struct Page<'a> {
    table: &'a Table,
    row: usize,
    live: &'a Live,
    now: &'a Zoned,
    clock: Clock<'a>,
    /// Times are told to the second, with their zone.
    exact: bool,
}

impl Page<'_> {
    fn text(&self, field: JobField) -> &str {
        self.table.text(self.row, field)
    }

    fn number(&self, field: JobField) -> Option<i64> {
        self.table.number(self.row, field)
    }

    fn state(&self) -> Option<JobState> {
        self.text(JobField::State).parse().ok()
    }

    /// Id by which commands know it: of tasks that wait together that of their array.
    fn id(&self) -> &str {
        let name = self.text(JobField::Ref);
        name.split_once("_[").map_or(name, |(array, _)| array)
    }

    /// `job 12 'train' of ann: running`, the state in its colour.
    fn title(&self, style: TableStyle) -> String {
        let name = match self.text(JobField::Name) {
            "" => String::new(),
            name => format!(" '{name}'"),
        };
        let id = table::fit_list(self.text(JobField::Ref), 20);
        let user = self.text(JobField::User);
        let state = self.text(JobField::State);
        let room = style.width.unwrap_or(usize::MAX);
        let room = room.saturating_sub(state.len() + 2);
        let start = table::fit(&format!("job {id}{name} of {user}"), room);
        let paint = self
            .state()
            .map_or_else(Default::default, |s| table::Paint::of(tone(s)));
        format!("{start}: {}\n", table::painted(state, paint, style))
    }

    /// A point in time as seen from now, with the clock.
    fn moment(&self, time: Time) -> String {
        match self.exact {
            true => times::long(time, self.now),
            false => format!("{} ({})", self.clock.time(time), times::short(time, self.now)),
        }
    }

    fn time(&self, field: JobField) -> Option<String> {
        self.number(field).map(|time| self.moment(Time(time)))
    }

    /// What is asked of it first.
    fn front(&self, told: &[String]) -> Vec<Line> {
        let waits = self.state() == Some(JobState::Waiting);
        let mut lines = Vec::new();
        let mut add = |title: &str, text: String| {
            if !text.is_empty() {
                lines.push((title.to_owned(), text));
            }
        };
        add("why", self.reason());
        for (sentence, at) in told.iter().zip(0..) {
            let title = match (at, waits) {
                (0, true) => "why",
                (0, false) => "note",
                _ => "",
            };
            add(title, words::local_times(sentence, self.now));
        }
        add("when", self.when());
        add("where", self.place());
        add("used", self.used());
        for (title, text) in over_time::lines(&self.live.samples, ChartStyle::has_blocks()) {
            add(&title, text);
        }
        add("output", self.output());
        add("next", self.next());
        lines
    }

    /// Why it has ended as it did.
    fn reason(&self) -> String {
        let Some(state) = self.state().filter(|state| state.is_end()) else {
            return String::new();
        };
        let reason = self.text(JobField::Reason);
        if !reason.is_empty() {
            return reason.to_owned();
        }
        let limit = self.length(JobField::TimeLimit);
        match (state, exit(self.table, self.row)) {
            (JobState::Failed, code) if code.starts_with(|c: char| c.is_ascii_digit()) => {
                format!("its program ended with exit code {code}")
            }
            (JobState::Failed, signal) if !signal.is_empty() => {
                format!("its program was ended by signal {signal}")
            }
            (JobState::TimedOut, _) => format!("it reached its time limit of {limit}"),
            (JobState::OutOfMemory, _) => "it used more memory than it had".to_owned(),
            _ => String::new(),
        }
    }

    fn length(&self, field: JobField) -> String {
        let length = self.number(field);
        length.map_or_else(String::new, |ms| (self.clock.length)(Span(ms)))
    }

    /// When it came, starts, ends.
    fn when(&self) -> String {
        let submitted = self
            .time(JobField::Submit)
            .map(|t| format!("submitted {t}"));
        let started = self.time(JobField::Start).map(|t| format!("started {t}"));
        let parts = match self.state() {
            Some(state) if state.is_end() => {
                let ran = (self.length(JobField::Elapsed), started.is_some());
                let end = self.time(JobField::End).map(|end| match ran {
                    (ran, true) => format!("ended {end} after {ran}"),
                    (_, false) => format!("ended {end} and has never run"),
                });
                [started.or(submitted), end]
            }
            Some(JobState::Waiting) => {
                let predicted = self.time(JobField::PredictedStart);
                let begin = self.time(JobField::Begin);
                let start = predicted
                    .map(|t| format!("is to start {t} at the latest, if nothing changes"))
                    .or_else(|| begin.map(|t| format!("does not start before its begin {t}")));
                [submitted, start]
            }
            _ => {
                let latest = self.time(JobField::LatestEnd);
                [
                    started.or(submitted),
                    latest.map(|t| format!("ends {t} at the latest")),
                ]
            }
        };
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Nodes, queue, place in line, reservation.
    fn place(&self) -> String {
        let mut parts = Vec::new();
        if !self.text(JobField::Nodes).is_empty() {
            parts.push(self.text(JobField::Nodes).to_owned());
        }
        parts.push(format!("queue {}", self.text(JobField::Queue)));
        if let Some(place) = self.number(JobField::Place) {
            parts.push(format!("place {place} in line"));
        }
        if let Some(reservation) = self.number(JobField::Reservation) {
            parts.push(format!("in reservation {reservation}"));
        }
        parts.join(", ")
    }

    fn used(&self) -> String {
        let (table, row) = (self.table, self.row);
        Used { table, row }.line(self.live.used)
    }

    /// The file of its output; tasks that wait together have several.
    fn output(&self) -> String {
        let several = self.text(JobField::Ref).contains('[');
        let (folder, file) = (self.text(JobField::Workdir), self.text(JobField::Stdout));
        match (several, file.starts_with('/')) {
            (true, _) => String::new(),
            (false, true) => file.to_owned(),
            (false, false) if file.is_empty() => String::new(),
            (false, false) => format!("{}/{file}", folder.trim_end_matches('/')),
        }
    }

    /// What its user can do now.
    fn next(&self) -> String {
        use JobState as S;
        let own = rustix::process::getuid();
        let is_own = self.number(JobField::Uid) == Some(i64::from(own.as_raw()));
        let Some(state) = self.state().filter(|_| is_own || own.is_root()) else {
            return String::new();
        };
        let id = self.id();
        match state {
            S::Waiting if self.text(JobField::HeldBy) == "user" => {
                format!("'cosy release {id}' lets it go, 'ccancel {id}' ends it")
            }
            S::Waiting => {
                format!("'cosy change {id}' changes what it asks for, 'ccancel {id}' ends it")
            }
            S::Starting | S::Running | S::Suspended => format!("'ccancel {id}' ends it"),
            S::Completing => "it is over as soon as its nodes are clean".to_owned(),
            S::Completed => String::new(),
            S::Failed | S::LaunchFailed => "its output may tell more".to_owned(),
            S::TimedOut => "submit it again with more time: csub --time".to_owned(),
            S::OutOfMemory => "submit it again with more memory: csub --mem".to_owned(),
            S::Cancelled | S::NodeFailed | S::Preempted | S::Deadline => {
                "it can be submitted again".to_owned()
            }
        }
    }

    /// How much, then every field that says something.
    fn asked(&self) -> Vec<Line> {
        let mut lines = vec![("size".to_owned(), self.size())];
        lines.retain(|(_, text)| !text.is_empty());
        lines.extend(self.fields(|field| {
            let number = self.number(field);
            part(field) == Part::Asked && number.is_none_or(|number| !is_usual(field, number))
        }));
        for (title, _) in &mut lines {
            *title = title.trim_end_matches("_mib").replace('_', " ");
        }
        lines
    }

    /// `2 nodes, 8 tasks, 8 cores, 4G of memory on each node, 2 GPUs`.
    fn size(&self) -> String {
        let counted = [
            (JobField::NodeCount, "node", "nodes"),
            (JobField::Tasks, "task", "tasks"),
            (JobField::Cores, "core", "cores"),
            (JobField::Gpus, "GPU", "GPUs"),
        ];
        let some = |field| self.number(field).filter(|n| *n > 0).map(i64::unsigned_abs);
        let parts = counted.into_iter();
        let parts = parts.filter_map(|(field, one, many)| Some(count(some(field)?, one, many)));
        let memory = some(JobField::MemoryPerNode);
        let memory = memory.map(|mib| format!("{} of memory on each node", MiB(mib)));
        parts.chain(memory).collect::<Vec<_>>().join(", ")
    }

    /// Lines of the fields that are `wanted` and have a value, under their own names.
    fn fields(&self, wanted: impl Fn(JobField) -> bool) -> Vec<Line> {
        let fields = self.table.fields.iter().filter(|field| wanted(**field));
        let lines = fields.map(|field| {
            let clock = Clock {
                time: times::long,
                ..Clock::exact(self.now)
            };
            (field.word().to_owned(), value(self.table, self.row, *field, clock))
        });
        lines.filter(|(_, text)| !text.is_empty()).collect()
    }
}

/// Lines with their titles before them, broken between words where they do not fit into `width`.
fn lines(all: &[Line], width: usize) -> String {
    let titles = all.iter().map(|(title, _)| title.width()).max();
    let titles = titles.unwrap_or(0);
    let room = width.saturating_sub(titles + 4).max(10);
    let mut out = String::new();
    for (title, text) in all {
        let mut title = title.as_str();
        for piece in broken(&shown(text), room) {
            out.push_str(&format!("  {title:<titles$}  {piece}\n"));
            title = "";
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::api::{Column, NO_NUMBER};

    fn now() -> Zoned {
        "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap()
    }

    /// A job of this user with these values; times in minutes from now.
    fn job(values: &[(JobField, &str)], numbers: &[(JobField, i64)]) -> Table {
        use JobField as F;
        let now = times::time_of(&now()).0;
        let mut texts = vec![
            (F::Ref, "12"),
            (F::Name, "tr\u{1b}ain"),
            (F::User, "ann"),
            (F::Queue, "main"),
            (F::Command, "./train.sh"),
            (F::Workdir, "/home/ann"),
            (F::Stdout, "cosy-12.out"),
        ];
        texts.extend(values);
        let uid = i64::from(rustix::process::getuid().as_raw());
        let mut all = vec![
            (F::Uid, uid),
            (F::NodeCount, 2),
            (F::Tasks, 8),
            (F::Gpus, 0),
            (F::TimeLimit, 3_600_000),
            (F::Requeue, 1),
            (F::Umask, 18),
            (F::Submit, -10),
        ];
        all.extend(numbers);
        let number = |(field, n): &(F, i64)| match (field.kind(), *n) {
            (_, NO_NUMBER) => Column::Numbers(vec![NO_NUMBER]),
            (cosy_model::api::FieldKind::Time, n) => Column::Numbers(vec![now + n * 60_000]),
            (_, n) => Column::Numbers(vec![n]),
        };
        let text = |(_, text): &(F, &str)| Column::Texts(vec![(*text).to_owned()]);
        let fields = texts.iter().map(|t| t.0).chain(all.iter().map(|n| n.0));
        let columns = texts.iter().map(text).chain(all.iter().map(number));
        Table::of(fields.collect(), columns.collect(), 1)
    }

    fn page(table: &Table, told: &[&str], all: bool) -> String {
        let told: Vec<String> = told.iter().map(|line| (*line).to_owned()).collect();
        let style = TableStyle {
            width: Some(60),
            ..TableStyle::default()
        };
        text((table, 0, &Live::default()), &told, all, &now(), style)
    }

    #[test]
    fn a_job_that_waits() {
        use JobField as F;
        let table = job(&[(F::State, "waiting")], &[(F::Place, 2), (F::PredictedStart, 125)]);
        let why = "1 waiting jobs come before it, and starting it now could delay the first";
        let want = "\
job 12 'tr?ain' of ann: waiting
  why     1 waiting jobs come before it, and starting it now
          could delay the first
          it ends at 13:00
  when    submitted 10m ago (11:50:00), is to start in 2h5m
          (14:05:00) at the latest, if nothing changes
  where   queue main, place 2 in line
  output  /home/ann/cosy-12.out
  next    'cosy change 12' changes what it asks for,
          'ccancel 12' ends it

asked for
  size        2 nodes, 8 tasks
  command     ./train.sh
  workdir     /home/ann
  time limit  01:00:00

cstat --all 12: every field
";
        assert_eq!(page(&table, &[why, "it ends at 2026-11-21T13:00:00Z"], false), want);
        let all = page(&table, &[why], true);
        assert!(all.contains("  umask            18\n"), "{all}");
        assert!(all.contains("  requeue          yes\n") && !all.contains("--all"), "{all}");
    }

    #[test]
    fn first_lines() {
        use JobField as F;
        let check = |state: &str, numbers: &[(F, i64)], title: &str, want: &str| {
            let text = page(&job(&[(F::State, state)], numbers), &[], false);
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(title));
            let line = line.unwrap_or_else(|| panic!("no {title} in {text}"));
            assert_eq!(line.trim_start()[title.len()..].trim_start(), want, "{state}");
        };
        check("running", &[(F::Start, -5)], "when", "started 5m ago (11:55:00)");
        check("running", &[], "next", "'ccancel 12' ends it");
        check("failed", &[(F::ExitCode, 3)], "why", "its program ended with exit code 3");
        check("failed", &[(F::Signal, 9)], "why", "its program was ended by signal KILL");
        check("timed_out", &[], "why", "it reached its time limit of 1h");
        let used = [
            (F::Start, -5),
            (F::UserCpu, 90_000_000),
            (F::SystemCpu, 0),
            (F::PeakMemory, 5 << 20),
        ];
        check("completed", &used, "used", "1m30s of CPU time, 5.0M of memory at most");
        let never = [(F::End, -1)];
        check("cancelled", &never, "when", "submitted 10m ago (11:50:00), ended 1m ago");
    }

    #[test]
    fn jobs_of_others_are_not_to_be_ended() {
        if rustix::process::getuid().is_root() {
            return;
        }
        let table = job(&[(JobField::State, "running")], &[(JobField::Uid, 1)]);
        assert!(!page(&table, &[], false).contains("next"));
    }
}
