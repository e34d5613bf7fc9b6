//! What is attacked, and what an attack is.

use cosy_model::JobId;
use cosy_model::api::Request;
use cosy_tests::Cluster;
use cosy_tests::memory_group::MemoryGroup;
use std::path::PathBuf;

/// Tasks of the adversary's array.
pub const ARRAY: u32 = 100_000;

/// A controller without nodes, so that everything waits, and what the attacks speak of.
pub struct Bench {
    pub cluster: Cluster,
    pub group: Option<MemoryGroup>,
    pub socket: PathBuf,
    pub work: PathBuf,
    /// The adversary's array.
    pub array: JobId,
}

/// What an adversary does once on a connection: what it asks, or something else.
pub enum Act {
    Ask(Request),
    /// Asks and never reads.
    Deaf(Request),
    /// Bytes that are no request, or not a whole one.
    Bytes(Vec<u8>),
}

pub struct Attack {
    pub name: &'static str,
    pub act: Act,
}
