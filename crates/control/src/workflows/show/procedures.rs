//! Workflows are listed, a piece in a turn.

use crate::controller::Controller;
use crate::conversations::choosing::Users;
use crate::conversations::listing::List;
use crate::event::{Caller, ClientId};
use crate::jobs::job::Job;
use crate::record::FlowTaskRow;
use crate::workflows::show::{FlowList, PIECE_TASKS, TASK_BYTES, bytes_of};
use crate::workflows::{Flow, no_flow};
use cosy_model::api::Reply;
use cosy_model::workflow::{FlowFilter, FlowInfo, FlowState, FlowTaskInfo, FlowTaskState};
use cosy_model::{FlowId, Refusal, Span, Su, Time, limits};
use std::collections::{BTreeSet, VecDeque};

impl Controller {
    pub(crate) fn list_flows(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        filter: &FlowFilter,
    ) -> Result<Option<Reply>, Refusal> {
        if filter.ids.len() > limits::IDS_IN_REQUEST || filter.users.len() > limits::SHARING {
            return Err(Refusal::invalid("too many ids or users in one request"));
        }
        let ids: BTreeSet<FlowId> = filter.ids.iter().copied().collect();
        let users = Users::new(filter.users.iter().map(String::as_str));
        if let Some(missing) = ids.iter().find(|id| !self.sees_flow(caller, **id)) {
            return Err(no_flow(*missing));
        }
        let passes = |flow: &&Flow| {
            let row = &flow.row;
            let by_user = users.has(&row.user, row.uid);
            let by_state = row.is_live() || filter.ended || !ids.is_empty();
            by_user && by_state && self.sees_flow(caller, row.id)
        };
        let found: VecDeque<FlowId> = match ids.is_empty() {
            true => self
                .workflows
                .all
                .values()
                .filter(passes)
                .map(|f| f.row.id)
                .collect(),
            false => {
                let named = ids.iter().filter_map(|id| self.workflows.get(*id));
                named.filter(passes).map(|f| f.row.id).collect()
            }
        };
        let list = FlowList {
            client,
            with_tasks: filter.tasks,
            left: found,
            under_way: None,
            told: Vec::new(),
            bytes: 0,
        };
        Ok(self.begin_list(now, List::Flows(Box::new(list))))
    }

    /// Some workflows or tasks more; true when those were the last, or the answer is full.
    pub(crate) fn list_flows_piece(&mut self, list: &mut FlowList) -> bool {
        let mut room = PIECE_TASKS;
        while room > 0 && !list.is_full() {
            let Some(flow) = list.left.front().and_then(|id| self.workflows.get(*id)) else {
                list.under_way = None; // it is forgotten meanwhile
                match list.left.pop_front() {
                    Some(_) => continue,
                    None => return true,
                }
            };
            let mut info = list.under_way.take().unwrap_or_else(|| {
                room = room.saturating_sub(1 + flow.tasks.len() / 8);
                self.flow_info(flow, false)
            });
            if list.with_tasks {
                let next = flow.tasks.iter().skip(info.tasks.len()).take(room.max(1));
                for task in next {
                    room = room.saturating_sub(1);
                    self.turn.looked(1);
                    let task = self.task_info(flow, task);
                    list.bytes += bytes_of(&task);
                    info.tasks.push(task);
                }
            }
            if list.with_tasks && info.tasks.len() < flow.tasks.len() {
                list.under_way = Some(info);
                continue;
            }
            list.bytes += TASK_BYTES + info.name.len() + info.note.len();
            list.told.push(info);
            list.left.pop_front();
        }
        list.is_full()
    }

    /// As for what jobs run: a workflow tells names and files.
    fn sees_flow(&self, caller: &Caller, id: FlowId) -> bool {
        let all = self.config.policy.visibility == crate::Visibility::Everything;
        let own = |flow: &Flow| flow.row.uid == caller.user.uid || self.is_admin(caller);
        self.workflows.get(id).is_some_and(|flow| all || own(flow))
    }

    /// The answer with a workflow as it is now.
    pub(crate) fn flow_reply(&self, id: FlowId) -> Result<Reply, Refusal> {
        let flow = self.workflows.get(id).ok_or_else(|| no_flow(id))?;
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
