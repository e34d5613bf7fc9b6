//! Advance reservations: asked for, appraised, admitted, held, confirmed, begun, ended.

use crate::controller::Controller;
use crate::event::{Caller, ClientId};
use cosy_model::api::{Reply, Request};
use cosy_model::{Refusal, Time};
use cosy_sched::appraise::Appraisal;

impl Controller {
    pub(crate) fn reservation_request(
        &mut self,
        _now: Time,
        _client: ClientId,
        _caller: &Caller,
        _request: Request,
    ) -> Result<Option<Reply>, Refusal> {
        Err(Refusal::invalid("reservations are not available"))
    }

    pub(crate) fn appraised(&mut self, _now: Time, _appraisal: u64, _result: Appraisal) {}
}
