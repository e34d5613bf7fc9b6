//! The plan as a Gantt chart of letters: nodes from top to bottom, time from left to right.
//!
//! ```text
//! nodes   |14:00     |15:00
//! n[1-3]  |12#######|r7======|15-----
//! ```
//!
//! Nodes with the same bars share a row; bars that overlap on one node (it is shared) get
//! rows below each other. What a bar stands for shows in its letters, never in colours
//! alone. It knows nothing of controllers; zone and width are handed in.

use crate::native::table::fit;
use crate::native::ticks::{DAY, round_up};
use cosy_model::reservation::{BarKind, PlanBar, PlanChart};
use cosy_model::{Span, Time, fold};
use jiff::{Timestamp, Zoned};
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthStr;

/// Most rows of one chart; what is beyond is counted.
const MOST_ROWS: usize = 200;
/// Longest name of a row, in columns of the terminal.
const LONGEST_NAME: usize = 24;
/// Fewest columns of time.
const LEAST_COLUMNS: usize = 20;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;

/// The letter that fills a bar.
pub const fn letter(kind: BarKind) -> char {
    match kind {
        BarKind::Running => '#',
        BarKind::Planned => '-',
        BarKind::Held => '?',
        BarKind::Reserved => '=',
    }
}

/// How the chart is to look.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Characters of a line.
    pub width: usize,
    /// Time at the right end.
    pub until: Time,
    /// The zone of the marks.
    pub zone: &'a Zoned,
}

/// Nodes that have the same bars.
struct Row<'a> {
    names: Vec<&'a str>,
    bars: Vec<&'a PlanBar>,
}

/// A chart as lines.
pub struct Drawn {
    /// The axis, then the rows.
    pub lines: Vec<String>,
    /// Rows that there was no room for.
    pub beyond: usize,
    /// Length of a column.
    pub column: Span,
}

/// The chart with its axis above, and the length of a column; an empty machine gives the
/// axis only.
pub fn draw(chart: &PlanChart, frame: Frame<'_>) -> (String, Span) {
    let mut drawn = lines(chart, frame, MOST_ROWS);
    if drawn.beyond > 0 {
        let more = format!("and {} more rows: --node shows some nodes", drawn.beyond);
        drawn.lines.push(more);
    }
    let mut text = String::new();
    for line in &drawn.lines {
        text.push_str(line);
        text.push('\n');
    }
    (text, drawn.column)
}

/// The same line by line, with at most so many rows.
pub fn lines(chart: &PlanChart, frame: Frame<'_>, most_rows: usize) -> Drawn {
    let rows = rows(chart, frame.until);
    let names: Vec<String> = rows
        .iter()
        .map(|r| fit(&fold(&r.names), LONGEST_NAME))
        .collect();
    let longest = names.iter().map(|n| n.width()).max().unwrap_or(0);
    let margin = longest.max("nodes".len()) + 2;
    let columns = frame.width.saturating_sub(margin).max(LEAST_COLUMNS);
    let scale = Scale::new(chart.now, frame.until, columns);
    let axis = axis(&scale, columns, frame.zone);
    let mut lines = vec![format!("{:<margin$}{axis}", "nodes").trim_end().to_owned()];
    let mut beyond = 0;
    for (row, name) in rows.iter().zip(&names) {
        for (at, lane) in lanes(&row.bars).iter().enumerate() {
            if lines.len() > most_rows {
                beyond += 1;
                continue;
            }
            let name = if at == 0 { name } else { "" };
            let fill = " ".repeat(margin - name.width());
            let line = format!("{name}{fill}{}", paint(lane, &scale));
            lines.push(line.trim_end().to_owned());
        }
    }
    Drawn {
        lines,
        beyond,
        column: Span(scale.step_ms),
    }
}

/// Nodes by the bars that they have before `until`, in the order of the first node.
fn rows(chart: &PlanChart, until: Time) -> Vec<Row<'_>> {
    let mut of_node: Vec<Vec<usize>> = vec![Vec::new(); chart.nodes.len()];
    for (at, bar) in chart.bars.iter().enumerate() {
        if bar.start >= until || bar.end <= chart.now {
            continue;
        }
        for node in &bar.nodes {
            if let Some(bars) = of_node.get_mut(*node as usize) {
                bars.push(at);
            }
        }
    }
    let mut place: BTreeMap<&[usize], usize> = BTreeMap::new();
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (bars, name) in of_node.iter().zip(&chart.nodes) {
        let at = *place.entry(bars).or_insert(rows.len());
        if at == rows.len() {
            rows.push(Row {
                names: Vec::new(),
                bars: bars.iter().map(|b| &chart.bars[*b]).collect(),
            });
        }
        rows[at].names.push(name);
    }
    rows
}

