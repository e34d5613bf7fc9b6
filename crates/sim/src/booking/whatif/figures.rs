//! What the runs come to: one figure for each seed, and the spread of these.
//!
//! Source: what-if paper, sections 5.2 to 5.4.

use super::placement::{Method, PlacedRequest};
use super::run::Run;
use super::study::{AHEAD_HOURS, Study, WIDE_WINDOW_HOURS, WINDOWS_HOURS};
use crate::booking::spread::{Spread, mean};
use serde::Serialize;

/// Up to here, in hours, book-ahead time and window are small (section 5.2).
const SMALL: i64 = 2;

/// Shares of granted requests of one method.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GrantedShares {
    /// Share of all requests, from 0 to 1.
    pub all: Spread,
    /// Where both times are at most two hours.
    pub small: Spread,
    /// Of the fifth of all requests of all combinations that was made at the highest load.
    pub loaded: Spread,
    /// The same, but the fifth of each combination.
    pub loaded_of_each: Spread,
    /// By book-ahead time, then by window.
    pub grid: Vec<Vec<Spread>>,
}

/// A line of Table 1.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// Book-ahead time of the line, in hours.
    pub ahead_hours: i64,
    /// Jobs that waited longer.
    pub jobs: Spread,
    /// Their mean wait without reservations, in seconds.
    pub original_secs: Spread,
    /// Their mean wait with reservations, in seconds.
    pub affected_secs: Spread,
    /// Share of granted requests.
    pub granted: Spread,
    /// All additional waits together, in days.
    pub total_days: Spread,
    /// What the other jobs waited less, in days.
    pub gained_days: Spread,
    /// Part of the additional wait that came up in the twentieth of the hours with most.
    pub sharpness: Spread,
}

/// Growth of the makespan with one method, in parts of the one without reservations.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MakespanGrowth {
    /// Mean over all combinations.
    pub all: Spread,
    /// The same for the jobs of the queue only.
    pub queue: Spread,
    /// The least of all combinations, in the mean over seeds.
    pub least: f64,
    /// The most of all combinations, in the mean over seeds.
    pub most: f64,
    /// The most that was added to the makespan, in seconds, in the mean over seeds.
    pub most_added_secs: f64,
    /// By book-ahead time, then by window: mean over seeds.
    pub grid: Vec<Vec<f64>>,
    /// The same of the jobs of the queue only.
    pub queue_grid: Vec<Vec<f64>>,
}

impl Study {
    /// `of` the plain runs of a method, for each seed.
    fn by_seed(&self, method: Method, of: impl Fn(&[&Run]) -> f64) -> Spread {
        let runs = |seed: &u64| -> Vec<&Run> {
            let own = self.plain.iter().filter(|run| run.method == method);
            own.filter(|run| run.seed == *seed).collect()
        };
        Spread::of(self.seeds.iter().map(|seed| of(&runs(seed))))
    }

    /// Shares of granted requests.
    pub fn success(&self, method: Method) -> GrantedShares {
        let small = |run: &&&Run| run.ahead_hours <= SMALL && run.window_hours <= SMALL;
        let at = |ahead: i64, window: i64| {
            let here = move |run: &&&Run| (run.ahead_hours, run.window_hours) == (ahead, window);
            self.by_seed(method, |runs| share(requests(runs.iter().filter(here))))
        };
        let row = |ahead: &i64| {
            WINDOWS_HOURS
                .iter()
                .map(|window| at(*ahead, *window))
                .collect()
        };
        GrantedShares {
            all: self.by_seed(method, |runs| share(requests(runs.iter()))),
            small: self.by_seed(method, |runs| share(requests(runs.iter().filter(small)))),
            loaded: self.by_seed(method, |runs| share(loaded(requests(runs.iter())))),
            loaded_of_each: self.by_seed(method, |runs| {
                let each = runs.iter().map(|run| loaded(run.requests.iter().copied()));
                share(each.flatten())
            }),
            grid: AHEAD_HOURS.iter().map(row).collect(),
        }
    }

