//! Common parts of Gantt charts as SVG: an area with time from left to right and a row for each
//! node.
//!
//! It knows nothing of controllers; the zone is handed in.

use crate::native::ticks;
use cosy_model::Time;
use cosy_model::reservation::{BarKind, PlanBar, PlanChart};
use cosy_svg::{Anchor, Svg};
use jiff::Zoned;
use unicode_width::UnicodeWidthStr;

/// The rules of the classes that are used here. Where the reader has a dark page, the picture, whose
/// only box without a class is its page, is dark too.
pub const STYLE: &str = "\
text{font-family:sans-serif;font-size:11px;fill:#333}\
.t{font-size:15px;font-weight:bold}\
.g{stroke:#ddd}.a{stroke:#888}\
.running{fill:#7a7a7a}.planned{fill:#a9c4e0}.held{fill:#f0b35a}.reserved{fill:#c0504d}\
.running,.planned,.held,.reserved{stroke:#fff;stroke-width:.5}\
.on{fill:#fff}.onpale{fill:#222}\
@media(prefers-color-scheme:dark){\
rect:not([class]){fill:#16181d}text{fill:#d6d8dc}.g{stroke:#34383f}\
.running,.planned,.held,.reserved{stroke:#16181d}.on{fill:#fff}.onpale{fill:#111}}";

/// Left edge of the drawings.
pub const LEFT: i64 = 90;
/// Width of the drawings in pixels, margins not counted.
pub const WIDTH: i64 = 860;
/// Right margin in pixels.
pub const RIGHT: i64 = 45;
/// Most boxes that are drawn.
const BOXES: usize = 50_000;
/// Pixels between two times at the axis, at least.
const MARK: i64 = 86;
/// Width of a letter.
const LETTER: i64 = 7;
/// Height of a line of words.
const LINE: i64 = 12;
/// Height of a lane where there is room.
const ROW: i64 = 15;
/// Most lanes of a row that make a chart taller.
const DEEPEST: i64 = 4;
/// Greatest height of a chart.
const TALLEST: i64 = 480;
/// Bars below each other in the row of a node, at most; what is more lies on the last.
const MOST_LANES: usize = 15;

/// An area with time from left to right.
#[derive(Clone, Copy)]
pub struct Area {
    /// Time at its left edge.
    pub from: Time,
    /// Time at its right edge.
    pub to: Time,
    /// Upper edge in pixels.
    pub top: i64,
    /// Height in pixels.
    pub height: i64,
}

impl Area {
    /// Where `time` is, within the area.
    pub fn x(&self, time: Time) -> i64 {
        let all = i128::from(self.to.since(self.from).0.max(1));
        let at = i128::from(time.since(self.from).0) * i128::from(WIDTH) / all;
        LEFT + i64::try_from(at.min(i128::from(WIDTH))).unwrap_or(WIDTH)
    }

    /// Lower edge in pixels.
    pub fn bottom(&self) -> i64 {
        self.top + self.height
    }

    /// Lines and round times from left to right.
    pub fn axis(&self, svg: &mut Svg, now: &Zoned) {
        for (time, clock) in ticks::times(self.from, self.to, WIDTH / MARK, now) {
            let x = self.x(time);
            svg.line("g", (x, self.top), (x, self.bottom()));
            svg.words(x, self.bottom() + 14, Anchor::Middle, "", &clock);
        }
        svg.line("a", (LEFT, self.bottom()), (LEFT + WIDTH, self.bottom()));
    }

    /// The upper edge of a row, of so many.
    pub fn row(&self, row: usize, rows: usize) -> i64 {
        let at = row as i128 * i128::from(self.height) / rows.max(1) as i128;
        self.top + i64::try_from(at).unwrap_or(self.height)
    }
}

/// The class of a bar.
pub const fn class(kind: BarKind) -> &'static str {
    match kind {
        BarKind::Running => "running",
        BarKind::Planned => "planned",
        BarKind::Held => "held",
        BarKind::Reserved => "reserved",
    }
}

/// Words in a legend, each behind a box of its class; gives the place behind them.
pub fn legend(svg: &mut Svg, (left, top): (i64, i64), entries: &[(&str, &str)]) -> i64 {
    let mut x = left;
    for (class, words) in entries {
        svg.bar(class, [x, top, 12, 12], words);
        svg.words(x + 17, top + 10, Anchor::Start, "", words);
        x += 17 + width_of(words) + 20;
    }
    x
}

/// About how wide words are.
pub fn width_of(words: &str) -> i64 {
    i64::try_from(words.width()).unwrap_or(i64::MAX / LETTER) * LETTER
}

/// A height in which the rows of a plan can be read, as far as that is possible.
pub fn height(plan: &PlanChart, from: Time, to: Time) -> i64 {
    let rows = i64::try_from(plan.nodes.len().max(1)).unwrap_or(i64::MAX);
    let lanes = Lanes::of(plan, from, to).of_rows.into_iter().max();
    let lanes = i64::try_from(lanes.unwrap_or(1)).unwrap_or(1).min(DEEPEST);
    rows.saturating_mul(lanes)
        .saturating_mul(ROW)
        .clamp(ROW, TALLEST)
}

