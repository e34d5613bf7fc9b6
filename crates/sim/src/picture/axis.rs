//! Axes: where a time or an amount is on the page, and what is written beside it.

use cosy_model::{Span, Time};
use cosy_svg::{Anchor, Svg};

/// Most marks on an axis.
const MARKS: i64 = 12;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Steps between marks in milliseconds; longer ones are powers of two of the last.
const STEPS: [i64; 19] = [
    1_000,
    5_000,
    15_000,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
    30 * DAY,
    60 * DAY,
    100 * DAY,
];

/// An area of the page with time from left to right. Lengths are in pixels.
#[derive(Clone, Copy)]
pub struct Area {
    /// The area's left edge.
    pub left: f64,
    /// The area's upper edge.
    pub top: f64,
    /// From `left` to the right edge.
    pub width: f64,
    /// From `top` to the lower edge.
    pub height: f64,
    /// The time at the left edge.
    pub from: Time,
    /// The time at the right edge, later than `from`.
    pub to: Time,
}

impl Area {
    /// Distance of `time` from the left of the page.
    pub fn x(&self, time: Time) -> f64 {
        let all = self.to.since(self.from).0.max(1) as f64;
        self.left + self.width * time.since(self.from).0 as f64 / all
    }

    /// The lower edge of the area.
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Marks for times below the area, lines through it, and its frame.
    pub fn draw(&self, svg: &mut Svg) {
        let all = self.to.since(self.from);
        let step = step(all);
        let mut mark = 0;
        while mark <= all.0 {
            let x = self.x(self.from + Span(mark));
            svg.line("g", (x, self.top), (x, self.bottom()));
            let words = words(Span(mark));
            svg.words(x, self.bottom() + 14.0, Anchor::Middle, "", &words);
            mark = mark.saturating_add(step);
            if mark == i64::MAX {
                break;
            }
        }
        svg.bar("f", [self.left, self.top, self.width, self.height], "");
    }

    /// Marks for amounts from 0 at the lower edge to `most` at the upper one.
    pub fn scale(&self, svg: &mut Svg, most: f64, unit: &str) {
        for part in 0..=4 {
            let share = f64::from(part) / 4.0;
            let y = self.bottom() - self.height * share;
            svg.line("g", (self.left, y), (self.left + self.width, y));
            let words = format!("{}{unit}", amount(most * share));
            svg.words(self.left - 6.0, y + 4.0, Anchor::End, "", &words);
        }
    }
}

/// At most one digit behind the point, and none where there is nothing to tell.
fn amount(amount: f64) -> String {
    let text = format!("{amount:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// The shortest step that gives few enough marks.
fn step(all: Span) -> i64 {
    let fits = |step: &i64| all.0 / step <= MARKS;
    STEPS.into_iter().find(fits).unwrap_or_else(|| {
        let mut step = STEPS[STEPS.len() - 1];
        while !fits(&step) {
            step = step.saturating_mul(2);
        }
        step
    })
}

/// `0`, `15 s`, `5 min`, `6 h`, `1 d 12 h`, `30 d`.
pub fn words(span: Span) -> String {
    let ms = span.0.max(0);
    let parts = [
        (ms / DAY, "d"),
        (ms % DAY / HOUR, "h"),
        (ms % HOUR / MINUTE, "min"),
        (ms % MINUTE / 1000, "s"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    if parts.is_empty() {
        return "0".to_owned();
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_give_few_marks() {
        let check = |secs: i64, want: &str| {
            let all = Span::from_secs(secs);
            assert_eq!(words(Span(step(all))), want, "{secs}");
        };
        check(1, "1 s");
        check(600, "1 min");
        check(86_400, "2 h");
        check(7 * 86_400, "1 d");
        check(30 * 86_400, "7 d");
        check(365 * 86_400, "30 d");
        assert!(i64::MAX / step(Span(i64::MAX)) <= MARKS);
    }

    #[test]
    fn spans_in_words() {
        let check = |secs: i64, want: &str| assert_eq!(words(Span::from_secs(secs)), want);
        check(0, "0");
        check(15, "15 s");
        check(36 * 3600, "1 d 12 h");
        check(3660, "1 h 1 min");
    }
}
