//! Plans that answers need: asked for, under way on another thread, and the last one that was
//! made for lists of a deep queue.
//!
//! What always holds: each plan under way holds a copy of the queue, so there are few.

pub(crate) mod procedures;
use crate::event::{Caller, ClientId};
use cosy_model::api::{JobField, JobFilter, JobRef};
use cosy_model::{JobId, Span, Time};
use cosy_sched::Prediction;
use std::collections::BTreeMap;

/// Plans under way, at most; further requests get the last one.
const UNDER_WAY: usize = 16;
/// The last plan is good for so long.
const GOOD: Span = Span::from_secs(5);

/// Predicted starts by job.
/// Predicted starts, by job.
pub(crate) type Starts = BTreeMap<JobId, Prediction>;

/// An answer that needs a plan first.
#[derive(Debug)]
pub(crate) enum PendingPlan {
    /// Nobody waits for it.
    Refresh,
    Explain {
        client: ClientId,
        caller: Box<Caller>,
        job: JobRef,
    },
    Jobs {
        client: ClientId,
        caller: Box<Caller>,
        filter: Box<JobFilter>,
        fields: Vec<JobField>,
        fold: bool,
    },
    Chart {
        client: ClientId,
        caller: Box<Caller>,
        until: Option<Time>,
        most: u32,
    },
}

/// Plans of waiting jobs, asked for and under way.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    pending: BTreeMap<u64, PendingPlan>,
    /// Plans that were asked for since the start.
    asked: u64,
    last: Starts,
    /// When the last one was made.
    made: Option<Time>,
    /// A newer one is under way.
    refreshing: bool,
}

impl Plans {
    /// Whether one more may be under way.
    pub fn have_room(&self) -> bool {
        self.pending.len() < UNDER_WAY
    }

    /// A plan is asked for; gives its number.
    pub fn ask(&mut self, pending: PendingPlan) -> u64 {
        self.asked += 1;
        self.pending.insert(self.asked, pending);
        self.asked
    }

    /// The plan of that number has been made: what it was for.
    pub fn made(&mut self, plan: u64) -> Option<PendingPlan> {
        self.pending.remove(&plan)
    }

    /// Whether a newer plan for lists should be asked for. True once until it is there.
    pub fn begin_refresh(&mut self, now: Time) -> bool {
        let good = self.made.is_some_and(|at| now.since(at) < GOOD);
        let begins = !good && !self.refreshing;
        self.refreshing |= begins;
        begins
    }

    /// The newer plan for lists is there.
    pub fn refreshed(&mut self, now: Time, starts: Starts) {
        self.last = starts;
        self.made = Some(now);
        self.refreshing = false;
    }

    /// Starts by the last plan.
    pub fn last(&self) -> &Starts {
        &self.last
    }

    /// The clock on the wall was set: starts of the last plan are dates that nobody counts on.
    pub fn clock_set(&mut self) {
        self.made = None;
    }
}
