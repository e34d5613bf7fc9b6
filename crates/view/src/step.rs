//! What is shown of steps: of those that have ended, and of those that run or wait.

use crate::column::{Column, Fields};
use crate::job::tone;
use crate::value::FieldValue;
use cosy_model::api::StepRow;
use cosy_model::step::{StepInfo, StepRecord};
use cosy_model::{End, EndCause, Span, signal};

type Ended = Column<StepRow>;

const STEP: Ended = Ended::right("STEP", |row| id(row).into());
const ATTEMPT: Ended = Ended::right("ATTEMPT", |row| row.attempt.0.into());
const NAME: Ended = Ended::left_cut("NAME", 6, |row| (&row.record.name).into()).leaves(4);
const STATE: Ended = Ended::left("STATE", |row| {
    let state = row.record.end.state();
    FieldValue::State(state.word().into(), tone(state))
});
const EXIT: Ended = Ended::right("EXIT", |row| exit(&row.record.end).into());
const START: Ended = Ended::left("START", |row| FieldValue::Time(row.record.end.start)).leaves(0);
const TIME: Ended = Ended::right("TIME", |row| elapsed(&row.record.end).into()).leaves(5);
const CPU: Ended = Ended::right("CPU", |row| {
    let end = &row.record.end;
    FieldValue::CpuTime(end.user_cpu_us.saturating_add(end.system_cpu_us))
})
.leaves(3);
const MEMORY: Ended =
    Ended::right("MEMORY", |row| FieldValue::Bytes(row.record.end.peak_memory_bytes));
const TASKS: Ended = Ended::right("TASKS", |row| row.record.tasks.into()).leaves(1);
const NODES: Ended = Ended::left_cut("NODES", 5, |row| (&row.record.nodes).into()).leaves(2);

const ENDED: &[Ended] = &[
    STEP, NAME, STATE, EXIT, START, TIME, CPU, MEMORY, TASKS, NODES,
];

const ENDED_OF_ATTEMPTS: &[Ended] = &[
    STEP, ATTEMPT, NAME, STATE, EXIT, START, TIME, CPU, MEMORY, TASKS, NODES,
];

/// `chist --steps`: the attempt is told where one of them is not the first.
pub fn ended_columns(rows: &[StepRow]) -> &'static [Column<StepRow>] {
    if rows.iter().any(|row| row.attempt.0 > 1) {
        ENDED_OF_ATTEMPTS
    } else {
        ENDED
    }
}

/// Id as users write it: `12.0`, `12_3.0`.
pub fn id(row: &StepRow) -> String {
    format!("{}.{}", row.job, row.record.step)
}

/// Name of the signal that ended it, else its exit code.
fn exit(end: &End) -> String {
    match end.signal {
        0 => end.exit_code.to_string(),
        signal => signal::name(signal.into()),
    }
}

fn elapsed(end: &End) -> Option<Span> {
    end.start.map(|start| end.end.since(start))
}

/// Why a step ended, where its exit code does not say it.
fn reason(cause: &EndCause) -> &str {
    match cause {
        EndCause::LaunchFailed(reason) => reason,
        EndCause::SupervisorLost => "its supervisor on a node was killed",
        EndCause::NodeLost => "a node was lost",
        EndCause::Deadline => "it could not be over at its deadline",
        EndCause::Preempted => "it was preempted: a more important job needed its nodes",
        EndCause::Exited | EndCause::TimeLimit | EndCause::Cancelled | EndCause::OutOfMemory => "",
    }
}

/// All fields of an ended step.
pub fn ended_fields(row: &StepRow) -> Fields<'_> {
    let StepRow {
        job,
        attempt,
        record,
    } = row;
    let StepRecord {
        step,
        name,
        nodes,
        tasks,
        cores,
        end: how,
    } = record;
    let End {
        cause,
        exit_code,
        signal,
        start,
        end,
        user_cpu_us,
        system_cpu_us,
        peak_memory_bytes,
        // Of whole jobs only.
        devices: _,
    } = how;
    vec![
        ("id", id(row).into()),
        ("job", job.to_string().into()),
        ("attempt", attempt.0.into()),
        ("step", step.0.into()),
        ("name", name.into()),
        ("state", how.state().word().into()),
        ("reason", reason(cause).into()),
        ("exit_code", i64::from(*exit_code).into()),
        ("signal", i64::from(*signal).into()),
        ("nodes", nodes.into()),
        ("tasks", (*tasks).into()),
        ("cores", (*cores).into()),
        ("start", FieldValue::Time(*start)),
        ("end", (*end).into()),
        ("elapsed", elapsed(how).into()),
        ("user_cpu_us", FieldValue::CpuTime(*user_cpu_us)),
        ("system_cpu_us", FieldValue::CpuTime(*system_cpu_us)),
        ("peak_memory_bytes", FieldValue::Bytes(*peak_memory_bytes)),
    ]
}

/// `crun --list`: steps that run or wait.
pub const RUNNING: &[Column<StepInfo>] = &[
    Column::right("STEP", |step| step.key.to_string().into()),
    Column::left_cut("NAME", 8, |step| (&step.name).into()),
    Column::right("TASKS", |step| step.tasks.into()),
    Column::left("START", |step| match step.start {
        Some(start) => start.into(),
        None => "(waits)".into(),
    }),
    Column::left_cut("NODES", 9, |step| (&step.nodes).into()),
];

/// All fields of a step that runs or waits.
pub fn running_fields(step: &StepInfo) -> Fields<'_> {
    let StepInfo {
        key,
        name,
        nodes,
        tasks,
        start,
        // Slurm's front ends alone tell these.
        time_limit: _,
        memory: _,
    } = step;
    vec![
        ("id", key.to_string().into()),
        ("name", name.into()),
        ("tasks", (*tasks).into()),
        ("start", FieldValue::Time(*start)),
        ("nodes", nodes.into()),
    ]
}
