//! The plan as a Gantt chart and, under it on the same line of time, price and
//! availability of each start that was looked at, as SVG.
//!
//! Source: pricing paper, figure 2, drawn over the plan it is worked out from.

use crate::native::gantt::{self, Area, LEFT, RIGHT, WIDTH, bars};
use crate::native::resv::words;
use cosy_model::reservation::{PlanChart, Quote, QuotedSlot};
use cosy_model::{Span, Time};
use cosy_svg::{Anchor, Svg};
use jiff::Zoned;

const STYLE: &str = "\
.now{stroke:#c00}\
.free{fill:#4f9d69}.refused{fill:#d9a441}.blocked{fill:#ccc}\
.pick{fill:none;stroke:#000;stroke-width:2;stroke-dasharray:4 2}";

/// Top of the Gantt chart.
const TOP: i64 = 60;
/// Height of each of the two lower drawings.
const PANEL: i64 = 110;
/// Space between drawings, in pixels.
const GAP: i64 = 46;
/// Greatest height of the Gantt chart.
const TALLEST: i64 = 480;
/// Draws the plan with what the slots of `quote` cost.
pub fn draw(quote: &Quote, plan: &PlanChart, now: &Zoned) -> String {
    let rows = i64::try_from(plan.nodes.len().max(1)).unwrap_or(i64::MAX);
    let gantt = (rows.saturating_mul(14)).clamp(14, TALLEST);
    let (from, to) = reach(quote, plan);
    let area = |top, height| Area {
        from,
        to,
        top,
        height,
    };
    let above = area(TOP, gantt);
    let price = area(above.bottom() + GAP, PANEL);
    let share = area(price.bottom() + GAP, PANEL);
    let height = share.bottom() + 40;
    let title = "The plan, and what a start costs";
    let style = format!("{}{STYLE}", gantt::STYLE);
    let mut svg = Svg::new(LEFT + WIDTH + RIGHT, height, &style, title);
    legend(&mut svg, plan);
    above.axis(&mut svg, now);
    bars(&mut svg, plan, above);
    prices(&mut svg, quote, price, now);
    shares(&mut svg, quote, share, now);
    pick(&mut svg, quote, above, share);
    svg.finish()
}

/// From now to the last thing that is to be seen.
fn reach(quote: &Quote, plan: &PlanChart) -> (Time, Time) {
    let from = quote.now.min(plan.now);
    let slots = quote.slots.iter().map(|s| s.end).max();
    let bars = plan.bars.iter().map(|b| b.end).max();
    // Jobs without limit reach far beyond what is asked for.
    let to = slots.or(bars).unwrap_or(from);
    (from, to.max(from + Span::from_minutes(1)))
}

fn legend(svg: &mut Svg, plan: &PlanChart) {
    let entries = [
        ("running", "running, until its limit"),
        ("planned", "waiting, in its planned place"),
        ("held", "held reservation"),
        ("reserved", "reservation"),
    ];
    let mut x = LEFT;
    for (class, words) in entries {
        svg.bar(class, [x, 36, 12, 12], words);
        svg.words(x + 17, 46, Anchor::Start, "", words);
        x += 30 + 7 * i64::try_from(words.len()).unwrap_or(0);
    }
    if plan.beyond > 0 {
        let more = format!("{} more jobs wait", plan.beyond);
        svg.words(LEFT + WIDTH, 46, Anchor::End, "", &more);
    }
}

/// The slots with the left edge and the width of their bars, in pixels: each bar reaches to the
/// start of the next slot.
fn widths(quote: &Quote, area: Area) -> impl Iterator<Item = (&QuotedSlot, i64, i64)> {
    let next = quote.slots.iter().skip(1).map(|s| Some(s.start));
    quote
        .slots
        .iter()
        .zip(next.chain([None]))
        .map(move |(slot, next)| {
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
    if slot.feasible {
        let jobs = words::count(slot.delayed_jobs.into(), "job", "jobs");
        format!(
            "{when}: {} SU, {} % available, delays {jobs} by {} in all {}",
            slot.price(),
            slot.availability_ppm / 10_000,
            words::span(slot.total_delay),
            words::local_times(&slot.reason, now)
        )
    } else {
        format!("{when}: {}", words::local_times(&slot.reason, now))
    }
}

fn prices(svg: &mut Svg, quote: &Quote, area: Area, now: &Zoned) {
    let there = quote.slots.iter().filter(|s| s.feasible);
    let dearest = there.map(QuotedSlot::price).max().unwrap_or_default();
    area.axis(svg, now);
    svg.words(LEFT, area.top - 8, Anchor::Start, "", "price in SU by start");
    svg.words(LEFT - 6, area.top + 8, Anchor::End, "", &dearest.to_string());
    for (slot, x, width) in widths(quote, area) {
        let height = scaled(slot, slot.price().0, dearest.0, area.height);
        svg.bar(verdict(slot), [x, area.bottom() - height, width, height], &tip(slot, now));
    }
}

fn shares(svg: &mut Svg, quote: &Quote, area: Area, now: &Zoned) {
    area.axis(svg, now);
    svg.words(LEFT, area.top - 8, Anchor::Start, "", "availability by start");
    svg.words(LEFT - 6, area.top + 8, Anchor::End, "", "100 %");
    for (slot, x, width) in widths(quote, area) {
        let height = scaled(slot, slot.availability_ppm.into(), 1_000_000, area.height);
        svg.bar(verdict(slot), [x, area.bottom() - height, width, height], &tip(slot, now));
    }
}

/// The height of a bar; what cannot be had is a thin line at the bottom.
fn scaled(slot: &QuotedSlot, value: i64, most: i64, height: i64) -> i64 {
    if !slot.feasible {
        return 3;
    }
    let share = i128::from(value.max(0)) * i128::from(height) / i128::from(most.max(1));
    i64::try_from(share).unwrap_or(height).clamp(1, height)
}

fn pick(svg: &mut Svg, quote: &Quote, above: Area, below: Area) {
    let slot = quote.choice.and_then(|c| quote.slots.get(c as usize));
    if let Some(slot) = slot {
        let (left, right) = (above.x(slot.start), above.x(slot.end));
        let at = [left, above.top, (right - left).max(2), above.height];
        svg.bar("pick", at, "the pick");
        svg.line("now", (left, above.bottom()), (left, below.bottom()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::resv::slots::sample;
    use cosy_model::reservation::{BarKind, PlanBar};

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
        let svg = draw(&sample::quote(), &plan(), &sample::now());
        let count = |what: &str| svg.matches(what).count();
        // Three bars, one of them in two pieces, and the legend's four.
        assert_eq!(count("class=\"running\""), 2);
        assert_eq!(count("class=\"planned\""), 3);
        assert_eq!(count("class=\"reserved\""), 2);
        // Five slots in each of the two lower drawings.
        assert_eq!(count("class=\"free\""), 6);
        assert_eq!(count("class=\"refused\""), 2);
        assert_eq!(count("class=\"blocked\""), 2);
        assert_eq!(count("class=\"pick\""), 1);
        assert!(svg.contains("&lt;12&gt;") && svg.contains("5 more jobs wait"));
        // 14:20 is 140 of the 480 minutes from 12:00 to 20:00.
        assert!(svg.contains(&format!("class=\"pick\" x=\"{}\"", LEFT + WIDTH * 140 / 480)));
    }

    #[test]
    fn odd_plans() {
        let check = |quote: &Quote, plan: &PlanChart| {
            let svg = draw(quote, plan, &sample::now());
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
