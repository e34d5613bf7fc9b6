//! Allocations in which nothing is launched: every node holds its share ready, and their
//! owners start steps in them until they are given back.
//!
//! There is no program whose node would enforce the limit, so the controller does: it ends
//! such a job at its limit, when it is cancelled, and when its owner gives it back. What
//! follows is settled at that moment; the job has ended when the last node is clean.

use crate::controller::Controller;
use crate::jobs::job::{Job, Part, PartStep};
use crate::record::AfterRun;
use cosy_model::node::{KillCause, NodeOrder};
use cosy_model::{End, EndCause, JobId, NodeId, Time, User};

impl Controller {
    /// Every node of the job gets ready, the first too.
    pub(crate) fn order_hold(&mut self, id: JobId, user: &User) {
        let Some(run) = self.jobs.get(&id).and_then(Job::run) else {
            return;
        };
        let nodes: Vec<NodeId> = run.parts.iter().map(|p| p.node).collect();
        for node in nodes {
            self.order_prepare_on(id, node, user);
        }
    }

    /// After a restart of the controller it is not known where nodes listen until they have
    /// registered; the job's first node is to be told of all of them.
    pub(crate) fn awaits_addresses(&self, id: JobId) -> bool {
        let parts = self.jobs.get(&id).and_then(Job::run).map(|r| &r.parts);
        let unheard = |part: &Part| {
            let node = self.machine.node(part.node);
            node.link.is_none() && !node.lost
        };
        parts.into_iter().flatten().any(unheard)
    }

    /// A node has registered: first nodes that had to wait for it get their orders.
    pub(crate) fn order_awaiting(&mut self, now: Time, registered: NodeId) {
        let jobs: Vec<JobId> = self.machine.node(registered).jobs.iter().copied().collect();
        for id in jobs {
            let Some(job) = self.jobs.get(&id).filter(|j| j.submitted.is_held()) else {
                continue;
            };
            let (uid, first) = (job.submitted.uid, job.run().and_then(|r| r.parts.first()));
            let Some(first) = first.filter(|p| p.step == PartStep::Ordered) else {
                continue;
            };
            let first = first.node;
            let over = job.run().is_some_and(|r| r.after.is_some());
            if over || first == registered || self.awaits_addresses(id) {
                continue;
            }
            match self.fresh_user(now, uid) {
                Some(user) => self.order_prepare_on(id, first, &user),
                None => self.machine.awaits_user(id, first),
            }
        }
    }

    /// The job runs as soon as every node is ready.
    pub(crate) fn held_ready(&mut self, now: Time, id: JobId) {
        let Some(run) = self.jobs.get_mut(&id).and_then(Job::run_mut) else {
            return;
        };
        let ready = run.parts.iter().all(|p| p.step == PartStep::Ready);
        if !ready || run.started.is_some() || run.after.is_some() {
            return;
        }
        // When an earlier controller had all of them ready, nobody knows any more.
        let start = if run.from_store { run.allocated } else { now };
        self.jobs.start_unsaved(id);
        self.program_began(now, id, start);
        self.expect_held_end(id);
    }

    /// Jobs whose time is over.
    pub(crate) fn held_due(&mut self, now: Time) {
        while let Some(id) = self.jobs.next_held_end(now) {
            self.end_held(now, id, KillCause::TimeLimit);
        }
    }

    /// Ends a job in which nothing is launched: its steps get SIGTERM, then, after the
    /// grace, SIGKILL.
    pub(crate) fn end_held(&mut self, now: Time, id: JobId, cause: KillCause) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let deadline = job.spec().deadline;
        let Some(run) = job.run_mut() else { return };
        if run.after.is_some() {
            return;
        }
        let end_cause = match cause {
            KillCause::TimeLimit => EndCause::TimeLimit,
            KillCause::Cancelled | KillCause::Superseded | KillCause::Requeued => {
                EndCause::Cancelled
            }
        };
        let after = match cause {
            KillCause::Requeued => AfterRun::Requeue,
            KillCause::Cancelled | KillCause::TimeLimit | KillCause::Superseded => {
                let end = End {
                    start: run.started,
                    ..End::never_ran(end_cause, now)
                };
                AfterRun::End(crate::procedures::node_reports::at_deadline(end, deadline))
            }
        };
        run.killed = Some(cause);
        let held: Vec<NodeId> = run.shares().iter().map(|share| share.node).collect();
        self.comes_to_end(now, id, after);
        self.save_job(id);
        for node in held {
            if self.machine.node(node).given_up {
                self.give_back(now, id, node);
            } else {
                self.order_end_held(id, node);
            }
        }
    }

    /// Its owner gives the job back.
    pub(crate) fn give_back_held(&mut self, now: Time, id: JobId, exit_code: i32, signal: i32) {
        let Some(run) = self.jobs.get(&id).and_then(Job::run) else {
            return;
        };
        let end = End {
            exit_code,
            signal,
            start: Some(run.started.unwrap_or(now)),
            ..End::never_ran(EndCause::Exited, now)
        };
        self.abandon(now, id, AfterRun::End(end), None);
    }

    /// Tells a node what is still to be done with its share of a job that comes to its end:
    /// its steps are killed with grace, or the share is only given back.
    pub(crate) fn order_end_held(&mut self, id: JobId, node: NodeId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let key = job.key();
        match job.run().and_then(|run| run.killed) {
            Some(cause) => self.order(node, |node| NodeOrder::Kill { key, node, cause }),
            None => self.order(node, |node| NodeOrder::Release { key, node }),
        }
    }

    /// What follows the attempt is settled. From now on it does not count as one that runs.
    pub(crate) fn comes_to_end(&mut self, now: Time, id: JobId, after: AfterRun) {
        let Some(run) = self.jobs.get_mut(&id).and_then(Job::run_mut) else {
            return;
        };
        if run.after.is_some() {
            return;
        }
        run.after = Some(after);
        let end = run.ends_at();
        if let Some(since) = run.suspended.take() {
            run.suspended_for = run.suspended_for + now.since(since);
            run.resuming = false;
        }
        if let Some(at) = end {
            self.jobs.end_held_no_more(at, id);
        }
        self.refill_interactive(now, id);
    }

    /// The end of an attempt with what its steps have used.
    ///
    /// Where a script ran, its own figures may hold those of its steps on the first node
    /// (control groups are nested): the larger of both is told, never a sum of the same.
    pub(crate) fn with_steps(&self, now: Time, job: &Job, mut end: End) -> End {
        let Some(run) = job.run() else { return end };
        end.user_cpu_us = end.user_cpu_us.max(run.steps.user_cpu_us);
        end.system_cpu_us = end.system_cpu_us.max(run.steps.system_cpu_us);
        end.peak_memory_bytes = end.peak_memory_bytes.max(run.steps.peak_memory_bytes);
        if job.submitted.is_held() && run.killed.is_some() {
            end.end = now; // when its steps were over, too
        }
        end
    }
}
