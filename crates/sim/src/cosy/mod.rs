//! The experiments of Cao and Zimmermann, "Queue scheduling and advance reservations with
//! COSY" (2004), section 4.
//!
//! Some jobs of a workload become reservations with an exact start, asked for n mean waits
//! of the queue ahead. [`trial`] runs one workload so, [`case`] compares with the same
//! workload without reservations, [`study`] repeats that over many workloads, and
//! [`claims`] tries what the paper says.

pub mod calibration;
pub mod case;
pub mod claims;
pub mod controller_replay;
pub mod figures;
pub mod needed_multiple;
pub mod paper;
pub mod report;
pub mod statistics;
pub mod study;
mod text;
pub mod trial;
