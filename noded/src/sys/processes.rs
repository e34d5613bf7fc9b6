//! Processes: made, waited for, and what they have used.

use super::descriptors::{NURSERY_SOCKET, SHEPHERD_LIFELINE, c_path};
use super::limits::{FIRST_FILE_LIMIT, raised, set_file_limit};
use super::signals::shepherd_signals;
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::{Command, Stdio};

/// Orphans among this process's descendants become its children.
pub fn become_subreaper() -> io::Result<()> {
    nix::sys::prctl::set_child_subreaper(true).map_err(io::Error::from)
}

/// A descriptor that stands for a process and becomes readable at its end.
///
/// # Errors
/// The system call's; `ESRCH` when there is no such process.
pub fn pidfd_open(pid: Pid) -> io::Result<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid.as_raw()).ok_or(Errno::ESRCH)?;
    let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::NONBLOCK)?;
    Ok(fd)
}

/// When a process was started, in ticks since the machine was; `None` when there is none.
pub fn start_of(pid: Pid) -> Option<u64> {
    start_in(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The 22nd word of `/proc/PID/stat`; the name in it may hold anything. Source: proc(5).
fn start_in(stat: &[u8]) -> Option<u64> {
    let at = stat.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(stat.get(at + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// This program once more in another role, for a moment: it has nothing of this process but a pipe for its
/// output.
pub fn helper(role: &str) -> Command {
    let mut helper = Command::new("/proc/self/exe");
    helper
        .arg(role)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    helper
}

/// Executes this program once more, as the nursery of shepherds for `directory`, in a
/// session of its own and with the signals blocked that shepherds wait for.
///
/// # Errors
/// No process can be made, or the program cannot be executed.
pub fn spawn_nursery(
    directory: &Path,
    socket: RawFd,
    lifeline: Option<RawFd>,
    shutdown_file: Option<&Path>,
) -> io::Result<Pid> {
    use nix::fcntl::OFlag;
    // Out of the way of the places that the descriptors get in the child, where the
    // copies stay open at exec.
    let above = |fd: RawFd| -> io::Result<OwnedFd> {
        // SAFETY: the caller holds it open for the time of this call.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        let copy = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(10))?;
        // SAFETY: fcntl has just made it.
        Ok(unsafe { OwnedFd::from_raw_fd(copy) })
    };
    let socket = above(socket)?;
    let lifeline = lifeline.map(above).transpose()?;
    let mut actions = nix::spawn::PosixSpawnFileActions::init()?;
    actions.add_open(0, c"/dev/null", OFlag::O_RDWR, nix::sys::stat::Mode::empty())?;
    actions.add_dup2(0, 1)?;
    actions.add_dup2(0, 2)?;
    if let Some(fd) = &lifeline {
        actions.add_dup2(fd.as_raw_fd(), SHEPHERD_LIFELINE)?;
    }
    actions.add_dup2(socket.as_raw_fd(), NURSERY_SOCKET)?;
    let mut attributes = nix::spawn::PosixSpawnAttr::init()?;
    attributes.set_sigmask(&shepherd_signals())?;
    // POSIX_SPAWN_SETSID is not named by the library.
    let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::c_int::from(libc::POSIX_SPAWN_SETSID);
    attributes
        .set_flags(nix::spawn::PosixSpawnFlags::from_bits_retain(flags as libc::c_short as _))?;
    let mut argv = vec![
        c"noded".to_owned(),
        c"--nursery".to_owned(),
        c_path(directory)?,
    ];
    if lifeline.is_some() {
        argv.push(c"--lifeline".to_owned());
    }
    if let Some(file) = shutdown_file {
        argv.extend([c"--shutdown-file".to_owned(), c_path(file)?]);
    }
    let environment: [CString; 0] = [];
    // Also right when the file was replaced meanwhile.
    let program = c"/proc/self/exe";
    // Jobs get the limit that the daemon was started with.
    let first = FIRST_FILE_LIMIT.get();
    first.into_iter().for_each(set_file_limit);
    let pid = nix::spawn::posix_spawn(program, &actions, &attributes, &argv, &environment);
    first
        .into_iter()
        .for_each(|first| set_file_limit(&raised(first)));
    Ok(pid?)
}

/// Which side of a fork this is.
#[derive(Debug)]
pub enum Fork {
    /// The new process.
    Child,
    /// The old one, with the new one's number.
    Parent(Pid),
}

/// Forks this single-threaded process; the child is started in the control group whose
/// directory is open as `group` (version 2 only).
///
/// # Safety
/// The process must have one thread only.
///
/// # Errors
/// No process can be made, or the group takes none.
pub unsafe fn fork_into(group: Option<RawFd>) -> io::Result<Fork> {
    // SAFETY: the caller's promise.
    unsafe { fork(group, libc::SIGCHLD) }
}

/// Forks this single-threaded process; the child's end is told by no signal, and [`reap`]
/// does not see it: it is waited for by number ([`take_aside`]).
///
/// # Safety
/// The process must have one thread only.
///
/// # Errors
/// No process can be made.
pub unsafe fn fork_aside() -> io::Result<Fork> {
    // SAFETY: the caller's promise.
    unsafe { fork(None, 0) }
}

/// Takes the status of a child of [`fork_aside`]; false while it has not ended.
pub fn take_aside(pid: Pid) -> bool {
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    let flags = WaitPidFlag::WNOHANG | WaitPidFlag::__WALL;
    !matches!(waitpid(pid, Some(flags)), Ok(WaitStatus::StillAlive))
}

/// # Safety
/// The process must have one thread only.
unsafe fn fork(group: Option<RawFd>, told_by: libc::c_int) -> io::Result<Fork> {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: clone_args is plain data; zero means "not used" for each of its fields.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.exit_signal = told_by as u64;
    if let Some(fd) = group {
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = fd as u64;
    }
    // SAFETY: no memory is shared with the child and no other thread exists (the
    // caller's promise), so the child may go on with a copy of everything.
    let r =
        unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    match r {
        0 => Ok(Fork::Child),
        pid if pid > 0 => Ok(Fork::Parent(Pid::from_raw(pid as i32))),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What a process used, from the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User CPU time in microseconds.
    pub user_us: u64,
    /// System CPU time in microseconds.
    pub system_us: u64,
    /// Largest resident size in bytes.
    pub peak_bytes: u64,
}

/// A child that ended.
#[derive(Clone, Copy, Debug)]
pub struct Reaped {
    /// The process that has ended.
    pub pid: Pid,
    /// Its status, as wait(2) gives it.
    pub status: i32,
    /// What it and the children it had waited for used.
    pub usage: Usage,
}

impl Reaped {
    /// Exit code, and the signal that ended it (one of them is 0).
    pub fn code_and_signal(&self) -> (i32, i32) {
        if libc::WIFSIGNALED(self.status) {
            (0, libc::WTERMSIG(self.status))
        } else {
            (libc::WEXITSTATUS(self.status), 0)
        }
    }
}

/// What asking for an ended child gives.
#[derive(Clone, Copy, Debug)]
pub enum Reap {
    /// A child has ended, and is reaped.
    One(Reaped),
    /// There are children, none has ended.
    NoneEnded,
    /// There are no children at all.
    NoChildren,
}

/// Takes the status of any child that has ended. Does not wait.
pub fn reap() -> Reap {
    let mut status = 0;
    // SAFETY: rusage is plain data for the kernel to fill.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live variables of the right types.
        let r = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage) };
        return match r {
            0 => Reap::NoneEnded,
            pid if pid > 0 => Reap::One(Reaped {
                pid: Pid::from_raw(pid),
                status,
                usage: usage_of(&usage),
            }),
            _ if Errno::last() == Errno::EINTR => continue,
            _ => Reap::NoChildren,
        };
    }
}

fn usage_of(raw: &libc::rusage) -> Usage {
    let us = |t: libc::timeval| (t.tv_sec.max(0) as u64) * 1_000_000 + t.tv_usec.max(0) as u64;
    Usage {
        user_us: us(raw.ru_utime),
        system_us: us(raw.ru_stime),
        peak_bytes: (raw.ru_maxrss.max(0) as u64) * 1024,
    }
}

/// This process ends when its parent does.
pub fn end_with_parent() {
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
}

/// Ends this process without running anything more.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: no destructor or exit handler of these programs has anything left to do.
    unsafe { libc::_exit(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_a_process_was_started() {
        let stat = b"7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 10";
        assert_eq!(start_in(stat), Some(4711));
        assert_eq!((start_in(b"7 (a) S 1"), start_in(b"")), (None, None));
        let own = start_of(nix::unistd::getpid());
        assert!(own.is_some() && start_of(Pid::from_raw(0)).is_none());
    }
}
