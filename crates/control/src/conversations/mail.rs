//! Mail about jobs: what is said and to whom. How it is sent is the shell's business.

pub(crate) mod procedures;

use crate::jobs::job::Job;
use crate::jobs::run::Run;
use cosy_model::{End, JobId, Span, Time};
use std::collections::BTreeSet;

/// What a mail is about.
pub(crate) enum News<'a> {
    Began,
    /// How, and what is noted of it.
    Ended(&'a End, &'a str),
    /// Why, where a node was lost.
    Requeued(&'a str),
    /// Its guaranteed start is later: others make room for that job.
    StartMoved(JobId),
    /// So many hundredths of the time limit are over.
    Share(u8),
}

/// The whole time limit.
pub(crate) const WHOLE: u8 = 100;

/// Running jobs with mail at shares of their limits.
#[derive(Debug, Default)]
pub(crate) struct Mailing {
    running: BTreeSet<JobId>,
}

/// The shares of the limit that a job passes between two moments. That all of it is over is
/// told with its end.
fn reached(job: &Job, run: &Run, before: Time, now: Time) -> impl Iterator<Item = u8> {
    let (from, to) = (run.elapsed(before), run.elapsed(now));
    let limit = run.limit();
    let passed = move |share: u8| {
        let at = Span(limit.0 / 100 * i64::from(share));
        share < WHOLE && !limit.is_unlimited() && from < at && at <= to
    };
    let shares = job.spec().mail.limit_shares.clone();
    shares.into_iter().filter(move |share| passed(*share))
}
