//! Which switches of the network the nodes hang on.

use crate::machine::Machine;
use crate::machine::network::Network;
use cosy_model::{NodeId, SwitchSpec};
use cosy_sched::Topology;
use std::sync::Arc;

impl Machine {
    /// Nodes hang on these switches from now on.
    pub fn hang_on(&mut self, switches: &[SwitchSpec]) {
        let network = || Network::of(switches, self.node_count(), |name| self.id_of(name));
        self.network = (!switches.is_empty()).then(network);
    }

    /// The switches that nodes hang on; `None` where none are configured.
    pub fn topology(&self) -> Option<&Arc<Topology>> {
        self.network.as_ref().map(|network| &network.topology)
    }

    /// The switches that a node hangs on, from the top down with dots between; empty without any.
    pub fn switch_path(&self, node: NodeId) -> &str {
        let network = self.network.as_ref();
        network.map_or("", |network| network.path(node))
    }
}
