//! The plan: the policy played forward on time limits, event by event, with the decisions
//! that are made live.
//!
//! What always holds: the jobs that a plan starts at its first instant are the ones that
//! [`Scheduler::schedule`] would start now.

use crate::Block;
use crate::OrderKey;
use crate::group::Feasible;
use crate::node_pool::NodePool;
use crate::nodeset::NodeSet;
use crate::scheduler::Scheduler;
use crate::table::JobTable;
use cosy_model::{JobId, Time, WaitReason};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Ends of jobs that are played where a plan goes on to a time, not to a job, at most.
const PLAYED_ENDS: usize = 5000;

/// When and where a waiting job will start, and why it waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prediction {
    /// The job that is predicted.
    pub job: JobId,
    /// Its start if all jobs take their limits and nothing new comes; `None` when no such
    /// time can be told.
    pub start: Option<Time>,
    /// Nodes on which the job would start.
    pub nodes: NodeSet,
    /// Why it waits now; [`WaitReason::Fresh`] when it can start at once.
    pub reason: WaitReason,
}

/// When and where a job starts in a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedStart {
    /// The job.
    pub job: JobId,
    /// When it starts.
    pub start: Time,
    /// Nodes on which it starts.
    pub nodes: NodeSet,
}

/// A start time for every waiting job.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// In the order of service.
    pub predictions: Vec<Prediction>,
}

impl Plan {
    /// The jobs, in the order of service.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.predictions.iter().map(|told| told.job)
    }
}

impl Scheduler {
    /// Plays the policy forward on a clone. With `most`, only until that many of the first
    /// waiting jobs have a prediction, and only these are returned.
    pub fn plan(&self, now: Time, most: Option<usize>) -> Plan {
        self.plan_with(now, most, &[])
    }

    /// What would happen if these reservations were accepted: the plan with them. For more
    /// than one such question there is [`Scheduler::forecast`].
    pub fn plan_with(&self, now: Time, most: Option<usize>, placed: &[Block]) -> Plan {
        let mut play = Replay::new(self, now, self.first_jobs(most));
        play.insert(placed);
        play.played()
    }

    /// Who starts by `until`, in the order of the starts: the policy played forward so far, and no farther
    /// than [`PLAYED_ENDS`] ends of jobs.
    pub fn starts_until(&self, now: Time, until: Time) -> Vec<PlannedStart> {
        let mut clone = Replay::new(self, now, Vec::new()).clone;
        let mut starts = Vec::new();
        let mut next = Some(now);
        for _ in 0..PLAYED_ENDS {
            let Some(at) = next.filter(|at| *at <= until) else {
                break;
            };
            clone.end_due(at);
            let started = clone.schedule(at);
            starts.extend(started.into_iter().map(|job| PlannedStart {
                job,
                start: at,
                nodes: clone.nodes_of(job),
            }));
            next = clone.next_end(at);
        }
        starts
    }

    /// The prediction for one job, if it waits.
    pub fn predict(&self, now: Time, job: JobId) -> Option<Prediction> {
        if !self.is_waiting(job) {
            return None;
        }
        Replay::new(self, now, vec![job]).played().predictions.pop()
    }

    /// The first `most` waiting jobs that may start, in the order of service. The others are not
    /// looked at.
    pub fn first_in_line(&self, most: usize) -> Vec<JobId> {
        let mut lines: Vec<_> = self.node_pools.iter().map(|c| c.line.keys()).collect();
        let mut firsts: BinaryHeap<Reverse<(&OrderKey, usize)>> = BinaryHeap::new();
        for (at, line) in lines.iter_mut().enumerate() {
            firsts.extend(line.next().map(|key| Reverse((key, at))));
        }
        let mut jobs = Vec::new();
        while jobs.len() < most
            && let Some(Reverse((key, at))) = firsts.pop()
        {
            jobs.push(key.job);
            firsts.extend(lines[at].next().map(|key| Reverse((key, at))));
        }
        jobs
    }

    /// The first `most` waiting jobs, or all.
    pub(crate) fn first_jobs(&self, most: Option<usize>) -> Vec<JobId> {
        let mut jobs = self.waiting_ids();
        jobs.truncate(most.unwrap_or(usize::MAX));
        jobs
    }

