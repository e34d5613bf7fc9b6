//! What a reservation does to the waiting jobs: the plan as it is against the plan with the
//! reservation.
//!
//! - Delay of a job: (v' - v)+, its start in the plan with the reservation less that in the
//!   plan without (pricing paper, figure 2).
//! - n_q: the cores that the job asks for; for a whole-node job all cores of the nodes that
//!   it gets in the plan without.
//! - Makespan (eq. 2) from now on, of running jobs and waiting ones. Mean completion time
//!   (eq. 3) of waiting jobs: as a sum, because all plans have the same number of jobs. The
//!   running ones would add the same to each plan.
//!
//! Jobs without a start in the plan as it is count nowhere: there is nothing that could get
//! later. One that loses its start by the reservation counts as if it began when the plan
//! with the reservation ends, or as much later as it would have begun anyway.
//!
//! Sources: pricing paper, section 2; what-if paper, section 4.2.

use super::{Delays, Inquiry, Listed};
use crate::pass::at_least_one;
use crate::scheduler::Scheduler;
use crate::{Component, Demand, Plan, Prediction};
use cosy_model::{JobId, QueueId, Span, Su, Time};

/// One in millionths.
const ONE: u32 = 1_000_000;

/// A waiting job with a start in the plan as it is.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    /// Its place in the plan.
    place: usize,
    job: JobId,
    limit: Span,
    submit: Time,
    /// n_q times the weight of its queue, which is in thousandths.
    weight: i128,
    /// Pushed back already by accepted reservations.
    pushed: Span,
    listed: bool,
    /// It waits for the nodes of the inquiry's queue.
    here: bool,
}

/// The waiting jobs that are looked at.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    jobs: Vec<Queued>,
    /// The place of the first that waits for the nodes of the inquiry's queue.
    head: Option<usize>,
    /// The latest end of what runs, and that with accepted reservations.
    running_end: Time,
    fixed_end: Time,
    now: Time,
}

/// What a reservation does.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Effect {
    pub delays: Delays,
    /// Sum of delays times weights, in thousandths of core-milliseconds.
    pub weighted: i128,
    /// The first waiting job would start later.
    pub before_head: bool,
    pub score: Score,
}

/// How good a plan is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Score {
    /// C_max from now on, in milliseconds.
    pub makespan: i128,
    /// K · C_avg in milliseconds.
    pub completion: i128,
}

impl Queue {
    /// The jobs of `plan`, which is the plan as it is.
    pub fn new(scheduler: &Scheduler, now: Time, inquiry: &Inquiry, plan: &Plan) -> Self {
        let each = plan.predictions.iter().enumerate();
        let jobs: Vec<Queued> = each
            .filter_map(|(place, told)| scheduler.queued(inquiry, place, told))
            .collect();
        let running_end = scheduler.running_end(now);
        Self {
            head: jobs
                .iter()
                .find(|queued| queued.here)
                .map(|queued| queued.place),
            jobs,
            running_end,
            fixed_end: latest(running_end, scheduler.blocks.iter().map(|(_, b)| b.end)),
            now,
        }
    }

    /// The latest planned end of all: of what is fixed, of `jobs` that start at `starts`,
    /// and `at_least`.
    pub fn plan_end(&self, starts: &[Option<Time>], at_least: Time) -> Time {
        let ends = self.jobs.iter().map(|queued| {
            let start = starts.get(queued.place).copied().flatten();
            start.map_or(self.now, |start| start + queued.limit)
        });
        latest(self.fixed_end.max(at_least), ends)
    }

    /// Starts and ends of the jobs that wait for the nodes of the inquiry's queue, if they
    /// start at `starts`.
    pub fn planned(&self, starts: &[Option<Time>]) -> impl Iterator<Item = Time> {
        let here = self.jobs.iter().filter(|queued| queued.here);
        let each = here.filter_map(|queued| {
            let start = starts.get(queued.place).copied().flatten()?;
            Some([start, start + queued.limit])
        });
        each.flatten()
    }

    /// What has changed from the starts `before` to those of `after`, the plan with a
    /// reservation that ends at `end`.
    pub fn effect(&self, before: &[Option<Time>], after: &[Option<Time>], end: Time) -> Effect {
        let end = if end < Time::FAR { end } else { self.now };
        let mut effect = Effect {
            score: self.score(after, end),
            ..Effect::default()
        };
        let lost = || self.plan_end(after, end);
        for queued in &self.jobs {
            let Some(was) = before.get(queued.place).copied().flatten() else {
                continue;
            };
            let is = after.get(queued.place).copied().flatten();
            let delay = is.unwrap_or_else(|| lost().max(was)).since(was);
            if delay > Span::ZERO || is.is_none() {
                effect.before_head |= self.head == Some(queued.place);
                effect.count(queued, delay);
            }
        }
        effect.delays.listed.sort_unstable_by_key(|(job, _)| *job);
        effect
    }

