//! The controller daemon: sockets, store and timers around `cosy-control`.
//!
//! Decides nothing itself. Commands come in through [`clients`], node daemons through
//! [`links`]; both put events into the mailbox of the core thread ([`engine`]), whose
//! batches the writer thread makes durable ([`store`]) before their effects leave.

pub mod attendance;
pub mod budget;
pub mod clients;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod directory;
pub mod engine;
pub mod faults;
pub mod gate;
pub mod hub;
pub mod in_hand;
mod journal;
pub mod lanes;
pub mod ledger;
pub mod links;
pub mod meter;
pub mod outside;
mod payloads;
pub mod pool;
pub mod reads;
pub mod store;
pub mod take_up;
mod within;
