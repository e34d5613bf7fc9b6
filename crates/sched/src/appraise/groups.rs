//! What several reservations of different sizes do, one after another: those of a workflow.
//!
//! As [`Scheduler::appraise`] does it for a series: the delays of each are those beside what
//! was accepted before it, so that all together are what all of them do.

use super::judge::{Judge, start_times};
use super::{Delays, Inquiry};
use crate::Block;
use crate::appraise::effect::{Effect, Score};
use crate::scheduler::Scheduler;
use cosy_model::{Su, Time};

/// What several reservations do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupAppraisal {
    /// When the plain job of the inquiry would start.
    pub plain_start: Option<Time>,
    /// T of eq. (1).
    pub load_end: Time,
    /// The end of the plan as it is.
    pub plan_end: Time,
    /// Of each group.
    pub effects: Vec<GroupEffect>,
}

/// What a group of reservations does beside those before it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupEffect {
    /// It delays the first waiting job.
    pub before_head: bool,
    /// Availability by what-if in millionths (eq. 4).
    pub availability_ppm: u32,
    /// Whom it delays.
    pub delays: Delays,
    /// Sum of delays times weights, in thousandths of core-milliseconds.
    weighted: i128,
}

impl GroupEffect {
    /// f at `rate` for a core-hour.
    pub fn price(&self, rate: Su) -> Su {
        let effect = Effect {
            weighted: self.weighted,
            ..Effect::default()
        };
        effect.price(rate)
    }
}

impl Scheduler {
    /// Appraises groups of reservations that are free, each with those before it accepted.
    /// Of the inquiry the starts are not looked at.
    pub fn appraise_groups(
        &self,
        now: Time,
        inquiry: &Inquiry,
        groups: &[Vec<Block>],
    ) -> GroupAppraisal {
        let first = self.first_only(inquiry.most_jobs);
        let mut judge = Judge::new(&first, now, inquiry);
        let pool = self.pool_of_queue(inquiry.job.queue);
        let plan_end = judge.plan_end();
        let placeholder = judge.placeholder();
        let effects: Vec<Effect> = groups.iter().map(|group| judge.accept(group)).collect();
        let scores = effects.iter().map(|effect| effect.score);
        let best = scores.fold(placeholder.score, Score::best);
        let told = |effect: Effect| GroupEffect {
            before_head: effect.before_head,
            availability_ppm: match effect.before_head {
                true => 0,
                false => effect
                    .score
                    .availability_ppm(best, inquiry.makespan_weight_ppm),
            },
            delays: effect.delays,
            weighted: effect.weighted,
        };
        GroupAppraisal {
            plain_start: match inquiry.plain_start {
                true => self.start_of(now, &inquiry.job, &[]),
                false => None,
            },
            load_end: pool.map_or(now, |pool| self.load_end(now, pool)),
            plan_end,
            effects: effects.into_iter().map(told).collect(),
        }
    }
}

impl Judge<'_> {
    /// Accepts a group: what it does.
    fn accept(&mut self, group: &[Block]) -> Effect {
        let end = group.iter().map(|block| block.end).max();
        self.accepted.extend(group.iter().cloned());
        let after = start_times(&self.forecast.with(&self.accepted));
        let effect = self
            .queue
            .effect(&self.before, &after, end.unwrap_or(self.now));
        self.before = after;
        effect
    }

    fn plan_end(&self) -> Time {
        self.queue.plan_end(&self.before, self.now)
    }
}
