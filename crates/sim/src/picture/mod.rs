//! Pictures of a replay as SVG: who held which nodes when, how much of the machine was
//! held, how much waited; and figures of experiments.
//!
//! It knows nothing of files. What always holds: the text is well-formed XML whatever names
//! are in it, its size is bounded ([`MAX_BARS`], one point for each column of pixels), and
//! the same replay gives the same text.

mod axis;
mod curves;
mod gantt;
mod line_chart;

pub use curves::{backlog, utilisation};
pub use gantt::gantt;
pub use line_chart::{Panel, PlotLine, line_chart};

use crate::replay::{JobRun, Replay};
use crate::workload::{Job, Workload};
use cosy_model::{Span, Time};

/// Most bars of a Gantt chart: beyond that nobody sees anything, and viewers get slow.
pub const MAX_BARS: usize = 20_000;

/// How the classes of all pictures look: title, grid, frame, jobs, backfilled jobs, use, lines,
/// names on bars; dark where the reader's page is (the page is the only box without a class).
const STYLE: &str = "\
text{font-family:sans-serif;font-size:11px;fill:#333}\
.t{font-size:15px;font-weight:bold}\
.g{stroke:#ddd;stroke-width:1}\
.f{fill:none;stroke:#888;stroke-width:1}\
.j{stroke:#fff;stroke-width:.5}\
.b{stroke:#000;stroke-width:1;stroke-dasharray:3 2}\
.u{fill:#4878a8;fill-opacity:.35;stroke:#2f5d8a;stroke-width:1}\
.l{fill:none;stroke-width:1.5}\
.n{font-size:9px;pointer-events:none}\
@media(prefers-color-scheme:dark){\
rect:not([class]){fill:#16181d}text{fill:#d6d8dc}.g{stroke:#34383f}\
.j{stroke:#16181d}.b{stroke:#fff}.u{stroke:#7fb0e0}.n{fill:#222}}";

/// Why there is no picture.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PictureError {
    /// A Gantt chart would have too many bars.
    #[error(
        "{jobs} jobs take more than {MAX_BARS} bars, which nobody could look at: draw a part of them with --until"
    )]
    TooMany {
        /// Number of jobs that ran.
        jobs: usize,
    },
    /// The replay did not keep what jobs held.
    #[error("the replay has not kept what each job held")]
    NoShares,
}

/// From the first submission to the last end, at least a second.
fn frame(workload: &Workload, replay: &Replay) -> (Time, Time) {
    let first = workload.jobs.first().map_or(Time::EPOCH, |job| job.submit);
    let ends = replay.job_runs.iter().flatten().map(|ran| ran.end);
    let last = ends.max().unwrap_or(first);
    (first, last.max(first + Span::from_secs(1)))
}

/// When `job` waited, if it could ever have run.
fn waited(job: &Job, ran: Option<JobRun>) -> Option<(Time, Time)> {
    let until = ran.map(|ran| ran.start).or(job.cancel)?;
    (until > job.submit).then_some((job.submit, until))
}
