//! A workflow's plan as a Gantt chart, as SVG: a row for each node that it uses, its slots
//! with the estimate dark and the spare time light, lines from parents to children, and
//! behind them what else is on those nodes.
//!
//! Source: Zhao and Sakellariou, figures 5 to 7, on the nodes of the real machine.

use crate::native::flow::rows::{Rows, SlotPosition};
use crate::native::gantt::{self, Area, LEFT, Labels, RIGHT, WIDTH};
use crate::native::resv::words;
use cosy_model::reservation::{BarKind, PlanBar, PlanChart};
use cosy_model::workflow::{FlowPlan, FlowSpec, PlannedTask};
use cosy_model::{Span, Time};
use cosy_svg::{Anchor, Svg};
use cosy_view::flow_plan;
use jiff::Zoned;
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthStr;

const STYLE: &str = "\
.running,.planned,.held,.reserved{opacity:.35}\
.slot{fill:#cfe3d6;stroke:#4f9d69}.slotcp{fill:#f6d9b8;stroke:#c9731b}\
.est{fill:#4f9d69}.estcp{fill:#e08a2e}\
.edge{stroke:#555;stroke-width:.8}.end{stroke:#c00;stroke-dasharray:4 2}.n{fill:#111}";

/// Upper edge of the chart, in pixels (as all lengths here).
const TOP: i64 = 60;
/// Height of a node's row where there is room.
const ROW: i64 = 26;
/// Greatest height of the chart.
const TALLEST: i64 = 1200;
/// Most lanes of a row that make the picture taller.
const DEEPEST: usize = 4;
/// Height of a line of words.
const LINE: i64 = 12;
/// Boxes that are drawn, at most.
const BOXES: usize = 50_000;
/// Most lines between tasks.
const LINES: usize = 5000;
/// Width of a letter.
const LETTER: i64 = 7;

/// The slots alone, as the chart of letters takes them.
pub fn slots(spec: &FlowSpec, plan: &FlowPlan) -> PlanChart {
    let rows = Rows::of(plan);
    let bars = plan
        .tasks
        .iter()
        .zip(&rows.positions)
        .map(|(t, positions)| PlanBar {
            kind: BarKind::Reserved,
            label: flow_plan::name(spec, t).to_owned(),
            start: t.start,
            end: t.end,
            nodes: positions.iter().map(|s| s.row as u32).collect(),
        });
    PlanChart {
        now: plan.start,
        bars: bars.collect(),
        nodes: rows.names.clone(),
        beyond: 0,
    }
}

/// Other bars of the machine's plan, moved to the rows of the slots.
fn in_rows_of_slots(around: &PlanChart, rows: &Rows) -> PlanChart {
    let row = |node: &u32| {
        let name = around.nodes.get(*node as usize)?;
        rows.row(name).map(|row| row as u32)
    };
    let bars = around.bars.iter().map(|bar| PlanBar {
        nodes: bar.nodes.iter().filter_map(row).collect(),
        ..bar.clone()
    });
    PlanChart {
        now: around.now,
        nodes: rows.names.clone(),
        bars: bars.filter(|b| !b.nodes.is_empty()).collect(),
        beyond: 0,
    }
}

