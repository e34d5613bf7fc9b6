//! The key-value space of a step on one node: what was put, what is published, what tasks
//! of the node tell each other, and the node's share of an exchange.
//!
//! A share is what was put here since the last one, one entry after another:
//!
//! ```text
//! kind u8 (0 value, 1 name, 2 no such name any more), length of key u16, length of value u16,
//! key, value          numbers little endian
//! ```
//!
//! Shares are read in the order of nodes, so that all nodes hold the same afterwards. Keys
//! and values are bytes. What is kept has a limit ([`limits`]), what a share may be, too: an
//! entry counts with what it takes beside its bytes ([`limits::PMI_ENTRY`]), so that many
//! small ones take no more memory than few large ones.

use cosy_model::limits;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of an entry of a share before its key.
const HEADER: usize = 5;

/// What an entry of a share says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Value,
    Name,
    NoName,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Value => 0,
            Self::Name => 1,
            Self::NoName => 2,
        }
    }

    const fn of(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Value),
            1 => Some(Self::Name),
            2 => Some(Self::NoName),
            3.. => None,
        }
    }
}

/// Bytes under a key.
type Table = BTreeMap<Arc<[u8]>, Box<[u8]>>;

/// What the tasks of one node can see.
#[derive(Debug)]
pub struct KeyValues {
    values: Table,
    /// Keys by number, for those who read them one after another.
    keys: Vec<Arc<[u8]>>,
    names: Table,
    attributes: Table,
    /// Bytes in `values` and `names`, with what their entries take beside.
    held: usize,
    attributes_held: usize,
    /// The node's share of the next exchange.
    share: Vec<u8>,
    share_limit: usize,
}

impl KeyValues {
    /// An empty one, whose share of one exchange has at most `share_limit` bytes.
    pub fn new(share_limit: usize) -> Self {
        Self {
            values: Table::new(),
            keys: Vec::new(),
            names: Table::new(),
            attributes: Table::new(),
            held: 0,
            attributes_held: 0,
            share: Vec::new(),
            share_limit,
        }
    }

    /// A task puts a value. It is seen here at once, elsewhere after the next exchange.
    ///
    /// # Errors
    /// Too long, or too much; in one line.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.enter(Kind::Value, key, value)
    }

    /// A task publishes a name.
    ///
    /// # Errors
    /// Too long, too much, or published already; in one line.
    pub fn publish(&mut self, name: &[u8], port: &[u8]) -> Result<(), String> {
        if self.names.contains_key(name) {
            return Err("this name is published already".to_owned());
        }
        self.enter(Kind::Name, name, port)
    }

    /// A task takes a name back.
    ///
    /// # Errors
    /// Not published; in one line.
    pub fn unpublish(&mut self, name: &[u8]) -> Result<(), String> {
        if !self.names.contains_key(name) {
            return Err("no such name is published".to_owned());
        }
        self.enter(Kind::NoName, name, &[])
    }

    /// The value under a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.values.get(key).map(AsRef::as_ref)
    }

    /// The key of this number and its value.
    pub fn numbered(&self, number: usize) -> Option<(&[u8], &[u8])> {
        let key = self.keys.get(number)?;
        Some((key, self.get(key)?))
    }

    /// What is published under a name.
    pub fn lookup(&self, name: &[u8]) -> Option<&[u8]> {
        self.names.get(name).map(AsRef::as_ref)
    }

    /// A task leaves something for the others of its node.
    ///
    /// # Errors
    /// Too long, or too much; in one line.
    pub fn put_attribute(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        check_lengths(key, value)?;
        let more = self.attributes_held + cost(key, value);
        if more > limits::PMI_NODE_ATTRIBUTES {
            let limit = limits::PMI_NODE_ATTRIBUTES;
            return Err(format!(
                "attributes of the node may have {limit} bytes in all, each {} more than its own",
                limits::PMI_ENTRY
            ));
        }
        replace(&mut self.attributes, key, value, &mut self.attributes_held);
        Ok(())
    }

    /// What a task of this node left for the others.
    pub fn attribute(&self, key: &[u8]) -> Option<&[u8]> {
        self.attributes.get(key).map(AsRef::as_ref)
    }

    /// The node's share of an exchange that begins.
    pub fn take_share(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.share)
    }

    /// Takes what a node brings to an exchange.
    ///
    /// # Errors
    /// No share, or more than there is room for; in one line. What came before that stays.
    pub fn merge(&mut self, mut share: &[u8]) -> Result<(), String> {
        while !share.is_empty() {
            let (entry, rest) = first_entry(share).ok_or("a node's share cannot be read")?;
            self.admit(entry.kind, entry.key, entry.value)?;
            self.keep(entry.kind, entry.key, entry.value);
            share = rest;
        }
        Ok(())
    }

    /// What was put here since the last share is put once more: an exchange may have brought
    /// older values under the same keys.
    pub fn put_again(&mut self) {
        let share = std::mem::take(&mut self.share);
        // It was admitted before and takes no more room; if others have filled the space
        // meanwhile, the values that are there stay.
        let _ = self.merge(&share);
        self.share = share;
    }

    fn enter(&mut self, kind: Kind, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.admit(kind, key, value)?;
        let length = self.share.len() + HEADER + key.len() + value.len();
        if length > self.share_limit {
            return Err(format!(
                "the tasks of this node may put {} bytes between two barriers",
                self.share_limit
            ));
        }
        put_entry(&mut self.share, kind, key, value);
        self.keep(kind, key, value);
        Ok(())
    }

    fn admit(&self, kind: Kind, key: &[u8], value: &[u8]) -> Result<(), String> {
        check_lengths(key, value)?;
        let limit = limits::PMI_SPACE;
        let room = match kind {
            Kind::Value | Kind::Name => cost(key, value),
            Kind::NoName => 0,
        };
        if self.held + room > limit {
            return Err(format!(
                "the step's key-value space is full: {limit} bytes, {} of them for each entry beside its own",
                limits::PMI_ENTRY
            ));
        }
        Ok(())
    }

    fn keep(&mut self, kind: Kind, key: &[u8], value: &[u8]) {
        match kind {
            Kind::Value => {
                if let Some(new) = replace(&mut self.values, key, value, &mut self.held) {
                    self.keys.push(new);
                }
            }
            Kind::Name => {
                replace(&mut self.names, key, value, &mut self.held);
            }
            Kind::NoName => {
                if let Some(old) = self.names.remove(key) {
                    self.held = self.held.saturating_sub(cost(key, &old));
                }
            }
        }
    }
}

