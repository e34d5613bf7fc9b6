//! Frames as they go out and come in.

use crate::cluster;
use cosy_model::api::Request;
use cosy_proto::client::{self, ReplyFrame, RequestFrame, RequestKey};
use cosy_proto::frame::{self, FrameError};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

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
