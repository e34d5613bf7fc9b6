//! The simulator: workloads replayed through the planner that also runs live, and the
//! experiments of the papers again.
//!
//! It knows nothing of sockets, daemons or processes. There is no second scheduler in it:
//! every decision is made by `cosy_sched::Scheduler` or by `cosy_control::Controller`.

pub mod booking;
pub mod compare;
pub mod cosy;
pub mod dag;
pub mod log_input;
pub mod machine;
pub mod metrics;
pub mod models;
pub mod notice;
pub mod order;
pub mod parallel;
pub mod picture;
pub mod policy;
pub mod replay;
pub mod sacct;
pub mod site;
pub mod swf;
pub mod workflow;
pub mod workload;
