//! What attempts have used of the energy and the GPUs here so far, kept in the node's spool so that a
//! daemon that is started anew goes on with it. One file for all of them, as old as the last measurement.

use crate::spool;
use cosy_model::DeviceUse;
use cosy_model::node::{AllocationKey, AttemptKey};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::{fs, io};

/// Name of the file.
const FILE: &str = "use";
/// Of a file that is larger nothing is read: attempts of a node take a hundred bytes each.
const FILE_BYTES: u64 = 16 << 20;

/// What was used, by attempt.
pub type Kept = BTreeMap<AttemptKey, DeviceUse>;

/// What an earlier daemon kept of attempts that are still in the spool: what the others used was told.
/// Nothing where that cannot be read, as it is only an estimate.
pub fn load(directory: &Path) -> Kept {
    let file = directory.join(FILE);
    if !fs::metadata(&file).is_ok_and(|meta| meta.len() <= FILE_BYTES) {
        return Kept::new();
    }
    let bytes = fs::read(&file).unwrap_or_default();
    let mut all: Kept = rmp_serde::from_slice(&bytes).unwrap_or_else(|e| {
        tracing::warn!("{}: {e}: energy and GPU use of jobs begin anew", file.display());
        Kept::new()
    });
    let open = spool::attempts_in(directory).unwrap_or_default();
    let open: BTreeSet<AttemptKey> = open.into_iter().filter_map(AllocationKey::job).collect();
    all.retain(|key, _| open.contains(key));
    all
}

/// Keeps it, whole or not at all. It need not outlive the machine.
///
/// # Errors
/// The file system's.
pub fn save(directory: &Path, all: &Kept) -> io::Result<()> {
    let bytes = rmp_serde::to_vec_named(all).map_err(io::Error::other)?;
    let new = directory.join(format!("{FILE}.new"));
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&new)?.write_all(&bytes)?;
    fs::rename(&new, directory.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::{Attempt, JobId};

    #[test]
    fn it_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load(dir.path()), Kept::new());
        let key = AttemptKey {
            job: JobId(7),
            attempt: Attempt(2),
        };
        let used = DeviceUse {
            energy_uj: Some(5),
            gpu_us: 9,
            ..DeviceUse::default()
        };
        let all = Kept::from([(key, used)]);
        fs::create_dir(dir.path().join(spool::name_of(key))).unwrap();
        save(dir.path(), &all).unwrap();
        assert_eq!(load(dir.path()), all);
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
        let file = dir.path().join(FILE);
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        assert_eq!(load(dir.path()), Kept::new());
        save(dir.path(), &all).unwrap();
        fs::remove_dir(dir.path().join(spool::name_of(key))).unwrap();
        assert_eq!(load(dir.path()), Kept::new());
    }
}
