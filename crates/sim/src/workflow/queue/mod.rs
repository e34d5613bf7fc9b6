//! Workflows beside the queue: a log's jobs are backfilled around the slots of workflows
//! that arrive by chance, with and without planning again.
//!
//! The paper leaves this open (section 5). Every plan is made by `Scheduler::plan_flow` on the
//! machine as it is at that moment, slots become blocks of the same planner, and everything
//! else is started by it. It knows nothing of files or clocks.
//!
//! What always holds: a task starts when all its parents are done and never runs beyond its
//! slot; what is not used of a slot goes back to the queue at once; the same seeds give the
//! same run.

pub mod arrivals;
mod as_jobs;
pub mod figures;
pub mod report;
mod simulation;
mod slots;
mod state;
pub mod study;

pub use simulation::{Outcome, Simulation};
pub use state::{Flow, FlowEnd, RunSettings, Scheme};
