//! Replays a workload of queue jobs and reservation requests.
//!
//! Event by event, as in [`crate::replay`]: at each instant first the ends, then the
//! requests and cancellations, then the reservations whose start has come, then one pass of
//! the planner. A [`AdmissionRule`] decides on requests for reservations; everything else is decided
//! by the planner.
//!
//! What always holds: an accepted reservation starts at its start and holds its nodes for
//! the job's limit; a rejected one never runs; every queued job that fits the machine runs
//! or is cancelled.

use crate::replay::{Machine, waiting};
use crate::workload::Job;
use cosy_model::{JobId, NodeShare, ReservationId, Span, Time};
use cosy_sched::{Block, Demand, Policy, Scheduler};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobOutcome {
    /// A job of the queue, or an accepted reservation, started then.
    Started(Time),
    /// A reservation that was not granted.
    Rejected,
    /// A job that does not fit the empty machine.
    TooLarge,
    /// A job of the queue that was cancelled before it started.
    Cancelled,
}

impl JobOutcome {
    /// When it started, if it did.
    pub fn start(self) -> Option<Time> {
        match self {
            Self::Started(start) => Some(start),
            Self::Rejected | Self::TooLarge | Self::Cancelled => None,
        }
    }
}

/// A workload on a machine under a policy.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<'a> {
    /// The nodes that queue and reservations share.
    pub machine: Machine,
    /// How queued jobs are served.
    pub policy: Policy,
    /// By submit time. Reservations are not cancelled.
    pub jobs: &'a [Job],
}

/// A request for a reservation, at the moment in which it is made.
pub struct ReservationRequest<'a> {
    /// When the request is made: the job's submit time.
    pub now: Time,
    /// The nodes that queue and reservations share.
    pub machine: Machine,
    /// Index in `jobs` of the job that asks.
    pub at: usize,
    /// All jobs of the workload, by submit time.
    pub jobs: &'a [Job],
    /// Nodes or processors that it asks for.
    pub demand: &'a Arc<Demand>,
    /// Length of the reservation: the job's limit, at least a millisecond.
    pub length: Span,
    /// The planner as it is.
    pub scheduler: &'a Scheduler,
}

/// Where a reservation is placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// When the reservation begins.
    pub start: Time,
    /// Nodes and amounts that the reservation holds.
    pub shares: Vec<NodeShare>,
}

/// Decides on requests for reservations.
pub trait AdmissionRule {
    /// Where the reservation goes; `None` refuses it.
    fn decide(&mut self, request: &ReservationRequest<'_>) -> Option<Slot>;

    /// Called when a job of the queue has started, with the time that it waited.
    fn queue_started(&mut self, _now: Time, _wait: Span) {}
}

impl Simulation<'_> {
    /// Runs it: job `i` is a reservation when `reserved[i]`. Answers for each job what
    /// became of it.
    pub fn run(&self, reserved: &[bool], rule: &mut dyn AdmissionRule) -> Vec<JobOutcome> {
        let mut run = Run::new(self, rule);
        while let Some(now) = run.next_instant() {
            run.end_due(now);
            run.submit_due(now, reserved);
            run.cancel_due(now);
            run.begin_due(now);
            run.pass(now);
        }
        run.outcomes
    }
}

/// A heap of what is due when, the earliest on top.
type DueJobs = BinaryHeap<Reverse<(Time, usize)>>;

/// What an accepted reservation will hold, and whether alone.
type BookedShares = (Vec<NodeShare>, bool);

struct Run<'a> {
    simulation: &'a Simulation<'a>,
    rule: &'a mut dyn AdmissionRule,
    scheduler: Scheduler,
    /// What jobs of a shape ask for; `None` when that never fits.
    demands: BTreeMap<(u32, Option<u32>), Option<Arc<Demand>>>,
    /// Index of the next job to be submitted.
    next: usize,
    ends: DueJobs,
    begins: DueJobs,
    cancels: DueJobs,
    booked: BTreeMap<usize, BookedShares>,
    outcomes: Vec<JobOutcome>,
}

