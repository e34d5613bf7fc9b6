//! What nodes report, and the end of attempts.
//!
//! An attempt ends in two steps: `after` says what follows (the job's end, or the queue
//! again), and it follows when every node of the attempt has given its share back or is
//! lost. Reports may come twice; what fits no present attempt is superseded and told so.

use crate::controller::Controller;
use crate::conversations::mail::{News, WHOLE};
use crate::event::{Effect, LinkId};
use crate::jobs::dependencies::{Progress, Waiter};
use crate::jobs::ended::Ended;
use crate::jobs::job::{Job, Launching, PartStep, Submitted};
use crate::machine::passages::PassageRequest;
use crate::procedures::node_lost::after_loss;
use crate::record::{AfterRun, HeldBy, Record};
use crate::set_aside::Object;
use cosy_model::api::EndedJob;
use cosy_model::node::PrepareFailure;
use cosy_model::node::{
    AttemptKey, AttemptPhase, InventoryItem, KillCause, NodeOrder, NodeReport, StoreMark,
};
use cosy_model::{End, EndCause, JobId, NodeId, Span, Time, User};
use cosy_view::words::end_note::CancelNote;

/// A node that has not ended a job so long after its limit and grace is told again.
const LIMIT_MARGIN: Span = Span::from_secs(30);

impl Controller {
    pub(crate) fn link_reported(&mut self, now: Time, link: LinkId, report: NodeReport) {
        if self.machine.link(link).is_none() {
            return;
        }
        self.seen(now, link);
        let Some(report) = self.report_of_program(now, link, report) else {
            return;
        };
        match report {
            NodeReport::Register {
                nodes,
                inventory,
                seen,
                clock,
            } => {
                let names = nodes
                    .first()
                    .map_or(String::new(), |node| node.name.clone());
                self.compare_store(now, &names, StoreMark::from_bytes(&seen.0));
                self.register(now, link, (nodes, clock), &inventory);
            }
            NodeReport::Heartbeat => {}
            NodeReport::Figures(figures) => {
                self.note_figures(now, link, figures);
                self.say_heard(link, figures.number);
            }
            NodeReport::Prepared { key, node, failure } => {
                if let Some(id) = self.node_on_link(link, &node) {
                    self.prepared(now, id, key, failure);
                }
            }
            NodeReport::Started { key, node, at } => {
                if let Some(id) = self.node_on_link(link, &node) {
                    self.started(now, id, key, at);
                }
            }
            NodeReport::Ended {
                key,
                node,
                end,
                drain,
            } => {
                if let Some(id) = self.node_on_link(link, &node) {
                    self.ended_on(now, id, key, end);
                    self.drain_if(now, id, drain);
                }
            }
            NodeReport::Released { key, node, drain } => {
                if let Some(id) = self.node_on_link(link, &node) {
                    self.released(now, id, key);
                    self.drain_if(now, id, drain);
                }
            }
            NodeReport::Health { node, problem } => {
                if let Some(id) = self.node_on_link(link, &node) {
                    self.health(now, id, problem);
                }
            }
            NodeReport::Steps {
                key,
                node,
                before,
                records,
            } => {
                if let Some(id) = self.node_on_link(link, &node)
                    && !self.aside.has(key.job)
                {
                    self.steps_ended(now, id, key, before, records);
                }
            }
            NodeReport::AskPassage { number, uid, job } => {
                let asked = PassageRequest {
                    link,
                    number,
                    uid,
                    job,
                };
                self.asked_passage(now, asked);
            }
            // Decoded and asked by the shell.
            NodeReport::RelayRequest { .. } | NodeReport::RelayClosed { .. } => {}
        }
    }

    fn seen(&mut self, now: Time, link: LinkId) {
        self.machine.heard_from(link, now, self.clocks.listened);
    }

    fn drain_if(&mut self, now: Time, id: NodeId, drain: Option<String>) {
        if let Some(reason) = drain {
            self.drain_by_itself(now, id, &reason);
        }
    }

    fn health(&mut self, now: Time, id: NodeId, problem: Option<String>) {
        if let Some(problem) = &problem {
            self.drain_by_itself(now, id, problem);
        }
        self.machine.node_mut(id).problem = problem;
        self.update_available(id);
    }

