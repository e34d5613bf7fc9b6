//! System calls behind one seam: everything that is unsafe or that the libraries do not
//! offer is here, each with the reason why it is sound.
//!
//! Knows nothing of jobs.

mod clocks;
mod descriptors;
pub mod figures;
mod ids;
pub mod library;
mod limits;
mod processes;
mod signals;

pub use clocks::*;
pub use descriptors::*;
pub use ids::*;
pub use limits::{
    limit_resource, prefer_memory_of, raise_file_limit, resource_number, set_affinity,
};
pub use processes::*;
pub use signals::*;

use nix::errno::Errno;
use nix::libc;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A kernel call about programs that it runs itself.
fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    // SAFETY: each caller hands in the structure that its command reads, with its size;
    // what it points to lives until the call returns.
    let r = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    if r < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(r)
}

/// Has the kernel check a program that decides about the opening of devices.
///
/// # Errors
/// `EPERM`, `EINVAL`, `ENOSYS`: the kernel takes none, not from this process, or not this.
pub fn load_device_program(instructions: &[u64]) -> io::Result<OwnedFd> {
    const LOAD: libc::c_int = 5;
    const KIND_CGROUP_DEVICE: u32 = 15;
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
    }
    let attributes = Load {
        kind: KIND_CGROUP_DEVICE,
        count: u32::try_from(instructions.len()).map_err(io::Error::other)?,
        instructions: instructions.as_ptr() as u64,
        license: c"".as_ptr() as u64,
    };
    let fd = bpf(LOAD, &attributes)?;
    let fd = RawFd::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has the kernel ask a program whenever a process in a version 2 control group opens a
/// device, beside those of the groups around it.
///
/// # Errors
/// `EPERM`: a group around it forbids further programs.
pub fn attach_device_program(group: &File, program: &OwnedFd) -> io::Result<()> {
    const ATTACH: libc::c_int = 8;
    const AT_CGROUP_DEVICE: u32 = 6;
    const WITH_OTHERS: u32 = 2;
    #[repr(C)]
    struct Attach {
        target: u32,
        program: u32,
        at: u32,
        flags: u32,
    }
    let attributes = Attach {
        target: group.as_raw_fd().cast_unsigned(),
        program: program.as_raw_fd().cast_unsigned(),
        at: AT_CGROUP_DEVICE,
        flags: WITH_OTHERS,
    };
    bpf(ATTACH, &attributes).map(drop)
}

/// Makes a terminal (which is open as `fd`) that of this session, whose leader this
/// process is.
///
/// # Errors
/// The system call's.
pub fn take_terminal(fd: RawFd) -> Result<(), Errno> {
    // SAFETY: this request takes a number and touches no memory of this process.
    Errno::result(unsafe { libc::ioctl(fd, libc::TIOCSCTTY, 0) }).map(drop)
}

/// Tells a terminal its size; who works on it gets SIGWINCH.
///
/// # Errors
/// The system call's.
pub fn set_window(terminal: &OwnedFd, rows: u16, columns: u16) -> Result<(), Errno> {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the structure is of the type that the request reads, and lives until then.
    let r = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    Errno::result(r).map(drop)
}

/// What an error number means, in the C library's words.
pub fn errno_text(errno: i32) -> &'static str {
    Errno::from_raw(errno).desc()
}
