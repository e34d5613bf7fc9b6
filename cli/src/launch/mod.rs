//! Steps as the commands start and follow them: `cosy run`, `srun`, `sattach` and `cbcast` share
//! this. What the ends of tasks mean is decided here; what must happen when the command is gone
//! is decided by the step's first node.
//!
//! [`spec`] makes a step of [`options`], [`start`] has it started on a connection that
//! [`place`] finds, and [`session`] follows it: [`keeper`] is the half that must never wait.

pub mod broadcast;
pub mod ends;
pub mod files;
pub mod inbox;
pub mod input;
pub mod intake;
pub mod interrupt;
pub mod keeper;
pub mod mpi;
pub mod multiprog;
pub mod options;
pub mod outbox;
pub mod place;
pub mod progress;
pub mod session;
pub mod sink;
pub mod spec;
pub mod srun_messages;
pub mod start;
pub mod supervisors;
pub mod talk;
pub mod tty;
pub mod verbose;
