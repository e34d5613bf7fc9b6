//! The line of jobs to be looked at again is worked off within a turn's share.

use crate::controller::Controller;
use crate::jobs::dependencies::{Met, Waiter, waits_by_task};
use crate::jobs::job::TaskOutcome;
use crate::jobs::reviews::{AT_ONCE, Again, STEPS_OF_END, Steps, weight};
use crate::set_aside::Object;
use cosy_model::{JobId, ReservationId, Span, Time};
use std::ops::Bound;

impl Controller {
    /// Looks at those in the line, as far as the steps go.
    pub(crate) fn review_line(&mut self, now: Time, steps: &mut Steps) {
        loop {
            while let Some(uid) = self.jobs.reviews.interactive.pop_first() {
                self.refill_interactive_of(now, uid);
            }
            if steps.0 == 0 {
                return;
            }
            if let Some((jobs, at)) = self.jobs.reviews.under_way.take() {
                self.review_jobs(now, jobs, at, steps);
                continue;
            }
            match self.jobs.reviews.pop() {
                Some(Again::Job(id)) => self.review_step(now, id, steps),
                Some(Again::Jobs(jobs)) if self.still_wait(now, jobs) => steps.take(1),
                Some(Again::Jobs(jobs) | Again::Changed(jobs)) => {
                    self.review_jobs(now, jobs, 0, steps);
                }
                Some(Again::Rest(jobs, from)) => self.review_jobs(now, jobs, from, steps),
                Some(Again::Within(id, after)) => self.review_within(now, id, after, steps),
                Some(Again::Throttled(base)) => {
                    let looked = self.refill_array(now, base);
                    steps.take(1 + looked);
                }
                None => return,
            }
        }
    }

    fn review_step(&mut self, now: Time, id: JobId, steps: &mut Steps) {
        let Some(job) = self.jobs.live.get(&id) else {
            return;
        };
        steps.take(1 + job.spec().dependencies.len());
        let told = self.conversations.count_waits_for(id);
        self.works_on(Object::Job(id));
        self.review(now, id);
        if !self.jobs.live.contains_key(&id) {
            steps.take(STEPS_OF_END + told);
        }
    }

    /// Those jobs of a submission, from that place on.
    fn review_jobs(&mut self, now: Time, jobs: Waiter, from: usize, steps: &mut Steps) {
        for at in from.. {
            let Some(group) = self.jobs.groups.get(&jobs.base) else {
                return;
            };
            let Some(fate) = group.fates.get(at) else {
                return;
            };
            if *fate != TaskOutcome::Live {
                continue;
            }
            if steps.0 == 0 {
                self.jobs.reviews.under_way = Some((jobs, at));
                return;
            }
            let id = group.id_at(at);
            let job = self.jobs.live.get(&id);
            match job.is_some_and(|job| job.submitted.body == jobs.body) {
                true => self.review_step(now, id, steps),
                false => steps.take(1),
            }
        }
    }

    /// The jobs that are to run in a reservation, after these.
    fn review_within(
        &mut self,
        now: Time,
        id: ReservationId,
        mut after: Option<Waiter>,
        steps: &mut Steps,
    ) {
        while let Some(jobs) = self.next_within(id, after) {
            if steps.0 == 0 {
                return self.jobs.reviews.push_first(Again::Within(id, after));
            }
            after = Some(jobs);
            steps.take(1);
            self.review_jobs(now, jobs, 0, steps);
        }
    }

    fn next_within(&self, id: ReservationId, after: Option<Waiter>) -> Option<Waiter> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = self.planning.naming(id)?;
        all.range((from, Bound::Unbounded)).next().copied()
    }

    /// Looks again at all waiting jobs that are to run in a reservation: the first at once, the
    /// others in the turns that follow.
    pub(crate) fn review_within_at_once(&mut self, now: Time, id: ReservationId) {
        let before = self.jobs.reviews.under_way.take();
        self.review_within(now, id, None, &mut Steps(AT_ONCE));
        let left = std::mem::replace(&mut self.jobs.reviews.under_way, before);
        if let Some((jobs, at)) = left {
            self.jobs.reviews.push_first(Again::Rest(jobs, at));
        }
    }

    /// True when those jobs all wait for the same as before, so that looking at each would tell
    /// nothing new.
    fn still_wait(&self, now: Time, jobs: Waiter) -> bool {
        let group = self.jobs.groups.get(&jobs.base);
        let Some(body) = group.and_then(|group| group.bodies.get(&jobs.body)) else {
            return true;
        };
        let dependencies = &body.submitted.spec.dependencies;
        let alike = dependencies
            .iter()
            .all(|d| d.delay == Span::ZERO && !waits_by_task(d));
        alike
            && !dependencies.is_empty()
            && self.dependencies_met(now, &body.submitted, None) == Met::NotYet
    }

    /// Looks at the first of some jobs at once, and has the others looked at, with all that
    /// ask for the same.
    pub(crate) fn review_many(&mut self, now: Time, ids: &[JobId]) {
        let mut work = 0;
        let fits = |id: &JobId| {
            let job = self.jobs.live.get(id);
            work += job.map_or(1, |job| weight(job.spec()));
            work <= AT_ONCE
        };
        let (first, rest) = ids.split_at(ids.iter().copied().take_while(fits).count());
        first.iter().for_each(|id| self.review(now, *id));
        let mut last = None;
        for id in rest {
            let jobs = self.jobs.live.get(id).map(|job| Waiter::of(&job.submitted));
            if let Some(jobs) = jobs.filter(|jobs| last.replace(*jobs) != Some(*jobs)) {
                self.jobs.reviews.push(Again::Rest(jobs, 0));
            }
        }
    }

    /// Has all jobs of a submission looked at.
    pub(crate) fn review_all_of(&mut self, base: JobId) {
        let bodies = self.jobs.groups.get(&base).into_iter();
        let bodies = bodies.flat_map(|group| group.bodies.keys());
        let jobs: Vec<Waiter> = bodies.map(|body| Waiter { base, body: *body }).collect();
        for jobs in jobs {
            self.jobs.reviews.push(Again::Jobs(jobs));
        }
    }
}
