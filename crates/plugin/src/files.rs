//! The private directory of a job's plugins goes when the job has ended.
//!
//! Who removes it may be root, and the user may have other processes: everything is done
//! through descriptors of directories that were opened without following links, and a
//! directory is taken away from its user before it is looked into.

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::fs::{chmodat, fchmod, fchown, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::{getegid, geteuid};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Most entries of a directory that are known at a time.
const BATCH: usize = 1000;

/// Removes a directory that a user could write to, whatever is in it: also where
/// directories lie in each other so deep that following them would use up the stack or
/// the descriptors. What is not there counts as removed.
///
/// # Errors
/// The file system's.
pub fn remove_files(directory: &Path) -> io::Result<()> {
    match open(CWD, directory) {
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => return std::fs::remove_file(directory),
        Err(e) => return Err(e.into()),
        Ok(top) => {
            let mut moved = 0;
            while remove_some(&top, &mut moved)? {}
        }
    }
    std::fs::remove_dir(directory)
}

/// Opens a directory, and no link, and makes it one's own.
fn open<P: Arg + Copy>(at: BorrowedFd<'_>, path: P) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match openat(at, path, flags, Mode::empty()) {
        // Its user has taken his own rights away. Root is never refused.
        Err(Errno::ACCESS) => {
            chmodat(at, path, Mode::RWXU, AtFlags::empty())?;
            openat(at, path, flags, Mode::empty())?
        }
        other => other?,
    };
    let _ = fchown(&directory, Some(geteuid()), Some(getegid()));
    let _ = fchmod(&directory, Mode::RWXU);
    Ok(directory)
}

/// Removes files and empty directories; what lies in the others comes up to `top`. False
/// when nothing was there.
fn remove_some(top: &OwnedFd, moved: &mut u64) -> io::Result<bool> {
    let found = entries(top)?;
    for (name, kind) in &found {
        if *kind != FileType::Directory {
            unlinkat(top, name, AtFlags::empty())?;
            continue;
        }
        let inner = open(top.as_fd(), name)?;
        while bring_up(&inner, top, moved)? {}
        unlinkat(top, name, AtFlags::REMOVEDIR)?;
    }
    Ok(!found.is_empty())
}

fn bring_up(inner: &OwnedFd, top: &OwnedFd, moved: &mut u64) -> io::Result<bool> {
    let found = entries(inner)?;
    for (name, _) in &found {
        renameat(inner, name, top, free_name(top, moved)?)?;
    }
    Ok(!found.is_empty())
}

/// Some of the entries.
fn entries(directory: &OwnedFd) -> Result<Vec<(CString, FileType)>, Errno> {
    let mut all = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_owned();
        if name.as_bytes() == b"." || name.as_bytes() == b".." {
            continue;
        }
        let data = statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        all.push((name, FileType::from_raw_mode(data.st_mode)));
        if all.len() >= BATCH {
            break;
        }
    }
    Ok(all)
}

fn free_name(top: &OwnedFd, moved: &mut u64) -> Result<String, Errno> {
    loop {
        *moved += 1;
        let name = format!("moved.{moved}");
        match statat(top, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(name),
            Err(e) => return Err(e),
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::fs::symlink;

    #[test]
    fn nothing_is_left_and_nothing_else_is_touched() {
        let work = tempfile::tempdir().unwrap();
        let (private, other) = (work.path().join("private"), work.path().join("other"));
        fs::create_dir_all(private.join("a/b/c")).unwrap();
        fs::create_dir_all(private.join("moved.1")).unwrap();
        for n in 0..2 * BATCH {
            fs::write(private.join(format!("a/{n}")), "").unwrap();
        }
        fs::write(private.join("moved.2"), "x").unwrap();
        fs::write(private.join("a/b/c/file"), "x").unwrap();
        fs::set_permissions(private.join("a/b"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "x").unwrap();
        symlink(&other, private.join("a/link")).unwrap();
        symlink(&other, private.join("link")).unwrap();
        remove_files(&private).unwrap();
        assert!(!private.exists() && other.join("kept").exists());
        remove_files(&private).unwrap();
    }

    #[test]
    fn as_deep_as_it_may_be() {
        let work = tempfile::tempdir().unwrap();
        let private = work.path().join("private");
        fs::create_dir(&private).unwrap();
        // Deeper than a path can name: each new one is put around the last.
        let name = "d".repeat(200);
        for _ in 0..100 {
            let (inner, outer) = (work.path().join("inner"), work.path().join("outer"));
            fs::create_dir(&outer).unwrap();
            if inner.exists() {
                fs::rename(&inner, outer.join(&name)).unwrap();
            }
            fs::rename(&outer, &inner).unwrap();
        }
        fs::rename(work.path().join("inner"), private.join("d")).unwrap();
        remove_files(&private).unwrap();
        assert!(!private.exists());
    }
}
