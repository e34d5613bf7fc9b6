//! Jobs that the planner starts get cores by number, and their nodes the orders.

use crate::controller::Controller;
use crate::conversations::mail::News;
use crate::event::Effect;
use crate::jobs::job::{Job, Launching, Part, PartStep, Phase, Run};
use crate::planning::launch::{files, ticket_expiry, warn_steps};
use crate::record::StepUse;
use crate::set_aside::Object;
use cosy_model::job::OpenMode;
use cosy_model::node::{Allocation, Launch};
use cosy_model::{Attempt, JobId, NodeId, OsText, Span, Time, User, WaitReason};
use std::collections::BTreeSet;

impl Controller {
    /// Starts what the planner says can start.
    pub(crate) fn start_jobs(&mut self, now: Time) {
        loop {
            let mut starts = self.planned_starts(now);
            if starts.is_empty() {
                starts = self.start_elsewhere(now);
            }
            if starts.is_empty() {
                return;
            }
            let mut at = 0;
            while let Some(id) = starts.get(at).copied() {
                self.works_on(Object::Job(id));
                starts.extend(self.widen(now, id));
                self.leave_spare_gpus(now, id);
                at += 1;
            }
            let mut again = false;
            for id in &starts {
                self.works_on(Object::Job(*id));
                again |= !self.start_job(now, *id);
            }
            // Only now: the planner holds all of them as running already.
            for id in starts {
                self.works_on(Object::Job(id));
                self.tell_of_start(id);
            }
            if !again {
                return;
            }
        }
    }

    /// False when the job could not be started after all and its share is free again.
    fn start_job(&mut self, now: Time, id: JobId) -> bool {
        let Some(job) = self.jobs.get(&id) else {
            self.planner_of(id).end(id);
            return false;
        };
        let (base, uid) = (job.submitted.base, job.submitted.uid);
        self.count_queued(base, false);
        self.jobs.gives_back_licenses(id);
        let Some(user) = self.fresh_user(now, uid) else {
            return self.wait_for_directory(now, id);
        };
        if self.lacks_licenses(&self.jobs[&id].submitted.spec) {
            return self.wait_for_licenses(now, id);
        }
        let shares = self.planner_of(id).held_by(id);
        let shares = self.dealt(id, shares);
        let take = |share| self.take_share(id, share);
        let parts: Vec<Part> = shares.into_iter().map(take).collect();
        let limit = self.limit_from(now, id);
        self.take_licenses(id);
        let Some(job) = self.jobs.get_mut(&id) else {
            return false;
        };
        job.attempt = Attempt(job.attempt.0 + 1);
        job.not_before = None;
        job.phase = Phase::Run(Box::new(Run {
            allocated: now,
            started: None,
            launching: Launching::NotYet,
            limit,
            cut: Span::ZERO,
            parts,
            after: None,
            killed: None,
            canceller: None,
            suspended: None,
            suspended_for: Span::ZERO,
            resuming: false,
            leaving: Vec::new(),
            resized: None,
            hold_after: None,
            lost: BTreeSet::new(),
            steps: StepUse::default(),
            doubtful: false,
            from_store: false,
        }));
        self.count_start(now, base, id);
        self.note_start(now, id);
        self.note_mailing(id);
        self.save_job(id);
        let nodes = self.jobs[&id].run().map(|r| self.node_list(r));
        let detail = format!("on {}", nodes.unwrap_or_default());
        self.happened(now, "started", "controller", format!("job {id}"), detail);
        self.tell_other_group(now, id, &user);
        if let Some(mail) = self.mail(&self.jobs[&id], &News::Began) {
            self.effect(mail);
        }
        self.order_first_steps(id, &user);
        self.tell_started(id);
        true
    }

    /// A job that asked for a group which the directory does not give its user (any more)
    /// runs with the user's own.
    fn tell_other_group(&mut self, now: Time, id: JobId, user: &User) {
        let wanted = self.jobs[&id].submitted.gid;
        if !user.has_group(wanted) {
            let detail = format!(
                "to {}: group {wanted} is none of user {}",
                user.gid, user.name
            );
            self.happened(now, "regrouped", "controller", format!("job {id}"), detail);
        }
    }

