//! The machine: nodes, the links of their daemons, keys and tokens, what each node holds.
//!
//! What always holds: a node keeps its number as long as the daemon runs, also when it has gone
//! from the configuration; numbers are dense; a name stands for one number.

pub(crate) mod availability;
pub(crate) mod changes;
pub(crate) mod devices;
pub(crate) mod features;
pub(crate) mod invariants;
pub(crate) mod keys;
pub(crate) mod names;
pub(crate) mod network;
pub(crate) mod node_lost;
pub(crate) mod nodes;
pub(crate) mod older_store;
pub(crate) mod passages;
pub(crate) mod power;
pub(crate) mod reports;
pub(crate) mod returning;
pub(crate) mod revocation;
pub(crate) mod switches;

pub(crate) use changes::SHORT;

use crate::event::LinkId;
use crate::machine::changes::Changes;
use crate::machine::keys::Keys;
use crate::machine::network::Network;
use crate::machine::nodes::{Link, Node};
use crate::machine::passages::Passages;
use crate::machine::power::Powering;
use crate::machine::returning::Returning;
use crate::record::NodeRow;
use cosy_model::node::AttemptKey;
use cosy_model::{ClockStep, JobId, NodeId, NodeSpec, NodeState, PowerPhase, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes and what their daemons are told and tell.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// Nodes by their numbers, which never change.
    nodes: Vec<Node>,
    /// Numbers by name.
    node_ids: BTreeMap<String, NodeId>,
    links: BTreeMap<LinkId, Link>,
    /// Keys that nodes joined with, revoked ones, tokens.
    keys: Keys,
    /// Passages that wait for the look-up of a user.
    passages: Passages,
    /// Orders that wait for the groups of the job's user: sent when those are known.
    unordered: BTreeSet<(JobId, NodeId)>,
    /// What nodes have become and was not acted upon yet.
    changes: Changes,
    /// Nodes that are waited for since the controller has started.
    returning: Returning,
    /// The switches that nodes hang on.
    network: Option<Network>,
    /// What is under way with the power of nodes.
    powering: Powering,
    /// The node at which the next turn goes on to look for jobs that are late.
    next_for_limits: usize,
}

impl Machine {
    /// The nodes of the configuration, with what the store knows of them.
    pub fn restore(
        specs: &[NodeSpec],
        known: &BTreeMap<String, NodeRow>,
        keys: Keys,
        now: Time,
    ) -> Self {
        let mut it = Self {
            keys,
            ..Self::default()
        };
        let (mut returning, mut moving) = (BTreeSet::new(), BTreeSet::new());
        for spec in specs {
            let id = it.add(spec.clone());
            if let Some(row) = known.get(&spec.name) {
                it.node_mut(id).load(row);
                it.node_mut(id).power.phase = row.power.phase.map_since(|since| since.min(now));
                it.powering.is(id, row.power.phase);
                if let PowerPhase::TurningOff { .. } | PowerPhase::Booting { .. } = row.power.phase
                {
                    moving.insert(id);
                }
                let on = row.power.phase.is_on();
                if on && row.state == NodeState::Open && !row.lost && row.amounts.is_some() {
                    returning.insert(id);
                }
            }
        }
        it.returning = Returning::new(returning, now);
        it.powering.restored(now, moving);
        it.note_longest();
        it
    }

    /// Whether nodes are waited for that were in service when the controller stopped.
    pub fn awaits_nodes(&mut self, now: Time) -> bool {
        self.returning.awaits(now)
    }

