//! Workflows are listed, a piece in a turn.

use crate::config::ClusterConfig;
use crate::event::Caller;
use crate::jobs::Jobs;
use crate::jobs::job::Job;
use crate::machine::Machine;
use crate::machine::names::node_list;
use crate::queues::access::procedures::is_administrator;
use crate::record::FlowTaskRow;
use crate::reservations::Reservations;
use crate::reservations::show::procedures::names_of_shares;
use crate::turn::Turn;
use crate::workflows::show::{FlowList, PIECE_TASKS, TASK_BYTES, bytes_of};
use crate::workflows::{Flow, Workflows, no_flow};
use cosy_model::api::Reply;
use cosy_model::workflow::{FlowInfo, FlowState, FlowTaskInfo, FlowTaskState};
use cosy_model::{FlowId, Refusal, Span, Su, Time};

/// Some workflows or tasks more; true when those were the last, or the answer is full.
pub(crate) fn list_flows_piece(
    machine: &Machine,
    jobs: &Jobs,
    reservations: &Reservations,
    workflows: &Workflows,
    turn: &mut Turn,
    list: &mut FlowList,
) -> bool {
    let mut room = PIECE_TASKS;
    while room > 0 && !list.is_full() {
        let Some(flow) = list.left.front().and_then(|id| workflows.get(*id)) else {
            list.under_way = None; // it is forgotten meanwhile
            match list.left.pop_front() {
                Some(_) => continue,
                None => return true,
            }
        };
        let mut info = list.under_way.take().unwrap_or_else(|| {
            room = room.saturating_sub(1 + flow.tasks.len() / 8);
            flow_info(machine, jobs, reservations, flow, false)
        });
        if list.with_tasks {
            let next = flow.tasks.iter().skip(info.tasks.len()).take(room.max(1));
            for task in next {
                room = room.saturating_sub(1);
                turn.looked(1);
                let task = task_info(machine, jobs, reservations, flow, task);
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
pub(crate) fn sees_flow(
    config: &ClusterConfig,
    workflows: &Workflows,
    caller: &Caller,
    id: FlowId,
) -> bool {
    let all = config.policy.visibility == crate::Visibility::Everything;
    let own = |flow: &Flow| flow.row.uid == caller.user.uid || is_administrator(config, caller);
    workflows.get(id).is_some_and(|flow| all || own(flow))
}

/// The answer with a workflow as it is now.
pub(crate) fn flow_reply(
    machine: &Machine,
    jobs: &Jobs,
    reservations: &Reservations,
    workflows: &Workflows,
    id: FlowId,
) -> Result<Reply, Refusal> {
    let flow = workflows.get(id).ok_or_else(|| no_flow(id))?;
    Ok(Reply::Flow(Box::new(flow_info(machine, jobs, reservations, flow, true))))
}

fn flow_info(
    machine: &Machine,
    jobs: &Jobs,
    reservations: &Reservations,
    flow: &Flow,
    with_tasks: bool,
) -> FlowInfo {
    let row = &flow.row;
    let done = |t: &&FlowTaskRow| t.state == FlowTaskState::Done;
    let planned = flow.tasks.iter().filter_map(|t| Some(t.slot?.1)).max();
    let ended = flow.tasks.iter().filter_map(|t| t.end).max();
    let price = flow.tasks.iter().fold(Su::ZERO, |sum, t| sum.plus(t.price));
    let tasks = match with_tasks {
        true => flow
            .tasks
            .iter()
            .map(|t| task_info(machine, jobs, reservations, flow, t))
            .collect(),
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

fn task_info(
    machine: &Machine,
    jobs: &Jobs,
    reservations: &Reservations,
    flow: &Flow,
    task: &FlowTaskRow,
) -> FlowTaskInfo {
    let run = jobs.get(&task.job).and_then(Job::run);
    let runs = run.is_some() && task.state == FlowTaskState::Waiting;
    let parents = flow.graph.parents.get(task.of.task as usize);
    let parents = parents.into_iter().flatten();
    let reserved = task.reservation.and_then(|id| reservations.get(id));
    let nodes = match (run, reserved) {
        (Some(run), _) => node_list(machine, run),
        (None, Some(slot)) if task.nodes.is_empty() => names_of_shares(machine, slot.shares()),
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
        spare: task
            .slot
            .map_or(Span::ZERO, |slot| Span((length(slot).ms() - task.estimate.ms()).max(0))),
        reservation: task.reservation,
        job: Some(task.job),
        start: task.start.or_else(|| run.and_then(|run| run.started())),
        end: task.end,
        failures: task.failures,
        nodes,
        note: task.note.clone(),
    }
}
