//! What is told of jobs whose end was waited for, and what a state is to whoever reads it.

use crate::column::Fields;
use crate::value::Tone;
use cosy_model::JobState;
use cosy_model::api::EndedJob;

/// What the state of a job or step is to whoever reads it.
pub const fn tone(state: JobState) -> Tone {
    use JobState as S;
    match state {
        S::Running | S::Starting | S::Completing => Tone::Active,
        S::Waiting | S::Suspended => Tone::Waiting,
        S::Completed | S::Cancelled => Tone::Quiet,
        S::Failed
        | S::TimedOut
        | S::OutOfMemory
        | S::NodeFailed
        | S::Preempted
        | S::LaunchFailed
        | S::Deadline => Tone::Wrong,
    }
}

/// All fields of a job that was waited for.
pub fn ended_fields(ended: &EndedJob) -> Fields<'_> {
    let EndedJob {
        job,
        state,
        exit_code,
        signal,
        note,
    } = ended;
    vec![
        ("ref", job.to_string().into()),
        ("state", state.word().into()),
        ("exit_code", i64::from(*exit_code).into()),
        ("signal", i64::from(*signal).into()),
        ("note", note.into()),
    ]
}
