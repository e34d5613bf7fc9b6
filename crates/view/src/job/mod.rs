//! What a row of a list of jobs tells.
//!
//! The controller says what is true of a job ([`JobFacts`]); [`cell`] says how it is told. Facts are
//! borrowed and asked for only by the fields that need them: a list of 100,000 jobs by id and state
//! copies no text and looks no node up.

mod cell;
mod ended;
mod facts;
mod part;
pub mod visible;
mod why;

pub use crate::words::dependency::OpenDependency;
pub use crate::words::priority_factors::PriorityFactors;
pub use crate::words::row_name::RowName;
pub use cell::cell;
pub use ended::{ended_fields, tone};
pub use facts::{
    Array, AttemptTimes, Files, Holder, JobFacts, JobStatus, NodeHoldings, Reason, Submission,
};
pub use part::{Part, is_usual, part};
pub use why::{LicenseShortage, Waiting, why};
