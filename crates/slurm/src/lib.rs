//! Slurm's vocabulary: what its users and their tools can observe, as tables and grammars
//! from and to Cosy's own words.
//!
//! The commands with Slurm's names (`sbatch`, `squeue` ...) are front ends to the same
//! requests as Cosy's own, and everything that only they need to know stands here: option
//! grammar, `#SBATCH` lines, `%` formats, state names and codes, messages that tools read.
//!
//! Pure: texts and values in, texts and values out. Knows nothing of sockets, files, clocks
//! or of how anything is decided. Source: manual pages and observed behaviour of Slurm
//! 22.05.

pub mod control;
pub mod diagnosis;
pub mod end_messages;
pub mod environment;
pub mod error_numbers;
pub mod geometry;
pub mod getopt;
pub mod import;
pub mod job;
pub mod json_yaml;
pub mod layout;
pub mod limit_reason;
pub mod node;
pub mod partition;
pub mod reason;
pub mod sacct;
pub mod sacctmgr;
pub mod scancel;
pub mod sentences;
pub mod show;
pub mod sinfo;
pub mod small_reports;
pub mod sprio;
pub mod squeue;
pub mod sreport;
pub mod sshare;
pub mod state;
pub mod step;
pub mod strigger;
pub mod submit;
pub mod table;
pub mod targets;
pub mod times;
pub mod tres;
pub mod verbose;

pub use reason::reason;
pub use state::{SlurmState, UnknownState};
