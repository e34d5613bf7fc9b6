//! What is shown of workflows and their tasks.

use crate::column::{Column, Details, Fields};
use crate::value::{FieldValue, Tone};
use cosy_model::workflow::{FlowInfo, FlowState, FlowTaskInfo, FlowTaskState};

type Workflow = Column<FlowInfo>;
type Task = Column<FlowTaskInfo>;

const ID: Workflow = Column::right("ID", |f| f.id.0.into());
const NAME: Workflow = Workflow::left_cut("NAME", 8, |f| (&f.name).into()).leaves(5);
const USER: Workflow = Workflow::left_cut("USER", 6, |f| (&f.user).into()).leaves(4);
const STATE: Workflow = Column::left("STATE", |f| state(f.state));
const DONE: Workflow = Column::right("DONE", |f| FieldValue::share(f.done_count, f.task_count));
const END: Workflow = Workflow::left("END", |f| FieldValue::time_or_dash(f.end)).leaves(2);
const DEADLINE: Workflow =
    Workflow::left("DEADLINE", |f| FieldValue::time_or_dash(f.deadline)).leaves(1);
const PRICE: Workflow = Workflow::right("PRICE", |f| FieldValue::Price(f.price)).leaves(0);
const NOTE: Workflow =
    Workflow::left_cut("NOTE", 10, |f| FieldValue::Sentence((&f.note).into())).leaves(3);

/// `cosy flow list` of one's own.
pub const LIST: &[Workflow] = &[ID, NAME, STATE, DONE, END, DEADLINE, PRICE, NOTE];

/// `cosy flow list` of several users.
pub const LIST_WITH_USER: &[Workflow] = &[ID, NAME, USER, STATE, DONE, END, DEADLINE, PRICE, NOTE];

const TASK: Task = Column::left_cut("TASK", 8, |t| (&t.name).into());
const TASK_STATE: Task = Column::left("STATE", |t| task_state(t.state));
const TASK_START: Task = Task::left("START", |t| FieldValue::time_or_dash(t.start)).leaves(4);
const TASK_END: Task = Task::left("END", |t| FieldValue::time_or_dash(t.end)).leaves(5);
const TASK_JOB: Task =
    Task::right("JOB", |t| FieldValue::number_or_dash(t.job.map(|j| j.0))).leaves(6);
const TASK_NODES: Task = Task::left_cut("NODES", 8, |t| (&t.nodes).into()).leaves(3);
const AFTER: Task = Task::left_cut("AFTER", 8, |t| FieldValue::texts(&t.parents)).leaves(1);
const SLOT: Task = Task::left("SLOT", |t| match (t.slot_start, t.slot_end) {
    (Some(start), Some(end)) => FieldValue::Period(start, end),
    (Some(_) | None, _) => "-".into(),
})
.leaves(8);
const SPARE: Task = Task::right("SPARE", |t| match (t.slot_start, t.slot_end) {
    (Some(_), Some(_)) => t.spare.into(),
    (Some(_) | None, _) => "-".into(),
})
.leaves(0);
const RESERVATION: Task =
    Task::right("RESV", |t| FieldValue::number_or_dash(t.reservation.map(|r| r.0))).leaves(2);
const TASK_NOTE: Task =
    Task::left_cut("NOTE", 10, |t| FieldValue::Sentence(notes(t).into())).leaves(7);

/// Tasks of a workflow that has no slots.
pub const TASKS: &[Task] = &[
    TASK, TASK_STATE, TASK_START, TASK_END, TASK_JOB, TASK_NODES, AFTER, TASK_NOTE,
];

/// Tasks of a workflow with slots.
pub const TASKS_WITH_SLOTS: &[Task] = &[
    TASK,
    TASK_STATE,
    SLOT,
    SPARE,
    RESERVATION,
    TASK_START,
    TASK_END,
    TASK_JOB,
    TASK_NODES,
    AFTER,
    TASK_NOTE,
];

