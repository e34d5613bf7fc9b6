//! The sessions of an attempt: the processes that let users in and have asked, as they are kept in the spool.

use crate::login::LoginProcess;
use crate::spool::{LOGINS, write_whole};
use nix::unistd::Pid;
use std::fmt::Write as _;
use std::path::Path;

/// Sessions of one attempt at once.
const SESSIONS: usize = 256;

/// The sessions of an attempt.
#[derive(Debug, Default)]
pub(super) struct Logins {
    processes: Vec<LoginProcess>,
    state: LoginsState,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum LoginsState {
    /// More may come; there may be some.
    #[default]
    Open,
    /// They are being ended.
    Ending,
    /// There are none any more.
    Ended,
}

impl Logins {
    /// There are none, and none will come.
    pub(super) fn ended() -> Self {
        Self {
            processes: Vec::new(),
            state: LoginsState::Ended,
        }
    }

    pub(super) fn are_open(&self) -> bool {
        self.state == LoginsState::Open
    }

    pub(super) fn are_ending(&self) -> bool {
        self.state == LoginsState::Ending
    }

    pub(super) fn have(&self, process: LoginProcess) -> bool {
        self.processes.contains(&process)
    }

    /// Those that are to be ended now; `None` when there are none or they are being ended already.
    pub(super) fn begin_to_end(&mut self) -> Option<Vec<LoginProcess>> {
        if !self.are_open() || self.processes.is_empty() {
            return None;
        }
        self.state = LoginsState::Ending;
        Some(std::mem::take(&mut self.processes))
    }

    /// Those that an earlier daemon has noted; `None` when there were none.
    pub(super) fn kept(attempt: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(attempt.join(LOGINS)).ok()?;
        let process = |line: &str| {
            let (pid, start) = line.split_once(' ')?;
            let pid = pid.parse().ok().filter(|pid| *pid > 1)?;
            Some(LoginProcess {
                pid: Pid::from_raw(pid),
                start: start.parse().ok()?,
            })
        };
        Some(Self {
            processes: text.lines().filter_map(process).take(SESSIONS).collect(),
            state: LoginsState::Open,
        })
    }

    /// Keeps one more, in the directory of its attempt too.
    ///
    /// # Errors
    /// In one line: there are too many, or the file system's.
    pub(super) fn note(&mut self, attempt: &Path, process: LoginProcess) -> Result<(), String> {
        self.processes.retain(|p| p.is_there() && *p != process);
        if self.processes.len() >= SESSIONS {
            return Err(format!("{SESSIONS} sessions belong to the job here already"));
        }
        self.processes.push(process);
        let mut text = String::new();
        for process in &self.processes {
            let _ = writeln!(text, "{} {}", process.pid, process.start);
        }
        let kept = write_whole(&attempt.join(LOGINS), text.as_bytes());
        kept.map_err(|e| format!("cannot keep the session in the spool: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_kept_for_the_next_daemon() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Logins::kept(dir.path()).is_none());
        let own = LoginProcess::find(nix::unistd::getpid()).unwrap();
        let ended = LoginProcess { start: 1, ..own };
        let mut logins = Logins::default();
        logins.note(dir.path(), ended).unwrap();
        logins.note(dir.path(), own).unwrap();
        logins.note(dir.path(), own).unwrap();
        assert_eq!(Logins::kept(dir.path()).unwrap().processes, [own]);
        std::fs::write(dir.path().join(LOGINS), "x\n0 1\n-5 2\n7 8\n").unwrap();
        let kept = Logins::kept(dir.path()).unwrap().processes;
        assert_eq!(kept.iter().map(|p| p.pid.as_raw()).collect::<Vec<_>>(), [7]);
    }
}