    /// The job, if that attempt is its present one and holds that node.
    fn at_attempt(&mut self, id: NodeId, key: AttemptKey) -> Option<&mut Job> {
        let job = self.jobs.get_mut(&key.job)?;
        let present = job.attempt == key.attempt && job.run().is_some_and(|r| r.part(id).is_some());
        present.then_some(job)
    }

    fn prepared(
        &mut self,
        now: Time,
        id: NodeId,
        key: AttemptKey,
        failure: Option<PrepareFailure>,
    ) {
        self.works_on(Object::Job(key.job));
        if self.is_aside_on(id, key, failure.is_none()) {
            return;
        }
        if self.at_attempt(id, key).is_none() {
            if failure.is_none() && self.goes_on_unknown(now, id, key) {
                return;
            }
            return self.order(id, |node| NodeOrder::Release { key, node });
        }
        self.no_longer_doubtful(key.job);
        if let Some(failure) = failure {
            return self.preparation_failed(now, id, key, &failure);
        }
        let Some(run) = self.jobs.get_mut(&key.job).and_then(Job::run_mut) else {
            return;
        };
        if let Some(part) = run.part_mut(id)
            && part.step == PartStep::Ordered
        {
            part.step = PartStep::Ready;
        }
        self.launch_when_ready(now, key.job);
    }

