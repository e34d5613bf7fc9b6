//! Figure 4: the additional waits of delayed jobs, added up at their starts.

use super::placement::Method;
use super::run::Run;
use super::study::{AHEAD_HOURS, Study, WIDE_WINDOW_HOURS};
use crate::picture::{Panel, PlotLine, line_chart};

/// Draws it for the first seed.
pub fn cumulated(study: &Study) -> String {
    let seed = study.seeds.first().copied().unwrap_or(0);
    let panel = |method: Method| Panel {
        title: format!(
            "{}: additional wait of delayed jobs, added up at their starts, in days",
            method.name()
        ),
        across: "days since the begin of the log".to_owned(),
        lines: AHEAD_HOURS
            .iter()
            .filter_map(|ahead| {
                let run = study.plain.iter().find(|run| {
                    (run.seed, run.method) == (seed, method)
                        && (run.ahead_hours, run.window_hours) == (*ahead, WIDE_WINDOW_HOURS)
                });
                Some(line(*ahead, run?))
            })
            .collect(),
    };
    let title = format!("Delay of queued jobs, window {WIDE_WINDOW_HOURS} h, seed {seed}");
    line_chart(&title, &Method::ALL.map(panel))
}

fn line(ahead: i64, run: &Run) -> PlotLine {
    let days = |ms: i64| ms as f64 / 86_400_000.0;
    let mut sum = 0;
    let points = run.delayed.iter().map(|job| {
        sum += job.more().0;
        (days(job.start.0), days(sum))
    });
    PlotLine {
        name: format!("book-ahead {ahead} h"),
        points: points.collect(),
        steps: true,
    }
}
