//! What every command needs to send a request to the controller, whether the command is one of
//! Cosy's own or has a name of Slurm's.
//!
//! [`cluster`] finds the sockets and connects to them. [`Caller`] sends one request and gives its
//! answer: it keeps the connection, repeats a request after a loss with the same key, so that
//! nothing is carried out twice, and waits as long as [`RetryPolicy`] says. [`silence`] finds the one
//! that leads where the one that was asked is silent. [`pages`] fetches lists
//! that do not fit into one answer. [`node_socket`] leads to the nodes of a job.
//!
//! Nothing here prints, reads a command line, or ends the process: lines for the user are handed to
//! the calling command.

pub mod caller;
pub mod cluster;
pub mod error;
pub mod node_socket;
pub mod pages;
pub mod silence;
pub mod wire;

pub use caller::{Caller, ControllerWait, RetryPolicy, new_key};
pub use error::CallError;
pub use silence::{Looks, Rhythm, Watch};
pub use wire::{reply_that_has_come, request_frame};
