//! The two ways to place a reservation: by load (eq. 1) and by what-if (eq. 4).
//!
//! Where the paper is silent:
//! - Slots have equal distances over the window, both ends among them, and the JOB
//!   placeholder's slot is one more when it is in the window; for both methods the same.
//! - What-if takes the slot with the best availability, of equals the earliest; how near to
//!   the best counts as equal can be told.
//! - Load takes the earliest slot that it calls available. As the broker does (section 3),
//!   it tries the next when the cluster refuses one.
//! - The cluster refuses slots in the way of running jobs, of accepted reservations or of
//!   the head (section 2), whatever the method.
//!
//! Source: what-if paper, sections 2 to 4.

use crate::booking::inquiry::evenly;
use crate::booking::simulation::{AdmissionRule, ReservationRequest, Slot};
use cosy_model::{Span, Time};
use cosy_sched::appraise::{Appraisal, Estimate, Starts};

/// By what the slots of a window are ranked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// By the end of the present work.
    Load,
    /// By what the queue would suffer.
    WhatIf,
}

impl Method {
    /// Both, in the order of the tables.
    pub const ALL: [Self; 2] = [Self::Load, Self::WhatIf];

    /// The method's name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::WhatIf => "what-if",
        }
    }
}

/// Which slots of a window are probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotKind {
    /// With equal distances, and the JOB placeholder's, as in the paper.
    Even,
    /// Starts that a running cluster looks at: also where free resources change.
    Changes,
}

/// How the slots of a window are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotChoice {
    /// Which starts of the window are probed.
    pub kind: SlotKind,
    /// Slots with equal distances, at most.
    pub most: usize,
    /// Shortest time between two of these.
    pub gap: Span,
    /// Weight of the makespan in eq. (4), in millionths.
    pub makespan_weight_ppm: u32,
    /// What-if takes the earliest slot with an availability this near to the best, in
    /// millionths.
    pub equal_ppm: u32,
}

/// A request, and what became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacedRequest {
    /// When it was made.
    pub now: Time,
    /// Jobs and reservations before it, in time of the whole machine (L of section 5.2).
    pub load: Span,
    /// The start that it got; `None` when it was refused.
    pub granted: Option<Time>,
}

/// Places reservations asked for so long ahead, in a window of so many starts.
pub struct PlacementRule {
    /// By what slots are ranked.
    pub method: Method,
    /// From the request to the earliest start.
    pub ahead: Span,
    /// From the earliest start to the latest.
    pub window: Span,
    /// How the starts that are probed are chosen.
    pub slots: SlotChoice,
    /// The requests so far, in their order.
    pub requests: Vec<PlacedRequest>,
    /// Granted reservations: start, and processors times length in milliseconds.
    pending: Vec<(Time, i128)>,
}

impl PlacementRule {
    /// A rule that has seen no request yet.
    pub fn new(method: Method, ahead: Span, window: Span, slots: SlotChoice) -> Self {
        Self {
            method,
            ahead,
            window,
            slots,
            requests: Vec::new(),
            pending: Vec::new(),
        }
    }

    fn probe(&self, request: &ReservationRequest<'_>) -> Appraisal {
        let earliest = request.now + self.ahead;
        let latest = earliest + self.window;
        let SlotChoice { most, gap, .. } = self.slots;
        let weight = self.slots.makespan_weight_ppm;
        let starts = match self.slots.kind {
            SlotKind::Even => {
                let mut starts = evenly(earliest, latest, most, gap);
                let plain = request.appraise(Starts::At(Vec::new()), weight).plain_start;
                starts.extend(plain.filter(|start| (earliest..=latest).contains(start)));
                starts.sort_unstable();
                starts.dedup();
                Starts::At(starts)
            }
            SlotKind::Changes => Starts::Window {
                earliest,
                latest,
                most,
                gap,
            },
        };
        request.appraise(starts, weight)
    }

    fn pick(&self, slots: Vec<Estimate>) -> Option<Slot> {
        let possible = |slot: &Estimate| !slot.before_head && slot.shares.is_some();
        let available = |slot: &&Estimate| possible(slot) && slot.availability_ppm > 0;
        let best = slots
            .iter()
            .filter(available)
            .map(|slot| slot.availability_ppm);
        let best = best.max().unwrap_or(0);
        let least = best.saturating_sub(self.slots.equal_ppm).max(1);
        let picked = slots.into_iter().find(|slot| match self.method {
            Method::Load => possible(slot) && slot.by_load,
            Method::WhatIf => possible(slot) && slot.availability_ppm >= least,
        })?;
        let start = picked.start;
        picked.shares.map(|shares| Slot { start, shares })
    }
}

impl AdmissionRule for PlacementRule {
    fn decide(&mut self, request: &ReservationRequest<'_>) -> Option<Slot> {
        self.pending.retain(|(start, _)| *start > request.now);
        let booked: i128 = self.pending.iter().map(|(_, area)| area).sum();
        let load = (booked + backlog(request)) / i128::from(request.machine.size().max(1));
        let slot = self.pick(self.probe(request).slots);
        let granted = slot.as_ref().map(|slot| slot.start);
        self.requests.push(PlacedRequest {
            now: request.now,
            load: Span(i64::try_from(load).unwrap_or(i64::MAX)),
            granted,
        });
        let area = area(request, request.at, request.length);
        self.pending.extend(granted.map(|start| (start, area)));
        slot
    }
}

/// What runs and what waits, by limits, in processors times milliseconds.
fn backlog(request: &ReservationRequest<'_>) -> i128 {
    let running = request.scheduler.running_jobs();
    let running = running.map(|(job, end)| (job, end.since(request.now)));
    let waiting = request.scheduler.waiting_in_order();
    let waiting = waiting.map(|job| (job.key.job, job.limit));
    let areas = running.chain(waiting);
    areas
        .map(|(job, left)| area(request, job.0 as usize, left))
        .sum()
}

fn area(request: &ReservationRequest<'_>, at: usize, length: Span) -> i128 {
    let processors = request.jobs.get(at);
    let processors = processors.map_or(0, |job| request.machine.processors(job));
    i128::from(processors) * i128::from(length.0.max(0))
}
