//! Administrators take nodes out of service and back, and revoke their keys.

use crate::event::Caller;
use crate::machine::availability::update_available;
use crate::machine::older_store::procedures::end_unknown_on;
use crate::machine::revocation::{drop_links, tell_revoked};
use crate::procedures::node_lost::give_up_node;
use crate::procedures::power::{ask_off, ask_on};
use crate::queues::access::procedures::require_admin;
use crate::queues::demand::procedures::mask;
use crate::rooms::Rooms;
use crate::turn::Turn;
use cosy_model::api::{NodeAction, Reply};
use cosy_model::{EventKind, EventObject, NodeId, NodeState, Refusal, RefusalCode, limits};
use std::collections::BTreeSet;

/// Revokes the keys of nodes. Every other node with such a key is meant too.
pub(crate) fn revoke(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    ids: &[NodeId],
    reason: &str,
) -> Result<(), Refusal> {
    let now = turn.now();
    let name = |id: &NodeId| rooms.machine.name(*id).to_owned();
    let mut names: BTreeSet<String> = ids.iter().map(name).collect();
    let key = |name: &String| Some((rooms.machine.key_of(name)?.clone(), name.clone()));
    let keys: Vec<(String, String)> = names.iter().filter_map(key).collect();
    if keys.len() > rooms.machine.keys().room_for_revoked() {
        let most = limits::REVOKED_KEYS;
        let why = format!("at most {most} revoked keys are remembered");
        return Err(Refusal::new(RefusalCode::TooMany, why));
    }
    for (key, name) in &keys {
        names.extend(rooms.machine.names_of_key(key).map(str::to_owned));
        let (key, name) = (key.clone(), name.clone());
        rooms.machine.keys_mut().revoke(turn, key, name, now);
    }
    for name in &names {
        forget_key(rooms, turn, caller, name, reason);
    }
    let revoked: BTreeSet<String> = keys.into_iter().map(|(key, _)| key).collect();
    drop_links(rooms, turn, &revoked);
    tell_revoked(&rooms.config, &rooms.clocks, &rooms.machine, turn, &revoked);
    Ok(())
}

/// The node of that name has no key any more, nobody may join as it with a token that
/// was made before, and its jobs are given up.
pub(crate) fn forget_key(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    name: &str,
    reason: &str,
) {
    let now = turn.now();
    rooms.machine.keys_mut().forget_node(turn, name);
    let who = caller.user.name.clone();
    let object = EventObject::Node(name.to_owned());
    turn.happened(now, EventKind::Revoked, &who, object, reason.to_owned());
    if let Some(id) = rooms.machine.id_of(name) {
        let reason = format!("its key was revoked: {reason}");
        node_control_one(rooms, turn, caller, id, &NodeAction::Down { reason });
    }
}

pub(crate) fn node_control(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    names: &[String],
    action: &NodeAction,
) -> Result<Reply, Refusal> {
    require_admin(&rooms.config, caller, "change nodes")?;
    if names.is_empty() {
        return Err(Refusal::invalid("no node is named"));
    }
    let ids: Vec<NodeId> = mask(&rooms.machine, names)?.iter().collect();
    let mut refused = Vec::new();
    match action {
        NodeAction::Features { names } => rooms.machine.set_features(turn, caller, &ids, names)?,
        NodeAction::Revoke { reason } => revoke(rooms, turn, caller, &ids, reason)?,
        NodeAction::PowerUp | NodeAction::PowerDown { .. } if !rooms.config.power.is_on() => {
            let why = "nodes cannot be switched: [power] in cosy.toml names no suspend_program and resume_program";
            return Err(Refusal::new(RefusalCode::WrongState, why));
        }
        NodeAction::PowerUp => ask_on(rooms, turn, &ids),
        NodeAction::PowerDown { force } => refused = ask_off(rooms, turn, &ids, *force),
        NodeAction::Drain { .. } | NodeAction::Resume | NodeAction::Down { .. } => {
            for id in &ids {
                node_control_one(rooms, turn, caller, *id, action);
            }
        }
    }
    rooms.triggers.watch_configuration();
    Ok(Reply::Done {
        changed: (ids.len() - refused.len()) as u64,
        refused,
    })
}

pub(crate) fn node_control_one(
    rooms: &mut Rooms,
    turn: &mut Turn,
    caller: &Caller,
    id: NodeId,
    action: &NodeAction,
) {
    let now = turn.now();
    let by = caller.user.name.clone();
    let since = Some(now);
    let (state, kind, detail) = match action {
        NodeAction::Features { .. }
        | NodeAction::Revoke { .. }
        | NodeAction::PowerUp
        | NodeAction::PowerDown { .. } => return,
        NodeAction::Resume => (NodeState::Open, EventKind::Resumed, String::new()),
        NodeAction::Drain { reason } => (
            NodeState::Drained {
                reason: reason.clone(),
                by,
                since,
            },
            EventKind::Drained,
            reason.clone(),
        ),
        NodeAction::Down { reason } => (
            NodeState::Down {
                reason: reason.clone(),
                by,
                since,
            },
            EventKind::Down,
            reason.clone(),
        ),
    };
    let node = rooms.machine.node_mut(id);
    node.is_set(state);
    if *action == NodeAction::Resume {
        node.is_well_since(now);
    }
    let object = EventObject::Node(node.spec().name.clone());
    rooms.machine.save_node(turn, id);
    let who = caller.user.name.clone();
    turn.happened(now, kind, &who, object, detail);
    update_available(rooms, turn, id);
    if matches!(action, NodeAction::Down { .. }) {
        end_unknown_on(&rooms.machine, &rooms.aside, turn, id);
        give_up_node(rooms, turn, id, "set down by an administrator");
    }
}
