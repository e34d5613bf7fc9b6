//! The plan as a Gantt chart and, under it on the same line of time, price and delay of others
//! of each start that was looked at, as SVG.
//!
//! Source: pricing paper, figure 2, drawn over the plan it is worked out from.

use crate::native::gantt::{self, Area, LEFT, Labels, RIGHT, WIDTH, bars};
use crate::native::resv::{horizon, words};
use crate::native::ticks;
use cosy_model::reservation::{PlanChart, Quote, QuotedSlot, ReservationSpec};
use cosy_model::{Span, Time, expand};
use cosy_svg::{Anchor, Svg};
use jiff::Zoned;
use std::collections::BTreeSet;

const STYLE: &str = "\
.free{fill:#4f9d69}.refused{fill:#d9a441}.blocked{fill:#bbb}\
.pick{fill:none;stroke:#000;stroke-width:2;stroke-dasharray:4 2}\
.line{stroke:#000;stroke-dasharray:4 2}\
@media(prefers-color-scheme:dark){.pick,.line{stroke:#fff}.blocked{fill:#666}}";

/// Top of the Gantt chart.
const TOP: i64 = 84;
/// Height of each of the two lower drawings.
const PANEL: i64 = 110;
/// Space between drawings, in pixels.
const GAP: i64 = 46;

/// Draws the plan with what the slots of `quote` cost; `spec` is what was asked.
pub fn draw(spec: &ReservationSpec, quote: &Quote, plan: &PlanChart, now: &Zoned) -> String {
    let (from, to) = reach(quote, plan);
    let area = |top, height| Area {
        from,
        to,
        top,
        height,
    };
    let above = area(TOP, gantt::height(plan, from, to));
    let price = area(above.bottom() + GAP, PANEL);
    let delay = area(price.bottom() + GAP, PANEL);
    let style = format!("{}{STYLE}", gantt::STYLE);
    let height = delay.bottom() + 44;
    let mut svg = Svg::new(LEFT + WIDTH + RIGHT, height, &style, &title(spec, quote, now));
    legend(&mut svg, plan);
    above.axis(&mut svg, now);
    bars(&mut svg, plan, above, Labels::InBars);
    prices(&mut svg, quote, price, now);
    delays(&mut svg, quote, delay, now);
    pick(&mut svg, quote, plan, above, delay);
    if quote.slots.last().is_some_and(|slot| slot.start >= to) {
        let note = "Later starts are like the last ones here.";
        svg.words(LEFT + WIDTH, delay.bottom() + 34, Anchor::End, "", note);
    }
    svg.finish()
}

/// `What 2 nodes for 1 h cost in queue day, at 12:00`.
fn title(spec: &ReservationSpec, quote: &Quote, now: &Zoned) -> String {
    let length = words::span(spec.length);
    let at = words::clock(Time::from_secs(quote.now.secs()), now);
    let queue = words::clean(&quote.queue);
    format!("What {} for {length} cost in queue {queue}, asked at {at}", asked(spec))
}

/// What was asked for, in short: `4 whole nodes`, `2 nodes, 8 tasks with 2 cores each`.
fn asked(spec: &ReservationSpec) -> String {
    let request = &spec.request;
    let whole = if request.exclusive { "whole " } else { "" };
    let mut parts = Vec::new();
    if let Some(nodes) = request.nodes {
        let (one, many) = (format!("{whole}node"), format!("{whole}nodes"));
        parts.push(words::count(nodes.into(), &one, &many));
    }
    if let Some(tasks) = request.tasks {
        parts.push(words::count(tasks.into(), "task", "tasks"));
    }
    if parts.is_empty() {
        parts.push(format!(
            "1 {}",
            if request.exclusive {
                "whole node"
            } else {
                "task"
            }
        ));
    }
    if request.cores_per_task > 1 && !request.exclusive {
        parts.push(format!("{} cores a task", request.cores_per_task));
    }
    if request.gpus_per_node > 0 {
        let gpus = words::count(request.gpus_per_node.into(), "GPU", "GPUs");
        parts.push(format!("{gpus} a node"));
    }
    parts.join(", ")
}

