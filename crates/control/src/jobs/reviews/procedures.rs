//! The line of jobs to be looked at again is worked off within a turn's share.

use crate::jobs::Jobs;
use crate::jobs::dependencies::procedures::dependencies_met;
use crate::jobs::dependencies::{Met, Waiter, waits_by_task};
use crate::jobs::reviews::Again;
use crate::planning::Planning;
use crate::set_aside::Aside;
use cosy_model::{JobId, ReservationId, Span, Time, WaitReason};
use std::ops::Bound;

pub(crate) fn next_within(
    planning: &Planning,
    id: ReservationId,
    after: Option<Waiter>,
) -> Option<Waiter> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let all = planning.naming(id)?;
    all.range((from, Bound::Unbounded)).next().copied()
}

/// True when those jobs all wait for the same as before, so that looking at each would tell
/// nothing new.
pub(crate) fn still_wait(jobs: &Jobs, aside: &Aside, now: Time, waiter: Waiter) -> bool {
    let group = jobs.group(&waiter.base);
    let Some(body) = group.and_then(|group| group.bodies.get(&waiter.body)) else {
        return true;
    };
    let dependencies = &body.submitted.spec.dependencies;
    let alike = dependencies
        .iter()
        .all(|d| d.delay == Span::ZERO && !waits_by_task(d));
    alike
        && !dependencies.is_empty()
        && dependencies_met(jobs, aside, now, &body.submitted, None) == Met::NotYet
}

impl Jobs {
    /// A waiting job was looked at; what it waits for.
    pub(crate) fn was_reviewed(
        &mut self,
        id: JobId,
        eligible: Option<Time>,
        reason: Option<WaitReason>,
    ) {
        let Some(job) = self.get_mut(&id) else {
            return;
        };
        let of = Waiter::of(job.submitted());
        let barred = matches!(reason, Some(WaitReason::AccountInvalid | WaitReason::QosInvalid));
        job.was_reviewed(eligible, reason);
        if barred {
            self.bars(of, true);
        }
    }

    /// Has all jobs of a submission looked at.
    pub(crate) fn review_all_of(&mut self, base: JobId) {
        let bodies = self.group(&base).into_iter();
        let bodies = bodies.flat_map(|group| group.bodies.keys());
        let jobs: Vec<Waiter> = bodies.map(|body| Waiter { base, body: *body }).collect();
        for jobs in jobs {
            self.reviews.push(Again::Jobs(jobs));
        }
    }
}