    /// Starts the program when every other node is ready.
    fn launch_when_ready(&mut self, now: Time, id: JobId) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        if job.submitted.is_held() {
            return self.held_ready(now, id);
        }
        let Some(run) = job.run() else { return };
        let ready = run.parts.iter().skip(1).all(|p| p.step == PartStep::Ready);
        if run.launching.is_given() || run.after.is_some() || !ready {
            return;
        }
        let uid = job.submitted.uid;
        if let Some(user) = self.fresh_user(now, uid) {
            self.order_launch(id, &user);
        } else if let Some(first) = self.jobs[&id].run().and_then(|r| r.first()) {
            self.machine.awaits_user(id, first);
        }
    }

    fn preparation_failed(
        &mut self,
        now: Time,
        id: NodeId,
        key: AttemptKey,
        failure: &PrepareFailure,
    ) {
        if failure.drain {
            self.drain_by_itself(now, id, &failure.reason);
        }
        if self.gives_back(key.job, id) {
            return self.give_back(now, key.job, id);
        }
        let attended = self.jobs.get(&key.job).is_some_and(|j| j.spec().attended);
        let after = if failure.drain && !attended {
            AfterRun::Requeue
        } else {
            let cause = EndCause::LaunchFailed(failure.reason.clone());
            AfterRun::End(End::never_ran(cause, now))
        };
        let killed = self
            .jobs
            .get(&key.job)
            .and_then(Job::run)
            .and_then(|r| r.killed);
        let after = match killed {
            Some(KillCause::Cancelled) => AfterRun::End(End::never_ran(EndCause::Cancelled, now)),
            Some(KillCause::Requeued) => AfterRun::Requeue,
            Some(KillCause::TimeLimit | KillCause::Superseded) | None => after,
        };
        self.order(id, |node| NodeOrder::Forget { key, node });
        self.abandon(now, key.job, after, Some(id));
    }

    fn started(&mut self, now: Time, id: NodeId, key: AttemptKey, at: Time) {
        self.works_on(Object::Job(key.job));
        if self.is_aside_on(id, key, true) {
            return;
        }
        let holds = |job: &&mut Job| {
            let part = job.run().and_then(|run| run.part(id));
            part.is_some_and(|part| part.step != PartStep::Released)
        };
        if self.at_attempt(id, key).is_none() && self.goes_on_unknown(now, id, key) {
            return;
        }
        self.no_longer_doubtful(key.job);
        let Some(job) = self.at_attempt(id, key).filter(holds) else {
            return self.order(id, |node| NodeOrder::Kill {
                key,
                node,
                cause: KillCause::Superseded,
            });
        };
        let base = job.submitted.base;
        if let Some(run) = job.run_mut() {
            run.launching = Launching::Sent;
            if let Some(part) = run.part_mut(id) {
                part.step = PartStep::Ready;
            }
        }
        let run = self.jobs.get(&key.job).and_then(Job::run);
        let run = run.filter(|run| run.started.is_none());
        let Some(at) = run.map(|run| self.start_on_our_clock(now, id, run, at)) else {
            return;
        };
        self.jobs.start_unsaved(key.job);
        if let Some(group) = self.jobs.group_mut(&base) {
            group.note_start(at);
        }
        self.program_began(now, key.job, at);
    }

    /// The program has ended on the first node, or the attempt is gone from it.
    fn ended_on(&mut self, now: Time, id: NodeId, key: AttemptKey, end: End) {
        self.works_on(Object::Job(key.job));
        if self.is_aside_on(id, key, false) {
            return; // the node keeps how it ended until somebody wants to know
        }
        self.order(id, |node| NodeOrder::Forget { key, node });
        if self.at_attempt(id, key).is_none() {
            self.unknown_is_over(now, id, key, Some(&end));
            return;
        }
        self.no_longer_doubtful(key.job);
        let Some(job) = self.at_attempt(id, key) else {
            return;
        };
        let deadline = job.spec().deadline;
        let Some(run) = job.run_mut() else { return };
        if run.leaves(id) {
            return self.give_back(now, key.job, id);
        }
        if end.cause == EndCause::NodeLost {
            run.note_lost(id);
        }
        if run.after.is_some() {
            return self.give_back(now, key.job, id);
        }
        run.launching = Launching::Sent;
        let Some(run) = self.jobs.get(&key.job).and_then(Job::run) else {
            return;
        };
        let end = at_deadline(self.end_on_our_clock(now, id, run, end), deadline);
        let Some(job) = self.jobs.get_mut(&key.job) else {
            return;
        };
        let Some(run) = job.run_mut() else { return };
        run.started = run.started.or(end.start);
        let after = match (run.killed, &end.cause) {
            (Some(KillCause::Requeued), _) => AfterRun::Requeue,
            // Its node says that it had the order.
            (_, EndCause::NodeLost) => match after_loss(job, now) {
                AfterRun::End(lost) if lost.cause == EndCause::NodeLost => AfterRun::End(end),
                after => after,
            },
            _ => AfterRun::End(end),
        };
        self.abandon(now, key.job, after, Some(id));
    }

    fn released(&mut self, now: Time, id: NodeId, key: AttemptKey) {
        self.works_on(Object::Job(key.job));
        if self.is_aside_on(id, key, false) {
            return;
        }
        match self.at_attempt(id, key).is_some() {
            true => self.give_back(now, key.job, id),
            false => drop(self.unknown_is_over(now, id, key, None)),
        }
    }

    /// Ends an attempt: what follows is settled, `clean` has nothing left, the other
    /// nodes are told to clean up.
    pub(crate) fn abandon(&mut self, now: Time, id: JobId, after: AfterRun, clean: Option<NodeId>) {
        self.comes_to_end(now, id, after);
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let held = job.submitted.is_held();
        let Some(run) = job.run() else { return };
        let launched = run.launching.is_given();
        let first = run.first();
        let parts: Vec<(NodeId, PartStep)> = run.all_parts().map(|p| (p.node, p.step)).collect();
        let several = parts.len() > 1;
        for (node, step) in parts {
            if step == PartStep::Released {
                continue;
            }
            let lost = self.machine.node(node).given_up;
            // After a restart a silent node may have been told to launch: it is asked first.
            let heard = self.machine.node(node).link.is_some();
            let idle = Some(node) == first && !launched && !held && heard;
            if Some(node) == clean || lost || idle {
                self.give_back(now, id, node);
            } else if held {
                self.order_end_held(id, node);
            } else {
                self.order_clean_up(id, node, Some(node) == first);
            }
        }
        if several && self.jobs.get(&id).is_some_and(|j| j.run().is_some()) {
            self.jobs.changed(id);
        }
    }

    fn order_clean_up(&mut self, id: JobId, node: NodeId, runs_program: bool) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let key = job.key();
        if runs_program {
            self.order(node, |node| NodeOrder::Kill {
                key,
                node,
                cause: KillCause::Superseded,
            });
        } else {
            self.order(node, |node| NodeOrder::Release { key, node });
        }
    }

    /// A node's share is free again; when it was the last, what follows happens.
    pub(crate) fn give_back(&mut self, now: Time, id: JobId, node: NodeId) {
        let Some(run) = self.jobs.get_mut(&id).and_then(Job::run_mut) else {
            return;
        };
        let Some(part) = run.part_mut(node) else {
            return;
        };
        if part.step == PartStep::Released {
            return;
        }
        part.step = PartStep::Released;
        let gpus = part.gpus.clone();
        let devices = part.devices.clone();
        let cores = part.held_cores().to_vec();
        run.leaving.retain(|p| p.step != PartStep::Released);
        let last = run.all_parts().all(|p| p.step == PartStep::Released);
        let on = self.machine.node_mut(node);
        on.cores.give(&cores);
        on.devices.give(&gpus, &devices);
        on.jobs.remove(&id);
        on.idle_since = now;
        let takes_jobs = on.takes_jobs() && !self.machine.changes().concern(node);
        self.update_available_inside(node, takes_jobs);
        self.watch_node(node);
        self.take_over_again(node);
        if last {
            self.planner_of(id).end(id);
            self.planning.lends_no_more(id);
            self.note_use(now, id);
            self.follow(now, id);
        } else {
            self.planner_of(id).release_node(id, node);
            self.jobs.changed(id);
        }
    }

    /// All nodes are clean: the job ends or waits again.
    fn follow(&mut self, now: Time, id: JobId) {
        let Some(run) = self.jobs.get_mut(&id).and_then(Job::run_mut) else {
            return;
        };
        let after = run.after.take();
        let job = &self.jobs[&id];
        let after = match after {
            Some(AfterRun::End(end)) => Some(AfterRun::End(self.with_steps(now, job, end))),
            after => after,
        };
        self.count_running(id, false);
        self.give_licenses(id);
        let held = self.jobs.get(&id).and_then(Job::run);
        let held = held.and_then(|run| match run.doubtful {
            true => Some(HeldBy::Restored),
            false => run.hold_after,
        });
        self.jobs.start_saved(id);
        let base = self.base_of(id);
        if let Some(group) = self.jobs.group_mut(&base) {
            group.running = group.running.saturating_sub(1);
        }
        match after {
            Some(AfterRun::End(end)) if self.flow_tries_again(now, id, &end) => {
                self.wait_again(now, id, held);
            }
            Some(AfterRun::End(end)) => self.end_job(now, id, &end, ""),
            Some(AfterRun::Requeue) | None => self.wait_again(now, id, held),
        }
        self.refill_array(now, base);
    }

    fn wait_again(&mut self, now: Time, id: JobId, held: Option<HeldBy>) {
        let lost = self.jobs.get(&id).and_then(|job| self.lost_words(job));
        if !self.jobs.waits_again(id) {
            return;
        }
        self.pause_before_again(now, id, held);
        self.save_job(id);
        self.happened(
            now,
            "requeued",
            "controller",
            format!("job {id}"),
            lost.unwrap_or_default(),
        );
        if let Some(mail) = self.mail(&self.jobs[&id], &News::Requeued) {
            self.effect(mail);
        }
        self.review(now, id);
    }

    /// The job is over: its row, its history, everyone who waited for it.
    pub(crate) fn end_job(&mut self, now: Time, id: JobId, end: &End, note: &str) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let (base, member) = (job.submitted.base, job.member);
        let submitted = job.submitted.clone();
        self.watch_end_of_job(id);
        if self.planner_of(id).dequeue(id) {
            self.count_queued(base, false);
        }
        self.planning.left_inside(id);
        let job = &self.jobs[&id];
        let note = match &end.cause {
            EndCause::LaunchFailed(reason) => reason.clone(),
            EndCause::SupervisorLost => "its supervisor on the node was killed".to_owned(),
            EndCause::NodeLost => self
                .lost_words(job)
                .unwrap_or_else(|| "a node was lost".into()),
            EndCause::Deadline => "it could not be over at its deadline".to_owned(),
            EndCause::Cancelled => match job.run().and_then(|run| run.canceller.as_deref()) {
                Some(who) => CancelNote {
                    who,
                    waited_for: None,
                }
                .to_string(),
                None => note.to_owned(),
            },
            EndCause::Exited | EndCause::TimeLimit | EndCause::OutOfMemory => note.to_owned(),
        };
        self.stands_apart(id);
        let job = &self.jobs[&id];
        let row = job.end_row(end, &note, &|n| self.machine.name(n).to_owned());
        let mut mails = Vec::new();
        if end.cause == EndCause::TimeLimit {
            mails.extend(self.mail(job, &News::Share(WHOLE)));
        }
        mails.extend(self.mail(job, &News::Ended(end)));
        let (begin, not_before) = (job.spec().begin, job.not_before);
        self.record(Record::Job(Box::new(row.clone())));
        let state = end.state();
        let mut detail = format!(
            "{state}, exit code {}, signal {}",
            end.exit_code, end.signal
        );
        if end.cause == EndCause::NodeLost {
            detail = format!("{detail}: {}", row.note);
        }
        self.happened(now, "ended", "controller", format!("job {id}"), detail);
        for mail in mails {
            self.effect(mail);
        }
        self.jobs.remove(&id);
        self.leave_queue(&submitted);
        self.leave_interactive(id, &submitted);
        for begin in begin.into_iter().chain(not_before) {
            self.jobs.begins_no_more(begin, id);
        }
        self.jobs.wants_no_licenses(id);
        self.jobs.gives_back_licenses(id);
        self.jobs.remember(
            id,
            Ended {
                at: now,
                row: Box::new(row),
                submitted: submitted.clone(),
                state,
                exit_code: end.exit_code,
                signal: end.signal,
            },
        );
        let at = member.map_or(0, |m| m.at as usize);
        let ok = state == cosy_model::JobState::Completed;
        self.settle_fate(id, &submitted, at, ok);
        self.tell_waiting(id);
        self.tell_attendants(id);
        self.inside_job_ended(now, id, &submitted);
        self.flow_job_ended(id, &submitted);
        if submitted.spec.attended {
            self.jobs.review_interactive(submitted.uid);
        }
    }

    fn settle_fate(&mut self, id: JobId, submitted: &Submitted, at: usize, ok: bool) {
        let base = submitted.base;
        let ended = self.jobs.ended(id);
        let touched = ended.is_some_and(|e| e.row.attempt.0 > 0);
        let start = ended.and_then(|e| e.row.end.as_ref()?.start);
        let index = ended.and_then(|e| e.row.index);
        let Some(group) = self.jobs.group_mut(&base) else {
            return;
        };
        group.settle(at, ok);
        group.touched += u32::from(!touched);
        group.throttled.remove(&at);
        if let Some(start) = start {
            group.note_start(start);
        }
        let over = group.live == 0;
        let progress = Progress {
            base,
            id,
            index,
            whole: over || group.all_touched(),
        };
        self.leave_body(submitted, true);
        if !over {
            return self.review_dependents(progress);
        }
        self.keep_facts(base);
        self.review_dependents(progress);
        self.jobs.submission_over(base);
        self.record(Record::SubmissionDone(base));
        let Some(group) = self.jobs.remove_group(&base) else {
            return;
        };
        for body in group.bodies.values() {
            let submitted = &body.submitted;
            self.leave_name(submitted.uid, &submitted.spec.name, base);
            self.leave_within(submitted);
            self.wait_no_longer(Waiter::of(submitted), submitted);
        }
    }

    /// Counts a job among those that hold nodes, each of its parts in its queue.
    pub(crate) fn count_running(&mut self, id: JobId, more: bool) {
        let Some(submitted) = self.jobs.get(&id).map(|job| job.submitted.clone()) else {
            return;
        };
        let Some(queue) = self.queue_id(&submitted.queue) else {
            return;
        };
        for (id, parts) in self.entering(&submitted.spec, queue) {
            let running = &mut self.queues.get_mut(id).running;
            *running = match more {
                true => *running + parts as u32,
                false => running.saturating_sub(parts as u32),
            };
        }
    }

    pub(crate) fn ended_job(&self, id: JobId, ended: &Ended) -> EndedJob {
        let job = match ended.row.index {
            Some(task) => cosy_model::api::JobRef {
                job: ended.submitted.base,
                task: Some(task),
            },
            None => cosy_model::api::JobRef {
                job: id,
                task: None,
            },
        };
        EndedJob {
            job,
            state: ended.state,
            exit_code: ended.exit_code,
            signal: ended.signal,
            note: ended.row.note.clone(),
        }
    }

    /// Sends an order to a node if it is connected; else registration makes it good.
    pub(crate) fn order(&mut self, id: NodeId, order: impl FnOnce(String) -> NodeOrder) {
        let node = self.machine.node(id);
        if let Some(link) = node.link {
            let order = order(node.spec.name.clone());
            self.effect(Effect::Order { link, order });
        }
    }

    /// Compares what a node knows with what it should know.
    pub(crate) fn reconcile(&mut self, now: Time, id: NodeId, inventory: &[InventoryItem]) {
        let name = self.machine.name(id).to_owned();
        let mine = inventory.iter().filter(|i| i.node == name);
        let (programs, mine): (Vec<&InventoryItem>, Vec<&InventoryItem>) =
            mine.partition(|i| i.key.job.trigger().is_some());
        self.reconcile_programs(now, id, &programs);
        for item in &mine {
            self.take_inventory(now, id, item);
        }
        let missing: Vec<JobId> = self
            .machine
            .node(id)
            .jobs
            .iter()
            .copied()
            .filter(|job| {
                let key = self.jobs.get(job).map(Job::key);
                !mine.iter().any(|i| Some(i.key) == key)
            })
            .collect();
        for job in missing {
            self.not_in_inventory(now, id, job);
        }
        self.order_awaiting(now, id);
        self.repeat_suspensions(id);
        self.repeat_resizes(now, id);
    }

    fn take_inventory(&mut self, now: Time, id: NodeId, item: &InventoryItem) {
        let key = item.key;
        match &item.phase {
            AttemptPhase::Ended(end) => self.ended_on(now, id, key, end.clone()),
            AttemptPhase::Running { since, ran } => {
                self.started(now, id, key, *since);
                if let Some(ran) = ran.filter(|_| self.at_attempt(id, key).is_some()) {
                    self.has_run_for(now, key.job, ran);
                }
                self.repeat_kill(id, key);
            }
            AttemptPhase::Prepared => {
                self.prepared(now, id, key, None);
                if self.aside.has(key.job) {
                    return;
                }
                let over = self
                    .at_attempt(id, key)
                    .and_then(|j| j.run())
                    .is_some_and(|r| r.after.is_some());
                let held = self
                    .jobs
                    .get(&key.job)
                    .is_some_and(|j| j.submitted.is_held());
                let leaves = self.gives_back(key.job, id);
                match (over || leaves, held && !leaves) {
                    (true, true) => self.order_end_held(key.job, id),
                    (true, false) => self.order(id, |node| NodeOrder::Release { key, node }),
                    (false, _) => {}
                }
            }
        }
    }

    /// A kill that was ordered while the link was down.
    fn repeat_kill(&mut self, id: NodeId, key: AttemptKey) {
        let cause = self
            .at_attempt(id, key)
            .and_then(|j| j.run())
            .and_then(|r| match (&r.after, r.killed) {
                (Some(_), _) => Some(KillCause::Superseded),
                (None, killed) => killed,
            });
        if let Some(cause) = cause {
            self.order(id, |node| NodeOrder::Kill { key, node, cause });
        }
    }

    /// The node knows nothing of an attempt that it should have: the order got lost, or
    /// the machine was restarted, or the attempt was over and forgotten already.
    fn not_in_inventory(&mut self, now: Time, id: NodeId, job_id: JobId) {
        let boot = self.machine.node(id).boot_id.clone();
        let Some(job) = self.jobs.get_mut(&job_id) else {
            return;
        };
        let (uid, held) = (job.submitted.uid, job.submitted.is_held());
        let Some(run) = job.run_mut() else { return };
        let Some(part) = run.part(id) else { return };
        if part.step == PartStep::Released {
            return;
        }
        if run.leaves(id) {
            return self.give_back(now, job_id, id);
        }
        let rebooted = part.boot_id != boot;
        let was_there = part.step == PartStep::Ready || run.started.is_some();
        if rebooted || (was_there && run.after.is_none()) {
            run.note_lost(id);
        }
        if run.after.is_some() {
            return self.give_back(now, job_id, id);
        }
        let first = run.first() == Some(id);
        if first && !was_there && !rebooted && !held {
            // The order to start it did not arrive, or was never sent.
            run.launching = match run.launching.is_given() {
                true => Launching::Unsent,
                false => Launching::NotYet,
            };
        }
        let launched = run.launching.is_given();
        let ends = matches!(run.killed, Some(KillCause::Cancelled | KillCause::Requeued));
        if ends || was_there || rebooted || run.doubtful {
            let after = after_loss(job, now);
            return self.abandon(now, job_id, after, Some(id));
        }
        if held && first && self.awaits_addresses(job_id) {
            return; // ordered when they have registered
        }
        let Some(user) = self.fresh_user(now, uid) else {
            self.machine.awaits_user(job_id, id);
            return;
        };
        if held || !first {
            self.order_prepare_on(job_id, id, &user);
        } else if launched {
            self.order_launch(job_id, &user);
        }
    }

    /// The user's groups are known: what could not be ordered without them is now.
    pub(crate) fn order_late(&mut self, now: Time, user: &User) {
        for (job_id, id) in self.machine.awaiting_users() {
            let Some(job) = self.jobs.get(&job_id) else {
                self.machine.awaits_no_more(job_id, id);
                continue;
            };
            if job.submitted.uid != user.uid {
                continue;
            }
            self.machine.awaits_no_more(job_id, id);
            let Some(run) = job.run() else { continue };
            let open = run.after.is_none() && run.started.is_none() && run.killed.is_none();
            let ordered = run.part(id).is_some_and(|p| p.step == PartStep::Ordered);
            let first = run.first() == Some(id) && !job.submitted.is_held();
            let several = run.parts.len() > 1;
            if run.resized.is_some() && run.after.is_none() && run.first() == Some(id) {
                self.order_prepare_on(job_id, id, user);
                continue;
            }
            match (open && ordered, first) {
                (true, true) if several => self.launch_when_ready(now, job_id),
                (true, true) => self.order_launch(job_id, user),
                (true, false) => self.order_prepare_on(job_id, id, user),
                (false, _) => {}
            }
        }
    }

    /// Jobs whose node should have ended them long ago.
    pub(crate) fn check_limits(&mut self, now: Time) {
        let grace = self.config.policy.grace;
        let mut late = Vec::new();
        for node in self.machine.nodes() {
            for id in &node.jobs {
                let Some(job) = self.jobs.get(id) else {
                    continue;
                };
                let Some(run) = job.run() else { continue };
                if run.after.is_some() || job.submitted.is_held() {
                    continue;
                }
                let Some(end) = run.ends_at() else { continue };
                if now > end + grace + grace + LIMIT_MARGIN {
                    late.push((*id, run.first()));
                }
            }
        }
        for (id, first) in late {
            let Some(key) = self.jobs.get(&id).map(Job::key) else {
                continue;
            };
            if let Some(first) = first {
                self.order(first, |node| NodeOrder::Kill {
                    key,
                    node,
                    cause: KillCause::TimeLimit,
                });
            }
        }
    }
}

/// An end by the time limit is one by the deadline when that was what the limit came from.
pub(crate) fn at_deadline(mut end: End, deadline: Option<Time>) -> End {
    let reached = deadline.is_some_and(|deadline| end.end + Span::from_secs(1) >= deadline);
    if end.cause == EndCause::TimeLimit && reached {
        end.cause = EndCause::Deadline;
    }
    end
}

pub(crate) fn job_key(job: Option<&Job>) -> Option<AttemptKey> {
    job.map(Job::key)
}
