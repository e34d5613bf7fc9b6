//! A workload through the controller itself, event by event, with execution switched off:
//! nodes that do at once what they are told, and whose programs end after their run time.
//!
//! At each instant first the ends, then the requests, then one turn of the controller, as in
//! [`super::trial`]. Nodes give back what a job held in the turn in which it ends; a real
//! node takes some milliseconds for it.
//!
//! What always holds: nothing is asked of the controller but what users and nodes can ask.
//! What users ask, and what they do after an answer, is up to [`Users`]; each job is asked
//! for by its own user when it is submitted.

use crate::replay::Machine;
use crate::workload::Job;
use cosy_control::{
    Caller, ClientId, ClusterConfig, Controller, Effect, Event, Facts, LinkHello, LinkId, Loaded,
    PolicyConfig, PriorityConfig, ReservationPolicy,
};
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::job::ResourceRequest;
use cosy_model::node::{AllocationKey, NodeReport, NodeSelf};
use cosy_model::policy::{Enforce, PolicyChange};
use cosy_model::{
    Amounts, DeviceUse, End, EndCause, Gid, Group, JobId, JobSpec, MiB, NodeSpec, OsText, Program,
    QueueSpec, Span, Time, Uid, User, limits,
};
use cosy_sched::{Policy, Scheduler};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const QUEUE: &str = "main";
/// So long after the last submission or end a site's jobs that still wait are waited for: use may
/// have to fade before they may start.
const PATIENCE: Span = Span::from_secs(60 * 86_400);
/// Uid of the workload's user 0.
const FIRST_UID: u32 = 1000;

/// Who asks for jobs or reservations.
pub trait Users {
    /// What the user of job `at` asks when it is submitted.
    fn first_request(&mut self, now: Time, at: usize, controller: &Controller) -> Request;

    /// What that user asks next after `reply`.
    fn next_request(&mut self, at: usize, reply: &Reply) -> Option<Request>;

    /// The controller begins a piece of work; for those who measure it.
    fn begins(&mut self, _: Work) {}

    /// It is done with that.
    fn has_done(&mut self, _: Work) {}

    /// The controller hands out a copy of its planner, to be planned with aside.
    fn plans(&mut self, _: Time, _: &Scheduler) {}

    /// Whether all has been seen that is to be seen: the rest of the jobs is left alone.
    fn have_seen_all(&self) -> bool {
        false
    }
}

/// A piece of work of the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// It takes changes of the accounts.
    Accounts,
    /// It takes a job, or what else its user asks for.
    Request,
    /// It takes the end of a job on one node.
    End,
    /// It does what one turn asks for.
    Turn,
}

/// A machine, the rules of its controller, and the jobs that come.
pub struct Setup<'a> {
    /// The nodes that the controller has.
    pub machine: Machine,
    /// How the queue is served.
    pub policy: Policy,
    /// Rules by which reservations are admitted.
    pub reservations: ReservationPolicy,
    /// All jobs, sorted by submit time.
    pub jobs: &'a [Job],
    /// Queues, accounts and the order of jobs, where there is more than one queue of all.
    pub site: Option<&'a Site<'a>>,
}

/// What a controller is told beside its machine.
pub struct Site<'a> {
    /// Login name of each of the workload's users.
    pub users: &'a [String],
    /// All queues.
    pub queues: Vec<QueueSpec>,
    /// How queues order their jobs.
    pub priority: PriorityConfig,
    /// What of the accounts binds jobs.
    pub enforce: Enforce,
    /// Accounts, users and qualities of service.
    pub policy: Vec<PolicyChange>,
}

/// Users who submit every job to the queue and reserve nothing.
struct QueueUsers<'a> {
    machine: Machine,
    jobs: &'a [Job],
}

impl Users for QueueUsers<'_> {
    fn first_request(&mut self, _: Time, at: usize, _: &Controller) -> Request {
        Request::Submit(Box::new(submission(self.machine, &self.jobs[at])))
    }

    fn next_request(&mut self, _: usize, _: &Reply) -> Option<Request> {
        None
    }
}

/// Runs `jobs` and answers when each started; `None` for those that were refused. Nobody
/// cancels or reserves anything.
pub fn starts(machine: Machine, policy: Policy, jobs: &[Job]) -> Vec<Option<Time>> {
    let setup = Setup {
        machine,
        policy,
        reservations: ReservationPolicy::default(),
        jobs,
        site: None,
    };
    run(&setup, &mut QueueUsers { machine, jobs })
}

