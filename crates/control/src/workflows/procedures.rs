//! Small steps of workflows: who may touch one, rows that have changed are written.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::queues::access::procedures::is_administrator;
use crate::record::Record;
use crate::turn::Turn;
use crate::workflows::{Flow, Workflows, no_flow};
use cosy_model::{EventKind, EventObject, FlowId, Refusal, RefusalCode};

/// One that the caller owns, or an administrator.
pub(crate) fn own_flow<'a>(
    config: &'a ClusterConfig,
    workflows: &'a Workflows,
    caller: &Caller,
    id: FlowId,
    what: &str,
) -> Result<&'a Flow, Refusal> {
    let found = workflows.get(id).ok_or_else(|| no_flow(id))?;
    if found.row.uid == caller.user.uid || is_administrator(config, caller) {
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

impl Workflows {
    /// Writes what has changed of workflows, each row once.
    pub(crate) fn save_flows(&mut self, turn: &mut Turn) {
        for id in std::mem::take(&mut self.dirty) {
            if let Some(flow) = self.get(id) {
                let row = Box::new(flow.row.clone());
                turn.record(Record::Flow(row));
            }
        }
        for of in std::mem::take(&mut self.dirty_tasks) {
            if let Some(task) = self.task(of) {
                let row = Box::new(task.clone());
                turn.record(Record::FlowTask(row));
            }
        }
    }

    /// Says something about a workflow in its row and in the history.
    pub(crate) fn note_flow(
        &mut self,
        turn: &mut Turn,
        id: FlowId,
        kind: EventKind,
        who: &str,
        note: &str,
    ) {
        let now = turn.now();
        if let Some(row) = self.row_mut(id) {
            row.note = note.to_owned();
        }
        turn.happened(now, kind, who, EventObject::Workflow(id), note.to_owned());
    }

    /// The same, and tells its owner by mail.
    pub(crate) fn tell_flow_owner(
        &mut self,
        config: &ClusterConfig,
        turn: &mut Turn,
        id: FlowId,
        kind: EventKind,
        note: &str,
    ) {
        self.note_flow(turn, id, kind, "controller", note);
        if let Some(flow) = self.get(id) {
            let to = flow.row.user.clone();
            let name = &flow.spec.name;
            let subject = format!("{} workflow {id} ({name}): {note}", config.name);
            turn.effect(crate::event::Effect::Mail {
                to,
                subject,
                body: String::new(),
            });
        }
    }
}