    /// The waiting jobs in the order of service, those of closed queues among them.
    fn waiting_ids(&self) -> Vec<JobId> {
        let lines = self.node_pools.iter().flat_map(|c| c.line.keys());
        let mut keys: Vec<OrderKey> = lines.copied().collect();
        keys.extend(self.node_pools.iter().flat_map(NodePool::parked_keys));
        if keys.len() < self.waiting_count() {
            keys = self.waiting_in_order().map(|job| job.key).collect();
        }
        keys.sort(); // lines are in order: they are only merged
        keys.into_iter().map(|key| key.job).collect()
    }

    /// Why a waiting job waits, told from the last pass and the pools as they are, without planning
    /// anything.
    pub fn why(&self, now: Time, job: JobId) -> Option<WaitReason> {
        let waiting = self.waiting_job(job)?;
        let queue = self.queue(waiting.job.queue);
        let Some(queue) = queue.filter(|queue| queue.starts) else {
            return Some(WaitReason::QueueClosed);
        };
        match self.known_feasible(waiting.group) {
            Feasible::Now => {}
            Feasible::Later => return Some(WaitReason::NodesUnavailable),
            Feasible::Never => return Some(WaitReason::NeverFits),
        }
        if let Some(reason) = self.pool_reason(now, job) {
            return Some(reason);
        }
        let pool = &self.node_pools[queue.pool];
        let head = pool.reason_of(job);
        let first = pool.line.first().is_some_and(|key| key.job == job);
        Some(match head {
            Some(reason) => reason.clone(),
            None if first => WaitReason::Resources,
            None => WaitReason::Priority,
        })
    }

    /// Finds out, once for all jobs like that one, whether the nodes could hold it, so that
    /// [`Scheduler::why`] need not do so for each of them.
    pub fn know_whether_it_fits(&mut self, job: JobId) {
        let group = self.waiting_job(job).map(|waiting| waiting.group);
        if let Some(group) = group.filter(|id| self.queue(self.groups.get(*id).queue()).is_some()) {
            self.feasible(group);
        }
    }

    /// The next time after `now` at which something ends, if all jobs take their limits. When a reservation
    /// begins nothing comes free: what could not start before cannot start then either, but for jobs
    /// that would hold more of a resource on the nodes that it takes than on those that are left.
    fn next_end(&self, now: Time) -> Option<Time> {
        // Those who hold something wait for ends elsewhere too.
        let all = self.classes().any();
        let waiting = self.node_pools.iter().filter(|c| all || !c.line.is_empty());
        let next = |c: &crate::node_pool::NodePool| {
            let job = c.ends.first().map(|end| end.at);
            let block = match all {
                true => c.next_bound(now),
                false => c.next_block_end(now),
            };
            job.into_iter().chain(block).min()
        };
        let pools = all.then(|| self.resource_pools().next_bound(now)).flatten();
        let elsewhere = self.others().first().map(|(end, _)| end).filter(|_| all);
        let next = waiting.filter_map(next).chain(pools).chain(elsewhere).min();
        next.filter(|at| *at < Time::FAR)
    }

    /// Ends what is expected to have ended by `now`.
    fn end_due(&mut self, now: Time) {
        for at in 0..self.node_pools.len() {
            while let Some(end) = self.node_pools[at].ends.first() {
                if end.at > now {
                    break;
                }
                self.end(self.running.get(end.run).job);
            }
        }
        self.end_due_elsewhere(now);
    }
}

/// A clone that is played forward.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    clone: Scheduler,
    /// How far it has come.
    at: Time,
    /// The jobs that are asked about, and their places in that list.
    asked: Arc<Vec<JobId>>,
    places: Arc<JobTable<u32>>,
    starts: Vec<Option<(Time, NodeSet)>>,
    reasons: Vec<WaitReason>,
    /// How many jobs are without an answer.
    pub missing: usize,
}

impl Replay {
    pub fn new(origin: &Scheduler, now: Time, asked: Vec<JobId>) -> Self {
        Self::on(origin.clone(), now, asked)
    }