/// Bars that do not overlap, side by side; at least one lane.
fn lanes<'a>(bars: &[&'a PlanBar]) -> Vec<Vec<&'a PlanBar>> {
    let mut lanes: Vec<Vec<&PlanBar>> = vec![Vec::new()];
    let mut sorted = bars.to_vec();
    sorted.sort_by_key(|b| (b.start, b.end));
    for bar in sorted {
        let free = |lane: &Vec<&PlanBar>| lane.last().is_none_or(|last| last.end <= bar.start);
        match lanes.iter().position(free) {
            Some(at) => lanes[at].push(bar),
            None => lanes.push(vec![bar]),
        }
    }
    lanes
}

/// The columns of a chart as stretches of time.
struct Scale {
    from: Time,
    step_ms: i64,
    columns: usize,
}

impl Scale {
    fn new(from: Time, until: Time, columns: usize) -> Self {
        let span = until.since(from).ms().max(1);
        let most = i64::try_from(columns.max(1)).unwrap_or(i64::MAX);
        let step_ms = round_up(up_div(span, most));
        Self {
            from,
            step_ms,
            columns: usize::try_from(up_div(span, step_ms)).map_or(columns, |n| n.min(columns)),
        }
    }

    /// The column nearest to a time.
    fn at(&self, time: Time) -> usize {
        let column = time.since(self.from).ms().saturating_add(self.step_ms / 2) / self.step_ms;
        usize::try_from(column)
            .unwrap_or(usize::MAX)
            .min(self.columns)
    }
}

fn up_div(whole: i64, part: i64) -> i64 {
    whole / part + i64::from(whole % part != 0)
}

/// Round times with a mark each: `|14:00     |15:00`, in that many letters.
fn axis(scale: &Scale, room: usize, zone: &Zoned) -> String {
    let whole_ms = scale.step_ms.saturating_mul(scale.columns as i64);
    let (form, least) = match whole_ms <= DAY {
        true if scale.step_ms.saturating_mul(8) < MINUTE => ("%H:%M:%S", 11),
        true => ("%H:%M", 8),
        false => ("%m-%d %H:%M", 14),
    };
    let apart = round_up(scale.step_ms.saturating_mul(least));
    let offset = i64::from(zone.offset().seconds()) * SECOND;
    let end = scale.from.0.saturating_add(whole_ms);
    let local = scale.from.0.saturating_add(offset);
    let first = local
        .div_euclid(apart)
        .saturating_add(i64::from(local % apart != 0));
    let mut line = vec![' '; room];
    let mut mark = first.saturating_mul(apart).saturating_sub(offset);
    loop {
        let at = scale.at(Time(mark));
        let Some(stamp) = Timestamp::from_millisecond(mark).ok() else {
            break;
        };
        let clock = stamp.to_zoned(zone.time_zone().clone());
        let text = format!("|{}", clock.strftime(form));
        if mark > end || at + text.len() > room {
            break;
        }
        write_at(&mut line, at, &text);
        mark = mark.saturating_add(apart);
    }
    line.into_iter().collect()
}

fn write_at(line: &mut [char], at: usize, text: &str) {
    for (cell, c) in line.iter_mut().skip(at).zip(text.chars()) {
        *cell = c;
    }
}

/// Reservations come last, so that rounding never hides them.
fn paint(lane: &[&PlanBar], scale: &Scale) -> String {
    let mut line = vec![' '; scale.columns];
    let mut order = lane.to_vec();
    order.sort_by_key(|b| (b.kind, b.start));
    for bar in order {
        let last = scale.columns.saturating_sub(1);
        let start = scale.at(bar.start).min(last);
        let end = scale.at(bar.end).max(start + 1);
        write_at(&mut line, start, &body(bar, end - start));
    }
    line.into_iter().collect()
}

