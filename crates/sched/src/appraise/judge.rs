//! Appraising: a plan without and a plan with the reservation, for each start.
//!
//! What always holds: the scheduler that is asked is not changed; what is told of a start
//! is what the plans say that [`Scheduler::plan_with`] makes.
//!
//! Chosen where the papers are silent:
//! - Nodes are those of the inquiry's queue that its job may have. With
//!   [`Inquiry::fixed`] they are given, and only checked.
//! - A reservation that the new one takes the place of is in the plan that delays are
//!   counted from, and out of the way of everything else, the placeholder job too.
//! - In eq. (4) the least of each measure is taken over the plans with the placeholder job
//!   and of all starts of the inquiry that are possible. The placeholders themselves count
//!   in no plan: K are the jobs that are there. The start of the placeholder job is judged
//!   as the reservation that it would be.
//! - Running jobs are made to leave only where a slot is not possible else. The plan with it then
//!   counts on their ends at its start; that they may wait again is no delay.
//! - What is not possible costs nothing and delays nobody: there is no such slot.

use super::candidates::{Window, candidates};
use super::effect::{Effect, Queue, Score};
use super::{Appraisal, Estimate, Inquiry, Starts};
use crate::machine::ReservationHorizon;
use crate::plan::Replay;
use crate::scheduler::Scheduler;
use crate::{Block, Component, Forecast, Plan, PoolShortage, Vacated, WaitingJob};
use cosy_model::{JobId, NodeShare, ReservationId, Span, Su, Time};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The starts of a plan's jobs, by their places in it.
pub(super) type StartTimes = Vec<Option<Time>>;

/// What all starts of an inquiry are judged against.
pub(super) struct Judge<'a> {
    pub(super) now: Time,
    pub(super) inquiry: &'a Inquiry,
    /// With the nodes of the queue alone.
    pub(super) demand: Component,
    /// Without what is replaced, with what is accepted of a series.
    pub(super) ground: Cow<'a, Scheduler>,
    pub(super) forecast: Forecast,
    pub(super) queue: Queue,
    /// The starts that delays are counted from.
    pub(super) before: StartTimes,
    pub(super) accepted: Vec<Block>,
    /// Running jobs leave for what is accepted of a series: the forecast does not know it.
    vacated: bool,
}

/// What a start would take and do.
struct Judged {
    placed: Vacated,
    effect: Effect,
}

/// The plan with the placeholder job.
pub(super) struct Placeholder {
    start: Option<Time>,
    pub(super) score: Score,
}

impl Scheduler {
    /// Appraises all starts of an inquiry. The scheduler itself is not changed. In a queue
    /// that there is not nothing is possible.
    pub fn appraise(&self, now: Time, inquiry: &Inquiry) -> Appraisal {
        let first = self.first_only(inquiry.most_jobs);
        let mut judge = Judge::new(&first, now, inquiry);
        let pool = self.pool_of_queue(inquiry.job.queue);
        let load_end = pool.map_or(now, |pool| self.load_end(now, pool));
        let plan_end = judge.queue.plan_end(&judge.before, now);
        let placeholder = judge.placeholder();
        let asked = inquiry.plain_start || matches!(inquiry.starts, Starts::Window { .. });
        let plain_start = match &first {
            _ if !asked => None,
            Cow::Borrowed(_) => placeholder.start,
            Cow::Owned(_) => self.start_of(now, &inquiry.job, inquiry.replaces.as_slice()),
        };
        let mut starts = judge.starts(&first, plain_start, plan_end);
        starts.sort_unstable();
        starts.dedup();
        let effects: Vec<_> = starts.iter().map(|start| judge.judge(*start)).collect();
        let possible = effects.iter().flatten().map(|judged| judged.effect.score);
        let best = possible.fold(placeholder.score, Score::best);
        let slots = starts.iter().zip(effects);
        let slots = slots.map(|(start, effect)| Estimate {
            by_load: *start >= load_end,
            ..judge.estimate(*start, effect, best)
        });
        Appraisal {
            now,
            plain_start,
            joint_start: inquiry
                .joint
                .as_ref()
                .and_then(|joint| self.start_of(now, &joint.job, &joint.without)),
            load_end,
            plan_end,
            slots: slots.collect(),
        }
    }

