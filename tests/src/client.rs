//! The protocol of commands, spoken directly.

use cosy_model::api::{JobField, JobFilter, JobRef, Reply, Request, Submission, Table};
use cosy_model::{JobId, Refusal, Uid};
use cosy_proto::client::{ReplyFrame, RequestFrame, RequestKey};
use cosy_proto::frame;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// An answer that takes longer does not come.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Largest answer that is read, in bytes.
const ANSWER_BYTES: usize = 1 << 30;

/// A connection to a controller or to a node daemon that passes requests on.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
}

/// A key for a request.
///
/// # Panics
/// Never: there is randomness.
pub fn new_key() -> RequestKey {
    let hex = cosy_proto::keys::random_hex(16).expect("randomness");
    let mut key = [0; 16];
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("two hex digits");
    }
    RequestKey(key)
}

/// What the controller behind a socket says to a ping; one that stands still says nothing.
pub fn pong(socket: &Path) -> Option<Reply> {
    Client::impatient(socket).ok()?.ask(Request::Ping).ok()
}

/// Whether the controller behind a socket leads, and answers.
pub fn leads(socket: &Path) -> bool {
    matches!(pong(socket), Some(Reply::Pong { .. }))
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// Those of the system.
    pub fn connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream })
    }

    /// Connects; an answer that takes longer than a second is not waited for.
    ///
    /// # Errors
    /// Those of the system.
    pub fn impatient(socket: &Path) -> io::Result<Self> {
        let client = Self::connect(socket)?;
        client
            .stream
            .set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(client)
    }

    /// Asks; a request that changes something gets a new key.
    ///
    /// # Errors
    /// The connection broke, or what came was no answer.
    pub fn ask(&mut self, request: Request) -> io::Result<Reply> {
        let key = request.changes().then(new_key);
        self.ask_with(request, key)
    }

    /// Asks with a key of the caller's.
    ///
    /// # Errors
    /// The connection broke, or what came was no answer.
    pub fn ask_with(&mut self, request: Request, key: Option<RequestKey>) -> io::Result<Reply> {
        // There may be a refusal to read also where writing failed.
        let sent = self.send(request, key);
        let answer = self.receive();
        match sent {
            Err(e) if answer.is_err() => Err(e),
            _ => answer,
        }
    }

    /// Asks, and waits for no answer.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&mut self, request: Request, key: Option<RequestKey>) -> io::Result<()> {
        let ask = RequestFrame::new(request, key);
        frame::write(&mut self.stream, &ask, usize::MAX >> 1)
            .map_err(|e| io::Error::other(e.to_string()))
    }

    /// Asks for another user.
    ///
    /// # Errors
    /// The connection broke, or what came was no answer.
    pub fn ask_for(&mut self, user: Uid, request: Request) -> io::Result<Reply> {
        let key = request.changes().then(new_key);
        let ask = RequestFrame {
            for_user: Some(user),
            ..RequestFrame::new(request, key)
        };
        frame::write(&mut self.stream, &ask, usize::MAX >> 1)
            .map_err(|e| io::Error::other(e.to_string()))?;
        self.receive()
    }

    /// Asks one that may stand by, and waits for no answer.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send_stale(&mut self, request: Request) -> io::Result<()> {
        let ask = RequestFrame {
            stale_ok: true,
            ..RequestFrame::new(request, None)
        };
        frame::write(&mut self.stream, &ask, usize::MAX >> 1)
            .map_err(|e| io::Error::other(e.to_string()))
    }

    /// The answer to what was asked.
    ///
    /// # Errors
    /// The connection broke, or what came was no answer.
    pub fn receive(&mut self) -> io::Result<Reply> {
        match frame::read::<ReplyFrame>(&mut self.stream, ANSWER_BYTES) {
            Ok(Some(answer)) => Ok(answer.reply),
            Ok(None) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(e) => Err(io::Error::other(e.to_string())),
        }
    }

    /// Whether an answer, or its beginning, has come.
    ///
    /// # Errors
    /// Those of the system.
    pub fn has_answer(&self) -> io::Result<bool> {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        use std::os::fd::AsFd;
        let mut ends = [PollFd::new(self.stream.as_fd(), PollFlags::POLLIN)];
        Ok(poll(&mut ends, PollTimeout::ZERO)? > 0)
    }

    /// Submits; the id, or the refusal.
    ///
    /// # Errors
    /// The connection broke, or what came was no answer.
    pub fn submit(&mut self, submission: &Submission) -> io::Result<Result<JobId, Refusal>> {
        self.submit_with(submission, new_key())
    }

    /// Submits with a key of the caller's.
    ///
    /// # Errors
    /// The connection broke, or what came was no answer.
    pub fn submit_with(
        &mut self,
        submission: &Submission,
        key: RequestKey,
    ) -> io::Result<Result<JobId, Refusal>> {
        match self.ask_with(Request::Submit(Box::new(submission.clone())), Some(key))? {
            Reply::Submitted { job, .. } => Ok(Ok(job)),
            Reply::Refused(refusal) => Ok(Err(refusal)),
            other => Err(io::Error::other(format!("not an answer to this: {other:?}"))),
        }
    }

    /// One job with all fields (a row for each task of an array).
    ///
    /// # Errors
    /// The connection broke, or it was refused.
    pub fn explain(&mut self, job: JobRef) -> io::Result<(Table, Vec<String>)> {
        match self.ask(Request::Explain { job })? {
            Reply::Explained { table, lines } => Ok((table, lines)),
            other => Err(io::Error::other(format!("{other:?}"))),
        }
    }

    /// Jobs in memory.
    ///
    /// # Errors
    /// The connection broke, or it was refused.
    pub fn jobs(&mut self, filter: JobFilter) -> io::Result<Table> {
        let fields = JobField::ALL.to_vec();
        let request = Request::Jobs {
            filter,
            fields,
            fold_arrays: false,
        };
        self.list(request)
    }

    /// A list as commands ask for it: page by page.
    ///
    /// # Errors
    /// The connection broke, or it was refused.
    pub fn list(&mut self, request: Request) -> io::Result<Table> {
        let broken = |e: io::Error| cosy_client::CallError::Lost {
            path: String::new(),
            why: e.to_string(),
            seconds: 0,
            outcome: "",
        };
        let ask = |request| match self.ask(request).map_err(broken)? {
            Reply::Refused(refusal) => Err(cosy_client::CallError::Refused(refusal)),
            reply => Ok(reply),
        };
        cosy_client::pages::jobs(ask, request).map_err(io::Error::other)
    }

    /// Jobs in the store.
    ///
    /// # Errors
    /// The connection broke, or it was refused.
    pub fn history(&mut self, filter: JobFilter) -> io::Result<Table> {
        let fields = JobField::ALL.to_vec();
        self.list(Request::History { filter, fields })
    }

    /// The stream, for those who write what is no message.
    pub fn stream(&mut self) -> &mut UnixStream {
        &mut self.stream
    }
}