fn state<'a>(state: FlowState) -> FieldValue<'a> {
    let tone = match state {
        FlowState::Running => Tone::Active,
        FlowState::Held => Tone::Waiting,
        FlowState::Failed => Tone::Wrong,
        FlowState::Completed | FlowState::Cancelled | FlowState::Expired => Tone::Quiet,
    };
    FieldValue::State(state.word().into(), tone)
}

fn task_state<'a>(state: FlowTaskState) -> FieldValue<'a> {
    let tone = match state {
        FlowTaskState::Running => Tone::Active,
        FlowTaskState::Waiting => Tone::Waiting,
        FlowTaskState::Failed => Tone::Wrong,
        FlowTaskState::Done | FlowTaskState::Released => Tone::Quiet,
    };
    FieldValue::State(state.word().into(), tone)
}

/// How often it failed, and what else there is to say.
fn notes(task: &FlowTaskInfo) -> String {
    let failed = match task.failures {
        0 => String::new(),
        1 => "failed once".to_owned(),
        n => format!("failed {n} times"),
    };
    let notes = [failed.as_str(), &task.note];
    let told: Vec<&str> = notes.into_iter().filter(|note| !note.is_empty()).collect();
    told.join("; ")
}

/// All fields of a workflow but its tasks.
pub fn fields(flow: &FlowInfo) -> Fields<'_> {
    let FlowInfo {
        id,
        name,
        user,
        state,
        made,
        deadline,
        end,
        hold_until,
        task_count,
        done_count,
        price,
        account,
        note,
        // Each has fields of its own: `task_fields`.
        tasks: _,
    } = flow;
    vec![
        ("id", id.0.into()),
        ("name", name.into()),
        ("user", user.into()),
        ("state", state.word().into()),
        ("task_count", (*task_count).into()),
        ("done_count", (*done_count).into()),
        ("price", (*price).into()),
        ("account", account.into()),
        ("note", note.into()),
        ("made", (*made).into()),
        ("deadline", FieldValue::Time(*deadline)),
        ("end", FieldValue::Time(*end)),
        ("hold_until", FieldValue::Time(*hold_until)),
    ]
}

/// All fields of a task.
pub fn task_fields(task: &FlowTaskInfo) -> Fields<'_> {
    let FlowTaskInfo {
        name,
        state,
        parents,
        slot_start,
        slot_end,
        estimate,
        spare,
        reservation,
        job,
        start,
        end,
        failures,
        nodes,
        note,
    } = task;
    vec![
        ("name", name.into()),
        ("state", state.word().into()),
        ("parents", FieldValue::texts(parents)),
        ("estimate", (*estimate).into()),
        ("spare", (*spare).into()),
        ("reservation", reservation.map(|r| r.0).into()),
        ("job", job.map(|j| j.0).into()),
        ("failures", (*failures).into()),
        ("nodes", nodes.into()),
        ("note", note.into()),
        ("slot_start", FieldValue::Time(*slot_start)),
        ("slot_end", FieldValue::Time(*slot_end)),
        ("start", FieldValue::Time(*start)),
        ("end", FieldValue::Time(*end)),
    ]
}

/// What there is to say of one workflow, but for its tasks.
pub fn details(flow: &FlowInfo) -> Details<'_> {
    let FlowInfo {
        // Its title has the id.
        id: _,
        name,
        user,
        state,
        made,
        deadline,
        end,
        hold_until,
        task_count,
        done_count,
        price,
        account,
        note,
        // They have a list of their own.
        tasks: _,
    } = flow;
    let end_title = match state {
        FlowState::Held | FlowState::Running => "done by",
        FlowState::Completed | FlowState::Failed | FlowState::Cancelled | FlowState::Expired => {
            "ended"
        }
    };
    vec![
        ("name", name.into()),
        ("state", self::state(*state)),
        ("note", FieldValue::Sentence(note.into())),
        ("owner", user.into()),
        ("done", format!("{done_count} of {task_count} tasks").into()),
        (end_title, FieldValue::Time(*end)),
        ("deadline", FieldValue::Time(*deadline)),
        ("held until", FieldValue::Time(*hold_until)),
        ("account", account.into()),
        ("price", format!("{price} SU").into()),
        ("made", (*made).into()),
    ]
}
