//! The node daemon, and in another role of the same program the shepherd of each job.
//!
//! The daemon ([`daemon`], [`node`]) holds the link to the controller, keeps attempts in
//! its spool, runs hooks and has shepherds started by its [`nursery`]. A [`shepherd`] runs
//! one job and outlives the daemon. They meet only in the [`spool`] directory, by a file lock, and by queued
//! signals: either may be killed at any moment, and nothing is lost.
//!
//! Knows nothing of queues, priorities or other nodes.

pub mod bind;
pub mod cgroup;
pub mod cli;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod detect;
pub mod devices;
pub mod epoch;
pub mod gpus;
pub mod hooks;
pub mod join;
pub mod lease;
pub mod link;
pub mod login;
pub mod node;
pub mod nursery;
pub mod peer;
pub mod pmi;
pub mod pmix;
pub mod private;
pub mod private_tmp;
pub mod reader;
pub mod relay;
pub mod samples;
pub mod shepherd;
pub mod spool;
pub mod steps;
pub mod sweep;
pub mod sys;
pub mod virtual_nodes;
