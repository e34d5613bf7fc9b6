//! Node daemons connect, join, register and fall silent; administrators drain, resume and list
//! nodes.

use crate::clock::TICK;
use crate::clock::told_skew;
use crate::controller::Controller;
use crate::conversations::listing::List;
use crate::event::{Caller, ClientId, Effect, LinkAnswer, LinkHello, LinkId};
use crate::jobs::job::Run;
use crate::machine::SHORT;
use crate::machine::nodes::{
    FENCING, Link, NOT_CONFIGURED, Node, NodeList, PIECE_WORK, WORK_FOR_NODE, machine, node_state,
    said_by,
};
use crate::record::{NodeRow, Record};
use cosy_model::api::{NodeAction, NodeInfo, Reply};
use cosy_model::node::{Figures, InventoryItem, NodeOrder, NodeSelf};
use cosy_model::{NodeId, NodeState, Refusal, Span, Time, limits};
use std::net::IpAddr;

impl Controller {
    /// The first node of a running job whose daemon does not know that order.
    pub(crate) fn lacking(&self, run: &Run, order: &str) -> Option<NodeId> {
        let mut nodes = run.parts.iter().map(|part| part.node);
        nodes.find(|id| {
            let link = self.machine.nodes[id.index()].link;
            let link = link.and_then(|link| self.machine.links.get(&link));
            link.is_some_and(|link| link.lacks.contains(&order))
        })
    }

    /// The nodes of a link have told how busy they are.
    pub(crate) fn note_figures(&mut self, now: Time, link: LinkId, figures: Figures) {
        if let Some(clock) = figures.clock {
            self.note_clock(now, link, clock);
        }
        let nodes = self.machine.links.get(&link).map(|l| l.nodes.clone());
        for id in nodes.unwrap_or_default() {
            let machine = &mut self.machine.nodes[id.index()].machine;
            machine.load_hundredths = figures.load_hundredths;
            machine.free_memory = figures.free_memory;
        }
    }

    /// The node knows then until when it was heard, and how far the store was.
    pub(crate) fn say_heard(&mut self, link: LinkId, number: u64) {
        if number > 0 {
            let nodes = self.machine.links.get(&link).map(|l| l.nodes.clone());
            for id in nodes.unwrap_or_default() {
                self.machine.nodes[id.index()].fences = true;
            }
            let mark = self.mark();
            self.effect(Effect::Heard { link, number, mark });
        }
    }

    pub(crate) fn link_opened(
        &mut self,
        now: Time,
        link: LinkId,
        peer: String,
        address: Option<IpAddr>,
        hello: LinkHello,
    ) {
        let mut lacks = Vec::new();
        let answer = match hello {
            LinkHello::Join { node, token_hash } => self.join(now, &node, &token_hash, &peer),
            LinkHello::Node { .. } if self.machine.keys.revoked_of(&peer).is_some() => {
                LinkAnswer::Refused(self.told_revoked(&peer))
            }
            LinkHello::Node { lacks: not_known } if self.names_of_key(&peer).next().is_some() => {
                lacks = not_known;
                LinkAnswer::Welcome
            }
            LinkHello::Node { .. } => LinkAnswer::Refused(format!(
                "no node of cluster {} has the key {peer}: let it join with 'noded join' or put its key into the configuration",
                self.config.name
            )),
        };
        if answer == LinkAnswer::Welcome {
            let nodes = Vec::new();
            let opened = Link {
                peer,
                address,
                nodes,
                lacks,
            };
            self.machine.links.insert(link, opened);
        }
        self.effect(Effect::LinkReply { link, answer });
    }

    /// Names that a key stands for.
    pub(crate) fn names_of_key<'a>(&'a self, peer: &'a str) -> impl Iterator<Item = &'a str> {
        let configured = self
            .machine
            .nodes
            .iter()
            .filter(move |n| n.spec.key.as_deref() == Some(peer))
            .map(|n| n.spec.name.as_str());
        configured.chain(self.machine.keys.nodes_of(peer))
    }

