//! The daemon's side of the nursery: requests shepherds, hears of their start and end.
//! When the nursery is lost, the daemon is told once, and starts another.

use crate::cgroup::jobs_unit;
use crate::daemon::Event;
use crate::shepherd::nursery::{ANSWER, NurseryMessage, ShepherdSpec};
use crate::sys;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

/// What came from a nursery.
#[derive(Debug)]
pub enum NurseryEvent {
    /// Messages of the nursery, in order.
    Messages(Vec<NurseryMessage>),
    /// The nursery with that process number has ended.
    Lost(i32),
}

/// A shepherd to be started, and for a step the socket to the node above.
#[derive(Debug)]
struct Request {
    spec: ShepherdSpec,
    up: Option<OwnedFd>,
}

/// How shepherds are asked for, also from elsewhere than the daemon's loop. When the
/// nursery is being lost, that event answers.
#[derive(Clone, Debug)]
pub struct ShepherdRequests(mpsc::UnboundedSender<Request>);

impl ShepherdRequests {
    /// Requests a shepherd: without `up` for an attempt's own program, with it for a step.
    pub fn send(&self, spec: ShepherdSpec, up: Option<OwnedFd>) {
        let _ = self.0.send(Request { spec, up });
    }
}

/// What nurseries, and the shepherds that they start, are given.
#[derive(Clone, Debug, Default)]
pub struct NurseryOptions {
    /// Its end is their end.
    pub lifeline: Option<RawFd>,
    /// Control group of the unit that they belong to instead of the daemon's.
    pub jobs_unit: Option<String>,
    /// File that exists while the machine goes down.
    pub shutdown_file: Option<PathBuf>,
}

/// A running nursery.
#[derive(Debug)]
pub struct Nursery {
    pid: i32,
    shepherd_requests: ShepherdRequests,
}

impl Nursery {
    /// Starts one for the attempts below `spool`.
    ///
    /// # Errors
    /// No process can be made, or not where jobs belong: it ends again.
    pub fn start(
        spool: &Path,
        options: &NurseryOptions,
        events: mpsc::Sender<Event>,
    ) -> io::Result<Self> {
        let (own, its) = StdStream::pair()?;
        let file = options.shutdown_file.as_deref();
        let pid = sys::spawn_nursery(spool, its.as_raw_fd(), options.lifeline, file)?;
        if let Some(unit) = &options.jobs_unit {
            jobs_unit::take_in(pid, unit)?;
        }
        let pid = pid.as_raw();
        own.set_nonblocking(true)?;
        let (reading, writing) = UnixStream::from_std(own)?.into_split();
        let (requests, queue) = mpsc::unbounded_channel();
        tokio::spawn(write(writing, queue));
        tokio::spawn(read(reading, pid, events));
        Ok(Self {
            pid,
            shepherd_requests: ShepherdRequests(requests),
        })
    }

    /// Its process number: the parent of its shepherds.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Where requests for shepherds go.
    pub fn shepherd_requests(&self) -> ShepherdRequests {
        self.shepherd_requests.clone()
    }
}

async fn write(socket: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Request>) {
    while let Some(request) = queue.recv().await {
        if send(&socket, &request).await.is_err() {
            return;
        }
    }
}

async fn send(socket: &OwnedWriteHalf, request: &Request) -> io::Result<()> {
    let bytes = request.spec.encode();
    let mut sent = 0;
    while sent < bytes.len() {
        socket.writable().await?;
        let up = request.up.as_ref().filter(|_| sent == 0);
        let stream = socket.as_ref();
        let done = stream.try_io(Interest::WRITABLE, || sys::send_with(stream, &bytes[sent..], up));
        match done {
            Ok(n) => sent += n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

async fn read(mut socket: OwnedReadHalf, pid: i32, events: mpsc::Sender<Event>) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 64 * ANSWER];
    while let Ok(n) = socket.read(&mut chunk).await
        && n > 0
    {
        bytes.extend_from_slice(&chunk[..n]);
        let whole = bytes.len() / ANSWER * ANSWER;
        let messages: Vec<NurseryMessage> = bytes[..whole]
            .chunks(ANSWER)
            .filter_map(NurseryMessage::decode)
            .collect();
        bytes.drain(..whole);
        let event = Event::Nursery(NurseryEvent::Messages(messages));
        if events.send(event).await.is_err() {
            return;
        }
    }
    let _ = events.send(Event::Nursery(NurseryEvent::Lost(pid))).await;
}