    fn wait_for_directory(&mut self, now: Time, id: JobId) -> bool {
        self.planner_of(id).end(id);
        self.planning.inside.remove(&id);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.needs_user = true;
            job.phase = Phase::Waiting(Some(WaitReason::Directory));
        }
        self.review(now, id);
        self.refill_interactive(now, id);
        false
    }

    fn count_start(&mut self, now: Time, base: JobId, id: JobId) {
        let touched = self.jobs.get(&id).is_some_and(|j| j.attempt.0 == 1);
        if let Some(group) = self.jobs.group_mut(&base) {
            group.running += 1;
            group.touched += u32::from(touched);
            group.note_start(now);
        }
        self.count_running(id, true);
    }

    /// The job's part of a node.
    fn take_share(&mut self, id: JobId, share: cosy_model::NodeShare) -> Part {
        let lent = self.lent_cores(share.node);
        let node = self.machine.node_mut(share.node);
        node.jobs.insert(id);
        node.part(share, &lent)
    }

    /// One node: launch at once. Several: the others get ready first. Where nothing is
    /// launched all get ready.
    fn order_first_steps(&mut self, id: JobId, user: &User) {
        if self.jobs[&id].submitted.is_held() {
            return self.order_hold(id, user);
        }
        let several = self.jobs[&id].run().is_some_and(|r| r.parts.len() > 1);
        if several {
            self.order_prepare(id, user);
        } else {
            self.order_launch(id, user);
        }
    }

    fn order_prepare(&mut self, id: JobId, user: &User) {
        let Some(run) = self.jobs[&id].run() else {
            return;
        };
        let others: Vec<NodeId> = run
            .parts
            .iter()
            .skip(1)
            .filter(|p| p.step == PartStep::Ordered)
            .map(|p| p.node)
            .collect();
        for node in others {
            self.order_prepare_on(id, node, user);
        }
    }

    pub(crate) fn order_prepare_on(&mut self, id: JobId, node: NodeId, user: &User) {
        let Some(link) = self.machine.node(node).link else {
            return; // ordered again when it registers
        };
        let Some((allocation, expiry)) = self.allocation(id, node, user) else {
            return;
        };
        self.effect(Effect::Prepare {
            link,
            allocation: Box::new(allocation),
            expiry,
            holder: self.key_of_link(link),
        });
    }

    /// Orders the program to start on the first node.
    pub(crate) fn order_launch(&mut self, id: JobId, user: &User) {
        let Some(run) = self.jobs.get_mut(&id).and_then(Job::run_mut) else {
            return;
        };
        if !run.launching.may_be_there() {
            run.launching = Launching::Unsent;
        }
        let Some(first) = run.first() else { return };
        let Some(link) = self.machine.node(first).link else {
            return; // ordered again when it registers
        };
        let Some((allocation, expiry)) = self.allocation(id, first, user) else {
            return;
        };
        if let Some(run) = self.jobs.get_mut(&id).and_then(Job::run_mut) {
            run.launching = Launching::Sent;
        }
        let job = &self.jobs[&id];
        let Some(run) = job.run() else { return };
        let launch = self.launch(job, run, allocation);
        let submission = job.submitted.base;
        self.effect(Effect::Launch {
            link,
            launch: Box::new(launch),
            submission,
            expiry,
            holder: self.key_of_link(link),
        });
    }

    fn allocation(&self, id: JobId, node: NodeId, user: &User) -> Option<(Allocation, Time)> {
        let job = self.jobs.get(&id)?;
        let run = job.run()?;
        let part = run.part(node)?;
        let limit = run.limit;
        let allocation = Allocation {
            key: job.key(),
            node: self.machine.name(node).to_owned(),
            nodes: self.node_list(run),
            uid: user.uid,
            gid: user.granted(job.submitted.gid),
            groups: user.gids(),
            user: user.name.clone(),
            home: user.home.clone(),
            shell: user.shell.clone(),
            memory: part.memory(),
            cores: part.cores.clone(),
            gpus: part.gpus.clone(),
            devices: part.devices.clone(),
            tasks: part.tasks,
            limit,
            cores_per_task: job.spec().request.cores_per_task,
            parts: if run.first() == Some(node) {
                self.job_parts(run)
            } else {
                Vec::new()
            },
            ticket: OsText::default(),
            warn_steps: warn_steps(job.spec()),
            runs_again: job.submitted.runs_again(true),
        };
        Some((allocation, ticket_expiry(run)))
    }

    fn launch(&self, job: &Job, run: &Run, allocation: Allocation) -> Launch {
        let spec = job.spec();
        let files = self.files(job, run);
        Launch {
            program: spec.program.clone(),
            script: OsText::default(),
            workdir: spec.workdir.clone(),
            stdout: files.0,
            stderr: files.1,
            stdin: files.2,
            open_mode: if job.attempt.0 > 1 {
                OpenMode::Append
            } else {
                spec.open_mode
            },
            environment: self.variables(job, run, allocation.gid),
            login_environment: spec.login_environment,
            umask: spec.umask,
            rlimits: spec.rlimits.clone(),
            warn: spec.warn,
            grace: self.config.policy.grace,
            dialect: spec.dialect,
            allocation,
        }
    }

    /// Output, error and input file with their patterns expanded.
    pub(crate) fn files(&self, job: &Job, run: &Run) -> (OsText, OsText, OsText) {
        let node = run
            .first()
            .map(|n| self.machine.node(n).spec.name.as_str())
            .unwrap_or_default();
        files(&job.submitted, job.id, job.member.map(|m| m.index), node)
    }

    /// The nodes of an attempt as a host list.
    pub(crate) fn node_list(&self, run: &Run) -> String {
        let name = |p: &Part| self.machine.name(p.node).to_owned();
        let names: Vec<String> = run.parts.iter().map(name).collect();
        cosy_model::fold(&names)
    }
}
