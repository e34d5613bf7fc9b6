//! The end of an allocation: given back by this command, or told by the controller.

use crate::{Context, output};
use cosy_client::CallError;
use cosy_model::api::{EndedJob, Request};
use cosy_model::{JobId, JobState, RefusalCode, signal};

/// Gives an allocation back; one that has ended already is no error.
pub fn finish(context: &Context, job: JobId, exit_code: i32, signal: i32) {
    let request = Request::Finish {
        job,
        exit_code,
        signal,
    };
    let over = [RefusalCode::WrongState, RefusalCode::NotFound];
    match context.ask(request) {
        Ok(_) => {}
        Err(CallError::Refused(refusal)) if over.contains(&refusal.code) => {}
        Err(e) => output::complain(context.program(), &format!("cannot give job {job} back: {e}")),
    }
}

/// How a job ended, as a sentence: `job 12 was cancelled`.
pub fn describe_end(job: &EndedJob) -> String {
    let how = match job.state {
        JobState::Completed => "has ended".to_owned(),
        JobState::TimedOut => "was ended at its time limit".to_owned(),
        JobState::Cancelled => "was cancelled".to_owned(),
        JobState::OutOfMemory => "was ended because it ran out of memory".to_owned(),
        JobState::NodeFailed if job.note.is_empty() => {
            "was ended because one of its nodes was lost".to_owned()
        }
        JobState::NodeFailed => format!("was ended: {}", job.note),
        JobState::Preempted => "was ended for something more important".to_owned(),
        JobState::LaunchFailed => "could not be started".to_owned(),
        JobState::Deadline => "was ended at its deadline".to_owned(),
        JobState::Failed => match (job.signal, job.exit_code) {
            (0, code) => format!("has ended with exit code {code}"),
            (signal, _) => format!("was ended by signal {}", signal::name(signal.into())),
        },
        JobState::Waiting
        | JobState::Starting
        | JobState::Running
        | JobState::Suspended
        | JobState::Completing => format!("is {}", job.state),
    };
    format!("job {} {how}", job.job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_jobs() {
        let check = |state, exit_code, signal, note: &str, want: &str| {
            let job = EndedJob {
                job: cosy_model::api::JobRef {
                    job: JobId(12),
                    task: None,
                },
                state,
                exit_code,
                signal,
                note: note.to_owned(),
            };
            assert_eq!(describe_end(&job), want);
        };
        check(JobState::TimedOut, 0, 15, "", "job 12 was ended at its time limit");
        let failed = |code, signal, want| check(JobState::Failed, code, signal, "", want);
        failed(3, 0, "job 12 has ended with exit code 3");
        failed(0, 9, "job 12 was ended by signal KILL");
        let lost = |note, want| check(JobState::NodeFailed, 0, 0, note, want);
        lost("nodes n[1-2] were lost", "job 12 was ended: nodes n[1-2] were lost");
        lost("", "job 12 was ended because one of its nodes was lost");
    }
}
