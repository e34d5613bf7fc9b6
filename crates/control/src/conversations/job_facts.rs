//! What a row of a list tells of a job: facts for [`cosy_view`], which makes cells of them.
//!
//! Facts are borrowed for the time of one row and looked up only for the fields that were asked
//! for.

pub(crate) mod procedures;

use crate::conversations::explain::reason;
use crate::conversations::job_facts::procedures::open_dependencies;
use crate::conversations::plans::Starts;
use crate::jobs::job::{Job, Submitted};
use crate::jobs::run::Part;
use crate::planning::launch::procedures::files_of_run;
use crate::planning::making_room::preemptible_from;
use crate::queues::order::priority;
use crate::record::{HeldBy, JobRow, PartRow};
use crate::rooms::Rooms;
use cosy_model::job::ResourceRequest;
use cosy_model::{End, EndCause, JobId, OsText, Time};
use cosy_view::job::{
    Array, AttemptTimes, Files, Holder, JobFacts, JobStatus, NodeHoldings, OpenDependency,
    PriorityFactors, Reason, RowName, Submission,
};
use cosy_view::words::end_note::NEVER_NOTE;
use std::collections::BTreeMap;

/// What the rows of a list need beside their jobs.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub rooms: &'a Rooms,
    pub now: Time,
    /// Starts that the last plan predicts, by job.
    pub starts: &'a Starts,
    /// Places in the order of the queue, by job.
    pub places: &'a BTreeMap<JobId, i64>,
}

impl<'a> Around<'a> {
    fn array(&self, base: JobId) -> Option<Array<'a>> {
        let group = self.rooms.jobs.group(&base)?;
        Some(Array {
            indices: group.indices(),
            at_once: group.at_once(),
        })
    }

    fn place(&self, id: JobId, submitted: &Submitted) -> Option<i64> {
        self.places.get(&whole(id, submitted)).copied()
    }

    fn predicted_start(&self, id: JobId, submitted: &Submitted) -> Option<Time> {
        self.starts.get(&whole(id, submitted))?.start
    }
}

/// The job that a component is one of.
fn whole(id: JobId, submitted: &Submitted) -> JobId {
    match submitted.spec.has_several_components() {
        true => submitted.base,
        false => id,
    }
}

/// A job that has not ended, waiting tasks of an array that look alike, or a component.
pub(crate) struct LiveFacts<'a> {
    pub around: Around<'a>,
    pub job: &'a Job,
    /// The indices of the tasks that the row stands for.
    pub tasks: Option<&'a [u32]>,
    /// Jobs of several components have a row for each.
    pub by_component: bool,
}