    fn key_fits(&self, name: &str, peer: &str) -> bool {
        self.machine.keys.revoked_of(peer).is_none()
            && self.machine.node_ids.contains_key(name)
            && self.key_of(name).is_some_and(|key| key == peer)
    }

    /// The key that a node's name stands for: the configuration's unless that was revoked,
    /// else the one that it joined with.
    pub(crate) fn key_of(&self, name: &str) -> Option<&String> {
        let id = self.machine.node_ids.get(name);
        let configured = id.and_then(|id| self.machine.nodes[id.index()].spec.key.as_ref());
        let configured = configured.filter(|key| self.machine.keys.revoked_of(key).is_none());
        configured.or_else(|| self.machine.keys.of_node(name))
    }

    fn join(&mut self, now: Time, node: &str, hash: &str, peer: &str) -> LinkAnswer {
        if self.machine.keys.revoked_of(peer).is_some() {
            return LinkAnswer::Refused(self.told_revoked(peer));
        }
        if let Err(why) = self
            .machine
            .keys
            .join(&mut self.turn, now, node, hash, peer)
        {
            return LinkAnswer::Refused(why.to_owned());
        }
        let object = format!("node {node}");
        self.happened(now, "joined", &object.clone(), object, String::new());
        LinkAnswer::Joined
    }

    pub(crate) fn link_closed(&mut self, link: LinkId) {
        let Some(gone) = self.machine.links.remove(&link) else {
            return;
        };
        for id in gone.nodes {
            if self.machine.nodes[id.index()].link == Some(link) {
                self.machine.nodes[id.index()].link = None;
                self.update_available(id);
            }
        }
    }

    pub(crate) fn register(
        &mut self,
        now: Time,
        link: LinkId,
        (nodes, clock): (Vec<NodeSelf>, Option<Time>),
        inventory: &[InventoryItem],
    ) {
        let mut unknown = Vec::new();
        let mut ids = Vec::new();
        for node in nodes {
            let peer = self.machine.links.get(&link).map(|l| l.peer.clone());
            if peer.is_some_and(|peer| self.key_fits(&node.name, &peer)) {
                ids.push(self.register_one(now, link, node));
            } else {
                unknown.push(node.name);
            }
        }
        let revoked = self.machine.keys.revoked().cloned().collect();
        let order = self.welcome(unknown, revoked);
        self.effect(Effect::Order { link, order });
        for id in &ids {
            if let Some(told) = clock {
                self.note_clock_of(now, *id, told);
            }
            self.reconcile(now, *id, inventory);
            self.tell_where(*id);
        }
        if let Some(link) = self.machine.links.get_mut(&link) {
            link.nodes.extend(ids);
        }
    }

    fn register_one(&mut self, now: Time, link: LinkId, from: NodeSelf) -> NodeId {
        let id = self.machine.node_ids[&from.name];
        let at = self.machine.links.get(&link).and_then(|l| l.address);
        let node = &mut self.machine.nodes[id.index()];
        let old_link = node.link.replace(link).filter(|old| *old != link);
        node.last_seen = Some(now);
        node.heard = self.clocks.listened;
        node.idle_since = now;
        node.lost = false;
        node.given_up = false;
        node.fences = false;
        let back = std::mem::take(&mut node.told_lost);
        node.problem = None;
        node.clock.forget();
        node.strays.clear();
        node.version.clone_from(&from.version);
        node.boot_id.clone_from(&from.boot_id);
        node.only_uid = from.only_uid;
        let address = crate::machine::passages::address(&from.listen, at);
        let moves = !node.address.is_empty() && node.address != address;
        node.moved |= moves;
        node.address = address;
        node.step_socket.clone_from(&from.step_socket);
        node.machine = machine(from.machine.clone(), at, &from.listen);
        let old = node.features.clone();
        node.told_features.clone_from(&from.features);
        node.find_features();
        let renamed = node.features != old;
        self.machine.changes.features(&old, &node.features);
        let first = self.told_amounts(id, Some(from));
        if let Some(old) = old_link {
            self.effect(Effect::CloseLink(old));
        }
        if renamed || first {
            self.save_node(id);
        }
        if back {
            let object = format!("node {}", self.machine.nodes[id.index()].spec.name);
            self.happened(now, "back", "controller", object, String::new());
        }
        self.update_available(id);
        id
    }

