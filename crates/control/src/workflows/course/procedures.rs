//! Tasks end, fail, are tried again or released.

use crate::controller::Controller;
use crate::jobs::job::Submitted;
use crate::record::OfFlow;
use crate::set_aside::Object;
use crate::workflows::REMEMBER;
use crate::workflows::course::TaskEnd;
use cosy_model::workflow::{FlowState, FlowTaskState};
use cosy_model::{End, EndCause, FlowId, JobId, JobState, Time};

impl Controller {
    /// Takes note of a job that has just ended.
    pub(crate) fn flow_job_ended(&mut self, job: JobId, submitted: &Submitted) {
        let (Some(of), Some(ended)) = (submitted.flow, self.jobs.ended(job)) else {
            return;
        };
        let Some(end) = &ended.row.end else { return };
        let parts = ended.row.run.iter().flat_map(|run| &run.parts);
        let names: Vec<String> = parts.map(|part| part.node.clone()).collect();
        self.workflows.ended.push(TaskEnd {
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

    /// Does everything that follows from ends of jobs and from the time.
    pub(crate) fn flows_due(&mut self, now: Time) {
        while !self.workflows.ended.is_empty() {
            for ended in std::mem::take(&mut self.workflows.ended) {
                self.works_on(Object::Flow(ended.of.flow));
                self.task_ended(now, &ended);
            }
        }
        self.replan_due(now);
        while let Some(&(at, id)) = self.workflows.forget.first()
            && at <= now
        {
            self.workflows.forget.pop_first();
            self.workflows.all.remove(&id);
        }
    }

    fn task_ended(&mut self, now: Time, ended: &TaskEnd) {
        let of = ended.of;
        let known = self.workflows.task(of);
        if known.is_none_or(|task| task.job != ended.job || task.end.is_some()) {
            return; // put back by hand after its workflow was done with it
        }
        let given_up = self.workflows.get(of.flow).is_some_and(|flow| {
            matches!(flow.row.state, FlowState::Cancelled | FlowState::Expired)
        });
        let marked = known.is_some_and(|task| task.state == FlowTaskState::Released);
        let released = marked || given_up && ended.start.is_none();
        let good = ended.state == JobState::Completed;
        if let Some(task) = self.workflows.task_mut(of) {
            task.start = ended.start;
            task.end = Some(ended.end);
            task.nodes.clone_from(&ended.nodes);
            task.state = match (released, good) {
                (true, _) => FlowTaskState::Released,
                (false, true) => FlowTaskState::Done,
                (false, false) => FlowTaskState::Failed,
            };
            if !released && !good {
                task.failures += 1;
                task.note = ended.words();
            }
        }
        if let Some(flow) = self.workflows.all.get_mut(&of.flow) {
            flow.open = flow.open.saturating_sub(1);
        }
        if !released && !good {
            self.task_failed(now, ended);
        }
        if good {
            self.start_early(now, of);
        }
        self.close_flow_if_over(now, of.flow);
    }

    /// A task failed for good: what cannot run any more is released.
    fn task_failed(&mut self, now: Time, ended: &TaskEnd) {
        let of = ended.of;
        let Some(flow) = self.workflows.get(of.flow) else {
            return;
        };
        match flow.row.state {
            FlowState::Running => {}
            FlowState::Held => return self.hold_lost(now, ended),
            // It is being given up as a whole.
            FlowState::Completed
            | FlowState::Failed
            | FlowState::Cancelled
            | FlowState::Expired => return,
        }
        let planned = flow.row.deadline.is_some();
        let note = format!("task {} {}", flow.name_of(of.task), ended.words());
        let which = match planned {
            true => (0..flow.tasks.len() as u32).collect(),
            false => flow.descendants(of.task),
        };
        self.tell_flow_owner(now, of.flow, "task_failed", &note);
        let why = format!("workflow {}: {note}", of.flow);
        self.release_tasks(now, of.flow, &which, &why);
    }

    /// A slot of a held workflow is no longer there: nor are the others.
    fn hold_lost(&mut self, now: Time, ended: &TaskEnd) {
        let id = ended.of.flow;
        let until = self.workflows.get(id).and_then(|flow| flow.row.hold_until);
        let state = match until.is_some_and(|until| until <= now) {
            true => FlowState::Expired,
            false => FlowState::Cancelled,
        };
        if let Some(task) = self.workflows.task_mut(ended.of) {
            task.state = FlowTaskState::Released;
        }
        let by = ended.note.strip_prefix("cancelled by ");
        self.give_flow_up(now, id, state, by.unwrap_or("controller"));
    }

    /// Ends the jobs of those tasks that hold no nodes.
    pub(crate) fn release_tasks(&mut self, now: Time, id: FlowId, which: &[u32], why: &str) {
        for task in which {
            let of = OfFlow {
                flow: id,
                task: *task,
            };
            let job = self.workflows.task(of).filter(|t| t.end.is_none());
            let Some(job) = job.map(|task| task.job) else {
                continue;
            };
            if self.jobs.get(&job).is_none_or(|job| !job.is_waiting()) {
                continue;
            }
            if let Some(task) = self.workflows.task_mut(of) {
                task.state = FlowTaskState::Released;
            }
            self.cancel_job(now, job, why);
        }
    }

    /// The last job of a workflow is over.
    fn close_flow_if_over(&mut self, now: Time, id: FlowId) {
        let Some(flow) = self.workflows.get(id) else {
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
        if let Some(row) = self.workflows.row_mut(id) {
            row.state = state;
            row.closed = Some(now);
        }
        self.workflows.live = self.workflows.live.saturating_sub(1);
        self.workflows.forget.insert((now + REMEMBER, id));
        let detail = match failed {
            0 => state.to_string(),
            failed => format!("{state}, {failed} tasks not done"),
        };
        self.happened(now, "ended", "controller", format!("workflow {id}"), detail);
    }

    /// Whether a job whose attempt has ended waits again because its task is to be tried
    /// once more.
    pub(crate) fn flow_tries_again(&mut self, now: Time, job: JobId, end: &End) -> bool {
        let Some(of) = self.jobs.get(&job).and_then(|job| job.submitted.flow) else {
            return false;
        };
        let Some(flow) = self.workflows.get(of.flow) else {
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
        let fits = self.jobs.get(&job);
        let fits = fits.is_some_and(|job| self.fits_again(now, job, estimate));
        let what = match fits {
            true => "it is started again",
            false => "its slot is too short to start it again: it gets another one",
        };
        let note = format!(
            "{}, exit code {}, signal {}: {what}",
            end.state(),
            end.exit_code,
            end.signal
        );
        let text = format!("task {} {note}", flow.name_of(of.task));
        if let Some(task) = self.workflows.task_mut(of) {
            task.failures += 1;
            task.note = note;
            task.replan = !fits;
        }
        if !fits {
            self.workflows.doubtful.insert(of.flow);
        }
        self.happened(
            now,
            "retried",
            "controller",
            format!("workflow {}", of.flow),
            text,
        );
        true
    }
}
