//! `sreport`: what the cluster, its accounts and users have used. Sources: sreport(1); recordings
//! of 22.05.8.
//!
//! Jobs are counted by the part of their run that lies in the time asked for, to the second.

pub mod options;
pub mod report;
mod tables;