    pub(crate) fn save_node(&mut self, id: NodeId) {
        let node = &self.machine.nodes[id.index()];
        let record = Record::Node {
            name: node.spec.name.clone(),
            row: NodeRow {
                state: node.state.clone(),
                amounts: node.known.then(|| node.amounts.clone()),
                features: node.features.iter().cloned().collect(),
                features_set: node.features_set,
                lost: node.condition.down,
            },
        };
        self.record(record);
    }

    pub(crate) fn update_available(&mut self, id: NodeId) {
        let available =
            self.machine.nodes[id.index()].takes_jobs() && !self.machine.changes.concern(id);
        self.planning.cluster_mut().set_available(id, available);
        self.update_available_inside(id, available);
        self.watch_node(id);
    }

    /// Takes back what the controller said of a node while the configuration did not have it.
    pub(crate) fn configured_again(&mut self, now: Time, id: NodeId) {
        let node = &mut self.machine.nodes[id.index()];
        let NodeState::Drained { reason, by, .. } = &node.state else {
            return;
        };
        if reason != NOT_CONFIGURED || by != "controller" {
            return;
        }
        node.state = NodeState::Open;
        node.idle_since = now;
        let object = format!("node {}", node.spec.name);
        self.save_node(id);
        let why = "it is in the configuration again".to_owned();
        self.happened(now, "resumed", "controller", object, why);
        self.update_available(id);
    }

    /// Takes a node out of service with a reason, as its own checks demand.
    pub(crate) fn drain_by_itself(&mut self, now: Time, id: NodeId, reason: &str) {
        let node = &mut self.machine.nodes[id.index()];
        if node.state == NodeState::Open {
            node.state = NodeState::Drained {
                reason: reason.to_owned(),
                by: "controller".to_owned(),
                since: Some(now),
            };
            let name = node.spec.name.clone();
            let object = format!("node {name}");
            self.save_node(id);
            self.happened(now, "drained", &object.clone(), object, reason.to_owned());
            self.update_available(id);
        }
    }

    pub(crate) fn node_control(
        &mut self,
        now: Time,
        caller: &Caller,
        names: &[String],
        action: &NodeAction,
    ) -> Result<Reply, Refusal> {
        self.require_admin(caller, "change nodes")?;
        if names.is_empty() {
            return Err(Refusal::invalid("no node is named"));
        }
        let ids: Vec<NodeId> = self.mask(names)?.iter().collect();
        match action {
            NodeAction::Features { names } => self.set_features(now, caller, &ids, names)?,
            NodeAction::Revoke { reason } => self.revoke(now, caller, &ids, reason)?,
            NodeAction::Drain { .. } | NodeAction::Resume | NodeAction::Down { .. } => {
                for id in &ids {
                    self.node_control_one(now, caller, *id, action);
                }
            }
        }
        self.watch_configuration();
        Ok(Reply::Done {
            changed: ids.len() as u64,
            refused: Vec::new(),
        })
    }