/// From now to the last thing that is to be seen.
fn reach(quote: &Quote, plan: &PlanChart) -> (Time, Time) {
    let from = quote.now.min(plan.now);
    let last = horizon::last_start(quote);
    let drawn = quote.slots.iter().filter(|s| Some(s.start) <= last);
    let slots = drawn.map(|s| s.end).max();
    let bars = plan.bars.iter().map(|b| b.end).max();
    // Jobs without limit reach far beyond what is asked for.
    let to = slots.max(last).or(bars).unwrap_or(from);
    (from, to.max(from + Span::from_minutes(1)))
}

const PANELS: [(&str, &str); 4] = [
    ("free", "can be had"),
    ("refused", "free, but a rule refuses it"),
    ("blocked", "not free"),
    ("pick", "the pick: its nodes, and its start as a line"),
];

fn legend(svg: &mut Svg, plan: &PlanChart) {
    let entries = [
        ("running", "running, until its limit"),
        ("planned", "waiting, in its planned place"),
        ("held", "held reservation"),
        ("reserved", "reservation"),
    ];
    let end = gantt::legend(svg, (LEFT, 36), &entries);
    gantt::legend(svg, (LEFT, 56), &PANELS);
    if plan.beyond > 0 {
        let more = format!("{} more jobs wait", plan.beyond);
        svg.words(end, 46, Anchor::Start, "", &more);
    }
}

/// The slots with the left edge and the width of their bars, in pixels: each bar reaches to the
/// start of the next slot.
fn widths(quote: &Quote, area: Area) -> impl Iterator<Item = (&QuotedSlot, i64, i64)> {
    let next = quote.slots.iter().skip(1).map(|s| Some(s.start));
    let slots = quote.slots.iter().zip(next.chain([None]));
    let drawn = slots.take_while(move |(slot, _)| slot.start < area.to);
    drawn.map(move |(slot, next)| {
        let left = area.x(slot.start);
        let right = next.map_or(left + 3, |t| area.x(t));
        (slot, left, (right - left).max(1))
    })
}

const fn verdict(slot: &QuotedSlot) -> &'static str {
    match (slot.feasible, slot.admitted) {
        (false, _) => "blocked",
        (true, false) => "refused",
        (true, true) => "free",
    }
}

fn tip(slot: &QuotedSlot, now: &Zoned) -> String {
    let when = words::clocks(slot.start, slot.end, now);
    let reason = words::local_times(&slot.reason, now);
    if !slot.feasible {
        return format!("{when}: {reason}");
    }
    let delays = match slot.delayed_jobs {
        0 => "delays nobody".to_owned(),
        n => {
            let jobs = words::count(n.into(), "job", "jobs");
            format!("delays {jobs} by {} in all", words::span(slot.total_delay))
        }
    };
    let why = if reason.is_empty() { "" } else { "; " };
    format!("{when}: {}, {delays}{why}{reason}", words::su(slot.price()))
}

/// A figure of each slot as a bar; `top` is the figure at the upper edge, with its words.
fn panel(
    svg: &mut Svg,
    (quote, area, now): (&Quote, Area, &Zoned),
    title: &str,
    top: (i64, &str),
    figure: impl Fn(&QuotedSlot) -> i64,
) {
    area.axis(svg, now);
    svg.line("g", (LEFT, area.top), (LEFT + WIDTH, area.top));
    svg.words(LEFT, area.top - 8, Anchor::Start, "", title);
    svg.words(LEFT - 6, area.top + 4, Anchor::End, "", top.1);
    svg.words(LEFT - 6, area.bottom() + 4, Anchor::End, "", "0");
    for (slot, x, width) in widths(quote, area) {
        let height = scaled(slot, figure(slot), top.0, area.height);
        svg.bar(verdict(slot), [x, area.bottom() - height, width, height], &tip(slot, now));
    }
}

