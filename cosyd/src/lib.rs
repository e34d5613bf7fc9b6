//! The controller daemon: sockets, store and timers around `cosy-control`.
//!
//! Decides nothing itself. Commands come in through [`clients`], node daemons through
//! [`links`]; both put events into the mailbox of the core thread ([`engine`]), whose
//! batches the writer thread makes durable ([`store`]) before their effects leave.

pub mod allocator;
pub mod archiver;
pub mod background;
pub mod budget;
pub mod clients;
pub mod clock;
pub mod config;
pub mod conversation;
pub mod current_work;
pub mod daemon;
mod deadline;
pub mod directory;
mod durability;
pub mod end;
pub mod engine;
pub mod fair_queue;
pub mod faults;
mod follower;
pub mod handshake_limits;
pub mod house;
pub mod hub;
mod journal;
pub mod ledger;
pub mod links;
pub mod memory;
pub mod meter;
pub mod offline;
pub mod output;
mod payloads;
pub mod pool;
mod power;
mod program;
pub mod recovery;
mod serving;
pub mod standby;
mod standby_start;
pub mod standing;
pub mod store;
pub mod store_answers;
pub mod store_commands;
pub mod submit;
mod ticks;
