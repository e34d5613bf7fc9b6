//! Tasks of workflows end, fail, lose their slots; workflows end with them.

use crate::procedures::reviews::review;
use crate::procedures::steer::cancel_job;
use crate::record::{LoadedFlow, OfFlow};
use crate::rooms::Rooms;
use crate::set_aside::Object;
use crate::turn::Turn;
use crate::workflows::Flow;
use crate::workflows::check::Graph;
use crate::workflows::course::TaskEnd;
use crate::workflows::grow::start_early;
use crate::workflows::replan::procedures::replan_due;
use cosy_model::workflow::{FlowState, FlowTaskState, Overrun};
use cosy_model::{EventKind, FlowId, JobId};
use cosy_view::words::end_note::CancelNote;

/// Ends all that runs of a live workflow and gives back what has not begun.
pub(crate) fn give_flow_up(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: FlowId,
    state: FlowState,
    who: &str,
) {
    if !rooms.workflows.goes_over(id, state) {
        return;
    }
    let note = match state {
        FlowState::Expired => "it was not confirmed in time".to_owned(),
        FlowState::Held
        | FlowState::Running
        | FlowState::Completed
        | FlowState::Failed
        | FlowState::Cancelled => format!("{state} by {who}"),
    };
    let kind = match state {
        FlowState::Expired => EventKind::Expired,
        FlowState::Held
        | FlowState::Running
        | FlowState::Completed
        | FlowState::Failed
        | FlowState::Cancelled => EventKind::Cancelled,
    };
    rooms.workflows.note_flow(turn, id, kind, who, &note);
    let Some(flow) = rooms.workflows.get(id) else {
        return;
    };
    let all: Vec<u32> = (0..flow.tasks().len() as u32).collect();
    let jobs: Vec<JobId> = flow.tasks().iter().map(|task| task.job).collect();
    release_tasks(rooms, turn, id, &all, who);
    for job in jobs {
        cancel_job(rooms, turn, job, who);
    }
}

/// A slot is over. A task that could not start in it gets another one, or has failed.
pub(crate) fn slot_over(rooms: &mut Rooms, turn: &mut Turn, of: OfFlow) {
    let Some(flow) = rooms.workflows.get(of.flow) else {
        return;
    };
    let again = flow.spec().overrun == Overrun::Replan && flow.row().state == FlowState::Running;
    let job = rooms.workflows.task(of).filter(|task| task.end.is_none());
    let Some(task) = job else { return };
    let (job, replan) = (task.job, task.replan);
    if replan || rooms.jobs.get(&job).is_none_or(|job| !job.is_waiting()) {
        return;
    }
    if again {
        rooms.workflows.needs_slot(of);
    } else {
        cancel_job(rooms, turn, job, "the end of its slot: it could not start before");
    }
}

/// To be called when reservations and jobs are loaded.
pub(crate) fn load_flows(rooms: &mut Rooms, turn: &mut Turn, loaded: Vec<LoadedFlow>, next: u64) {
    let now = turn.now();
    rooms.workflows.go_on_at(next.max(1));
    for LoadedFlow { row, spec, tasks } in loaded {
        // What was accepted once has no circle.
        let graph = Graph::of(&spec);
        let graph = graph.unwrap_or_else(|_| Graph::without_edges(spec.tasks.len()));
        let waits = tasks
            .iter()
            .filter(|task| task.replan && task.end.is_none());
        let waits: Vec<JobId> = waits.map(|task| task.job).collect();
        if !rooms
            .workflows
            .enter_loaded(now, Flow::new(row, spec, graph, tasks))
        {
            continue;
        }
        // Their slots are known to be of no use only now.
        waits.into_iter().for_each(|job| review(rooms, turn, job));
    }
}

/// Does everything that follows from ends of jobs and from the time.
pub(crate) fn flows_due(rooms: &mut Rooms, turn: &mut Turn) {
    let now = turn.now();
    loop {
        let all = rooms.workflows.take_ended();
        if all.is_empty() {
            break;
        }
        for ended in all {
            rooms.aside.works_on(Object::Flow(ended.of.flow));
            task_ended(rooms, turn, &ended);
        }
    }
    replan_due(rooms, turn);
    rooms.workflows.forget_old(now);
}

pub(crate) fn task_ended(rooms: &mut Rooms, turn: &mut Turn, ended: &TaskEnd) {
    let of = ended.of;
    let known = rooms.workflows.task(of);
    if known.is_none_or(|task| task.job != ended.job || task.end.is_some()) {
        return; // put back by hand after its workflow was done with it
    }
    let given_up = rooms
        .workflows
        .get(of.flow)
        .is_some_and(|flow| matches!(flow.row().state, FlowState::Cancelled | FlowState::Expired));
    let marked = known.is_some_and(|task| task.state == FlowTaskState::Released);
    let released = marked || given_up && ended.start.is_none();
    let good = ended.is_good();
    rooms.workflows.task_ended(ended, released);
    if !released && !good {
        task_failed(rooms, turn, ended);
    }
    if good {
        start_early(rooms, turn, of);
    }
    rooms.workflows.close_flow_if_over(turn, of.flow);
}

/// A task failed for good: what cannot run any more is released.
pub(crate) fn task_failed(rooms: &mut Rooms, turn: &mut Turn, ended: &TaskEnd) {
    let of = ended.of;
    let Some(flow) = rooms.workflows.get(of.flow) else {
        return;
    };
    match flow.row().state {
        FlowState::Running => {}
        FlowState::Held => return hold_lost(rooms, turn, ended),
        // It is being given up as a whole.
        FlowState::Completed | FlowState::Failed | FlowState::Cancelled | FlowState::Expired => {
            return;
        }
    }
    let planned = flow.row().deadline.is_some();
    let note = format!("task {} {}", flow.name_of(of.task), ended.words());
    let which = match planned {
        true => (0..flow.tasks().len() as u32).collect(),
        false => flow.descendants(of.task),
    };
    rooms
        .workflows
        .tell_flow_owner(&rooms.config, turn, of.flow, EventKind::TaskFailed, &note);
    let why = format!("workflow {}: {note}", of.flow);
    release_tasks(rooms, turn, of.flow, &which, &why);
}

/// A slot of a held workflow is no longer there: nor are the others.
pub(crate) fn hold_lost(rooms: &mut Rooms, turn: &mut Turn, ended: &TaskEnd) {
    let now = turn.now();
    let id = ended.of.flow;
    let until = rooms
        .workflows
        .get(id)
        .and_then(|flow| flow.row().hold_until);
    let state = match until.is_some_and(|until| until <= now) {
        true => FlowState::Expired,
        false => FlowState::Cancelled,
    };
    rooms.workflows.task_released(ended.of);
    let cancelled = CancelNote::read(&ended.note);
    let by = cancelled.map_or("controller", |note| note.who);
    give_flow_up(rooms, turn, id, state, by);
}

/// Ends the jobs of those tasks that hold no nodes.
pub(crate) fn release_tasks(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: FlowId,
    which: &[u32],
    why: &str,
) {
    for task in which {
        let of = OfFlow {
            flow: id,
            task: *task,
        };
        let job = rooms.workflows.task(of).filter(|t| t.end.is_none());
        let Some(job) = job.map(|task| task.job) else {
            continue;
        };
        if rooms.jobs.get(&job).is_none_or(|job| !job.is_waiting()) {
            continue;
        }
        rooms.workflows.task_released(of);
        cancel_job(rooms, turn, job, why);
    }
}
