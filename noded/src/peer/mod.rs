//! Node daemons among themselves: steps over several nodes, and commands on other hosts
//! than a job's first node. The words are [`cosy_proto::peer`]'s.
//!
//! Carries bytes and says yes or no; what a step is, is known in [`crate::steps`]. Whom
//! this node connects to is pinned by key; who connects here proves nothing by that: the
//! ticket decides, which names the key that may show it, and only for allocations that the
//! controller gave to this node.

pub mod hop;
pub mod pool;
pub mod revoked;
pub mod serve;
pub mod stranger_limits;
pub mod tunnel;

use cosy_proto::frame;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A peer whose host is gone or cannot be reached is given up after so long, also where nothing is
/// said: a job may go on without it.
const SILENCE_MS: u32 = 30_000;
/// So often it is asked whether it is there.
const PROBE: Duration = Duration::from_secs(10);

/// Reads exactly one frame; what follows it stays in the stream.
///
/// # Errors
/// The stream's; a frame that is longer than `limit` or no message.
pub async fn read_frame<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
    limit: usize,
) -> io::Result<T> {
    let mut header = [0; frame::HEADER];
    stream.read_exact(&mut header).await?;
    let body = read_body(stream, u32::from_le_bytes(header) as usize, limit).await?;
    frame::decode(&body).map_err(io::Error::other)
}

/// Reads so many bytes into a buffer that grows with what arrives.
///
/// # Errors
/// The stream's; more than `limit`.
pub async fn read_body(
    stream: &mut (impl AsyncRead + Unpin),
    length: usize,
    limit: usize,
) -> io::Result<Vec<u8>> {
    if length > limit {
        return Err(io::Error::other(frame::FrameError::TooLong { length, limit }));
    }
    let mut body = Vec::new();
    let got = stream.take(length as u64).read_to_end(&mut body).await?;
    match got == length {
        true => Ok(body),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Writes one frame.
///
/// # Errors
/// The stream's; longer than `limit`.
pub async fn write_frame<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &T,
    limit: usize,
) -> io::Result<()> {
    let bytes = frame::encode(message, limit).map_err(io::Error::other)?;
    stream.write_all(&bytes).await?;
    stream.flush().await
}
