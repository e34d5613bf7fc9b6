//! Keys of nodes that are accepted no more.
//!
//! What always holds: from the turn in which a key is revoked no link is open with it, no
//! node is known by it, nothing is signed for it, and it can join under no name again. All
//! other daemons are told, so that they neither connect to it nor answer it.

use crate::controller::Controller;
use crate::event::{Caller, Effect, LinkId};
use cosy_model::api::NodeAction;
use cosy_model::{NodeId, Refusal, RefusalCode, Time, limits};
use std::collections::BTreeSet;

impl Controller {
    /// Revokes the keys of nodes. Every other node with such a key is meant too.
    pub(crate) fn revoke(
        &mut self,
        now: Time,
        caller: &Caller,
        ids: &[NodeId],
        reason: &str,
    ) -> Result<(), Refusal> {
        let name = |id: &NodeId| self.machine.name(*id).to_owned();
        let mut names: BTreeSet<String> = ids.iter().map(name).collect();
        let key = |name: &String| Some((self.key_of(name)?.clone(), name.clone()));
        let keys: Vec<(String, String)> = names.iter().filter_map(key).collect();
        if keys.len() > self.machine.keys.room_for_revoked() {
            let most = limits::REVOKED_KEYS;
            let why = format!("at most {most} revoked keys are remembered");
            return Err(Refusal::new(RefusalCode::TooMany, why));
        }
        for (key, name) in &keys {
            names.extend(self.names_of_key(key).map(str::to_owned));
            let (key, name) = (key.clone(), name.clone());
            self.machine.keys.revoke(&mut self.turn, key, name, now);
        }
        for name in &names {
            self.forget_key(now, caller, name, reason);
        }
        let revoked: BTreeSet<String> = keys.into_iter().map(|(key, _)| key).collect();
        self.drop_links(&revoked);
        self.tell_revoked(&revoked);
        Ok(())
    }

    /// The node of that name has no key any more, nobody may join as it with a token that
    /// was made before, and its jobs are given up.
    fn forget_key(&mut self, now: Time, caller: &Caller, name: &str, reason: &str) {
        self.machine.keys.forget_node(&mut self.turn, name);
        let who = caller.user.name.clone();
        let object = format!("node {name}");
        self.happened(now, "revoked", &who, object, reason.to_owned());
        if let Some(id) = self.machine.node_ids.get(name).copied() {
            let reason = format!("its key was revoked: {reason}");
            self.node_control_one(now, caller, id, &NodeAction::Down { reason });
        }
    }

    fn drop_links(&mut self, keys: &BTreeSet<String>) {
        let theirs = self
            .machine
            .links
            .iter()
            .filter(|(_, l)| keys.contains(&l.peer));
        let theirs: Vec<LinkId> = theirs.map(|(link, _)| *link).collect();
        for link in theirs {
            self.effect(Effect::CloseLink(link));
            self.link_closed(link);
        }
    }

    /// Every daemon hears of it at once; those that are away hear it when they come.
    fn tell_revoked(&mut self, keys: &BTreeSet<String>) {
        let there = self
            .machine
            .links
            .iter()
            .filter(|(_, link)| !link.nodes.is_empty());
        let there: Vec<LinkId> = there.map(|(link, _)| *link).collect();
        for link in there {
            let order = self.welcome(Vec::new(), keys.iter().cloned().collect());
            self.effect(Effect::Order { link, order });
        }
    }

    /// What a daemon is told that comes with a revoked key.
    pub(crate) fn told_revoked(&self, key: &str) -> String {
        let node = self.machine.keys.revoked_of(key).unwrap_or_default();
        format!(
            "the key {key} of node {node} was revoked: remove its key file there and let it join anew with a token"
        )
    }
}
