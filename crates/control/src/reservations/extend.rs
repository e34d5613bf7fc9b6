//! A reservation is made longer: a new admission of the difference.

pub(crate) mod procedures;

use super::ask::ReservationRequest;
use crate::event::{Caller, ClientId};
use cosy_model::reservation::ReservationAlteration;
use cosy_model::{ReservationId, Span};

/// An extension whose figures are awaited.
#[derive(Debug)]
pub(crate) struct Extension {
    pub client: ClientId,
    pub caller: Box<Caller>,
    pub key: Option<[u8; 16]>,
    id: ReservationId,
    /// The difference, as if it were a request of its own.
    wish: ReservationRequest,
    /// What else becomes other with it; the end is the extension's.
    also: ReservationAlteration,
}

/// Adds delays job by job.
fn merge(delays: &mut Vec<(cosy_model::JobId, Span)>, more: &[(cosy_model::JobId, Span)]) {
    for (job, span) in more {
        match delays.iter_mut().find(|(known, _)| known == job) {
            Some((_, sum)) => *sum = *sum + *span,
            None => delays.push((*job, *span)),
        }
    }
    delays.sort_by_key(|(job, _)| *job);
}
