//! Nodes as they are now: connected or not, open or drained, what they have.

pub(crate) mod procedures;

use crate::clock::NodeClock;
use crate::event::{ClientId, LinkId};
use crate::machine::devices::NodeDevices;
use crate::record::NodeRow;
use crate::triggers::Condition;
use cosy_model::api::{NodeInfo, Reply};
use cosy_model::node::{AttemptKey, Machine};
use cosy_model::{Amounts, JobId, NodeId, NodeSpec, NodeState, Span, Time, Uid, limits};
use cosy_view::node::NodeCondition;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The most that a lost node has for ending what may run again.
const FENCING: Span = Span::from_secs(10);

/// Work for nodes that one piece of a list tells: so much for each, and 1 for each queue, which
/// may have it.
const PIECE_WORK: usize = 50_000;
/// See [`PIECE_WORK`].
const WORK_FOR_NODE: usize = 100;

/// A list of nodes under way: there may be 100,000. Nodes keep their places.
#[derive(Debug)]
pub(crate) struct NodeList {
    pub client: ClientId,
    pub told: Vec<NodeInfo>,
}

impl NodeList {
    pub fn answer(self) -> Reply {
        Reply::Nodes(self.told)
    }
}

#[derive(Debug)]
pub(crate) struct Node {
    pub spec: NodeSpec,
    /// Configured or found there; nothing while unknown.
    pub amounts: Amounts,
    /// `amounts` can be relied on.
    pub known: bool,
    /// Features from the configuration and from the node.
    pub features: BTreeSet<String>,
    /// Those that its daemon told.
    pub told_features: Vec<String>,
    /// An administrator has set its features at run time.
    pub features_set: bool,
    pub state: NodeState,
    pub link: Option<LinkId>,
    pub last_seen: Option<Time>,
    /// How long the controller had listened when it was heard of last.
    pub heard: Span,
    /// Silent for too long.
    pub lost: bool,
    /// Its attempts are superseded.
    pub given_up: bool,
    /// It ends what may run again when it is alone: it is not given up before it has.
    pub fences: bool,
    /// History says that it is lost.
    pub told_lost: bool,
    /// How right its clock is.
    pub clock: NodeClock,
    /// What the node's own health check says.
    pub problem: Option<String>,
    pub version: String,
    pub boot_id: String,
    pub only_uid: Option<Uid>,
    /// Where other nodes reach it; empty: not at all.
    pub address: String,
    /// It was reached elsewhere before: allocations may say so.
    pub moved: bool,
    /// Its socket for steps; empty without.
    pub step_socket: String,
    /// The machine under it as it tells.
    pub machine: Machine,
    pub cores: Numbers,
    pub devices: NodeDevices,
    pub jobs: BTreeSet<JobId>,
    /// Attempts of jobs that are set aside and go on there.
    pub strays: BTreeSet<AttemptKey>,
    /// How it was when triggers were told last.
    pub condition: Condition,
    /// It has had nothing to do since then, if it has nothing to do.
    pub idle_since: Time,
}

impl Node {
    /// Whether one more attempt may go on there that the store does not have. No node has as many
    /// jobs; whoever tells of more has made them up.
    pub fn has_room_for(&self, stray: AttemptKey) -> bool {
        self.strays.len() < limits::STRAYS_OF_NODE || self.strays.contains(&stray)
    }

    pub fn new(spec: NodeSpec, state: NodeState) -> Self {
        let devices = NodeDevices::default();
        let amounts = devices.counted(spec.amounts.clone().unwrap_or_default());
        Self {
            known: spec.amounts.is_some(),
            features: spec.features.iter().cloned().collect(),
            told_features: Vec::new(),
            features_set: false,
            amounts,
            spec,
            state,
            link: None,
            last_seen: None,
            heard: Span::ZERO,
            lost: false,
            given_up: false,
            fences: false,
            told_lost: false,
            clock: NodeClock::default(),
            problem: None,
            version: String::new(),
            boot_id: String::new(),
            only_uid: None,
            address: String::new(),
            moved: false,
            step_socket: String::new(),
            machine: Machine::default(),
            cores: Numbers::default(),
            devices,
            jobs: BTreeSet::new(),
            strays: BTreeSet::new(),
            condition: Condition::default(),
            idle_since: Time::EPOCH,
        }
    }

    /// Its features are those of the configuration and those that its daemon tells, unless
    /// an administrator has set others.
    pub fn find_features(&mut self) {
        if !self.features_set {
            let all = self.spec.features.iter().chain(&self.told_features);
            self.features = all.cloned().collect();
        }
    }

    /// What the store has of it.
    pub fn load(&mut self, row: &NodeRow) {
        self.state = row.state.clone();
        self.load_features(row);
        match &row.amounts {
            Some(amounts) if self.known => self.keep_types(amounts),
            Some(amounts) => {
                self.amounts = amounts.clone();
                self.keep_types(amounts);
                self.known = true;
            }
            None => {}
        }
        let before = Condition::default().lost(row.lost);
        self.condition = Condition::of(self, before);
        self.told_lost = row.lost && !matches!(self.state, NodeState::Down { .. });
    }

