//! Keys of nodes: who has joined with which, which are accepted no more, and tokens for
//! joining.
//!
//! What always holds: a revoked key is nobody's key, and a token is good once, for one node.
//! Keys that the configuration gives are not here.

use crate::record::Record;
use crate::turn::Turn;
use cosy_model::{Time, limits};
use std::collections::BTreeMap;

/// A public key in hexadecimal.
type Key = String;

/// Keys that nodes joined with, revoked keys, and tokens.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// By the node's name.
    joined: BTreeMap<String, Key>,
    /// With the name of the node whose key it was.
    revoked: BTreeMap<Key, String>,
    /// By the hash of the token's secret.
    tokens: BTreeMap<String, Token>,
}

#[derive(Debug)]
struct Token {
    node: String,
    expiry: Time,
}

impl Keys {
    /// What the store has: names with keys, revoked keys with names and times, hashes of tokens
    /// with names and until when they are good.
    pub fn restore(
        joined: Vec<(String, Key)>,
        revoked: Vec<(Key, String, Time)>,
        tokens: Vec<(String, String, Time)>,
    ) -> Self {
        let token = |(hash, node, expiry)| (hash, Token { node, expiry });
        Self {
            joined: joined.into_iter().collect(),
            revoked: revoked
                .into_iter()
                .map(|(key, node, _)| (key, node))
                .collect(),
            tokens: tokens.into_iter().map(token).collect(),
        }
    }

    /// The key that a node joined with.
    pub fn of_node(&self, name: &str) -> Option<&Key> {
        self.joined.get(name)
    }

    /// Names of the nodes that joined with that key.
    pub fn nodes_of<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let joined = self.joined.iter().filter(move |(_, other)| *other == key);
        joined.map(|(name, _)| name.as_str())
    }

    /// The node whose key that was before it was revoked.
    pub fn revoked_of(&self, key: &str) -> Option<&str> {
        self.revoked.get(key).map(String::as_str)
    }

    /// All revoked keys.
    pub fn revoked(&self) -> impl Iterator<Item = &Key> {
        self.revoked.keys()
    }

    /// So many more may be revoked.
    pub fn room_for_revoked(&self) -> usize {
        limits::REVOKED_KEYS.saturating_sub(self.revoked.len())
    }

    /// That key of that node is never accepted again.
    pub fn revoke(&mut self, turn: &mut Turn, key: Key, node: String, at: Time) {
        self.revoked.insert(key.clone(), node.clone());
        turn.record(Record::KeyRevoked { key, node, at });
    }

    /// The node of that name has no key any more, and no token made before lets one join as it.
    pub fn forget_node(&mut self, turn: &mut Turn, name: &str) {
        if self.joined.remove(name).is_some() {
            let name = name.to_owned();
            turn.record(Record::NodeKeyGone { name });
        }
        self.drop_tokens(turn, |token| token.node == name);
    }

    /// A new token, known by its hash, lets a host join as that node.
    pub fn offer(&mut self, turn: &mut Turn, hash: String, node: String, expiry: Time) {
        let token = Token {
            node: node.clone(),
            expiry,
        };
        self.tokens.insert(hash.clone(), token);
        turn.record(Record::Token { hash, node, expiry });
    }

    /// A host joins as `node` with the token of that hash; its key is known from now on.
    ///
    /// # Errors
    /// What is wrong with the token.
    pub fn join(
        &mut self,
        turn: &mut Turn,
        now: Time,
        node: &str,
        hash: &str,
        key: &str,
    ) -> Result<(), &'static str> {
        let token = self.tokens.get(hash);
        let token = token.ok_or("the token is not known here, or it was used before")?;
        if token.expiry < now {
            return Err("the token has expired: ask an administrator for a new one");
        }
        if token.node != node {
            return Err("the token is for another node");
        }
        self.tokens.remove(hash);
        let (name, hash, key) = (node.to_owned(), hash.to_owned(), key.to_owned());
        self.joined.insert(name.clone(), key.clone());
        turn.record(Record::TokenGone { hash });
        turn.record(Record::NodeKey { name, key });
        Ok(())
    }

    /// Forgets tokens that are good no longer.
    pub fn forget_expired(&mut self, turn: &mut Turn, now: Time) {
        self.drop_tokens(turn, |token| token.expiry < now);
    }

    fn drop_tokens(&mut self, turn: &mut Turn, which: impl Fn(&Token) -> bool) {
        self.tokens.retain(|hash, token| {
            let gone = which(token);
            if gone {
                turn.record(Record::TokenGone { hash: hash.clone() });
            }
            !gone
        });
    }
}
