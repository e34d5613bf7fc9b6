//! The `io` socket: where the daemon brings further connections.

use crate::steps::IoPurpose;
use crate::sys;
use cosy_proto::frame::Decoder;
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Name of the socket in the step's directory.
pub const NAME: &str = "io";
/// Longest first frame, in bytes.
const FRAME: usize = 256;
/// Most that have come and not yet said what for.
const NEWCOMERS: usize = 256;

#[derive(Debug)]
struct PendingConnection {
    socket: UnixStream,
    decoder: Decoder,
}

/// The socket, and those who have come and not yet said what for.
#[derive(Debug, Default)]
pub struct IoSocket {
    listener: Option<UnixListener>,
    newcomers: Vec<PendingConnection>,
}

/// A connection that has said what it is for.
#[derive(Debug)]
pub struct IoConnection {
    /// What the connection is for, by its first word.
    pub what: IoPurpose,
    /// The connection, after its first frame.
    pub socket: OwnedFd,
    /// What it has said besides.
    pub already: Vec<u8>,
}

impl IoSocket {
    /// Opens it in the working directory. Only the daemon's own user gets in.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn open() -> io::Result<Self> {
        let _ = std::fs::remove_file(NAME);
        let listener = UnixListener::bind(Path::new(NAME))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: Some(listener),
            newcomers: Vec::new(),
        })
    }

    /// The listening socket, to be polled; `None` when it is not open.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// Connections that have not yet said what they are for, to be polled.
    pub fn newcomers(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.newcomers.iter().map(|n| n.socket.as_fd())
    }

    /// Lets in who waits outside.
    pub fn accept(&mut self) {
        let Some(listener) = &self.listener else {
            return;
        };
        while let Ok((socket, _)) = listener.accept() {
            let peer = getsockopt(&socket, sockopt::PeerCredentials);
            let allowed = peer.is_ok_and(|p| p.uid() == sys::own_uid().0 || p.uid() == 0);
            let there = self.newcomers.len();
            if allowed && there < NEWCOMERS && socket.set_nonblocking(true).is_ok() {
                self.newcomers.push(PendingConnection {
                    socket,
                    decoder: Decoder::new(FRAME),
                });
            }
        }
    }

    /// Listens to the newcomers; gives those who have said what they want.
    pub fn hear(&mut self) -> Vec<IoConnection> {
        let mut docked = Vec::new();
        let mut waiting = Vec::new();
        for mut newcomer in std::mem::take(&mut self.newcomers) {
            match newcomer.hear() {
                FirstFrame::Nothing => waiting.push(newcomer),
                FirstFrame::Gone => {}
                FirstFrame::Said(what) => docked.push(IoConnection {
                    what,
                    already: newcomer.decoder.rest(),
                    socket: newcomer.socket.into(),
                }),
            }
        }
        self.newcomers = waiting;
        docked
    }
}

enum FirstFrame {
    Nothing,
    Gone,
    Said(IoPurpose),
}

impl PendingConnection {
    /// Reads no more than belongs to the first frame, as far as can be known.
    fn hear(&mut self) -> FirstFrame {
        let mut buffer = [0; FRAME];
        match self.socket.read(&mut buffer) {
            Ok(0) => return FirstFrame::Gone,
            Ok(n) => self.decoder.push(&buffer[..n]),
            Err(e) if e.raw_os_error() == Some(Errno::EAGAIN as i32) => return FirstFrame::Nothing,
            Err(_) => return FirstFrame::Gone,
        }
        match self.decoder.next_frame() {
            Ok(None) => FirstFrame::Nothing,
            Ok(Some(body)) => {
                cosy_proto::frame::decode(body).map_or(FirstFrame::Gone, FirstFrame::Said)
            }
            Err(_) => FirstFrame::Gone,
        }
    }
}
