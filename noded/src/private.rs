//! Files and directories that nobody else may change: what this daemon reads its secrets
//! from, and where it makes its sockets.

use crate::sys;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const GROUP_AND_OTHERS: u32 = 0o077;
const WRITE_OF_OTHERS: u32 = 0o022;
const WRITE_OF_GROUP: u32 = 0o020;
const STICKY: u32 = 0o1000;

/// Checks that a file with a secret belongs to this daemon's user (or root) and that nobody
/// else can do anything with it.
///
/// # Errors
/// In one line, what is wrong and what would be right.
pub fn check_file(file: &File) -> Result<(), String> {
    let found = file.metadata().map_err(|e| e.to_string())?;
    if !is_ours(&found) {
        return Err(format!(
            "it belongs to uid {}, who could change it: chown it to uid {}",
            found.uid(),
            sys::own_uid()
        ));
    }
    match found.mode() & GROUP_AND_OTHERS {
        0 => Ok(()),
        _ => Err(format!(
            "others may read it (mode {:o}); make it 0600, or better make a new key",
            found.mode() & 0o7777
        )),
    }
}

/// Checks that nobody but root and this daemon's user can put something else in the place
/// of what is in a directory: it and all above it belong to them, and are writable for
/// nobody else, or have the sticky bit (`/tmp`).
///
/// # Errors
/// In one line, which directory and why.
pub fn check_directory(directory: &Path) -> Result<(), String> {
    if sys::own_uid().0 != 0 {
        return Ok(()); // what it could be made to do it does as its user anyway
    }
    let whole = directory
        .canonicalize()
        .map_err(|e| format!("{}: {e}", directory.display()))?;
    let bad = whole.ancestors().find_map(|part| {
        let why = fault_of(part)?;
        Some((part.to_owned(), why))
    });
    match bad {
        None => Ok(()),
        Some((part, why)) => Err(fault_message(&part, &why)),
    }
}

/// Checks that nobody but root and this daemon's user can change its configuration, which
/// names programs that run as root.
///
/// # Errors
/// In one line.
pub fn check_configuration(file: &Path) -> Result<(), String> {
    match fault_of(file).filter(|_| sys::own_uid().0 == 0) {
        None => Ok(()),
        Some(why) => Err(format!(
            "{} {why}, but it names programs that run as root: chown it to root, mode 0644",
            file.display()
        )),
    }
}

fn fault_of(part: &Path) -> Option<String> {
    let found = match std::fs::symlink_metadata(part) {
        Ok(found) => found,
        Err(e) => return Some(format!("cannot be looked at: {e}")),
    };
    if !is_ours(&found) {
        return Some(format!("belongs to uid {}", found.uid()));
    }
    // Root's own group is root.
    let others = match found.gid() {
        0 => WRITE_OF_OTHERS & !WRITE_OF_GROUP,
        _ => WRITE_OF_OTHERS,
    };
    let open = found.mode() & others != 0 && found.mode() & STICKY == 0;
    open.then(|| format!("can be written by others (mode {:o})", found.mode() & 0o7777))
}

fn fault_message(part: &Path, why: &str) -> String {
    format!(
        "{} {why}, who could put something else there: use a directory that only root can change, as /run/noded",
        part.display()
    )
}

fn is_ours(found: &Metadata) -> bool {
    found.uid() == 0 || found.uid() == sys::own_uid().0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn secrets_are_for_their_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, "x").unwrap();
        let check = |mode: u32| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            check_file(&File::open(&path).unwrap())
        };
        assert_eq!(check(0o600), Ok(()));
        for mode in [0o640, 0o604, 0o620, 0o601] {
            assert!(check(mode).unwrap_err().contains("others may read"));
        }
        if sys::own_uid().0 == 0 {
            std::os::unix::fs::chown(&path, Some(54_321), None).unwrap();
            assert!(check(0o600).unwrap_err().contains("uid 54321"));
        }
    }

    #[test]
    fn directories_that_others_can_change() {
        if sys::own_uid().0 != 0 {
            return assert_eq!(check_directory(Path::new("/tmp")), Ok(()));
        }
        let dir = tempfile::tempdir().unwrap();
        let (upper, lower) = (dir.path().join("a"), dir.path().join("a/b"));
        fs::create_dir_all(&lower).unwrap();
        let mode = |mode| fs::set_permissions(&upper, Permissions::from_mode(mode)).unwrap();
        mode(0o755);
        assert_eq!(check_directory(&lower), Ok(()));
        mode(0o777);
        let why = check_directory(&lower).unwrap_err();
        assert!(why.contains("mode 777") && why.contains("/run/noded"), "{why}");
        let why = check_configuration(&upper).unwrap_err();
        assert!(why.contains("0644"), "{why}");
        assert_eq!(check_configuration(&lower), Ok(()));
        mode(0o1777);
        assert_eq!(check_directory(&lower), Ok(()), "like /tmp");
        mode(0o775);
        assert_eq!(check_directory(&lower), Ok(()), "root's group");
        std::os::unix::fs::chown(&upper, Some(54_321), None).unwrap();
        assert!(check_directory(&lower).unwrap_err().contains("uid 54321"));
        assert!(check_directory(&dir.path().join("nowhere")).is_err());
    }
}
