//! Waiting jobs that are to be looked at again because of something that happened to others.
//!
//! What happens to one job may concern any number of others, and the end of one may end the
//! next. So nobody is looked at while something else is under way: those concerned are put
//! into a line, and the line is worked off at the end of the turn, so much in one turn as takes
//! no longer than others can wait. What is left then is gone on with when the turn's batch is
//! durable. How long a chain of jobs is, is thereby nothing that a stack or a turn has to hold.
//! After a restart all waiting jobs are looked at again, so the line is kept nowhere.

use crate::controller::Controller;
use crate::depend::{Met, waits_by_task};
use crate::job::Fate;
use cosy_model::{JobId, Span, Time, Uid};
use std::collections::{BTreeSet, VecDeque};

/// Work of one turn, in looks at a job or at one of its dependencies.
const STEPS: usize = 2000;
/// The end of a job is as much work as so many looks.
const STEPS_OF_END: usize = 4;
/// Tasks of an array that become queued at once; further ones are put into the line.
pub(crate) const REFILL: usize = 100;

/// Who is to be looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Again {
    /// A job.
    Job(JobId),
    /// All jobs of the submission with that first id.
    Group(JobId),
    /// Tasks of that array that wait for others of it to end.
    Throttled(JobId),
}

/// The line.
#[derive(Debug, Default)]
pub(crate) struct Reviews {
    line: VecDeque<Again>,
    /// What is in the line, so that nobody is in it twice.
    known: BTreeSet<Again>,
    /// The submission under way, and the place of its next task.
    under_way: Option<(JobId, usize)>,
    /// Users of whose interactive jobs one may be able to go. Never left for a later turn.
    interactive: BTreeSet<Uid>,
}

impl Reviews {
    pub fn push(&mut self, again: Again) {
        if self.known.insert(again) {
            self.line.push_back(again);
        }
    }

    pub fn push_interactive(&mut self, uid: Uid) {
        self.interactive.insert(uid);
    }

    pub fn is_empty(&self) -> bool {
        self.line.is_empty() && self.under_way.is_none() && self.interactive.is_empty()
    }

    fn pop(&mut self) -> Option<Again> {
        let next = self.line.pop_front()?;
        self.known.remove(&next);
        Some(next)
    }
}

/// What is left of a turn's work.
pub(crate) struct Steps(usize);

impl Steps {
    pub const fn of_turn() -> Self {
        Self(STEPS)
    }

    fn take(&mut self, steps: usize) {
        self.0 = self.0.saturating_sub(steps);
    }
}

impl Controller {
    /// Looks at those in the line, as far as the steps go.
    pub(crate) fn review_line(&mut self, now: Time, steps: &mut Steps) {
        loop {
            while let Some(uid) = self.reviews.interactive.pop_first() {
                self.refill_interactive_of(now, uid);
            }
            if steps.0 == 0 {
                return;
            }
            if let Some((base, at)) = self.reviews.under_way.take() {
                self.review_group(now, base, at, steps);
                continue;
            }
            match self.reviews.pop() {
                Some(Again::Job(id)) => self.review_step(now, id, steps),
                Some(Again::Group(base)) if self.still_waits(now, base) => steps.take(1),
                Some(Again::Group(base)) => self.review_group(now, base, 0, steps),
                Some(Again::Throttled(base)) => {
                    let looked = self.refill_array(now, base);
                    steps.take(1 + looked);
                }
                None => return,
            }
        }
    }

    fn review_step(&mut self, now: Time, id: JobId, steps: &mut Steps) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        steps.take(1 + job.spec().dependencies.len());
        self.review(now, id);
        if !self.jobs.contains_key(&id) {
            steps.take(STEPS_OF_END);
        }
    }

    /// The submission's jobs from that place on.
    fn review_group(&mut self, now: Time, base: JobId, from: usize, steps: &mut Steps) {
        for at in from.. {
            let Some(group) = self.groups.get(&base) else {
                return;
            };
            let Some(fate) = group.fates.get(at) else {
                return;
            };
            if *fate != Fate::Live {
                continue;
            }
            if steps.0 == 0 {
                self.reviews.under_way = Some((base, at));
                return;
            }
            let id = group.id_at(at);
            self.review_step(now, id, steps);
        }
    }

    /// True when all jobs of a submission wait for the same as before, so that looking at each
    /// would tell nothing new.
    fn still_waits(&self, now: Time, base: JobId) -> bool {
        let Some(group) = self.groups.get(&base) else {
            return true;
        };
        let dependencies = &group.submitted.spec.dependencies;
        let alike = dependencies
            .iter()
            .all(|d| d.delay == Span::ZERO && !waits_by_task(d));
        alike
            && !dependencies.is_empty()
            && self.dependencies_met(now, &group.submitted, None) == Met::NotYet
    }
}
