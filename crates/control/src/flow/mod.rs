//! Workflows: planned on a snapshot elsewhere, held and booked as reservations of their
//! tasks, all or none, and run to their end.
//!
//! Source: Zhao and Sakellariou, *Advance Reservation Policies for Workflows* (2006).

mod plan;
mod resolve;

pub(crate) use plan::FlowPlans;

use crate::controller::Controller;
use crate::event::{Caller, ClientId};
use cosy_model::api::{Reply, Request};
use cosy_model::{Refusal, Time};

impl Controller {
    pub(crate) fn flow_request(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        _key: Option<[u8; 16]>,
        request: Request,
    ) -> Result<Option<Reply>, Refusal> {
        match request {
            Request::PlanFlow { spec } => self.plan_flow(now, client, caller, *spec),
            _ => Err(Refusal::invalid("workflows can only be planned")),
        }
    }
}
