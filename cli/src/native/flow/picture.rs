//! A workflow's plan as a Gantt chart, as SVG: a row for each node that it uses, its slots
//! with the estimate dark and the spare time light, lines from parents to children, and
//! behind them what else is on those nodes.
//!
//! Source: Zhao and Sakellariou, figures 5 to 7, on the nodes of the real machine.

use crate::native::flow::rows::{Rows, SlotPosition};
use crate::native::gantt::{self, Area, LEFT, Labels, RIGHT, WIDTH};
use crate::native::resv::words;
use cosy_model::Span;
use cosy_model::reservation::{BarKind, PlanBar, PlanChart};
use cosy_model::workflow::{FlowPlan, FlowSpec, PlannedTask};
use cosy_svg::{Anchor, Svg};
use cosy_view::flow_plan;
use jiff::Zoned;
use std::collections::BTreeMap;

const STYLE: &str = "\
.running,.planned,.held,.reserved{opacity:.35}\
.slot{fill:#cfe3d6;stroke:#4f9d69}.slotcp{fill:#f6d9b8;stroke:#c9731b}\
.est{fill:#4f9d69}.estcp{fill:#e08a2e}\
.edge{stroke:#555;stroke-width:1;fill:none}.head{fill:#555}\
.end{stroke:#c00;stroke-dasharray:4 2}.deadline{fill:none;stroke:#c00;stroke-dasharray:4 2}\
.n{fill:#111}\
@media(prefers-color-scheme:dark){.edge{stroke:#b5b9c0}.head{fill:#b5b9c0}.n{fill:#111}\
.end,.deadline{stroke:#ff6b6b}}";

/// Upper edge of the chart, in pixels (as all lengths here).
const TOP: i64 = 84;
/// Height of a node's row where there is room.
const ROW: i64 = 34;
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
/// Most space above and below the boxes of a row, for the lines between them.
const GUTTER: i64 = 5;
/// How far from the end of a box a line begins, and from the begin of a box it ends.
const INSET: i64 = 4;

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
    let title = title(spec, plan, now);
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
    // Below the boxes, so that none is crossed.
    drawing.edges(&mut svg);
    drawing.slots(&mut svg);
    let deadline = area.x(plan.deadline);
    svg.line("end", (deadline, area.top), (deadline, area.bottom()));
    svg.finish()
}

fn title(spec: &FlowSpec, plan: &FlowPlan, now: &Zoned) -> String {
    format!(
        "Workflow {}: {}, done by {}, deadline {}, {}",
        words::clean(&spec.name),
        words::count(plan.tasks.len() as u64, "task", "tasks"),
        words::clock(flow_plan::end(plan), now),
        words::clock(plan.deadline, now),
        words::su(plan.price)
    )
}

