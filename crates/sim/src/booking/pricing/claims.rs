//! What the pricing paper says of its results, tried on ours.
//!
//! A published share agrees when it lies between the lowest and the highest of our seeds, or
//! within [`NEAR`] of their mean. Comparisons are of means over seeds.
//!
//! Source: pricing paper, section 4, figures 3 to 6.

use super::figures::{LoadFigures, MonthFigures, SystemFigures};
use crate::booking::claims::Claim;
use crate::booking::spread::Spread;

/// Shares this near to a published one agree.
const NEAR: f64 = 0.05;
/// Alphas up to this place of the list are small: 0, 0.1 and 0.2.
const SMALL: usize = 3;
/// A wait of this many times another is significantly longer.
const LONGER: f64 = 1.2;
/// From so much of the other on two waits are about the same.
const ABOUT: f64 = 0.9;

/// What the paper gives of one system: utilisation and share of reservations below the rate
/// of the high priority queue, by load.
struct Published {
    utilisation: [f64; 3],
    below_priority: [f64; 3],
}

fn published(name: &str) -> Option<Published> {
    match name {
        "CTC" => Some(Published {
            utilisation: [0.587, 0.684, 0.788],
            below_priority: [0.80, 0.70, 0.58],
        }),
        "SP2" => Some(Published {
            utilisation: [0.634, 0.778, 0.874],
            below_priority: [0.80, 0.70, 0.48],
        }),
        _ => None,
    }
}

/// All that the paper says of one system.
pub fn claims(figures: &SystemFigures) -> Vec<Claim> {
    let mut claims = Vec::new();
    if let Some(published) = published(figures.name) {
        claims.push(utilisations(figures, &published));
        claims.extend(unit_prices(figures, &published));
    }
    claims.push(match figures.name {
        "SP2" => no_head_start(figures),
        _ => head_start(figures),
    });
    claims.extend([
        premium(figures),
        free_but_late(figures),
        price_falls(figures),
        wait_rises(figures),
        dearer_with_load(figures),
        later_with_load(figures),
        aggressive_is_dearer(figures),
        difference_grows(figures),
        dearest(figures),
        many_are_cheaper(figures),
        many_prolong(figures),
    ]);
    claims
}

fn utilisations(figures: &SystemFigures, published: &Published) -> Claim {
    let ours = figures.loads.iter().map(|load| load.aggressive.utilisation);
    let holds = ours.clone().zip(published.utilisation);
    Claim {
        statement: "utilisation at the load of the log, with 20 and with 40 % more jobs",
        paper: percents(published.utilisation),
        ours: percents(ours.clone().map(|u| u.mean)),
        holds: { holds }.all(|(ours, theirs)| ours.agrees(theirs, NEAR)),
    }
}

fn unit_prices(figures: &SystemFigures, published: &Published) -> Vec<Claim> {
    let early = |load: &LoadFigures| load.by_alpha.first().copied();
    let statements = [
        "alpha 0, load of the log: so many pay less than a high priority queue takes",
        "alpha 0, 20 % more jobs: so many pay less than a high priority queue takes",
        "alpha 0, 40 % more jobs: so many pay less than a high priority queue takes",
    ];
    let below = statements
        .into_iter()
        .zip(&figures.loads)
        .zip(published.below_priority);
    let below = below.filter_map(|((statement, load), theirs)| {
        Some(agreeing(statement, theirs, early(load)?.below_priority))
    });
    let statement = "alpha 0, load of the log: so many pay nothing extra";
    let free = figures.loads.first().and_then(early);
    let free = free.map(|cell| agreeing(statement, 0.75, cell.free));
    free.into_iter().chain(below).collect()
}

fn agreeing(statement: &'static str, theirs: f64, ours: Spread) -> Claim {
    Claim {
        statement,
        paper: format!("about {:.0} %", theirs * 100.0),
        ours: format!("{:.1} %", ours.times(100.0)),
        holds: ours.agrees(theirs, NEAR),
    }
}

/// The cells of figure 3.
fn plain(figures: &SystemFigures) -> &[MonthFigures] {
    figures.loads.first().map_or(&[], |load| &load.by_alpha)
}

fn small(figures: &SystemFigures) -> &[MonthFigures] {
    let cells = plain(figures);
    &cells[..SMALL.min(cells.len())]
}

