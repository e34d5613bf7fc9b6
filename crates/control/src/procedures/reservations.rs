//! What happens to reservations and ends jobs or begins some.

pub(crate) mod appraisal;
pub(crate) mod book;
pub(crate) mod cancel;
pub(crate) mod course;
pub(crate) mod end;
pub(crate) mod repair;
pub(crate) mod requests;
pub(crate) mod vacate;