fn prices(svg: &mut Svg, quote: &Quote, area: Area, now: &Zoned) {
    let there = quote.slots.iter().filter(|s| s.feasible);
    let dearest = there.map(QuotedSlot::price).max().unwrap_or_default();
    let top = ticks::sum(dearest);
    let title = "price in SU, by start";
    panel(svg, (quote, area, now), title, (top.0, &words::price(top)), |s| s.price().0);
}

fn delays(svg: &mut Svg, quote: &Quote, area: Area, now: &Zoned) {
    let there = quote.slots.iter().filter(|s| s.feasible);
    let longest = there.map(|s| s.total_delay).max().unwrap_or_default();
    let (title, top) = match longest {
        Span::ZERO => ("no start delays a waiting job", Span::from_minutes(60)),
        some => ("delay of waiting jobs in all, by start", ticks::length(some)),
    };
    panel(svg, (quote, area, now), title, (top.0, &words::span(top)), |s| s.total_delay.0);
}

/// The height of a bar; what cannot be had is a thin line at the bottom.
fn scaled(slot: &QuotedSlot, value: i64, most: i64, height: i64) -> i64 {
    if !slot.feasible {
        return 3;
    }
    let share = i128::from(value.max(0)) * i128::from(height) / i128::from(most.max(1));
    i64::try_from(share).unwrap_or(height).clamp(1, height)
}

/// A frame around the time of the pick on its nodes, and a line down from its start.
fn pick(svg: &mut Svg, quote: &Quote, plan: &PlanChart, above: Area, below: Area) {
    let slot = quote.choice.and_then(|c| quote.slots.get(c as usize));
    let Some(slot) = slot else { return };
    let rows = plan.nodes.len().max(1);
    let (left, right) = (above.x(slot.start), above.x(slot.end));
    for (first, last) in rows_of(&slot.nodes, plan) {
        let (top, low) = (above.row(first, rows), above.row(last + 1, rows));
        let at = [left, top, (right - left).max(2), (low - top).max(2)];
        svg.bar("pick", at, "the pick");
    }
    svg.line("line", (left, above.top), (left, below.bottom()));
}

