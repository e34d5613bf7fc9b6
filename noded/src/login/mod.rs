//! The socket at which programs that let users in ask which job a session belongs to:
//! `pam_cosy.so` does it for them.
//!
//! Only root may ask, and only for itself: which process is to belong to a job is what the kernel says
//! of the connection. What is asked and answered are a few lines of text ([`words`]), so that what reads
//! them inside of `sshd` is small. What becomes of a session is in [`crate::steps`].

pub mod words;

use crate::relay::accept_each;
use crate::sys;
use cosy_model::Uid;
use nix::unistd::Pid;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use words::{ASK_BYTES, LoginAnswer, LoginAsk};

/// Logins that are decided at once. Whoever comes then is not answered, which is a refusal.
const CONNECTIONS: usize = 64;
/// Asking and taking the answer may take so long: who asks waits no longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Root's alone.
const MODE: u32 = 0o600;

/// A process, which no later one with its number is taken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginProcess {
    /// Its number.
    pub pid: Pid,
    /// When it was started, in ticks since the machine was.
    pub start: u64,
}

impl LoginProcess {
    /// The process that has this number now.
    pub fn find(pid: Pid) -> Option<Self> {
        let start = sys::start_of(pid)?;
        Some(Self { pid, start })
    }

    /// It has not ended.
    pub fn is_there(self) -> bool {
        Self::find(self.pid) == Some(self)
    }
}

/// Somebody logs in.
#[derive(Debug)]
pub struct IncomingLogin {
    stream: UnixStream,
    /// The process that asks, and waits for the answer.
    pub process: LoginProcess,
    /// What it asks.
    pub ask: LoginAsk,
    _place: OwnedSemaphorePermit,
}

impl IncomingLogin {
    /// Answers, elsewhere than on the daemon's loop.
    pub fn answer(mut self, answer: LoginAnswer) {
        tokio::spawn(async move {
            let bytes = answer.encode();
            let _ = tokio::time::timeout(PATIENCE, self.stream.write_all(&bytes)).await;
        });
    }
}

/// The local socket for logins.
#[derive(Debug)]
pub struct LoginSocket {
    path: PathBuf,
}

impl LoginSocket {
    /// Listens at `path`, in the place of a socket that nobody listens at any more.
    ///
    /// # Errors
    /// The path cannot be used, or somebody listens there.
    pub fn listen<E>(path: &Path, events: mpsc::Sender<E>) -> io::Result<Self>
    where
        E: From<IncomingLogin> + Send + 'static,
    {
        let listener = crate::relay::bind_as(path, MODE)?;
        tokio::spawn(accept(listener, events));
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Removes the socket.
    pub fn close(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn accept<E>(listener: UnixListener, events: mpsc::Sender<E>)
where
    E: From<IncomingLogin> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let admit = |stream| {
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            tokio::spawn(take(stream, place, events.clone()));
        }
    };
    accept_each(&listener, || events.is_closed(), admit).await;
}

async fn take<E: From<IncomingLogin>>(
    stream: UnixStream,
    place: OwnedSemaphorePermit,
    events: mpsc::Sender<E>,
) {
    let Ok(Ok(incoming)) = tokio::time::timeout(PATIENCE, read(stream, place)).await else {
        return;
    };
    let _ = events.send(incoming.into()).await;
}

/// # Errors
/// It is not root, asks something else, or has gone.
async fn read(stream: UnixStream, place: OwnedSemaphorePermit) -> io::Result<IncomingLogin> {
    let peer = stream.peer_cred()?;
    if Uid(peer.uid()) != Uid(0) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let pid = peer.pid().filter(|pid| *pid > 0).map(Pid::from_raw);
    let process = pid.and_then(LoginProcess::find);
    let process = process.ok_or(io::ErrorKind::NotFound)?;
    let mut line = String::new();
    let mut reader = BufReader::new(stream);
    (&mut reader).take(ASK_BYTES).read_line(&mut line).await?;
    let ask = LoginAsk::read(&line).ok_or(io::ErrorKind::InvalidData)?;
    let stream = reader.into_inner();
    // Somebody holds the other end: so it is still the process that has connected.
    match stream.try_read(&mut [0]) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(IncomingLogin {
            stream,
            process,
            ask,
            _place: place,
        }),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
