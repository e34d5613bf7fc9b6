//! What has not started of a workflow is planned again: because a task needs longer than its
//! slot, was late for it, or failed and has to run once more.
//!
//! What always holds: slots are moved all in one turn, or none is; a slot in which a task
//! runs is never moved.

pub(crate) mod procedures;

use super::resolve::ResolvedFlow;
use crate::record::OfFlow;
use cosy_model::{FlowId, ReservationId, Span};

/// After a plan that could not be used it is tried again.
const AGAIN: Span = Span::from_secs(5);

/// A workflow of which a part is planned again.
#[derive(Debug)]
pub(crate) struct Replan {
    pub flow: FlowId,
    pub wish: ResolvedFlow,
    /// Tasks whose slots move, with their reservations.
    pub moved: Vec<(u32, ReservationId)>,
    /// A running task whose slot grows over them, and by how much.
    pub grows: Option<(OfFlow, Span)>,
}
