//! Jobs that live and that lived a moment ago.

pub(crate) mod arrays;
pub(crate) mod bodies;
pub(crate) mod components;
pub(crate) mod dependencies;
pub(crate) mod ended;
pub(crate) mod file_names;
pub(crate) mod job;
pub(crate) mod licenses;
pub(crate) mod reviews;
pub(crate) mod rows;
pub(crate) mod steps;
pub(crate) mod variables;
