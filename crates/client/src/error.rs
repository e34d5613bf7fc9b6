//! Why a request has no answer, or was refused.

use cosy_model::{Refusal, RefusalCode};
use cosy_proto::frame::FrameError;
use std::io;

/// Why a request has no answer, or was refused.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody listens at the socket.
    #[error("cannot reach the controller at {path}: {cause}; is cosyd running?")]
    Unreachable {
        /// The socket that was tried.
        path: String,
        /// The system's error.
        cause: io::Error,
    },
    /// The connection was lost before the answer, and the controller not reached again in time.
    #[error(
        "lost the controller at {path} ({why}) and could not reach it again within {seconds} s{outcome}"
    )]
    Lost {
        /// The socket that was tried.
        path: String,
        /// The error of the last attempt.
        why: String,
        /// How long the controller was tried again.
        seconds: u64,
        /// End of the sentence for a request that changes something: that its outcome is unknown.
        outcome: &'static str,
    },
    /// No controller of the cluster leads that could be asked; nothing was changed.
    #[error("no controller leads now: {said}; tried for {seconds} s")]
    NoLeader {
        /// The sockets that were tried, each with what was said there.
        said: String,
        /// How long they were tried.
        seconds: u64,
    },
    /// What came is no frame of this protocol.
    #[error("the controller at {path} gave no understandable answer: {cause}")]
    Garbage {
        /// The socket that was tried.
        path: String,
        /// Why the frame cannot be read.
        cause: FrameError,
    },
    /// The releases of controller and program are too far apart.
    #[error(
        "the controller speaks protocol version {theirs}, this program {ours}: use programs of one release",
        ours = cosy_proto::PROTOCOL
    )]
    Version {
        /// Protocol version of the controller.
        theirs: u32,
    },
    /// The request is larger than a frame may be.
    #[error("the request is too large: {0}")]
    TooLarge(FrameError),
    /// The controller refused the request, for the reason given.
    #[error("{0}")]
    Refused(Refusal),
    /// The reply is of a kind that does not belong to the request.
    #[error("the controller gave an answer that does not fit the request")]
    Unexpected,
}

impl CallError {
    /// True when the controller cannot be reached or cannot answer now: the same request may
    /// succeed later.
    pub const fn is_unreachable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } | Self::NoLeader { .. } => true,
            Self::Refused(refusal) => {
                matches!(refusal.code, RefusalCode::Unavailable | RefusalCode::Standby)
            }
            Self::Garbage { .. } | Self::Version { .. } | Self::TooLarge(_) | Self::Unexpected => {
                false
            }
        }
    }
}
