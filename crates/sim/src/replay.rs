//! Replays a workload: at each instant first the ends, then the submissions (and
//! cancellations), then one pass of the planner.
//!
//! What always holds: a job runs at most to its limit; nothing but the planner decides
//! what starts; the same workload gives the same replay.

use crate::workload::{Job, Workload};
use cosy_model::{Amounts, JobId, MiB, NodeShare, QueueId, Span, Time};
use cosy_sched::{Component, Demand, NodeMask, OrderKey, Policy, Scheduler, WaitingJob};
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// Nodes that are alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Number of nodes, at least one.
    pub nodes: u32,
    /// Processors of each. With one, every job gets whole nodes.
    pub cores: u32,
}

/// Demands for more processors than this are looked up by a search.
const MOST_BY_PROCESSORS: u64 = 100_000;

/// A job that ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobRun {
    /// When it started.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// A job before it in the order of service went on waiting.
    pub backfilled: bool,
}

/// What became of a workload.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replay {
    /// For each job of the workload; `None` when it was cancelled before it started or
    /// does not fit the machine.
    pub job_runs: Vec<Option<JobRun>>,
    /// For each job what it held, if that was asked for.
    pub shares: Vec<Vec<NodeShare>>,
    /// Jobs larger than the machine.
    pub too_large: u64,
}

/// What a replay may be asked to do beside the replay itself.
#[derive(Default)]
pub struct ReplayOptions<'a> {
    /// Keeps what each job held.
    pub keep_shares: bool,
    /// Called now and then with the number of jobs that have started.
    pub progress: Option<&'a mut dyn FnMut(u64)>,
    /// Priority of each queue by its index in the workload: the higher is served first.
    /// Queues beyond its end have 0.
    pub priorities: &'a [i32],
}

impl Machine {
    /// The planner for an empty machine with one queue.
    pub fn scheduler(&self, policy: Policy) -> Scheduler {
        let node = Amounts {
            cores: self.cores,
            memory: MiB(1),
            ..Amounts::default()
        };
        let nodes = vec![node; self.nodes as usize];
        Scheduler::new(policy, nodes, vec![NodeMask::all(self.nodes as usize)])
    }

    /// Processors of all nodes together.
    pub fn size(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.cores)
    }

    /// Processors that `job` holds while it runs: all of its nodes where it gets whole nodes.
    pub fn processors(&self, job: &Job) -> u64 {
        match job.nodes {
            _ if self.cores == 1 => job.processors.max(job.nodes.unwrap_or(0)).into(),
            Some(nodes) => u64::from(nodes) * u64::from(self.cores),
            None => job.processors.into(),
        }
    }

    /// What `job` asks of it.
    pub fn demand(&self, job: &Job) -> Demand {
        let whole = if self.cores == 1 {
            Some(job.processors.max(job.nodes.unwrap_or(0)))
        } else {
            job.nodes
        };
        Demand::from(Component {
            nodes: whole,
            tasks: whole.unwrap_or(job.processors),
            per_task: Amounts {
                cores: 1,
                ..Amounts::default()
            },
            exclusive: whole.is_some(),
            allowed: NodeMask::all(self.nodes as usize).into(),
            ..Component::default()
        })
    }
}

