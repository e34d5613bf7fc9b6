//! Workflows with a deadline: planned on a snapshot, then, in one turn, all slots are checked
//! against the present state and the rules, and taken, or none is.
//!
//! What always holds: until everything that can refuse has been asked, nothing is recorded
//! and whatever was put into memory is taken out again.

pub(crate) mod procedures;

use super::resolve::ResolvedFlow;
use crate::event::{Caller, ClientId};
use crate::record::{FlowTaskRow, OfFlow};
use crate::reservations::ReservationRequest;
use crate::workflows::check::Graph;
use cosy_model::workflow::FlowTaskState;
use cosy_model::{FlowId, JobId, Refusal, ReservationId, Span, Su};
use cosy_sched::appraise::{Appraisal, Estimate};
use cosy_sched::workflow::live::LiveSlot;

/// How often it is planned anew when a slot was taken meanwhile.
pub(crate) const TRIES: u32 = 4;
/// A hold lasts at least so long, also when its first slot begins before.
const HOLD_LEAST: Span = Span::from_secs(60);

/// A workflow that is booked when its plan has come.
#[derive(Debug)]
pub(crate) struct FlowBooking {
    pub client: ClientId,
    pub caller: Box<Caller>,
    pub key: Option<[u8; 16]>,
    pub wish: ResolvedFlow,
    pub graph: Graph,
    pub hold: bool,
    pub tries: u32,
}

/// A slot that is going to be taken.
#[derive(Debug)]
pub(crate) struct FlowSlot {
    pub wish: ReservationRequest,
    /// With the slot as its only estimate.
    pub figures: Appraisal,
    pub planned: LiveSlot,
    /// What it costs beside the time itself.
    pub extra: Su,
}

impl FlowSlot {
    pub fn estimate(&self) -> &Estimate {
        &self.figures.slots[0]
    }

    pub fn price(&self) -> Su {
        self.estimate().base.plus(self.extra)
    }
}

/// Why slots were not taken.
pub(crate) enum NotTaken {
    /// The state has changed since the plan was made.
    Gone,
    Refused(Refusal),
}

impl From<Refusal> for NotTaken {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

pub(crate) fn slot_row(
    flow: FlowId,
    task: usize,
    job: JobId,
    reservation: ReservationId,
    slot: &FlowSlot,
    sets: &[String],
) -> FlowTaskRow {
    FlowTaskRow {
        of: OfFlow {
            flow,
            task: task as u32,
        },
        state: FlowTaskState::Waiting,
        job,
        reservation: Some(reservation),
        slot: Some((slot.planned.start, slot.planned.end)),
        replan: false,
        set: sets.get(slot.planned.set).cloned().unwrap_or_default(),
        estimate: slot.planned.estimate,
        failures: 0,
        start: None,
        end: None,
        nodes: String::new(),
        price: slot.price(),
        note: String::new(),
    }
}
