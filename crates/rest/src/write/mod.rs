//! Submitting, changing and cancelling: bodies in, requests out, and what is said of the outcome.
//!
//! A description of a job becomes the options that `sbatch` would be given, a change the words of
//! `scontrol update`, so that each rule stands once. What Slurm has and Cosy has not is refused by its
//! name where it would change what comes of the job, else told as a warning.

mod cancel;
mod change;
mod fields;
mod options;
mod submission;
mod writing;

pub use crate::value::ENTRIES;
pub use options::Person;
pub use submission::Submitter;
pub use writing::Writing;
