//! PMIx, the way in which Open MPI's tasks find each other: served by a helper process
//! for each step and node, the only one that ever loads libpmix.
//!
//! ```text
//! supervisor ── words, over a pair of sockets ── noded --pmix ── libpmix ── tasks
//!   (root)         Setup, Spread ──▶              (the user)
//!                  ◀── Ready, Contribute, Abort, Failed
//! ```
//!
//! The supervisor ([`Helper`]) starts the helper as the user before the tasks, gives each
//! task the variables that it gets from it, and carries exchanges: a helper contributes
//! its node's share when all its tasks have come, and gets the shares of all nodes back.
//! The helper ends with its connection, and its directory goes with it.
//!
//! In the helper ([`serve`]) [`facts`] says what the library is told, [`infos`] lays it
//! out in the library's shapes ([`abi`]), [`library`] calls and [`callbacks`] is called.
//! Programs are linked with their own libpmix and know nothing of this.
//!
//! Not offered, and answered "not supported": starting further tasks, connecting steps,
//! publishing names, groups, and exchanges between some nodes of a step only.

pub mod abi;
pub mod callbacks;
pub mod environment;
pub mod facts;
pub mod helper;
pub mod infos;
pub mod key;
pub mod library;
pub mod scope;
pub mod serve;
pub mod setup;
pub mod words;

pub use helper::{Helper, PmixAct};

/// What the dynamic linker is asked for.
pub const LIBRARY: &str = "libpmix.so.2";

use cosy_model::limits::EXCHANGE_BYTES;
