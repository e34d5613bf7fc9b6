//! Nodes as they are now: connected or not, open or drained, what they have.

pub(crate) mod procedures;

use crate::clock::NodeClock;
use crate::event::{ClientId, LinkId};
use crate::machine::devices::NodeDevices;
use crate::machine::power::NodePower;
use crate::record::NodeRow;
use crate::triggers::Condition;
use cosy_model::api::{NodeInfo, Reply};
use cosy_model::node::{AttemptKey, Machine};
use cosy_model::{
    Amounts, JobId, NodeId, NodeSpec, NodeState, PowerPhase, Span, Time, Uid, limits,
};
use cosy_view::node::NodeCondition;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The most that a lost node has for ending what may run again.
const FENCING: Span = Span::from_secs(10);

/// Work for nodes that one piece of a list tells: so much for each, and 1 for each queue, which
/// may have it.
const PIECE_WORK: usize = 50_000;
/// What one node takes of [`PIECE_WORK`].
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
    pub(in crate::machine) spec: NodeSpec,
    /// Configured or found there; nothing while unknown.
    pub(in crate::machine) amounts: Amounts,
    /// `amounts` can be relied on.
    pub(in crate::machine) known: bool,
    /// Features from the configuration and from the node.
    pub(in crate::machine) features: BTreeSet<String>,
    /// Those that its daemon told.
    pub(in crate::machine) told_features: Vec<String>,
    /// An administrator has set its features at run time.
    pub(in crate::machine) features_set: bool,
    pub(in crate::machine) state: NodeState,
    pub(in crate::machine) link: Option<LinkId>,
    pub(in crate::machine) last_seen: Option<Time>,
    /// How long the controller had listened when it was heard of last.
    pub(in crate::machine) heard: Span,
    /// Silent for too long.
    pub(in crate::machine) lost: bool,
    /// Its attempts are superseded.
    pub(in crate::machine) given_up: bool,
    /// It ends what may run again when it is alone: it is not given up before it has.
    pub(in crate::machine) fences: bool,
    /// History says that it is lost.
    pub(in crate::machine) told_lost: bool,
    /// How right its clock is.
    pub(in crate::machine) clock: NodeClock,
    /// What the node's own health check says.
    pub(in crate::machine) problem: Option<String>,
    pub(in crate::machine) version: String,
    pub(in crate::machine) boot_id: String,
    pub(in crate::machine) only_uid: Option<Uid>,
    /// Where other nodes reach it; empty: not at all.
    pub(in crate::machine) address: String,
    /// It was reached elsewhere before: allocations may say so.
    pub(in crate::machine) moved: bool,
    /// Its socket for steps; empty without.
    pub(in crate::machine) step_socket: String,
    /// The machine under it as it tells.
    pub(in crate::machine) machine: Machine,
    pub(in crate::machine) cores: Numbers,
    pub(in crate::machine) devices: NodeDevices,
    pub(in crate::machine) jobs: BTreeSet<JobId>,
    /// Attempts of jobs that are set aside and go on there.
    pub(in crate::machine) strays: BTreeSet<AttemptKey>,
    /// How it was when triggers were told last.
    pub(in crate::machine) condition: Condition,
    /// It has had nothing to do since then, if it has nothing to do.
    pub(in crate::machine) idle_since: Time,
    /// Whether it is switched on.
    pub(in crate::machine) power: NodePower,
}

/// What is known of it.
impl Node {
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    /// Configured or found there; nothing while unknown.
    pub fn amounts(&self) -> &Amounts {
        &self.amounts
    }

    /// `amounts` can be relied on.
    pub fn known(&self) -> bool {
        self.known
    }

    /// Features from the configuration and from the node.
    pub fn features(&self) -> &BTreeSet<String> {
        &self.features
    }

    pub fn state(&self) -> &NodeState {
        &self.state
    }

    pub fn link(&self) -> Option<LinkId> {
        self.link
    }

    /// When its daemon said something last.
    pub fn last_seen(&self) -> Option<Time> {
        self.last_seen
    }

    /// How long the controller had listened when it was heard of last.
    pub fn heard(&self) -> Span {
        self.heard
    }

    /// Silent for too long.
    pub fn lost(&self) -> bool {
        self.lost
    }

    /// Its attempts are superseded.
    pub fn given_up(&self) -> bool {
        self.given_up
    }

    /// How right its clock is.
    pub fn clock(&self) -> &NodeClock {
        &self.clock
    }

