//! The page of the plan: a Gantt chart of which a window is seen, own jobs before those of others.

use crate::native::plan::picture::{self, Frame};
use crate::native::top::event::Ask;
use crate::native::top::scroll::{Scroll, Step};
use crate::times;
use cosy_model::reservation::{BarKind, PlanBar, PlanChart};
use cosy_model::{JobId, Span, Time};
use cosy_view::phrase::{count, span};
use jiff::Zoned;
use std::collections::BTreeSet;

/// Lengths of the window in hours.
const HOURS: [i64; 8] = [1, 3, 6, 12, 24, 72, 168, 672];
/// The longest one that is chosen for what is there.
const USUAL: usize = 4;
/// So many steps make a window.
const STEPS: i64 = 4;
/// Rows that are drawn, at most.
const MOST_ROWS: usize = 2000;
/// What stands before the id of an own job.
const OWN: char = '*';

/// The page of the plan.
#[derive(Clone, Debug)]
pub struct Plan {
    uid: u32,
    chart: Option<Box<PlanChart>>,
    own: BTreeSet<JobId>,
    /// How far behind the present the window begins.
    ahead: Span,
    /// The place of its length, once one was chosen; what is there decides without.
    zoom: Option<usize>,
    /// Only nodes with this in their name.
    line: String,
    scroll: Scroll,
}

impl Plan {
    /// No chart yet.
    pub fn new(uid: u32) -> Self {
        Self {
            uid,
            chart: None,
            own: BTreeSet::new(),
            ahead: Span::ZERO,
            zoom: None,
            line: String::new(),
            scroll: Scroll::default(),
        }
    }

    fn place(&self) -> usize {
        self.zoom.unwrap_or_else(|| {
            let chart = self.chart.as_ref();
            let ends = chart.and_then(|chart| Some((chart.now, last_end(chart)?)));
            let fits = |place: &usize| ends.is_some_and(|(now, last)| last <= now + length(*place));
            (0..USUAL).find(fits).unwrap_or(USUAL)
        })
    }

    fn length(&self) -> Span {
        length(self.place())
    }

    /// What is asked of the controller.
    pub fn ask(&self, now: &Zoned) -> Ask {
        Ask::Plan {
            until: times::time_of(now) + self.ahead + length(self.zoom.unwrap_or(USUAL)),
            own: self.uid,
        }
    }

    /// A new chart.
    pub fn take(&mut self, chart: Box<PlanChart>, own: Vec<JobId>) {
        self.chart = Some(chart);
        self.own = own.into_iter().collect();
    }

    /// Looks for nodes with this in their name.
    pub fn look_for(&mut self, line: &str) {
        line.clone_into(&mut self.line);
        self.scroll = Scroll::default();
    }

    /// What is looked for.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// A shorter window where `in_`, else a longer one.
    pub fn zoom(&mut self, in_: bool) {
        let place = self.place();
        self.zoom = Some(match in_ {
            true => place.saturating_sub(1),
            false => (place + 1).min(HOURS.len() - 1),
        });
    }

    /// The window moves to later times, or back; never behind the present.
    pub fn pan(&mut self, later: bool) {
        // What is there changes with the window: its length stays.
        let place = *self.zoom.insert(self.place());
        let step = Span(length(place).0 / STEPS);
        self.ahead = match later {
            true => self.ahead + step,
            false => Span((self.ahead.0 - step.0).max(0)),
        };
    }

    /// Back to the present.
    pub fn back(&mut self) {
        self.ahead = Span::ZERO;
        self.zoom = None;
    }

    /// The rows move.
    pub fn step(&mut self, step: Step, (width, height): (usize, usize), now: &Zoned) {
        let rows = self.lines(width, now).1.len();
        self.scroll.turn(step, rows, height);
    }

    /// Which row is seen first.
    pub const fn scroll(&self) -> Scroll {
        self.scroll
    }

    /// What the letters stand for, the axis, and the rows.
    pub fn lines(&self, width: usize, now: &Zoned) -> (Vec<String>, Vec<String>) {
        let Some(chart) = &self.chart else {
            return (Vec::new(), Vec::new());
        };
        let chart = self.window(chart);
        let frame = Frame {
            width,
            until: chart.now + self.length(),
            zone: now,
        };
        let drawn = picture::lines(&chart, frame, MOST_ROWS);
        let mut lines = drawn.lines.into_iter();
        let axis = lines.next().unwrap_or_default();
        let mut head = legend(drawn.column, width);
        head.push(axis);
        let mut rows: Vec<String> = lines.collect();
        if drawn.beyond > 0 {
            rows.push(format!("and {} more rows", drawn.beyond));
        }
        (head, rows)
    }

    /// The chart as the window shows it.
    fn window(&self, chart: &PlanChart) -> PlanChart {
        let from = chart.now + self.ahead;
        let until = from + self.length();
        let seen = |bar: &&PlanBar| bar.end > from && bar.start < until;
        let mut bars: Vec<PlanBar> = chart.bars.iter().filter(seen).cloned().collect();
        let mut first = BTreeSet::new();
        for bar in &mut bars {
            if self.is_own(&bar.label) {
                bar.label.insert(0, OWN);
                first.extend(bar.nodes.iter().copied());
            }
        }
        let places = 0..u32::try_from(chart.nodes.len()).unwrap_or(u32::MAX);
        let looked_for = |at: &u32| {
            let name = chart.nodes.get(*at as usize);
            name.is_some_and(|name| name.contains(self.line.trim()))
        };
        let mut order: Vec<u32> = places.filter(looked_for).collect();
        order.sort_by_key(|at| !first.contains(at));
        placed(chart, bars, &order, from)
    }

