//! The second phase of booking a workflow: what is held becomes final.

use crate::event::Caller;
use crate::reservations::confirm::confirm_one;
use crate::rooms::Rooms;
use crate::turn::Turn;
use crate::workflows::Workflows;
use crate::workflows::procedures::own_flow;
use crate::workflows::show::procedures::flow_reply;
use cosy_model::api::Reply;
use cosy_model::workflow::FlowState;
use cosy_model::{EventKind, EventObject, FlowId, Refusal, RefusalCode, ReservationId};

pub(crate) fn confirm_flow(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    id: FlowId,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    let found = own_flow(&rooms.config, &rooms.workflows, caller, id, "confirm")?;
    let wrong = |why: &str| Err(Refusal::new(RefusalCode::WrongState, why));
    match found.row.state {
        FlowState::Held => {}
        FlowState::Expired => {
            return wrong(&format!(
                "the hold of workflow {id} has expired and its slots were given back: submit it anew"
            ));
        }
        state @ (FlowState::Running
        | FlowState::Completed
        | FlowState::Failed
        | FlowState::Cancelled) => {
            return wrong(&format!(
                "workflow {id} is {state} already: there is nothing to confirm"
            ));
        }
    }
    let slots = found.tasks.iter().filter_map(|task| task.reservation);
    let slots: Vec<ReservationId> = slots.collect();
    let who = caller.user.name.clone();
    for slot in slots {
        confirm_one(&rooms.config, &mut rooms.reservations, turn, slot, &who);
        let object = EventObject::Reservation(slot);
        turn.happened(now, EventKind::Confirmed, &who, object, String::new());
    }
    rooms.workflows.flow_confirmed(turn, id, &who);
    flow_reply(&rooms.machine, &rooms.jobs, &rooms.reservations, &rooms.workflows, id)
}

impl Workflows {
    /// All reservations of a held workflow are final: it runs.
    pub(crate) fn flow_confirmed(&mut self, turn: &mut Turn, id: FlowId, who: &str) {
        let now = turn.now();
        if let Some(row) = self.row_mut(id) {
            row.state = FlowState::Running;
            row.hold_until = None;
        }
        let object = EventObject::Workflow(id);
        turn.happened(now, EventKind::Confirmed, who, object, String::new());
    }
}
