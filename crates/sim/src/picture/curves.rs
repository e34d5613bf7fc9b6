//! Curves over time: the share of the machine that was held, jobs and work that waited.
//!
//! A curve has one point for each column of pixels: the mean over the time that the column
//! stands for, added up in integers.

use super::axis::Area;
use super::{frame, waited};
use crate::replay::{Machine, Replay};
use crate::workload::Workload;
use cosy_model::Time;
use cosy_svg::{Anchor, Length, Svg};

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 70.0;
const COLUMNS: i64 = 1110;
const HEIGHT: f64 = 200.0;

/// Steps of a curve: from that time on so much more, or less.
type Steps = Vec<(Time, i64)>;

/// Draws the share of the machine that jobs held.
pub fn utilisation(machine: Machine, workload: &Workload, replay: &Replay) -> String {
    let mut steps = Steps::new();
    for (job, ran) in workload.jobs.iter().zip(&replay.job_runs) {
        if let Some(ran) = ran {
            let held = machine.processors(job) as i64;
            steps.extend([(ran.start, held), (ran.end, -held)]);
        }
    }
    let area = area(workload, replay, 56.0);
    let mut svg = Svg::new(WIDTH, area.bottom() + 30.0, super::STYLE, &format!("Use of {machine}"));
    svg.words(LEFT, 46.0, Anchor::Start, "", "share of the processors that jobs held");
    let size = machine.size() as f64;
    let shares = means(&area, steps)
        .into_iter()
        .map(|held| held / size * 100.0);
    curve(&mut svg, &area, &shares.collect::<Vec<_>>(), 100.0, " %");
    svg.finish()
}

/// Draws how many jobs waited, and how long the whole machine would take for them.
pub fn backlog(machine: Machine, workload: &Workload, replay: &Replay) -> String {
    let (mut jobs, mut work) = (Steps::new(), Steps::new());
    for (job, ran) in workload.jobs.iter().zip(&replay.job_runs) {
        if let Some((from, to)) = waited(job, *ran) {
            let run_secs = job.run.min(job.limit).secs();
            let more = run_secs.saturating_mul(machine.processors(job) as i64);
            jobs.extend([(from, 1), (to, -1)]);
            work.extend([(from, more), (to, -more)]);
        }
    }
    let (upper, lower) = (area(workload, replay, 56.0), area(workload, replay, 310.0));
    let mut svg = Svg::new(WIDTH, lower.bottom() + 30.0, super::STYLE, "Backlog");
    svg.words(LEFT, 46.0, Anchor::Start, "", "jobs that wait");
    let jobs = means(&upper, jobs);
    curve(&mut svg, &upper, &jobs, most(&jobs), "");
    let words = "hours that the whole machine would take for them";
    svg.words(LEFT, 300.0, Anchor::Start, "", words);
    let hour = machine.size() as f64 * 3600.0;
    let work = means(&lower, work).into_iter().map(|secs| secs / hour);
    let work: Vec<f64> = work.collect();
    curve(&mut svg, &lower, &work, most(&work), " h");
    svg.finish()
}

fn area(workload: &Workload, replay: &Replay, top: f64) -> Area {
    let (from, to) = frame(workload, replay);
    Area {
        left: LEFT,
        top,
        width: COLUMNS as f64,
        height: HEIGHT,
        from,
        to,
    }
}

/// A round number that is not below any of the values.
pub(super) fn most(values: &[f64]) -> f64 {
    let highest = values.iter().copied().fold(0.0, f64::max);
    let mut round = 1.0;
    while round < highest {
        let next = [2.0, 4.0, 10.0].map(|times| round * times);
        round = next
            .into_iter()
            .find(|next| *next >= highest)
            .unwrap_or(next[2]);
    }
    round
}

/// The mean of each column.
fn means(area: &Area, mut steps: Steps) -> Vec<f64> {
    steps.sort_unstable();
    let all = i128::from(area.to.since(area.from).0);
    let edge = |column: i64| {
        let offset = all * i128::from(column) / i128::from(COLUMNS);
        Time(area.from.0.saturating_add(offset as i64))
    };
    let (mut value, mut next) = (0i128, 0);
    let column = |column| {
        let (mut at, to) = (edge(column), edge(column + 1));
        let (mut sum, length) = (0i128, to.since(at).0);
        while let Some((time, more)) = steps.get(next).filter(|(time, _)| *time < to) {
            sum = sum.saturating_add(value.saturating_mul(time.since(at).0.into()));
            at = at.max(*time);
            value += i128::from(*more);
            next += 1;
        }
        sum = sum.saturating_add(value.saturating_mul(to.since(at).0.into()));
        sum as f64 / length.max(1) as f64
    };
    (0..COLUMNS).map(column).collect()
}

/// An area filled up to the values, one for each column, and its axes.
fn curve(svg: &mut Svg, area: &Area, values: &[f64], most: f64, unit: &str) {
    area.scale(svg, most, unit);
    area.draw(svg);
    let mut commands = format!("M{} {}", area.left.px(), area.bottom().px());
    let mut last = area.bottom().px();
    for (column, value) in values.iter().enumerate() {
        let y = (area.bottom() - area.height * (value / most).clamp(0.0, 1.0)).px();
        if y != last {
            commands += &format!("H{}V{y}", (area.left + column as f64).px());
            last = y;
        }
    }
    commands += &format!("H{}V{}Z", (area.left + area.width).px(), area.bottom().px());
    svg.path("u", &commands);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_columns() {
        let area = Area {
            left: 0.0,
            top: 0.0,
            width: COLUMNS as f64,
            height: 1.0,
            from: Time(1000),
            to: Time(1000 + COLUMNS * 10),
        };
        let steps = vec![
            (Time(1030), -4),
            (Time(1000), 4),
            (Time(1015), 8),
            (Time(1025), -8),
        ];
        let got = means(&area, steps);
        assert_eq!(got[..5], [4.0, 8.0, 8.0, 0.0, 0.0]);
        assert!(got[5..].iter().all(|mean| *mean == 0.0));
    }

    #[test]
    fn round_numbers() {
        let check = |highest: f64, want: f64| assert_eq!(most(&[0.0, highest]), want);
        check(0.0, 1.0);
        check(1.5, 2.0);
        check(3.0, 4.0);
        check(5.0, 10.0);
        check(11.0, 20.0);
        check(7000.0, 10_000.0);
    }
}
