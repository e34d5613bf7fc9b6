//! One run of a workload of which some jobs are exact-start reservations.
//!
//! Event by event, as in [`crate::replay`]: at each instant first the ends, then the
//! requests and cancellations, then the reservations whose start has come, then one pass of
//! the planner.
//!
//! What always holds: an accepted reservation starts at its start; a rejected one never
//! runs; every queued job that fits the machine runs or is cancelled; nothing but the planner
//! decides.
//!
//! Source: COSY paper, sections 3.2 and 4.3.

use crate::replay::{Machine, waiting};
use crate::workload::Job;
use cosy_model::{JobId, NodeShare, ReservationId, Span, Time};
use cosy_sched::notice::Multiple;
use cosy_sched::{Block, Demand, Policy, Scheduler};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

/// How long before its start a reservation is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The same for all.
    Fixed(Span),
    /// A multiple of the mean wait of the queued jobs that have started within this time.
    Window(Multiple, Span),
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// A job of the queue, or an accepted reservation, started then.
    Started(Time),
    /// A reservation that was in the way of running jobs or of accepted reservations.
    Rejected,
    /// It never fits the machine.
    TooLarge,
    /// A job of the queue that was cancelled before it started.
    Cancelled,
}

impl Fate {
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
pub struct Trial<'a> {
    /// The machine.
    pub machine: Machine,
    /// How queued jobs are served.
    pub policy: Policy,
    /// By submit time. Reservations are not cancelled.
    pub jobs: &'a [Job],
}

impl Trial<'_> {
    /// Runs it: job `i` is a reservation when `reserved[i]`. Answers for each job what
    /// became of it.
    pub fn run(&self, reserved: &[bool], notice: Notice) -> Vec<Fate> {
        let mut run = Run::new(self, notice);
        while let Some(now) = run.next_instant() {
            run.end_due(now);
            run.ask_due(now, reserved);
            run.cancel_due(now);
            run.begin_due(now);
            run.pass(now);
        }
        run.fates
    }
}

/// A heap of what is due when, the earliest on top.
type Due = BinaryHeap<Reverse<(Time, usize)>>;

/// What an accepted reservation will hold, and whether alone.
type Booked = (Vec<NodeShare>, bool);

/// Waits of the queued jobs that have started within a window that ends now.
#[derive(Default)]
struct Waits {
    /// When they started, and how long they had waited.
    recent: VecDeque<(Time, Span)>,
    sum_ms: i128,
}

impl Waits {
    fn add(&mut self, now: Time, wait: Span) {
        self.recent.push_back((now, wait));
        self.sum_ms += i128::from(wait.ms());
    }

    /// Nothing when none has started.
    fn mean(&mut self, now: Time, window: Span) -> Span {
        while let Some((at, wait)) = self.recent.front() {
            if now.since(*at) <= window {
                break;
            }
            self.sum_ms -= i128::from(wait.ms());
            self.recent.pop_front();
        }
        let mean = self.sum_ms.checked_div(self.recent.len() as i128);
        Span(i64::try_from(mean.unwrap_or(0)).unwrap_or(i64::MAX))
    }
}

struct Run<'a> {
    trial: &'a Trial<'a>,
    notice: Notice,
    scheduler: Scheduler,
    /// What jobs of a shape ask for; `None` when that never fits.
    demands: BTreeMap<(u32, Option<u32>), Option<Arc<Demand>>>,
    /// The next job to be submitted.
    next: usize,
    ends: Due,
    begins: Due,
    cancels: Due,
    booked: BTreeMap<usize, Booked>,
    waits: Waits,
    fates: Vec<Fate>,
}

impl<'a> Run<'a> {
    fn new(trial: &'a Trial<'a>, notice: Notice) -> Self {
        Self {
            trial,
            notice,
            scheduler: trial.machine.scheduler(trial.policy),
            demands: BTreeMap::new(),
            next: 0,
            ends: Due::new(),
            begins: Due::new(),
            cancels: Due::new(),
            booked: BTreeMap::new(),
            waits: Waits::default(),
            fates: vec![Fate::Cancelled; trial.jobs.len()],
        }
    }

    fn next_instant(&self) -> Option<Time> {
        let submit = self.trial.jobs.get(self.next).map(|job| job.submit);
        let top = |due: &Due| due.peek().map(|Reverse((at, _))| *at);
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

    fn ask_due(&mut self, now: Time, reserved: &[bool]) {
        let jobs = self.trial.jobs;
        while let Some(job) = jobs.get(self.next).filter(|job| job.submit <= now) {
            let at = self.next;
            self.next += 1;
            match self.demand(job) {
                None => self.fates[at] = Fate::TooLarge,
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
            let demand = self.trial.machine.demand(job);
            let fits = self.scheduler.could_ever_run(&demand).is_ok();
            fits.then(|| Arc::new(demand))
        });
        demand.clone()
    }

    /// Accepts or rejects a reservation that just meets the notice time.
    fn book(&mut self, now: Time, at: usize, demand: &Demand) {
        let job = &self.trial.jobs[at];
        let start = now + self.notice_time(now);
        let length = job.limit.max(Span(1));
        let Some(shares) = self.scheduler.place(now, demand, start, length) else {
            self.fates[at] = Fate::Rejected;
            return;
        };
        self.scheduler.add_block(Block {
            reservation: ReservationId(at as u64),
            shares: shares.clone(),
            start,
            end: start + length,
        });
        self.booked.insert(at, (shares, demand.exclusive));
        self.begins.push(Reverse((start, at)));
    }

    fn notice_time(&mut self, now: Time) -> Span {
        match self.notice {
            Notice::Fixed(time) => time,
            Notice::Window(multiple, window) => multiple.of(self.waits.mean(now, window)),
        }
    }

    fn begin_due(&mut self, now: Time) {
        while let Some(at) = pop_due(&mut self.begins, now) {
            let id = at as u64;
            let (shares, alone) = self.booked.remove(&at).unwrap_or_default();
            let end = now + self.trial.jobs[at].limit.max(Span(1));
            self.scheduler.remove_block(ReservationId(id));
            self.scheduler.start_running(JobId(id), shares, end, alone);
            self.started(now, at);
        }
    }

    fn pass(&mut self, now: Time) {
        for start in self.scheduler.schedule(now) {
            let at = start.0 as usize;
            let wait = now.since(self.trial.jobs[at].submit);
            self.waits.add(now, wait);
            self.started(now, at);
        }
    }

    fn started(&mut self, now: Time, at: usize) {
        self.fates[at] = Fate::Started(now);
        let job = &self.trial.jobs[at];
        let end = now + job.run.min(job.limit).max(Span(1));
        self.ends.push(Reverse((end, at)));
    }
}

fn pop_due(due: &mut Due, now: Time) -> Option<usize> {
    let Reverse((at, _)) = due.peek()?;
    let is_due = *at <= now;
    is_due.then(|| due.pop())?.map(|Reverse((_, job))| job)
}
