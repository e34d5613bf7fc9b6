//! Commands that the controller talks with: what they were answered, and who stays with which
//! job, which plans they wait for.

pub(crate) mod answers;
pub(crate) mod attendance;
pub(crate) mod plans;
