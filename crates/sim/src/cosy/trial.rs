//! One run of a workload of which some jobs are exact-start reservations.
//!
//! What always holds: a reservation is granted exactly its notice time after it was asked
//! for, or refused because running jobs or accepted reservations are in its way.
//!
//! Source: COSY paper, sections 3.2 and 4.3.

pub use crate::booking::simulation::JobOutcome;

use crate::booking::simulation::{AdmissionRule, ReservationRequest, Simulation, Slot};
use crate::replay::Machine;
use crate::workload::Job;
use cosy_model::{Span, Time};
use cosy_sched::Policy;
use cosy_sched::notice::WaitMultiple;
use std::collections::VecDeque;

/// How long before its start a reservation is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The same for all reservations.
    Fixed(Span),
    /// A multiple of the mean wait of the queued jobs that have started within this time.
    Window(WaitMultiple, Span),
}

/// A workload on a machine under a policy.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The nodes that queue and reservations share.
    pub machine: Machine,
    /// How queued jobs are served.
    pub policy: Policy,
    /// By submit time. Reservations are not cancelled.
    pub jobs: &'a [Job],
}

impl Trial<'_> {
    /// Runs it: job `i` is a reservation when `reserved[i]`. Answers for each job what
    /// became of it.
    pub fn run(&self, reserved: &[bool], notice: Notice) -> Vec<JobOutcome> {
        let mut rule = JustInTime {
            notice,
            waits: RecentWaits::default(),
        };
        let simulation = Simulation {
            machine: self.machine,
            policy: self.policy,
            jobs: self.jobs,
        };
        simulation.run(reserved, &mut rule)
    }
}

/// Every reservation just meets the notice time.
struct JustInTime {
    notice: Notice,
    waits: RecentWaits,
}

impl AdmissionRule for JustInTime {
    fn decide(&mut self, request: &ReservationRequest<'_>) -> Option<Slot> {
        let now = request.now;
        let notice = match self.notice {
            Notice::Fixed(time) => time,
            Notice::Window(multiple, window) => multiple.of(self.waits.mean(now, window)),
        };
        let start = now + notice;
        let scheduler = request.scheduler;
        let shares = scheduler.place(now, request.demand.first(), start, request.length)?;
        Some(Slot { start, shares })
    }

    fn queue_started(&mut self, now: Time, wait: Span) {
        self.waits.add(now, wait);
    }
}

/// Waits of the queued jobs that have started within a window that ends now.
#[derive(Default)]
struct RecentWaits {
    /// When they started, and how long they had waited.
    recent: VecDeque<(Time, Span)>,
    sum_ms: i128,
}

impl RecentWaits {
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
