//! The nursery, which starts shepherds: a process of one thread that forks one for each request.
//!
//! A program as large as this one costs several times as much to execute as a process
//! costs to fork (0.8 ms against 0.15 ms of CPU, measured), and the daemon itself, with
//! its event loop, must never fork. So the daemon executes the program once more, as the
//! nursery, and the nursery forks shepherds. It knows nothing but the node's spool
//! directory; it ends when the daemon does, and shepherds do not care.
//!
//! Both directions of the socket carry records of fixed size, little endian:
//! request `job u64, attempt u32, step u32` (the largest number: no step, the attempt's
//! own program); answer `kind u32, pid i32`, then as the request. With a request for a
//! step comes one descriptor, the step's way up (SCM_RIGHTS), in the order of requests.

use super::signals::Signals;
use crate::sys::{self, Fork, Reap};
use crate::{spool, steps};
use cosy_model::node::{AllocationKey, AttemptKey};
use cosy_model::step::StepId;
use cosy_model::{Attempt, JobId, limits};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Bytes of a request.
pub const REQUEST: usize = 16;
/// Bytes of an answer.
pub const ANSWER: usize = 24;
const NO_STEP: u32 = u32::MAX;

/// What a shepherd is started for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ShepherdSpec {
    /// The attempt that the shepherd is to look after.
    pub attempt: AllocationKey,
    /// The step; without: the attempt's own program.
    pub step: Option<StepId>,
}

impl ShepherdSpec {
    const NOBODY: Self = Self {
        attempt: AllocationKey::Job(AttemptKey {
            job: JobId(0),
            attempt: Attempt(0),
        }),
        step: None,
    };

    /// The request as it goes over the socket, numbers in little-endian order.
    pub fn encode(self) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        bytes[..8].copy_from_slice(&self.attempt.number().to_le_bytes());
        bytes[8..12].copy_from_slice(&self.attempt.attempt().0.to_le_bytes());
        let step = self.step.map_or(NO_STEP, |s| s.0);
        bytes[12..].copy_from_slice(&step.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let step = u32::from_le_bytes(*bytes.get(12..)?.first_chunk()?);
        Some(Self {
            attempt: AllocationKey::numbered(
                u64::from_le_bytes(*bytes.first_chunk()?),
                Attempt(u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?)),
            ),
            step: (step != NO_STEP).then_some(StepId(step)),
        })
    }
}

/// What the nursery tells the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NurseryMessage {
    /// A shepherd was started for that, with this process id.
    Started(ShepherdSpec, i32),
    /// The shepherd with this process id has ended.
    Ended(i32),
    /// No process could be made: the error number.
    Failed(ShepherdSpec, i32),
}

impl NurseryMessage {
    /// The answer as it goes over the socket, numbers in little-endian order.
    pub fn encode(self) -> [u8; ANSWER] {
        let (kind, number, spec) = match self {
            Self::Started(spec, pid) => (1u32, pid, spec),
            Self::Ended(pid) => (2, pid, ShepherdSpec::NOBODY),
            Self::Failed(spec, errno) => (3, errno, spec),
        };
        let mut bytes = [0; ANSWER];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..].copy_from_slice(&spec.encode());
        bytes
    }

    /// Reads an answer; `None` when the bytes are too few or of no known kind.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let kind = u32::from_le_bytes(*bytes.first_chunk()?);
        let number = i32::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
        let spec = ShepherdSpec::decode(bytes.get(8..)?)?;
        match kind {
            1 => Some(Self::Started(spec, number)),
            2 => Some(Self::Ended(number)),
            3 => Some(Self::Failed(spec, number)),
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
    let mut requests = Requests::default();
    loop {
        let polled = [socket.as_fd(), signals.as_fd()];
        let mut polled = polled.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let _ = nix::poll::poll(&mut polled, PollTimeout::NONE);
        let [requested, signalled] = polled.map(|fd| fd.revents().is_some_and(|r| !r.is_empty()));
        if signalled {
            while signals.next().is_some() {}
            tell_ended(&mut socket)?;
        }
        if requested {
            let mut chunk = [0; REQUEST * 64];
            match sys::receive(&socket, &mut chunk, &mut requests.ways_up)? {
                0 => return Ok(()),
                n => requests.bytes.extend_from_slice(&chunk[..n]),
            }
            start_all(&mut requests, &mut socket, directory, lifeline)?;
        }
    }
}

/// What has come of requests.
#[derive(Default)]
struct Requests {
    bytes: Vec<u8>,
    ways_up: VecDeque<OwnedFd>,
}

