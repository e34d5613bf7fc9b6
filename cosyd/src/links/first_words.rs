//! What is judged of the first word on a link.

use cosy_control::LinkHello;
use std::net::IpAddr;

/// Orders without which a node daemon runs no job.
const ESSENTIAL: [&str; 6] = ["welcome", "prepare", "launch", "kill", "release", "forget"];

/// The other end of a new link, as the log names it.
pub(super) fn who_comes(hello: &LinkHello, address: IpAddr) -> String {
    let address = address.to_canonical();
    match hello {
        LinkHello::Node { .. } => format!("the node daemon at {address}"),
        LinkHello::Join { node, .. } => {
            let node: String = node
                .chars()
                .take(60)
                .map(|c| if c.is_control() { '?' } else { c })
                .collect();
            format!("a host at {address} that would be node '{node}'")
        }
    }
}

/// Why a node daemon of that protocol version which lacks these orders cannot be worked with.
pub(super) fn too_far_apart(version: u32, lacks: &[&str]) -> Option<String> {
    if !cosy_proto::understands(version) {
        return Some(format!(
            "node speaks protocol version {version}, the controller {}",
            cosy_proto::PROTOCOL
        ));
    }
    let order = ESSENTIAL.iter().find(|order| lacks.contains(order))?;
    Some(format!("node does not know the order '{order}': install this release"))
}
