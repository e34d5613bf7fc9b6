//! Processes that do something for a supervisor as the user: they open, cut, write or remove
//! files. A user can stop them at any moment after they have taken the user's identity, and
//! file systems hang: so nobody waits for one without an end, and what does not come to its
//! end is killed.
//!
//! [`sys::reap`] does not see them: they are no processes of the job, and the job is over
//! without them.

use crate::sys::{self, Fork};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::unistd::Pid;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long one that was killed is waited for. What hangs in the kernel for longer is left
/// to the daemon, which reaps it when the kernel lets it go.
const DEATH: Duration = Duration::from_millis(500);

/// One such process. It is killed when this is dropped.
#[derive(Debug)]
pub struct UserProcess {
    pid: Pid,
    over: bool,
}

impl UserProcess {
    /// Forks one that does `work` and ends.
    ///
    /// # Errors
    /// No process can be made.
    pub fn start(work: impl FnOnce()) -> io::Result<Self> {
        // SAFETY: supervisors have one thread.
        match unsafe { sys::fork_aside() }? {
            Fork::Child => {
                work();
                sys::exit_now(0)
            }
            Fork::Parent(pid) => Ok(Self { pid, over: false }),
        }
    }

    /// Number of the process.
    pub const fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits until it has ended, at most so long; then it is killed. True when it came to
    /// its end by itself.
    pub fn wait(mut self, patience: Duration) -> bool {
        self.ends_within(patience)
    }

    fn ends_within(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let handle = sys::pidfd_open(self.pid).ok();
        while !self.over {
            self.over = sys::take_aside(self.pid);
            let left = until.saturating_duration_since(Instant::now());
            if self.over || left.is_zero() {
                break;
            }
            let Some(handle) = &handle else { break };
            let ms = left.as_micros().div_ceil(1000).min(60_000);
            let mut fds = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
            let _ = nix::poll::poll(&mut fds, PollTimeout::from(ms as u16));
        }
        self.over
    }

    fn kill(&mut self) {
        if !self.over {
            let _ = sys::kill(self.pid, libc::SIGKILL);
            self.ends_within(DEATH);
        }
    }
}

impl Drop for UserProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a test the child only makes system calls: other threads may hold any lock.
    fn pause_for_ever() {
        loop {
            nix::unistd::pause();
        }
    }

    #[test]
    fn one_that_is_stopped_is_killed() {
        let aside = UserProcess::start(pause_for_ever).unwrap();
        let pid = aside.pid();
        sys::kill(pid, libc::SIGSTOP).unwrap();
        assert!(!aside.wait(Duration::from_millis(20)));
        assert!(sys::take_aside(pid), "nothing is left to be waited for");
        assert!(nix::sys::signal::kill(pid, None).is_err());
    }

    #[test]
    fn one_that_ends_is_not() {
        let aside = UserProcess::start(|| ()).unwrap();
        assert!(aside.wait(Duration::from_secs(60)));
    }
}
