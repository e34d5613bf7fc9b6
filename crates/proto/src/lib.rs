//! What Cosy's programs say to each other: messages, framing, handshake, tickets.
//!
//! The words of requests and orders are in `cosy_model::api` and `cosy_model::node`;
//! here is how they travel. Knows nothing of sockets, runtimes or files: bytes in,
//! messages out ([`frame::Decoder`]), so that commands (blocking) and daemons (tokio)
//! share it. Every decoder faces hostile bytes: limits before allocation, an error
//! instead of a panic.
//!
//! Two kinds of conversation:
//! - a command and the controller (or the node daemon that passes it on):
//!   [`client::RequestFrame`] and [`client::ReplyFrame`] frames on a Unix socket;
//! - the controller and a node daemon: [`link::ToNode`] and [`link::FromNode`] frames on
//!   TLS 1.3 with pinned raw public keys ([`tls`], feature `tls`).

pub mod client;
pub mod frame;
#[cfg(feature = "tls")]
pub mod keys;
pub mod lines;
pub mod link;
#[cfg(feature = "tls")]
pub mod mark;
#[cfg(feature = "tls")]
pub mod pass;
pub mod peer;
pub mod step;
#[cfg(feature = "tls")]
pub mod ticket;
#[cfg(feature = "tls")]
pub mod tls;
pub mod words;
pub mod x11;

/// Version of the protocol that this program speaks. Messages are maps with field
/// names, so neighbouring versions understand each other; a peer more than one apart
/// is refused with a clear error.
///
/// It goes up with a release that adds, renames or takes away a message or one of its fields
/// (tests/words.rs knows what this version has).
/// - 1: the first.
/// - 2: the ends of a link tell each other which messages they know.
pub const PROTOCOL: u32 = 2;

/// True when a peer of that version is understood.
pub const fn understands(version: u32) -> bool {
    version.abs_diff(PROTOCOL) <= 1
}
