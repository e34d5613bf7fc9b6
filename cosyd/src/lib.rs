//! The controller daemon: sockets, store and timers around `cosy-control`.
//!
//! Decides nothing itself. Commands come in through [`clients`], node daemons through
//! [`links`]; both put events into the mailbox of the core thread ([`engine`]), whose
//! batches the writer thread makes durable ([`store`]) before their effects leave.

pub mod attendance;
pub mod background;
pub mod budget;
pub mod clients;
pub mod clock;
pub mod config;
pub mod current_work;
pub mod daemon;
mod deadline;
pub mod directory;
pub mod engine;
pub mod faults;
pub mod gate;
pub mod hub;
mod journal;
pub mod lanes;
pub mod ledger;
pub mod links;
pub mod meter;
mod payloads;
pub mod pool;
pub mod reads;
pub mod recovery;
pub mod store;
