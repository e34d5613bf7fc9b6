//! System calls behind one seam: everything that is unsafe or that the libraries do not
//! offer is here, each with the reason why it is sound.
//!
//! Knows nothing of jobs.

use cosy_model::{Time, Uid};
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Wall clock.
pub fn now() -> Time {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A moment in the zone of this machine: `2026-11-21T02:16:55`.
pub fn local_time(at: Time) -> String {
    let seconds: libc::time_t = at.0.div_euclid(1000);
    // SAFETY: both are plain values of this frame; the C library reads the first and writes
    // the second. All bytes of the second may be zero.
    let broken = unsafe {
        let mut broken: libc::tm = std::mem::zeroed();
        libc::localtime_r(&raw const seconds, &raw mut broken);
        broken
    };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        i64::from(broken.tm_year) + 1900,
        broken.tm_mon + 1,
        broken.tm_mday,
        broken.tm_hour,
        broken.tm_min,
        broken.tm_sec
    )
}

/// The user this process acts as.
pub fn own_uid() -> Uid {
    Uid(nix::unistd::geteuid().as_raw())
}

/// The first real-time signal that the C library leaves free; carries orders to
/// shepherds.
pub fn order_signal() -> i32 {
    libc::SIGRTMIN()
}

/// Orphans among this process's descendants become its children.
pub fn become_subreaper() -> io::Result<()> {
    nix::sys::prctl::set_child_subreaper(true).map_err(io::Error::from)
}

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

/// Time since the machine was started, also while it was asleep.
pub fn since_boot() -> std::time::Duration {
    shown_by(libc::CLOCK_BOOTTIME)
}

/// What the clock shows that nobody sets and that stands still while the machine is asleep.
pub fn steady() -> std::time::Duration {
    shown_by(libc::CLOCK_MONOTONIC)
}

fn shown_by(clock: libc::clockid_t) -> std::time::Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one timespec and keeps nothing.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut now) } != 0;
    match failed {
        true => std::time::Duration::ZERO,
        false => std::time::Duration::new(
            now.tv_sec.unsigned_abs(),
            u32::try_from(now.tv_nsec).unwrap_or(0),
        ),
    }
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

/// A descriptor whose readiness the event loop can wait for.
///
/// # Errors
/// The kernel cannot wait for this kind of descriptor.
pub fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd always gives the same open descriptor until it is dropped, and
    // the AsyncFd owns it.
    unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.map_err(io::Error::from)
}

/// The kernel's `siginfo_t` for a signal with a value, 64 bit layout.
#[repr(C)]
struct ValueInfo {
    signo: i32,
    errno: i32,
    code: i32,
    gap: i32,
    pid: i32,
    uid: u32,
    value: i32,
    rest: [u8; 100],
}

fn value_info(signal: i32, value: i32) -> ValueInfo {
    ValueInfo {
        signo: signal,
        errno: 0,
        code: libc::SI_QUEUE,
        gap: 0,
        pid: nix::unistd::getpid().as_raw(),
        uid: own_uid().0,
        value,
        rest: [0; 100],
    }
}

/// Sends the order signal with a value to a process that is held by descriptor.
///
/// # Errors
/// The system call's; `ESRCH` when it has ended.
pub fn queue_by_pidfd(pidfd: &OwnedFd, value: i32) -> io::Result<()> {
    let info = value_info(order_signal(), value);
    // SAFETY: the structure has the size and layout of the kernel's siginfo_t and lives
    // until the call returns.
    let r = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            order_signal(),
            &raw const info,
            0,
        )
    };
    if r == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Sends a plain signal by number. Ignores a process that has gone; other errors are told.
///
/// # Errors
/// `EPERM`, `EINVAL`.
pub fn kill(pid: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: kill has no memory effects. nix's Signal has no real-time signals.
    if unsafe { libc::kill(pid.as_raw(), signal) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ESRCH) {
        return Ok(());
    }
    Err(error)
}

/// Whether a process catches, ignores or blocks that signal; false when that cannot be told.
pub fn handles(pid: Pid, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let bit = u32::try_from(signal - 1)
        .ok()
        .and_then(|n| 1_u64.checked_shl(n));
    let among = |line: &str| {
        let (name, mask) = line.split_once(':')?;
        let mask = matches!(name, "SigCgt" | "SigIgn" | "SigBlk").then_some(mask.trim())?;
        Some(u64::from_str_radix(mask, 16).ok()? & bit? != 0)
    };
    status.lines().any(|line| among(line) == Some(true))
}

