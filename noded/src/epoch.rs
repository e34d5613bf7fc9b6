//! The highest epoch that this node knows. Each takeover of the cluster by another controller is
//! one more ([`cosy_proto::link::HelloReply::Welcome`]); no controller of a lower one is obeyed.
//!
//! It is on the disk before the first order of that epoch is obeyed: neither a restart of this
//! daemon nor one of the machine lets a deposed controller in again.

use anyhow::Context;
use cosy_proto::ticket::{Claims, TicketError};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the file in the node's own directory of the spool.
const FILE: &str = "epoch";
/// Most that is read of it, in bytes.
const FILE_BYTES: u64 = 64;

/// The highest epoch. Clones are the same one.
#[derive(Clone, Debug)]
pub struct KnownEpoch {
    value: Arc<AtomicU64>,
    directory: PathBuf,
}

impl KnownEpoch {
    /// As an earlier daemon left it in the directory of the node; 0 where none did.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else: who should be obeyed is not known then.
    pub fn load(directory: &Path) -> anyhow::Result<Self> {
        let path = directory.join(FILE);
        let value = read(&path).with_context(|| format!("epoch in {}", path.display()))?;
        Ok(Self {
            value: Arc::new(AtomicU64::new(value)),
            directory: directory.to_owned(),
        })
    }

    /// The highest epoch; 0 while there is none.
    pub fn get(&self) -> u64 {
        self.value.load(Ordering::Acquire)
    }

    /// Whether a ticket with these claims is good here: of what the node does not hold yet, only one of
    /// the highest epoch is. What it holds goes on with any: jobs outlive takeovers.
    ///
    /// # Errors
    /// [`TicketError::Deposed`].
    pub fn admits(&self, claims: &Claims, held: bool) -> Result<(), TicketError> {
        match held {
            true => Ok(()),
            false => claims.not_before(self.get()),
        }
    }

    /// A higher one is known once it is on the disk.
    ///
    /// # Errors
    /// It could not be written: nothing has changed.
    pub async fn raise(&self, epoch: u64) -> io::Result<()> {
        let directory = self.directory.clone();
        // A disk may be slow, and the daemon has other things to do.
        let written = tokio::task::spawn_blocking(move || write(&directory, epoch));
        written.await.map_err(io::Error::other)??;
        self.value.fetch_max(epoch, Ordering::AcqRel);
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<u64> {
    let file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        file => file?,
    };
    let mut text = String::new();
    file.take(FILE_BYTES).read_to_string(&mut text)?;
    let number = text.trim().parse();
    number.map_err(|_| io::Error::other("there is no number in it"))
}

/// The file is whole at any moment, and stays if the machine ends.
fn write(directory: &Path, epoch: u64) -> io::Result<()> {
    let mut make = DirBuilder::new();
    // Virtual nodes have no spool that would have made it.
    make.recursive(true).mode(0o711).create(directory)?;
    let path = directory.join(FILE);
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(format!("{epoch}\n").as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, &path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("node");
        let known = KnownEpoch::load(&own).unwrap();
        assert_eq!(known.get(), 0);
        known.raise(7).await.unwrap();
        assert_eq!((known.clone().get(), KnownEpoch::load(&own).unwrap().get()), (7, 7));
    }

    #[tokio::test]
    async fn what_cannot_be_kept_is_not_known() {
        let dir = tempfile::tempdir().unwrap();
        let known = KnownEpoch::load(dir.path()).unwrap();
        std::fs::create_dir(dir.path().join("epoch")).unwrap();
        assert!(known.raise(7).await.is_err());
        assert_eq!(known.get(), 0);
    }

    #[test]
    fn a_damaged_file_is_told() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), "x").unwrap();
        let error = format!("{:#}", KnownEpoch::load(dir.path()).unwrap_err());
        assert!(error.contains("/epoch: there is no number"), "{error}");
    }
}
