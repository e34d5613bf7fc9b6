//! Node daemons among themselves, over TLS: one conversation after another on a
//! connection that is kept.
//!
//! Who connects proves nothing but that it holds a ticket: a node acts only for an
//! allocation that its controller gave it, and only on a good ticket for it. Whom it
//! connects to is pinned by the key in [`cosy_model::step::Peer`].
//!
//! A conversation: one [`PeerAsk`] frame, one [`PeerAnswer`] frame; after
//! [`PeerAnswer::Accepted`] chunks in both directions (four bytes of length, little
//! endian, at most [`CHUNK`], then bytes), which carry what supervisors or commands say to
//! each other. A chunk of no length is the end of that direction; after both ends the
//! connection is free for the next conversation.

use cosy_model::OsText;
use cosy_model::node::AttemptKey;
use cosy_model::step::{StepAsk, StepKey, StepOrder, TcpPair};
use cosy_model::{Gid, Span, Uid};
use serde::{Deserialize, Serialize};

/// Most bytes of one chunk.
pub const CHUNK: usize = 1 << 20;

/// First frame of a conversation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PeerAsk {
    /// Protocol version of the one who asks.
    pub version: u32,
    /// The node that is meant (one address may serve several).
    pub node: String,
    /// The allocation's ticket.
    pub ticket: OsText,
    /// What the other daemon is to do.
    pub what: PeerRequest,
}

/// What one node daemon asks of another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerRequest {
    /// Start this part of a step. Chunks carry frames of [`crate::step`].
    Start(Box<StepOrder>),
    /// The same, for a step with a [`cosy_model::step::StepSpec::display`]: a word of its own, so
    /// that a daemon that forwards none refuses it.
    StartWithDisplay(Box<StepOrder>),
    /// Go on with a hop that broke.
    Resume {
        /// The step whose hop broke.
        key: StepKey,
    },
    /// Give this part of a step that runs, and those below, another time limit. Chunks carry
    /// one [`cosy_model::step::StepAnswer`].
    Limit {
        /// The step that gets another limit.
        key: StepKey,
        /// From the beginning of the step.
        limit: Span,
    },
    /// Whether a program of this attempt on the node that is asked is connected like that. Chunks
    /// carry one [`cosy_model::step::StepAnswer`].
    Holds {
        /// The attempt.
        attempt: AttemptKey,
        /// The connection, the program's end first.
        connection: TcpPair,
    },
    /// What this attempt used over time on the node that is asked. Chunks carry one
    /// [`cosy_model::step::StepAnswer`].
    Samples {
        /// The attempt.
        attempt: AttemptKey,
    },
    /// A command on the host of the caller. Chunks carry what it would say to the socket
    /// for steps.
    Command {
        /// Who, as that host's kernel says. Must be the ticket's user.
        uid: Uid,
        /// Primary group, as that host's kernel says.
        gid: Gid,
        /// The command's own request.
        ask: StepAsk,
    },
}

/// What a node answers to another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerAnswer {
    /// The ticket is good: the conversation goes on.
    Accepted,
    /// No, and why; the connection is free for the next conversation.
    Refused {
        /// Why, in one line.
        reason: String,
    },
}