fn waits(cells: &[MonthFigures]) -> String {
    let wait = |cell: &MonthFigures| {
        let (own, queue) = (cell.wait_secs.mean, cell.queue_wait_secs.mean);
        format!("{own:.0} against {queue:.0} s")
    };
    cells.iter().map(wait).collect::<Vec<_>>().join(", ")
}

fn ratio(cell: &MonthFigures) -> f64 {
    cell.wait_secs.mean / cell.queue_wait_secs.mean.max(f64::MIN_POSITIVE)
}

fn head_start(figures: &SystemFigures) -> Claim {
    let cells = small(figures);
    Claim {
        statement: "for small alpha reservations wait less than queued jobs (alpha 0, 0.1, 0.2)",
        paper: "figure 3, CTC".to_owned(),
        ours: waits(cells),
        holds: cells.iter().all(|cell| ratio(cell) < 1.0),
    }
}

fn no_head_start(figures: &SystemFigures) -> Claim {
    let cells = small(figures);
    Claim {
        statement: "even for small alpha reservations wait as long as queued jobs or longer \
               (alpha 0, 0.1, 0.2)",
        paper: "figure 3, SP2".to_owned(),
        ours: waits(cells),
        holds: cells.iter().all(|cell| ratio(cell) >= ABOUT),
    }
}

fn premium(figures: &SystemFigures) -> Claim {
    let cells = figures.loads.iter().flat_map(|load| &load.by_alpha);
    let ahead: Vec<&MonthFigures> = cells.filter(|cell| ratio(cell) < 1.0).collect();
    let cheapest = ahead.iter().map(|cell| cell.price.mean);
    let cheapest = cheapest.fold(f64::INFINITY, f64::min);
    Claim {
        statement: "where reservations wait less than queued jobs they pay a premium, at any load",
        paper: "always".to_owned(),
        ours: match ahead.len() {
            0 => "they never do".to_owned(),
            count => format!("{count} such points, the cheapest at {cheapest:.2} SU each"),
        },
        holds: ahead.iter().all(|cell| cell.price.mean > 0.0),
    }
}

fn free_but_late(figures: &SystemFigures) -> Claim {
    let last = plain(figures).last().copied();
    let price = last.map_or(0.0, |cell| cell.price.high);
    Claim {
        statement: "at alpha 1 they pay nothing and wait significantly longer than queued jobs",
        paper: "price 0".to_owned(),
        ours: format!("price {price:.2}, {}", waits(last.as_slice())),
        holds: price == 0.0 && last.is_some_and(|cell| ratio(&cell) >= LONGER),
    }
}

fn price_falls(figures: &SystemFigures) -> Claim {
    let prices: Vec<f64> = plain(figures).iter().map(|cell| cell.price.mean).collect();
    Claim {
        statement: "the price falls as alpha grows",
        paper: "figure 3".to_owned(),
        ours: format!("{} SU", listed(&prices, 1)),
        holds: prices.is_sorted_by(|one, next| one >= next),
    }
}

fn wait_rises(figures: &SystemFigures) -> Claim {
    let waits = plain(figures).iter().map(|cell| cell.wait_secs.mean);
    let waits: Vec<f64> = waits.collect();
    Claim {
        statement: "the wait of reservations rises as alpha grows",
        paper: "figure 3".to_owned(),
        ours: format!("{} s", listed(&waits, 0)),
        holds: waits.is_sorted_by(|one, next| one <= next),
    }
}

/// Whether a figure grows from load to load for every alpha below 1 (there the price is 0).
fn grows(figures: &SystemFigures, of: impl Fn(&MonthFigures) -> f64) -> bool {
    let alphas = plain(figures).len().saturating_sub(1);
    let by_load = |at: usize| {
        let cells = figures
            .loads
            .iter()
            .filter_map(move |load| load.by_alpha.get(at));
        cells.map(&of).collect::<Vec<_>>()
    };
    (0..alphas).all(|at| by_load(at).is_sorted_by(|one, next| one < next))
}

fn at_ends(figures: &SystemFigures, digits: usize, of: impl Fn(&MonthFigures) -> f64) -> String {
    let at = |which: fn(&[MonthFigures]) -> Option<&MonthFigures>| {
        let cells = figures
            .loads
            .iter()
            .filter_map(|load| which(&load.by_alpha));
        listed(&cells.map(&of).collect::<Vec<_>>(), digits)
    };
    format!(
        "alpha 0: {}; 0.5: {}; 0.9: {}",
        at(|cells| cells.first()),
        at(|cells| cells.get(5)),
        at(|cells| cells.get(9))
    )
}

