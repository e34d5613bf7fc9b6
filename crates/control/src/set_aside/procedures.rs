//! What is set aside is kept out of the way, and whoever watches is told what is worked on.

use crate::controller::Controller;
use crate::set_aside::{Object, Witness};
use cosy_model::node::AttemptKey;
use cosy_model::{NodeId, NodeState};
use std::sync::Arc;

impl Controller {
    /// Has somebody watch what it works on.
    #[must_use]
    pub fn watched_by(mut self, witness: Arc<dyn Witness>) -> Self {
        self.aside.witness = Some(witness);
        self
    }

    pub(crate) fn works_on(&self, object: Object) {
        if let Some(witness) = &self.aside.witness {
            witness.works_on(object);
        }
    }

    /// Nodes of which nothing is known but that they exist: whether one was out of service
    /// is for an administrator to say again.
    pub(crate) fn close_unread_nodes(&mut self) {
        for name in self
            .aside
            .all
            .iter()
            .filter_map(|aside| aside.node.as_ref())
        {
            if let Some(id) = self.machine.id_of(name) {
                self.machine.node_mut(id).state = NodeState::Drained {
                    reason: "what was known of it is set aside".to_owned(),
                    by: "controller".to_owned(),
                    since: None,
                };
            }
        }
    }

    /// A node tells of an attempt of a job that is set aside: true when it does. It goes on
    /// there, or its outcome is kept there; while it goes on nothing else starts.
    pub(crate) fn is_aside_on(&mut self, id: NodeId, key: AttemptKey, goes_on: bool) -> bool {
        if !self.aside.has(key.job) {
            return false;
        }
        let node = self.machine.node_mut(id);
        let changed = match goes_on {
            true => node.has_room_for(key) && node.strays.insert(key),
            false => node.strays.remove(&key),
        };
        if changed {
            self.update_available(id);
        }
        true
    }
}
