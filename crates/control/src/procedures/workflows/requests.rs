//! Requests that concern workflows.

use crate::conversations::listing::begin::list_flows;
use crate::procedures::workflows::cancel::cancel_flows;
use crate::procedures::workflows::submit::submit_flow;
use crate::rooms::Rooms;
use crate::turn::{Asker, Turn};
use crate::workflows::hold::confirm_flow;
use crate::workflows::plan::procedures::plan_flow;
use cosy_model::Refusal;
use cosy_model::api::{Reply, Request};

pub(crate) fn flow_request(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    request: Request,
) -> Result<Option<Reply>, Refusal> {
    let Asker { client, caller, .. } = asker;
    let now = turn.now();
    match request {
        Request::PlanFlow { spec } => {
            crate::workflows::check::check(now, &spec)?;
            plan_flow(rooms, turn, client, caller, *spec)
        }
        Request::SubmitFlow { spec, hold } => submit_flow(rooms, turn, asker, *spec, hold),
        Request::ConfirmFlow { id } => confirm_flow(rooms, turn, caller, id).map(Some),
        Request::CancelFlow { ids } => cancel_flows(rooms, turn, caller, &ids).map(Some),
        Request::Flows { filter } => list_flows(rooms, turn, client, caller, &filter),
        _ => Err(Refusal::invalid("this is no request about workflows")),
    }
}
