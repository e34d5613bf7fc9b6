//! Steps as the commands start and follow them: `cosy run`, `srun`, `sattach` and `cbcast` share
//! this. What the ends of tasks mean is decided here; what must happen when the command is gone
//! is decided by the step's first node.
//!
//! [`spec`] makes the request for a step out of [`options`], [`step_socket`] connects to the node
//! that starts it, [`start`] sends the request with [`node_request`], and [`session`] follows the
//! step. [`control_thread`] is the half of a session that must never wait for readers of the output.

pub mod broadcast;
pub mod control_thread;
pub mod display;
pub mod ends;
pub mod files;
pub mod inbox;
pub mod input;
pub mod interrupt;
pub mod mpi;
pub mod multiprog;
pub mod node_request;
pub mod options;
pub mod outbox;
pub mod progress;
pub mod session;
pub mod signal_pipe;
pub mod sink;
pub mod spec;
pub mod srun_messages;
pub mod start;
pub mod step_socket;
pub mod supervisors;
pub mod tty;
pub mod usage;
pub mod verbose;