/// Lets `users` ask for the jobs of `setup`, and answers when each started, in the queue or
/// with its reservation.
pub fn run(setup: &Setup<'_>, users: &mut dyn Users) -> Vec<Option<Time>> {
    // Without a site nothing is asked of the controller that it could refuse as a whole.
    run_site(setup, users).unwrap_or_default()
}

/// The same, with what the controller is told of a site.
///
/// # Errors
/// Why it refuses the accounts.
pub fn run_site(setup: &Setup<'_>, users: &mut dyn Users) -> Result<Vec<Option<Time>>, String> {
    let began = setup.jobs.first().map_or(Time::EPOCH, |job| job.submit);
    let mut run = ControllerReplay::new(setup, users, began);
    run.connect(began);
    run.tell_policy(began)?;
    while let Some(now) = run.next_instant().filter(|_| !run.users.have_seen_all()) {
        run.now = now;
        run.end_due(now);
        run.submit_due(now);
        run.settle(now);
    }
    Ok(run.starts)
}

/// What an attempt holds: the nodes' connections and names, that of the program last.
type AttemptNodes = Vec<(LinkId, String)>;

struct ControllerReplay<'a> {
    setup: &'a Setup<'a>,
    users: &'a mut dyn Users,
    controller: Controller,
    now: Time,
    /// Index of the next job to be submitted.
    next: usize,
    /// Index in the workload, by the id that the controller gave.
    known: BTreeMap<JobId, usize>,
    attempt_nodes: BTreeMap<AllocationKey, AttemptNodes>,
    ends: BinaryHeap<Reverse<(Time, AllocationKey)>>,
    starts: Vec<Option<Time>>,
    /// How many of them there are.
    started: usize,
    /// When something was submitted or ended last.
    busy: Time,
    /// Why the accounts were refused.
    refused: Option<String>,
}

/// The administrator who tells the accounts.
const ADMIN: ClientId = ClientId(u64::MAX);

impl<'a> ControllerReplay<'a> {
    fn new(setup: &'a Setup<'a>, users: &'a mut dyn Users, began: Time) -> Self {
        let loaded = Loaded {
            next_job: 1,
            ..Loaded::default()
        };
        Self {
            setup,
            users,
            controller: Controller::restore(config(setup), loaded, began),
            now: began,
            next: 0,
            known: BTreeMap::new(),
            attempt_nodes: BTreeMap::new(),
            ends: BinaryHeap::new(),
            starts: vec![None; setup.jobs.len()],
            started: 0,
            busy: began,
            refused: None,
        }
    }

    /// An administrator makes accounts, users and qualities of service.
    fn tell_policy(&mut self, now: Time) -> Result<(), String> {
        let site = self.setup.site.filter(|site| !site.policy.is_empty());
        let Some(site) = site else {
            return Ok(());
        };
        for (at, part) in site.policy.chunks(limits::POLICY_CHANGES).enumerate() {
            let request = Request::ChangePolicy {
                changes: part.to_vec(),
                dry_run: false,
            };
            let mut key = [0; 16];
            key[..8].copy_from_slice(&(at as u64).to_le_bytes());
            let asked = Event::Asked {
                client: ADMIN,
                caller: Box::new(Caller::known(person(Uid(0), "root"))),
                key: Some(key),
                request,
                facts: Facts::default(),
            };
            self.take(now, Work::Accounts, asked);
            self.settle(now);
        }
        self.refused.take().map_or(Ok(()), Err)
    }

    fn user(&self, uid: Uid) -> User {
        let at = uid.0.saturating_sub(FIRST_UID) as usize;
        let known = self.setup.site.and_then(|site| site.users.get(at));
        match known.filter(|name| !name.is_empty()) {
            Some(name) => person(uid, name),
            None => person(uid, &format!("user{uid}")),
        }
    }

    /// Every node connects and registers.
    fn connect(&mut self, now: Time) {
        for node in 0..self.setup.machine.nodes {
            let link = LinkId(node.into());
            let opened = Event::LinkOpened {
                link,
                peer: name(node),
                address: None,
                hello: LinkHello::Node { lacks: Vec::new() },
            };
            self.controller.handle(now, opened);
            let itself = NodeSelf {
                name: name(node),
                amounts: amounts(self.setup.machine),
                ..NodeSelf::default()
            };
            let register = NodeReport::Register {
                nodes: vec![itself],
                inventory: Vec::new(),
                seen: cosy_model::OsText::default(),
                clock: None,
            };
            self.report(now, link, register);
        }
        self.settle(now);
    }

