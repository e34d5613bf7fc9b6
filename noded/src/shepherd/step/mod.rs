//! The supervisor of a step on one node: starts its tasks, carries their output up and
//! their input down, and sees to their end.
//!
//! Born by the nursery like the shepherd of an attempt, and like it outlives the daemon;
//! what they agree on is in [`crate::steps`]. One thread that waits in poll(2).
//!
//! ```text
//!            command or supervisor above
//!                      │ up
//!   io ──▶ door ──▶ supervisor ── pipes, terminal ── tasks
//!                      │ hops (queue)
//!            supervisors below
//! ```
//!
//! [`wait`] waits for events and [`run`] hands them on: to [`upstream`], [`downstream`],
//! [`flow`], [`x_clients`] and [`finish`]. What is pure is in [`queue`], [`input`], [`gather`], [`tally`] and [`pattern`].
//!
//! Must not know: the network, TLS, the configuration, what the ends of tasks mean to the
//! command. Always holds: output is never reordered within a task and stream, and all of it
//! comes before the node's end; while much of it waits to be read above, nothing more is
//! read from tasks; the outcome is in the spool before anyone is told; nothing of the step
//! is left when it is told.

mod binding_report;
mod display_file;
mod display_socket;
mod displays;
mod downstream;
mod environment;
mod exchange;
mod failure;
mod finish;
mod flow;
mod frame_socket;
mod gather;
mod input;
mod io_socket;
mod label;
mod orders;
mod pattern;
mod plan;
mod prepare;
mod queue;
mod receive;
mod run;
mod start;
mod tally;
mod task;
mod terminal;
mod upstream;
mod wait;
mod watchers;
mod writer;
mod x_clients;

use super::signals::Signals;
use super::{claim, keep};
use crate::cgroup::{Group, ParentGroup};
use crate::private_tmp;
use crate::spool::{self, Phase};
use crate::steps::{StepOutcome, StepTask};
use crate::sys;
use cosy_model::step::NodeEnd;
use cosy_model::{End, EndCause, OsText};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Runs the supervisor of the step that is kept in `directory`; `up` is its way up. The
/// exit code of this process means nothing to anybody.
pub fn run_and_exit(directory: &Path, lifeline: bool, up: OwnedFd) -> ! {
    let code = i32::from(supervise(directory, lifeline, up).is_err());
    sys::exit_now(code)
}

fn supervise(directory: &Path, lifeline: bool, up: OwnedFd) -> io::Result<()> {
    std::env::set_current_dir(directory)?;
    let Some(file) = claim(directory)? else {
        return Ok(());
    };
    let lifeline = super::open_lifeline(lifeline)?;
    let kept = match spool::read_launch::<StepTask>(&file) {
        Ok(kept) => kept,
        Err(e) => {
            never_ran(format!("what the node kept of the step: {e}"));
            return Ok(());
        }
    };
    if kept.phase == Phase::Started {
        return Ok(());
    }
    sys::become_subreaper()?;
    sys::block_pipe_signal();
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    let signals = Signals::open()?;
    let start = sys::now();
    spool::mark_started(&file, start)?;
    let task = kept.work;
    let joined = task.keep.iter().try_for_each(|g| {
        g.create()?;
        g.join()
    });
    // Those of tasks lie in the step's, or are shared: they go with it.
    let own = task.own.iter().flat_map(|own| &own.groups);
    let mut all = task.groups.iter().chain(own);
    let groups = joined.and_then(|()| all.try_for_each(Group::create));
    let trouble = groups.err().map(|e| e.to_string());
    let trouble = trouble.or_else(|| private_tmp::enter(Path::new("..")).err());
    let mut supervisor =
        run::Supervisor::new(&task, start, &signals, lifeline.as_ref(), up, trouble);
    if !supervisor.run() {
        let supervisors_group = supervisors_group(directory);
        let own = || task.keep.iter().chain(&supervisors_group);
        own().for_each(Group::leave);
        super::vanish(directory, &task.groups);
        own().for_each(Group::vanish);
    }
    Ok(())
}

/// The group that supervisors of steps of this attempt are started in, where there is one.
fn supervisors_group(directory: &Path) -> Option<Group> {
    let place = directory.parent()?.join(spool::KEEP);
    let path = std::fs::read_link(place).ok()?;
    let outer = path.parent()?;
    let text = |path: &Path| OsText(path.as_os_str().as_bytes().to_vec());
    Some(Group {
        directory: text(&path),
        unified: true,
        within: Some(ParentGroup {
            directory: text(outer),
            ..ParentGroup::default()
        }),
        ..Group::default()
    })
}

fn never_ran(reason: String) {
    keep(&StepOutcome {
        end: NodeEnd {
            end: End::never_ran(EndCause::LaunchFailed(reason), sys::now()),
            drain: None,
            starved: 0,
        },
        tasks: Vec::new(),
        whole: None,
    });
}
