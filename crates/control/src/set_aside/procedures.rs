//! Nodes and jobs whose rows cannot be read take no work; the witness is told what is worked on.

use crate::machine::Machine;
use crate::machine::availability::update_available;
use crate::rooms::Rooms;
use crate::set_aside::{Aside, Object};
use crate::turn::Turn;
use cosy_model::node::AttemptKey;
use cosy_model::{NodeId, NodeState};

impl Aside {
    pub(crate) fn works_on(&self, object: Object) {
        if let Some(witness) = &self.witness {
            witness.works_on(object);
        }
    }
}

/// Nodes of which nothing is known but that they exist: whether one was out of service
/// is for an administrator to say again.
pub(crate) fn close_unread_nodes(machine: &mut Machine, aside: &Aside) {
    for name in aside.all.iter().filter_map(|aside| aside.node.as_ref()) {
        if let Some(id) = machine.id_of(name) {
            machine.node_mut(id).is_set(NodeState::Drained {
                reason: "what was known of it is set aside".to_owned(),
                by: "controller".to_owned(),
                since: None,
            });
        }
    }
}

/// A node tells of an attempt of a job that is set aside: true when it does. It goes on
/// there, or its outcome is kept there; while it goes on nothing else starts.
pub(crate) fn is_aside_on(
    rooms: &mut Rooms,
    turn: &mut Turn,
    id: NodeId,
    key: AttemptKey,
    goes_on: bool,
) -> bool {
    if !rooms.aside.has(key.job) {
        return false;
    }
    let node = rooms.machine.node_mut(id);
    let changed = match goes_on {
        true => node.has_room_for(key) && node.has_stray(key),
        false => node.has_stray_no_more(&key),
    };
    if changed {
        update_available(rooms, turn, id);
    }
    true
}