    /// The features of nodes until the configuration is read anew.
    fn set_features(
        &mut self,
        now: Time,
        caller: &Caller,
        ids: &[NodeId],
        names: &[String],
    ) -> Result<(), Refusal> {
        let fine = |name: &String| {
            let odd = |c: char| c.is_whitespace() || c.is_control() || "&|[]()*,".contains(c);
            (1..=limits::NAME_BYTES).contains(&name.len()) && !name.contains(odd)
        };
        if names.len() > limits::DEPENDENCIES || !names.iter().all(fine) {
            return Err(Refusal::invalid(format!(
                "features are at most {} plain words",
                limits::DEPENDENCIES
            )));
        }
        for id in ids {
            let node = &mut self.machine.nodes[id.index()];
            let new = names.iter().cloned().collect();
            let old = std::mem::replace(&mut node.features, new);
            node.features_set = true;
            self.machine.changes.features(&old, &node.features);
            let object = format!("node {}", node.spec.name);
            self.save_node(*id);
            let who = caller.user.name.clone();
            self.happened(now, "changed", &who, object, names.join(","));
        }
        Ok(())
    }

    pub(crate) fn node_control_one(
        &mut self,
        now: Time,
        caller: &Caller,
        id: NodeId,
        action: &NodeAction,
    ) {
        let by = caller.user.name.clone();
        let since = Some(now);
        let (state, word, detail) = match action {
            NodeAction::Features { .. } | NodeAction::Revoke { .. } => return,
            NodeAction::Resume => (NodeState::Open, "resumed", String::new()),
            NodeAction::Drain { reason } => (
                NodeState::Drained {
                    reason: reason.clone(),
                    by,
                    since,
                },
                "drained",
                reason.clone(),
            ),
            NodeAction::Down { reason } => (
                NodeState::Down {
                    reason: reason.clone(),
                    by,
                    since,
                },
                "down",
                reason.clone(),
            ),
        };
        let node = &mut self.machine.nodes[id.index()];
        node.state = state;
        if *action == NodeAction::Resume {
            node.problem = None;
            node.idle_since = now;
        }
        let object = format!("node {}", node.spec.name);
        self.save_node(id);
        let who = caller.user.name.clone();
        self.happened(now, word, &who, object, detail);
        self.update_available(id);
        if matches!(action, NodeAction::Down { .. }) {
            self.end_unknown_on(id);
            self.give_up_node(now, id, "set down by an administrator");
        }
    }

    /// Looks for nodes that were silent too long.
    pub(crate) fn check_nodes(&mut self, now: Time) {
        let (timeout, listened) = (self.config.policy.node_timeout, self.clocks.listened);
        let is_silent = |id: &NodeId| {
            let node = self.machine.node(*id);
            !node.lost && Span(listened.0 - node.heard.0) > timeout
        };
        let silent: Vec<NodeId> = self.machine.ids().filter(is_silent).collect();
        for id in silent {
            self.lose_node(now, id);
        }
        for id in self.machine.ids() {
            let node = self.machine.node(id);
            let silent = Span(listened.0 - node.heard.0);
            let wait = self.fencing(node).unwrap_or(Span::ZERO);
            if node.lost && !node.given_up && silent > timeout + wait {
                self.machine.node_mut(id).given_up = true;
                self.give_up_node(now, id, "the node was lost");
            }
        }
    }

    /// Tells all nodes anew what they are told at registration.
    pub(crate) fn tell_policy(&mut self) {
        let links: Vec<LinkId> = self.machine.links.keys().copied().collect();
        for link in links {
            let order = self.welcome(Vec::new(), Vec::new());
            self.effect(Effect::Order { link, order });
        }
    }

    /// What a node is told at registration, and anew when that changes.
    pub(crate) fn welcome(&self, unknown: Vec<String>, revoked: Vec<String>) -> NodeOrder {
        NodeOrder::Welcome {
            cluster: self.config.name.clone(),
            heartbeat: self.config.policy.heartbeat,
            unknown,
            revoked,
            alone: self.alone(),
            now: Some(self.clocks.wall),
        }
    }

    /// How long nodes may be alone before they end what may run again.
    pub(crate) fn alone(&self) -> Option<Span> {
        let policy = &self.config.policy;
        policy.self_fencing.then_some(policy.node_timeout)
    }