    /// Plays forward what nobody else needs.
    pub fn on(mut clone: Scheduler, now: Time, asked: Vec<JobId>) -> Self {
        for pool in &mut clone.node_pools {
            pool.dirty |= pool.due <= now;
        }
        let dirty: Vec<bool> = clone.node_pools.iter().map(|pool| pool.dirty).collect();
        let late = clone.running.iter().filter(|(_, r)| r.end <= now);
        let late: Vec<JobId> = late.map(|(_, running)| running.job).collect();
        for job in late {
            clone.set_expected_end(job, Time(now.0.saturating_add(1)));
        }
        clone.put_off_late_elsewhere(now);
        for (pool, dirty) in clone.node_pools.iter_mut().zip(dirty) {
            pool.dirty = dirty;
        }
        let mut places = JobTable::default();
        for (at, job) in asked.iter().enumerate() {
            places.insert(*job, at as u32);
        }
        Self {
            clone,
            at: now,
            places: Arc::new(places),
            starts: vec![None; asked.len()],
            reasons: vec![WaitReason::Fresh; asked.len()],
            missing: asked.len(),
            asked: Arc::new(asked),
        }
    }

    /// Accepts reservations before anything is decided.
    pub fn insert(&mut self, placed: &[Block]) {
        for block in placed {
            self.clone.add_block(block.clone());
        }
    }

    /// Notes from now on how far ahead decisions look. What was decided before is decided
    /// once more: nobody has noted how far ahead that looked.
    pub fn watch(&mut self) {
        self.clone.watch_reach();
        self.clone.node_pools.iter_mut().for_each(NodePool::change);
    }

    /// No decision so far would have been another one with something booked from then on.
    pub fn reach(&self) -> Time {
        self.clone.reach().unwrap_or(Time::FAR)
    }

    /// Decides what starts now.
    pub fn begin(&mut self) {
        let first = self.clone.schedule(self.at);
        self.note(&first);
        self.keep_reasons();
    }

    /// Plays it all.
    pub fn played(mut self) -> Plan {
        self.begin();
        self.run();
        self.plan()
    }

    /// Goes on to the end.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Goes on to the next event. False at the end.
    pub fn step(&mut self) -> bool {
        let next = self.clone.next_end(self.at);
        let Some(next) = next.filter(|_| self.missing > 0) else {
            return false;
        };
        self.at = next;
        self.clone.end_due(next);
        let starts = self.clone.schedule(next);
        self.note(&starts);
        true
    }

    /// Accepts reservations as if they had been there from the begin. They start beyond the
    /// reach of what has been decided.
    pub fn accept(&mut self, placed: &[Block]) {
        let passes = |c: &NodePool| (c.dirty, c.only_fresh, c.due);
        let before: Vec<(bool, bool, Time)> = self.clone.node_pools.iter().map(passes).collect();
        self.insert(placed);
        for (pool, (dirty, only_fresh, due)) in self.clone.node_pools.iter_mut().zip(before) {
            pool.dirty = dirty;
            pool.only_fresh = only_fresh;
            pool.due = due.min(pool.next_due(self.at));
        }
    }

    fn note(&mut self, started: &[JobId]) {
        for job in started {
            if let Some(place) = self.places.get(*job) {
                let start = (self.at, self.clone.nodes_of(*job));
                self.starts[*place as usize] = Some(start);
                self.missing -= 1;
            }
        }
    }

    /// Reasons as of the first pass; jobs that cannot run on the open nodes need no play.
    fn keep_reasons(&mut self) {
        for (at, job) in self.asked.iter().enumerate() {
            if self.starts[at].is_some() {
                continue;
            }
            self.clone.know_whether_it_fits(*job);
            let reason = self.clone.why(self.at, *job).unwrap_or(WaitReason::Fresh);
            let hopeless = matches!(
                reason,
                WaitReason::QueueClosed | WaitReason::NodesUnavailable | WaitReason::NeverFits
            );
            self.missing -= usize::from(hopeless);
            self.reasons[at] = reason;
        }
    }

    pub fn plan(self) -> Plan {
        let starts = self.starts.into_iter().zip(self.reasons);
        let each = |(job, (start, reason)): (&JobId, (Option<_>, WaitReason))| {
            let (start, nodes) = start.unzip();
            Prediction {
                job: *job,
                start,
                nodes: nodes.unwrap_or_default(),
                reason,
            }
        };
        let predictions = self.asked.iter().zip(starts).map(each).collect();
        Plan { predictions }
    }
}