fn legend(svg: &mut Svg) {
    let own = [
        ("est", "estimate"),
        ("slot", "spare time in its slot"),
        ("estcp", "the same on the critical path"),
        ("deadline", "deadline"),
    ];
    let end = gantt::legend(svg, (LEFT, 36), &own);
    svg.words(end, 46, Anchor::Start, "", "arrows lead to tasks that wait for others");
    let beside = [
        ("running", "other jobs, yours too"),
        ("planned", "waiting ones in their planned place"),
        ("held", "held reservations"),
        ("reserved", "reservations"),
    ];
    gantt::legend(svg, (LEFT, 56), &beside);
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

    /// Upper and lower edge of a row, in pixels.
    fn row_edges(&self, row: usize) -> (i64, i64) {
        let count = self.rows.names.len().max(1);
        (self.area.row(row, count), self.area.row(row + 1, count))
    }

    /// Upper and lower edge of a slot's box, in pixels.
    fn edges_of(&self, position: SlotPosition) -> (i64, i64) {
        let (above, below) = self.row_edges(position.row);
        let gutter = ((below - above) / 6).clamp(0, GUTTER);
        let top = above + gutter;
        let room = below - gutter - top;
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

    /// The name, or as much of it as fits.
    fn label(&self, svg: &mut Svg, task: &PlannedTask, position: SlotPosition) {
        let name = flow_plan::name(self.spec, task);
        let (left, right) = (self.area.x(task.start), self.area.x(task.end));
        let (top, low) = self.edges_of(position);
        let name = gantt::shortened(name, right - left - 4);
        if low - top >= LINE && !name.is_empty() {
            svg.words(left + 3, top + LINE - 1, Anchor::Start, "n", &name);
        }
    }

    fn tip(&self, task: &PlannedTask) -> String {
        format!(
            "{}: {} on {}, estimate {}, spare {}, {}",
            flow_plan::name(self.spec, task),
            words::clocks(task.start, task.end, self.now),
            task.nodes,
            words::span(task.estimate),
            words::span(flow_plan::spare_in_slot(task)),
            words::su(task.price)
        )
    }

    /// Arrows from the ends of parents to the starts of their children.
    fn edges(&self, svg: &mut Svg) {
        let tasks = self.plan.tasks.iter().zip(&self.rows.positions);
        let places: BTreeMap<u32, (&PlannedTask, SlotPosition)> = tasks
            .filter_map(|(t, positions)| {
                let first = positions.iter().min_by_key(|s| s.row)?;
                Some((t.task, (t, *first)))
            })
            .collect();
        for (n, edge) in self.spec.edges.iter().take(LINES).enumerate() {
            let ends = (places.get(&edge.from), places.get(&edge.to));
            if let (Some(from), Some(to)) = ends {
                self.edge(svg, *from, *to, n as i64 % 3 - 1);
            }
        }
    }

    /// An arrow out of the end of a box, between the rows, and into the begin of another:
    ///
    /// ```text
    ///  [parent   ]
    ///           |_______________      beside others by `aside` pixels
    ///                           v
    ///                          [child ]
    /// ```
    fn edge(
        &self,
        svg: &mut Svg,
        (from, above): (&PlannedTask, SlotPosition),
        (to, below): (&PlannedTask, SlotPosition),
        aside: i64,
    ) {
        let x1 = (self.area.x(from.end) - INSET).max(self.area.x(from.start));
        let x2 = (self.area.x(to.start) + INSET).min(self.area.x(to.end));
        let ((from_top, from_low), (to_top, to_low)) = (self.edges_of(above), self.edges_of(below));
        let (row_top, row_low) = self.row_edges(above.row);
        let (y1, between) = match below.row >= above.row {
            true => (from_low - 1, row_low.min(self.area.bottom() - 2) + aside),
            false => (from_top, row_top + aside),
        };
        let (y2, head) = match below.row > above.row {
            true => (to_top, "l-3-5h6z"),
            false => (to_low - 1, "l-3 5h6z"),
        };
        svg.path("edge", &format!("M{x1} {y1}V{between}H{x2}V{y2}"));
        svg.path("head", &format!("M{x2} {y2}{head}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::flow::plan::sample;
    use cosy_model::Time;

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

    /// A slot of 15 minutes has room for 32 columns.
    #[test]
    fn names_are_cut_where_they_do_not_fit() {
        let check = |name: &str, want: &str| {
            let mut spec = sample::spec();
            spec.tasks[0].name = name.to_owned();
            let svg = draw(&spec, &sample::plan(), &around(), &sample::now());
            assert!(svg.contains(&format!(">{want}</text>")), "{name}: {svg}");
        };
        check(&"a".repeat(32), &"a".repeat(32));
        check(&"a".repeat(33), &format!("{}\u{2026}", "a".repeat(31)));
        check(&"\u{8ba1}".repeat(17), &format!("{}\u{2026}", "\u{8ba1}".repeat(15)));
        check("<b>&", "&lt;b&gt;&amp;");
    }

    /// `right` on the second row waits for `first` on the first, and `last` there for `right`.
    #[test]
    fn arrows_go_between_the_rows() {
        let svg = draw(&sample::spec(), &sample::plan(), &around(), &sample::now());
        let x = |minutes: i64| LEFT + WIDTH * minutes / 55;
        let check = |from: (i64, i64), between: i64, to: (i64, i64)| {
            let (x1, x2) = (x(from.0) - INSET, x(to.0) + INSET);
            let path = format!("d=\"M{x1} {}V{between}H{x2}V{}\"", from.1, to.1);
            assert!(svg.contains(&path), "{path}\n{svg}");
        };
        let row = |n: i64| TOP + n * ROW;
        assert!(!svg.contains(">&lt;8&gt;</text>"), "{svg}");
        check((25, row(1) - GUTTER - 1), row(1) - 1, (25, row(1) - GUTTER - 1));
        check((25, row(1) - GUTTER - 1), row(1), (30, row(1) + GUTTER));
        check((40, row(1) + GUTTER), row(1) - 1, (40, row(1) - GUTTER - 1));
        // Boxes lie above the arrows, and each arrow has a head.
        assert!(svg.rfind("class=\"edge\"") < svg.find("class=\"slotcp\" x=\"246\""), "{svg}");
        assert_eq!(svg.matches("class=\"head\"").count(), 4);
    }

    #[test]
    fn three_hundred_tasks() {
        let mut plan = sample::plan();
        let one = plan.tasks[2].clone();
        plan.tasks = (0..300)
            .map(|n| cosy_model::workflow::PlannedTask {
                nodes: format!("n{}", n % 100),
                start: sample::at(n / 100 * 15),
                end: sample::at(n / 100 * 15 + 15),
                ..one.clone()
            })
            .collect();
        let svg = draw(&sample::spec(), &plan, &around(), &sample::now());
        assert_eq!(svg.matches("class=\"est\"").count(), 301);
        let height = svg
            .split("height=\"")
            .nth(1)
            .and_then(|t| t.split('"').next());
        assert_eq!(height, Some((TOP + TALLEST + 40).to_string().as_str()));
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
