//! A workflow's plan as a Gantt chart, as SVG: a row for each node that it uses, its slots
//! with the estimate dark and the spare time light, lines from parents to children, and
//! behind them what else is on those nodes.
//!
//! Source: Zhao and Sakellariou, figures 5 to 7, on the nodes of the real machine.

use crate::flow::plan;
use crate::gantt::{self, Area, LEFT, RIGHT, WIDTH};
use crate::resv::svg::{Anchor, Svg};
use crate::resv::words;
use cosy_model::reservation::{BarKind, PlanBar, PlanChart};
use cosy_model::workflow::{FlowPlan, FlowSpec, PlannedTask};
use cosy_model::{Span, Time, expand};
use jiff::Zoned;
use std::collections::BTreeMap;

const STYLE: &str = "\
.running,.planned,.held,.reserved{opacity:.35}\
.slot{fill:#cfe3d6;stroke:#4f9d69}.slotcp{fill:#f6d9b8;stroke:#c9731b}\
.est{fill:#4f9d69}.estcp{fill:#e08a2e}\
.edge{stroke:#555;stroke-width:.8}.end{stroke:#c00;stroke-dasharray:4 2}.n{fill:#111}";

/// Top of the chart.
const TOP: i64 = 60;
/// Height of a node's row where there is room.
const ROW: i64 = 26;
/// Greatest height of the chart.
const TALLEST: i64 = 1200;
/// Most rows.
const ROWS: usize = 400;
/// Most lines between tasks.
const LINES: usize = 5000;
/// Width of a letter.
const LETTER: i64 = 7;

/// The slots alone, as the chart of letters takes them.
pub fn slots(spec: &FlowSpec, plan: &FlowPlan) -> PlanChart {
    let (names, places) = nodes(plan);
    let bar = |t: &PlannedTask| PlanBar {
        kind: BarKind::Reserved,
        label: plan::name(spec, t).to_owned(),
        start: t.start,
        end: t.end,
        nodes: of_slot(t, &places),
    };
    PlanChart {
        now: plan.start,
        bars: plan.tasks.iter().map(bar).collect(),
        nodes: names,
        beyond: 0,
    }
}

/// The nodes of all slots in their order, and the row of each.
fn nodes(plan: &FlowPlan) -> (Vec<String>, BTreeMap<String, u32>) {
    let mut names: Vec<String> = Vec::new();
    let mut places = BTreeMap::new();
    for task in &plan.tasks {
        for name in expand(&task.nodes).unwrap_or_default() {
            places.entry(name).or_insert(0);
        }
    }
    names.extend(places.keys().cloned());
    names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    names.truncate(ROWS);
    places.clear();
    let rows = names.iter().cloned().zip(0..);
    places.extend(rows);
    (names, places)
}

fn of_slot(task: &PlannedTask, places: &BTreeMap<String, u32>) -> Vec<u32> {
    let names = expand(&task.nodes).unwrap_or_default();
    names
        .iter()
        .filter_map(|n| places.get(n).copied())
        .collect()
}

/// What else is there, on the rows of the slots.
fn behind(around: &PlanChart, names: &[String], places: &BTreeMap<String, u32>) -> PlanChart {
    let row = |node: &u32| {
        let name = around.nodes.get(*node as usize)?;
        places.get(name).copied()
    };
    let bars = around.bars.iter().map(|bar| PlanBar {
        nodes: bar.nodes.iter().filter_map(row).collect(),
        ..bar.clone()
    });
    PlanChart {
        now: around.now,
        nodes: names.to_vec(),
        bars: bars.filter(|b| !b.nodes.is_empty()).collect(),
        beyond: 0,
    }
}

/// Draws the plan over what else there is.
pub fn draw(spec: &FlowSpec, plan: &FlowPlan, around: &PlanChart, now: &Zoned) -> String {
    let (names, places) = nodes(plan);
    let rows = i64::try_from(names.len().max(1)).unwrap_or(i64::MAX);
    let from = plan.now.min(plan.start);
    let to = plan::end(plan).max(plan.deadline);
    let area = Area {
        from,
        to: to.max(from + Span::from_secs(1)),
        top: TOP,
        height: rows.saturating_mul(ROW).clamp(ROW, TALLEST),
    };
    let style = format!("{}{STYLE}", gantt::STYLE);
    let title = format!(
        "{}: {} and {}",
        words::clean(&spec.name),
        spec.scheduler,
        spec.slack_policy
    );
    let mut svg = Svg::new(LEFT + WIDTH + RIGHT, area.bottom() + 40, &style, &title);
    legend(&mut svg);
    area.axis(&mut svg, now);
    gantt::bars(&mut svg, &behind(around, &names, &places), area);
    let drawing = Drawing {
        spec,
        plan,
        area,
        places,
        rows: names.len().max(1),
        now,
    };
    drawing.slots(&mut svg);
    drawing.edges(&mut svg);
    let deadline = area.x(plan.deadline);
    svg.line("end", (deadline, area.top), (deadline, area.bottom()));
    svg.finish()
}

fn legend(svg: &mut Svg) {
    let entries = [
        ("est", "estimate"),
        ("slot", "spare time in its slot"),
        ("estcp", "on the critical path"),
        ("reserved", "others' reservations"),
        ("running", "others' jobs"),
    ];
    let mut x = LEFT;
    for (class, words) in entries {
        svg.bar(class, [x, 36, 12, 12], words);
        svg.words(x + 17, 46, Anchor::Start, "", words);
        x += 30 + LETTER * i64::try_from(words.len()).unwrap_or(0);
    }
}

