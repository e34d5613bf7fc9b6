//! Figures 3, 4 and 6 as pictures.

use super::figures::{MonthFigures, SystemFigures};
use super::report::Report;
use super::run::Alpha;
use super::study::{DUPLICATE_PERCENTS, FEW_PERCENT, Point, Study};
use crate::picture::{Panel, PlotLine, line_chart};

/// Unit prices beyond this are not drawn: a few are very high.
const MOST_UNIT: f64 = 10.0;

/// Draws them: prices and waits over alpha by load, and the distribution of unit prices.
pub fn figures(study: &Study, report: &Report) -> String {
    let mut panels = Vec::new();
    for (at, (figures, _)) in report.systems.iter().enumerate() {
        panels.push(over_alpha(figures, "mean extra price in SU", |cell| cell.price.mean));
        panels.push(waits(figures));
        panels.push(unit_prices(study, at, figures.name));
    }
    line_chart("Reservations at adaptive prices", &panels)
}

fn over_alpha(figures: &SystemFigures, title: &str, of: impl Fn(&MonthFigures) -> f64) -> Panel {
    let line = |load: &super::figures::LoadFigures| PlotLine {
        name: format!("{} % more jobs", load.more),
        points: points(&load.by_alpha, &of),
        steps: false,
    };
    Panel {
        title: format!("{}: {title}", figures.name),
        across: "alpha".to_owned(),
        lines: figures.loads.iter().map(line).collect(),
    }
}

fn waits(figures: &SystemFigures) -> Panel {
    let hours = |secs: f64| secs / 3600.0;
    let mut panel = over_alpha(figures, "mean wait in hours", |c| hours(c.wait_secs.mean));
    let queue = figures.loads.first().map(|load| PlotLine {
        name: "queue, 0 % more".to_owned(),
        points: points(&load.by_alpha, &|c: &MonthFigures| hours(c.queue_wait_secs.mean)),
        steps: false,
    });
    panel.lines.extend(queue);
    panel
}

fn points(cells: &[MonthFigures], of: &impl Fn(&MonthFigures) -> f64) -> Vec<(f64, f64)> {
    let known = cells
        .iter()
        .filter_map(|cell| Some((cell.alpha?, of(cell))));
    known.collect()
}

/// How many per cent pay no more than a unit price, at alpha 0.
fn unit_prices(study: &Study, system: usize, name: &str) -> Panel {
    let line = |more: &u32| {
        let point = Point {
            more: *more,
            reserved: FEW_PERCENT,
            conservative: false,
            alpha: Alpha::Fixed(0),
        };
        let runs = study.of(system, point);
        let mut prices: Vec<f64> = runs.flat_map(|run| run.unit_prices()).collect();
        prices.sort_by(f64::total_cmp);
        let all = prices.len().max(1) as f64;
        let places = prices.iter().enumerate();
        let places = places.map(|(at, price)| (*price, (at + 1) as f64 / all * 100.0));
        PlotLine {
            name: format!("{more} % more jobs"),
            points: places
                .take_while(|(price, _)| *price <= MOST_UNIT)
                .collect(),
            steps: true,
        }
    };
    Panel {
        title: format!("{name}: per cent that pay no more than a unit price, alpha 0"),
        across: "extra price of a processor hour in SU".to_owned(),
        lines: DUPLICATE_PERCENTS.iter().map(line).collect(),
    }
}
