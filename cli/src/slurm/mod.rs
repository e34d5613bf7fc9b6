//! Slurm's commands: front ends to the same requests as Cosy's own. What Slurm's users and
//! tools can observe (options, texts, codes) is in `cosy_slurm`; here are files,
//! environment and sockets.
//!
//! The commands find the cluster as all others do (see [`cosy_client::cluster`]); no `SLURM_*`
//! variable is needed for that.

pub mod accounts;
pub mod command_line;
pub mod messages;
pub mod names;
pub mod policy;
pub mod records;
pub mod reports;
pub mod sacct;
pub mod sacctmgr;
pub mod salloc;
pub mod sattach;
pub mod sbatch;
pub mod sbcast;
pub mod scancel;
pub mod scontrol;
pub mod sdiag;
pub mod seff;
pub mod sinfo;
pub mod sprio;
pub mod squeue;
pub mod sreport;
pub mod srun;
pub mod sshare;
pub mod sstat;
pub mod steps;
pub mod strigger;
pub mod submit;
pub mod waiting;
pub mod words;

use crate::Context;
use cosy_client::{ControllerWait, RetryPolicy};
use std::ffi::OsString;
use std::time::Duration;

/// A command of Slurm.
pub struct Entry {
    /// Name that it is called by.
    pub name: &'static str,
    /// What the command does, in a few words, for the manual page.
    pub about: &'static str,
    /// Runs it; gives the exit code.
    pub run: fn(&Context) -> u8,
}

const fn entry(name: &'static str, about: &'static str, run: fn(&Context) -> u8) -> Entry {
    Entry { name, about, run }
}

/// The entries of all commands.
pub static ALL: [Entry; 18] = [
    entry("sacct", "lists jobs and steps, also those that are over", sacct::run),
    entry("sacctmgr", "shows and changes accounts and their users", sacctmgr::run),
    entry("salloc", "gets an allocation and runs a command in it", salloc::run),
    entry("sattach", "shows the output of a running step", sattach::run),
    entry("sbatch", "submits a script", sbatch::run),
    entry("sbcast", "copies a file to all nodes of a job", sbcast::run),
    entry("scancel", "ends jobs and steps, or sends them a signal", scancel::run),
    entry("scontrol", "shows and changes jobs, nodes, partitions and reservations", scontrol::run),
    entry("sdiag", "tells how the controller is doing", sdiag::run),
    entry("seff", "tells how well an ended job used what it had", seff::run),
    entry("sinfo", "lists partitions and nodes", sinfo::run),
    entry("sprio", "tells what the order of waiting jobs is made of", sprio::run),
    entry("squeue", "lists jobs that wait and run", squeue::run),
    entry("sreport", "tells what the cluster, accounts and users have used", sreport::run),
    entry("srun", "runs a program on the nodes of an allocation, or gets one for it", srun::run),
    entry("sshare", "lists the shares of accounts", sshare::run),
    entry("sstat", "tells what running steps use", sstat::run),
    entry("strigger", "sets, lists and removes triggers", strigger::run),
];

/// The command of that name.
pub fn by_name(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|e| e.name == name)
}

/// Commands that wait for a controller that cannot be reached, as they do in Slurm: a restart of
/// the controller is no reason to fail.
const WAITING_COMMANDS: [&str; 4] = ["salloc", "sbatch", "scancel", "srun"];
/// How long these commands try to reach the controller, and what they say: as observed in Slurm.
const CONTROLLER_WAIT: ControllerWait = ControllerWait {
    limit: Duration::from_secs(59),
    notice: "error: Slurm temporarily unable to accept job, sleeping and retrying",
};

/// Runs a command with those arguments; gives its exit code.
pub fn start(entry: &Entry, args: Vec<OsString>) -> u8 {
    let waits = WAITING_COMMANDS.contains(&entry.name);
    let retry = RetryPolicy {
        controller_wait: waits.then_some(CONTROLLER_WAIT),
        ..RetryPolicy::default()
    };
    (entry.run)(&Context::new(entry.name, args).with_retry(retry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        assert!(ALL.is_sorted_by_key(|e| e.name));
    }
}
