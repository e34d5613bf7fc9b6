//! Tasks end, fail, are tried again or released.

use crate::config::ClusterConfig;
use crate::jobs::Jobs;
use crate::jobs::job::Submitted;
use crate::reservations::Reservations;
use crate::turn::Turn;
use crate::workflows::course::TaskEnd;
use crate::workflows::grow::fits_again;
use crate::workflows::{REMEMBER, Workflows};
use cosy_model::workflow::{FlowState, FlowTaskState};
use cosy_model::{End, EndCause, EventKind, EventObject, FlowId, JobId, JobState};

/// Takes note of a job that has just ended.
pub(crate) fn flow_job_ended(
    jobs: &Jobs,
    workflows: &mut Workflows,
    job: JobId,
    submitted: &Submitted,
) {
    let (Some(of), Some(ended)) = (submitted.flow, jobs.ended(job)) else {
        return;
    };
    let Some(end) = &ended.row.end else { return };
    let parts = ended.row.run.iter().flat_map(|run| &run.parts);
    let names: Vec<String> = parts.map(|part| part.node.clone()).collect();
    workflows.ended.push(TaskEnd {
        of,
        job,
        state: ended.state,
        start: end.start,
        end: end.end,
        exit_code: ended.exit_code,
        nodes: cosy_model::fold(&names),
        note: ended.row.note.clone(),
    });
}

impl Workflows {
    /// The last job of a workflow is over.
    pub(crate) fn close_flow_if_over(&mut self, turn: &mut Turn, id: FlowId) {
        let now = turn.now();
        let Some(flow) = self.get(id) else {
            return;
        };
        if flow.open > 0 || !flow.row.is_live() {
            return;
        }
        let failed = flow.tasks.iter().filter(|t| t.state != FlowTaskState::Done);
        let failed = failed.count();
        let state = match flow.row.state {
            FlowState::Running if failed == 0 => FlowState::Completed,
            FlowState::Running => FlowState::Failed,
            other @ (FlowState::Held
            | FlowState::Completed
            | FlowState::Failed
            | FlowState::Cancelled
            | FlowState::Expired) => other,
        };
        if let Some(row) = self.row_mut(id) {
            row.state = state;
            row.closed = Some(now);
        }
        self.live = self.live.saturating_sub(1);
        self.forget.insert((now + REMEMBER, id));
        let detail = match failed {
            0 => state.to_string(),
            failed => format!("{state}, {failed} tasks not done"),
        };
        turn.happened(now, EventKind::Ended, "controller", EventObject::Workflow(id), detail);
    }
}

/// Whether a job whose attempt has ended waits again because its task is to be tried
/// once more.
pub(crate) fn flow_tries_again(
    config: &ClusterConfig,
    jobs: &Jobs,
    reservations: &Reservations,
    workflows: &mut Workflows,
    turn: &mut Turn,
    job: JobId,
    end: &End,
) -> bool {
    let now = turn.now();
    let Some(of) = jobs.get(&job).and_then(|job| job.submitted().flow) else {
        return false;
    };
    let Some(flow) = workflows.get(of.flow) else {
        return false;
    };
    let task = &flow.tasks[of.task as usize];
    let wanted = task.failures < flow.spec.tasks[of.task as usize].retries;
    let lives = flow.row.state == FlowState::Running && task.end.is_none();
    let failed = end.state() != JobState::Completed && end.cause != EndCause::Cancelled;
    if !(wanted && lives && failed && task.job == job) {
        return false;
    }
    let estimate = task.estimate;
    let fits = jobs.get(&job);
    let fits = fits.is_some_and(|job| fits_again(config, reservations, now, job, estimate));
    let what = match fits {
        true => "it is started again",
        false => "its slot is too short to start it again: it gets another one",
    };
    let note =
        format!("{}, exit code {}, signal {}: {what}", end.state(), end.exit_code, end.signal);
    let text = format!("task {} {note}", flow.name_of(of.task));
    if let Some(task) = workflows.task_mut(of) {
        task.failures += 1;
        task.note = note;
        task.replan = !fits;
    }
    if !fits {
        workflows.doubtful.insert(of.flow);
    }
    turn.happened(now, EventKind::Retried, "controller", EventObject::Workflow(of.flow), text);
    true
}
