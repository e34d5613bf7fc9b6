//! Keys of nodes that the controller has revoked: nothing is said to them and nothing is
//! taken from them any more, also while the controller is away and after a restart.

use cosy_model::limits;
use cosy_proto::keys::PublicKey;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// The keys. Clones are the same ones.
#[derive(Clone, Debug)]
pub struct RevokedKeys {
    /// Public keys in hexadecimal.
    keys: Arc<watch::Sender<BTreeSet<String>>>,
    memory: PathBuf,
}

impl RevokedKeys {
    /// The keys that a file remembers, one in a line; none where there is no file.
    pub fn load(memory: &Path) -> Self {
        let text = std::fs::read_to_string(memory).unwrap_or_default();
        let keys = text
            .lines()
            .filter(|line| line.parse::<PublicKey>().is_ok());
        let keys = keys.map(str::to_owned).collect();
        Self {
            keys: Arc::new(watch::Sender::new(keys)),
            memory: memory.to_owned(),
        }
    }

    /// These are no good from now on.
    pub fn add(&self, keys: Vec<String>) {
        let new = self.keys.send_if_modified(|all| {
            let before = all.len();
            all.extend(keys.into_iter().filter(|k| k.parse::<PublicKey>().is_ok()));
            while all.len() > limits::REVOKED_KEYS {
                all.pop_first();
            }
            all.len() != before
        });
        if new && let Err(e) = self.remember() {
            tracing::error!("{}: {e}", self.memory.display());
        }
    }

    fn remember(&self) -> std::io::Result<()> {
        let text: String = self
            .keys
            .borrow()
            .iter()
            .fold(String::new(), |text, key| text + key + "\n");
        crate::spool::write_whole(&self.memory, text.as_bytes())
    }

    /// Whether that one is no good.
    pub fn has(&self, key: &str) -> bool {
        self.keys.borrow().contains(key)
    }

    /// Comes when that one is no good, at once if it is so already.
    pub async fn until_revoked(&self, key: &str) {
        let mut changes = self.keys.subscribe();
        // The sender is this one's own.
        let _ = changes.wait_for(|keys| keys.contains(key)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let memory = dir.path().join("revoked");
        let (bad, good) = ("a".repeat(64), "b".repeat(64));
        let keys = RevokedKeys::load(&memory);
        keys.add(vec![bad.clone(), "nonsense\n".into()]);
        assert!(keys.has(&bad) && !keys.has(&good) && !keys.has("nonsense\n"));
        let again = RevokedKeys::load(&memory);
        assert!(again.has(&bad) && !again.has(&good));
    }
}
