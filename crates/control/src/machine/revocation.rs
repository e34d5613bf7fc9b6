//! Keys of nodes that are accepted no more.
//!
//! What always holds: from the turn in which a key is revoked no link is open with it, no
//! node is known by it, nothing is signed for it, and it can join under no name again. All
//! other daemons are told, so that they neither connect to it nor answer it.

use crate::clock::Clocks;
use crate::config::ClusterConfig;
use crate::event::{Effect, LinkId};
use crate::machine::Machine;
use crate::machine::availability::welcome;
use crate::machine::nodes::procedures::link_closed;
use crate::rooms::Rooms;
use crate::turn::Turn;
use std::collections::BTreeSet;

pub(crate) fn drop_links(rooms: &mut Rooms, turn: &mut Turn, keys: &BTreeSet<String>) {
    let theirs = rooms
        .machine
        .links
        .iter()
        .filter(|(_, l)| keys.contains(&l.peer));
    let theirs: Vec<LinkId> = theirs.map(|(link, _)| *link).collect();
    for link in theirs {
        turn.effect(Effect::CloseLink(link));
        link_closed(rooms, turn, link);
    }
}

/// Every daemon hears of it at once; those that are away hear it when they come.
pub(crate) fn tell_revoked(
    config: &ClusterConfig,
    clocks: &Clocks,
    machine: &Machine,
    turn: &mut Turn,
    keys: &BTreeSet<String>,
) {
    let there = machine
        .links
        .iter()
        .filter(|(_, link)| !link.nodes.is_empty());
    let there: Vec<LinkId> = there.map(|(link, _)| *link).collect();
    for link in there {
        let order = welcome(config, clocks, Vec::new(), keys.iter().cloned().collect());
        turn.effect(Effect::Order { link, order });
    }
}

impl Machine {
    /// What a daemon is told that comes with a revoked key.
    pub(crate) fn told_revoked(&self, key: &str) -> String {
        let node = self.keys.revoked_of(key).unwrap_or_default();
        format!(
            "the key {key} of node {node} was revoked: remove its key file there and let it join anew with a token"
        )
    }
}
