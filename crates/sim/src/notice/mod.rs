//! The notice rule of COSY (section 4.4) kept in force over a month of a log.
//!
//! Some jobs of the log become reservations with their scripts, a share of them that may
//! rise from week to week. All requests go to `cosy_control::Controller`, which decides with
//! its own rules and figures: there is no second rule in here. [`users`] is what users ask
//! and do when they are refused, [`run`] one month, [`figures`] what came out beside the
//! same month without reservations, [`study`] many of them.

pub mod figures;
pub mod report;
pub mod rule_sets;
pub mod run;
pub mod study;
pub mod users;
