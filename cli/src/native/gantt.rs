//! Common parts of Gantt charts as SVG: an area with time from left to right and a row for each
//! node.
//!
//! It knows nothing of controllers; the zone is handed in.

use crate::native::resv::words;
use cosy_model::reservation::{BarKind, PlanBar, PlanChart};
use cosy_model::{Span, Time};
use cosy_svg::{Anchor, Svg};
use jiff::Zoned;

/// The rules of the classes that are used here.
pub const STYLE: &str = "\
text{font-family:sans-serif;font-size:11px;fill:#333}\
.t{font-size:15px;font-weight:bold}\
.g{stroke:#ddd}.a{stroke:#888}\
.running{fill:#7a7a7a}.planned{fill:#a9c4e0}.held{fill:#f0b35a}.reserved{fill:#c0504d}\
.running,.planned,.held,.reserved{stroke:#fff;stroke-width:.5}";

/// Left edge of the drawings.
pub const LEFT: i64 = 90;
/// Width of the drawings in pixels, margins not counted.
pub const WIDTH: i64 = 860;
/// Right margin in pixels.
pub const RIGHT: i64 = 45;
/// Most boxes that are drawn.
const BOXES: usize = 50_000;
/// Pixels between two times at the axis, at least.
const MARK: i64 = 110;

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
        LEFT + i64::try_from(at).unwrap_or(WIDTH).min(WIDTH)
    }

    /// Lower edge in pixels.
    pub fn bottom(&self) -> i64 {
        self.top + self.height
    }

    /// Lines and times from left to right.
    pub fn axis(&self, svg: &mut Svg, now: &Zoned) {
        let marks = WIDTH / MARK;
        let all = self.to.since(self.from).0;
        for n in 0..=marks {
            let t = self.from + Span(all / marks * n);
            let x = self.x(t);
            svg.line("g", (x, self.top), (x, self.bottom()));
            let minute = Time::from_secs(t.secs() / 60 * 60);
            svg.words(x, self.bottom() + 14, Anchor::Middle, "", &words::clock(minute, now));
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

/// All bars of a plan, and the names of its nodes.
pub fn bars(svg: &mut Svg, plan: &PlanChart, area: Area) {
    let rows = plan.nodes.len().max(1);
    let y = |row: usize| area.row(row, rows);
    let mut boxes = 0;
    for bar in plan.bars.iter().filter(|b| b.start < area.to) {
        let (left, right) = (area.x(bar.start), area.x(bar.end));
        for (first, last) in runs(bar, rows) {
            boxes += 1;
            if boxes > BOXES {
                return;
            }
            let (top, low) = (y(first), y(last + 1));
            let at = [left, top, (right - left).max(1), (low - top).max(1)];
            svg.bar(class(bar.kind), at, &bar.label);
        }
    }
    let step = rows.div_ceil(usize::try_from(area.height / 12).unwrap_or(1).max(1));
    for (row, name) in plan.nodes.iter().enumerate().step_by(step.max(1)) {
        svg.words(LEFT - 6, y(row) + 11, Anchor::End, "", name);
    }
}

/// Nodes of a bar that lie side by side: first and last.
fn runs(bar: &PlanBar, rows: usize) -> Vec<(usize, usize)> {
    let mut nodes: Vec<usize> = bar.nodes.iter().map(|n| *n as usize).collect();
    nodes.retain(|n| *n < rows);
    nodes.sort_unstable();
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for n in nodes {
        match runs.last_mut() {
            Some((_, last)) if n <= *last + 1 => *last = n,
            _ => runs.push((n, n)),
        }
    }
    runs
}
