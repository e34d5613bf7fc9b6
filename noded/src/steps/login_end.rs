//! The end of sessions that belong to a job: they are told to hang up, and killed soon after.

use crate::cgroup::Group;
use crate::login::LoginProcess;
use crate::shepherd::{all_processes, descendants_of};
use crate::{sweep, sys};
use cosy_model::Uid;
use cosy_model::variables::NODE_MARK;
use nix::libc;
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

/// Between hanging up and the end.
const GRACE: Duration = Duration::from_secs(1);
/// After so long the job ends without them.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether they have gone.
const LOOK: Duration = Duration::from_millis(50);

/// The sessions of one attempt.
#[derive(Debug)]
pub(super) struct Sessions {
    /// Their control groups.
    pub groups: Vec<Group>,
    /// The processes that have asked.
    pub processes: Vec<LoginProcess>,
    /// Whose they are.
    pub uid: Uid,
    /// What they carry in their environment.
    pub mark: String,
}

impl Sessions {
    /// Ends them, and removes their groups. Processes that cannot be killed are told.
    pub async fn end(mut self) -> Vec<i32> {
        let begun = Instant::now();
        let mut signals: &[i32] = &[libc::SIGHUP, libc::SIGCONT];
        loop {
            let Ok(now) = spawn_blocking(move || self.signal(signals)).await else {
                return Vec::new();
            };
            self = now;
            if self.processes.is_empty() || begun.elapsed() >= PATIENCE {
                break;
            }
            tokio::time::sleep(LOOK).await;
            signals = match begun.elapsed() >= GRACE {
                true => &[libc::SIGKILL],
                false => &[],
            };
        }
        let groups = self.groups;
        let _ = spawn_blocking(move || groups.iter().for_each(Group::remove)).await;
        self.processes.iter().map(|p| p.pid.as_raw()).collect()
    }

    /// Sends all that are there these signals. What has been found once is known from then on.
    fn signal(mut self, signals: &[i32]) -> Self {
        let found = self.members();
        if signals == [libc::SIGKILL] {
            self.groups.iter().for_each(Group::kill);
        }
        for process in &found {
            for signal in signals {
                let _ = sys::kill(process.pid, *signal);
            }
        }
        self.processes = found;
        self
    }

    fn members(&self) -> Vec<LoginProcess> {
        let own = self.groups.iter().filter(|group| !group.shared);
        let mut found: BTreeSet<i32> = own.flat_map(Group::processes).collect();
        for process in self.processes.iter().filter(|p| p.is_there()) {
            found.insert(process.pid.as_raw());
            found.extend(descendants_of(process.pid));
        }
        let mark = format!("{NODE_MARK}={}", self.mark).into_bytes();
        // An environment may be long: those of others are not read.
        let marked = |pid: &i32| {
            sweep::user_of(*pid) == Some(self.uid.0)
                && sweep::mark_of(*pid).is_some_and(|own| own == mark)
        };
        found.extend(all_processes().filter(marked));
        let there = found.into_iter().filter(|pid| *pid > 1 && !has_ended(*pid));
        there
            .filter_map(|pid| LoginProcess::find(Pid::from_raw(pid)))
            .collect()
    }
}

/// It has ended, and whoever started it has not yet asked how.
fn has_ended(pid: i32) -> bool {
    crate::shepherd::parent_of(pid).is_none()
}
