//! Commands on this host: their requests are passed on to the controller.

use super::{Daemon, Nodes};
use crate::relay::RelayEvent;
use cosy_model::node::NodeReport;

impl Daemon {
    pub(super) fn relay_event(&mut self, event: RelayEvent) {
        match event {
            RelayEvent::Frame { connection, .. } if self.link.is_none() => {
                if let Some(relay) = &self.relay {
                    relay.refuse(connection);
                }
            }
            RelayEvent::Frame {
                connection,
                uid,
                gid,
                frame,
            } => {
                let node = match &self.nodes {
                    Nodes::Real(_) => self.config.name.clone(),
                    Nodes::Virtual(nodes) => nodes.names().first().cloned().unwrap_or_default(),
                };
                self.say(&NodeReport::RelayRequest {
                    connection,
                    node,
                    uid,
                    gid,
                    frame,
                });
            }
            RelayEvent::Closed { connection } => {
                self.say(&NodeReport::RelayClosed { connection });
            }
        }
    }
}
