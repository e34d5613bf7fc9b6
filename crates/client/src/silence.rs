//! Where the controller that was asked is silent: a look whether another one leads.
//!
//! A controller that was stopped, or whose host swaps, still has its socket: connecting succeeds, and
//! nothing comes. It is asked anew, on a connection of its own, whether it is there at all: one that is
//! only slow with a request is waited for, and has the request once. Only where it is not, the other
//! sockets are asked who leads, and the request goes there. A controller that cannot answer now, because
//! its database does not, says so: the user is told, and the request is waited for.

mod look;
mod said;

pub use look::{Rhythm, Watch};

use crate::cluster;
use crate::wire::{DeadlineReader, decode_reply, request_frame};
use cosy_model::api::{Reply, Request};
use cosy_model::limits::FRAME_BYTES;
use cosy_proto::frame;
use rustix::net::RecvFlags;
use said::{Said, said};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time between two looks. In between it doubles: thousands of commands may wait.
const LONGEST: Duration = Duration::from_secs(60);
/// Shortest wait: a timeout of nothing would be none.
const SHORTEST: Duration = Duration::from_millis(1);

/// When a command whose controller is silent looks elsewhere; only where there are several sockets.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    /// After so long without an answer for the first time.
    pub after: Duration,
    /// How long a look waits for the word of each controller.
    pub wait: Duration,
}

impl Looks {
    /// As all commands do.
    pub const USUAL: Self = Self {
        after: Duration::from_secs(3),
        wait: Duration::from_millis(1500),
    };
}

/// Why a controller is not waited for any longer.
pub(crate) enum Failed {
    /// The system's error; `TimedOut` when the wait is over.
    System(io::Error),
    /// Behind the socket of this number one leads.
    LedBy(usize),
}

/// The sockets, and which of them is asked.
pub(crate) struct Ways<'a> {
    sockets: &'a [PathBuf],
    current: usize,
    looks: Looks,
    notice: &'a mut dyn FnMut(&str),
}

/// How long a silent controller is waited for.
struct Silence {
    until: Option<Instant>,
    /// When to look.
    look: Instant,
    between: Duration,
    /// The user has been told why.
    told: bool,
}

impl Silence {
    /// Until the next thing is to be done.
    fn slice(&self) -> Duration {
        let next = self.until.map_or(self.look, |until| until.min(self.look));
        next.saturating_duration_since(Instant::now()).max(SHORTEST)
    }
}

impl<'a> Ways<'a> {
    pub(crate) fn new(
        (sockets, current): (&'a [PathBuf], usize),
        looks: Looks,
        notice: &'a mut dyn FnMut(&str),
    ) -> Self {
        Self {
            sockets,
            current,
            looks,
            notice,
        }
    }

    fn silence(&self, limit: Option<Duration>) -> Silence {
        let now = Instant::now();
        let between = self.looks.after;
        Silence {
            until: limit.map(|limit| now + limit),
            look: now + between,
            between,
            told: false,
        }
    }

    /// Nothing came for a slice.
    ///
    /// # Errors
    /// The wait is over, or another one leads.
    fn still_silent(&mut self, silence: &mut Silence) -> Result<(), Failed> {
        if silence.look <= Instant::now() {
            let said = self.ask(self.current);
            if let Said::CannotAnswer(why) = &said
                && !std::mem::replace(&mut silence.told, true)
            {
                (self.notice)(&format!("{why}; still waiting"));
            }
            if said != Said::Leads
                && let Some(leader) = self.leads_elsewhere()
            {
                return Err(Failed::LedBy(leader));
            }
            silence.look = Instant::now() + silence.between;
            silence.between = (2 * silence.between).min(LONGEST);
        }
        match silence.until.is_some_and(|at| at <= Instant::now()) {
            true => Err(Failed::System(io::ErrorKind::TimedOut.into())),
            false => Ok(()),
        }
    }

    /// Connects to the current socket.
    pub(crate) fn connect(&mut self, limit: Duration) -> Result<UnixStream, Failed> {
        let sockets = self.sockets;
        let path = sockets.get(self.current).map_or(Path::new(""), |path| path);
        let mut silence = self.silence(Some(limit));
        loop {
            match cluster::connect(path, silence.slice()) {
                Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                    let still = self.still_silent(&mut silence);
                    still.map_err(|why| match why {
                        // It says what the socket does not do.
                        Failed::System(_) => Failed::System(e),
                        led => led,
                    })?;
                }
                connected => return connected.map_err(Failed::System),
            }
        }
    }

    /// Writes a frame.
    pub(crate) fn write(
        &mut self,
        stream: &mut UnixStream,
        frame: &[u8],
        limit: Duration,
    ) -> Result<(), Failed> {
        let mut silence = self.silence(Some(limit));
        let mut left = frame;
        while !left.is_empty() {
            let slice = silence.slice();
            let written = stream
                .set_write_timeout(Some(slice))
                .and_then(|()| stream.write(left));
            match written {
                Ok(0) => return Err(Failed::System(io::ErrorKind::WriteZero.into())),
                Ok(n) => left = left.get(n..).unwrap_or_default(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if is_silence(&e) => self.still_silent(&mut silence)?,
                Err(e) => return Err(Failed::System(e)),
            }
        }
        Ok(())
    }

    /// Waits for the first byte of an answer, or for the end of the connection.
    pub(crate) fn await_answer(
        &mut self,
        stream: &UnixStream,
        limit: Option<Duration>,
    ) -> Result<(), Failed> {
        let mut silence = self.silence(limit);
        loop {
            stream
                .set_read_timeout(Some(silence.slice()))
                .map_err(Failed::System)?;
            let mut byte = [0];
            let seen = rustix::net::recv(stream, &mut byte[..], RecvFlags::PEEK);
            match seen.map_err(io::Error::from) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if is_silence(&e) => self.still_silent(&mut silence)?,
                // What it is, reading tells.
                Ok(_) | Err(_) => return Ok(()),
            }
        }
    }

    /// Another socket behind which a controller leads.
    fn leads_elsewhere(&self) -> Option<usize> {
        (0..self.sockets.len()).find(|at| *at != self.current && self.ask(*at) == Said::Leads)
    }

    fn ask(&self, socket: usize) -> Said {
        let path = self.sockets.get(socket);
        said(path.and_then(|path| ping(path, self.looks.wait.max(SHORTEST))))
    }
}

/// What is said to a ping there, within so long; `None`: nothing that can be read.
fn ping(path: &Path, wait: Duration) -> Option<Reply> {
    let mut stream = cluster::connect(path, wait).ok()?;
    stream.set_write_timeout(Some(wait)).ok()?;
    stream.set_read_timeout(Some(wait)).ok()?;
    let frame = frame::encode(&request_frame(Request::Ping, None), FRAME_BYTES).ok()?;
    stream.write_all(&frame).ok()?;
    let mut reader = DeadlineReader::new(&mut stream, Some(wait));
    let answer = frame::read_with(&mut reader, FRAME_BYTES, decode_reply).ok()??;
    Some(answer.ok()?.reply)
}

fn is_silence(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