    /// Growth of the makespan.
    pub fn growth(&self, method: Method) -> MakespanGrowth {
        let at = |ahead: i64, window: i64, of: &dyn Fn(&Run) -> f64| {
            let here = |run: &&Run| {
                run.method == method && (run.ahead_hours, run.window_hours) == (ahead, window)
            };
            mean(self.plain.iter().filter(here).map(of))
        };
        let row = |ahead: &i64, of: &dyn Fn(&Run) -> f64| -> Vec<f64> {
            WINDOWS_HOURS
                .iter()
                .map(|window| at(*ahead, *window, of))
                .collect()
        };
        let grid = |of: &dyn Fn(&Run) -> f64| -> Vec<Vec<f64>> {
            AHEAD_HOURS.iter().map(|ahead| row(ahead, of)).collect()
        };
        let all = grid(&|run| run.growth);
        let added = grid(&|run| run.added.ms() as f64 / 1000.0);
        MakespanGrowth {
            all: self.by_seed(method, |runs| mean(runs.iter().map(|run| run.growth))),
            queue: self.by_seed(method, |runs| mean(runs.iter().map(|run| run.queue_growth))),
            least: all.iter().flatten().copied().fold(f64::MAX, f64::min),
            most: all.iter().flatten().copied().fold(f64::MIN, f64::max),
            most_added_secs: added.iter().flatten().copied().fold(f64::MIN, f64::max),
            grid: all,
            queue_grid: grid(&|run| run.queue_growth),
        }
    }
}

/// Table 1 of some runs: those in the wide window, by book-ahead time.
pub fn table(runs: &[Run], method: Method) -> Vec<Row> {
    let row = |ahead: &i64| {
        let here = |run: &&Run| {
            run.method == method
                && (run.ahead_hours, run.window_hours) == (*ahead, WIDE_WINDOW_HOURS)
        };
        let spread = |of: &dyn Fn(&Run) -> f64| Spread::of(runs.iter().filter(here).map(of));
        let days = |ms: i64| ms as f64 / 86_400_000.0;
        Row {
            ahead_hours: *ahead,
            jobs: spread(&|run| run.delayed.len() as f64),
            original_secs: spread(&|run| run.mean_waits().0),
            affected_secs: spread(&|run| run.mean_waits().1),
            granted: spread(&|run| share(run.requests.iter().copied())),
            total_days: spread(&|run| days(run.total_delay().0)),
            gained_days: spread(&|run| days(run.gained.0)),
            sharpness: spread(&Run::sharpness),
        }
    };
    AHEAD_HOURS.iter().map(row).collect()
}

fn requests<'a>(runs: impl Iterator<Item = &'a &'a Run>) -> impl Iterator<Item = PlacedRequest> {
    let requests = runs.flat_map(|run| run.requests.iter().copied());
    requests.collect::<Vec<_>>().into_iter()
}

/// The fifth that was asked at the highest load; of equals those that were asked later.
fn loaded(requests: impl Iterator<Item = PlacedRequest>) -> impl Iterator<Item = PlacedRequest> {
    let mut requests: Vec<PlacedRequest> = requests.collect();
    requests.sort_by_key(|request| request.load);
    let count = requests.len() / 5;
    requests.into_iter().rev().take(count)
}

fn share(requests: impl Iterator<Item = PlacedRequest>) -> f64 {
    mean(requests.map(|request| if request.granted.is_some() { 1.0 } else { 0.0 }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{Span, Time};

    fn one(load: i64, granted: bool) -> PlacedRequest {
        PlacedRequest {
            now: Time(load),
            load: Span(load),
            granted: granted.then_some(Time(9)),
        }
    }

    #[test]
    fn the_fifth_with_the_highest_load() {
        let requests = (0..10).map(|load| one(load * 7 % 10, load % 2 == 0));
        let top: Vec<PlacedRequest> = loaded(requests).collect();
        // 7 · 7 and 4 · 7.
        assert_eq!(top, [one(9, false), one(8, true)]);
        assert_eq!(share(top.into_iter()), 0.5);
        assert_eq!(share([].into_iter()), 0.0);
    }
}
