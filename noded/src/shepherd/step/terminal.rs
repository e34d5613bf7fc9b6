//! The pseudo-terminal of a step's task 0.

use crate::sys;
use cosy_model::Uid;
use cosy_model::step::Window;
use nix::fcntl::{FcntlArg, FdFlag};
use std::io;
use std::os::fd::OwnedFd;

/// What ends input that was typed: control-D.
pub const END_OF_INPUT: u8 = 4;

/// A new pair of ends, closed at exec: the supervisor's, the task's. The task's end
/// belongs to `owner`.
///
/// # Errors
/// No terminals left.
pub fn open(window: Window, owner: Uid) -> io::Result<(OwnedFd, OwnedFd)> {
    let ends = nix::pty::openpty(None, None)?;
    for end in [&ends.master, &ends.slave] {
        nix::fcntl::fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    if owner != sys::own_uid() {
        std::os::unix::fs::fchown(&ends.slave, Some(owner.0), None)?;
    }
    sys::set_window(&ends.master, window.rows, window.columns)?;
    Ok((ends.master, ends.slave))
}