/// Signals that a shepherd waits for: blocked from its very first instruction on.
pub fn shepherd_signals() -> SigSet {
    // SAFETY: sigset_t is plain data that sigemptyset makes valid before use; the signal
    // numbers are constants of this system.
    unsafe {
        let mut raw: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut raw);
        for signal in [libc::SIGCHLD, libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            libc::sigaddset(&raw mut raw, signal);
        }
        libc::sigaddset(&raw mut raw, order_signal());
        SigSet::from_sigset_t_unchecked(raw)
    }
}

/// Descriptor at which nursery and shepherds find their lifeline.
pub const SHEPHERD_LIFELINE: RawFd = 3;
/// Descriptor at which the nursery finds its daemon.
pub const NURSERY_SOCKET: RawFd = 4;

/// Most files that this daemon wants to have open.
const FILES: libc::rlim_t = 16_384;
/// The limit on open files that this process was started with, which its jobs get.
static FIRST_FILE_LIMIT: std::sync::OnceLock<libc::rlimit> = std::sync::OnceLock::new();

fn set_file_limit(limit: &libc::rlimit) {
    // SAFETY: a pointer to a live structure of the right type.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) };
}

/// Lets this process have more files open, as far as it may: each waiting command is one.
pub fn raise_file_limit() {
    let mut first = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a pointer to a live structure of the right type.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut first) } != 0 {
        return;
    }
    let first = FIRST_FILE_LIMIT.get_or_init(|| first);
    set_file_limit(&raised(first));
}

fn raised(first: &libc::rlimit) -> libc::rlimit {
    libc::rlimit {
        rlim_cur: FILES.min(first.rlim_max).max(first.rlim_cur),
        rlim_max: first.rlim_max,
    }
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
    actions.add_open(
        0,
        c"/dev/null",
        OFlag::O_RDWR,
        nix::sys::stat::Mode::empty(),
    )?;
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
    attributes.set_flags(nix::spawn::PosixSpawnFlags::from_bits_retain(
        flags as libc::c_short as _,
    ))?;
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

/// A path for the C library.
///
/// # Errors
/// A NUL inside.
pub fn c_path(path: &Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

/// Which side of a fork this is.
#[derive(Debug)]
pub enum Fork {
    /// The new process.
    Child,
    /// The old one, with the new one's number.
    Parent(Pid),
}

/// Forks this single-threaded process; the child is born in the control group whose
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
    let r = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw mut args,
            size_of::<libc::clone_args>(),
        )
    };
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
    /// As `wait` gives it.
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

/// Lets this process, which has one thread, run only on the processors whose bits are set.
///
/// # Errors
/// The system call's; `EINVAL` when it may use none of them.
pub fn set_affinity(processors: &[u64]) -> Result<(), Errno> {
    // SAFETY: pointer and length are of one slice; 0 is the caller.
    let r = unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity,
            0,
            size_of_val(processors),
            processors.as_ptr(),
        )
    };
    Errno::result(r).map(drop)
}

/// Memory of this process comes first of all from the NUMA nodes whose bits are set.
///
/// # Errors
/// The system call's; `EINVAL` for several nodes before Linux 5.15, `ENOSYS` without NUMA.
pub fn prefer_memory_of(nodes: &[u64], several: bool) -> Result<(), Errno> {
    /// Not named by the library.
    const MPOL_PREFERRED_MANY: libc::c_int = 5;
    let policy = if several {
        MPOL_PREFERRED_MANY
    } else {
        libc::MPOL_PREFERRED
    };
    // The kernel takes one bit less than it is told of.
    let bits = nodes.len() * 64 + 1;
    // SAFETY: the kernel reads as many bits as the slice has.
    let r = unsafe { libc::syscall(libc::SYS_set_mempolicy, policy, nodes.as_ptr(), bits) };
    Errno::result(r).map(drop)
}

/// A kernel call about programs that it runs itself.
fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    // SAFETY: each caller hands in the structure that its command reads, with its size;
    // what it points to lives until the call returns.
    let r = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
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

