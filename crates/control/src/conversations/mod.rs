//! Commands that the controller talks with: what they were answered, and who stays with which
//! job, which plans they wait for.

pub(crate) mod answers;
pub(crate) mod attendance;
pub(crate) mod attending;
pub(crate) mod bulk;
pub(crate) mod choosing;
pub(crate) mod explain;
pub(crate) mod history;
pub(crate) mod interactive;
pub(crate) mod job_facts;
pub(crate) mod listing;
pub(crate) mod mail;
pub(crate) mod messages;
pub(crate) mod plans;
pub(crate) mod requests;
pub(crate) mod visible;
pub(crate) mod waits;