impl Requests {
    fn next(&mut self) -> Option<ShepherdSpec> {
        let spec = ShepherdSpec::decode(self.bytes.get(..REQUEST)?)?;
        self.bytes.drain(..REQUEST);
        Some(spec)
    }
}

fn tell_ended(socket: &mut UnixStream) -> std::io::Result<()> {
    let mut messages = Vec::new();
    while let Reap::One(reaped) = sys::reap() {
        messages.extend(NurseryMessage::Ended(reaped.pid.as_raw()).encode());
    }
    socket.write_all(&messages)
}

fn start_all(
    requests: &mut Requests,
    socket: &mut UnixStream,
    directory: &Path,
    lifeline: bool,
) -> std::io::Result<()> {
    while let Some(spec) = requests.next() {
        let up = match spec.step {
            Some(_) => requests.ways_up.pop_front(),
            None => None,
        };
        let message = if spec.step.is_some() && up.is_none() {
            NurseryMessage::Failed(spec, libc::EBADF)
        } else {
            start(spec, up, directory, lifeline)
        };
        socket.write_all(&message.encode())?;
    }
    Ok(())
}

fn start(
    spec: ShepherdSpec,
    up: Option<OwnedFd>,
    directory: &Path,
    lifeline: bool,
) -> NurseryMessage {
    let group = group_of(spec, directory);
    // SAFETY: the nursery has one thread.
    let forked = match unsafe { sys::fork_into(group.as_ref().map(AsRawFd::as_raw_fd)) } {
        // The group has gone, or the kernel cannot start a process in one.
        // SAFETY: as before.
        Err(_) if group.is_some() => unsafe { sys::fork_into(None) },
        forked => forked,
    };
    match forked {
        Ok(Fork::Child) => become_shepherd(spec, up, directory, lifeline),
        Ok(Fork::Parent(pid)) => NurseryMessage::Started(spec, pid.as_raw()),
        Err(e) => NurseryMessage::Failed(spec, e.raw_os_error().unwrap_or(0)),
    }
}

/// The control group that the daemon has made for the supervisors of an attempt's steps.
fn group_of(spec: ShepherdSpec, directory: &Path) -> Option<File> {
    spec.step?;
    File::open(
        directory
            .join(spool::name_of(spec.attempt))
            .join(spool::KEEP),
    )
    .ok()
}

/// The daemon is protected where memory is short; a shepherd works for a job, and is
/// not. Its tasks go before it.
fn lose_protection() {
    const SCORE: &str = "/proc/self/oom_score_adj";
    let own = std::fs::read_to_string(SCORE).ok();
    let own: Option<i32> = own.and_then(|text| text.trim().parse().ok());
    if own.is_some_and(|own| own < limits::SUPERVISOR_OOM_SCORE) {
        let _ = std::fs::write(SCORE, limits::SUPERVISOR_OOM_SCORE.to_string());
    }
}

/// The new shepherd: a session of its own, nothing of the nursery's.
fn become_shepherd(spec: ShepherdSpec, up: Option<OwnedFd>, directory: &Path, lifeline: bool) -> ! {
    let _ = nix::unistd::setsid();
    lose_protection();
    let up = up.map(IntoRawFd::into_raw_fd);
    // SAFETY: this function never returns to those that own the socket and the signals.
    let up = unsafe { sys::keep_only(up) };
    let name = spool::name_of(spec.attempt);
    let shown = match spec.step {
        Some(step) => format!("cosy:{}.{step}", spec.attempt.number()),
        None => format!("cosy:{name}"),
    };
    if let Ok(shown) = std::ffi::CString::new(shown) {
        let _ = nix::sys::prctl::set_name(&shown);
    }
    let directory = directory.join(name);
    match (spec.step, up) {
        (Some(step), Some(up)) => {
            super::step::run_and_exit(&directory.join(steps::directory_name(step)), lifeline, up)
        }
        _ => super::run_and_exit(&directory, lifeline),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let attempt = AllocationKey::numbered(1 << 40, Attempt(3));
        for step in [None, Some(StepId(7))] {
            let spec = ShepherdSpec { attempt, step };
            assert_eq!(ShepherdSpec::decode(&spec.encode()), Some(spec));
            for message in [
                NurseryMessage::Started(spec, 77),
                NurseryMessage::Failed(spec, 11),
                NurseryMessage::Ended(5),
            ] {
                let back = NurseryMessage::decode(&message.encode());
                assert_eq!(back, Some(message));
            }
        }
        assert_eq!(NurseryMessage::decode(&[9; ANSWER]), None);
    }
}
