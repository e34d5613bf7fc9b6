//! Attempts that end because nodes were lost, and the names of these nodes.
//!
//! Always holds: a node is named only where its loss ends the attempt, not where it was
//! lost while the attempt was cleaned up after an end of its own.

use crate::controller::Controller;
use crate::jobs::job::{Job, Run};
use crate::procedures::node_reports::job_key;
use crate::record::AfterRun;
use cosy_model::node::{KillCause, NodeOrder};
use cosy_model::{End, EndCause, JobId, NodeId, Time};

impl Run {
    /// A node is lost under the attempt.
    pub fn note_lost(&mut self, node: NodeId) {
        if self.after.is_none() || !self.lost.is_empty() {
            self.lost.insert(node);
        }
    }
}

impl Controller {
    /// A node is given up: its attempts end or wait again. One that can be reached ends what
    /// it has first; what it should have ended before is no longer waited for.
    pub(crate) fn give_up_node(&mut self, now: Time, id: NodeId, why: &str) {
        let reached = self.machine.node(id).link.is_some();
        let name = self.machine.name(id).to_owned();
        self.programs_lost(now, &name);
        let jobs: Vec<JobId> = self.machine.node(id).jobs.iter().copied().collect();
        for job_id in jobs {
            let Some(job) = self.jobs.get_mut(&job_id) else {
                continue;
            };
            if let Some(run) = job.run_mut() {
                if run.leaves(id) && run.after.is_none() {
                    self.give_back(now, job_id, id);
                    continue;
                }
                run.note_lost(id);
            }
            let ends = job.run().is_some_and(|run| run.after.is_some());
            let clean = (ends || !reached).then_some(id);
            let after = after_loss(job, now);
            let object = format!("job {job_id}");
            self.happened(
                now,
                "node_lost",
                "controller",
                object,
                format!("{name}: {why}"),
            );
            let key = job_key(self.jobs.get(&job_id));
            self.abandon(now, job_id, after, clean);
            if let Some(key) = key {
                self.order(id, |node| NodeOrder::Kill {
                    key,
                    node,
                    cause: KillCause::Superseded,
                });
            }
        }
    }

    /// `node n1 was lost`, where that ends the job's attempt.
    pub(crate) fn lost_words(&self, job: &Job) -> Option<String> {
        let lost = job.run()?.lost.iter();
        let names: Vec<&str> = lost.map(|n| &*self.machine.node(*n).spec.name).collect();
        match names.len() {
            0 => None,
            1 => Some(format!("node {} was lost", names[0])),
            _ => Some(format!("nodes {} were lost", cosy_model::fold(&names))),
        }
    }
}

/// What follows an attempt that is lost with a node, before that is settled. One whose program
/// may have run is followed by another only where the job may run again.
pub(crate) fn after_loss(job: &Job, now: Time) -> AfterRun {
    let Some(run) = job.run() else {
        return AfterRun::Requeue;
    };
    match run.killed {
        Some(KillCause::Cancelled) => {
            return AfterRun::End(lost_end(EndCause::Cancelled, run.started, now));
        }
        Some(KillCause::Requeued) => return AfterRun::Requeue,
        Some(KillCause::TimeLimit | KillCause::Superseded) | None => {}
    }
    // Where nobody knows whether it has run it waits, and is held.
    let asks = run.doubtful && !job.spec().attended;
    match asks || job.submitted.runs_again(run.may_have_run()) {
        true => AfterRun::Requeue,
        false => AfterRun::End(lost_end(EndCause::NodeLost, run.started, now)),
    }
}

/// The end of an attempt of which nothing more is heard.
fn lost_end(cause: EndCause, start: Option<Time>, now: Time) -> End {
    End {
        start,
        ..End::never_ran(cause, now)
    }
}
