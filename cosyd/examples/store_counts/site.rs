//! A controller with one node that is made up, and what it wants to be written.
//!
//! The node does at once what it is told; each job runs one step, for a second.

use cosy_control::{
    Caller, ClientId, ClusterConfig, Controller, Effect, Event, Facts, LinkHello, LinkId, Loaded,
    PolicyConfig, Record,
};
use cosy_model::api::{Request, Submission};
use cosy_model::job::ResourceRequest;
use cosy_model::node::{AllocationKey, NodeReport, NodeSelf};
use cosy_model::step::{StepId, StepRecord};
use cosy_model::{
    Amounts, End, EndCause, Gid, Group, JobSpec, MiB, NodeSpec, OsText, Program, QueueSpec, Span,
    Time, Uid, User,
};
use std::collections::VecDeque;

const NODE: &str = "n1";
const LINK: LinkId = LinkId(1);
const USERS: u64 = 20;
const SECOND: Span = Span::from_secs(1);

/// A controller, and how far its node has come.
pub struct Site {
    controller: Controller,
    now: Time,
    /// What runs, and since when.
    running: VecDeque<(AllocationKey, Time)>,
    /// What was to be written and nobody has taken yet.
    batches: Vec<Vec<Record>>,
}

impl Site {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        let loaded = Loaded {
            next_job: 1,
            ..Loaded::default()
        };
        let now = Time(1_795_227_628_000);
        Self {
            controller: Controller::restore(config(), loaded, now),
            now,
            running: VecDeque::new(),
            batches: Vec::new(),
        }
    }

    /// So many jobs are submitted, one after the other.
    pub fn submit(&mut self, jobs: u64) -> Vec<Vec<Record>> {
        for number in 0..jobs {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
            self.happens(Event::Asked {
                client: ClientId(number),
                caller: Box::new(Caller::known(person(number % USERS))),
                key: Some(key),
                request: Request::Submit(Box::new(submission())),
                facts: Facts::default(),
            });
        }
        std::mem::take(&mut self.batches)
    }

    /// The node is there, and the first jobs start.
    pub fn connect(&mut self) -> Vec<Vec<Record>> {
        self.happens(Event::LinkOpened {
            link: LINK,
            peer: NODE.to_owned(),
            address: None,
            hello: LinkHello::Node { lacks: Vec::new() },
        });
        let itself = NodeSelf {
            name: NODE.to_owned(),
            amounts: amounts(),
            ..NodeSelf::default()
        };
        self.reports(NodeReport::Register {
            nodes: vec![itself],
            inventory: Vec::new(),
            seen: OsText::default(),
            clock: None,
        });
        std::mem::take(&mut self.batches)
    }

    /// All jobs run to their end.
    pub fn run(&mut self) -> Vec<Vec<Record>> {
        while let Some((key, start)) = self.running.pop_front() {
            self.now = self.now.max(start + SECOND);
            let end = End {
                start: Some(start),
                user_cpu_us: 3_912_345,
                system_cpu_us: 45_678,
                peak_memory_bytes: 123 << 20,
                ..End::never_ran(EndCause::Exited, self.now)
            };
            let node = NODE.to_owned();
            if let Some(own) = key.job() {
                self.reports(NodeReport::Steps {
                    key: own,
                    node: node.clone(),
                    before: 0,
                    records: vec![StepRecord {
                        step: StepId(0),
                        name: "solver".to_owned(),
                        nodes: NODE.to_owned(),
                        tasks: 4,
                        cores: 4,
                        end: end.clone(),
                    }],
                });
            }
            let drain = None;
            self.reports(NodeReport::Ended {
                key,
                node,
                end,
                drain,
            });
        }
        std::mem::take(&mut self.batches)
    }

    fn reports(&mut self, report: NodeReport) {
        self.happens(Event::LinkReported { link: LINK, report });
    }

    /// Something happens, a hundredth of a second later than what happened last, and all that follows.
    fn happens(&mut self, event: Event) {
        self.now = self.now + Span(10);
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            self.controller.handle(self.now, event);
            let batch = self.controller.settle(self.now);
            if !batch.records.is_empty() {
                self.batches.push(batch.records);
            }
            events.extend(batch.effects.into_iter().filter_map(|e| self.perform(e)));
        }
    }

    /// What follows an effect.
    fn perform(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Launch { launch, .. } => {
                let (key, node, at) = (launch.allocation.key, NODE.to_owned(), self.now);
                self.running.push_back((key, at));
                let report = NodeReport::Started { key, node, at };
                Some(Event::LinkReported { link: LINK, report })
            }
            Effect::ResolveUser(uid) => {
                let result = Ok(person(u64::from(uid.0.saturating_sub(1000))));
                Some(Event::UserResolved { uid, result })
            }
            Effect::TellDurable => Some(Event::BecameDurable),
            // Nobody listens to answers, and nothing is left on the node to be cleaned up.
            Effect::Reply { .. }
            | Effect::Prepare { .. }
            | Effect::Order { .. }
            | Effect::Heard { .. }
            | Effect::Describe { .. }
            | Effect::LinkReply { .. }
            | Effect::CloseLink(_)
            | Effect::Pass { .. }
            | Effect::Passage { .. }
            | Effect::RunProgram { .. }
            | Effect::Reload { .. }
            | Effect::Mail { .. }
            | Effect::Plan { .. }
            | Effect::Appraise { .. }
            | Effect::PlanFlow { .. }
            | Effect::PlanWakes(_)
            | Effect::Power(_) => None,
        }
    }
}

fn amounts() -> Amounts {
    Amounts {
        cores: 64,
        memory: MiB(256 << 10),
        ..Amounts::default()
    }
}

/// One queue with the one node, which may be silent as long as it likes.
fn config() -> ClusterConfig {
    let node = NodeSpec {
        name: NODE.to_owned(),
        amounts: Some(amounts()),
        key: Some(NODE.to_owned()),
        ..NodeSpec::default()
    };
    let queue = QueueSpec {
        name: "main".to_owned(),
        ..QueueSpec::default()
    };
    ClusterConfig {
        name: "counted".to_owned(),
        nodes: vec![node],
        default_queue: Some(queue.name.clone()),
        queues: vec![queue],
        policy: PolicyConfig {
            node_timeout: Span::UNLIMITED,
            user_ttl: Span::UNLIMITED,
            ..PolicyConfig::default()
        },
        ..ClusterConfig::default()
    }
}

fn person(number: u64) -> User {
    let (id, name) = (1000 + number as u32, format!("user{number}"));
    User {
        uid: Uid(id),
        name: name.clone(),
        gid: Gid(id),
        home: format!("/home/{name}"),
        groups: vec![Group { gid: Gid(id), name }],
        shell: "/bin/bash".to_owned(),
    }
}

/// A script of a kilobyte with variables of two.
fn submission() -> Submission {
    let script = Program::Script {
        name: OsText::from("solve.sh"),
        args: vec![OsText::from("input.dat")],
    };
    let variables = "PATH=/usr/bin:/bin\0HOME=/home/user\0LANG=C.UTF-8\0";
    let spec = JobSpec {
        request: ResourceRequest {
            tasks: Some(4),
            ..ResourceRequest::default()
        },
        time_limit: Some(Span::from_minutes(60)),
        environment: OsText::from(variables.repeat(40)),
        ..JobSpec::plain("simulation", script, OsText::from("/home/user/work"))
    };
    let lines = "module load solver\nsrun solver input.dat\n";
    Submission {
        spec,
        script: OsText::from(format!("#!/bin/bash\n{}", lines.repeat(25))),
        array: None,
    }
}