/// A bar of that many letters: `|12####`, without its label where there is no room.
fn body(bar: &PlanBar, width: usize) -> String {
    let fill = letter(bar.kind);
    if width == 1 {
        return fill.to_string();
    }
    let fits = bar.label.chars().count() + 2 <= width && !bar.label.chars().any(char::is_control);
    let label = if fits { bar.label.as_str() } else { "" };
    let rest = width - 1 - label.chars().count();
    format!("|{label}{}", fill.to_string().repeat(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noon() -> Zoned {
        "2026-11-21T12:00:00+00:00[+00:00]".parse().unwrap()
    }

    fn minutes(n: i64) -> Time {
        crate::times::time_of(&noon()) + Span::from_minutes(n)
    }

    fn bar(kind: BarKind, label: &str, from: i64, to: i64, nodes: &[u32]) -> PlanBar {
        PlanBar {
            kind,
            label: label.into(),
            start: minutes(from),
            end: minutes(to),
            nodes: nodes.to_vec(),
        }
    }

    fn check(width: usize, until: i64, bars: Vec<PlanBar>, want: &[&str]) {
        let chart = PlanChart {
            now: minutes(0),
            nodes: ["n1", "n2", "n3", "n4"].map(str::to_owned).to_vec(),
            bars,
            beyond: 0,
        };
        let zone = noon();
        let frame = Frame {
            width,
            until: minutes(until),
            zone: &zone,
        };
        let (text, _) = draw(&chart, frame);
        assert_eq!(text.lines().collect::<Vec<_>>(), want);
    }

    use BarKind::{Held, Planned, Reserved, Running};

    #[test]
    fn kinds_are_told_apart_without_colours() {
        let bars = vec![
            bar(Running, "12", -30, 60, &[0, 1]),
            bar(Reserved, "r7", 60, 120, &[0, 1]),
            bar(Planned, "15", 120, 150, &[0, 1]),
            bar(Held, "r8", 30, 90, &[3]),
        ];
        let want = [
            "nodes   |12:00      |13:00      |14:00      |15:00",
            "n[1-2]  |12#########|r7=========|15---",
            "n3",
            "n4            |r8?????????",
        ];
        check(52, 200, bars, &want);
    }

    #[test]
    fn shared_nodes_have_rows_below_each_other() {
        let bars = vec![
            bar(Running, "1", 0, 30, &[0]),
            bar(Running, "2", 0, 60, &[0]),
            bar(Planned, "3", 30, 60, &[0]),
        ];
        let want = [
            "nodes   |12:00         |12:30         |13:00",
            "n1      |1#############|3-------------",
            "        |2############################",
            "n[2-4]",
        ];
        check(48, 60, bars, &want);
    }

    /// Else they would all be the same.
    #[test]
    fn marks_of_a_minute_have_seconds() {
        let mut chart = PlanChart {
            now: minutes(0),
            nodes: vec!["n1".into()],
            bars: Vec::new(),
            beyond: 0,
        };
        let zone = noon();
        let axis = |chart: &PlanChart| {
            let frame = Frame {
                width: 48,
                until: chart.now + Span::from_secs(50),
                zone: &zone,
            };
            draw(chart, frame).0.lines().next().map(str::to_owned)
        };
        let want = "nodes  |12:00:00      |12:00:30";
        assert_eq!(axis(&chart).as_deref(), Some(want));
        chart.now = chart.now + Span::from_secs(3);
        assert!(axis(&chart).is_some_and(|line| line.ends_with("|12:00:30")));
    }

    #[test]
    fn small_bars_stay_visible_and_huge_ones_end_at_the_edge() {
        let bars = vec![
            bar(Running, "1", -1000, 1_000_000, &[0]),
            bar(Reserved, "r1", 300, 301, &[1]),
            bar(Running, "", 0, 300, &[1]),
            bar(Planned, "9", 2000, 3000, &[2]),
            bar(Planned, "9", 0, 60, &[77]),
        ];
        let want = [
            "nodes   |12:00      |18:00",
            "n1      |1##################",
            "n2      |#########=",
            "n[3-4]",
        ];
        check(28, 600, bars, &want);
    }

    #[test]
    fn names_in_wide_characters_leave_the_columns_in_line() {
        let chart = PlanChart {
            now: minutes(0),
            nodes: ["\u{8ba1}\u{7b97}\u{8ba1}\u{7b97}", "n2"]
                .map(str::to_owned)
                .to_vec(),
            bars: vec![
                bar(Running, "1", 0, 60, &[0]),
                bar(Running, "2", 0, 50, &[1]),
            ],
            beyond: 0,
        };
        let zone = noon();
        let frame = Frame {
            width: 40,
            until: minutes(60),
            zone: &zone,
        };
        let (text, _) = draw(&chart, frame);
        let begins = |line: &str| line.find('|').map(|at| line[..at].width());
        let columns: Vec<_> = text.lines().map(begins).collect();
        assert_eq!(columns, [Some(10); 3], "{text}");
    }

    #[test]
    fn absurd_times_do_no_harm() {
        let mut chart = PlanChart {
            now: Time(i64::MIN),
            nodes: vec!["n1".into()],
            bars: vec![bar(Running, "1", 0, 1, &[0])],
            beyond: 0,
        };
        chart.bars[0].start = Time(i64::MAX);
        chart.bars[0].end = Time(i64::MIN);
        let zone = noon();
        for until in [i64::MIN, 0, i64::MAX] {
            let frame = Frame {
                width: 0,
                until: Time(until),
                zone: &zone,
            };
            assert!(draw(&chart, frame).0.starts_with("nodes"));
        }
    }
}
