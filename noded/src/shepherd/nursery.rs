//! Where shepherds are born: a process of one thread that forks one for each request.
//!
//! A program as large as this one costs several times as much to execute as a process
//! costs to fork (0.8 ms against 0.15 ms of CPU, measured), and the daemon itself, with
//! its event loop, must never fork. So the daemon executes the program once more, as the
//! nursery, and the nursery forks shepherds. It knows nothing but the node's spool
//! directory; it ends when the daemon does, and shepherds do not care.
//!
//! Both directions of the socket carry records of fixed size, little endian:
//! request `job u64, attempt u32`; answer `kind u32, pid i32, job u64, attempt u32`.

use super::signals::Signals;
use crate::spool;
use crate::sys::{self, Fork, Reap};
use cosy_model::node::AttemptKey;
use cosy_model::{Attempt, JobId};
use nix::poll::{PollFd, PollFlags, PollTimeout};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Bytes of a request.
pub const REQUEST: usize = 12;
/// Bytes of an answer.
pub const ANSWER: usize = 20;

/// What the nursery tells the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// A shepherd for that attempt was born.
    Born(AttemptKey, i32),
    /// A shepherd has ended.
    Ended(i32),
    /// No process could be made: the error number.
    Failed(AttemptKey, i32),
}

/// A request as bytes.
pub fn encode_request(key: AttemptKey) -> [u8; REQUEST] {
    let mut bytes = [0; REQUEST];
    bytes[..8].copy_from_slice(&key.job.0.to_le_bytes());
    bytes[8..].copy_from_slice(&key.attempt.0.to_le_bytes());
    bytes
}

fn key_in(bytes: &[u8]) -> Option<AttemptKey> {
    Some(AttemptKey {
        job: JobId(u64::from_le_bytes(*bytes.first_chunk()?)),
        attempt: Attempt(u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?)),
    })
}

impl Told {
    /// As bytes.
    pub fn encode(self) -> [u8; ANSWER] {
        let nobody = AttemptKey {
            job: JobId(0),
            attempt: Attempt(0),
        };
        let (kind, number, key) = match self {
            Self::Born(key, pid) => (1u32, pid, key),
            Self::Ended(pid) => (2, pid, nobody),
            Self::Failed(key, errno) => (3, errno, key),
        };
        let mut bytes = [0; ANSWER];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..].copy_from_slice(&encode_request(key));
        bytes
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let kind = u32::from_le_bytes(*bytes.first_chunk()?);
        let number = i32::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
        let key = key_in(bytes.get(8..)?)?;
        match kind {
            1 => Some(Self::Born(key, number)),
            2 => Some(Self::Ended(number)),
            3 => Some(Self::Failed(key, number)),
            _ => None,
        }
    }
}

/// Runs the nursery of the node whose spool is `directory` until the daemon ends.
pub fn run_and_exit(directory: &Path, lifeline: bool) -> ! {
    let code = i32::from(serve(directory, lifeline).is_err());
    sys::exit_now(code)
}

fn serve(directory: &Path, lifeline: bool) -> std::io::Result<()> {
    let mut socket = UnixStream::from(sys::inherited(sys::NURSERY_SOCKET)?);
    // Jobs inherit default actions from here; so none of them has to set them.
    sys::default_actions();
    let signals = Signals::open()?;
    let _ = nix::sys::prctl::set_name(c"cosy-nursery");
    let mut waiting = Vec::new();
    loop {
        let wanted = [socket.as_fd(), signals.as_fd()];
        let mut wanted = wanted.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let _ = nix::poll::poll(&mut wanted, PollTimeout::NONE);
        let [asked, signalled] = wanted.map(|fd| fd.revents().is_some_and(|r| !r.is_empty()));
        if signalled {
            while signals.next().is_some() {}
            tell_ended(&mut socket)?;
        }
        if asked {
            let mut chunk = [0; REQUEST * 64];
            match socket.read(&mut chunk)? {
                0 => return Ok(()),
                n => waiting.extend_from_slice(&chunk[..n]),
            }
            bear_all(&mut waiting, &mut socket, directory, lifeline)?;
        }
    }
}

fn tell_ended(socket: &mut UnixStream) -> std::io::Result<()> {
    let mut told = Vec::new();
    while let Reap::One(reaped) = sys::reap() {
        told.extend(Told::Ended(reaped.pid.as_raw()).encode());
    }
    socket.write_all(&told)
}

fn bear_all(
    waiting: &mut Vec<u8>,
    socket: &mut UnixStream,
    directory: &Path,
    lifeline: bool,
) -> std::io::Result<()> {
    let whole = waiting.len() / REQUEST * REQUEST;
    for key in waiting[..whole].chunks(REQUEST).filter_map(key_in) {
        // SAFETY: the nursery has one thread.
        let told = match unsafe { sys::fork_into(None) } {
            Ok(Fork::Child) => grow_up(key, directory, lifeline),
            Ok(Fork::Parent(pid)) => Told::Born(key, pid.as_raw()),
            Err(e) => Told::Failed(key, e.raw_os_error().unwrap_or(0)),
        };
        socket.write_all(&told.encode())?;
    }
    waiting.drain(..whole);
    Ok(())
}

/// The new shepherd: a session of its own, nothing of the nursery's.
fn grow_up(key: AttemptKey, directory: &Path, lifeline: bool) -> ! {
    let _ = nix::unistd::setsid();
    // SAFETY: this function never returns to those that own the socket and the signals.
    unsafe { sys::close_from(sys::NURSERY_SOCKET) };
    let name = spool::name_of(key);
    if let Ok(shown) = std::ffi::CString::new(format!("cosy:{name}")) {
        let _ = nix::sys::prctl::set_name(&shown);
    }
    super::run_and_exit(&directory.join(name), lifeline)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let key = AttemptKey {
            job: JobId(1 << 40),
            attempt: Attempt(3),
        };
        assert_eq!(key_in(&encode_request(key)), Some(key));
        for told in [Told::Born(key, 77), Told::Failed(key, 11), Told::Ended(5)] {
            let back = Told::decode(&told.encode());
            assert_eq!(back, Some(told));
        }
        assert_eq!(Told::decode(&[9; ANSWER]), None);
    }
}
