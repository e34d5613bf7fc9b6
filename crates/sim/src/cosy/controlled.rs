//! A workload through the controller itself, event by event, with execution switched off:
//! nodes that do at once what they are told, and whose programs end after their run time.
//!
//! At each instant first the ends, then the requests, then one turn of the controller, as in
//! [`super::trial`]. Nodes give back what a job held in the turn in which it ends; a real
//! node takes some milliseconds for it.
//!
//! What always holds: nothing is asked of the controller but what users and nodes can ask.
//! The controller takes no requests for reservations yet, so all jobs go into the queue; a
//! reservation will be one more request in [`Controlled::ask_due`].

use crate::replay::Machine;
use crate::workload::Job;
use cosy_control::{
    Caller, ClientId, ClusterConfig, Controller, Effect, Event, Facts, LinkHello, LinkId, Loaded,
    PolicyConfig,
};
use cosy_model::api::{Reply, Request, Submission};
use cosy_model::job::{MailRequest, OpenMode, ResourceRequest};
use cosy_model::node::{AttemptKey, NodeReport, NodeSelf};
use cosy_model::{
    Amounts, End, EndCause, Gid, Group, JobId, JobSpec, MiB, NodeSpec, OsText, Program, QueueSpec,
    Span, Time, Uid, User,
};
use cosy_sched::Policy;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const USER: &str = "user";
const QUEUE: &str = "main";
const UID: Uid = Uid(1000);

/// Runs `jobs` and answers when each started; `None` for those that were refused. Nobody
/// cancels anything.
pub fn starts(machine: Machine, policy: Policy, jobs: &[Job]) -> Vec<Option<Time>> {
    let began = jobs.first().map_or(Time::EPOCH, |job| job.submit);
    let mut run = Controlled::new(machine, policy, jobs, began);
    run.connect(began);
    while let Some(now) = run.next_instant() {
        run.end_due(now);
        run.ask_due(now);
        run.settle(now);
    }
    run.starts
}

/// What an attempt holds: the nodes' connections and names, that of the program last.
type Parts = Vec<(LinkId, String)>;

struct Controlled<'a> {
    jobs: &'a [Job],
    machine: Machine,
    controller: Controller,
    /// The next job to be submitted.
    next: usize,
    /// Ids that the controller gave, and the jobs that they are.
    known: BTreeMap<JobId, usize>,
    parts: BTreeMap<AttemptKey, Parts>,
    ends: BinaryHeap<Reverse<(Time, AttemptKey)>>,
    starts: Vec<Option<Time>>,
}

impl<'a> Controlled<'a> {
    fn new(machine: Machine, policy: Policy, jobs: &'a [Job], began: Time) -> Self {
        let loaded = Loaded {
            next_job: 1,
            ..Loaded::default()
        };
        Self {
            jobs,
            machine,
            controller: Controller::restore(config(machine, policy), loaded, began),
            next: 0,
            known: BTreeMap::new(),
            parts: BTreeMap::new(),
            ends: BinaryHeap::new(),
            starts: vec![None; jobs.len()],
        }
    }

    /// Every node connects and registers.
    fn connect(&mut self, now: Time) {
        for node in 0..self.machine.nodes {
            let link = LinkId(node.into());
            let opened = Event::LinkOpened {
                link,
                peer: name(node),
                hello: LinkHello::Node,
            };
            self.controller.handle(now, opened);
            let itself = NodeSelf {
                name: name(node),
                amounts: amounts(self.machine),
                features: Vec::new(),
                boot_id: String::new(),
                version: String::new(),
                only_uid: None,
            };
            let register = NodeReport::Register {
                nodes: vec![itself],
                inventory: Vec::new(),
            };
            self.report(now, link, register);
        }
        self.settle(now);
    }

    fn next_instant(&self) -> Option<Time> {
        let submit = self.jobs.get(self.next).map(|job| job.submit);
        let end = self.ends.peek().map(|Reverse((at, _))| *at);
        submit.into_iter().chain(end).min()
    }

    fn end_due(&mut self, now: Time) {
        while let Some(Reverse((_, key))) = self.ends.peek().filter(|end| end.0.0 <= now) {
            let key = *key;
            self.ends.pop();
            self.end(now, key);
        }
    }

    /// The program ends, and every node gives its share back.
    fn end(&mut self, now: Time, key: AttemptKey) {
        let mut parts = self.parts.remove(&key).unwrap_or_default();
        let Some((link, node)) = parts.pop() else {
            return;
        };
        let ended = NodeReport::Ended {
            key,
            node,
            end: End::never_ran(EndCause::Exited, now),
            drain: None,
        };
        self.report(now, link, ended);
        for (link, node) in parts {
            let drain = None;
            self.report(now, link, NodeReport::Released { key, node, drain });
        }
    }

