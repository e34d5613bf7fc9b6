//! What users ask: plain jobs, and reservations for the earliest start that the rule admits.
//!
//! Whoever wants a reservation asks for a quote, reads from it the earliest start that the
//! notice rule allows now, and books the first possible start from then on. What is refused
//! goes into the queue or is not run at all. What always holds: each job is asked for once.

use crate::cosy::controller_replay::{Users, resources, submission};
use crate::replay::Machine;
use crate::workload::Job;
use cosy_control::Controller;
use cosy_model::api::{Reply, Request};
use cosy_model::reservation::{ReservationInfo, ReservationSpec, StartChoice};
use cosy_model::{Span, Time};
use cosy_sched::notice::{Curve, Share, WaitMultiple};

/// What becomes of a request that is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AfterRefusal {
    /// It is submitted to the queue: its user needs the result.
    Queued,
    /// The job is not run at all.
    Dropped,
}

/// What became of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BookingOutcome {
    /// It went into the queue, as was meant.
    Plain,
    /// It got its reservation, which begins then.
    Booked(Time),
    /// It got none, for this reason.
    Refused(String),
}

/// What the rule looked at when a reservation was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleFigures {
    /// Index of the job that the reservation was for.
    pub at: usize,
    /// p; `None` while there are too few requests.
    pub share: Option<Share>,
    /// The wait `w` that the rule looks at.
    pub wait: Span,
    /// n; `None` when the curve allows none.
    pub multiple: Option<WaitMultiple>,
}

/// All users of a month.
pub struct ReservingUsers<'a> {
    machine: Machine,
    jobs: &'a [Job],
    /// Which jobs are to be reservations.
    reserving: &'a [bool],
    after_refusal: AfterRefusal,
    curve: &'a Curve,
    /// In the order of `jobs`.
    pub job_outcomes: Vec<BookingOutcome>,
    /// One for each request for a reservation, by time.
    pub rule_figures: Vec<RuleFigures>,
}

impl<'a> ReservingUsers<'a> {
    /// `reserving` says of each of `jobs` whether it is to be a reservation; `curve` is the one
    /// that the controller has.
    pub fn new(
        machine: Machine,
        jobs: &'a [Job],
        reserving: &'a [bool],
        after_refusal: AfterRefusal,
        curve: &'a Curve,
    ) -> Self {
        Self {
            machine,
            jobs,
            reserving,
            after_refusal,
            curve,
            job_outcomes: vec![BookingOutcome::Plain; jobs.len()],
            rule_figures: Vec::new(),
        }
    }

    fn submit(&self, at: usize) -> Request {
        Request::Submit(Box::new(submission(self.machine, &self.jobs[at])))
    }

    fn reservation_spec(&self, at: usize, earliest: Option<Time>) -> Box<ReservationSpec> {
        let job = &self.jobs[at];
        let request = resources(self.machine, job);
        Box::new(ReservationSpec {
            earliest,
            ..ReservationSpec::plain(request, job.limit, StartChoice::Soonest)
        })
    }

    /// Books the first possible start from `earliest` on.
    fn book(&self, at: usize, earliest: Option<Time>) -> Request {
        Request::Reserve {
            ask: self.reservation_spec(at, earliest),
            hold: false,
            job: Some(Box::new(submission(self.machine, &self.jobs[at]))),
        }
    }

    fn booked(&mut self, at: usize, reservations: &[ReservationInfo]) {
        if let Some(reservation) = reservations.first() {
            self.job_outcomes[at] = BookingOutcome::Booked(reservation.start);
        }
    }

    fn refused(&mut self, at: usize, why: &str) -> Option<Request> {
        // A job that the queue refuses, too, is not tried again.
        if !self.reserving[at] || self.job_outcomes[at] != BookingOutcome::Plain {
            return None;
        }
        self.job_outcomes[at] = BookingOutcome::Refused(why.to_owned());
        match self.after_refusal {
            AfterRefusal::Queued => Some(self.submit(at)),
            AfterRefusal::Dropped => None,
        }
    }
}

impl Users for ReservingUsers<'_> {
    fn first_request(&mut self, now: Time, at: usize, controller: &Controller) -> Request {
        if !self.reserving[at] {
            return self.submit(at);
        }
        let (share, wait) = controller.notice_figures(now);
        let multiple = self.curve.at(share.unwrap_or_default());
        self.rule_figures.push(RuleFigures {
            at,
            share,
            wait,
            multiple,
        });
        let (ask, most) = (self.reservation_spec(at, None), Some(1));
        Request::Quote {
            ask,
            most,
            as_job: None,
        }
    }

    fn next_request(&mut self, at: usize, reply: &Reply) -> Option<Request> {
        if let Reply::Quote(quote) = reply {
            return Some(self.book(at, quote.notice_earliest));
        }
        if let Reply::Reserved { reservations, .. } = reply {
            self.booked(at, reservations);
        }
        if let Reply::Refused(refusal) = reply {
            return self.refused(at, &refusal.message);
        }
        None
    }
}
