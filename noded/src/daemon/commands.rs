//! Commands on this host: their requests are passed on to the controller.

use super::{Daemon, Nodes};
use crate::relay::RelayEvent;
use cosy_model::node::NodeReport;
use cosy_model::{Refusal, RefusalCode};

impl Daemon {
    /// Why a command's request is not passed on. Where there are several controllers one of them
    /// will lead soon, and the command may wait for that.
    fn no_link(&self) -> Refusal {
        match self.config.controllers.as_slice() {
            [] | [_] => Refusal::new(
                RefusalCode::Unavailable,
                "the controller cannot be reached from this host now; nothing was changed",
            ),
            all => Refusal::new(
                RefusalCode::Standby,
                format!(
                    "of the controllers {} none leads that can be reached from this host now; \
                     nothing was changed",
                    all.join(", ")
                ),
            ),
        }
    }

    pub(super) fn relay_event(&mut self, event: RelayEvent) {
        match event {
            RelayEvent::Frame { connection, .. } if self.link.is_none() => {
                if let Some(relay) = &self.relay {
                    relay.refuse(connection, self.no_link());
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
