//! What a workload is, wherever it comes from: a log, a model, a history of accounting.
//!
//! What always holds: jobs are sorted by submit time, then by their order in the source.

use cosy_model::{Span, Time};

/// The name at index 0 of users, accounts and queues.
pub const UNKNOWN: &str = "unknown";

/// One job of a workload.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Job {
    /// Its number in the source.
    pub id: u64,
    /// The line of the source that it comes from, from 1; 0 when it comes from no file.
    pub line: u32,
    /// Since the begin of the log.
    pub submit: Time,
    /// How long it really ran; a replay ends it at its limit at the latest.
    pub run: Span,
    /// Time limit that it asked for.
    pub limit: Span,
    /// Processors that it asked for, at least one.
    pub processors: u32,
    /// Whole nodes that it asked for; `None` when it only asked for processors.
    pub nodes: Option<u32>,
    /// When its user cancels it if it still waits.
    pub cancel: Option<Time>,
    /// How long it really waited, where the source says so.
    pub recorded_wait: Option<Span>,
    /// Index into [`Workload::users`].
    pub user: u32,
    /// Index into [`Workload::accounts`].
    pub account: u32,
    /// Index into [`Workload::queues`].
    pub queue: u32,
    /// Index into [`Workload::qos`].
    pub qos: u32,
}

/// Jobs of a source, and the names in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Workload {
    /// All jobs, sorted by submit time.
    pub jobs: Vec<Job>,
    /// Names of users; index 0 stands for unknown ones.
    pub users: Vec<String>,
    /// Names of accounts (groups); index 0 stands for unknown ones.
    pub accounts: Vec<String>,
    /// Names of queues (partitions); index 0 stands for unknown ones.
    pub queues: Vec<String>,
    /// Names of qualities of service; index 0 stands for unknown ones. Empty where the source has none.
    pub qos: Vec<String>,
    /// Processors of the machine, where the source says so.
    pub machine: Option<u32>,
    /// Why rows were left out, with how many.
    pub dropped: Vec<(String, u64)>,
}
