//! Lists that are asked for, and why a job waits. A user sees what is theirs; administrators see
//! everything.

use crate::controller::Controller;
use crate::conversations::listing::{Answering, ListRequest};
use crate::conversations::plans::{PendingPlan, Starts};
use crate::conversations::requests::no_job;
use crate::event::{Caller, ClientId};
use crate::jobs::job::{Job, Phase, Place};
use cosy_model::api::{JobField, JobFilter, JobRef, Reply};
use cosy_model::{Refusal, Time, WaitReason};
use cosy_view::job::{Waiting, why};
use cosy_view::list::Needs;

/// A list as it is asked for.
pub(crate) fn list_of(
    client: ClientId,
    caller: Box<Caller>,
    filter: JobFilter,
    fields: Vec<JobField>,
    fold: bool,
    starts: Option<Starts>,
) -> ListRequest {
    let answering = Answering::List {
        pages: filter.pages,
        after: filter.after,
    };
    ListRequest {
        client,
        caller,
        filter,
        fields,
        fold,
        starts,
        answering,
    }
}

impl Controller {
    pub(crate) fn jobs_or_plan(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        filter: JobFilter,
        fields: Vec<JobField>,
        fold: bool,
    ) -> Option<Reply> {
        if Needs::of(&fields).predictions && self.must_plan(now) {
            self.ask_plan(
                now,
                PendingPlan::Jobs {
                    client,
                    caller: Box::new(caller.clone()),
                    filter: Box::new(filter),
                    fields,
                    fold,
                },
                None,
            );
            return None;
        }
        let asked = list_of(client, Box::new(caller.clone()), filter, fields, fold, None);
        self.list(now, asked)
    }

    /// Why a job waits, or has not gone on yet.
    pub(crate) fn reason(&self, now: Time, job: &Job) -> Option<WaitReason> {
        match &job.phase {
            // It runs on as soon as it has its cores again.
            Phase::Run(run) => run.resuming.then_some(WaitReason::Resources),
            Phase::Waiting(Some(reason)) => Some(reason.clone()),
            Phase::Waiting(None) => Some(self.planner_reason(now, job)),
        }
    }

    /// What the planner says; it does not know that some nodes have not told yet what
    /// they have.
    pub(crate) fn planner_reason(&self, now: Time, job: &Job) -> WaitReason {
        let reason = self.planner_for(job.id).why(now, job.id);
        let reason = reason.unwrap_or(WaitReason::Priority);
        let untold = || match &job.submitted.place {
            Place::Good { demand, .. } => {
                let further = demand.more.iter().flat_map(|part| part.allowed.iter());
                let mut nodes = demand.allowed.iter().chain(further);
                nodes.any(|n| !self.machine.node(n).known)
            }
            Place::Lost | Place::Beyond { .. } => false,
        };
        if reason == WaitReason::NeverFits && untold() {
            return WaitReason::NodesUnavailable;
        }
        reason
    }

    pub(crate) fn explain(
        &mut self,
        now: Time,
        client: ClientId,
        caller: &Caller,
        target: JobRef,
    ) -> Result<Option<Reply>, Refusal> {
        let submitted = self.submitted_of(target);
        if !submitted.is_some_and(|job| self.may_see(caller, job)) {
            return Err(no_job(target));
        }
        let queued = self.first_queued(target);
        let waiting = queued.or_else(|| self.first_inside_that_awaits_turn(target));
        let Some(waiting) = waiting.filter(|_| self.conversations.plans.have_room()) else {
            let starts = self.conversations.plans.last().clone();
            return Ok(self.explained(now, client, Box::new(caller.clone()), target, starts));
        };
        self.ask_plan(
            now,
            PendingPlan::Explain {
                client,
                caller: Box::new(caller.clone()),
                job: target,
            },
            Some(waiting),
        );
        Ok(None)
    }

    /// Begins to explain a job with the starts that a plan predicts; the answer, or `None`
    /// when it comes later.
    pub(crate) fn explained(
        &mut self,
        now: Time,
        client: ClientId,
        caller: Box<Caller>,
        target: JobRef,
        starts: Starts,
    ) -> Option<Reply> {
        let filter = JobFilter {
            ids: vec![target],
            ..JobFilter::default()
        };
        let asked = ListRequest {
            client,
            caller,
            filter,
            fields: JobField::ALL.to_vec(),
            fold: true,
            starts: Some(starts),
            answering: Answering::Job(target),
        };
        self.list(now, asked)
    }

    /// Sentences about a job that has not ended. `place`: its place among all that wait, from 1.
    pub(crate) fn lines(
        &self,
        now: Time,
        job: &Job,
        (starts, place): (&Starts, Option<i64>),
    ) -> Vec<String> {
        let mut first = Vec::new();
        if job.spec().attended {
            first.push("it is interactive: it ends when its command goes".to_owned());
        } else if job.submitted.is_held() {
            first.push(
                "it is an allocation: steps are started in it until it is given back".to_owned(),
            );
        }
        first.extend(Self::told_cut(job));
        let Phase::Waiting(reason) = &job.phase else {
            return first;
        };
        let reason = reason
            .clone()
            .unwrap_or_else(|| self.planner_reason(now, job));
        let line = why(
            &reason,
            Waiting {
                spec: job.spec(),
                queue: &job.submitted.queue,
                before: place.map(|place| place - 1),
                interactive_per_user: self.config.policy.interactive_per_user,
            },
        );
        let mut lines = first;
        lines.push(line);
        lines.extend(self.delay_lines(job.id));
        if let Some(prediction) = starts.get(&job.id)
            && prediction.start.is_none()
        {
            lines.push("no start can be predicted".to_owned());
        }
        lines
    }
}
