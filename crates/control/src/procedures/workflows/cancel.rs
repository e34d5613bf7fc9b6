//! Workflows are cancelled.

use crate::event::Caller;
use crate::procedures::workflows::course::give_flow_up;
use crate::rooms::Rooms;
use crate::turn::Turn;
use crate::workflows::procedures::own_flow;
use cosy_model::api::Reply;
use cosy_model::workflow::FlowState;
use cosy_model::{FlowId, Refusal, RefusalCode, limits};

pub(crate) fn cancel_flows(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    ids: &[FlowId],
) -> Result<Reply, Refusal> {
    if ids.is_empty() || ids.len() > limits::IDS_IN_REQUEST {
        return Err(Refusal::invalid("name between 1 and 100,000 workflows to cancel"));
    }
    let mut changed = 0;
    let mut refused = Vec::new();
    for id in ids {
        match cancel_flow(rooms, turn, caller, *id) {
            Ok(()) => changed += 1,
            Err(refusal) => refused.push((format!("workflow {id}"), refusal)),
        }
    }
    Ok(Reply::Done { changed, refused })
}

pub(crate) fn cancel_flow(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    id: FlowId,
) -> Result<(), Refusal> {
    let found = own_flow(&rooms.config, &rooms.workflows, caller, id, "cancel")?;
    if !found.row().state.is_live() {
        return Err(Refusal::new(
            RefusalCode::WrongState,
            format!("workflow {id} is {} already", found.row().state),
        ));
    }
    let who = caller.user.name.clone();
    give_flow_up(rooms, turn, id, FlowState::Cancelled, &who);
    Ok(())
}
