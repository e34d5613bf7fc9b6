//! The controller and a node daemon, over TLS. Which node daemon it is, is what its
//! pinned key says.

use cosy_model::node::{NodeOrder, NodeReport};
use serde::{Deserialize, Serialize};

/// First frame of a node daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hello {
    /// A daemon that takes up its work. Its key is known.
    Node {
        /// Protocol version.
        version: u32,
    },
    /// A host that wants to join: its key is not known yet, the token stands for it.
    Join {
        /// Protocol version.
        version: u32,
        /// Name of the node.
        node: String,
        /// The one-time token's secret.
        token: String,
    },
}

/// Answer to [`Hello`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HelloReply {
    /// Go on: reports and orders follow.
    Welcome {
        /// Protocol version of the controller.
        version: u32,
    },
    /// The node's key is now known under this name; the connection ends.
    Joined {
        /// Name of the cluster.
        cluster: String,
    },
    /// No, and why; the connection ends.
    Refused {
        /// In one line.
        reason: String,
    },
}

/// Controller to node.
pub type ToNode = NodeOrder;
/// Node to controller.
pub type FromNode = NodeReport;