    fn next_instant(&self) -> Option<Time> {
        let submit = self.setup.jobs.get(self.next).map(|job| job.submit);
        let end = self.ends.peek().map(|Reverse((at, _))| *at);
        // What was due is done: the controller is never asked twice at the same instant.
        let due = self.controller.next_due();
        let due = due.map(|due| due.max(self.now + Span(1)));
        // A site's controller looks at what was used again and again, for ever.
        let over = submit.is_none() && end.is_none() && self.setup.site.is_some();
        let in_vain = self.known.len() <= self.started
            || due.is_some_and(|due| due.since(self.busy) > PATIENCE);
        let due = due.filter(|_| !over || !in_vain);
        submit.into_iter().chain(end).chain(due).min()
    }

    fn end_due(&mut self, now: Time) {
        while let Some(Reverse((_, key))) = self.ends.peek().filter(|end| end.0.0 <= now) {
            let key = *key;
            self.ends.pop();
            self.busy = now;
            self.end(now, key);
        }
    }

    /// The program ends, and every node gives its share back.
    fn end(&mut self, now: Time, key: AllocationKey) {
        let mut attempt_nodes = self.attempt_nodes.remove(&key).unwrap_or_default();
        let Some((link, node)) = attempt_nodes.pop() else {
            return;
        };
        let ended = NodeReport::Ended {
            key,
            node,
            end: End::never_ran(EndCause::Exited, now),
            drain: None,
        };
        let reported = |link, report| Event::LinkReported { link, report };
        self.take(now, Work::End, reported(link, ended));
        for (link, node) in attempt_nodes {
            let drain = None;
            let released = NodeReport::Released {
                key,
                node,
                drain,
                devices: DeviceUse::default(),
            };
            self.take(now, Work::End, reported(link, released));
        }
    }

    fn take(&mut self, now: Time, work: Work, event: Event) {
        self.users.begins(work);
        self.controller.handle(now, event);
        self.users.has_done(work);
    }

    fn submit_due(&mut self, now: Time) {
        let jobs = self.setup.jobs;
        while jobs.get(self.next).is_some_and(|job| job.submit <= now) {
            let at = self.next;
            self.next += 1;
            self.busy = now;
            let request = self.users.first_request(now, at, &self.controller);
            self.send(now, at, request);
        }
    }

    fn send(&mut self, now: Time, at: usize, request: Request) {
        let asked = Event::Asked {
            client: ClientId(at as u64),
            caller: Box::new(Caller::known(self.user(uid(&self.setup.jobs[at])))),
            key: None,
            request,
            facts: Facts::default(),
        };
        self.take(now, Work::Request, asked);
    }

    /// Turns of the controller until nothing is left to do at this instant.
    fn settle(&mut self, now: Time) {
        loop {
            self.users.begins(Work::Turn);
            let batch = self.controller.settle(now);
            self.users.has_done(Work::Turn);
            if batch.is_empty() {
                return;
            }
            for effect in batch.effects {
                self.perform(now, effect);
            }
        }
    }

    fn perform(&mut self, now: Time, effect: Effect) {
        match effect {
            Effect::Reply { client, reply } => self.replied(now, client, &reply),
            Effect::Prepare {
                link, allocation, ..
            } => self.prepare(now, link, allocation.key, allocation.node),
            Effect::Launch { link, launch, .. } => {
                self.launch(now, link, launch.allocation.key, launch.allocation.node);
            }
            Effect::ResolveUser(uid) => {
                let result = Ok(self.user(uid));
                let resolved = Event::UserResolved { uid, result };
                self.controller.handle(now, resolved);
            }
            Effect::Appraise {
                appraisal,
                now: then,
                scheduler,
                inquiry,
            } => {
                let result = Box::new(scheduler.appraise(then, &inquiry));
                let appraised = Event::Appraised { appraisal, result };
                self.controller.handle(now, appraised);
            }
            Effect::PlanFlow {
                plan,
                now: then,
                scheduler,
                flow,
            } => {
                let result = Box::new(scheduler.plan_flow(then, &flow));
                let planned = Event::FlowPlanned { plan, result };
                self.controller.handle(now, planned);
            }
            Effect::Plan { scheduler, .. } => self.users.plans(now, &scheduler),
            Effect::TellDurable => self.controller.handle(now, Event::BecameDurable),
            // Nothing is left on a node that it could be told to clean up, and nobody asks
            // for new configurations.
            // Nothing is switched off in a replay.
            Effect::PlanWakes(_) | Effect::Power(_) => {}
            Effect::Order { .. }
            | Effect::Heard { .. }
            | Effect::Describe { .. }
            | Effect::LinkReply { .. }
            | Effect::CloseLink(_)
            | Effect::Pass { .. }
            | Effect::Passage { .. }
            | Effect::RunProgram { .. }
            | Effect::Reload { .. }
            | Effect::Mail { .. } => {}
        }
    }