/// Draws the plan over what else there is.
pub fn draw(spec: &FlowSpec, plan: &FlowPlan, around: &PlanChart, now: &Zoned) -> String {
    let rows = Rows::of(plan);
    let from = plan.now.min(plan.start);
    let to = flow_plan::end(plan).max(plan.deadline);
    let lanes = rows.names.len().max(1) * rows.deepest().min(DEEPEST);
    let tall = i64::try_from(lanes).unwrap_or(i64::MAX).saturating_mul(ROW);
    let area = Area {
        from,
        to: to.max(from + Span::from_secs(1)),
        top: TOP,
        height: tall.clamp(ROW, TALLEST),
    };
    let style = format!("{}{STYLE}", gantt::STYLE);
    let title =
        format!("{}: {} and {}", words::clean(&spec.name), spec.scheduler, spec.slack_policy);
    let mut svg = Svg::new(LEFT + WIDTH + RIGHT, area.bottom() + 40, &style, &title);
    legend(&mut svg);
    area.axis(&mut svg, now);
    gantt::bars(&mut svg, &in_rows_of_slots(around, &rows), area, Labels::UnderPointer);
    let drawing = Drawing {
        spec,
        plan,
        area,
        rows,
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
    rows: Rows,
    now: &'a Zoned,
}

impl Drawing<'_> {
    fn slots(&self, svg: &mut Svg) {
        let mut boxes = 0;
        for (task, positions) in self.plan.tasks.iter().zip(&self.rows.positions) {
            let tip = self.tip(task);
            for position in positions {
                boxes += 1;
                if boxes > BOXES {
                    return;
                }
                self.slot(svg, task, *position, &tip);
            }
            if let Some(first) = positions.iter().min_by_key(|s| s.row) {
                self.label(svg, task, *first);
            }
        }
    }

    /// Upper and lower edge of a slot's box, in pixels.
    fn edges_of(&self, position: SlotPosition) -> (i64, i64) {
        let count = self.rows.names.len().max(1);
        let top = self.area.row(position.row, count) + 2;
        let room = self.area.row(position.row + 1, count) - 2 - top;
        let at = |lane: usize| {
            let share = lane as i128 * i128::from(room) / position.lanes.max(1) as i128;
            top + i64::try_from(share).unwrap_or(room)
        };
        (at(position.lane), at(position.lane + 1))
    }

    fn slot(&self, svg: &mut Svg, task: &PlannedTask, position: SlotPosition, tip: &str) {
        let (slot, estimate) = if task.critical {
            ("slotcp", "estcp")
        } else {
            ("slot", "est")
        };
        let (top, low) = self.edges_of(position);
        let height = (low - top - 1).max(1);
        let [left, middle, right] =
            [task.start, task.start + task.estimate, task.end].map(|t| self.area.x(t));
        svg.bar(slot, [left, top, (right - left).max(1), height], tip);
        let worked = (middle.min(right) - left).max(1);
        svg.bar(estimate, [left, top, worked, (height * 3 / 5).max(1)], tip);
    }

    /// The name, where it fits.
    fn label(&self, svg: &mut Svg, task: &PlannedTask, position: SlotPosition) {
        let name = flow_plan::name(self.spec, task);
        let (left, right) = (self.area.x(task.start), self.area.x(task.end));
        let width = LETTER * i64::try_from(name.width()).unwrap_or(i64::MAX / LETTER);
        let (top, low) = self.edges_of(position);
        if low - top >= LINE && width <= right - left {
            svg.words(left + 3, top + LINE - 1, Anchor::Start, "n", name);
        }
    }

    fn tip(&self, task: &PlannedTask) -> String {
        format!(
            "{}: {}, estimate {}, spare {} ({} %), {} SU",
            flow_plan::name(self.spec, task),
            words::clocks(task.start, task.end, self.now),
            words::span(task.estimate),
            words::span(task.spare),
            flow_plan::percent(task.spare, task.estimate),
            task.price
        )
    }

    /// From the end of a parent's slot to the start of its child's.
    fn edges(&self, svg: &mut Svg) {
        let tasks = self.plan.tasks.iter().zip(&self.rows.positions);
        let places: BTreeMap<u32, (&PlannedTask, SlotPosition)> = tasks
            .filter_map(|(t, positions)| {
                let first = positions.iter().min_by_key(|s| s.row)?;
                Some((t.task, (t, *first)))
            })
            .collect();
        for edge in self.spec.edges.iter().take(LINES) {
            let ends = (places.get(&edge.from), places.get(&edge.to));
            if let (Some((from, above)), Some((to, below))) = ends {
                let start = self.middle(*above, from.end);
                svg.line("edge", start, self.middle(*below, to.start));
            }
        }
    }

    fn middle(&self, position: SlotPosition, time: Time) -> (i64, i64) {
        let (top, low) = self.edges_of(position);
        (self.area.x(time), (top + low) / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::flow::plan::sample;

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
        assert_eq!((count("class=\"estcp\""), count("class=\"slotcp\"")), (4, 3));
        // On two nodes.
        assert_eq!((count("class=\"est\""), count("class=\"slot\"")), (3, 3));
        assert_eq!((count("class=\"edge\""), count("class=\"end\"")), (4, 1));
        // Of the jobs only the one on a node of the workflow.
        assert_eq!(count("class=\"running\""), 2);
        assert!(svg.contains("&lt;8&gt;") && svg.contains(">first</text>"));
        // 12:10 is 10 of the 55 minutes until the deadline.
        assert!(svg.contains(&format!("x=\"{}\"", LEFT + WIDTH * 10 / 55)));
    }

    /// A slot of 15 minutes has room for 33 columns.
    #[test]
    fn names_stand_where_they_fit() {
        let check = |name: &str, fits: bool| {
            let mut spec = sample::spec();
            spec.tasks[0].name = name.to_owned();
            let svg = draw(&spec, &sample::plan(), &around(), &sample::now());
            assert_eq!(svg.contains(&format!(">{name}</text>")), fits, "{name}");
        };
        check(&"a".repeat(33), true);
        check(&"a".repeat(34), false);
        check(&"\u{8ba1}".repeat(16), true);
        check(&"\u{8ba1}".repeat(17), false);
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