fn dearer_with_load(figures: &SystemFigures) -> Claim {
    Claim {
        statement: "prices rise with the load, at every alpha below 1",
        paper: "figure 4".to_owned(),
        ours: format!("SU at 0, 20, 40 % more: {}", at_ends(figures, 1, |c| c.price.mean)),
        holds: grows(figures, |cell| cell.price.mean),
    }
}

fn later_with_load(figures: &SystemFigures) -> Claim {
    let ours = at_ends(figures, 0, |cell| cell.wait_secs.mean);
    Claim {
        statement: "waits of reservations rise with the load, at every alpha below 1",
        paper: "figure 4".to_owned(),
        ours: format!("s at 0, 20, 40 % more: {ours}"),
        holds: grows(figures, |cell| cell.wait_secs.mean),
    }
}

fn pairs(figures: &SystemFigures) -> String {
    let pair = |load: &LoadFigures| {
        let (ab, cb) = (load.aggressive.price.mean, load.conservative.price.mean);
        format!("{ab:.1} against {cb:.1}")
    };
    let pairs: Vec<String> = figures.loads.iter().map(pair).collect();
    format!("{} SU at 0, 20, 40 % more jobs", pairs.join(", "))
}

fn difference(load: &LoadFigures) -> f64 {
    load.aggressive.price.mean - load.conservative.price.mean
}

fn aggressive_is_dearer(figures: &SystemFigures) -> Claim {
    Claim {
        statement: "aggressive backfill makes reservations dearer than conservative, generally",
        paper: "figure 5".to_owned(),
        ours: pairs(figures),
        // Generally: at two of three loads.
        holds: figures
            .loads
            .iter()
            .filter(|load| difference(load) > 0.0)
            .count()
            * 3
            >= figures.loads.len() * 2,
    }
}

fn difference_grows(figures: &SystemFigures) -> Claim {
    let differences: Vec<f64> = figures.loads.iter().map(difference).collect();
    Claim {
        statement: "that difference grows with the load",
        paper: "figure 5".to_owned(),
        ours: format!("{} SU", listed(&differences, 1)),
        holds: differences.is_sorted_by(|one, next| one < next),
    }
}

fn dearest(figures: &SystemFigures) -> Claim {
    let cells = figures
        .loads
        .iter()
        .filter_map(|load| load.by_alpha.first());
    let ninth: Vec<f64> = cells.map(|cell| cell.ninth_tenth.mean).collect();
    Claim {
        statement: "the dearest tenth pays far more than a high priority queue takes (5 times and more)",
        paper: "figure 6: the top 10 to 20 %".to_owned(),
        ours: format!("{} times and more at 0, 20, 40 % more jobs", listed(&ninth, 1)),
        holds: ninth.iter().all(|rate| *rate >= 5.0),
    }
}

fn many_are_cheaper(figures: &SystemFigures) -> Claim {
    let few = figures.loads.first().map(|load| load.aggressive);
    let few_early = plain(figures).first().copied();
    let price = |cell: Option<MonthFigures>| cell.map_or(0.0, |cell| cell.price.mean);
    Claim {
        statement: "with 30 % reservations the price is slightly lower than with 10 %",
        paper: "decreases slightly".to_owned(),
        ours: format!(
            "{:.2} against {:.2} SU with alpha by chance, {:.2} against {:.2} with alpha 0",
            figures.many.price.mean,
            price(few),
            figures.many_early.price.mean,
            price(few_early)
        ),
        holds: figures.many.price.mean < price(few),
    }
}

fn many_prolong(figures: &SystemFigures) -> Claim {
    let few = figures.loads.first().map(|load| load.aggressive);
    let few = few.map_or(0.0, |cell| cell.queue_wait_secs.mean);
    let many = figures.many.queue_wait_secs.mean;
    Claim {
        statement: "with 30 % reservations queued jobs wait longer than with 10 %",
        paper: "increases".to_owned(),
        ours: format!("{many:.0} against {few:.0} s with alpha by chance"),
        holds: many > few,
    }
}

fn percents(shares: impl IntoIterator<Item = f64>) -> String {
    let shares: Vec<f64> = shares.into_iter().map(|share| share * 100.0).collect();
    format!("{} %", listed(&shares, 1))
}

fn listed(values: &[f64], digits: usize) -> String {
    let values = values.iter().map(|value| format!("{value:.digits$}"));
    values.collect::<Vec<_>>().join(", ")
}
