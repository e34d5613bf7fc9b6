//! A command asks, the controller answers, on a Unix socket.
//!
//! Who asks is what the kernel says of the peer. A frame may name another user
//! ([`RequestFrame::for_user`]); whether the peer may do so is the controller's to say.
//! One connection may carry several questions, one after another.

use cosy_model::Uid;
use cosy_model::api::{Reply, Request};
use serde::{Deserialize, Serialize};

/// Chosen by the command for a request that changes something, so that its repeat
/// after a time-out is recognised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestKey(pub [u8; 16]);

/// A request of a command, numbered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestFrame {
    /// Protocol version of the command.
    pub version: u32,
    /// Key of a request that changes something.
    #[serde(default)]
    pub key: Option<RequestKey>,
    /// Asked without an administrator's rights, as an ordinary user would. It can only take
    /// rights away.
    #[serde(default)]
    pub as_user: bool,
    /// Asked for that user by a program that may speak for others (`[web]` in `cosy.toml`, root, the
    /// controller's own user); the rights are those of that user at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_user: Option<Uid>,
    /// A controller that stands by may answer, as of when it last read what the leader wrote.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale_ok: bool,
    /// What the command asks for.
    pub request: Request,
}

impl RequestFrame {
    /// A question of this program's version.
    pub const fn new(request: Request, key: Option<RequestKey>) -> Self {
        Self {
            version: crate::PROTOCOL,
            key,
            as_user: false,
            for_user: None,
            stale_ok: false,
            request,
        }
    }
}

/// The controller's reply to one request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplyFrame {
    /// Protocol version of the controller.
    pub version: u32,
    /// What the controller answers.
    pub reply: Reply,
    /// What the site's rules tell the user beside it, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// A controller that stands by answers, as of so many milliseconds ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_ms: Option<u64>,
}

impl ReplyFrame {
    /// An answer of this program's version.
    pub const fn new(reply: Reply) -> Self {
        Self {
            version: crate::PROTOCOL,
            reply,
            notices: Vec::new(),
            stale_ms: None,
        }
    }
}

/// The version of a question or an answer whose body is not understood, where it is another
/// than ours: it may hold what only that version knows.
pub fn foreign(body: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    struct Speaks {
        version: u32,
    }
    let speaks: Speaks = crate::frame::decode(body).ok()?;
    Some(speaks.version).filter(|version| *version != crate::PROTOCOL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;

    #[test]
    fn words_of_another_version() {
        #[derive(Serialize)]
        struct Later {
            version: u32,
            request: &'static str,
        }
        let body = |version| {
            let request = "dance";
            let ask = Later { version, request };
            frame::encode(&ask, 1000).unwrap()[frame::HEADER..].to_vec()
        };
        assert!(frame::decode::<RequestFrame>(&body(crate::PROTOCOL + 1)).is_err());
        assert_eq!(foreign(&body(crate::PROTOCOL + 1)), Some(crate::PROTOCOL + 1));
        assert_eq!(foreign(&body(crate::PROTOCOL)), None);
        assert_eq!(foreign(b"\x93"), None);
    }
}