    fn replied(&mut self, now: Time, client: ClientId, reply: &Reply) {
        if client == ADMIN {
            if let Reply::Refused(refusal) = reply {
                self.refused = Some(refusal.message.clone());
            }
            return;
        }
        let at = client.0 as usize;
        if let Reply::Submitted { job, .. } = reply {
            self.known.insert(*job, at);
        }
        if let Reply::Reserved { reservations, .. } = reply {
            let attached = reservations.iter().filter_map(|info| info.job);
            self.known.extend(attached.map(|job| (job, at)));
        }
        if let Some(request) = self.users.next_request(at, reply) {
            self.send(now, at, request);
        }
    }

    fn prepare(&mut self, now: Time, link: LinkId, key: AllocationKey, node: String) {
        let held = self.attempt_nodes.entry(key).or_default();
        held.push((link, node.clone()));
        let failure = None;
        self.report(now, link, NodeReport::Prepared { key, node, failure });
    }

    fn launch(&mut self, now: Time, link: LinkId, key: AllocationKey, node: String) {
        let held = self.attempt_nodes.entry(key).or_default();
        held.push((link, node.clone()));
        if let Some(at) = key.job().and_then(|own| self.known.get(&own.job)) {
            let job = &self.setup.jobs[*at];
            let first = self.starts[*at].replace(now).is_none();
            self.started += usize::from(first);
            let end = now + job.run.min(job.limit).max(Span(1));
            self.ends.push(Reverse((end, key)));
        }
        let at = now;
        self.report(now, link, NodeReport::Started { key, node, at });
    }

    fn report(&mut self, now: Time, link: LinkId, report: NodeReport) {
        let event = Event::LinkReported { link, report };
        self.controller.handle(now, event);
    }
}

fn name(node: u32) -> String {
    format!("n{node}")
}

fn amounts(machine: Machine) -> Amounts {
    Amounts {
        cores: machine.cores,
        memory: MiB(1),
        ..Amounts::default()
    }
}

/// One queue with all nodes. Nodes may be silent for as long as nothing happens.
fn config(setup: &Setup<'_>) -> ClusterConfig {
    let (machine, policy) = (setup.machine, setup.policy);
    let node = |node| NodeSpec {
        name: name(node),
        amounts: Some(amounts(machine)),
        key: Some(name(node)),
        ..NodeSpec::default()
    };
    let only = || {
        vec![QueueSpec {
            name: QUEUE.to_owned(),
            ..QueueSpec::default()
        }]
    };
    let queues = setup.site.map_or_else(only, |site| site.queues.clone());
    let default_queue = queues.first().map(|queue| queue.name.clone());
    ClusterConfig {
        name: "simulated".to_owned(),
        nodes: (0..machine.nodes).map(node).collect(),
        queues,
        default_queue,
        priority: setup
            .site
            .map(|site| site.priority.clone())
            .unwrap_or_default(),
        enforce: setup.site.map(|site| site.enforce).unwrap_or_default(),
        policy: PolicyConfig {
            backfill: policy.backfill,
            depth: policy.depth,
            node_timeout: Span::UNLIMITED,
            user_ttl: Span::UNLIMITED,
            ..PolicyConfig::default()
        },
        reservations: setup.reservations.clone(),
        ..ClusterConfig::default()
    }
}

fn uid(job: &Job) -> Uid {
    Uid(FIRST_UID.saturating_add(job.user))
}

fn person(uid: Uid, name: &str) -> User {
    let name = name.to_owned();
    User {
        uid,
        name: name.clone(),
        gid: Gid(uid.0),
        groups: vec![Group {
            gid: Gid(uid.0),
            name,
        }],
        home: "/".to_owned(),
        shell: "/bin/sh".to_owned(),
    }
}

/// The job as its user would submit it.
pub fn submission(machine: Machine, job: &Job) -> Submission {
    Submission {
        spec: spec(machine, job),
        script: OsText::default(),
        array: None,
    }
}

/// What the job asks of the machine.
pub fn resources(machine: Machine, job: &Job) -> ResourceRequest {
    let nodes = machine.demand(job).first().nodes;
    ResourceRequest {
        nodes,
        tasks: nodes.is_none().then_some(job.processors),
        exclusive: nodes.is_some(),
        ..ResourceRequest::default()
    }
}

fn spec(machine: Machine, job: &Job) -> JobSpec {
    let program = Program::Command {
        argv: vec![OsText::from("true")],
    };
    JobSpec {
        request: resources(machine, job),
        time_limit: Some(job.limit),
        ..JobSpec::plain("job", program, OsText::from("/"))
    }
}
