//! The shepherd: one small process for each attempt that runs a program on this node.
//!
//! It is this same program in another role (`noded --nursery`, forked once for each
//! attempt, see [`nursery`]), in a session of its own, and outlives the daemon. It takes the attempt's lock, marks it started,
//! makes the control groups, forks the program as the user, enforces its end, waits
//! until nothing of it is left, writes the outcome and exits; the daemon sees the exit
//! and reads the outcome. It never speaks to anybody else.
//!
//! Must not know: the network, TLS, the configuration, any runtime. No threads.
//!
//! Always holds: at most one shepherd ever forks for an attempt (lock, then mark, then
//! fork); an outcome is written only when no process of the job is left, or when some
//! could not be killed within a minute, and then it asks for the node to be drained.

pub(crate) mod child;
mod clock;
mod container;
mod leftovers;
pub mod nursery;
mod plugin;
pub mod shutdown;
pub mod signals;
pub mod slurm;
pub mod step;
mod termination;
mod user_process;
mod watch;

pub use leftovers::{all_processes, descendants as descendants_of, parent_of};
pub use user_process::UserProcess;

use crate::cgroup::Group;
use crate::private_tmp;
use crate::spool::{self, Outcome, Phase, Task, Work};
use crate::sys;
use cosy_model::{End, EndCause, Time};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// Runs the shepherd of the attempt that is kept in `directory`. The exit code of this
/// process means nothing to anybody.
pub fn run_and_exit(directory: &Path, lifeline: bool) -> ! {
    let code = i32::from(supervise(directory, lifeline).is_err());
    sys::exit_now(code)
}

fn supervise(directory: &Path, lifeline: bool) -> io::Result<()> {
    std::env::set_current_dir(directory)?;
    let Some(file) = claim(directory)? else {
        return Ok(());
    };
    let lifeline = open_lifeline(lifeline)?;
    let kept = match spool::read_launch(&file) {
        Ok(kept) => kept,
        Err(e) => return never_ran(format!("what the node kept of the job: {e}")),
    };
    if kept.phase == Phase::Started {
        return Ok(());
    }
    let Work::Run(task) = kept.work else {
        return never_ran("the node kept no program for the job".to_owned());
    };
    run(directory, &task, &file, lifeline)
}

/// The lifeline, where there is one: the nursery leaves it open at its place for all that
/// it forks.
fn open_lifeline(given: bool) -> io::Result<Option<OwnedFd>> {
    given
        .then(|| sys::inherited(sys::SHEPHERD_LIFELINE))
        .transpose()
}

/// Takes the attempt's lock; `None` when it is not (or no longer) there to be taken.
fn claim(directory: &Path) -> io::Result<Option<File>> {
    let file = spool::open_launch(Path::new("."))?;
    let free = sys::try_lock(&file)? && spool::still_there(&file, directory)?;
    Ok((free && !Path::new(spool::OUTCOME).exists()).then_some(file))
}

fn never_ran(reason: String) -> io::Result<()> {
    keep(&Outcome {
        end: End::never_ran(EndCause::LaunchFailed(reason), sys::now()),
        drain: None,
    });
    Ok(())
}

fn run(directory: &Path, task: &Task, file: &File, lifeline: Option<OwnedFd>) -> io::Result<()> {
    sys::become_subreaper()?;
    let signals = signals::Signals::open()?;
    let start = sys::now();
    spool::mark_started(file, start)?;
    let ready = private_tmp::enter(Path::new(".")).and_then(|()| make_groups(task));
    let outcome = match ready {
        Err(reason) => failed_launch(reason),
        Ok(()) => {
            let ended = watch::watch(directory, task, start, &signals, lifeline.as_ref());
            match ended {
                watch::Ended::Outcome(outcome) => outcome,
                watch::Ended::LifelineEnded => {
                    vanish(directory, &task.groups);
                    return Ok(());
                }
            }
        }
    };
    task.groups.iter().for_each(crate::cgroup::Group::remove);
    let _ = plugin::clean(Path::new("."));
    keep(&outcome);
    Ok(())
}

fn make_groups(task: &Task) -> Result<(), String> {
    task.groups
        .iter()
        .try_for_each(|group| group.create().map_err(|e| e.to_string()))
}

fn failed_launch(reason: String) -> Outcome {
    let cause = shutdown::cause_with(EndCause::LaunchFailed(reason));
    Outcome {
        end: End::never_ran(cause, sys::now()),
        drain: None,
    }
}

/// Writes the outcome, however long the disk is full: an exit code is not lost.
fn keep<T: serde::Serialize>(outcome: &T) {
    let mut pause = Duration::from_millis(20);
    while spool::write_outcome(Path::new("."), outcome).is_err() {
        // The directory is gone: nobody wants to know any more.
        if !Path::new(spool::LAUNCH).exists() {
            return;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// After the lifeline's end: leave nothing, not even directories that are then empty.
fn vanish(directory: &Path, groups: &[Group]) {
    groups.iter().for_each(Group::vanish);
    let _ = plugin::clean(directory);
    let _ = container::clean(directory);
    let _ = std::fs::remove_dir_all(directory);
}

/// The wall clock at a moment of the steady one.
fn wall(start: Time, since: Duration) -> Time {
    Time(start.0.saturating_add(since.as_millis() as i64))
}