    /// Until its daemon tells them again, those that it told before count.
    fn load_features(&mut self, row: &NodeRow) {
        self.features_set = row.features_set;
        if row.features_set {
            self.features = row.features.iter().cloned().collect();
        } else {
            self.told_features = row.features.clone();
            self.find_features();
        }
    }

    /// True when something new may start there now.
    pub fn takes_jobs(&self) -> bool {
        let sound = self.problem.is_none() && self.strays.is_empty() && !self.clock.wrong;
        self.link.is_some() && self.state == NodeState::Open && sound
    }

    /// It has never told what it has.
    pub fn is_untold(&self) -> bool {
        self.link.is_none() && self.last_seen.is_none()
    }

    /// True when it could be given as a whole now.
    pub fn is_idle(&self) -> bool {
        self.takes_jobs() && self.jobs.is_empty()
    }

    pub fn has_features(&self, wanted: &[String]) -> bool {
        wanted.iter().all(|f| self.features.contains(f))
    }
}

/// Which numbered things (cores, GPUs, devices) are held.
#[derive(Debug, Default, Clone)]
pub(crate) struct Numbers(Vec<bool>);

impl Numbers {
    /// The `count` lowest free numbers.
    pub fn take(&mut self, count: u32) -> Vec<u32> {
        let mut taken = Vec::with_capacity(count as usize);
        let mut at = 0;
        while taken.len() < count as usize {
            if at == self.0.len() {
                self.0.push(false);
            }
            if !self.0[at] {
                self.0[at] = true;
                taken.push(at as u32);
            }
            at += 1;
        }
        taken
    }

    /// The `count` lowest of `numbers` that are free; fewer when there are not so many.
    pub fn take_of(&mut self, numbers: impl Iterator<Item = u32>, count: u32) -> Vec<u32> {
        let held = |n: &u32| self.0.get(*n as usize).is_some_and(|held| *held);
        let free = numbers.filter(|n| !held(n)).take(count as usize);
        let taken: Vec<u32> = free.collect();
        self.mark(&taken);
        taken
    }

    pub fn mark(&mut self, numbers: &[u32]) {
        for n in numbers.iter().filter(|n| **n < limits::NODE_CORES) {
            let at = *n as usize;
            if at >= self.0.len() {
                self.0.resize(at + 1, false);
            }
            self.0[at] = true;
        }
    }

    pub fn give(&mut self, numbers: &[u32]) {
        for n in numbers {
            if let Some(held) = self.0.get_mut(*n as usize) {
                *held = false;
            }
        }
    }

    /// Those that are held.
    pub fn numbers(&self) -> Vec<u32> {
        let held = self.0.iter().zip(0..).filter(|(held, _)| **held);
        held.map(|(_, number)| number).collect()
    }

    /// True when one of `numbers` is held.
    pub fn holds_any(&self, numbers: &[u32]) -> bool {
        let held = |n: &u32| self.0.get(*n as usize).is_some_and(|held| *held);
        numbers.iter().any(held)
    }

    pub fn held(&self) -> usize {
        self.0.iter().filter(|h| **h).count()
    }
}

/// What a daemon tells of its machine, within limits, with where its link comes from.
pub(crate) fn machine(mut told: Machine, at: Option<IpAddr>, listen: &str) -> Machine {
    for text in [&mut told.host, &mut told.arch, &mut told.os] {
        let plain = text.chars().filter(|c| !c.is_control());
        *text = plain.take(limits::NAME_BYTES).collect();
    }
    told.address = at.map(|at| at.to_string()).unwrap_or_default();
    let port = listen
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok());
    told.port = port.unwrap_or(0);
    told
}

/// A node daemon's connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub peer: String,
    /// Where it comes from.
    pub address: Option<IpAddr>,
    pub nodes: Vec<NodeId>,
    /// Names of orders that its daemon does not know.
    pub lacks: Vec<&'static str>,
}

/// Why a node is drained that the configuration has no longer.
pub(crate) const NOT_CONFIGURED: &str = "it is no longer in the configuration";

/// Who said what the state says, and when.
fn said_by(state: &NodeState) -> (String, Option<Time>) {
    match state {
        NodeState::Drained { by, since, .. } | NodeState::Down { by, since, .. } => {
            (by.clone(), *since)
        }
        NodeState::Open => (String::new(), None),
    }
}

fn node_state(node: &Node, used: &Amounts, idle: bool) -> NodeCondition {
    let busy = if idle {
        NodeCondition::Idle
    } else if used.cores < node.amounts.cores {
        NodeCondition::Mixed
    } else {
        NodeCondition::Busy
    };
    match (&node.state, node.link) {
        (NodeState::Down { .. }, _) => NodeCondition::Down,
        (NodeState::Drained { .. }, _) if node.jobs.is_empty() => NodeCondition::Drained,
        (NodeState::Drained { .. }, _) => NodeCondition::Draining,
        (NodeState::Open, Some(_)) if node.clock.wrong => NodeCondition::Unhealthy,
        (NodeState::Open, _) if node.problem.is_some() => NodeCondition::Unhealthy,
        (NodeState::Open, Some(_)) => busy.to_owned(),
        (NodeState::Open, None) if node.lost && node.last_seen.is_some() => NodeCondition::Lost,
        (NodeState::Open, None) => NodeCondition::Unknown,
    }
}
