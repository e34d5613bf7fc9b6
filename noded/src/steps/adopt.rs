//! Steps that an earlier daemon left: those that run are followed and their hops connected
//! again, those that have ended are told, those whose supervisor was lost are cleaned up.

use super::layout::{NodeUse, gpus_wanted};
use super::login_list::Logins;
use super::records::{RECORDS, left_over, list_left_over};
use super::spool::{NEXT, holder, limit, list, outcome, read};
use super::start::below;
use super::table::{First, Running, Steps, SupervisorState};
use super::{StepOutcome, StepTask};
use crate::clock;
use crate::spool::{KeptAttempt, Phase};
use cosy_model::node::{Allocation, AttemptKey};
use cosy_model::step::{JobPart, StepKey};
use nix::unistd::Pid;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

impl Steps {
    /// Takes up the steps of an attempt that an earlier daemon left. Whether more may start
    /// is said by [`Steps::open`] and [`Steps::close`].
    pub fn adopt(&mut self, allocation: &Allocation) {
        let Some(attempt) = allocation.key.job() else {
            return; // the program of a trigger has no steps
        };
        let path = self.path(attempt);
        let steps = list(&path);
        let records = path.join(RECORDS);
        if records.exists()
            && let Err(e) = self.records_at(attempt, &records)
        {
            tracing::error!(job = %attempt.job, "records of steps: {e}");
        }
        let logins = Logins::kept(&path);
        if steps.is_empty() && !path.join(NEXT).exists() && logins.is_none() {
            return;
        }
        let mut job = self.job_of(allocation, Instant::now());
        job.logins = logins.unwrap_or_default();
        job.touched = true;
        self.jobs.insert(attempt, job);
        if let Err(e) = self.first(attempt) {
            tracing::error!(job = %attempt.job, "cannot count its steps: {e}");
        }
        for step in steps {
            self.adopt_step(StepKey { attempt, step });
        }
    }

    /// The machine was restarted: nothing of an attempt's steps runs, and how they ended is
    /// not known. Records of those that ended before are still told.
    pub fn discard(&mut self, attempt: AttemptKey) {
        let path = self.path(attempt);
        let kept = left_over(&self.setup.directory, attempt);
        let _ = std::fs::rename(path.join(RECORDS), kept);
        self.remove_all(&path);
    }

    /// Records of attempts that were forgotten before the controller had them.
    pub fn adopt_left_over(&mut self) {
        for attempt in list_left_over(&self.setup.directory) {
            let path = left_over(&self.setup.directory, attempt);
            if let Err(e) = self.records_at(attempt, &path) {
                tracing::error!(job = %attempt.job, "records of steps: {e}");
            }
        }
    }

    fn adopt_step(&mut self, key: StepKey) {
        let directory = self.path_of(key);
        let ended = outcome(&directory);
        match read(&directory) {
            Ok((kept, holder)) => self.adopt_kept(key, kept, holder, ended),
            Err(_) if ended.is_some() && holder(&directory).is_none() => {
                ended
                    .into_iter()
                    .for_each(|outcome| self.over(key, outcome));
            }
            // It was whole when it got its name, so somebody has damaged it, and it may run.
            Err(e) => {
                tracing::error!(job = %key.attempt.job, "what is kept of step {key} cannot be read ({e}): what runs of it is ended");
                self.sweep_unkept(key, holder(&directory));
            }
        }
    }

    fn adopt_kept(
        &mut self,
        key: StepKey,
        kept: KeptAttempt<StepTask>,
        holder: Option<Pid>,
        ended: Option<StepOutcome>,
    ) {
        let (phase, start) = (kept.phase, kept.start);
        let mut work = kept.work;
        let limit = limit(&self.path_of(key));
        work.order.spec.time_limit = limit.or(work.order.spec.time_limit);
        let task = Arc::new(work);
        self.note(key, &task, start);
        match (holder, ended) {
            (Some(pid), _) => {
                self.resume_children(key, &task);
                self.follow(key, pid);
                if limit.is_some() {
                    self.tell_limit(key);
                }
            }
            (None, Some(outcome)) => self.over(key, outcome),
            (None, None) if phase == Phase::Started => {
                self.resume_children(key, &task);
                self.sweep(key, start);
            }
            (None, None) => self.supervisor_gone(key),
        }
        drop(task);
        if let Some(running) = self.running(key) {
            Arc::make_mut(&mut running.task).forget_what_is_started();
        }
    }

    fn note(&mut self, key: StepKey, task: &Arc<StepTask>, since: cosy_model::Time) {
        let Some(job) = self.jobs.get_mut(&key.attempt) else {
            return;
        };
        let overlap = task.order.spec.overlap;
        if !overlap {
            job.shares.take(key.step, &task.share, &task.order.spec);
        }
        if let (Some(First { ledger, .. }), true) = (&mut job.first, task.is_head()) {
            let takes = match overlap {
                true => Vec::new(),
                false => takes(task, ledger.parts()),
            };
            ledger.take(key.step, takes);
        }
        let running = Running {
            task: Arc::clone(task),
            reach: SupervisorState::Expected(Vec::new()),
            since: clock::moment_of(since),
            gone: watch::channel(false).0,
        };
        job.running.insert(key.step, running);
    }

    fn resume_children(&mut self, key: StepKey, task: &StepTask) {
        let Some(gone) = self.running(key).map(|r| r.gone.subscribe()) else {
            return;
        };
        for (order, child) in below(&task.order).into_iter().zip(0..) {
            let hop = self.hop(task, child, &order, gone.clone());
            tokio::spawn(hop.keep_up(None));
        }
    }
}

/// What a step takes of the job's nodes, by their places.
fn takes(task: &StepTask, parts: &[JobPart]) -> Vec<(usize, NodeUse)> {
    let (layout, spec) = (&task.order.layout, &task.order.spec);
    let places: std::collections::BTreeMap<&str, usize> = parts
        .iter()
        .enumerate()
        .map(|(at, part)| (&*part.peer.node, at))
        .collect();
    let nodes = layout.nodes.iter().zip(0..);
    nodes
        .filter_map(|(name, number)| {
            let tasks = layout.count_of(number);
            let held = NodeUse {
                cores: tasks.saturating_mul(layout.cores_per_task),
                memory: spec.memory.unwrap_or_default(),
                gpus: gpus_wanted(spec, tasks).unwrap_or(0),
            };
            (tasks > 0).then_some((*places.get(&**name)?, held))
        })
        .collect()
}
