//! Jobs that live and that lived a moment ago.

pub(crate) mod ended;
pub(crate) mod rows;
