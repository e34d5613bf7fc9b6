//! Workflows are submitted and their tasks entered.

use crate::event::Caller;
use crate::jobs::submit::Ready;
use crate::procedures::submit::enter;
use crate::record::{FlowRow, FlowTaskRow, OfFlow};
use crate::rooms::Rooms;
use crate::turn::{Asker, Turn};
use crate::workflows::Flow;
use crate::workflows::book::procedures::submit_planned;
use crate::workflows::check::{Graph, check};
use crate::workflows::show::procedures::flow_reply;
use crate::workflows::submit::{job_ids, ready_tasks};
use cosy_model::api::Reply;
use cosy_model::workflow::{FlowSpec, FlowState, FlowTaskState};
use cosy_model::{EventKind, FlowId, Refusal};

pub(crate) fn submit_flow(
    rooms: &mut Rooms,
    turn: &mut Turn,
    asker: Asker<'_>,
    spec: FlowSpec,
    hold: bool,
) -> Result<Option<Reply>, Refusal> {
    let Asker { caller, .. } = asker;
    let now = turn.now();
    let graph = check(now, &spec)?;
    rooms.workflows.may_have_flow()?;
    if spec.deadline.is_some() {
        return submit_planned(rooms, turn, asker, spec, graph, hold);
    }
    if hold {
        return Err(Refusal::invalid(
            "a workflow without a deadline has no slots to hold: give it one, or submit it without a hold",
        ));
    }
    submit_plain(rooms, turn, caller, spec, graph).map(Some)
}

pub(crate) fn submit_plain(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    mut spec: FlowSpec,
    graph: Graph,
) -> Result<Reply, Refusal> {
    let now = turn.now();
    let ready = ready_tasks(rooms, caller, &mut spec, &graph)?;
    let id = FlowId(rooms.workflows.next_number());
    rooms.workflows.number_taken();
    let row = FlowRow {
        id,
        uid: caller.user.uid,
        gid: caller.group(),
        user: caller.user.name.clone(),
        state: FlowState::Running,
        made: now,
        deadline: None,
        account: spec.account.clone(),
        hold_until: None,
        closed: None,
        note: String::new(),
    };
    let jobs = job_ids(&rooms.jobs, &graph);
    let task = |task: usize| FlowTaskRow {
        of: OfFlow {
            flow: id,
            task: task as u32,
        },
        state: FlowTaskState::Waiting,
        job: jobs[task],
        reservation: None,
        slot: None,
        replan: false,
        set: String::new(),
        estimate: spec.tasks[task].estimate,
        failures: 0,
        start: None,
        end: None,
        nodes: String::new(),
        price: cosy_model::Su::ZERO,
        note: String::new(),
    };
    let tasks = (0..spec.tasks.len()).map(task).collect();
    rooms
        .workflows
        .add_flow(turn, Flow::new(row, spec, graph, tasks), EventKind::Submitted);
    enter_tasks(rooms, turn, caller, id, ready);
    flow_reply(&rooms.machine, &rooms.jobs, &rooms.reservations, &rooms.workflows, id)
}

/// Takes the jobs of all tasks, in the order in which they were checked.
pub(crate) fn enter_tasks(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    flow: FlowId,
    ready: Vec<Ready>,
) {
    let order = rooms.workflows.get(flow).map(|f| f.graph().order.clone());
    for (task, ready) in order.unwrap_or_default().into_iter().zip(ready) {
        let of = OfFlow { flow, task };
        enter(rooms, turn, caller, ready, Some(of));
    }
}
