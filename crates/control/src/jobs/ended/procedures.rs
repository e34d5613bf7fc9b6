//! What is told of a job that has ended, live memory or not.

use crate::jobs::ended::Ended;
use cosy_model::JobId;
use cosy_model::api::EndedJob;

pub(crate) fn ended_job(id: JobId, ended: &Ended) -> EndedJob {
    let job = match ended.row.index {
        Some(task) => cosy_model::api::JobRef {
            job: ended.submitted.base,
            task: Some(task),
        },
        None => cosy_model::api::JobRef {
            job: id,
            task: None,
        },
    };
    EndedJob {
        job,
        state: ended.state,
        exit_code: ended.exit_code,
        signal: ended.signal,
        note: ended.row.note.clone(),
    }
}
