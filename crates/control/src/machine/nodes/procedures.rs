//! Node daemons connect, join, register and fall silent; administrators drain, resume and list
//! nodes.

use crate::clock::procedures::note_clock;
use crate::clock::{TICK, told_skew};
use crate::config::ClusterConfig;
use crate::event::{Caller, Effect, LinkAnswer, LinkHello, LinkId};
use crate::jobs::limits::procedures::runs;
use crate::jobs::run::Run;
use crate::machine::availability::{alone, update_available};
use crate::machine::changes::procedures::told_amounts;
use crate::machine::nodes::{
    FENCING, Link, NOT_CONFIGURED, Node, NodeList, PIECE_WORK, WORK_FOR_NODE, machine, node_state,
    said_by,
};
use crate::machine::older_store::procedures::mark;
use crate::machine::{Machine, SHORT};
use crate::planning::Planning;
use crate::queues::Queues;
use crate::record::{NodeRow, Record};
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::NodeInfo;
use cosy_model::node::{Figures, NodeSelf};
use cosy_model::{
    EventKind, EventObject, JobId, NodeId, NodeState, PowerInfo, PowerPhase, Refusal, Span, Time,
    limits,
};
use std::net::IpAddr;

impl Machine {
    /// The first node of a running job whose daemon does not know that order.
    pub(crate) fn lacking(&self, run: &Run, order: &str) -> Option<NodeId> {
        let mut nodes = run.parts().iter().map(|part| part.node());
        nodes.find(|id| {
            let link = self.nodes[id.index()].link;
            let link = link.and_then(|link| self.links.get(&link));
            link.is_some_and(|link| link.lacks.contains(&order))
        })
    }
}

/// The nodes of a link have told how busy they are.
pub(crate) fn note_figures(rooms: &mut Rooms, turn: &mut Turn, link: LinkId, figures: Figures) {
    if let Some(clock) = figures.clock {
        note_clock(rooms, turn, link, clock);
    }
    let nodes = rooms.machine.links.get(&link).map(|l| l.nodes.clone());
    for id in nodes.unwrap_or_default() {
        let machine = &mut rooms.machine.nodes[id.index()].machine;
        machine.load_hundredths = figures.load_hundredths;
        machine.free_memory = figures.free_memory;
    }
}

/// The node knows then until when it was heard, and how far the store was.
pub(crate) fn say_heard(rooms: &mut Rooms, turn: &mut Turn, link: LinkId, number: u64) {
    if number > 0 {
        let nodes = rooms.machine.links.get(&link).map(|l| l.nodes.clone());
        for id in nodes.unwrap_or_default() {
            rooms.machine.nodes[id.index()].fences = true;
        }
        let mark = mark(&rooms.jobs, &rooms.reservations, &rooms.workflows, &rooms.triggers, turn);
        turn.effect(Effect::Heard { link, number, mark });
    }
}

