//! Directories that each job has to itself on a node (`private_tmp`), like `/tmp`.
//!
//! What a job sees there is a directory beside what the node keeps of the attempt, and goes with
//! it. Whatever runs for the job is in a mount namespace of its own in which that directory is
//! mounted over the node's: the shepherd enters one before it opens or starts anything, and so does
//! the supervisor of each step. The namespaces are different ones, the directories are the same.
//!
//! Always holds: others do not reach the directories by way of the spool, the one above them is
//! closed; which places are private was settled when the attempt was made ready.

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Name of the directory that holds an attempt's.
pub const DIRECTORY: &str = "private";
/// Anybody who is in the job may make files, and remove own ones: as in `/tmp`.
const MODE: u32 = 0o1777;

/// Makes an attempt's own directories, one for each of `places`; those that are there stay.
///
/// # Errors
/// In one line, what cannot be made.
pub fn make(attempt: &Path, places: &[PathBuf]) -> Result<(), String> {
    if places.is_empty() {
        return Ok(());
    }
    let above = attempt.join(DIRECTORY);
    let told = |path: &Path, e: io::Error| format!("cannot make {}: {e}", path.display());
    new_directory(&above, 0o700).map_err(|e| told(&above, e))?;
    for place in places {
        let own = above.join(name_of(place));
        new_directory(&own, MODE).map_err(|e| told(&own, e))?;
    }
    Ok(())
}

fn new_directory(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        // The file mode mask has taken bits of that away.
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(mode)),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e),
    }
}

/// Goes, for good and with everything that is started from here on, where the attempt's own
/// directories are in the place of the node's. Without such, nothing happens.
///
/// # Errors
/// In one line, what the kernel does not do.
pub fn enter(attempt: &Path) -> Result<(), String> {
    let above = attempt.join(DIRECTORY);
    let entries = match fs::read_dir(&above) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|e| format!("cannot read {}: {e}", above.display()))?,
    };
    unshare(CloneFlags::CLONE_NEWNS)
        .map_err(|e| format!("cannot give the job directories of its own: {e}"))?;
    // What is mounted on the node later is seen here, and nothing the other way.
    let flags = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    mount_at(None, Path::new("/"), flags)?;
    for entry in entries {
        let name = entry
            .map_err(|e| format!("cannot read {}: {e}", above.display()))?
            .file_name();
        mount_at(Some(&above.join(&name)), &place_of(&name), MsFlags::MS_BIND)?;
    }
    Ok(())
}

fn mount_at(own: Option<&Path>, place: &Path, flags: MsFlags) -> Result<(), String> {
    let none: Option<&str> = None;
    mount(own, place, none, flags, none)
        .map_err(|e| format!("cannot give the job a {} of its own: {e}", place.display()))
}

/// A path as the name of a file.
fn name_of(place: &Path) -> OsString {
    let mut name = Vec::new();
    for byte in place.as_os_str().as_bytes() {
        match byte {
            b'/' => name.extend(b"%2F"),
            b'%' => name.extend(b"%25"),
            other => name.push(*other),
        }
    }
    OsString::from_vec(name)
}

fn place_of(name: &OsStr) -> PathBuf {
    let mut place = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let (byte, behind) = match (first, behind) {
            (b'%', [b'2', b'F', behind @ ..]) => (b'/', behind),
            (b'%', [b'2', b'5', behind @ ..]) => (b'%', behind),
            _ => (*first, behind),
        };
        place.push(byte);
        rest = behind;
    }
    PathBuf::from(OsString::from_vec(place))
}

/// Whether places can be a job's own: whole paths, none inside of another, and none that has
/// something of the node daemon's inside, which would not be found any more.
///
/// # Errors
/// In one line, what is wrong.
pub fn check(places: &[PathBuf], needed: &[(&str, &Path)]) -> Result<(), String> {
    for (at, place) in places.iter().enumerate() {
        let shown = place.display();
        let plain = place.is_absolute() && place.components().count() > 1;
        let dots = |part: std::path::Component<'_>| part == std::path::Component::ParentDir;
        if !plain || place.components().any(dots) || name_of(place).len() > 255 {
            return Err(format!("private_tmp: '{shown}' is no directory that a job can have"));
        }
        let others = places.iter().enumerate().filter(|(n, _)| *n != at);
        if let Some((_, other)) = others.into_iter().find(|(_, o)| place.starts_with(o)) {
            return Err(format!("private_tmp: '{shown}' is in '{}'", other.display()));
        }
        if let Some((key, _)) = needed.iter().find(|(_, path)| path.starts_with(place)) {
            return Err(format!(
                "private_tmp: jobs that have a '{shown}' of their own would not find '{key}' in it"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_places() {
        for place in ["/tmp", "/var/tmp", "/a%2Fb", "/%", "/a b"] {
            assert_eq!(place_of(&name_of(Path::new(place))), Path::new(place));
        }
        assert_eq!(name_of(Path::new("/var/tmp")), "%2Fvar%2Ftmp");
    }

    #[test]
    fn which_places() {
        let check = |places: &[&str], want: &str| {
            let places: Vec<PathBuf> = places.iter().map(PathBuf::from).collect();
            let needed = [("spool_dir", Path::new("/var/lib/cosy/noded"))];
            let got = super::check(&places, &needed).err().unwrap_or_default();
            assert!(got.contains(want) && got.is_empty() == want.is_empty(), "{got}");
        };
        check(&[], "");
        check(&["/tmp", "/var/tmp", "/dev/shm"], "");
        check(&["tmp"], "no directory");
        check(&["/"], "no directory");
        check(&["/tmp/../etc"], "no directory");
        check(&["/tmp", "/tmp/x"], "'/tmp/x' is in '/tmp'");
        check(&["/tmp", "/tmp"], "is in");
        check(&["/var"], "would not find 'spool_dir'");
        let long = format!("/{}", "x".repeat(253));
        check(&[&long], "no directory");
    }

    #[test]
    fn what_is_made_is_closed_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let places = [PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
        make(dir.path(), &places).unwrap();
        make(dir.path(), &places).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let above = dir.path().join(DIRECTORY);
        assert_eq!(mode(&above), 0o700);
        assert_eq!(mode(&above.join("%2Ftmp")), 0o1777);
        make(&dir.path().join("nowhere"), &[]).unwrap();
        assert!(make(&dir.path().join("nowhere"), &places).is_err());
    }
}
