//! A connection that carries frames of a step: to the command, to the supervisor above,
//! to a supervisor below, or to somebody who looks on. Never waits.

use super::queue::{Bytes, Queue};
use cosy_proto::frame::FrameError;
use cosy_proto::step::{self, StepFrame};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

/// Room for bytes under way in a socket, as far as the kernel lets us.
const SOCKET: usize = 1 << 20;

/// One frame that came in.
#[derive(Debug)]
pub struct ReceivedFrame {
    /// As it came, with its header.
    pub raw: Bytes,
    /// True for output of a task, which is passed on as it is.
    pub is_output: bool,
}

impl ReceivedFrame {
    /// What it says.
    ///
    /// # Errors
    /// It is no frame.
    pub fn frame(&self) -> Result<StepFrame, FrameError> {
        match step::first(&self.raw)? {
            Some((frame, _)) => Ok(frame),
            None => Err(FrameError::Truncated),
        }
    }
}

/// A connection, or the place of one that broke.
#[derive(Debug)]
pub struct FrameSocket {
    socket: Option<OwnedFd>,
    /// What is to be sent.
    pub queue: Queue,
    incoming: Vec<u8>,
    start: usize,
    /// Since when there is no connection.
    pub broken_since: Instant,
    /// The first frame on this connection has not come yet.
    pub fresh: bool,
}

impl FrameSocket {
    /// A socket that is not connected yet, and what waits to be sent.
    pub fn new(queue: Queue) -> Self {
        Self {
            socket: None,
            queue,
            incoming: Vec::new(),
            start: 0,
            broken_since: Instant::now(),
            fresh: true,
        }
    }

    /// Goes on over this connection, on which `already` was read.
    ///
    /// # Errors
    /// The descriptor is none that can be used.
    pub fn connect(&mut self, socket: OwnedFd, already: Vec<u8>) -> io::Result<()> {
        nix::fcntl::fcntl(&socket, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        nix::fcntl::fcntl(&socket, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let room = nix::sys::socket::sockopt::SndBuf;
        let _ = nix::sys::socket::setsockopt(&socket, room, &SOCKET);
        self.socket = Some(socket);
        (self.incoming, self.start, self.fresh) = (already, 0, true);
        self.queue.connected();
        Ok(())
    }

    /// There is a connection.
    pub fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// The connection's descriptor.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Gives the connection up.
    pub fn disconnect(&mut self) {
        if self.socket.take().is_some() {
            self.broken_since = Instant::now();
        }
        self.incoming = Vec::new();
        self.start = 0;
    }

    /// Writes what can be written. When that fails there is no connection any more.
    pub fn flush(&mut self) {
        while let Some(socket) = &self.socket
            && self.queue.wants_to_write()
        {
            match nix::sys::uio::writev(socket, &self.queue.pieces()) {
                Ok(n) => self.queue.written(n),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                Err(_) => return self.disconnect(),
            }
        }
    }

    /// Reads once what can be read. At its end there is no connection any more; what was
    /// read before is still to be looked at.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        let Some(socket) = &self.socket else {
            return;
        };
        match nix::unistd::read(socket, buffer) {
            Ok(0) => self.end_of_input(),
            Ok(n) => self.incoming.extend_from_slice(&buffer[..n]),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => self.end_of_input(),
        }
    }

    /// Forgets what was read.
    pub fn forget_incoming(&mut self) {
        self.incoming.clear();
        self.start = 0;
    }

    fn end_of_input(&mut self) {
        self.socket = None;
        self.broken_since = Instant::now();
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// What came is no frame.
    pub fn next(&mut self) -> Result<Option<ReceivedFrame>, FrameError> {
        let waiting = &self.incoming[self.start..];
        let Some((kind, body)) = step::first_raw(waiting)? else {
            self.incoming.drain(..self.start);
            self.start = 0;
            return Ok(None);
        };
        let length = step::HEADER + body.len();
        let raw = Rc::new(waiting[..length].to_vec());
        self.start += length;
        Ok(Some(ReceivedFrame {
            raw,
            is_output: kind == step::OUTPUT,
        }))
    }
}

/// A frame as bytes; nothing for one that is too long.
pub fn encode(frame: &StepFrame) -> Option<Bytes> {
    let mut bytes = Vec::new();
    step::put(&mut bytes, frame).ok()?;
    Some(Rc::new(bytes))
}
