//! Frames as they go out and come in.

use crate::cluster;
use cosy_model::api::Request;
use cosy_proto::client::{self, ReplyFrame, RequestFrame, RequestKey};
use cosy_proto::frame::{self, Decoder, FrameError};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes read at once of what has come.
const CHUNK: usize = 16 << 10;

/// The frame of a request of this process: marked where [`cluster::as_user`] says so.
pub fn request_frame(request: Request, key: Option<RequestKey>) -> RequestFrame {
    RequestFrame {
        as_user: cluster::as_user(),
        ..RequestFrame::new(request, key)
    }
}

/// The answer in a frame's body, or the other version that it is of.
pub(crate) fn decode_reply(body: &[u8]) -> Result<Result<ReplyFrame, u32>, FrameError> {
    match frame::decode(body) {
        Ok(answer) => Ok(Ok(answer)),
        Err(e) => client::foreign(body).map(Err).ok_or(e),
    }
}

/// The next answer on a stream that does not block; `None` while it has not come whole.
///
/// # Errors
/// In words: the connection is over, or what came is no answer.
pub fn reply_that_has_come(
    stream: &mut UnixStream,
    decoder: &mut Decoder,
) -> Result<Option<ReplyFrame>, String> {
    let mut chunk = [0; CHUNK];
    loop {
        if let Some(body) = decoder.next_frame().map_err(|e| e.to_string())? {
            return frame::decode(body).map(Some).map_err(|e| e.to_string());
        }
        match stream.read(&mut chunk) {
            Ok(0) => return Err("it closed the connection".to_owned()),
            Ok(n) => decoder.push(chunk.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) => return Err(e.to_string()),
        }
    }
}

/// A stream whose reads fail after a deadline, even when bytes keep coming one by one.
pub(crate) struct DeadlineReader<'a> {
    stream: &'a mut UnixStream,
    deadline: Option<Instant>,
}

impl<'a> DeadlineReader<'a> {
    /// Within so long from now; `None`: without a deadline.
    pub(crate) fn new(stream: &'a mut UnixStream, within: Option<Duration>) -> Self {
        Self {
            stream,
            deadline: within.map(|within| Instant::now() + within),
        }
    }
}

impl Read for DeadlineReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.deadline.is_some_and(|at| Instant::now() > at) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.read(buffer)
    }
}
