//! Descriptors and files: locks, what is closed or kept over fork and exec, and descriptors
//! that go over sockets.

use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;
use rustix::net::sockopt;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Descriptor at which nursery and shepherds find their lifeline.
pub const SHEPHERD_LIFELINE: RawFd = 3;
/// Descriptor at which the nursery finds its daemon.
pub const NURSERY_SOCKET: RawFd = 4;

fn whole_file_lock() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// Takes the write lock of a file; false when another process has it.
///
/// # Errors
/// Anything but the lock being taken.
pub fn try_lock(file: &File) -> io::Result<bool> {
    let lock = whole_file_lock();
    match nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_SETLK(&lock)) {
        Ok(_) => Ok(true),
        Err(Errno::EACCES | Errno::EAGAIN) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// The process that holds the write lock of a file.
///
/// # Errors
/// The system call's.
pub fn lock_holder(file: &File) -> io::Result<Option<Pid>> {
    let mut lock = whole_file_lock();
    nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_GETLK(&mut lock))?;
    let held = lock.l_type != libc::F_UNLCK as libc::c_short && lock.l_pid > 0;
    Ok(held.then(|| Pid::from_raw(lock.l_pid)))
}

/// A descriptor whose readiness the event loop can wait for.
///
/// # Errors
/// The kernel cannot wait for this kind of descriptor.
pub fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd always gives the same open descriptor until it is dropped, and
    // the AsyncFd owns it.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.map_err(io::Error::from)
}

/// A path for the C library.
///
/// # Errors
/// A NUL inside.
pub fn c_path(path: &Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

/// Closes every descriptor from `first` on, in a process that was just forked and will
/// use none of its parent's.
///
/// # Safety
/// Nothing that owns one of them may be used or dropped any more.
pub unsafe fn close_from(first: RawFd) {
    // SAFETY: the caller's promise.
    unsafe {
        libc::syscall(libc::SYS_close_range, first as libc::c_uint, libc::c_uint::MAX, 0);
    }
}

/// In a process that was just forked from the nursery: closes everything but the first
/// three, the lifeline's place and `keep`, which is given back at a place of its own.
///
/// # Safety
/// Nothing that owns one of the others may be used or dropped any more, and nobody owns
/// `keep`.
pub unsafe fn keep_only(keep: Option<RawFd>) -> Option<OwnedFd> {
    let Some(keep) = keep else {
        // SAFETY: the caller's promise.
        unsafe { close_from(NURSERY_SOCKET) };
        return None;
    };
    // SAFETY: the nursery's socket, whose place this takes, is used by nobody any more.
    let moved = unsafe {
        let moved = libc::dup3(keep, NURSERY_SOCKET, libc::O_CLOEXEC);
        close_from(NURSERY_SOCKET + 1);
        moved
    };
    // SAFETY: dup3 has just made it, and it was not closed.
    (moved == NURSERY_SOCKET).then(|| unsafe { OwnedFd::from_raw_fd(moved) })
}

/// Sends bytes with a descriptor beside them; gives how many bytes were taken (the
/// descriptor goes with the first).
///
/// # Errors
/// The system call's.
pub fn send_with(
    socket: &impl std::os::fd::AsFd,
    bytes: &[u8],
    descriptor: Option<&OwnedFd>,
) -> io::Result<usize> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::os::fd::AsFd;
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|fd| [fd.as_fd()]);
    if let Some(descriptors) = &descriptors {
        beside.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let parts = [io::IoSlice::new(bytes)];
    Ok(sendmsg(socket, &parts, &mut beside, SendFlags::NOSIGNAL)?)
}

/// Receives bytes, and the descriptors that came with them.
///
/// # Errors
/// The system call's.
pub fn receive(
    socket: &impl std::os::fd::AsFd,
    bytes: &mut [u8],
    descriptors: &mut std::collections::VecDeque<OwnedFd>,
) -> io::Result<usize> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [io::IoSliceMut::new(bytes)];
    let got = recvmsg(socket, &mut parts, &mut beside, RecvFlags::CMSG_CLOEXEC)?;
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            descriptors.extend(fds);
        }
    }
    Ok(got.bytes)
}

/// Closes every descriptor from 3 on but those in `keep`, ascending, in a process that
/// was just forked and will only use these.
pub fn close_all_but(keep: &[RawFd]) {
    let mut first = 3;
    for fd in keep.iter().copied().chain([RawFd::MAX]) {
        if fd > first {
            // SAFETY: the process neither uses nor drops what owns these any more: it
            // ends without running destructors.
            unsafe {
                libc::syscall(
                    libc::SYS_close_range,
                    first as libc::c_uint,
                    (fd - 1) as libc::c_uint,
                    0,
                );
            }
        }
        first = fd.saturating_add(1);
    }
}

/// Lets a descriptor stay open at exec, in a process that is about to do that.
pub fn keep_at_exec(fd: RawFd) {
    // SAFETY: only a flag of a descriptor changes.
    unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
}

/// Marks every descriptor from `first` on to be closed at exec.
pub fn close_at_exec_from(first: RawFd) {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: only flags of descriptors change. Kernels before 5.11 refuse; all
    // descriptors of these programs are opened close-on-exec anyway.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first as libc::c_uint,
            libc::c_uint::MAX,
            CLOSE_RANGE_CLOEXEC,
        );
    }
}

/// Takes over a descriptor that the starter of this program handed in by number.
///
/// # Errors
/// It is not open, or one of the standard three.
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 3 {
        return Err(io::Error::other(format!("descriptor {fd} is not one above 2")));
    }
    // SAFETY: fcntl on a number has no memory effects.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open (checked above) and nothing else in this program owns it: it
    // came from the command line, which each caller reads once.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has the kernel ask from time to time whether the host at the other end is there, and end the
/// connection when nothing has come back for `silence_ms`, also where nothing is said. Where the
/// kernel cannot do that, the end of the host is found out later.
pub fn ask_whether_it_is_there(tcp: &impl AsFd, silence_ms: u32, every: Duration) {
    let _ = sockopt::set_tcp_user_timeout(tcp, silence_ms);
    let _ = sockopt::set_tcp_keepidle(tcp, every);
    let _ = sockopt::set_tcp_keepintvl(tcp, every);
    let _ = sockopt::set_socket_keepalive(tcp, true);
}

/// What was standard output, for this process alone; what libraries print goes nowhere from now on.
///
/// # Errors
/// There is none, or no descriptor for it.
pub fn take_output() -> io::Result<File> {
    let nowhere = File::options().write(true).open("/dev/null")?;
    let output = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    // SAFETY: standard output is nobody's own; it stays open, on another file.
    if unsafe { libc::dup2(nowhere.as_raw_fd(), libc::STDOUT_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(File::from(output))
}

/// A file in memory for what a hook prints.
///
/// # Errors
/// The system call's.
pub fn memory_file() -> io::Result<File> {
    let fd = rustix::fs::memfd_create("hook", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(File::from(fd))
}