    /// What the node's own health check says.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    pub fn only_uid(&self) -> Option<Uid> {
        self.only_uid
    }

    /// Its socket for steps; empty without.
    pub fn step_socket(&self) -> &str {
        &self.step_socket
    }

    pub fn cores(&self) -> &Numbers {
        &self.cores
    }

    pub fn devices(&self) -> &NodeDevices {
        &self.devices
    }

    pub fn jobs(&self) -> &BTreeSet<JobId> {
        &self.jobs
    }

    /// Whether it is switched on.
    pub fn power(&self) -> &NodePower {
        &self.power
    }

    /// How it was when triggers were told last.
    pub fn condition(&self) -> &Condition {
        &self.condition
    }

    /// It has had nothing to do since then, if it has nothing to do.
    pub fn idle_since(&self) -> Time {
        self.idle_since
    }
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
            power: NodePower::default(),
        }
    }

    // ---- what happens to it

    /// An administrator, its health check or the controller has taken it out of service or put
    /// it back.
    pub fn is_set(&mut self, state: NodeState) {
        self.state = state;
    }

    /// Its health check has nothing against it any more.
    pub fn is_well_since(&mut self, now: Time) {
        self.problem = None;
        self.idle_since = now;
    }

    /// The configuration says this of it.
    pub fn is_configured(&mut self, spec: NodeSpec) {
        self.spec = spec;
    }

    /// It has these amounts, as its daemon told.
    pub fn has(&mut self, amounts: Amounts) {
        self.amounts = amounts;
        self.known = true;
    }

    /// What an administrator has set of its features at run time is forgotten.
    pub fn has_features_of_its_own(&mut self) {
        self.features_set = false;
        self.find_features();
    }

    /// It was silent for so long that what runs there is superseded.
    pub fn is_given_up(&mut self) {
        self.given_up = true;
    }

    /// Its clock is so far ahead of the controller's.
    pub fn clock_told(&mut self, ahead: Span) {
        self.clock.told(ahead);
    }

    /// Whether its clock is too wrong to take jobs; false when nothing has changed.
    pub fn clock_is_wrong(&mut self, wrong: bool) -> bool {
        std::mem::replace(&mut self.clock.wrong, wrong) != wrong
    }

    /// Triggers were told of it as it is now.
    pub fn triggers_know(&mut self, condition: Condition) {
        self.condition = condition;
    }

    /// An attempt goes on there that the store does not have; false when that was known.
    pub fn has_stray(&mut self, stray: AttemptKey) -> bool {
        self.strays.insert(stray)
    }

    /// Such an attempt is over; false when there was none.
    pub fn has_stray_no_more(&mut self, stray: &AttemptKey) -> bool {
        self.strays.remove(stray)
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
        self.power = row.power.clone();
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
        let on = self.power.phase == PowerPhase::On;
        self.link.is_some() && self.state == NodeState::Open && sound && on
    }

    /// True when something new may be planned there for when it is up: it is switched off, and comes up
    /// when it is wanted.
    pub fn comes_up(&self) -> bool {
        !self.power.phase.is_on() && self.state == NodeState::Open && self.known
    }

    /// True when something new may be planned there: for now, or for when it is up.
    pub fn can_be_planned_on(&self) -> bool {
        self.takes_jobs() || self.comes_up()
    }

    /// It has never told what it has.
    pub fn is_untold(&self) -> bool {
        self.link.is_none() && self.last_seen.is_none()
    }

    /// It was drained because it had not come up in time, or the program for that had failed.
    pub fn came_late(&self) -> bool {
        let NodeState::Drained { reason, by, .. } = &self.state else {
            return false;
        };
        by == "controller" && (reason.starts_with(NOT_UP) || reason.starts_with(RESUME_FAILED))
    }

    /// True when nothing runs there any more, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.strays.is_empty()
    }

    /// Its daemon is not there and does not come by itself: what ran there was given up.
    pub fn is_gone(&self) -> bool {
        self.link.is_none() && self.lost && self.given_up && self.jobs.is_empty()
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
        let free = numbers.filter(|n| !self.holds(*n)).take(count as usize);
        let taken: Vec<u32> = free.collect();
        self.mark(&taken);
        taken
    }

    fn holds(&self, number: u32) -> bool {
        self.0.get(number as usize).is_some_and(|held| *held)
    }

    /// How many of these are free.
    pub fn free_of(&self, numbers: std::ops::Range<u32>) -> u32 {
        numbers.filter(|n| !self.holds(*n)).count() as u32
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
        numbers.iter().any(|n| self.holds(*n))
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

/// Why a node is drained that does not come up.
pub(crate) const NOT_UP: &str = "it did not come up within";
/// The same, where the program says so.
pub(crate) const RESUME_FAILED: &str = "the resume program failed";

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
    match (&node.state, node.power.phase, node.link) {
        (NodeState::Down { .. }, ..) => NodeCondition::Down,
        (NodeState::Drained { .. }, ..) | (NodeState::Open, PowerPhase::OffWhenIdle, _) => {
            match node.jobs.is_empty() {
                true => NodeCondition::Drained,
                false => NodeCondition::Draining,
            }
        }
        (NodeState::Open, PowerPhase::TurningOff { .. }, _) => NodeCondition::PoweringDown,
        (NodeState::Open, PowerPhase::Booting { .. }, _) => NodeCondition::PoweringUp,
        (NodeState::Open, PowerPhase::Off { .. }, _) => NodeCondition::Off,
        (NodeState::Open, PowerPhase::On, Some(_)) if node.clock.wrong => NodeCondition::Unhealthy,
        (NodeState::Open, PowerPhase::On, _) if node.problem.is_some() => NodeCondition::Unhealthy,
        (NodeState::Open, PowerPhase::On, Some(_)) => busy,
        (NodeState::Open, PowerPhase::On, None) if node.lost && node.last_seen.is_some() => {
            NodeCondition::Lost
        }
        (NodeState::Open, PowerPhase::On, None) => NodeCondition::Unknown,
    }
}
