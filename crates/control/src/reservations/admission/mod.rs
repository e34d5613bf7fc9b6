//! Admission of reservations: which of the feasible ones are accepted, what they may hold,
//! and what is given back of them.
//!
//! Pure figures in, verdicts out: nothing here knows the [`Controller`](crate::Controller),
//! connections or the ledger. What always holds: a verdict depends only on what is handed
//! in, and every refusal names the rule and its figures.
//!
//! Sources: COSY paper, sections 3.2 and 4.4; what-if paper, section 4; pricing paper,
//! sections 2 and 3; the design's "Admission of reservations".

pub(crate) mod cancel;
pub(crate) mod endless;
pub(crate) mod figures;
pub(crate) mod hours;
pub(crate) mod judge;
pub(crate) mod notice;
pub(crate) mod quota;
#[cfg(test)]
mod tests;
pub(crate) mod words;

pub use words::reservations_in_words;
