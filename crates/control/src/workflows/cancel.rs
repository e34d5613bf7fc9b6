//! Giving workflows up.

use crate::controller::Controller;
use crate::event::Caller;
use cosy_model::api::Reply;
use cosy_model::workflow::FlowState;
use cosy_model::{FlowId, JobId, Refusal, RefusalCode, Time, limits};

impl Controller {
    pub(crate) fn cancel_flows(
        &mut self,
        now: Time,
        caller: &Caller,
        ids: &[FlowId],
    ) -> Result<Reply, Refusal> {
        if ids.is_empty() || ids.len() > limits::IDS_IN_REQUEST {
            return Err(Refusal::invalid(
                "name between 1 and 100,000 workflows to cancel",
            ));
        }
        let mut changed = 0;
        let mut refused = Vec::new();
        for id in ids {
            match self.cancel_flow(now, caller, *id) {
                Ok(()) => changed += 1,
                Err(refusal) => refused.push((format!("workflow {id}"), refusal)),
            }
        }
        Ok(Reply::Done { changed, refused })
    }

    fn cancel_flow(&mut self, now: Time, caller: &Caller, id: FlowId) -> Result<(), Refusal> {
        let found = self.own_flow(caller, id, "cancel")?;
        if !found.row.state.is_live() {
            return Err(Refusal::new(
                RefusalCode::WrongState,
                format!("workflow {id} is {} already", found.row.state),
            ));
        }
        let who = caller.user.name.clone();
        self.give_flow_up(now, id, FlowState::Cancelled, &who);
        Ok(())
    }

    /// Ends all that runs of a live workflow and gives back what has not begun.
    pub(crate) fn give_flow_up(&mut self, now: Time, id: FlowId, state: FlowState, who: &str) {
        let Some(row) = self.workflows.row_mut(id) else {
            return;
        };
        row.state = state;
        let note = match state {
            FlowState::Expired => "it was not confirmed in time".to_owned(),
            FlowState::Held
            | FlowState::Running
            | FlowState::Completed
            | FlowState::Failed
            | FlowState::Cancelled => format!("{state} by {who}"),
        };
        self.note_flow(now, id, state.word(), who, &note);
        let Some(flow) = self.workflows.get(id) else {
            return;
        };
        let all: Vec<u32> = (0..flow.tasks.len() as u32).collect();
        let jobs: Vec<JobId> = flow.tasks.iter().map(|task| task.job).collect();
        self.release_tasks(now, id, &all, who);
        for job in jobs {
            self.cancel_job(now, job, who);
        }
    }
}
