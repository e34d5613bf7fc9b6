//! Workflows without a deadline: all jobs are submitted in one turn, or none is.

use crate::event::{Caller, Facts};
use crate::jobs::Jobs;
use crate::jobs::check::Coming;
use crate::jobs::check::procedures::entering;
use crate::jobs::submit::Ready;
use crate::jobs::submit::procedures::ready;
use crate::record::Record;
use crate::rooms::Rooms;
use crate::turn::Turn;
use crate::workflows::check::Graph;
use crate::workflows::resolve::of_task;
use crate::workflows::{Flow, Workflows};
use cosy_model::api::Submission;
use cosy_model::workflow::FlowSpec;
use cosy_model::{
    Dependency, DependencyKind, EventKind, EventObject, JobId, OsText, Refusal, RefusalCode, Span,
    limits,
};

impl Workflows {
    pub(crate) fn may_have_flow(&self) -> Result<(), Refusal> {
        if self.live >= limits::FLOWS {
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!("{} workflows are not over yet: try again later", limits::FLOWS),
            ));
        }
        Ok(())
    }

    /// Takes a new workflow into memory and store, before its jobs.
    pub(crate) fn add_flow(&mut self, turn: &mut Turn, mut flow: Flow, kind: EventKind) {
        let now = turn.now();
        let id = flow.row.id;
        turn.record(Record::FlowMade {
            row: Box::new(flow.row.clone()),
            environment: std::mem::take(&mut flow.spec.environment),
            spec: Box::new(flow.spec.clone()),
        });
        for task in &flow.tasks {
            turn.record(Record::FlowTask(Box::new(task.clone())));
        }
        let detail = format!("{}, {} tasks", flow.spec.name, flow.tasks.len());
        let who = flow.row.user.clone();
        turn.happened(now, kind, &who, EventObject::Workflow(id), detail);
        self.live += 1;
        self.all.insert(id, flow);
    }
}

/// The ids that the jobs of a workflow get when nothing else enters before them: none is
/// below those of the task's parents.
pub(crate) fn job_ids(jobs: &Jobs, graph: &Graph) -> Vec<JobId> {
    let mut ids = vec![JobId(0); graph.order.len()];
    for (at, task) in graph.order.iter().enumerate() {
        ids[*task as usize] = JobId(jobs.next_id().0 + at as u64);
    }
    ids
}

/// Checks the jobs of all tasks; their scripts leave the workflow's own spec.
///
/// # Errors
/// The first that cannot be submitted, with the task's name.
pub(crate) fn ready_tasks(
    rooms: &Rooms,
    caller: &Caller,
    spec: &mut FlowSpec,
    graph: &Graph,
) -> Result<Vec<Ready>, Refusal> {
    let mut coming = Coming::new();
    let mut all = Vec::with_capacity(graph.order.len());
    let ids = job_ids(&rooms.jobs, graph);
    for task in &graph.order {
        let at = *task as usize;
        let script = std::mem::take(&mut spec.tasks[at].script);
        let submission = submission_of(spec, at, script);
        let ready = ready(rooms, caller, submission, &Facts::default(), false, &coming);
        let mut ready = ready.map_err(|refusal| of_task(&spec.tasks[at].name, refusal))?;
        for (queue, parts) in entering(&rooms.config, &rooms.queues, &ready.spec, ready.queue) {
            *coming.entry(queue).or_default() += parts;
        }
        let parents = graph.parents[at].iter();
        ready.spec.dependencies = parents.map(|p| after(ids[*p as usize])).collect();
        all.push(ready);
    }
    Ok(all)
}

/// The job of a task as if it were submitted by itself.
fn submission_of(spec: &FlowSpec, task: usize, script: OsText) -> Submission {
    let asked = &spec.tasks[task];
    let mut job = asked.spec.clone();
    job.name = format!("{}.{}", spec.name, asked.name);
    job.environment = OsText::default();
    job.umask = spec.umask;
    job.rlimits = spec.rlimits.clone();
    job.account = job.account.or_else(|| spec.account.clone());
    job.begin = job.begin.max(spec.earliest);
    job.any_dependency = false;
    // Its workflow ends it when nothing can come of it.
    job.end_if_never = Some(false);
    Submission {
        spec: job,
        script,
        array: None,
    }
}

fn after(job: JobId) -> Dependency {
    Dependency {
        kind: DependencyKind::AfterOk,
        job,
        task: None,
        delay: Span::ZERO,
    }
}
