//! MPI plugins: small directories of text and shell scripts that fit a parallel job to the
//! MPI library that its programs were built with (COSY paper, section 2: plugin scripts).
//! The contract for those who write one is in `docs/mpi-plugins.md`.
//!
//! ```text
//! DIRECTORY/cosy-rsh          started by an mpirun in place of ssh
//! DIRECTORY/NAME/wireup       how directly launched tasks find each other: one word
//! DIRECTORY/NAME/libraries    sonames by which a program is known to need this plugin
//! DIRECTORY/NAME/job          script: prints variables for the job's environment
//! DIRECTORY/NAME/by-name-only makes it one that is used only where it is asked for
//! DIRECTORY/containers/NAME/container   runs programs in containers (docs/containers.md)
//! ```
//!
//! Used by the supervisor of a batch program and by the commands, always with the
//! identity of the job's user. Must not know: sockets, requests, the configuration.
//!
//! Always holds: of two plugins with one name the one in the earlier directory counts (a
//! site's own comes before ours); whatever a plugin does or says, the job goes on.

mod container;
mod elf;
mod files;
mod find;
mod hosts;
mod job;
mod prepare;
mod variables;
mod wireup;

pub use container::{ContainerPlugin, NoContainerPlugin, check_container_tool};
pub use elf::{ElfError, needed};
pub use files::remove_files;
pub use find::{Plugin, PluginError, Plugins};
pub use hosts::{HostsError, hosts};
pub use job::{JobError, run_job};
pub use prepare::{Prepared, needs_plugins, prepare};
pub use variables::{Environment, VariablesError, parse};
pub use wireup::wireup;

use std::time::Duration;

/// Where a site's own plugins are.
pub const SITE_DIRECTORY: &str = "/etc/cosy/plugins";
/// Longest run of a plugin's script.
pub const JOB_DEADLINE: Duration = Duration::from_secs(10);
/// Most bytes that a script may print.
pub const JOB_OUTPUT: usize = 64 << 10;
/// Most variables that a script may set.
pub const JOB_VARIABLES: usize = 256;
/// Largest `libraries` or `wireup` file, in bytes.
pub const FILE_BYTES: u64 = 64 << 10;
/// Most plugins in one directory that are looked at.
pub const PLUGINS: usize = 100;
/// Longest name of a plugin, in bytes.
pub const NAME_BYTES: usize = 64;
