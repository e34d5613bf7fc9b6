//! The daemon's side of the nursery: asks for shepherds, hears of their birth and end.
//! When the nursery is lost, the daemon is told once, and starts another.

use crate::daemon::Event;
use crate::shepherd::nursery::{ANSWER, Told, encode_request};
use crate::sys;
use cosy_model::node::AttemptKey;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

/// What came from a nursery.
#[derive(Debug)]
pub enum NurseryEvent {
    /// Told, in order.
    Told(Vec<Told>),
    /// The nursery with that process number has ended.
    Lost(i32),
}

/// A running nursery.
#[derive(Debug)]
pub struct Nursery {
    pid: i32,
    requests: mpsc::UnboundedSender<AttemptKey>,
}

impl Nursery {
    /// Starts one for the attempts below `spool`.
    ///
    /// # Errors
    /// No process can be made.
    pub fn start(
        spool: &Path,
        lifeline: Option<RawFd>,
        events: mpsc::Sender<Event>,
    ) -> io::Result<Self> {
        let (own, its) = StdStream::pair()?;
        let pid = sys::spawn_nursery(spool, its.as_raw_fd(), lifeline)?.as_raw();
        own.set_nonblocking(true)?;
        let (reading, writing) = UnixStream::from_std(own)?.into_split();
        let (requests, queue) = mpsc::unbounded_channel();
        tokio::spawn(write(writing, queue));
        tokio::spawn(read(reading, pid, events));
        Ok(Self { pid, requests })
    }

    /// Its process number: the parent of its shepherds.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Asks for a shepherd. When the nursery is being lost, that event answers.
    pub fn ask(&self, key: AttemptKey) {
        let _ = self.requests.send(key);
    }
}

async fn write(mut socket: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<AttemptKey>) {
    while let Some(key) = queue.recv().await {
        let mut bytes = encode_request(key).to_vec();
        while let Ok(key) = queue.try_recv() {
            bytes.extend(encode_request(key));
        }
        if socket.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read(mut socket: OwnedReadHalf, pid: i32, events: mpsc::Sender<Event>) {
    let mut bytes = Vec::new();
    let mut chunk = [0; 64 * ANSWER];
    while let Ok(n) = socket.read(&mut chunk).await
        && n > 0
    {
        bytes.extend_from_slice(&chunk[..n]);
        let whole = bytes.len() / ANSWER * ANSWER;
        let told: Vec<Told> = bytes[..whole]
            .chunks(ANSWER)
            .filter_map(Told::decode)
            .collect();
        bytes.drain(..whole);
        let event = Event::Nursery(NurseryEvent::Told(told));
        if events.send(event).await.is_err() {
            return;
        }
    }
    let _ = events.send(Event::Nursery(NurseryEvent::Lost(pid))).await;
}
