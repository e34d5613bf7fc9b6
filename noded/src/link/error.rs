//! Why there is no link.

use cosy_proto::frame::FrameError;
use std::io;
use std::time::Duration;

/// For connection, TLS, hello and the first answer together.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The connection could not be made or broke, TLS included.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What came is no message.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The controller says no.
    #[error("the controller refuses this host: {0}")]
    Refused(String),
    /// The controller speaks another version.
    #[error("the controller speaks protocol version {0}, this noded {own}", own = cosy_proto::PROTOCOL)]
    Version(u32),
    /// The handshake did not end in time.
    #[error("no answer within {} s", HANDSHAKE.as_secs())]
    Slow,
    /// Answered something that does not fit.
    #[error("the controller gave an answer that does not fit")]
    Unexpected,
    /// The controller closed it.
    #[error("the controller closed the link")]
    Closed,
    /// The controller has shown its key and then taken nobody on.
    #[error("the controller takes nobody on: {0}")]
    Unready(io::Error),
    /// A controller that does not know that another one has taken over.
    #[error("a deposed controller (epoch {epoch}, known is {known})")]
    Deposed {
        /// Its epoch.
        epoch: u64,
        /// The highest one that this node knows.
        known: u64,
    },
    /// Two controllers without an epoch: nobody can tell which one leads.
    #[error("another controller leads already, and this one gives no epoch")]
    WithoutEpoch,
    /// The epoch of a new leader cannot be kept, so it is not obeyed.
    #[error("its epoch cannot be kept in the spool: {0}")]
    Unkept(io::Error),
    /// A later link has taken the place of this one.
    #[error("a later controller leads")]
    Superseded,
}

impl LinkError {
    /// Nobody was there who could give work to others.
    pub fn is_absence(&self) -> bool {
        match self {
            Self::Io(e) => e.kind() == io::ErrorKind::ConnectionRefused,
            Self::Unready(_) => true,
            Self::Frame(_)
            | Self::Refused(_)
            | Self::Version(_)
            | Self::Slow
            | Self::Unexpected
            | Self::Closed
            | Self::Deposed { .. }
            | Self::WithoutEpoch
            | Self::Unkept(_)
            | Self::Superseded => false,
        }
    }
}
