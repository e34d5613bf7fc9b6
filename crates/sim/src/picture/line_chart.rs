//! Lines in panels, one above the other: figures of experiments.
//!
//! What always holds: a line has at most one point for each tenth of a pixel.

use super::curves::most;
use cosy_svg::{Anchor, Length, Svg};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 150.0;
const HEIGHT: f64 = 220.0;
const PANEL: f64 = 290.0;
const TOP: f64 = 64.0;
/// Parts between the marks of an axis.
const PARTS: i32 = 5;
const COLOURS: [&str; 8] = [
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#333333",
];

/// A line with its name.
#[derive(Clone, PartialEq, Debug)]
pub struct PlotLine {
    /// What the legend calls it.
    pub name: String,
    /// Points (x, y), from left to right.
    pub points: Vec<(f64, f64)>,
    /// True when the line stays at a height until the next point.
    pub steps: bool,
}

/// Lines over the same axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// What is written above it.
    pub title: String,
    /// What is written below it.
    pub across: String,
    /// What is drawn in it; colours repeat after eight.
    pub lines: Vec<PlotLine>,
}

/// An SVG text with the panels one above the other.
pub fn line_chart(title: &str, panels: &[Panel]) -> String {
    let height = TOP + PANEL * panels.len() as f64;
    let mut svg = Svg::new(WIDTH, height, super::STYLE, title);
    for (at, panel) in panels.iter().enumerate() {
        PanelFrame::of(panel, TOP + PANEL * at as f64).draw(&mut svg, panel);
    }
    svg.finish()
}

/// The part of the page that a panel is on, and the ranges of its axes.
struct PanelFrame {
    top: f64,
    from: f64,
    to: f64,
    most: f64,
}

impl PanelFrame {
    fn of(panel: &Panel, top: f64) -> Self {
        let points = || panel.lines.iter().flat_map(|line| &line.points);
        let from = points().map(|(x, _)| *x).fold(f64::MAX, f64::min);
        let to = points().map(|(x, _)| *x).fold(f64::MIN, f64::max);
        let heights: Vec<f64> = points().map(|(_, y)| *y).collect();
        let (from, to) = if from < to { (from, to) } else { (0.0, 1.0) };
        Self {
            top,
            from,
            to,
            most: most(&heights),
        }
    }

    fn x(&self, value: f64) -> f64 {
        let part = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        LEFT + (WIDTH - LEFT - RIGHT) * part
    }

    fn y(&self, value: f64) -> f64 {
        self.top + HEIGHT * (1.0 - (value / self.most).clamp(0.0, 1.0))
    }

    fn draw(&self, svg: &mut Svg, panel: &Panel) {
        let (right, bottom) = (WIDTH - RIGHT, self.top + HEIGHT);
        svg.words(LEFT, self.top - 8.0, Anchor::Start, "", &panel.title);
        for part in 0..=PARTS {
            let part = f64::from(part) / f64::from(PARTS);
            let (across, up) = (self.from + (self.to - self.from) * part, self.most * part);
            let (x, y) = (self.x(across), self.y(up));
            svg.line("g", (x, self.top), (x, bottom));
            svg.line("g", (LEFT, y), (right, y));
            svg.words(x, bottom + 14.0, Anchor::Middle, "", &amount(across));
            svg.words(LEFT - 6.0, y + 4.0, Anchor::End, "", &amount(up));
        }
        svg.bar("f", [LEFT, self.top, right - LEFT, HEIGHT], "");
        svg.words((LEFT + right) / 2.0, bottom + 30.0, Anchor::Middle, "", &panel.across);
        for (at, line) in panel.lines.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            svg.coloured_path("l", colour, &self.path(line), &line.name);
            let y = self.top + 12.0 + 16.0 * at as f64;
            svg.coloured_path(
                "l",
                colour,
                &format!("M{} {}h20", (right + 8.0).px(), y.px()),
                &line.name,
            );
            svg.words(right + 34.0, y + 4.0, Anchor::Start, "", &line.name);
        }
    }

    fn path(&self, line: &PlotLine) -> String {
        let mut path = String::new();
        let mut last = String::new();
        for (at, (x, y)) in line.points.iter().enumerate() {
            let (x, y) = (self.x(*x).px(), self.y(*y).px());
            let place = format!("{x} {y}");
            if place == last {
                continue;
            }
            match (at, line.steps) {
                (0, _) => path += &format!("M{place}"),
                (_, true) => path += &format!("H{x}V{y}"),
                (_, false) => path += &format!("L{place}"),
            }
            last = place;
        }
        path
    }
}

/// With as many digits as tell marks apart.
fn amount(amount: f64) -> String {
    let digits = if amount.abs() < 10.0 { 2 } else { 0 };
    let text = format!("{amount:.digits$}");
    match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(points: &[(f64, f64)], steps: bool) -> Panel {
        Panel {
            title: "a & b".to_owned(),
            across: "days".to_owned(),
            lines: vec![PlotLine {
                name: "one".to_owned(),
                points: points.to_vec(),
                steps,
            }],
        }
    }

    #[test]
    fn lines_go_from_corner_to_corner() {
        let drawn = line_chart("t", &[panel(&[(2.0, 0.0), (4.0, 4.0)], false)]);
        assert!(drawn.contains("d=\"M90 284L750 64\""), "{drawn}");
        assert!(drawn.contains("a &amp; b"));
        let stairs = line_chart("t", &[panel(&[(2.0, 0.0), (4.0, 4.0)], true)]);
        assert!(stairs.contains("d=\"M90 284H750V64\""), "{stairs}");
    }

    #[test]
    fn nothing_to_draw_is_drawn_empty() {
        assert!(line_chart("t", &[panel(&[], false)]).ends_with("</svg>\n"));
    }

    #[test]
    fn marks() {
        let check = |value: f64, want: &str| assert_eq!(amount(value), want);
        check(0.0, "0");
        check(0.25, "0.25");
        check(0.4, "0.4");
        check(40.0, "40");
        check(12_345.6, "12346");
    }
}