/// What an entry takes, in bytes.
const fn cost(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + limits::PMI_ENTRY
}

/// Puts a value under a key and counts; the key if it is new.
fn replace(table: &mut Table, key: &[u8], value: &[u8], held: &mut usize) -> Option<Arc<[u8]>> {
    if let Some(old) = table.get_mut(key) {
        *held = held.saturating_sub(old.len()) + value.len();
        *old = value.into();
        return None;
    }
    let new: Arc<[u8]> = key.into();
    *held += cost(key, value);
    table.insert(Arc::clone(&new), value.into());
    Some(new)
}

fn check_lengths(key: &[u8], value: &[u8]) -> Result<(), String> {
    let check = |what, length, limit| {
        if length > limit {
            return Err(format!("a {what} of {length} bytes; {limit} are allowed"));
        }
        Ok(())
    };
    if key.is_empty() {
        return Err("an empty key".to_owned());
    }
    check("key", key.len(), limits::PMI_KEY)?;
    check("value", value.len(), limits::PMI_VALUE)
}

// Both lengths were checked and are far below 65,536.
fn put_entry(share: &mut Vec<u8>, kind: Kind, key: &[u8], value: &[u8]) {
    share.push(kind.code());
    share.extend_from_slice(&(key.len() as u16).to_le_bytes());
    share.extend_from_slice(&(value.len() as u16).to_le_bytes());
    share.extend_from_slice(key);
    share.extend_from_slice(value);
}

/// One entry of a share.
struct Entry<'a> {
    kind: Kind,
    key: &'a [u8],
    value: &'a [u8],
}