    /// A node that was not in the configuration until now; its number.
    pub fn add(&mut self, spec: NodeSpec) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.node_ids.insert(spec.name.clone(), id);
        self.nodes.push(Node::new(spec, NodeState::Open));
        id
    }

    /// Whether a node has that number.
    pub fn has_number(&self, id: NodeId) -> bool {
        id.index() < self.nodes.len()
    }

    /// What is under way with the power of nodes.
    pub fn powering(&self) -> &Powering {
        &self.powering
    }

    /// The same, to be told something.
    pub fn powering_mut(&mut self) -> &mut Powering {
        &mut self.powering
    }

    /// The node with that number.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The node with that number.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    /// All nodes, in the order of their numbers.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The nodes on which jobs are looked for next that are late, each at most once: until nodes and jobs on
    /// them are `most`.
    pub fn next_for_limits(&mut self, most: usize) -> impl Iterator<Item = &Node> {
        let first = self.next_for_limits.min(self.nodes.len());
        let (before, after) = self.nodes.split_at(first);
        let all = after.iter().chain(before);
        let mut looks = 0;
        let looked_at = all.clone().take_while(|node| {
            let more = looks < most;
            looks += 1 + node.jobs.len();
            more
        });
        let count = looked_at.count();
        self.next_for_limits = (first + count) % self.nodes.len().max(1);
        all.take(count)
    }

    /// All numbers of nodes.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(|at| NodeId(at as u32))
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The name of the node with that number.
    pub fn name(&self, id: NodeId) -> &str {
        &self.node(id).spec.name
    }

    /// The number of the node with that name.
    pub fn id_of(&self, name: &str) -> Option<NodeId> {
        self.node_ids.get(name).copied()
    }

    pub fn has_node(&self, name: &str) -> bool {
        self.node_ids.contains_key(name)
    }

    /// Numbers of the nodes that a configuration with these names has, and of those that it has not.
    pub fn divided_by(&self, named: &BTreeSet<&str>) -> (Vec<NodeId>, Vec<NodeId>) {
        let all = self.node_ids.iter();
        let (there, gone): (Vec<_>, Vec<_>) =
            all.partition(|(name, _)| named.contains(name.as_str()));
        let ids = |of: Vec<(&String, &NodeId)>| of.into_iter().map(|(_, id)| *id).collect();
        (ids(there), ids(gone))
    }

    /// The connection of a node daemon.
    pub fn link(&self, id: LinkId) -> Option<&Link> {
        self.links.get(&id)
    }

    pub fn keys_mut(&mut self) -> &mut Keys {
        &mut self.keys
    }

    /// An order to that node cannot be made before the groups of the job's user are known.
    pub fn awaits_user(&mut self, job: JobId, node: NodeId) {
        self.unordered.insert((job, node));
    }

    /// Orders that wait for the groups of users.
    pub fn awaiting_users(&self) -> Vec<(JobId, NodeId)> {
        self.unordered.iter().copied().collect()
    }

    /// That order waits no longer.
    pub fn awaits_no_more(&mut self, job: JobId, node: NodeId) {
        self.unordered.remove(&(job, node));
    }

    /// Nodes on which that attempt goes on although the store does not have it.
    pub fn with_stray(&self, key: AttemptKey) -> Vec<NodeId> {
        let has = |id: &NodeId| self.node(*id).strays.contains(&key);
        self.ids().filter(has).collect()
    }

    /// Jobs may be placed anew because of what nodes have become.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    pub fn changes_mut(&mut self) -> &mut Changes {
        &mut self.changes
    }

    /// The daemon of that link has told something, when the controller had listened that long.
    pub fn heard_from(&mut self, link: LinkId, now: Time, listened: Span) {
        for id in self.links.get(&link).map_or(&[][..], |link| &link.nodes) {
            let node = &mut self.nodes[id.index()];
            (node.last_seen, node.heard) = (Some(now), listened);
        }
    }

    /// What was silent was so because nobody listened: every node has the whole of its time again.
    pub fn all_heard(&mut self, listened: Span) {
        for node in &mut self.nodes {
            node.heard = listened;
        }
    }

    /// From now on every node without jobs counts as idle.
    pub fn idle_from(&mut self, now: Time) {
        for node in &mut self.nodes {
            node.idle_since = now;
        }
    }

    /// The clock on the wall was set. What nodes told of their clocks was told of another one;
    /// wrong ones stay wrong until they tell again.
    pub fn clock_set(&mut self, step: ClockStep) {
        for node in &mut self.nodes {
            node.idle_since = node.idle_since.set_by(step);
            node.power.phase = node.power.phase.map_since(|since| since.set_by(step));
            node.clock.forget();
        }
        self.changes.clock_set(step);
        self.returning.clock_set(step);
        self.powering.clock_set(step);
    }

    /// When there is something to do next because nodes have changed.
    pub fn next_due(&self) -> Option<Time> {
        let changes = self.changes.next_due();
        let others = [self.returning.next_due(), self.powering.next_due()];
        changes
            .into_iter()
            .chain(others.into_iter().flatten())
            .min()
    }

    /// Keys that nodes joined with, revoked ones, tokens.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// These nodes speak through that link.
    pub fn speak_through(&mut self, link: LinkId, nodes: impl IntoIterator<Item = NodeId>) {
        if let Some(link) = self.links.get_mut(&link) {
            link.nodes.extend(nodes);
        }
    }
}
