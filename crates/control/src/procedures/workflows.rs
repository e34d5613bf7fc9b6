//! What happens to workflows and ends jobs or begins some.

pub(crate) mod book;
pub(crate) mod cancel;
pub(crate) mod course;
pub(crate) mod replan;
pub(crate) mod requests;
pub(crate) mod submit;