impl Machine {
    pub(crate) fn link_opened(
        &mut self,
        config: &ClusterConfig,
        turn: &mut Turn,
        link: LinkId,
        peer: String,
        address: Option<IpAddr>,
        hello: LinkHello,
    ) {
        let mut lacks = Vec::new();
        let answer = match hello {
            LinkHello::Join { node, token_hash } => self.join(turn, &node, &token_hash, &peer),
            LinkHello::Node { .. } if self.keys.revoked_of(&peer).is_some() => {
                LinkAnswer::Refused(self.told_revoked(&peer))
            }
            LinkHello::Node { lacks: not_known } if self.names_of_key(&peer).next().is_some() => {
                lacks = not_known;
                LinkAnswer::Welcome
            }
            LinkHello::Node { .. } => LinkAnswer::Refused(format!(
                "no node of cluster {} has the key {peer}: let it join with 'noded join' or put its key into the configuration",
                config.name
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
            self.links.insert(link, opened);
        }
        turn.effect(Effect::LinkReply { link, answer });
    }

    /// Names that a key stands for.
    pub(crate) fn names_of_key<'a>(&'a self, peer: &'a str) -> impl Iterator<Item = &'a str> {
        let configured = self
            .nodes
            .iter()
            .filter(move |n| n.spec.key.as_deref() == Some(peer))
            .map(|n| n.spec.name.as_str());
        configured.chain(self.keys.nodes_of(peer))
    }

    pub(crate) fn key_fits(&self, name: &str, peer: &str) -> bool {
        self.keys.revoked_of(peer).is_none()
            && self.node_ids.contains_key(name)
            && self.key_of(name).is_some_and(|key| key == peer)
    }

    /// The key that a node's name stands for: the configuration's unless that was revoked,
    /// else the one that it joined with.
    pub(crate) fn key_of(&self, name: &str) -> Option<&String> {
        let id = self.node_ids.get(name);
        let configured = id.and_then(|id| self.nodes[id.index()].spec.key.as_ref());
        let configured = configured.filter(|key| self.keys.revoked_of(key).is_none());
        configured.or_else(|| self.keys.of_node(name))
    }

    fn join(&mut self, turn: &mut Turn, node: &str, hash: &str, peer: &str) -> LinkAnswer {
        let now = turn.now();
        if self.keys.revoked_of(peer).is_some() {
            return LinkAnswer::Refused(self.told_revoked(peer));
        }
        if let Err(why) = self.keys.join(turn, now, node, hash, peer) {
            return LinkAnswer::Refused(why.to_owned());
        }
        let object = EventObject::Node(node.to_owned());
        turn.happened(now, EventKind::Joined, &object.to_string(), object, String::new());
        LinkAnswer::Joined
    }
}

pub(crate) fn link_closed(rooms: &mut Rooms, turn: &mut Turn, link: LinkId) {
    let Some(gone) = rooms.machine.links.remove(&link) else {
        return;
    };
    for id in gone.nodes {
        if rooms.machine.nodes[id.index()].link == Some(link) {
            rooms.machine.nodes[id.index()].link = None;
            update_available(rooms, turn, id);
        }
    }
}

pub(crate) fn register_one(
    rooms: &mut Rooms,
    turn: &mut Turn,
    link: LinkId,
    from: NodeSelf,
) -> NodeId {
    let now = turn.now();
    let id = rooms.machine.node_ids[&from.name];
    let at = rooms.machine.links.get(&link).and_then(|l| l.address);
    let known = rooms.machine.nodes[id.index()].boot_id.as_str();
    // A controller that has just begun knows none.
    let same_boot = known.is_empty() || known == from.boot_id;
    rooms
        .machine
        .came_up(&rooms.config.power, turn, id, same_boot);
    let node = &mut rooms.machine.nodes[id.index()];
    let old_link = node.link.replace(link).filter(|old| *old != link);
    node.last_seen = Some(now);
    node.heard = rooms.clocks.listened;
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
    rooms.machine.changes.features(&old, &node.features);
    let first = told_amounts(&mut rooms.machine, &rooms.jobs, id, Some(from));
    if let Some(old) = old_link {
        turn.effect(Effect::CloseLink(old));
    }
    if renamed || first {
        rooms.machine.save_node(turn, id);
    }
    // Limits on types of GPUs count what jobs there hold.
    let here: Vec<JobId> = rooms.machine.node(id).jobs().iter().copied().collect();
    here.into_iter().for_each(|job| runs(rooms, job));
    if back {
        let object = EventObject::Node(rooms.machine.nodes[id.index()].spec.name.clone());
        turn.happened(now, EventKind::Back, "controller", object, String::new());
    }
    update_available(rooms, turn, id);
    id
}

impl Machine {
    pub(crate) fn save_node(&self, turn: &mut Turn, id: NodeId) {
        let node = &self.nodes[id.index()];
        let record = Record::Node {
            name: node.spec.name.clone(),
            row: NodeRow {
                state: node.state.clone(),
                amounts: node.known.then(|| node.amounts.clone()),
                features: node.features.iter().cloned().collect(),
                features_set: node.features_set,
                lost: node.condition.down,
                power: node.power.clone(),
            },
        };
        turn.record(record);
    }
}

/// Takes back what the controller said of a node while the configuration did not have it.
pub(crate) fn configured_again(rooms: &mut Rooms, turn: &mut Turn, id: NodeId) {
    let now = turn.now();
    let node = &mut rooms.machine.nodes[id.index()];
    let NodeState::Drained { reason, by, .. } = &node.state else {
        return;
    };
    if reason != NOT_CONFIGURED || by != "controller" {
        return;
    }
    node.state = NodeState::Open;
    node.idle_since = now;
    let object = EventObject::Node(node.spec.name.clone());
    rooms.machine.save_node(turn, id);
    let why = "it is in the configuration again".to_owned();
    turn.happened(now, EventKind::Resumed, "controller", object, why);
    update_available(rooms, turn, id);
}

impl Machine {
    /// The features of nodes until the configuration is read anew.
    pub(crate) fn set_features(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        ids: &[NodeId],
        names: &[String],
    ) -> Result<(), Refusal> {
        let now = turn.now();
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
            let node = &mut self.nodes[id.index()];
            let new = names.iter().cloned().collect();
            let old = std::mem::replace(&mut node.features, new);
            node.features_set = true;
            self.changes.features(&old, &node.features);
            let object = EventObject::Node(node.spec.name.clone());
            self.save_node(turn, *id);
            let who = caller.user.name.clone();
            turn.happened(now, EventKind::Changed, &who, object, names.join(","));
        }
        Ok(())
    }
}

/// How long a lost node has for that, if it does it. Of one that has not been heard since
/// this controller began nobody knows.
pub(crate) fn fencing(config: &ClusterConfig, node: &Node) -> Option<Span> {
    let does = node.fences || node.last_seen.is_none();
    let longest = Span(alone(config)?.0 / 4).clamp(TICK, FENCING);
    does.then_some(longest)
}

pub(crate) fn lose_node(rooms: &mut Rooms, turn: &mut Turn, id: NodeId) {
    let now = turn.now();
    let node = &mut rooms.machine.nodes[id.index()];
    node.lost = true;
    let seen = node.last_seen.is_some();
    let object = EventObject::Node(node.spec.name.clone());
    if let Some(link) = node.link.take() {
        turn.effect(Effect::CloseLink(link));
    }
    update_available(rooms, turn, id);
    if seen || !rooms.machine.nodes[id.index()].jobs.is_empty() {
        rooms.machine.nodes[id.index()].told_lost = true;
        turn.happened(now, EventKind::Lost, "controller", object, String::new());
    }
}

/// Some nodes more; true when those were the last.
pub(crate) fn list_nodes_piece(
    config: &ClusterConfig,
    machine: &Machine,
    queues: &Queues,
    planning: &Planning,
    turn: &mut Turn,
    list: &mut NodeList,
) -> bool {
    let now = turn.now();
    let each = WORK_FOR_NODE + queues.len();
    let piece = (PIECE_WORK / each).max(1);
    let next = list.told.len();
    let all = machine.nodes.len();
    let to = all.min(next.saturating_add(piece));
    turn.looked(((to - next) * each / WORK_FOR_NODE) as u64);
    list.told.extend((next..to).map(|at| {
        let id = NodeId(at as u32);
        let power = machine.power_info(&config.power, id, now);
        node_info(machine, queues, planning, (id, power), now)
    }));
    to == all
}

/// When a node that comes up is expected to be there.
fn told_boot(ready: Option<Time>, now: Time) -> String {
    let wait = |ready: Time| Span::from_secs(ready.since(now).secs().max(1));
    ready.map_or_else(String::new, |ready| format!("expected to be up in {}", wait(ready)))
}

/// Why a node is as it is; empty where there is nothing to be said. `ready`: when it is expected to be up.
fn reason_of(machine: &Machine, id: NodeId, ready: Option<Time>, now: Time) -> String {
    let node = machine.node(id);
    let clock = || node.clock.ahead().map(told_skew).unwrap_or_default();
    match (&node.state, node.power.phase) {
        (NodeState::Drained { reason, .. } | NodeState::Down { reason, .. }, _)
            if !reason.is_empty() =>
        {
            reason.clone()
        }
        (_, PowerPhase::Booting { .. }) => told_boot(ready, now),
        (NodeState::Open, PowerPhase::OffWhenIdle) => {
            "it is switched off when its jobs have ended".to_owned()
        }
        (NodeState::Open, PowerPhase::On) => match &node.problem {
            Some(problem) => problem.clone(),
            None if node.clock.wrong => clock(),
            None if node.lost && node.last_seen.is_some() => "it does not answer".to_owned(),
            None if machine.changes.is_short(id) => SHORT.to_owned(),
            None => machine.unknown_words(id),
        },
        (NodeState::Drained { .. } | NodeState::Down { .. }, _)
        | (NodeState::Open, PowerPhase::TurningOff { .. } | PowerPhase::Off { .. }) => {
            String::new()
        }
    }
}

fn node_info(
    machine: &Machine,
    queues: &Queues,
    planning: &Planning,
    (id, power): (NodeId, Option<PowerInfo>),
    now: Time,
) -> NodeInfo {
    let node = machine.node(id);
    let mut used = planning.cluster().used(id);
    // A job that waits for the cores that it lent is counted with them.
    used.cores = used.cores.min(node.amounts.cores);
    let idle = node.jobs.iter().all(|job| planning.lends(job));
    let queues = queues.all().iter().filter(|q| q.nodes().contains(id));
    NodeInfo {
        name: node.spec.name.clone(),
        state: node_state(node, &used, idle).word().to_owned(),
        reason: reason_of(machine, id, power.as_ref().and_then(|power| power.ready), now),
        reason_by: said_by(&node.state).0,
        reason_since: said_by(&node.state).1,
        amounts: node.amounts.clone(),
        used,
        features: node.features.iter().cloned().collect(),
        switch: machine.switch_path(id).to_owned(),
        weight: node.spec.weight,
        queues: queues.map(|q| q.spec().name.clone()).collect(),
        jobs: node.jobs.len() as u32,
        version: node.version.clone(),
        last_seen: node.last_seen,
        skew_ms: node.clock.ahead().map(Span::ms),
        machine: node.machine.clone(),
        gpu_types: node.devices.types().to_vec(),
        cores_held: node.cores.numbers(),
        gpus_held: node.devices.gpus_held(),
        power,
    }
}

impl Machine {
    /// Whether a name may be reported about on that link.
    pub(crate) fn node_on_link(&self, link: LinkId, name: &str) -> Option<NodeId> {
        let id = *self.node_ids.get(name)?;
        (self.nodes[id.index()].link == Some(link)).then_some(id)
    }
}
