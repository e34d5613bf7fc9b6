//! The second phase of booking a workflow: what is held becomes final.

use crate::controller::Controller;
use crate::event::Caller;
use cosy_model::api::Reply;
use cosy_model::workflow::FlowState;
use cosy_model::{FlowId, Refusal, RefusalCode, ReservationId, Time};

impl Controller {
    pub(crate) fn confirm_flow(
        &mut self,
        now: Time,
        caller: &Caller,
        id: FlowId,
    ) -> Result<Reply, Refusal> {
        let found = self.own_flow(caller, id, "confirm")?;
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
            self.confirm_one(now, slot, &who);
            let object = format!("reservation {slot}");
            self.happened(now, "confirmed", &who, object, String::new());
        }
        self.flow_confirmed(now, id, &who);
        self.flow_reply(id)
    }

    /// All reservations of a held workflow are final: it runs.
    pub(crate) fn flow_confirmed(&mut self, now: Time, id: FlowId, who: &str) {
        if let Some(row) = self.workflows.row_mut(id) {
            row.state = FlowState::Running;
            row.hold_until = None;
        }
        let object = format!("workflow {id}");
        self.happened(now, "confirmed", who, object, String::new());
    }
}