/// Rows of those nodes that lie side by side: first and last.
fn rows_of(nodes: &str, plan: &PlanChart) -> Vec<(usize, usize)> {
    let names: BTreeSet<String> = expand(nodes).unwrap_or_default().into_iter().collect();
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (row, _) in plan
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, n)| names.contains(*n))
    {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == row => *last = row,
            _ => runs.push((row, row)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::resv::slots::sample;
    use cosy_model::reservation::{BarKind, PlanBar};

    fn spec() -> ReservationSpec {
        let pick = cosy_model::reservation::StartChoice::Soonest;
        let request = cosy_model::job::ResourceRequest {
            nodes: Some(4),
            exclusive: true,
            ..Default::default()
        };
        ReservationSpec::plain(request, Span::from_minutes(120), pick)
    }

    fn plan() -> PlanChart {
        let bar = |kind, label: &str, start: &str, end: &str, nodes: &[u32]| PlanBar {
            kind,
            label: label.to_owned(),
            start: sample::at(start),
            end: sample::at(end),
            nodes: nodes.to_vec(),
        };
        PlanChart {
            now: sample::at("12:00"),
            nodes: (1..=4).map(|n| format!("n{n}")).collect(),
            bars: vec![
                bar(BarKind::Running, "7", "12:00", "13:30", &[0, 1]),
                bar(BarKind::Planned, "<12>", "13:30", "15:00", &[0, 2, 3]),
                bar(BarKind::Reserved, "r3", "17:00", "18:00", &[3, 99]),
            ],
            beyond: 5,
        }
    }

    #[test]
    fn a_picture() {
        let svg = draw(&spec(), &sample::quote(), &plan(), &sample::now());
        let count = |what: &str| svg.matches(what).count();
        // Three bars, one of them in two pieces, and the legend's four.
        assert_eq!(count("class=\"running\""), 2);
        assert_eq!(count("class=\"planned\""), 3);
        assert_eq!(count("class=\"reserved\""), 2);
        // Four of the slots in each of the two lower drawings, and the legend's three.
        assert_eq!(count("class=\"free\""), 5);
        assert!(svg.contains(">Later starts are like the last ones here.<"), "{svg}");
        assert_eq!(count("class=\"refused\""), 3);
        assert_eq!(count("class=\"blocked\""), 3);
        assert_eq!((count("class=\"pick\""), count("class=\"line\"")), (2, 1));
        let title = ">What 4 whole nodes for 2 h cost in queue day, asked at 12:00<";
        assert!(svg.contains(title), "{svg}");
        // Nothing with six decimals, and round times: 12:00, 13:00 ...
        assert!(svg.contains(">20</text>") && svg.contains(">2 h</text>"), "{svg}");
        assert!(svg.contains(">14:00</text>") && !svg.contains(">14:17</text>"), "{svg}");
        assert!(svg.contains(">&lt;12&gt;</title>") && svg.contains("5 more jobs wait"));
        assert!(!svg.contains("<12>"));
        // 14:20 is 140 of the 360 minutes from 12:00 to 18:00.
        assert!(svg.contains(&format!("class=\"pick\" x=\"{}\"", LEFT + WIDTH * 140 / 360)));
    }

    #[test]
    fn the_pick_is_drawn_on_its_nodes() {
        let check = |nodes: &str, want: &[(usize, usize)]| {
            assert_eq!(rows_of(nodes, &plan()), want, "{nodes}");
        };
        check("n[1-4]", &[(0, 3)]);
        check("n[1-2,4]", &[(0, 1), (3, 3)]);
        check("n3", &[(2, 2)]);
        check("m[1-9],", &[]);
        check("n[", &[]);
        let mut quote = sample::quote();
        quote.slots[2].nodes = "n[2-3]".to_owned();
        let svg = draw(&spec(), &quote, &plan(), &sample::now());
        let x = LEFT + WIDTH * 140 / 360;
        let height = gantt::height(&plan(), sample::at("12:00"), sample::at("18:00"));
        let (top, rows) = (TOP + height / 4, height / 2);
        let place = format!("class=\"pick\" x=\"{x}\" y=\"{top}\" width=\"287\" height=\"{rows}\"");
        assert!(svg.contains(&place), "{place}\n{svg}");
    }

    #[test]
    fn what_was_asked() {
        let check = |change: fn(&mut cosy_model::job::ResourceRequest), want: &str| {
            let mut spec = spec();
            spec.request = Default::default();
            spec.request.cores_per_task = 1;
            change(&mut spec.request);
            assert_eq!(asked(&spec), want);
        };
        check(|_| (), "1 task");
        check(|r| r.exclusive = true, "1 whole node");
        check(|r| r.nodes = Some(2), "2 nodes");
        check(|r| (r.tasks, r.cores_per_task) = (Some(8), 2), "8 tasks, 2 cores a task");
        check(|r| (r.nodes, r.gpus_per_node) = (Some(1), 4), "1 node, 4 GPUs a node");
    }

    #[test]
    fn odd_plans() {
        let check = |quote: &Quote, plan: &PlanChart| {
            let svg = draw(&spec(), quote, plan, &sample::now());
            assert!(svg.ends_with("</svg>\n") && !svg.contains("\"-"), "{svg}");
        };
        let mut quote = sample::quote();
        let empty = PlanChart {
            nodes: Vec::new(),
            bars: Vec::new(),
            ..plan()
        };
        check(&quote, &empty);
        quote.slots[4].end = Time::FAR;
        quote.slots[3].base = cosy_model::Su(i64::MAX);
        let mut endless = plan();
        endless.bars[0].end = Time::FAR;
        check(&quote, &endless);
        quote.slots.clear();
        check(&quote, &endless);
    }
}