impl<'a> Run<'a> {
    fn new(simulation: &'a Simulation<'a>, rule: &'a mut dyn AdmissionRule) -> Self {
        Self {
            simulation,
            rule,
            scheduler: simulation.machine.scheduler(simulation.policy),
            demands: BTreeMap::new(),
            next: 0,
            ends: DueJobs::new(),
            begins: DueJobs::new(),
            cancels: DueJobs::new(),
            booked: BTreeMap::new(),
            outcomes: vec![JobOutcome::Cancelled; simulation.jobs.len()],
        }
    }

    fn next_instant(&self) -> Option<Time> {
        let submit = self.simulation.jobs.get(self.next).map(|job| job.submit);
        let top = |due: &DueJobs| due.peek().map(|Reverse((at, _))| *at);
        let due = [
            submit,
            top(&self.ends),
            top(&self.begins),
            top(&self.cancels),
        ];
        due.into_iter().flatten().min()
    }

    fn end_due(&mut self, now: Time) {
        while let Some(at) = pop_due(&mut self.ends, now) {
            self.scheduler.end(JobId(at as u64));
        }
    }

    fn submit_due(&mut self, now: Time, reserved: &[bool]) {
        let jobs = self.simulation.jobs;
        while let Some(job) = jobs.get(self.next).filter(|job| job.submit <= now) {
            let at = self.next;
            self.next += 1;
            match self.demand(job) {
                None => self.outcomes[at] = JobOutcome::TooLarge,
                Some(demand) if reserved.get(at) == Some(&true) => self.book(now, at, &demand),
                Some(demand) => {
                    self.scheduler.enqueue(waiting(at as u64, job, &demand));
                    let cancel = job.cancel.map(|cancel| Reverse((cancel, at)));
                    self.cancels.extend(cancel);
                }
            }
        }
    }

    fn cancel_due(&mut self, now: Time) {
        while let Some(at) = pop_due(&mut self.cancels, now) {
            self.scheduler.dequeue(JobId(at as u64));
        }
    }

    fn demand(&mut self, job: &Job) -> Option<Arc<Demand>> {
        let shape = (job.processors, job.nodes);
        let demand = self.demands.entry(shape).or_insert_with(|| {
            let demand = self.simulation.machine.demand(job);
            let fits = self.scheduler.could_ever_run(&demand).is_ok();
            fits.then(|| Arc::new(demand))
        });
        demand.clone()
    }

    fn book(&mut self, now: Time, at: usize, demand: &Arc<Demand>) {
        let length = self.simulation.jobs[at].limit.max(Span(1));
        let slot = self.rule.decide(&ReservationRequest {
            now,
            machine: self.simulation.machine,
            at,
            jobs: self.simulation.jobs,
            demand,
            length,
            scheduler: &self.scheduler,
        });
        let Some(Slot { start, shares }) = slot else {
            self.outcomes[at] = JobOutcome::Rejected;
            return;
        };
        self.scheduler.add_block(Block {
            holds: Vec::new(),
            reservation: ReservationId(at as u64),
            shares: shares.clone(),
            start,
            end: start + length,
        });
        self.booked.insert(at, (shares, demand.first().exclusive));
        self.begins.push(Reverse((start, at)));
    }

    fn begin_due(&mut self, now: Time) {
        while let Some(at) = pop_due(&mut self.begins, now) {
            let id = at as u64;
            let (shares, alone) = self.booked.remove(&at).unwrap_or_default();
            let end = now + self.simulation.jobs[at].limit.max(Span(1));
            self.scheduler.remove_block(ReservationId(id));
            self.scheduler.start_running(JobId(id), shares, end, alone);
            self.started(now, at);
        }
    }

    fn pass(&mut self, now: Time) {
        for start in self.scheduler.schedule(now) {
            let at = start.0 as usize;
            let wait = now.since(self.simulation.jobs[at].submit);
            self.rule.queue_started(now, wait);
            self.started(now, at);
        }
    }

    fn started(&mut self, now: Time, at: usize) {
        self.outcomes[at] = JobOutcome::Started(now);
        let job = &self.simulation.jobs[at];
        let end = now + job.run.min(job.limit).max(Span(1));
        self.ends.push(Reverse((end, at)));
    }
}

fn pop_due(due: &mut DueJobs, now: Time) -> Option<usize> {
    let Reverse((at, _)) = due.peek()?;
    let is_due = *at <= now;
    is_due.then(|| due.pop())?.map(|Reverse((_, job))| job)
}
