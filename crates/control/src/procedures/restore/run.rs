//! Rows become jobs, nodes, queues and reservations, and a new configuration takes the place of
//! the old one.

use crate::config::ClusterConfig;
use crate::controller::Controller;
use crate::conversations::answers::to_keep;
use crate::jobs::Jobs;
use crate::jobs::dependencies::{Dependencies, Waiter};
use crate::jobs::job::{Group, Job, Launching, Part, PartStep, Phase, Place, Run, Submitted};
use crate::machine::Machine;
use crate::machine::keys::Keys;
use crate::machine::nodes::NOT_CONFIGURED;
use crate::procedures::older_store::LostStore;
use crate::procedures::restore::{
    RowsOfJobs, RowsOfSubmission, of_row, policy, queue_nodes, unplaced,
};
use crate::queues::Queues;
use crate::queues::administered::OwnQueues;
use crate::record::{
    HeldBy, JobRow, Loaded, NodeRow, PartRow, Record, RunRow, StepUse, SubmissionRow,
};
use crate::reservations::LoadedReservations;
use crate::set_aside::Aside;
use crate::turn::Turn;
use cosy_model::api::Reply;
use cosy_model::node::AttemptKey;
use cosy_model::{JobId, Moment, QueueState, Time, Uid, User, WaitReason};
use cosy_sched::Scheduler;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Controller {
    /// The controller as it was when the store was last written.
    pub fn restore(mut config: ClusterConfig, loaded: Loaded, now: impl Into<Moment>) -> Self {
        let at = now.into();
        let carried = loaded.clock.as_ref().and_then(|row| row.carried_to(at));
        let (at, comparable) = (carried.unwrap_or(at), carried.is_some());
        let now = at.wall;
        let own_queues = OwnQueues::restore(&config, loaded.own_queues);
        own_queues.lay(&mut config);
        let policy = policy(&config);
        let sched = Scheduler::new(policy, Vec::new(), Vec::new());
        let mut it = Self::empty(config, sched, at);
        it.clocks_restored(comparable);
        it.queues = Queues::new(own_queues);
        let reservations = LoadedReservations {
            rows: loaded.reservations,
            next: loaded.next_reservation,
            accounts: loaded.accounts,
            last_entry: loaded.last_entry,
            figures: loaded.figures,
            hour_prices: loaded.hour_prices,
        };
        let next_job = loaded.next_job.max(it.config.first_job.0).max(1);
        it.jobs = Jobs::new(next_job, Dependencies::restore(loaded.facts));
        it.turn = Turn::after(loaded.last_event);
        it.lost_store = LostStore::restore(&loaded.older);
        let keys = Keys::restore(loaded.node_keys, loaded.revoked_keys, loaded.tokens);
        it.load_answers(loaded.answers);
        let queue_states: BTreeMap<String, QueueState> = loaded.queues.into_iter().collect();
        let nodes: BTreeMap<String, NodeRow> = loaded.nodes.into_iter().collect();
        it.aside = Aside::new(loaded.set_aside);
        it.machine = Machine::restore(&it.config.nodes, &nodes, keys);
        it.close_unread_nodes();
        it.build_queues(&queue_states);
        it.tell_planner();
        it.load_reservations(now, reservations);
        let rows = RowsOfJobs {
            jobs: loaded.jobs,
            bodies: loaded.bodies,
            standings: loaded.standings,
        };
        it.load_jobs(loaded.submissions, rows, now);
        it.load_steps(&loaded.steps);
        it.load_flows(now, loaded.flows, loaded.next_flow);
        it.load_triggers(now, loaded.triggers, loaded.next_trigger);
        for id in it.machine.ids() {
            it.configured_again(now, id);
        }
        it
    }

    /// What was answered, as far as that is kept now; the store forgets the rest, too.
    fn load_answers(&mut self, mut answers: Vec<(Uid, [u8; 16], Time, Reply)>) {
        answers.sort_by_key(|(uid, key, at, _)| (*at, *uid, *key));
        for (uid, key, at, reply) in answers {
            let kept = match reply {
                // Of one that was too long.
                Reply::Refused(_) => Some(reply),
                reply => to_keep(&reply),
            };
            match kept {
                Some(reply) => {
                    let gone = self.conversations.keep_answer(at, uid, key, reply);
                    self.forget_answers(gone);
                }
                None => self.forget_answers(vec![(uid, key)]),
            }
        }
    }

    pub(crate) fn build_queues(&mut self, states: &BTreeMap<String, QueueState>) {
        let machine = &self.machine;
        let nodes = |spec: &cosy_model::QueueSpec| queue_nodes(machine, spec.nodes.as_deref());
        self.queues.build(&self.config.queues, states, nodes);
    }

    /// Hands machine and queues to the planner.
    pub(crate) fn tell_planner(&mut self) {
        self.planning.note_placing();
        let amounts = self
            .machine
            .nodes()
            .iter()
            .map(|n| n.amounts.clone())
            .collect();
        let joint = self.queues.joint();
        let queues = self.queues.all().iter().map(|q| q.nodes.clone());
        let queues = queues.chain(joint.into_iter().map(|(nodes, _)| nodes));
        let policy = policy(&self.config);
        self.planning
            .cluster_mut()
            .reconfigure(policy, amounts, queues.collect());
        for id in self.machine.ids() {
            self.update_available(id);
        }
        for (at, queue) in self.queues.all().iter().enumerate() {
            let starts = queue.state.starts_jobs();
            self.planning
                .cluster_mut()
                .set_queue_starts(cosy_model::QueueId(at as u16), starts);
        }
        self.open_joint_queues();
    }

    fn load_jobs(&mut self, submissions: Vec<SubmissionRow>, rows: RowsOfJobs, now: Time) {
        let mut by_base = rows.by_base();
        for row in submissions {
            let rows = by_base.remove(&row.base).unwrap_or_default();
            self.load_submission(&row, rows);
        }
        self.wait_again_for_others();
        let ids: Vec<JobId> = self.jobs.ids().collect();
        for id in ids {
            self.review_loaded(now, id);
        }
        let attended = self.jobs.all().filter(|job| job.spec().attended);
        let attended: Vec<JobId> = attended.map(|job| job.id).collect();
        for id in attended {
            self.expect_again(now, id);
        }
    }

    fn load_submission(&mut self, row: &SubmissionRow, rows: RowsOfSubmission) {
        let RowsOfSubmission {
            jobs,
            bodies,
            standing,
        } = rows;
        let common = standing.map_or(0, |standing| standing.body);
        let submitted = self.load_body(row, &bodies, common);
        let mut group = Group::of_row(row, submitted.clone());
        let numbers = bodies.keys().next_back().copied().unwrap_or(0);
        group.next_body = numbers.max(common) + 1;
        if let Some(standing) = standing {
            (group.held, group.at_once) = (standing.held, standing.at_once);
        }
        self.add_group(group);
        self.is_written(&submitted);
        let ended = jobs.iter().filter(|job| job.end.is_some());
        let named: BTreeSet<u32> = ended.map(|job| job.body).collect();
        for job in jobs {
            self.load_job(row, &bodies, job);
        }
        for number in bodies.into_keys() {
            self.load_use(row.base, number, named.contains(&number));
        }
    }

    /// A body out of the store; the submission's own where there is none of that number.
    fn load_body(
        &self,
        row: &SubmissionRow,
        bodies: &BTreeMap<u32, SubmissionRow>,
        number: u32,
    ) -> Arc<Submitted> {
        let (number, of) = match bodies.get(&number) {
            Some(body) => (number, body),
            None => (0, row),
        };
        let mut submitted = unplaced(row, of.spec.clone(), of.queue.clone());
        submitted.body = number;
        submitted.place = self.place_again(&submitted);
        Arc::new(submitted)
    }

    /// A body was found in the store: rows of ended jobs name it, or it goes when nobody has it.
    fn load_use(&mut self, base: JobId, number: u32, named: bool) {
        let group = self.jobs.group_mut(&base);
        match group.and_then(|group| group.bodies.get_mut(&number)) {
            Some(body) => body.named |= named,
            None if named => {}
            None => self.record(Record::BodyGone { base, number }),
        }
    }

    /// The body that a job's row means.
    fn body_of_row(
        &mut self,
        submission: &SubmissionRow,
        bodies: &BTreeMap<u32, SubmissionRow>,
        row: &JobRow,
    ) -> Option<Arc<Submitted>> {
        let group = self.jobs.group(&row.base)?;
        if let Some(spec) = &row.changed {
            let queue = row.queue.as_ref().unwrap_or(&submission.queue);
            let latest = group
                .bodies
                .values()
                .next_back()
                .map(|body| &body.submitted);
            let same = latest.filter(|s| s.spec == **spec && s.queue == *queue);
            if let Some(same) = same {
                return Some(same.clone());
            }
            let (old, mut own) = (group.submitted.clone(), of_row(submission, row));
            own.place = self.place_again(&own);
            return Some(self.new_body(&old, own.spec, own.queue, own.place));
        }
        let known = group.bodies.get(&row.body);
        if let Some(body) = known {
            return Some(body.submitted.clone());
        }
        let body = self.load_body(submission, bodies, row.body);
        self.know_body(&body, true);
        Some(body)
    }

    /// To be called when all jobs are there.
    fn wait_again_for_others(&mut self) {
        for submitted in self.jobs.bodies() {
            self.wait_for_others(Waiter::of(&submitted), &submitted);
        }
    }

    fn load_steps(&mut self, steps: &[(AttemptKey, StepUse)]) {
        for (key, used) in steps {
            let job = self.jobs.get_mut(&key.job);
            let present = job.filter(|j| j.attempt == key.attempt);
            if let Some(run) = present.and_then(Job::run_mut) {
                run.steps = *used;
            }
        }
    }

    fn load_job(
        &mut self,
        submission: &SubmissionRow,
        bodies: &BTreeMap<u32, SubmissionRow>,
        row: JobRow,
    ) {
        let at = submission.place_of(row.id);
        self.has_row(row.id);
        if row.end.is_some() {
            return self.load_ended(&row, at);
        }
        if let Some(body) = self.body_of_row(submission, bodies, &row) {
            let group = self.jobs.group(&row.base);
            let own = group.is_some_and(|group| group.submitted.body != body.body);
            self.take_body(row.id, &body);
            if let Some(job) = self.jobs.get_mut(&row.id) {
                job.own = own;
            }
        }
        if let Some(job) = self.jobs.get_mut(&row.id) {
            job.held = row.held;
            job.attempt = row.attempt;
            job.eligible = row.eligible;
        }
        if let Some(group) = self.jobs.group_mut(&row.base) {
            group.touched += u32::from(row.attempt.0 > 0);
        }
        if let Some(run) = row.run {
            self.load_run(row.id, run);
        }
    }

    fn load_ended(&mut self, row: &JobRow, at: usize) {
        if let Some(job) = self.jobs.remove(&row.id) {
            self.leave_queue(&job.submitted);
            self.leave_body(&job.submitted, false);
            self.leave_interactive(row.id, &job.submitted);
            if let Some(begin) = job.spec().begin {
                self.jobs.begins_no_more(begin, row.id);
            }
        }
        if let Some(group) = self.jobs.group_mut(&row.base)
            && at < group.fates.len()
        {
            group.settle(at, row.state == cosy_model::JobState::Completed);
            group.touched += 1;
            if let Some(start) = row.end.as_ref().and_then(|end| end.start) {
                group.note_start(start);
            }
        }
    }

    /// The shares of nodes out of a row; what is not given back is held again.
    fn load_parts(&mut self, id: JobId, rows: Vec<PartRow>) -> Vec<Part> {
        let mut parts = Vec::new();
        for part in rows {
            let Some(node) = self.machine.id_of(&part.node) else {
                continue; // the node was taken out of the configuration
            };
            if !part.released {
                let on = self.machine.node_mut(node);
                if part.kept.is_none() {
                    on.cores.mark(&part.cores);
                }
                on.devices.mark(&part.gpus, &part.devices);
                on.jobs.insert(id);
            }
            parts.push(Part {
                node,
                bundle: part.bundle,
                tasks: part.tasks,
                amounts: part.amounts,
                cores: part.cores,
                gpus: part.gpus,
                devices: part.devices,
                boot_id: part.boot_id,
                kept: part.kept,
                step: if part.released {
                    PartStep::Released
                } else {
                    PartStep::Ordered
                },
            });
        }
        parts
    }

    fn load_run(&mut self, id: JobId, row: RunRow) {
        let parts = self.load_parts(id, row.parts);
        let leaving = self.load_parts(id, row.leaving);
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let mut all = parts.iter().chain(&leaving);
        if all.all(|p| p.step == PartStep::Released) {
            job.phase = Phase::Waiting(Some(WaitReason::Fresh));
            return;
        }
        // With several nodes the order to start may or may not have left: nodes tell at
        // registration; a single node's order is sent again then.
        let given = parts.len() == 1 || row.started.is_some() || row.after.is_some();
        let launching = match given {
            true => Launching::Sent,
            false => Launching::Unknown,
        };
        let limit = row.limit.unwrap_or(job.submitted.place.limit());
        let base = job.submitted.base;
        let held = job.submitted.is_held() && row.after.is_none();
        let lost = row.lost.iter();
        let lost = lost.filter_map(|name| self.machine.id_of(name));
        job.phase = Phase::Run(Box::new(Run {
            allocated: row.allocated,
            started: row.started,
            launching,
            limit,
            cut: row.cut,
            parts,
            after: row.after,
            killed: row.killed,
            canceller: row.canceller,
            suspended: row.suspended,
            suspended_for: row.suspended_for,
            resuming: row.resuming,
            leaving,
            resized: row.resized,
            hold_after: HeldBy::after_requeue(row.hold_after, row.special_after),
            lost: lost.collect(),
            steps: StepUse::default(),
            doubtful: row.doubtful,
            from_store: true,
        }));
        let ends_at = job.run().and_then(Run::ends_at).filter(|_| held);
        self.jobs.end_held_at(ends_at, id);
        self.take_licenses(id);
        self.run_as_it_is(id);
        self.count_running(id, true);
        self.note_mailing(id);
        if let Some(group) = self.jobs.group_mut(&base) {
            group.running += 1;
            group.note_start(row.started.unwrap_or(row.allocated));
        }
    }

    /// What the present configuration makes of a job that was accepted earlier.
    pub(crate) fn place_again(&self, job: &Submitted) -> Place {
        let Some(queue) = self.queue_id(&job.queue) else {
            return Place::Lost;
        };
        let user = match self.conversations.user(&job.uid) {
            Some(known) if !known.user.name.is_empty() => known.user.clone(),
            Some(_) | None => User {
                uid: job.uid,
                gid: job.gid,
                name: job.user.clone(),
                ..User::default()
            },
        };
        let place = self.place_or_wait(&job.spec, queue, &user);
        place.unwrap_or(Place::Lost)
    }

    /// Takes a new configuration. Nodes keep their numbers; what has gone from it stays
    /// as a drained node as long as the daemon runs.
    pub(crate) fn reconfigure(&mut self, now: Time, mut config: ClusterConfig) {
        self.lay_own_queues(&mut config);
        let states = self.queues.own_states();
        for spec in config.nodes.clone() {
            let Some(id) = self.machine.id_of(&spec.name) else {
                continue;
            };
            let configured = spec.amounts.is_some();
            self.machine.node_mut(id).spec = spec;
            if configured {
                self.configured_amounts(id);
            }
            let node = self.machine.node_mut(id);
            node.features_set = false;
            node.find_features();
        }
        for spec in &config.nodes {
            if !self.machine.has_node(&spec.name) {
                self.machine.add(spec.clone());
            }
        }
        let named: BTreeSet<&str> = config.nodes.iter().map(|n| n.name.as_str()).collect();
        let (there, gone) = self.machine.divided_by(&named);
        self.jobs.go_on_at(config.first_job.0);
        let told = self.welcome(Vec::new(), Vec::new());
        self.config = config;
        if told != self.welcome(Vec::new(), Vec::new()) {
            self.tell_policy();
        }
        self.configure_accounts(now);
        self.watch_configuration();
        self.build_queues(&states);
        self.machine_changed(now);
        for id in there {
            self.configured_again(now, id);
        }
        for id in gone {
            self.drain_by_itself(now, id, NOT_CONFIGURED);
        }
    }

    /// Nodes or queues are not what they were: every job is placed again.
    pub(crate) fn machine_changed(&mut self, now: Time) {
        let waiting: Vec<JobId> = self
            .jobs
            .all()
            .filter(|j| j.is_waiting())
            .map(|j| j.id)
            .collect();
        for id in &waiting {
            if self.planner_of(*id).dequeue(*id) {
                self.planning.left_inside(*id);
                let base = self.base_of(*id);
                self.count_queued(base, false);
            }
        }
        self.machine.changes_mut().all_placed(now, self.jobs.len());
        self.queues.part();
        self.tell_planner();
        self.rebuild_insides();
        self.place_all_again();
        for id in waiting {
            self.review(now, id);
        }
    }

    fn place_all_again(&mut self) {
        self.queues.count_anew();
        self.jobs.count_anew();
        for old in self.jobs.bodies() {
            let new = Arc::new(self.placed_again(&old));
            self.place_body(Waiter::of(&old), &new);
        }
        let ids: Vec<JobId> = self.jobs.ids().collect();
        for id in ids {
            let job = &self.jobs[&id];
            let (submitted, waits) = (job.submitted.clone(), job.is_waiting());
            self.count_in_queue(&submitted, 1);
            if !waits {
                self.count_running(id, true);
            }
        }
    }

    pub(crate) fn placed_again(&self, old: &Submitted) -> Submitted {
        let place = self.place_again(old);
        old.with(old.body, old.spec.clone(), old.queue.clone(), place)
    }
}