/// Where the labels of bars are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Labels {
    /// In the bars, where they fit, and under the pointer.
    InBars,
    /// Under the pointer alone: something else is drawn over the bars.
    UnderPointer,
}

/// All bars of a plan, and the names of its nodes.
pub fn bars(svg: &mut Svg, plan: &PlanChart, area: Area, labels: Labels) {
    let rows = plan.nodes.len().max(1);
    let lanes = Lanes::of(plan, area.from, area.to);
    let mut boxes = 0;
    for (bar, lane) in plan.bars.iter().zip(&lanes.of_bars) {
        let Some(lane) = lane else { continue };
        for (first, last) in runs(bar, rows, &lanes) {
            boxes += 1;
            if boxes > BOXES {
                return;
            }
            let at = lanes.place(area, bar, (first, last), *lane);
            svg.bar(class(bar.kind), at, &bar.label);
            if labels == Labels::InBars {
                label(svg, bar, at);
            }
        }
    }
    let step = rows.div_ceil(usize::try_from(area.height / 12).unwrap_or(1).max(1));
    for (row, name) in plan.nodes.iter().enumerate().step_by(step.max(1)) {
        svg.words(LEFT - 6, area.row(row, rows) + 11, Anchor::End, "", &shortened(name, LEFT - 8));
    }
}

/// The label of a bar, where there is room.
fn label(svg: &mut Svg, bar: &PlanBar, [x, y, width, height]: [i64; 4]) {
    let class = match bar.kind {
        BarKind::Running | BarKind::Reserved => "on",
        BarKind::Planned | BarKind::Held => "onpale",
    };
    if height >= LINE && width_of(&bar.label) + 4 <= width {
        svg.words(x + 3, y + LINE - 2, Anchor::Start, class, &bar.label);
    }
}

/// A name as far as there is room for it; nothing where only a letter would be left.
pub fn shortened(name: &str, room: i64) -> String {
    if width_of(name) <= room {
        return name.to_owned();
    }
    let mut short = String::new();
    for c in name.chars() {
        short.push(c);
        if width_of(&short) + LETTER > room {
            short.pop();
            break;
        }
    }
    match width_of(&short) {
        0..=LETTER => String::new(),
        _ => format!("{short}\u{2026}"),
    }
}

/// Bars that overlap on one node are drawn below each other in its row.
struct Lanes {
    /// The lane of each bar, the same on all its nodes; `None` for those that are not drawn.
    of_bars: Vec<Option<usize>>,
    /// How many lanes each row has.
    of_rows: Vec<usize>,
}

impl Lanes {
    fn of(plan: &PlanChart, from: Time, to: Time) -> Self {
        let rows = plan.nodes.len().max(1);
        let mut order: Vec<usize> = (0..plan.bars.len()).collect();
        order.sort_by_key(|at| (plan.bars[*at].start, plan.bars[*at].end, *at));
        let mut ends: Vec<Vec<Time>> = vec![Vec::new(); rows];
        let mut of_bars = vec![None; plan.bars.len()];
        for at in order {
            let bar = &plan.bars[at];
            if bar.start >= to || bar.end <= from {
                continue;
            }
            let nodes = || bar.nodes.iter().map(|n| *n as usize).filter(|n| *n < rows);
            let is_free = |lane: &usize| {
                let free = |row: usize| ends[row].get(*lane).is_none_or(|end| *end <= bar.start);
                nodes().all(free)
            };
            let lane = (0..MOST_LANES).find(is_free).unwrap_or(MOST_LANES);
            of_bars[at] = Some(lane);
            for row in nodes() {
                let lanes = &mut ends[row];
                lanes.resize(lanes.len().max(lane + 1), from);
                lanes[lane] = lanes[lane].max(bar.end);
            }
        }
        let of_rows = ends.iter().map(|lanes| lanes.len().max(1)).collect();
        Self { of_bars, of_rows }
    }

    /// The box of a bar in rows that have equally many lanes.
    fn place(
        &self,
        area: Area,
        bar: &PlanBar,
        (first, last): (usize, usize),
        lane: usize,
    ) -> [i64; 4] {
        let rows = self.of_rows.len();
        let (left, right) = (area.x(bar.start), area.x(bar.end));
        let (top, low) = (area.row(first, rows), area.row(last + 1, rows));
        let lanes = self.of_rows.get(first).map_or(1, |lanes| *lanes as i64);
        let at = |lane: i64| top + (low - top) * lane / lanes;
        let (top, low) = (at(lane as i64), at(lane as i64 + 1));
        [left, top, (right - left).max(1), (low - top).max(1)]
    }
}