    /// How good the plan with these starts is; `end` is that of the reservation in it.
    pub fn score(&self, starts: &[Option<Time>], end: Time) -> Score {
        let mut lost = None;
        let mut score = Score {
            makespan: i128::from(self.running_end.since(self.now).0),
            completion: 0,
        };
        for queued in &self.jobs {
            let start = starts.get(queued.place).copied().flatten();
            let start =
                start.unwrap_or_else(|| *lost.get_or_insert_with(|| self.plan_end(starts, end)));
            let done = i128::from(start.0) + i128::from(queued.limit.0);
            score.makespan = score.makespan.max(done - i128::from(self.now.0));
            let took = done - i128::from(queued.submit.0);
            score.completion = score.completion.saturating_add(took.max(0));
        }
        score
    }
}

impl Effect {
    fn count(&mut self, queued: &Queued, delay: Span) {
        let delays = &mut self.delays;
        delays.jobs = delays.jobs.saturating_add(1);
        delays.total = delays.total + delay;
        let weighted = i128::from(delay.0).saturating_mul(queued.weight);
        self.weighted = self.weighted.saturating_add(weighted);
        let in_all = delay + queued.pushed;
        if delays.worst.is_none_or(|(_, most)| in_all > most) {
            delays.worst = Some((queued.job, in_all));
        }
        if queued.listed {
            delays.listed.push((queued.job, delay));
        }
    }

    /// f at `rate` for a core-hour, rounded up.
    pub fn price(&self, rate: Su) -> Su {
        const THOUSAND_HOURS_MS: i128 = 3_600_000_000;
        let product = self.weighted.saturating_mul(i128::from(rate.0));
        let up = i128::from(product.rem_euclid(THOUSAND_HOURS_MS) != 0);
        let sum = product.div_euclid(THOUSAND_HOURS_MS) + up;
        Su(sum.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
    }
}

impl Score {
    /// Eq. (4) in millionths: `best` is the least of each over all considered plans.
    pub fn availability_ppm(self, best: Self, makespan_weight_ppm: u32) -> u32 {
        let makespan = makespan_weight_ppm.min(ONE);
        let part = |weight: u32, best: i128, own: i128| match own {
            ..=0 => i128::from(weight),
            _ => i128::from(weight).saturating_mul(best) / own,
        };
        let all = part(makespan, best.makespan, self.makespan)
            + part(ONE - makespan, best.completion, self.completion);
        all.clamp(0, i128::from(ONE)) as u32
    }

    /// The least of each.
    pub fn best(self, other: Self) -> Self {
        Self {
            makespan: self.makespan.min(other.makespan),
            completion: self.completion.min(other.completion),
        }
    }
}

impl Scheduler {
    /// The pool of a queue, if there is such a queue.
    pub(super) fn pool_of_queue(&self, queue: QueueId) -> Option<usize> {
        Some(self.queue(queue)?.pool)
    }

    /// What counts of a waiting job, if it has a start in the plan as it is.
    fn queued(&self, inquiry: &Inquiry, place: usize, told: &Prediction) -> Option<Queued> {
        told.start?;
        let waiting = &self.waiting_job(told.job)?.job;
        let cores = match waiting.demand.first().exclusive {
            true => self.whole_cores(&told.nodes),
            false => asked_cores(&waiting.demand, told.nodes.count()),
        };
        let weights = &inquiry.tariff.queue_permille;
        let permille = weights.get(waiting.queue.index()).copied().unwrap_or(1000);
        Some(Queued {
            place,
            job: told.job,
            limit: at_least_one(waiting.limit),
            submit: waiting.key.submit,
            weight: cores.saturating_mul(i128::from(permille)),
            pushed: inquiry.pushed.get(&told.job).copied().unwrap_or_default(),
            listed: inquiry.listed.names(told.job),
            here: self.pool_of_queue(waiting.queue) == self.pool_of_queue(inquiry.job.queue),
        })
    }

    /// The latest end, if it has one, of running jobs.
    fn running_end(&self, now: Time) -> Time {
        let ends = self.running.iter().map(|(_, running)| running.end);
        latest(now, ends)
    }
}

/// The latest of some times that is not the end of time, and not before `now`.
pub(super) fn latest(now: Time, times: impl Iterator<Item = Time>) -> Time {
    times.filter(|at| *at < Time::FAR).fold(now, Time::max)
}

/// The cores that a job asks for that shares its `nodes` nodes.
pub(super) fn asked_cores(demand: &Demand, nodes: u32) -> i128 {
    let cores = |one: &Component, nodes: u32| {
        i128::from(one.tasks) * i128::from(one.per_task.cores)
            + i128::from(one.per_node.cores) * i128::from(nodes)
    };
    let further = demand.iter().skip(1);
    let further = further.map(|one| cores(one, one.nodes.unwrap_or(1)));
    cores(demand.first(), nodes) + further.sum::<i128>()
}

impl Listed {
    fn names(&self, job: JobId) -> bool {
        match self {
            Self::Nobody => false,
            Self::Everyone => true,
            Self::Of(jobs) => jobs.contains(&job),
        }
    }
}
