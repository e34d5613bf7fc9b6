//! Which running jobs would have to leave for a reservation to be possible.
//!
//! The question is that of [`super`], asked at the start of the slot: in a copy in which nobody
//! waits, and in which everybody is gone whose time is over by then. The last word has
//! [`Scheduler::place`], which counts on those who leave until the start and on all others until
//! their limits.

use super::candidate::Candidate;
use super::question::WORK;
use crate::PoolId;
use crate::scheduler::{Scheduler, WaitingJob};
use cosy_model::{JobId, NodeShare, ReservationId, Span, Time};

/// Questions about a window may take so many times what one question may.
const WINDOW: u64 = 16;

/// A running job that may be made to leave before a reservation begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaver {
    /// Its id.
    pub job: JobId,
    /// Its cores: what it loses are these from [`Leaver::unsafe_from`] on.
    pub cores: u64,
    /// Until then its work is safe.
    pub unsafe_from: Time,
    /// Since when it runs: of equal cost the youngest leaves.
    pub since: Time,
    /// The first instant at which its nodes can be clear of it.
    pub gone_from: Time,
}

impl Leaver {
    /// What it loses when it is gone at `at`, in core-seconds.
    pub fn loses(&self, at: Time) -> u64 {
        let secs = u64::try_from(at.since(self.unsafe_from).secs()).unwrap_or(0);
        self.cores.saturating_mul(secs)
    }
}

/// A slot for which running jobs leave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vacated {
    /// What it gets of nodes.
    pub shares: Vec<NodeShare>,
    /// Who leaves: those who cost the least, and nobody without whom the rest would be enough.
    pub leave: Vec<JobId>,
}

impl Scheduler {
    /// Where a reservation of what `job` asks for, as long as its limit, could be from `start` on, if
    /// running jobs left for it: as [`Scheduler::place`], with pools. `None` when that is not possible
    /// even so, or finding out takes too much work; `questions` is how many starts are asked about.
    pub fn place_vacated(
        &self,
        now: Time,
        job: &WaitingJob,
        start: Time,
        leavers: &[Leaver],
        questions: usize,
    ) -> Option<Vacated> {
        let (queue, known) = (job.queue, self.queue(job.queue)?);
        let (nodes, pool) = (known.nodes.clone(), known.pool);
        let mut then = self.scratch(pool);
        then.set_queue_starts(queue, true);
        let over = self.running_jobs().filter(|(_, end)| *end <= start);
        for (over, _) in over.filter(|_| start > now) {
            then.end(over);
        }
        let candidate = |one: &Leaver| Candidate {
            job: one.job,
            cost: one.loses(start),
            since: one.since,
            keeps: None,
        };
        let in_time = leavers.iter().filter(|one| one.gone_from <= start);
        let in_time: Vec<Candidate> = in_time.map(candidate).collect();
        let work = WORK.min(WINDOW * WORK / (questions.max(1) as u64));
        let leave = then.cheapest(start, job, &[], &in_time, work)?;
        let mut planner = self.scratch(pool);
        for one in &leave {
            planner.set_expected_end(*one, start);
        }
        let mut demand = job.demand.first().clone();
        demand.allowed = demand.allowed.and(&nodes).into();
        let shares = planner.place(now, &demand, start, job.limit)?;
        let wants = job.holds.on(&shares);
        let free = planner.are_amounts_free(now, &wants, start, job.limit);
        free.is_ok().then_some(Vacated { shares, leave })
    }

    /// The same for an accepted reservation that has `shares`, as if these were not there and running
    /// jobs went on until these times. It keeps its shares where that can be.
    pub fn place_vacated_anew(
        &self,
        (reservation, shares): (ReservationId, &[NodeShare]),
        now: Time,
        job: &WaitingJob,
        start: Time,
        going_on: &[(JobId, Time)],
        leavers: &[Leaver],
    ) -> Option<Vacated> {
        let mut planner = self.scratch(self.queue(job.queue)?.pool);
        planner.remove_block(reservation);
        for (other, end) in going_on {
            planner.set_expected_end(*other, *end);
        }
        let mut vacated = planner.place_vacated(now, job, start, leavers, 1)?;
        for leaves in &vacated.leave {
            planner.set_expected_end(*leaves, start);
        }
        if planner.are_free(now, shares, start, job.limit) {
            vacated.shares = shares.to_vec();
        }
        Some(vacated)
    }

    /// True when a running job could go on where it is until `end` beside all that is reserved; `whole`
    /// when nobody else may be on its nodes.
    pub fn could_go_on(&self, job: JobId, now: Time, end: Time, whole: bool) -> bool {
        let shares = self.held_by(job);
        let pool = shares.first().map(|share| self.machine.region(share.node));
        let held: Vec<(PoolId, u64)> = self.pools_held_by(job).collect();
        let mut without = self.scratch(pool.flatten().unwrap_or(0));
        without.end(job);
        let length = end.since(now).max(Span(1));
        without.may_stay(job, now, &shares, end, whole)
            && without.are_amounts_free(now, &held, now, length).is_ok()
    }
}
