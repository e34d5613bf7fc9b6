//! What decides that a job ends, starts, goes back into the queue or is looked at again: one file
//! each, named after what happens.
//!
//! These are free functions over the rooms that they need. They call each other and what lies
//! in the rooms' own folders (`X/procedures.rs` and others: questions and steps over several
//! rooms); no room calls them. No two files here call each other: what would have to follow
//! from within (the end of a reservation with its last job) is noted and follows in the same
//! turn.

pub(crate) mod alternative_queues;
pub(crate) mod attending;
pub(crate) mod bulk;
pub(crate) mod end;
pub(crate) mod features;
pub(crate) mod keys;
pub(crate) mod launch;
pub(crate) mod licenses;
pub(crate) mod limits;
pub(crate) mod node_changes;
pub(crate) mod node_control;
pub(crate) mod node_lost;
pub(crate) mod node_reports;
pub(crate) mod older_store;
pub(crate) mod policy;
pub(crate) mod power;
pub(crate) mod preemption;
pub(crate) mod queues;
pub(crate) mod requests;
pub(crate) mod requeue;
pub(crate) mod reservations;
pub(crate) mod restore;
pub(crate) mod reviews;
pub(crate) mod steer;
pub(crate) mod submit;
pub(crate) mod workflows;
