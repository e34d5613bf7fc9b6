//! Experiments with reservations that are appraised before they are granted: placement by
//! what-if and by load, and adaptive prices.
//!
//! There is no second scheduler and no second price in here: a request is put to
//! `cosy_sched::Scheduler::appraise`, and what is granted becomes a block of that scheduler.
//! [`simulation`] replays a workload with requests, [`logs`] and [`sampling`] prepare the papers'
//! workloads, [`whatif`] and [`pricing`] are the two papers.

pub mod claims;
pub mod inquiry;
pub mod logs;
pub mod pricing;
pub mod sampling;
pub mod simulation;
pub mod spread;
pub mod whatif;
