//! What the end-to-end tests share: a cluster of real daemons in a temporary directory.
//!
//! A [`cluster::Cluster`] writes configuration files, starts `cosyd` and `noded`s, kills
//! and restarts them, and leaves nothing behind: all daemons and shepherds hold the
//! reading end of a lifeline pipe whose writing end is here. Tests either run the
//! commands as programs ([`run`]) or speak the protocol ([`client`]), which is faster.
//!
//! Nothing here sleeps to wait for something: [`wait::until`] asks for a condition until
//! a deadline. What a machine cannot show (no root, no control groups) is skipped with a
//! line on standard error ([`system::skip`]).

pub mod bench;
pub mod chance;
pub mod client;
pub mod cluster;
pub mod daemon;
pub mod fake_gpus;
pub mod full_cluster;
pub mod job;
pub mod leading;
pub mod logins;
pub mod memory_group;
pub mod mpi;
pub mod mpi_jobs;
pub mod namespaces;
pub mod networks;
pub mod page;
pub mod people;
pub mod programs;
pub mod proxy;
pub mod python;
pub mod resv;
pub mod run;
pub mod screen;
pub mod shell;
pub mod shifted;
pub mod system;
pub mod terminal;
pub mod wait;

pub use chance::Chance;
pub use client::Client;
pub use cluster::{Cluster, Options};
pub use job::{Row, command, marked, script};
pub use run::Output;