    fn ask_due(&mut self, now: Time) {
        while let Some(job) = self.jobs.get(self.next).filter(|job| job.submit <= now) {
            let submission = Submission {
                spec: spec(self.machine, job),
                script: OsText::default(),
                array: None,
            };
            let asked = Event::Asked {
                client: ClientId(self.next as u64),
                caller: Box::new(Caller {
                    user: user(),
                    resolved: true,
                    via: None,
                }),
                key: None,
                request: Request::Submit(Box::new(submission)),
                facts: Facts::default(),
            };
            self.next += 1;
            self.controller.handle(now, asked);
        }
    }

    /// Turns of the controller until nothing is left to do at this instant.
    fn settle(&mut self, now: Time) {
        loop {
            let batch = self.controller.settle(now);
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
            Effect::Reply { client, reply } => self.replied(client, &reply),
            Effect::Prepare {
                link, allocation, ..
            } => self.prepare(now, link, allocation.key, allocation.node),
            Effect::Launch { link, launch, .. } => {
                self.launch(now, link, launch.allocation.key, launch.allocation.node);
            }
            Effect::ResolveUser(uid) => {
                let result = Ok(user());
                let resolved = Event::UserResolved { uid, result };
                self.controller.handle(now, resolved);
            }
            // Nothing is left on a node that it could be told to clean up, and nobody asks
            // for plans or new configurations.
            Effect::Order { .. }
            | Effect::LinkReply { .. }
            | Effect::CloseLink(_)
            | Effect::Plan { .. }
            | Effect::Appraise { .. }
            | Effect::Reload { .. }
            | Effect::Mail { .. } => {}
        }
    }

    fn replied(&mut self, client: ClientId, reply: &Reply) {
        if let Reply::Submitted { job, .. } = reply {
            self.known.insert(*job, client.0 as usize);
        }
    }

    fn prepare(&mut self, now: Time, link: LinkId, key: AttemptKey, node: String) {
        let held = self.parts.entry(key).or_default();
        held.push((link, node.clone()));
        let failure = None;
        self.report(now, link, NodeReport::Prepared { key, node, failure });
    }

    fn launch(&mut self, now: Time, link: LinkId, key: AttemptKey, node: String) {
        let held = self.parts.entry(key).or_default();
        held.push((link, node.clone()));
        if let Some(at) = self.known.get(&key.job) {
            let job = &self.jobs[*at];
            self.starts[*at] = Some(now);
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
fn config(machine: Machine, policy: Policy) -> ClusterConfig {
    let node = |node| NodeSpec {
        name: name(node),
        amounts: Some(amounts(machine)),
        key: Some(name(node)),
        ..NodeSpec::default()
    };
    ClusterConfig {
        name: "simulated".to_owned(),
        nodes: (0..machine.nodes).map(node).collect(),
        queues: vec![QueueSpec {
            name: QUEUE.to_owned(),
            ..QueueSpec::default()
        }],
        default_queue: Some(QUEUE.to_owned()),
        policy: PolicyConfig {
            backfill: policy.backfill,
            depth: policy.depth,
            node_timeout: Span::UNLIMITED,
            user_ttl: Span::UNLIMITED,
            ..PolicyConfig::default()
        },
        ..ClusterConfig::default()
    }
}

fn user() -> User {
    User {
        uid: UID,
        name: USER.to_owned(),
        gid: Gid(UID.0),
        groups: vec![Group {
            gid: Gid(UID.0),
            name: USER.to_owned(),
        }],
        home: "/".to_owned(),
        shell: "/bin/sh".to_owned(),
    }
}

fn spec(machine: Machine, job: &Job) -> JobSpec {
    let nodes = machine.demand(job).nodes;
    JobSpec {
        name: String::from("job"),
        queue: None,
        account: None,
        reservation: None,
        comment: String::new(),
        program: Program::Command {
            argv: vec![OsText::from("true")],
        },
        request: ResourceRequest {
            nodes,
            tasks: nodes.is_none().then_some(job.processors),
            exclusive: nodes.is_some(),
            ..ResourceRequest::default()
        },
        time_limit: Some(job.limit),
        begin: None,
        hold: false,
        nice: 0,
        dependencies: Vec::new(),
        requeue: false,
        workdir: OsText::from("/"),
        stdout: None,
        stderr: None,
        stdin: None,
        open_mode: OpenMode::Truncate,
        environment: OsText::default(),
        login_environment: false,
        umask: 0o22,
        rlimits: Vec::new(),
        warn: None,
        mail: MailRequest::default(),
    }
}
