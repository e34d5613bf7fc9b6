//! What crosses rooms: one file each, named after what happens.

pub(crate) mod allocations;
pub(crate) mod change;
pub(crate) mod check;
pub(crate) mod node_lost;
pub(crate) mod node_reports;
pub(crate) mod older_store;
pub(crate) mod requeue;
pub(crate) mod resize;
pub(crate) mod restore;
pub(crate) mod steer;
pub(crate) mod submit;