/// The first entry and what follows it.
fn first_entry(share: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let [kind, a, b, c, d] = *share.first_chunk::<HEADER>()?;
    let (key, rest) = share[HEADER..].split_at_checked(u16::from_le_bytes([a, b]).into())?;
    let (value, rest) = rest.split_at_checked(u16::from_le_bytes([c, d]).into())?;
    let kind = Kind::of(kind)?;
    Some((Entry { kind, key, value }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_put_here_is_seen_there() {
        let mut here = KeyValues::new(4096);
        let mut there = KeyValues::new(4096);
        here.put(b"a", b"1").unwrap();
        here.put(b"b", b"").unwrap();
        here.put(b"a", b"2").unwrap();
        here.publish(b"ocean", b"port 7").unwrap();
        assert!(here.publish(b"ocean", b"port 8").is_err());
        there.merge(&here.take_share()).unwrap();
        assert_eq!(there.get(b"a"), Some(&b"2"[..]));
        assert_eq!(there.get(b"b"), Some(&b""[..]));
        assert_eq!(there.get(b"c"), None);
        assert_eq!(there.numbered(1), Some((&b"b"[..], &b""[..])));
        assert_eq!(there.numbered(2), None);
        assert_eq!(there.lookup(b"ocean"), Some(&b"port 7"[..]));
        assert!(here.take_share().is_empty());
        here.unpublish(b"ocean").unwrap();
        there.merge(&here.take_share()).unwrap();
        assert_eq!(there.lookup(b"ocean"), None);
        assert!(there.unpublish(b"ocean").is_err());
    }

    fn refused(result: Result<(), String>, word: &str) {
        let error = result.unwrap_err();
        assert!(error.contains(word), "{error}");
    }

    #[test]
    fn limits_hold() {
        let mut space = KeyValues::new(3000);
        refused(space.put(b"", b"1"), "empty key");
        refused(space.put(&[b'k'; 64], b"1"), "64 bytes; 63 are allowed");
        refused(space.put(b"k", &[b'v'; 1024]), "1024 bytes; 1023");
        space.put(&[b'k'; 63], &[b'v'; 1023]).unwrap();
        space.put(b"k", &[b'v'; 1023]).unwrap();
        refused(space.put(b"l", &[b'v'; 1023]), "3000 bytes between two");
        assert_eq!(space.take_share().len(), 2 * 1023 + 64 + 2 * HEADER);
        space.put(b"l", &[b'v'; 1023]).unwrap();
    }

    #[test]
    fn the_space_has_an_end() {
        let mut share = Vec::new();
        let mut space = KeyValues::new(0);
        let full = (0_u32..).find_map(|n| {
            share.clear();
            for m in 0_u32..64 {
                put_entry(&mut share, Kind::Value, &(n * 64 + m).to_le_bytes(), &[7; 1023]);
            }
            space.merge(&share).err()
        });
        assert!(full.unwrap().contains("full"));
        assert!(space.held <= limits::PMI_SPACE);
        let mut space = KeyValues::new(0);
        let full = (0_u32..).find_map(|n| space.put_attribute(&n.to_le_bytes(), &[7; 1023]).err());
        assert!(full.unwrap().contains("1048576 bytes"));
    }

    /// Puts entries without a value until there is room for no more; gives how many fit.
    fn fill(mut put: impl FnMut(&[u8]) -> Result<(), String>) -> usize {
        (0_u32..)
            .position(|n| put(&n.to_le_bytes()).is_err())
            .unwrap_or_default()
    }

    #[test]
    fn many_small_entries_take_no_more_than_few_large_ones() {
        let mut space = KeyValues::new(usize::MAX);
        space.publish(b"name", b"").unwrap();
        let most = limits::PMI_SPACE / (limits::PMI_ENTRY + 4);
        assert_eq!(fill(|key| space.put(key, b"")), most - 1);
        assert_eq!(space.keys.len(), most - 1);
        refused(space.publish(b"more", b""), "is full");
        // What is taken back gives its room back.
        space.unpublish(b"name").unwrap();
        space.publish(b"more", b"").unwrap();
        let most = limits::PMI_NODE_ATTRIBUTES / (limits::PMI_ENTRY + 4);
        assert_eq!(fill(|key| space.put_attribute(key, b"")), most);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn hostile_shares_give_errors(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut space = KeyValues::new(0);
            let read = space.merge(&bytes);
            let most = bytes.len() * (1 + limits::PMI_ENTRY);
            prop_assert!(read.is_ok() || space.held <= most);
        }

        #[test]
        fn a_share_that_was_cut_gives_an_error(cut in 1_usize..20) {
            let mut share = Vec::new();
            put_entry(&mut share, Kind::Value, b"key", b"some value");
            let cut = cut.min(share.len() - 1);
            share.truncate(share.len() - cut);
            prop_assert!(KeyValues::new(0).merge(&share).is_err());
        }
    }
}
