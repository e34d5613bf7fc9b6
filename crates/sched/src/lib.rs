//! The planner of Cosy: order, backfill, timeline.
//!
//! A plain library: no clock (time is handed in), no IO, no threads, no randomness, no
//! floating point, no iteration over anything unordered. It knows job ids, resources and
//! node indices, and nothing of users, names, daemons or storage.
//!
//! One planner: [`Scheduler::schedule`] decides what starts now, and [`Scheduler::plan`]
//! plays the same decisions forward on a clone. Source of the policy: COSY paper,
//! section 3.1 (first come, first served with aggressive backfill).

pub mod appraise;
pub mod notice;
pub mod workflow;

mod absent;
mod blocks;
mod changes;
mod components;
mod counted_nodes;
mod cow_map;
mod cow_vec;
mod demand;
mod elsewhere;
mod ends;
mod forecast;
mod group;
mod machine;
mod mask;
mod near;
mod node_pool;
mod nodeset;
mod occupancy;
mod order;
mod pass;
mod place;
mod plan;
mod policy;

mod held_amounts;
mod hopeless;
mod lacks;
mod parked;
mod profile;
mod question;
mod resource_pool;
mod running;
mod scheduler;
mod select;
mod shadow;
mod shape;
mod shared_nodes;
mod shared_table;
mod shortage;
mod summary;
mod table;
mod timeline;
mod topology;
mod victims;
mod waiting_line;
mod whole_nodes;

pub use absent::Absence;
pub use blocks::Block;
pub use demand::{Component, CountedNodes, Demand, PerComponent, Shortage};
pub use forecast::Forecast;
pub use mask::NodeMask;
pub use nodeset::NodeSet;
pub use order::OrderKey;
pub use plan::{Plan, PlannedStart, Prediction};
pub use policy::{Depth, Policy};
pub use resource_pool::holder::{Holder, Promises};
pub use resource_pool::{
    Hold, HoldAmount, Holds, PoolId, PoolKind, PoolShortage, PoolSpec, PoolUse,
};
pub use scheduler::{Scheduler, WaitingJob};
pub use topology::Topology;
pub use victims::{Candidate, Leaver, Vacated};