/// Replays `workload` on `machine`.
pub fn replay(
    machine: Machine,
    policy: Policy,
    workload: &Workload,
    mut options: ReplayOptions<'_>,
) -> Replay {
    let jobs = &workload.jobs;
    let mut scheduler = machine.scheduler(policy);
    let mut demands = DemandCache::new(machine);
    let mut replay = Replay {
        job_runs: vec![None; jobs.len()],
        shares: vec![Vec::new(); if options.keep_shares { jobs.len() } else { 0 }],
        too_large: 0,
    };
    let mut ends: BinaryHeap<Reverse<(Time, u32)>> = BinaryHeap::new();
    let mut cancels: BinaryHeap<Reverse<(Time, u32)>> = BinaryHeap::new();
    let (mut next, mut started) = (0, 0);
    loop {
        let submit = jobs.get(next).map(|job| job.submit);
        let end = ends.peek().map(|end| end.0.0);
        let cancel = cancels.peek().map(|cancel| cancel.0.0);
        let Some(now) = submit.into_iter().chain(end).chain(cancel).min() else {
            return replay;
        };
        while let Some(Reverse((_, over))) = ends.peek().filter(|end| end.0.0 <= now) {
            scheduler.end(JobId(u64::from(*over)));
            ends.pop();
        }
        while let Some(job) = jobs.get(next).filter(|job| job.submit <= now) {
            match demands.of(job, &scheduler) {
                Some(demand) => scheduler.enqueue(WaitingJob {
                    key: key(next, job, options.priorities),
                    ..waiting(next as u64, job, demand)
                }),
                None => replay.too_large += 1,
            }
            if let Some(at) = job.cancel {
                cancels.push(Reverse((at, next as u32)));
            }
            next += 1;
        }
        while let Some(Reverse((_, gone))) = cancels.peek().filter(|c| c.0.0 <= now) {
            scheduler.dequeue(JobId(u64::from(*gone)));
            cancels.pop();
        }
        let starts = scheduler.schedule(now);
        let first = scheduler.first_waiting(QueueId(0)).copied();
        for start in starts {
            let at = start.0 as usize;
            let job = &jobs[at];
            let end = now + job.run.min(job.limit).max(Span(1));
            ends.push(Reverse((end, at as u32)));
            replay.job_runs[at] = Some(JobRun {
                start: now,
                end,
                backfilled: first.is_some_and(|first| first < key(at, job, options.priorities)),
            });
            if options.keep_shares {
                replay.shares[at] = scheduler.held_by(start);
            }
            started += 1;
        }
        if let Some(progress) = options.progress.as_mut().filter(|_| started % 256 == 0) {
            progress(started);
        }
    }
}

/// What jobs ask for, once for all that ask for the same.
struct DemandCache {
    machine: Machine,
    /// Of jobs that ask for so many processors and nothing else.
    by_processors: Vec<Option<Arc<Demand>>>,
    others: BTreeMap<(u32, Option<u32>), Arc<Demand>>,
}

impl DemandCache {
    fn new(machine: Machine) -> Self {
        let most = u64::from(machine.nodes) * u64::from(machine.cores);
        Self {
            machine,
            by_processors: vec![None; most.min(MOST_BY_PROCESSORS) as usize + 1],
            others: BTreeMap::new(),
        }
    }

    /// `None` when the job does not fit the machine.
    fn of(&mut self, job: &Job, scheduler: &Scheduler) -> Option<&Arc<Demand>> {
        let machine = self.machine;
        let make = || {
            let demand = machine.demand(job);
            let fits = scheduler.could_ever_run(&demand).is_ok();
            fits.then(|| Arc::new(demand))
        };
        let place = self.by_processors.get_mut(job.processors as usize);
        if let Some(known) = place.filter(|_| job.nodes.is_none()) {
            if known.is_none() {
                *known = make();
            }
            return known.as_ref();
        }
        match self.others.entry((job.processors, job.nodes)) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(place) => Some(place.insert(make()?)),
        }
    }
}

/// The order of service is that of the indices: first come, first served.
pub(crate) fn waiting(at: u64, job: &Job, demand: &Arc<Demand>) -> WaitingJob {
    WaitingJob {
        holds: cosy_sched::Holds::NONE,
        key: key(at as usize, job, &[]),
        queue: QueueId(0),
        demand: Arc::clone(demand),
        limit: job.limit,
    }
}

/// Within a priority the order of service is that of the indices.
fn key(at: usize, job: &Job, priorities: &[i32]) -> OrderKey {
    OrderKey {
        queue_priority: priorities.get(job.queue as usize).copied().unwrap_or(0),
        ..OrderKey::first_come(JobId(at as u64), job.submit)
    }
}
