//! Users and groups that a process acts as.

use cosy_model::Uid;
use nix::errno::Errno;
use nix::libc;

/// The user this process acts as.
pub fn own_uid() -> Uid {
    Uid(nix::unistd::geteuid().as_raw())
}

/// Replaces the supplementary groups of this (single-threaded) process.
///
/// # Errors
/// The system call's.
pub fn set_groups(groups: &[u32]) -> Result<(), Errno> {
    // SAFETY: pointer and length are of one slice. The raw call changes this thread
    // only, which is the only one there is.
    let r = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    Errno::result(r).map(drop)
}

/// Sets real, effective and saved group of this (single-threaded) process.
///
/// # Errors
/// The system call's.
pub fn set_gid(gid: u32) -> Result<(), Errno> {
    // SAFETY: no memory effects; one thread.
    Errno::result(unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) }).map(drop)
}

/// Sets real, effective and saved user of this (single-threaded) process.
///
/// # Errors
/// The system call's.
pub fn set_uid(uid: u32) -> Result<(), Errno> {
    // SAFETY: no memory effects; one thread.
    Errno::result(unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) }).map(drop)
}