/// Nodes of a bar that lie side by side: first and last.
/// Rows that are cut into lanes are each for themselves.
fn runs(bar: &PlanBar, rows: usize, lanes: &Lanes) -> Vec<(usize, usize)> {
    let mut nodes: Vec<usize> = bar.nodes.iter().map(|n| *n as usize).collect();
    nodes.retain(|n| *n < rows);
    nodes.sort_unstable();
    let whole = |row: usize| lanes.of_rows.get(row) == Some(&1);
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for n in nodes {
        match runs.last_mut() {
            Some((_, last)) if n == *last => {}
            Some((_, last)) if n == *last + 1 && whole(n) && whole(*last) => *last = n,
            _ => runs.push((n, n)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::resv::slots::sample::at;

    const AREA: (i64, i64) = (0, 60);

    fn chart(names: &[&str], bars: Vec<PlanBar>) -> (String, i64) {
        let plan = PlanChart {
            now: at("12:00"),
            nodes: names.iter().map(|n| (*n).to_owned()).collect(),
            bars,
            beyond: 0,
        };
        let (from, to) = (at("12:00"), at("20:00"));
        let (top, height) = AREA;
        let area = Area {
            from,
            to,
            top,
            height,
        };
        let mut svg = Svg::new(LEFT + WIDTH + RIGHT, 60, "", "");
        super::bars(&mut svg, &plan, area, Labels::InBars);
        (svg.finish(), super::height(&plan, from, to))
    }

    fn bar(label: &str, start: &str, end: &str, nodes: &[u32]) -> PlanBar {
        PlanBar {
            kind: BarKind::Running,
            label: label.to_owned(),
            start: at(start),
            end: at(end),
            nodes: nodes.to_vec(),
        }
    }

    fn boxes(svg: &str) -> Vec<[i64; 4]> {
        let number = |line: &str, name: &str| {
            let at = line.split_once(&format!(" {name}=\"")).unwrap().1;
            at.split('"').next().unwrap().parse().unwrap()
        };
        let lines = svg.lines().filter(|l| l.contains("class=\"running\""));
        lines
            .map(|l| ["x", "y", "width", "height"].map(|name| number(l, name)))
            .collect()
    }

    #[test]
    fn bars_on_one_node_do_not_hide_each_other() {
        let whole = bar("7", "12:00", "16:00", &[0, 1]);
        let (svg, height) = chart(&["n1", "n2"], vec![whole.clone()]);
        assert_eq!(boxes(&svg), [[LEFT, 0, WIDTH / 2, 60]]);
        let beside = bar("8", "14:00", "20:00", &[1]);
        let (svg, deeper) = chart(&["n1", "n2"], vec![whole, beside]);
        let want = [
            [LEFT, 0, WIDTH / 2, 30],
            [LEFT, 30, WIDTH / 2, 15],
            [LEFT + WIDTH / 4, 45, WIDTH * 3 / 4, 15],
        ];
        assert_eq!((boxes(&svg), deeper), (want.to_vec(), 2 * height));
    }

    /// What began long ago does not reach into the names.
    #[test]
    fn bars_stay_in_their_area() {
        let old = bar("7", "2026-11-21 01:00", "14:00", &[0]);
        let old = PlanBar {
            start: at("12:00") - cosy_model::Span(999_999_999),
            ..old
        };
        let far = PlanBar {
            end: Time::FAR,
            ..bar("8", "14:00", "15:00", &[0])
        };
        let over = PlanBar {
            end: old.start,
            ..old.clone()
        };
        let (svg, _) = chart(&["n1"], vec![old, far, over]);
        let want = [
            [LEFT, 0, WIDTH / 4, 60],
            [LEFT + WIDTH / 4, 0, WIDTH * 3 / 4, 60],
        ];
        assert_eq!(boxes(&svg), want);
    }

    #[test]
    fn labels_and_names() {
        let check = |label: &str, names: &[&str], end: &str, want: &str, there: bool| {
            let (svg, _) = chart(names, vec![bar(label, "12:00", end, &[0])]);
            assert_eq!(svg.contains(want), there, "{svg}");
        };
        check("<7>", &["n1"], "13:00", ">&lt;7&gt;</text>", true);
        check("12345", &["n1"], "12:10", ">12345</text>", false);
        check("7", &["a-node.with.a.long.name"], "13:00", ">a-node.wit\u{2026}</text>", true);
        check("7", &["n1", "n2", "n3", "n4", "n5", "n6"], "13:00", ">7</text>", false);
    }

    #[test]
    fn many_jobs_on_one_node() {
        let all = (0..300).map(|n| bar(&n.to_string(), "12:00", "13:00", &[0]));
        let (svg, height) = chart(&["n1"], all.collect());
        let boxes = boxes(&svg);
        assert_eq!((boxes.len(), height), (300, ROW * DEEPEST));
        assert!(boxes.iter().all(|b| b[1] + b[3] <= 61), "{boxes:?}");
    }
}