/// All signals back to their default action.
pub fn default_actions() {
    // SAFETY: zero is SIG_DFL with an empty mask; signals that cannot be set give an
    // error that means nothing here.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        for signal in 1..=64 {
            libc::sigaction(signal, &raw const default, std::ptr::null_mut());
        }
    }
}

/// Blocks no signal any more.
pub fn unblock_signals() {
    let _ = SigSet::empty().thread_set_mask();
}

/// Closes every descriptor from `first` on, in a process that was just forked and will
/// use none of its parent's.
///
/// # Safety
/// Nothing that owns one of them may be used or dropped any more.
pub unsafe fn close_from(first: RawFd) {
    // SAFETY: the caller's promise.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first as libc::c_uint,
            libc::c_uint::MAX,
            0,
        );
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

/// Writing to what nobody reads any more is an error instead of this process's end.
pub fn block_pipe_signal() {
    let mut set = SigSet::empty();
    set.add(Signal::SIGPIPE);
    let _ = set.thread_block();
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

/// Lets a descriptor stay open at exec, in a process that is about to do that.
pub fn keep_at_exec(fd: RawFd) {
    // SAFETY: only a flag of a descriptor changes.
    unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
}

/// Blocks every signal that can be blocked.
pub fn block_all_signals() {
    let _ = SigSet::all().thread_set_mask();
}

/// This process ends when its parent does.
pub fn end_with_parent() {
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
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

/// Sets soft and hard limit of a resource, cut to what this process may have.
pub fn limit_resource(resource: u32, soft: u64, hard: u64) {
    let resource = resource as libc::__rlimit_resource_t;
    let mut now = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: pointers to live structures of the right type.
    unsafe {
        if libc::getrlimit(resource, &raw mut now) != 0 {
            return;
        }
        let hard = hard.min(now.rlim_max);
        let wanted = libc::rlimit {
            rlim_cur: soft.min(hard),
            rlim_max: hard,
        };
        if wanted.rlim_cur != now.rlim_cur || wanted.rlim_max != now.rlim_max {
            libc::setrlimit(resource, &raw const wanted);
        }
    }
}

/// The kernel's number of a resource limit, by its name in `/proc/PID/limits` style
/// (`NOFILE`).
pub fn resource_number(name: &str) -> Option<u32> {
    let number = match name {
        "CPU" => libc::RLIMIT_CPU,
        "FSIZE" => libc::RLIMIT_FSIZE,
        "DATA" => libc::RLIMIT_DATA,
        "STACK" => libc::RLIMIT_STACK,
        "CORE" => libc::RLIMIT_CORE,
        "RSS" => libc::RLIMIT_RSS,
        "NPROC" => libc::RLIMIT_NPROC,
        "NOFILE" => libc::RLIMIT_NOFILE,
        "MEMLOCK" => libc::RLIMIT_MEMLOCK,
        "AS" => libc::RLIMIT_AS,
        "LOCKS" => libc::RLIMIT_LOCKS,
        "SIGPENDING" => libc::RLIMIT_SIGPENDING,
        "MSGQUEUE" => libc::RLIMIT_MSGQUEUE,
        "NICE" => libc::RLIMIT_NICE,
        "RTPRIO" => libc::RLIMIT_RTPRIO,
        "RTTIME" => libc::RLIMIT_RTTIME,
        _ => return None,
    };
    Some(number)
}

/// Takes over a descriptor that the starter of this program handed in by number.
///
/// # Errors
/// It is not open, or one of the standard three.
pub fn inherited(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 3 {
        return Err(io::Error::other(format!(
            "descriptor {fd} is not one above 2"
        )));
    }
    // SAFETY: fcntl on a number has no memory effects.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open (checked above) and nothing else in this program owns it: it
    // came from the command line, which each caller reads once.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A file in memory for what a hook prints.
///
/// # Errors
/// The system call's.
pub fn memory_file() -> io::Result<File> {
    let fd = rustix::fs::memfd_create("hook", rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(File::from(fd))
}

/// Ends this process without running anything more.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: no destructor or exit handler of these programs has anything left to do.
    unsafe { libc::_exit(code) }
}

/// Name of a signal, `9` without one.
pub fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| signal.to_string(), |s| s.as_str().to_owned())
}

/// What an error number means, in the C library's words.
pub fn errno_text(errno: i32) -> &'static str {
    Errno::from_raw(errno).desc()
}
