//! Workflows without a deadline: all jobs are submitted in one turn, or none is.

use super::Flow;
use crate::controller::Controller;
use crate::event::{Caller, ClientId, Facts};
use crate::procedures::check::Coming;
use crate::procedures::submit::Ready;
use crate::record::{FlowRow, FlowTaskRow, OfFlow, Record};
use crate::workflows::check::{Graph, check};
use crate::workflows::resolve::of_task;
use cosy_model::api::{Reply, Submission};
use cosy_model::workflow::{FlowSpec, FlowState, FlowTaskState};
use cosy_model::{
    Dependency, DependencyKind, FlowId, JobId, OsText, Refusal, RefusalCode, Span, Time, limits,
};

impl Controller {
    pub(crate) fn submit_flow(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        key: Option<[u8; 16]>,
        spec: FlowSpec,
        hold: bool,
    ) -> Result<Option<Reply>, Refusal> {
        let graph = check(now, &spec)?;
        self.may_have_flow()?;
        if spec.deadline.is_some() {
            return self.submit_planned(now, client, caller, key, spec, graph, hold);
        }
        if hold {
            return Err(Refusal::invalid(
                "a workflow without a deadline has no slots to hold: give it one, or submit it without a hold",
            ));
        }
        self.submit_plain(now, caller, spec, graph).map(Some)
    }

    pub(crate) fn may_have_flow(&self) -> Result<(), Refusal> {
        if self.workflows.live >= limits::FLOWS {
            return Err(Refusal::new(
                RefusalCode::TooMany,
                format!(
                    "{} workflows are not over yet: try again later",
                    limits::FLOWS
                ),
            ));
        }
        Ok(())
    }

    fn submit_plain(
        &mut self,
        now: Time,
        caller: &Caller,
        mut spec: FlowSpec,
        graph: Graph,
    ) -> Result<Reply, Refusal> {
        let ready = self.ready_tasks(caller, &mut spec, &graph)?;
        let id = FlowId(self.workflows.next);
        self.workflows.next += 1;
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
        let jobs = self.job_ids(&graph);
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
        self.add_flow(now, Flow::new(row, spec, graph, tasks), "submitted");
        self.enter_tasks(now, caller, id, ready);
        self.flow_reply(id)
    }

    /// Takes a new workflow into memory and store, before its jobs.
    pub(crate) fn add_flow(&mut self, now: Time, mut flow: Flow, what: &str) {
        let id = flow.row.id;
        self.record(Record::FlowMade {
            row: Box::new(flow.row.clone()),
            environment: std::mem::take(&mut flow.spec.environment),
            spec: Box::new(flow.spec.clone()),
        });
        for task in &flow.tasks {
            self.record(Record::FlowTask(Box::new(task.clone())));
        }
        let detail = format!("{}, {} tasks", flow.spec.name, flow.tasks.len());
        let who = flow.row.user.clone();
        self.happened(now, what, &who, format!("workflow {id}"), detail);
        self.workflows.live += 1;
        self.workflows.all.insert(id, flow);
    }

    /// The ids that the jobs of a workflow get when nothing else enters before them: none is
    /// below those of the task's parents.
    pub(crate) fn job_ids(&self, graph: &Graph) -> Vec<JobId> {
        let mut ids = vec![JobId(0); graph.order.len()];
        for (at, task) in graph.order.iter().enumerate() {
            ids[*task as usize] = JobId(self.jobs.next_id().0 + at as u64);
        }
        ids
    }

    /// Checks the jobs of all tasks; their scripts leave the workflow's own spec.
    ///
    /// # Errors
    /// The first that cannot be submitted, with the task's name.
    pub(crate) fn ready_tasks(
        &self,
        caller: &Caller,
        spec: &mut FlowSpec,
        graph: &Graph,
    ) -> Result<Vec<Ready>, Refusal> {
        let mut coming = Coming::new();
        let mut all = Vec::with_capacity(graph.order.len());
        let ids = self.job_ids(graph);
        for task in &graph.order {
            let at = *task as usize;
            let script = std::mem::take(&mut spec.tasks[at].script);
            let submission = submission_of(spec, at, script);
            let ready = self.ready(caller, submission, &Facts::default(), false, &coming);
            let mut ready = ready.map_err(|refusal| of_task(&spec.tasks[at].name, refusal))?;
            for (queue, parts) in self.entering(&ready.spec, ready.queue) {
                *coming.entry(queue).or_default() += parts;
            }
            let parents = graph.parents[at].iter();
            ready.spec.dependencies = parents.map(|p| after(ids[*p as usize])).collect();
            all.push(ready);
        }
        Ok(all)
    }

    /// Takes the jobs of all tasks, in the order in which they were checked.
    pub(crate) fn enter_tasks(
        &mut self,
        now: Time,
        caller: &Caller,
        flow: FlowId,
        ready: Vec<Ready>,
    ) {
        let order = self.workflows.get(flow).map(|f| f.graph.order.clone());
        for (task, ready) in order.unwrap_or_default().into_iter().zip(ready) {
            let of = OfFlow { flow, task };
            self.enter(now, caller, ready, Some(of));
        }
    }
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
