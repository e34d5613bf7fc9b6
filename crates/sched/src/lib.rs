//! The planner of Cosy: order, backfill, timeline.
//!
//! A plain library: no clock (time is handed in), no IO, no threads, no randomness, no
//! floating point, no iteration over anything unordered. It knows job ids, resources and
//! node indices, and nothing of users, names, daemons or storage.
//!
//! One planner: [`Scheduler::schedule`] decides what starts now, and [`Scheduler::plan`]
//! plays the same decisions forward on a clone. Source of the policy: COSY paper,
//! section 3.1 (first come, first served with aggressive backfill).

mod demand;
mod mask;
mod order;
mod policy;
mod scheduler;

pub use demand::{Demand, Shortage};
pub use mask::NodeMask;
pub use order::OrderKey;
pub use policy::{Depth, Policy};
pub use scheduler::{Block, Plan, Prediction, Scheduler, Start, WaitingJob};
