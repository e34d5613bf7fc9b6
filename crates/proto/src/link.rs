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
        /// The highest epoch that the node knows, so that a controller that was deposed learns
        /// of it; 0 where it knows of none.
        #[serde(default, skip_serializing_if = "is_zero")]
        epoch: u64,
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
    /// The first word of this program as a node daemon that knows of that epoch.
    pub fn node(epoch: u64) -> Self {
        Self::Node {
            version: crate::PROTOCOL,
            orders: owned(words::names::<ToNode>()),
            epoch,
        }
    }
}

/// Answer to [`Hello`].
///
/// Any number of [`Standby`](Self::Standby) come first, then one of the others. A link belongs to
/// the epoch of its welcome: so does every order on it.
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
        /// Which leadership of the cluster it is: each takeover is one more. 0: the cluster has
        /// one controller, whose word is never outdated.
        #[serde(default, skip_serializing_if = "is_zero")]
        epoch: u64,
    },
    /// Another controller leads. The connection stays, for the welcome that comes on it when this
    /// one does.
    Standby {
        /// Where the leader is, as far as this controller knows it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leader: Option<String>,
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
    /// The welcome of this program as a controller that leads in that epoch.
    pub fn welcome(epoch: u64) -> Self {
        Self::Welcome {
            version: crate::PROTOCOL,
            reports: owned(words::names::<FromNode>()),
            epoch,
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out a reference"
)]
pub(crate) const fn is_zero(epoch: &u64) -> bool {
    *epoch == 0
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Controller to node.
pub type ToNode = NodeOrder;
/// Node to controller.
pub type FromNode = NodeReport;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use serde::de::DeserializeOwned;

    /// As a release without epochs reads it.
    #[derive(PartialEq, Eq, Debug, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Earlier {
        Node { version: u32, orders: Vec<String> },
        Welcome { version: u32, reports: Vec<String> },
    }

    fn reread<T: DeserializeOwned>(message: &impl Serialize) -> T {
        let bytes = frame::encode(message, 1 << 16).unwrap();
        frame::decode(&bytes[frame::HEADER..]).unwrap()
    }

    #[test]
    fn a_release_without_epochs_understands_and_is_understood() {
        let version = crate::PROTOCOL;
        let orders = owned(words::names::<ToNode>());
        let reports = owned(words::names::<FromNode>());
        let (hello, welcome) =
            (Earlier::Node { version, orders }, Earlier::Welcome { version, reports });
        for epoch in [0, 7] {
            assert_eq!(reread::<Earlier>(&Hello::node(epoch)), hello);
            assert_eq!(reread::<Earlier>(&HelloReply::welcome(epoch)), welcome);
            assert_eq!(reread::<Hello>(&Hello::node(epoch)), Hello::node(epoch));
            assert_eq!(
                reread::<HelloReply>(&HelloReply::welcome(epoch)),
                HelloReply::welcome(epoch)
            );
        }
        assert_eq!(reread::<Hello>(&hello), Hello::node(0));
        assert_eq!(reread::<HelloReply>(&welcome), HelloReply::welcome(0));
    }

    #[test]
    fn without_an_epoch_the_bytes_are_those_of_before() {
        let bytes = |message: &HelloReply| frame::encode(message, 1 << 16).unwrap();
        let HelloReply::Welcome {
            version, reports, ..
        } = HelloReply::welcome(0)
        else {
            return;
        };
        let before = frame::encode(&Earlier::Welcome { version, reports }, 1 << 16).unwrap();
        assert_eq!(bytes(&HelloReply::welcome(0)), before);
    }
}