impl JobFacts for LiveFacts<'_> {
    fn name(&self) -> RowName<'_> {
        let submitted = &self.job.submitted();
        RowName {
            id: self.job.id(),
            base: submitted.base,
            index: self.job.member().map(|member| member.index),
            tasks: self.tasks,
            component: self.by_component && submitted.spec.has_several_components(),
        }
    }

    fn submission(&self) -> Submission<'_> {
        submission(self.job.submitted())
    }

    fn status(&self) -> JobStatus {
        JobStatus {
            state: self.job.state(),
            over: false,
            attempt: self.job.attempt(),
            eligible: self.job.eligible(),
            not_before: self.job.not_before(),
            held_by: self.job.held().map(holder),
            spares: self
                .job
                .run()
                .map_or(self.job.spec().spares, |run| run.spares()),
            apart: Some(self.job.own() && self.tasks.is_none()),
        }
    }

    fn attempt_times(&self) -> AttemptTimes {
        let submitted = &self.job.submitted();
        let run = self.job.run();
        let asked = submitted.place.limit();
        // What a reservation leaves of the limit is not told.
        let own = run.filter(|_| submitted.spec.reservation.is_none());
        let begun = run.filter(|run| run.started().is_some());
        AttemptTimes {
            allocated: run.map(|run| run.allocated()),
            start: run.map(|run| run.started().unwrap_or(run.allocated())),
            latest_end: run.and_then(|run| run.ends_at()),
            elapsed: begun.map(|run| run.elapsed(self.around.now)),
            limit: Some(own.map_or(asked, |run| run.limit())),
            suspended_for: run.map(|run| run.suspended_for()),
            suspended_since: run.and_then(|run| run.suspended()),
            resized: run.and_then(|run| run.resized()),
            preempted: run.and_then(|run| run.preempted()).map(|row| row.at),
            preemptible: preemptible_from(self.around.rooms, self.job),
            derived: run.map(|run| (run.steps().exit_code, run.steps().signal)),
        }
    }

    fn end(&self) -> Option<&End> {
        None
    }

    fn reason(&self) -> Reason<'_> {
        let reason = reason(
            &self.around.rooms.machine,
            &self.around.rooms.planning,
            &self.around.rooms.reservations,
            self.around.now,
            self.job,
        );
        reason.map_or(Reason::Nothing, Reason::Waits)
    }

    fn held(&self) -> impl Iterator<Item = NodeHoldings<'_>> {
        let parts = self.job.run().into_iter().flat_map(|run| run.parts());
        parts.map(|part: &Part| NodeHoldings {
            node: &self.around.rooms.machine.node(part.node()).spec().name,
            tasks: part.tasks(),
            amounts: part.amounts(),
            core_ids: part.cores(),
            gpu_ids: part.gpus(),
        })
    }

    fn failed_nodes(&self) -> Vec<&str> {
        self.job.spec().failed_nodes().collect()
    }

    fn priority(&self) -> i64 {
        let submitted = &self.job.submitted();
        let scored = || {
            let queues = &self.around.rooms.queues;
            let queue = queues.get(queues.id_of(&submitted.queue)?).spec();
            queues.scores().priority(queue, self.job, self.around.now)
        };
        match self.job.held() {
            Some(_) => 0,
            None => scored().unwrap_or_else(|| priority(&submitted.spec, submitted.rank())),
        }
    }

    fn factors(&self) -> Option<PriorityFactors> {
        let queues = &self.around.rooms.queues;
        let queue = queues.id_of(&self.job.submitted().queue)?;
        let waits = self.job.is_waiting() && self.job.eligible().is_some();
        let waits = waits && self.job.held().is_none();
        let queue = queues.get(queue).spec();
        let told = || {
            queues
                .scores()
                .factors_told(queue, self.job, self.around.now)
        };
        waits.then(told).flatten()
    }

    fn place(&self) -> Option<i64> {
        self.around.place(self.job.id(), self.job.submitted())
    }

    fn predicted_start(&self) -> Option<Time> {
        self.around
            .predicted_start(self.job.id(), self.job.submitted())
    }

    fn files(&self) -> Files {
        files_of(match self.job.run() {
            Some(run) => files_of_run(&self.around.rooms.machine, self.job, run),
            None => {
                let index = self.job.member().map(|member| member.index);
                crate::planning::launch::files(self.job.submitted(), self.job.id(), index, "%N")
            }
        })
    }

    fn waits_for(&self) -> Vec<OpenDependency<'_>> {
        match self.job.is_waiting() {
            true => open_dependencies(
                &self.around.rooms.jobs,
                &self.around.rooms.aside,
                self.around.now,
                self.job,
            ),
            false => Vec::new(),
        }
    }

    fn array(&self) -> Option<Array<'_>> {
        self.around.array(self.job.submitted().base)
    }

    fn gets_whole_nodes(&self) -> bool {
        self.job.submitted().is_exclusive()
    }

    fn least_nodes(&self) -> Option<u32> {
        self.job.submitted().place.least()
    }

    fn requests(&self) -> impl Iterator<Item = &ResourceRequest> {
        self.job.submitted().requests()
    }
}

/// A job that has ended, or a component of one.
pub(crate) struct EndedFacts<'a> {
    /// What a list of present jobs knows beside its row; history knows nothing else.
    pub around: Option<Around<'a>>,
    pub row: &'a JobRow,
    pub submitted: &'a Submitted,
    /// Jobs of several components have a row for each.
    pub by_component: bool,
}

