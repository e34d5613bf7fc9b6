//! Plans of workflows: asked for, made elsewhere, answered.

use crate::controller::Controller;
use crate::event::{Caller, ClientId};
use cosy_model::api::Reply;
use cosy_model::workflow::FlowSpec;
use cosy_model::{Refusal, Time};

impl Controller {
    pub(crate) fn plan_flow(
        &mut self,
        _now: Time,
        _client: ClientId,
        _caller: &Caller,
        _spec: FlowSpec,
    ) -> Result<Option<Reply>, Refusal> {
        Err(Refusal::invalid("workflows cannot be planned yet"))
    }
}
