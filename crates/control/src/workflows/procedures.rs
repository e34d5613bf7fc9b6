//! Requests about workflows are handed on; rows that have changed are written.

use crate::controller::Controller;
use crate::event::{Caller, ClientId};
use crate::record::Record;
use crate::workflows::{Flow, no_flow};
use cosy_model::api::{Reply, Request};
use cosy_model::{FlowId, Refusal, RefusalCode, Time};

impl Controller {
    pub(crate) fn flow_request(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        key: Option<[u8; 16]>,
        request: Request,
    ) -> Result<Option<Reply>, Refusal> {
        match request {
            Request::PlanFlow { spec } => {
                crate::workflows::check::check(now, &spec)?;
                self.plan_flow(now, client, caller, *spec)
            }
            Request::SubmitFlow { spec, hold } => {
                self.submit_flow(now, client, caller, key, *spec, hold)
            }
            Request::ConfirmFlow { id } => self.confirm_flow(now, caller, id).map(Some),
            Request::CancelFlow { ids } => self.cancel_flows(now, caller, &ids).map(Some),
            Request::Flows { filter } => self.list_flows(now, client, caller, &filter),
            _ => Err(Refusal::invalid("this is no request about workflows")),
        }
    }

    /// One that the caller owns, or an administrator.
    pub(crate) fn own_flow(
        &self,
        caller: &Caller,
        id: FlowId,
        what: &str,
    ) -> Result<&Flow, Refusal> {
        let found = self.workflows.get(id).ok_or_else(|| no_flow(id))?;
        if found.row.uid == caller.user.uid || self.is_admin(caller) {
            return Ok(found);
        }
        Err(Refusal::new(
            RefusalCode::Forbidden,
            format!(
                "workflow {id} belongs to user {}: only they and administrators may {what} it",
                found.row.user
            ),
        ))
    }

    /// Writes what has changed of workflows, each row once.
    pub(crate) fn save_flows(&mut self) {
        for id in std::mem::take(&mut self.workflows.dirty) {
            if let Some(flow) = self.workflows.get(id) {
                let row = Box::new(flow.row.clone());
                self.record(Record::Flow(row));
            }
        }
        for of in std::mem::take(&mut self.workflows.dirty_tasks) {
            if let Some(task) = self.workflows.task(of) {
                let row = Box::new(task.clone());
                self.record(Record::FlowTask(row));
            }
        }
    }

    /// Says something about a workflow in its row and in the history.
    pub(crate) fn note_flow(&mut self, now: Time, id: FlowId, what: &str, who: &str, note: &str) {
        if let Some(row) = self.workflows.row_mut(id) {
            row.note = note.to_owned();
        }
        self.happened(now, what, who, format!("workflow {id}"), note.to_owned());
    }

    /// The same, and tells its owner by mail.
    pub(crate) fn tell_flow_owner(&mut self, now: Time, id: FlowId, what: &str, note: &str) {
        self.note_flow(now, id, what, "controller", note);
        if let Some(flow) = self.workflows.get(id) {
            let to = flow.row.user.clone();
            let name = &flow.spec.name;
            let subject = format!("{} workflow {id} ({name}): {note}", self.config.name);
            self.effect(crate::event::Effect::Mail { to, subject });
        }
    }
}
