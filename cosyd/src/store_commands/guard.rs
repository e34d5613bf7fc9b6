//! Nobody else works on stores meanwhile: the lock of a folder, the lead of a database on a server.

use super::place::Place;
use crate::house::lock;
use crate::store::Location;
use crate::store::content::CopyError;
use crate::store::hold::Hold;
use anyhow::Context;
use nix::fcntl::Flock;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

/// What is held until this goes.
pub(super) struct Guard {
    _locks: Vec<Flock<File>>,
    /// By the name of the database.
    leads: Vec<(String, Hold)>,
}

impl Guard {
    /// Takes all of them.
    ///
    /// # Errors
    /// A controller works on one.
    pub(super) fn take(places: &[&Place]) -> anyhow::Result<Self> {
        let mut folders: Vec<PathBuf> = Vec::new();
        let mut guard = Self {
            _locks: Vec::new(),
            leads: Vec::new(),
        };
        for place in places {
            if let (Location::Sqlite(_), Some(folder)) = (&place.location, place.folder()) {
                let folder = fs::canonicalize(&folder)
                    .with_context(|| format!("cannot find {}", folder.display()))?;
                if !folders.contains(&folder) {
                    guard._locks.push(lock(&folder)?);
                    give_to_owner(&folder.join("lock"), &folder)?;
                    folders.push(folder);
                }
            }
            if let Some(hold) = Hold::take(&place.location)? {
                guard.leads.push((place.location.to_string(), hold));
            }
        }
        Ok(guard)
    }

    /// The epoch in which alone that place is written, if it is on a server.
    pub(super) fn epoch(&self, place: &Place) -> Option<u64> {
        let name = place.location.to_string();
        let mut leads = self.leads.iter();
        let found = leads.find(|(of, _)| *of == name);
        found.map(|(_, hold)| hold.epoch())
    }

    /// Renews leads when that is due.
    ///
    /// # Errors
    /// Another has one by now.
    pub(super) fn keep(&mut self) -> Result<(), CopyError> {
        self.leads.iter_mut().try_for_each(|(_, hold)| hold.keep())
    }
}

/// What root makes in the folder of a daemon's user belongs to that user.
///
/// # Errors
/// The system says no.
pub(super) fn give_to_owner(file: &Path, folder: &Path) -> anyhow::Result<()> {
    if !nix::unistd::geteuid().is_root() || !file.exists() {
        return Ok(());
    }
    let about = || format!("cannot give {} to its owner", file.display());
    let owner = fs::metadata(folder).with_context(about)?;
    chown(file, Some(owner.uid()), Some(owner.gid())).with_context(about)
}
