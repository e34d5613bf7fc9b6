//! Handing open files to one child. Everything is closed on `exec` but what is handed on
//! just then; the programs here have one thread, so nobody else starts a child meanwhile.

use rustix::fs::{Mode, OFlags};
use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Makes the next child inherit the descriptor; gives its number, which is the same there.
///
/// # Errors
/// A system call fails.
pub fn pass_to_child(fd: &impl AsFd) -> io::Result<RawFd> {
    fcntl_setfd(fd, FdFlags::empty())?;
    Ok(fd.as_fd().as_raw_fd())
}

/// Opens the read end of the same pipe again, with flags of its own: a daemon that makes its end
/// non-blocking would otherwise do so for all holders. The next child inherits it.
///
/// # Errors
/// A system call fails.
pub fn reopen_for_child(pipe: &impl AsFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
    // Without waiting for a writer: the only one may just have gone.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::fcntl_setfl(&fd, OFlags::empty())?;
    Ok(fd)
}

/// Later children do not inherit the descriptor.
///
/// # Errors
/// A system call fails.
pub fn close_on_exec(fd: &impl AsFd) -> io::Result<()> {
    Ok(fcntl_setfd(fd, FdFlags::CLOEXEC)?)
}

/// Takes over a descriptor that the parent has passed to this program, by its number.
///
/// # Errors
/// The descriptor is not open.
pub fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the parent named the number because it opened it for this program; nothing
    // else here owns it, and it is looked at before it is used.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    match close_on_exec(&fd) {
        Ok(()) => Ok(fd),
        Err(e) => {
            // A descriptor that is not open must not be closed here either.
            std::mem::forget(fd);
            Err(e)
        }
    }
}

/// Takes over all other descriptors that this program has inherited, which are for COMMAND. To be
/// called before anything is opened here.
pub fn adopt_others(handed: &[RawFd]) -> Vec<OwnedFd> {
    // Listed whole first: the folder that is being read is in the list too.
    let listed: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
        .filter(|n| *n > 2 && !handed.contains(n))
        .collect();
    listed.into_iter().filter_map(|n| adopt(n).ok()).collect()
}
