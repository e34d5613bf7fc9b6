//! Names and numbers of users, as the host's directory has them; remembered for a while.

use crate::limits::{KNOWN_FOR, KNOWN_USERS};
use cosy_model::Uid;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Names of users, looked up on threads of their own.
#[derive(Default)]
pub struct Users {
    names: Mutex<Known<Uid, String>>,
    uids: Mutex<Known<String, Uid>>,
}

/// What was found lately, `None` where nobody was.
struct Known<K, V>(HashMap<K, (Instant, Option<V>)>);

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash, V: Clone> Known<K, V> {
    fn get(&self, key: &K) -> Option<Option<V>> {
        let (at, found) = self.0.get(key)?;
        (at.elapsed() < KNOWN_FOR).then(|| found.clone())
    }

    fn put(&mut self, key: K, found: Option<V>) {
        if self.0.len() >= KNOWN_USERS {
            self.0.retain(|_, (at, _)| at.elapsed() < KNOWN_FOR);
        }
        if self.0.len() >= KNOWN_USERS {
            self.0.clear();
        }
        self.0.insert(key, (Instant::now(), found));
    }
}

impl Users {
    /// The login name of a user; the number in digits where the directory knows none.
    pub async fn name(&self, uid: Uid) -> String {
        let look = move || nix::unistd::User::from_uid(uid.0.into()).ok().flatten();
        let name = cached(&self.names, uid, move || look().map(|user| user.name)).await;
        name.unwrap_or_else(|| uid.to_string())
    }

    /// The number of a user, if the directory knows the name.
    pub async fn uid(&self, name: &str) -> Option<Uid> {
        if name.is_empty() || name.len() > 256 || name.contains('\0') {
            return None;
        }
        let key = name.to_owned();
        let look = {
            let name = key.clone();
            move || nix::unistd::User::from_name(&name).ok().flatten()
        };
        cached(&self.uids, key, move || look().map(|user| Uid(user.uid.as_raw()))).await
    }
}

/// What the directory says of a user now.
pub async fn entry(uid: Uid) -> Option<nix::unistd::User> {
    let look = move || nix::unistd::User::from_uid(uid.0.into()).ok().flatten();
    tokio::task::spawn_blocking(look).await.ok().flatten()
}

async fn cached<K: Eq + Hash, V: Clone + Send + 'static>(
    known: &Mutex<Known<K, V>>,
    key: K,
    look: impl FnOnce() -> Option<V> + Send + 'static,
) -> Option<V> {
    let found = known
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&key);
    if let Some(found) = found {
        return found;
    }
    let found = tokio::task::spawn_blocking(look).await.ok().flatten();
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.put(key, found.clone());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_and_numbers() {
        let users = Users::default();
        assert_eq!(users.name(Uid(0)).await, "root");
        assert_eq!(users.uid("root").await, Some(Uid(0)));
        assert_eq!(users.uid("no such user").await, None);
        assert_eq!(users.uid("").await, None);
        assert_eq!(users.uid("a\0b").await, None);
        assert_eq!(users.name(Uid(4_000_000_001)).await, "4000000001");
    }
}