    /// With the first `most` waiting jobs alone, if there are more: then a what-if plan costs
    /// what they cost, not what the whole queue does.
    pub(super) fn first_only(&self, most: usize) -> Cow<'_, Self> {
        if self.waiting_count() <= most {
            return Cow::Borrowed(self);
        }
        Cow::Owned(self.with_only(&self.first_jobs(Some(most))))
    }

    /// When a job would start, were it a waiting one among all, without some reservations.
    pub(super) fn start_of(
        &self,
        now: Time,
        job: &WaitingJob,
        without: &[ReservationId],
    ) -> Option<Time> {
        let id = job.key.job;
        if self.is_waiting(id) || self.is_running(id) {
            return None;
        }
        let mut with = self.clone();
        for reservation in without {
            with.remove_block(*reservation);
        }
        with.enqueue(job.clone());
        let mut plan = Replay::on(with, now, vec![id]).played();
        plan.predictions.pop()?.start
    }

    /// True when all of `shares` are free for `[start, start + length)`, if running jobs take
    /// their limits; as [`Scheduler::place`], for shares that are chosen already.
    pub fn are_free(&self, now: Time, shares: &[NodeShare], start: Time, length: Span) -> bool {
        if start < now || length <= Span::ZERO {
            return false;
        }
        let mut wanted = BTreeMap::new();
        for share in shares {
            let amounts: &mut cosy_model::Amounts = wanted.entry(share.node).or_default();
            amounts.give(&share.amounts);
        }
        let window = (start, start + length);
        wanted.iter().all(|(node, amounts)| {
            if !self.machine.knows(*node) || !self.machine.open.contains(*node) {
                return false;
            }
            let demand = Component {
                exclusive: amounts == self.machine.total(*node), // nobody else at all
                ..Component::default()
            };
            let sight = ReservationHorizon::Until(Time::FAR);
            let free = self.machine.window(*node, &demand, window, now, sight);
            free.is_some_and(|free| amounts.fits(&free.free))
        })
    }

    /// An id that no accepted reservation has.
    fn spare_reservation(&self) -> ReservationId {
        let mut ids = (0..=u64::MAX).rev().map(ReservationId);
        let spare = ids.find(|id| self.blocks.get(id).is_none());
        spare.expect("there are fewer reservations than ids")
    }
}

impl<'a> Judge<'a> {
    pub(super) fn new(scheduler: &'a Scheduler, now: Time, inquiry: &'a Inquiry) -> Self {
        let questions = inquiry.starts.most();
        let forecast = scheduler.forecast_for(now, None, questions);
        let queue = Queue::new(scheduler, now, inquiry, forecast.plan());
        let before = start_times(forecast.plan());
        let (mut ground, mut without) = (Cow::Borrowed(scheduler), None);
        if let Some(replaced) = inquiry.replaces {
            let scheduler = ground.to_mut();
            scheduler.remove_block(replaced);
            without = Some(scheduler.forecast_for(now, None, questions));
        }
        Self {
            now,
            inquiry,
            demand: scheduler.demand_in_queue(inquiry),
            ground,
            forecast: without.unwrap_or(forecast),
            queue,
            before,
            accepted: Vec::new(),
            vacated: false,
        }
    }

    /// The starts to be judged.
    fn starts(&self, scheduler: &Scheduler, plain: Option<Time>, plan_end: Time) -> Vec<Time> {
        match &self.inquiry.starts {
            Starts::At(starts) | Starts::Series(starts) => starts.clone(),
            Starts::Window {
                earliest,
                latest,
                most,
                gap,
            } => {
                let window = Window {
                    earliest: (*earliest).max(self.now),
                    latest: *latest,
                    most: *most,
                    gap: *gap,
                };
                let kept: Vec<Time> = plain.into_iter().chain([plan_end]).collect();
                candidates(window, &kept, &self.changes(scheduler))
            }
        }
    }

    /// The instants at which free resources of the queue's nodes, and of the resource pools that
    /// are asked for, change in the plan.
    fn changes(&self, scheduler: &Scheduler) -> Vec<Time> {
        let queue = self.inquiry.job.queue;
        let Some(pool) = scheduler.pool_of_queue(queue) else {
            return Vec::new();
        };
        let known = &scheduler.node_pools[pool];
        let soon = Time(self.now.0.saturating_add(1));
        let ends = known.ends.iter().map(|end| end.at.max(soon));
        let bounds = known.bounds.iter().map(|((at, _), ())| *at);
        let planned = self.queue.planned(&self.before);
        let holds = self.inquiry.job.holds.iter();
        let pools = holds.filter_map(|hold| scheduler.resource_pools().get(hold.pool));
        let of_pools = pools.flat_map(|pool| pool.changes()).map(|at| at.max(soon));
        let leavers = self.inquiry.leavers.iter().map(|one| one.gone_from);
        let all = ends.chain(bounds).chain(planned).chain(of_pools);
        all.chain(leavers).collect()
    }

    /// The plan with the placeholder job.
    pub(super) fn placeholder(&self) -> Placeholder {
        let scheduler = &*self.ground;
        let job = &self.inquiry.job;
        let id = job.key.job;
        let known = scheduler.pool_of_queue(job.queue).is_some();
        if !known || scheduler.is_running(id) || scheduler.is_waiting(id) {
            let score = self.queue.score(&self.before, self.now);
            return Placeholder { start: None, score };
        }
        let mut with = scheduler.clone();
        with.enqueue(job.clone());
        let mut asked: Vec<JobId> = self.forecast.plan().jobs().collect();
        asked.push(id);
        let plan = Replay::on(with, self.now, asked).played();
        let mut starts = start_times(&plan);
        let start = starts.pop().flatten();
        let score = self.queue.score(&starts, self.now);
        Placeholder { start, score }
    }