struct Drawing<'a> {
    spec: &'a FlowSpec,
    plan: &'a FlowPlan,
    area: Area,
    places: BTreeMap<String, u32>,
    rows: usize,
    now: &'a Zoned,
}

impl Drawing<'_> {
    fn slots(&self, svg: &mut Svg) {
        for task in &self.plan.tasks {
            let bar = PlanBar {
                kind: BarKind::Reserved,
                label: String::new(),
                start: task.start,
                end: task.end,
                nodes: of_slot(task, &self.places),
            };
            let tip = self.tip(task);
            let name = plan::name(self.spec, task);
            for (at, run) in gantt::runs(&bar, self.rows).into_iter().enumerate() {
                self.slot(svg, task, run, &tip);
                if at == 0 {
                    self.label(svg, task, run, name);
                }
            }
        }
    }

    fn slot(&self, svg: &mut Svg, task: &PlannedTask, (first, last): (usize, usize), tip: &str) {
        let (slot, estimate) = if task.critical {
            ("slotcp", "estcp")
        } else {
            ("slot", "est")
        };
        let top = self.area.row(first, self.rows) + 2;
        let height = (self.area.row(last + 1, self.rows) - top - 2).max(1);
        let [left, middle, right] =
            [task.start, task.start + task.estimate, task.end].map(|t| self.area.x(t));
        svg.bar(slot, [left, top, (right - left).max(1), height], tip);
        let worked = (middle.min(right) - left).max(1);
        svg.bar(estimate, [left, top, worked, (height * 3 / 5).max(1)], tip);
    }

    /// The name, where it fits.
    fn label(&self, svg: &mut Svg, task: &PlannedTask, (first, _): (usize, usize), name: &str) {
        let (left, right) = (self.area.x(task.start), self.area.x(task.end));
        let width = LETTER * i64::try_from(name.chars().count()).unwrap_or(i64::MAX / LETTER);
        let tall = self.area.height / i64::try_from(self.rows).unwrap_or(1) >= 14;
        if tall && width <= right - left {
            let y = self.area.row(first, self.rows) + 13;
            svg.words(left + 3, y, Anchor::Start, "n", name);
        }
    }

    fn tip(&self, task: &PlannedTask) -> String {
        format!(
            "{}: {}, estimate {}, spare {} ({} %), {} SU",
            plan::name(self.spec, task),
            words::clocks(task.start, task.end, self.now),
            words::span(task.estimate),
            words::span(task.spare),
            plan::percent(task.spare, task.estimate),
            task.price
        )
    }

    /// From the end of a parent's slot to the start of its child's.
    fn edges(&self, svg: &mut Svg) {
        let mut of_task: BTreeMap<u32, &PlannedTask> = BTreeMap::new();
        of_task.extend(self.plan.tasks.iter().map(|t| (t.task, t)));
        for edge in self.spec.edges.iter().take(LINES) {
            if let (Some(from), Some(to)) = (of_task.get(&edge.from), of_task.get(&edge.to)) {
                let ends = (self.middle(from, from.end), self.middle(to, to.start));
                if let (Some(a), Some(b)) = ends {
                    svg.line("edge", a, b);
                }
            }
        }
    }

    fn middle(&self, task: &PlannedTask, time: Time) -> Option<(i64, i64)> {
        let row = of_slot(task, &self.places).into_iter().min()? as usize;
        let (top, low) = (
            self.area.row(row, self.rows),
            self.area.row(row + 1, self.rows),
        );
        Some((self.area.x(time), (top + low) / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::plan::sample;

    fn around() -> PlanChart {
        let bar = |kind, label: &str, nodes: &[u32]| PlanBar {
            kind,
            label: label.to_owned(),
            start: sample::at(0),
            end: sample::at(20),
            nodes: nodes.to_vec(),
        };
        PlanChart {
            now: sample::at(0),
            nodes: ["n0", "n1", "n2"].map(str::to_owned).to_vec(),
            bars: vec![
                bar(BarKind::Running, "7", &[0]),
                bar(BarKind::Running, "<8>", &[0, 2]),
            ],
            beyond: 3,
        }
    }

    #[test]
    fn a_picture() {
        let svg = draw(&sample::spec(), &sample::plan(), &around(), &sample::now());
        let count = |what: &str| svg.matches(what).count();
        // The legend has one of each.
        assert_eq!(
            (count("class=\"estcp\""), count("class=\"slotcp\"")),
            (4, 3)
        );
        assert_eq!((count("class=\"est\""), count("class=\"slot\"")), (2, 2));
        assert_eq!((count("class=\"edge\""), count("class=\"end\"")), (4, 1));
        // Of the jobs only the one on a node of the workflow.
        assert_eq!(count("class=\"running\""), 2);
        assert!(svg.contains("&lt;8&gt;") && svg.contains(">first</text>"));
        // 12:10 is 10 of the 55 minutes until the deadline.
        assert!(svg.contains(&format!("x=\"{}\"", LEFT + WIDTH * 10 / 55)));
    }

    #[test]
    fn odd_plans() {
        let check = |plan: &FlowPlan| {
            let svg = draw(&sample::spec(), plan, &around(), &sample::now());
            assert!(svg.ends_with("</svg>\n") && !svg.contains("\"-"), "{svg}");
        };
        let mut plan = sample::plan();
        plan.tasks[0].nodes = "n[".into();
        plan.tasks[1].task = 77;
        plan.tasks[2].end = Time::FAR;
        check(&plan);
        plan.deadline = sample::at(-100);
        plan.tasks.clear();
        check(&plan);
    }
}
