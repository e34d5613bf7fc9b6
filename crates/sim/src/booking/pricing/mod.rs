//! The experiments of Singh, Kesselman and Deelman, "Adaptive Pricing for Resource
//! Reservations in Shared Environments" (2007), section 4.
//!
//! Some jobs of a month become reservations that are bought at prices which follow from the
//! delay of the queue. [`purchase`] chooses a start, [`run`] runs a month, [`study`] runs all of
//! them, and [`claims`] tries what the paper says.

pub mod claims;
pub mod figures;
pub mod plot;
pub mod purchase;
pub mod report;
pub mod run;
pub mod study;
