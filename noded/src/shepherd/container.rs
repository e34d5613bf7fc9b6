//! A program that runs in a container: `cosy container-enter` is executed in its place, as the user
//! and in the job's control groups, and goes on as what a plugin's script makes of it
//! (`docs/containers.md`).
//!
//! Must not know: images, mounts, tools. Always holds: nothing of a container is read or run as root;
//! what the program's own variables say of containers counts for nothing.

use crate::sys;
use cosy_model::node::Allocation;
use cosy_model::{Container, variables};
use nix::unistd::{Gid, Uid, chown};
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The words that are put before the program's own.
///
/// # Errors
/// The command is not installed beside this daemon.
pub fn before() -> Result<Vec<Vec<u8>>, String> {
    let command = command().filter(|path| path.is_file());
    let command = command.ok_or("containers need the program 'cosy' beside noded")?;
    let words = [command.as_os_str().as_bytes(), b"container-enter", b"--"];
    Ok(words.map(<[u8]>::to_vec).into())
}

/// Where the program of the commands is, beside this one.
fn command() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    Some(own.with_file_name("cosy"))
}

/// Takes what a job or a step inherited of another container out of its variables, and puts in what
/// it asked for itself. `files` is the job's directory for it on this node.
pub fn add_variables(
    container: Option<&Container>,
    files: &Path,
    all: &mut BTreeMap<Vec<u8>, Vec<u8>>,
) {
    let prefix = variables::CONTAINER_PREFIX.as_bytes();
    let tool = variables::CONTAINER_TOOL.as_bytes();
    all.retain(|name, _| !name.starts_with(prefix) || name == tool);
    let Some(container) = container else { return };
    for (name, value) in container.variables() {
        all.insert(name.into(), value.into_bytes());
    }
    all.insert(variables::CONTAINER_FILES.into(), files.as_os_str().as_bytes().into());
    if let Some(command) = command() {
        all.insert(variables::COMMAND.into(), command.as_os_str().as_bytes().into());
    }
}

/// What the container's files lie in, in the directory of an attempt.
pub fn files(attempt: &Path) -> PathBuf {
    attempt.join(crate::spool::CONTAINERS)
}

/// The same, seen by the supervisor of a step: its working directory is the step's, which lies in the
/// attempt's.
pub fn files_of_step() -> PathBuf {
    let own = std::env::current_dir().unwrap_or_default();
    files(own.parent().unwrap_or(Path::new("")))
}

/// Makes a directory of the job's user in that of the attempt, unless it is there.
///
/// # Errors
/// The file system's.
pub fn make_files(files: &Path, owner: &Allocation) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(files) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e),
    }
    let found = files.symlink_metadata()?;
    if !found.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory));
    }
    if sys::own_uid().0 == 0 && (found.uid(), found.gid()) != (owner.uid.0, owner.gid.0) {
        let (uid, gid) = (Uid::from_raw(owner.uid.0), Gid::from_raw(owner.gid.0));
        chown(files, Some(uid), Some(gid))?;
    }
    Ok(())
}

/// Removes the files of the job's containers in an attempt's directory. No process of the job may be
/// left.
///
/// # Errors
/// The file system's.
pub fn clean(attempt: &Path) -> io::Result<()> {
    cosy_plugin::remove_files(&files(attempt))
}
