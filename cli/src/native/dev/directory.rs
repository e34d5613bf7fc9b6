//! The directory of a private cluster: made, locked, removed; and those that were left
//! behind by killed ones, swept.

use anyhow::{Context as _, bail};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Held as long as the cluster lives.
const LOCK: &str = "lock";
/// A file that marks a directory as not to be removed.
const KEEP: &str = "keep";
/// Age up to which a directory without a lock file is taken to be in the making.
const BEING_MADE: Duration = Duration::from_secs(60);
/// Names that are made in the directory, besides folders of nodes and of controllers' state.
const MADE: [&str; 6] = [
    "bin",
    "run",
    super::database::FOLDER,
    "log",
    "cosy.toml",
    KEEP,
];

/// The directory of this cluster.
pub struct ClusterDirectory {
    dir: PathBuf,
    lock: File,
    keep: bool,
    /// False when the directory was there before and only its contents are ours.
    whole: bool,
}

impl ClusterDirectory {
    /// Makes and locks it: `dir`, or a new one among temporary files.
    ///
    /// # Errors
    /// Not empty, not writable.
    pub fn make(dir: Option<&Path>, keep: bool) -> anyhow::Result<Self> {
        let (dir, lock, whole) = match dir {
            Some(dir) => take_named_directory(dir)?,
            None => fresh()?,
        };
        if keep {
            File::create(dir.join(KEEP))?;
        }
        Ok(Self {
            dir,
            lock,
            keep,
            whole,
        })
    }

    /// The absolute path.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The lock's file: whoever has it open holds the lock.
    pub fn lock(&self) -> &File {
        &self.lock
    }

    /// False when only the contents are to be removed in the end.
    pub fn is_removed_whole(&self) -> bool {
        self.whole
    }

    /// Removes what was made, unless it is to be kept.
    pub fn remove(&self) {
        if !self.keep {
            remove(&self.dir, self.whole);
        }
    }
}

/// Removes a cluster's directory, or its contents only. The lock goes last: who is killed
/// here leaves a directory that is swept later.
pub fn remove(dir: &Path, whole: bool) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let ours =
            MADE.contains(&name.as_ref()) || name.starts_with("node") || name.starts_with("state");
        if name != LOCK && (whole || ours) && fs::remove_file(entry.path()).is_err() {
            remove_tree(&entry.path());
        }
    }
    if whole {
        remove_tree(dir);
    } else {
        let _ = fs::remove_file(dir.join(LOCK));
    }
}

/// Removes a tree, also where its folders were made unwritable.
fn remove_tree(dir: &Path) {
    if fs::remove_dir_all(dir).is_err() && dir.is_dir() {
        make_writable(dir);
        let _ = fs::remove_dir_all(dir);
    }
}

fn make_writable(dir: &Path) {
    let _ = fs::set_permissions(dir, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            make_writable(&entry.path());
        }
    }
}

fn take_named_directory(dir: &Path) -> anyhow::Result<(PathBuf, File, bool)> {
    let shown = dir.display();
    let there = dir.exists();
    if there {
        let mut entries = fs::read_dir(dir).with_context(|| format!("cannot use '{shown}'"))?;
        if entries.next().is_some() {
            bail!("cannot use '{shown}': it is not empty");
        }
    } else {
        make_dir(dir).with_context(|| format!("cannot make '{shown}'"))?;
    }
    let dir = dir.canonicalize()?;
    let lock = lock(&dir)?.with_context(|| format!("'{shown}' is in use"))?;
    Ok((dir, lock, !there))
}

fn make_dir(dir: &Path) -> io::Result<()> {
    // Other users' jobs go through the directory when root runs the cluster.
    let mode = if rustix::process::geteuid().is_root() {
        0o711
    } else {
        0o700
    };
    DirBuilder::new().mode(0o700).create(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(mode))
}

/// Temporary files go here; elsewhere when a socket's path would become too long.
fn base() -> PathBuf {
    let temporary = std::env::temp_dir();
    let longest =
        cosy_client::cluster::ADDRESS_BYTES - "/cosy-dev-4294967295-123456/run/cosyd.sock".len();
    if temporary.is_absolute() && temporary.as_os_str().len() <= longest {
        temporary
    } else {
        "/tmp".into()
    }
}

fn prefix() -> String {
    format!("cosy-dev-{}-", rustix::process::geteuid().as_raw())
}

fn fresh() -> anyhow::Result<(PathBuf, File, bool)> {
    const TRIES: usize = 100;
    let base = base();
    for _ in 0..TRIES {
        let dir = base.join(format!("{}{}", prefix(), random_name()?));
        match make_dir(&dir) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(e).with_context(|| format!("cannot make '{}'", dir.display())),
        }
        // A sweep elsewhere may have been quicker than the lock: then another name.
        if let Some(lock) = lock(&dir)? {
            return Ok((dir, lock, true));
        }
    }
    bail!("cannot make a directory in '{}'", base.display())
}

fn random_name() -> anyhow::Result<String> {
    let mut raw = [0u8; 6];
    rustix::rand::getrandom(&mut raw[..], rustix::rand::GetRandomFlags::empty())?;
    let letter = |b: &u8| char::from(b"abcdefghijkmnpqrstuvwxyz23456789"[usize::from(b % 32)]);
    Ok(raw.iter().map(letter).collect())
}

/// The lock of a directory; `None` when somebody else has it or has removed it.
fn lock(dir: &Path) -> anyhow::Result<Option<File>> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot make '{}'", path.display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    Ok((file.metadata()?.nlink() > 0).then_some(file))
}

/// Removes what killed clusters of this user have left.
pub fn sweep() {
    let (base, prefix) = (base(), prefix());
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) && is_stale(&entry.path()) {
            remove(&entry.path(), true);
        }
    }
}

/// True for a directory of this user that is not to be kept and whose lock nobody holds.
fn is_stale(dir: &Path) -> bool {
    let Ok(meta) = dir.symlink_metadata() else {
        return false;
    };
    let mine = meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw();
    if !mine || dir.join(KEEP).exists() {
        return false;
    }
    match File::open(dir.join(LOCK)) {
        Ok(file) => flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(_) => meta
            .modified()
            .ok()
            .and_then(|at| at.elapsed().ok())
            .is_some_and(|age| age > BEING_MADE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_places() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("new");
        let directory = ClusterDirectory::make(Some(&dir), false).unwrap();
        assert!(!is_stale(&dir));
        assert!(ClusterDirectory::make(Some(&dir), false).is_err());
        fs::create_dir_all(dir.join("node1/spool")).unwrap();
        directory.remove();
        assert!(!dir.exists());
        // One that was there stays.
        fs::create_dir(&dir).unwrap();
        let directory = ClusterDirectory::make(Some(&dir), false).unwrap();
        fs::create_dir_all(dir.join("state/x")).unwrap();
        directory.remove();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }

    #[test]
    fn stale_places() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("d");
        let directory = ClusterDirectory::make(Some(&dir), false).unwrap();
        drop(directory);
        assert!(is_stale(&dir));
        drop(ClusterDirectory::make(Some(&outer.path().join("k")), true).unwrap());
        assert!(!is_stale(&outer.path().join("k")));
        fs::create_dir(outer.path().join("young")).unwrap();
        assert!(!is_stale(&outer.path().join("young")));
    }
}
