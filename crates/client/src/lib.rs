//! What every command needs to ask the controller something, whether the command is one of
//! Cosy's own or has a name of Slurm's.
//!
//! [`cluster`] finds the socket and connects to it. [`Caller`] asks one question and gives its
//! answer: it keeps the connection, asks again after a loss with the same key, so that nothing
//! is carried out twice, and waits as long as [`Patience`] says. [`pages`] asks for lists that
//! do not fit into one answer.
//!
//! Nothing here prints, reads a command line, or ends the process: what is to be said to the
//! user is handed to whoever asks.

pub mod caller;
pub mod cluster;
pub mod pages;

pub use caller::{Absent, CallError, Caller, Patience, new_key, question};
