//! Questions about a job that does not wait here: could it start now, and where?
//!
//! The answer is that of a pass in which the job stands in line too, made on scratch memory in
//! which nobody waits but those with a guaranteed place: after a pass nobody else can start, so
//! nobody else matters. What the scratch memory takes grows with the machine, not with the line.
//!
//! What always holds: a question changes nothing that a later decision looks at. It could not:
//! it has the planner only to read.

use crate::OrderKey;
use crate::group::Feasible;
use crate::machine::ReservationHorizon;
use crate::node_pool::NodePool;
use crate::pass::{Pass, at_least_one};
use crate::scheduler::{Queue, Scheduler, WaitingJob};
use crate::waiting_line::QueueKey;
use cosy_model::{JobId, NodeShare, Time};
use std::sync::Arc;

impl Scheduler {
    /// What `job` would hold if it stood in line by its key and were started now; `None` when
    /// it would wait. All others that can start come first, wherever they stand. The job may
    /// wait already, in this queue or in another one: then the place guaranteed to it there does
    /// not count, for it would give that up.
    pub fn try_place(&self, now: Time, job: &WaitingJob) -> Option<Vec<NodeShare>> {
        let queue = self.queue(job.queue)?;
        if !queue.starts {
            return None;
        }
        if self.node_pools.get(queue.pool)?.needs_pass(now) {
            let mut settled = self.clone();
            settled.schedule(now);
            return settled.try_place_beside(queue, now, job);
        }
        self.try_place_beside(queue, now, job)
    }

    /// When the jobs with guaranteed places in the queues that share nodes with `queue` would start,
    /// if running jobs take their limits and nobody else comes.
    pub fn guaranteed_starts(&self, now: Time, queue: cosy_model::QueueId) -> Vec<(JobId, Time)> {
        let Some(pool) = self.queue(queue).map(|queue| queue.pool) else {
            return Vec::new();
        };
        let mut scratch = self.scratch(pool);
        for head in self.heads_of(queue) {
            scratch.enqueue(head.clone());
        }
        let predictions = scratch.plan(now, None).predictions.into_iter();
        predictions
            .filter_map(|one| Some((one.job, one.start?)))
            .collect()
    }

    /// The same where everybody waits who cannot start.
    fn try_place_beside(
        &self,
        queue: &Queue,
        now: Time,
        job: &WaitingJob,
    ) -> Option<Vec<NodeShare>> {
        if !self.has_room_now(queue, now, job) {
            return None;
        }
        let known = self.node_pools.get(queue.pool)?;
        let mut scratch = self.scratch(queue.pool);
        let mut heads = self.heads_before(known, &job.key);
        heads.retain(|head| head.key.job != job.key.job);
        let heads = heads.into_iter();
        let heads: Vec<(OrderKey, QueueKey)> =
            heads.map(|head| (head.key, scratch.ask(head))).collect();
        let asked = scratch.ask(job);
        let far = match known.bounds.is_empty() {
            true => Time::FAR,
            false => {
                let longest = known.line.known_longest().max(known.parked_longest());
                now + at_least_one(longest.max(job.limit))
            }
        };
        scratch.answer((queue.pool, now, far), &heads, &asked)
    }

    /// False when there is no room for the job at this moment, whoever else waits.
    fn has_room_now(&self, queue: &Queue, now: Time, job: &WaitingJob) -> bool {
        let Some(demand) = job.demand.only() else {
            return true;
        };
        let nodes = demand.allowed.and(&queue.nodes).and(&self.machine.open);
        let window = (now, now + at_least_one(job.limit));
        let all = (now, ReservationHorizon::Until(Time::FAR));
        self.picks_for(demand, &nodes, window, all).is_some()
    }

    /// The waiting jobs that the last pass has given a guaranteed place, or stopped at, and that
    /// do not stand behind `key`; in the order of service.
    fn heads_before(&self, pool: &NodePool, key: &OrderKey) -> Vec<&WaitingJob> {
        let heads = pool.heads.iter().filter(|_| !pool.line.is_empty());
        let heads = heads.filter_map(|(job, _)| self.waiting_job(*job));
        let mut heads: Vec<&WaitingJob> = heads.map(|head| &head.job).collect();
        heads.retain(|head| head.key <= *key);
        heads.sort_by_key(|head| head.key);
        heads
    }

    /// What a search would know of a job, with a group for it, without putting it in line.
    fn ask(&mut self, job: &WaitingJob) -> QueueKey {
        let group = self.join(job.queue, &mut Arc::clone(&job.demand));
        let class = self.join_class(job);
        QueueKey {
            class,
            needs: self.classes().bits(class),
            ..self.groups.get(group).queue_key(group, job.limit)
        }
    }

    /// What a job would hold beside the places of these heads.
    fn answer(
        &mut self,
        (pool, now, far): (usize, Time, Time),
        heads: &[(OrderKey, QueueKey)],
        asked: &QueueKey,
    ) -> Option<Vec<NodeShare>> {
        self.drop_past_blocks(pool, now);
        let endless = self.node_pools.get(pool)?.has_endless();
        let mut pass = Pass::default();
        pass.begin(pool, now, far, endless);
        self.note_reserved(pool, now, far);
        self.note_promises(&mut pass);
        if !self.guarantee_all(&mut pass, heads.iter().copied())
            || self.feasible(asked.group) != Feasible::Now
            || self.full_own_pool(asked.class).is_some()
            || self.lacks_room(&pass, asked)
            || !self.may_hold_now(&pass, asked)
        {
            return None;
        }
        if asked.whole == 0 {
            let picks = self.picks_beside_places(&mut pass, asked).ok()?;
            let shares = self.shares_picked(asked, &picks);
            let free = self.may_hold_on(&pass, asked, || shares.clone());
            return free.then_some(shares);
        }
        let nodes = self.nodes_beside_places(&mut pass, asked)?;
        let shares = self.whole_shares_of(asked, &nodes);
        let free = self.may_hold_on(&pass, asked, || shares.clone());
        free.then_some(shares)
    }
}