    /// What a start would take and do, if it is possible. Of a series it is accepted.
    fn judge(&mut self, start: Time) -> Result<Judged, Option<PoolShortage>> {
        let placed = self.place(start)?;
        let block = Block {
            reservation: self.ground.spare_reservation(),
            shares: placed.shares.clone(),
            start,
            end: start + self.inquiry.job.limit,
            holds: self.inquiry.job.holds.on(&placed.shares),
        };
        let end = block.end;
        let after = self.starts_with(&block, &placed.leave);
        let effect = self.queue.effect(&self.before, &after, end);
        match &self.inquiry.starts {
            Starts::Series(_) => {
                let ground = self.ground.to_mut();
                for job in &placed.leave {
                    ground.set_expected_end(*job, start);
                }
                ground.add_block(block.clone());
                self.vacated |= !placed.leave.is_empty();
                self.accepted.push(block);
                self.before = after;
            }
            Starts::At(_) | Starts::Window { .. } => {}
        }
        Ok(Judged { placed, effect })
    }

    /// The starts of the plan with one reservation more, for which these jobs leave.
    fn starts_with(&mut self, block: &Block, leave: &[JobId]) -> StartTimes {
        if leave.is_empty() && !self.vacated {
            self.accepted.push(block.clone());
            let after = start_times(&self.forecast.with(&self.accepted));
            self.accepted.pop();
            return after;
        }
        let mut planner = Scheduler::clone(&self.ground);
        for job in leave {
            planner.set_expected_end(*job, block.start);
        }
        let asked: Vec<JobId> = self.forecast.plan().jobs().collect();
        let mut play = Replay::on(planner, self.now, asked);
        play.insert(std::slice::from_ref(block));
        start_times(&play.played())
    }

    /// The nodes that it would get, and who leaves for it. Where its nodes are free, but too little of
    /// a resource pool is, the error names that.
    fn place(&self, start: Time) -> Result<Vacated, Option<PoolShortage>> {
        let leave = Vec::new();
        let free = self.shares(start).map(|shares| Vacated { shares, leave });
        let Inquiry {
            job,
            leavers,
            starts,
            ..
        } = self.inquiry;
        if free.is_ok() || leavers.is_empty() || start + job.limit <= start {
            return free;
        }
        let vacated = (self.ground).place_vacated(self.now, job, start, leavers, starts.most());
        vacated.map_or(free, Ok)
    }

    /// The nodes that it would get if nobody leaves.
    fn shares(&self, start: Time) -> Result<Vec<NodeShare>, Option<PoolShortage>> {
        let length = self.inquiry.job.limit;
        let lasts = start + length > start;
        let shares = match &self.inquiry.fixed {
            _ if !lasts => None,
            None => self.ground.place(self.now, &self.demand, start, length),
            Some(shares) => {
                let free = self.ground.are_free(self.now, shares, start, length);
                free.then(|| shares.clone())
            }
        };
        let shares = shares.ok_or(None)?;
        let wants = self.inquiry.job.holds.on(&shares);
        self.ground
            .are_amounts_free(self.now, &wants, start, length)?;
        Ok(shares)
    }

    fn estimate(
        &self,
        start: Time,
        judged: Result<Judged, Option<PoolShortage>>,
        best: Score,
    ) -> Estimate {
        let lacks = judged.as_ref().err().copied().flatten();
        let (placed, effect) = judged
            .ok()
            .map(|known| (known.placed, known.effect))
            .unzip();
        let (shares, leave) = placed.map(|placed| (placed.shares, placed.leave)).unzip();
        let base = shares
            .as_deref()
            .map_or(Su::ZERO, |shares| self.base(shares));
        let effect = effect.unwrap_or_default();
        let weight = self.inquiry.makespan_weight_ppm;
        let open = shares.is_some() && !effect.before_head;
        Estimate {
            start,
            end: start + self.inquiry.job.limit,
            before_head: effect.before_head,
            availability_ppm: match open {
                true => effect.score.availability_ppm(best, weight),
                false => 0,
            },
            by_load: false,
            base,
            extra: effect.price(self.inquiry.tariff.delay_core_hour),
            delays: effect.delays,
            shares,
            leave: leave.unwrap_or_default(),
            lacks,
        }
    }

    /// Price by the tariff: p·n·d (pricing paper, section 3).
    fn base(&self, shares: &[NodeShare]) -> Su {
        let job = &self.inquiry.job;
        let holds = job.holds.on(shares);
        self.inquiry.tariff.base(shares, &holds, job.limit)
    }
}

impl Scheduler {
    /// What the inquiry asks for, of the nodes of its queue.
    fn demand_in_queue(&self, inquiry: &Inquiry) -> Component {
        let mut demand = inquiry.job.demand.first().clone();
        let queue = self.queue(inquiry.job.queue);
        let nodes = queue.map(|queue| demand.allowed.and(&queue.nodes));
        demand.allowed = nodes.unwrap_or_default().into();
        demand
    }
}

pub(super) fn start_times(plan: &Plan) -> StartTimes {
    plan.predictions.iter().map(|told| told.start).collect()
}