impl JobFacts for EndedFacts<'_> {
    fn name(&self) -> RowName<'_> {
        RowName {
            id: self.row.id,
            base: self.row.base,
            index: self.row.index,
            tasks: None,
            component: self.by_component && self.submitted.spec.has_several_components(),
        }
    }

    fn submission(&self) -> Submission<'_> {
        submission(self.submitted)
    }

    fn status(&self) -> JobStatus {
        JobStatus {
            state: self.row.state,
            over: true,
            attempt: self.row.attempt,
            eligible: self.row.eligible,
            not_before: None,
            held_by: None,
            spares: self.row.run.as_ref().map_or(0, |run| run.spares),
            apart: self.around.map(|_| false),
        }
    }

    fn attempt_times(&self) -> AttemptTimes {
        let spec = &self.submitted.spec;
        let (run, end) = (self.row.run.as_ref(), self.row.end.as_ref());
        let start = end.and_then(|end| end.start);
        let start = start.or(run.and_then(|run| run.started));
        let stopped = run.map_or(0, |run| run.suspended_for.0);
        let asked = match self.around {
            Some(_) => Some(self.submitted.place.limit()),
            None => spec.time_limit,
        };
        let own = run.filter(|_| spec.reservation.is_none());
        AttemptTimes {
            allocated: run.map(|run| run.allocated),
            start,
            latest_end: None,
            elapsed: start.zip(end).map(|(start, end)| {
                let whole = end.end.since(start);
                cosy_model::Span((whole.0 - stopped).max(0))
            }),
            limit: own.and_then(|run| run.limit).or(asked),
            suspended_for: run.map(|run| run.suspended_for),
            suspended_since: None,
            resized: run.and_then(|run| run.resized),
            preempted: run.and_then(|run| run.preempted).map(|row| row.at),
            preemptible: None,
            derived: Some(self.row.derived),
        }
    }

    fn end(&self) -> Option<&End> {
        self.row.end.as_ref()
    }

    fn reason(&self) -> Reason<'_> {
        Reason::Ended(&self.row.note)
    }

    fn held(&self) -> impl Iterator<Item = NodeHoldings<'_>> {
        let parts = self.row.run.iter().flat_map(|run| &run.parts);
        parts.map(|part: &PartRow| NodeHoldings {
            node: &part.node,
            tasks: part.tasks,
            amounts: &part.amounts,
            core_ids: &part.cores,
            gpu_ids: &part.gpus,
        })
    }

    fn failed_nodes(&self) -> Vec<&str> {
        let Some(run) = &self.row.run else {
            return Vec::new();
        };
        let end = self.row.end.as_ref();
        let killed = end.is_some_and(|end| end.cause == EndCause::SupervisorLost);
        // That was on the first node.
        let first = run.parts.first().filter(|_| killed && run.lost.is_empty());
        let lost = run.lost.iter().chain(first.map(|part| &part.node));
        lost.map(|name| &**name).collect()
    }

    fn priority(&self) -> i64 {
        priority(&self.submitted.spec, self.submitted.rank())
    }

    fn factors(&self) -> Option<PriorityFactors> {
        None
    }

    fn place(&self) -> Option<i64> {
        self.around?.place(self.row.id, self.submitted)
    }

    fn predicted_start(&self) -> Option<Time> {
        self.around?.predicted_start(self.row.id, self.submitted)
    }

    fn files(&self) -> Files {
        let parts = self.row.run.as_ref().map(|run| run.parts.as_slice());
        let first = parts.and_then(<[PartRow]>::first);
        let node = first.map_or("", |part| &part.node);
        let index = self.row.index;
        files_of(crate::planning::launch::files(self.submitted, self.row.id, index, node))
    }

    /// All of it can no longer happen, where it has ended by that.
    fn waits_for(&self) -> Vec<OpenDependency<'_>> {
        let never = self.row.note == NEVER_NOTE;
        let all = self.submitted.spec.dependencies.iter();
        let failed = all.filter(|_| never).map(|dependency| OpenDependency {
            dependency,
            whole: false,
            failed: true,
        });
        failed.collect()
    }

    fn array(&self) -> Option<Array<'_>> {
        self.around?.array(self.row.base)
    }

    fn gets_whole_nodes(&self) -> bool {
        self.submitted.is_exclusive()
    }

    fn least_nodes(&self) -> Option<u32> {
        self.submitted.place.least()
    }

    fn requests(&self) -> impl Iterator<Item = &ResourceRequest> {
        self.submitted.requests()
    }
}

fn submission(submitted: &Submitted) -> Submission<'_> {
    Submission {
        user: &submitted.user,
        uid: submitted.uid,
        gid: submitted.gid,
        queue: &submitted.queue,
        submit: submitted.submit,
        spec: &submitted.spec,
    }
}

const fn holder(held: HeldBy) -> Holder {
    match held {
        HeldBy::User => Holder::User,
        HeldBy::Admin => Holder::Admin,
        HeldBy::Requeued | HeldBy::Special | HeldBy::Losses => Holder::Requeued,
        HeldBy::Restored => Holder::Restored,
    }
}

fn files_of((stdout, stderr, stdin): (OsText, OsText, OsText)) -> Files {
    Files {
        stdout,
        stderr,
        stdin,
    }
}
