//! The controller and a node daemon, over TLS. Which node daemon it is, is what its
//! pinned key says.

use crate::words;
use cosy_model::node::{NodeOrder, NodeReport};
use serde::{Deserialize, Serialize};

/// First frame of a node daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hello {
    /// A daemon that takes up its work. Its key is known.
    Node {
        /// Protocol version of the daemon.
        version: u32,
        /// Names of the orders that it knows; empty in version 1.
        #[serde(default)]
        orders: Vec<String>,
    },
    /// A host that wants to join: its key is not known yet, the token stands for it.
    Join {
        /// Protocol version of the host that joins.
        version: u32,
        /// Name of the node.
        node: String,
        /// The one-time token's secret.
        token: String,
    },
}

impl Hello {
    /// The first word of this program as a node daemon.
    pub fn node() -> Self {
        Self::Node {
            version: crate::PROTOCOL,
            orders: owned(words::names::<ToNode>()),
        }
    }
}

/// Answer to [`Hello`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HelloReply {
    /// Go on: reports and orders follow.
    Welcome {
        /// Protocol version of the controller.
        version: u32,
        /// Names of the reports that it knows; empty in version 1.
        #[serde(default)]
        reports: Vec<String>,
    },
    /// The node's key is now known under this name; the connection ends.
    Joined {
        /// Name of the cluster.
        cluster: String,
    },
    /// No, and why; the connection ends.
    Refused {
        /// Why, in one line.
        reason: String,
    },
}

impl HelloReply {
    /// The welcome of this program as a controller.
    pub fn welcome() -> Self {
        Self::Welcome {
            version: crate::PROTOCOL,
            reports: owned(words::names::<FromNode>()),
        }
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Controller to node.
pub type ToNode = NodeOrder;
/// Node to controller.
pub type FromNode = NodeReport;
