//! Signals: sent to processes with and without a value, blocked, and their names.

use super::ids::own_uid;
use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The first real-time signal that the C library leaves free; carries orders to
/// shepherds.
pub fn order_signal() -> i32 {
    libc::SIGRTMIN()
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

/// Writing to what nobody reads any more is an error instead of this process's end.
pub fn block_pipe_signal() {
    let mut set = SigSet::empty();
    set.add(Signal::SIGPIPE);
    let _ = set.thread_block();
}

/// Blocks every signal that can be blocked.
pub fn block_all_signals() {
    let _ = SigSet::all().thread_set_mask();
}

/// Name of a signal, `9` without one.
pub fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| signal.to_string(), |s| s.as_str().to_owned())
}
