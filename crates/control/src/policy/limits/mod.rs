//! Limits of associations and qualities of service: which of them a job is under ([`rules`]), what is
//! counted for them ([`counts`]), and what they mean for it ([`judge`]).
//!
//! Knows nothing of planners and queues: whoever asks says whom a job belongs to and what it wants.

pub(crate) mod counts;
mod finder;
pub(crate) mod judge;
pub(crate) mod party;
pub(crate) mod rules;
mod standpoint;
pub(crate) mod tally;
pub(crate) mod wholes;

#[cfg(test)]
mod tests;