    fn is_own(&self, label: &str) -> bool {
        let id = label.split(['_', '+']).next().unwrap_or_default();
        let id = id.parse().ok().map(JobId);
        id.is_some_and(|id| self.own.contains(&id))
    }

    /// What is told where there is no row.
    pub fn none(&self) -> String {
        match (&self.chart, self.line.as_str()) {
            (None, _) => "the plan is being asked for".to_owned(),
            (Some(_), "") => "there are no nodes".to_owned(),
            (Some(_), line) => format!("no node here for '{line}': Esc shows the others again"),
        }
    }

    /// How much is in it.
    pub fn summary(&self) -> String {
        let Some(chart) = &self.chart else {
            return String::new();
        };
        let of = |kind| chart.bars.iter().filter(|bar| bar.kind == kind).count() as u64;
        let mut parts = vec![format!(
            "{} running, {} planned, {}",
            of(BarKind::Running),
            of(BarKind::Planned),
            count(of(BarKind::Held) + of(BarKind::Reserved), "reservation", "reservations"),
        )];
        match chart.beyond {
            0 => {}
            1 => parts.push("1 more job waits".to_owned()),
            n => parts.push(format!("{n} more jobs wait")),
        }
        parts.push(format!("{} are seen", span(self.length())));
        if self.ahead > Span::ZERO {
            parts.push(format!("beginning in {}", span(self.ahead)));
        }
        if !self.line.is_empty() {
            parts.push(format!("/{}", self.line));
        }
        parts.join(" | ")
    }
}

/// Length of a window by its place.
fn length(place: usize) -> Span {
    Span::from_minutes(60 * HOURS.get(place).copied().unwrap_or(24))
}

/// When the last of what is planned ends.
fn last_end(chart: &PlanChart) -> Option<Time> {
    chart.bars.iter().map(|bar| bar.end).max()
}

/// The chart with those of its nodes, in that order.
fn placed(chart: &PlanChart, bars: Vec<PlanBar>, order: &[u32], from: Time) -> PlanChart {
    let mut place = vec![None; chart.nodes.len()];
    for (new, old) in order.iter().enumerate() {
        if let Some(place) = place.get_mut(*old as usize) {
            *place = u32::try_from(new).ok();
        }
    }
    let moved = |bar: PlanBar| {
        let new = |node: &u32| place.get(*node as usize).copied().flatten();
        PlanBar {
            nodes: bar.nodes.iter().filter_map(new).collect(),
            ..bar
        }
    };
    let name = |at: &u32| chart.nodes.get(*at as usize).cloned();
    PlanChart {
        now: from,
        nodes: order.iter().filter_map(name).collect(),
        bars: bars.into_iter().map(moved).collect(),
        beyond: chart.beyond,
    }
}

/// What the letters stand for, in one line, or in two where one has no room.
fn legend(column: Span, width: usize) -> Vec<String> {
    let kinds = [
        (BarKind::Running, "running"),
        (BarKind::Planned, "planned"),
        (BarKind::Held, "held"),
        (BarKind::Reserved, "reserved"),
    ];
    let words = kinds.map(|(kind, word)| format!("{} {word}", picture::letter(kind)));
    let kinds = format!("{}  {OWN} yours", words.join("  "));
    let letter = format!("a letter is {} or less", span(column));
    match kinds.len() + 2 + letter.len() <= width {
        true => vec![format!("{kinds}; {letter}")],
        false => vec![kinds, letter],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::top::sample;

    fn plan() -> Plan {
        let mut plan = Plan::new(7);
        plan.take(Box::new(sample::chart(3)), vec![JobId(3)]);
        plan
    }

    fn rows(plan: &Plan) -> Vec<String> {
        plan.lines(60, &sample::noon()).1
    }

    #[test]
    fn own_jobs_are_in_front() {
        let mut plan = plan();
        let rows = rows(&plan);
        assert!(rows[0].starts_with("n3") && rows[0].contains("|*3##"), "{rows:?}");
        assert!(rows[1].starts_with("n1") && rows[1].contains("|1##"), "{rows:?}");
        plan.look_for("n2");
        let rows = self::rows(&plan);
        assert!(rows.len() == 1 && rows[0].starts_with("n2"), "{rows:?}");
        plan.look_for("n9");
        assert!(self::rows(&plan).is_empty() && plan.none().contains("n9"));
    }

    #[test]
    fn the_window_moves() {
        let mut plan = plan();
        let axis = |plan: &Plan| plan.lines(60, &sample::noon()).0.pop().unwrap_or_default();
        assert!(axis(&plan).contains("|12:00"), "{}", axis(&plan));
        plan.pan(false);
        assert_eq!(plan.ahead, Span::ZERO);
        plan.zoom(true);
        plan.zoom(true);
        plan.pan(true);
        assert_eq!(plan.ahead, Span::from_minutes(90));
        assert!(!axis(&plan).contains("12:00"), "{}", axis(&plan));
        // Of what began before, the rest is seen from the left edge on.
        let rows = rows(&plan);
        assert!(rows.iter().any(|row| row.starts_with("n1     |1###")), "{rows:?}");
        for _ in 0..20 {
            plan.zoom(false);
        }
        assert_eq!(plan.length(), Span::from_minutes(60 * 672));
        for _ in 0..20 {
            plan.zoom(true);
        }
        assert_eq!(plan.length(), Span::from_minutes(60));
        plan.back();
        assert_eq!((plan.ahead, plan.length()), (Span::ZERO, Span::from_minutes(24 * 60)));
    }

    #[test]
    fn tasks_of_own_arrays_are_own() {
        let plan = plan();
        let check = |label: &str, want| assert_eq!(plan.is_own(label), want, "{label}");
        check("3", true);
        check("3_7", true);
        check("3+1", true);
        check("r3", false);
        check("33", false);
        check("", false);
    }
}
