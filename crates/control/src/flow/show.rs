//! Workflows as commands show them.

use super::{Flow, no_flow};
use crate::controller::Controller;
use crate::event::Caller;
use crate::job::Job;
use crate::record::FlowTaskRow;
use cosy_model::api::Reply;
use cosy_model::workflow::{FlowFilter, FlowInfo, FlowState, FlowTaskInfo, FlowTaskState};
use cosy_model::{FlowId, Refusal, Span, Su, Time, limits};

impl Controller {
    pub(crate) fn list_flows(
        &self,
        caller: &Caller,
        filter: &FlowFilter,
    ) -> Result<Reply, Refusal> {
        if filter.ids.len() > limits::IDS_IN_REQUEST || filter.users.len() > limits::SHARING {
            return Err(Refusal::invalid("too many ids or users in one request"));
        }
        if let Some(missing) = filter.ids.iter().find(|id| !self.sees_flow(caller, **id)) {
            return Err(no_flow(*missing));
        }
        let passes = |flow: &&Flow| {
            let row = &flow.row;
            let by_id = filter.ids.is_empty() || filter.ids.contains(&row.id);
            let by_user = filter.users.is_empty()
                || filter.users.contains(&row.user)
                || filter.users.contains(&row.uid.to_string());
            let by_state = row.is_live() || filter.ended || !filter.ids.is_empty();
            by_id && by_user && by_state && self.sees_flow(caller, row.id)
        };
        let found = self.flows.all.values().filter(passes);
        let infos = found.map(|flow| self.flow_info(flow, filter.tasks));
        Ok(Reply::Flows(infos.collect()))
    }

    /// As for what jobs run: a workflow tells names and files.
    fn sees_flow(&self, caller: &Caller, id: FlowId) -> bool {
        let all = self.config.policy.visibility == crate::Visibility::Everything;
        let own = |flow: &Flow| flow.row.uid == caller.user.uid || self.is_admin(caller);
        self.flows.get(id).is_some_and(|flow| all || own(flow))
    }

    /// The answer with a workflow as it is now.
    pub(crate) fn flow_reply(&self, id: FlowId) -> Result<Reply, Refusal> {
        let flow = self.flows.get(id).ok_or_else(|| no_flow(id))?;
        Ok(Reply::Flow(Box::new(self.flow_info(flow, true))))
    }

    fn flow_info(&self, flow: &Flow, with_tasks: bool) -> FlowInfo {
        let row = &flow.row;
        let done = |t: &&FlowTaskRow| t.state == FlowTaskState::Done;
        let planned = flow.tasks.iter().filter_map(|t| Some(t.slot?.1)).max();
        let ended = flow.tasks.iter().filter_map(|t| t.end).max();
        let price = flow.tasks.iter().fold(Su::ZERO, |sum, t| sum.plus(t.price));
        let tasks = match with_tasks {
            true => flow.tasks.iter().map(|t| self.task_info(flow, t)).collect(),
            false => Vec::new(),
        };
        FlowInfo {
            id: row.id,
            name: flow.spec.name.clone(),
            user: row.user.clone(),
            state: row.state,
            made: row.made,
            deadline: row.deadline,
            end: if row.is_live() { planned } else { ended },
            hold_until: row.hold_until.filter(|_| row.state == FlowState::Held),
            task_count: flow.tasks.len() as u32,
            done_count: flow.tasks.iter().filter(done).count() as u32,
            price,
            account: row.account.clone().unwrap_or_default(),
            note: row.note.clone(),
            tasks,
        }
    }

    fn task_info(&self, flow: &Flow, task: &FlowTaskRow) -> FlowTaskInfo {
        let run = self.jobs.get(&task.job).and_then(Job::run);
        let runs = run.is_some() && task.state == FlowTaskState::Waiting;
        let parents = flow.graph.parents.get(task.of.task as usize);
        let parents = parents.into_iter().flatten();
        let reserved = task.reservation.and_then(|id| self.reservations.get(id));
        let nodes = match (run, reserved) {
            (Some(run), _) => self.node_list(run),
            (None, Some(slot)) if task.nodes.is_empty() => self.names_of_shares(&slot.shares),
            (None, _) => task.nodes.clone(),
        };
        let length = |(start, end): (Time, Time)| end.since(start);
        FlowTaskInfo {
            name: flow.name_of(task.of.task).to_owned(),
            state: if runs {
                FlowTaskState::Running
            } else {
                task.state
            },
            parents: parents.map(|p| flow.name_of(*p).to_owned()).collect(),
            slot_start: task.slot.map(|slot| slot.0),
            slot_end: task.slot.map(|slot| slot.1),
            estimate: task.estimate,
            spare: task.slot.map_or(Span::ZERO, |slot| {
                Span((length(slot).ms() - task.estimate.ms()).max(0))
            }),
            reservation: task.reservation,
            job: Some(task.job),
            start: task.start.or_else(|| run.and_then(|run| run.started)),
            end: task.end,
            failures: task.failures,
            nodes,
            note: task.note.clone(),
        }
    }
}
