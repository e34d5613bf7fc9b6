//! Who comes first by policy, as arithmetic: what somebody has used and how that fades
//! ([`usage`]), of every resource ([`meter`]), what a job costs ([`billing`]), ranks by Fair Tree ([`fair_tree`]), the classic
//! fair-share factor ([`classic`]), numbers for an order that changes little ([`ordinals`]), weighted factors ([`weights`]), numbers that
//! depend on the time of day ([`day_times`]), and what all that says about
//! two users in words ([`standing`]).
//!
//! It knows no names, jobs, clocks or stores: numbers of accounts and users, amounts, times.
//! Everything is computed in integers, so that two controllers, or one before and after a restart,
//! come to the same order.

pub mod billing;
pub mod classic;
pub mod day_times;
pub mod fair_tree;
pub mod meter;
pub mod ordinals;
pub mod power;
pub mod reset;
pub mod standing;
pub mod usage;
pub mod weights;
mod wide;