    /// How long a lost node has for that, if it does it. Of one that has not been heard since
    /// this controller began nobody knows.
    fn fencing(&self, node: &Node) -> Option<Span> {
        let does = node.fences || node.last_seen.is_none();
        let longest = Span(self.alone()?.0 / 4).clamp(TICK, FENCING);
        does.then_some(longest)
    }

    fn lose_node(&mut self, now: Time, id: NodeId) {
        let node = &mut self.machine.nodes[id.index()];
        node.lost = true;
        let seen = node.last_seen.is_some();
        let object = format!("node {}", node.spec.name);
        if let Some(link) = node.link.take() {
            self.effect(Effect::CloseLink(link));
        }
        self.update_available(id);
        if seen || !self.machine.nodes[id.index()].jobs.is_empty() {
            self.machine.nodes[id.index()].told_lost = true;
            self.happened(now, "lost", "controller", object, String::new());
        }
    }

    pub(crate) fn list_nodes(&mut self, now: Time, client: ClientId) -> Option<Reply> {
        let list = NodeList {
            client,
            told: Vec::new(),
        };
        self.begin_list(now, List::Nodes(Box::new(list)))
    }

    /// Some nodes more; true when those were the last.
    pub(crate) fn list_nodes_piece(&mut self, list: &mut NodeList) -> bool {
        let each = WORK_FOR_NODE + self.queues.len();
        let piece = (PIECE_WORK / each).max(1);
        let next = list.told.len();
        let all = self.machine.nodes.len();
        let to = all.min(next.saturating_add(piece));
        self.turn
            .looked(((to - next) * each / WORK_FOR_NODE) as u64);
        list.told.extend((next..to).map(|at| self.node_info(at)));
        to == all
    }

    fn node_info(&self, at: usize) -> NodeInfo {
        let id = NodeId(at as u32);
        let node = &self.machine.nodes[at];
        let mut used = self.planning.cluster().used(id);
        // A job that waits for the cores that it lent is counted with them.
        used.cores = used.cores.min(node.amounts.cores);
        let idle = node.jobs.iter().all(|job| self.planning.lends(job));
        let queues = self.queues.all().iter().filter(|q| q.nodes.contains(id));
        NodeInfo {
            name: node.spec.name.clone(),
            state: node_state(node, &used, idle).word().to_owned(),
            reason: match (&node.state, &node.problem) {
                (NodeState::Drained { reason, .. } | NodeState::Down { reason, .. }, _) => {
                    reason.clone()
                }
                (NodeState::Open, Some(problem)) => problem.clone(),
                (NodeState::Open, None) if node.clock.wrong => {
                    node.clock.ahead().map(told_skew).unwrap_or_default()
                }
                (NodeState::Open, None) if node.lost && node.last_seen.is_some() => {
                    "it does not answer".to_owned()
                }
                (NodeState::Open, None) if self.machine.changes.is_short(id) => SHORT.to_owned(),
                (NodeState::Open, None) => self.unknown_words(id),
            },
            reason_by: said_by(&node.state).0,
            reason_since: said_by(&node.state).1,
            amounts: node.amounts.clone(),
            used,
            features: node.features.iter().cloned().collect(),
            queues: queues.map(|q| q.spec.name.clone()).collect(),
            jobs: node.jobs.len() as u32,
            version: node.version.clone(),
            last_seen: node.last_seen,
            skew_ms: node.clock.ahead().map(Span::ms),
            machine: node.machine.clone(),
            gpu_types: node.devices.types().to_vec(),
            cores_held: node.cores.numbers(),
            gpus_held: node.devices.gpus_held(),
        }
    }
}

impl Controller {
    /// Whether a name may be reported about on that link.
    pub(crate) fn node_on_link(&self, link: LinkId, name: &str) -> Option<NodeId> {
        let id = *self.machine.node_ids.get(name)?;
        (self.machine.nodes[id.index()].link == Some(link)).then_some(id)
    }
}
