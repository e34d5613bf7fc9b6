//! One request to the controller and its answer, also when the connection is lost in between.
//!
//! After a loss (a restart of the controller) the same request is sent again for a while; one that
//! changes something carries the same key each time, so that it is carried out once. Nothing here
//! waits forever, except for an answer to [`Request::Wait`].

use crate::cluster;
use cosy_model::api::{Reply, Request};
use cosy_model::limits::FRAME_BYTES;
use cosy_model::{Refusal, RefusalCode};
use cosy_proto::client::{self, ReplyFrame, RequestFrame, RequestKey};
use cosy_proto::frame::{self, FrameError};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Why a request has no answer, or was refused.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody listens at the socket.
    #[error("cannot reach the controller at {path}: {cause}; is cosyd running?")]
    Unreachable {
        /// The socket that was tried.
        path: String,
        /// The system's error.
        cause: io::Error,
    },
    /// The connection was lost before the answer, and the controller not reached again in time.
    #[error(
        "lost the controller at {path} ({why}) and could not reach it again within {seconds} s{outcome}"
    )]
    Lost {
        /// The socket that was tried.
        path: String,
        /// The error of the last attempt.
        why: String,
        /// How long the controller was tried again.
        seconds: u64,
        /// End of the sentence for a request that changes something: that its outcome is unknown.
        outcome: &'static str,
    },
    /// What came is no frame of this protocol.
    #[error("the controller at {path} gave no understandable answer: {cause}")]
    Garbage {
        /// The socket that was tried.
        path: String,
        /// Why the frame cannot be read.
        cause: FrameError,
    },
    /// The releases of controller and program are too far apart.
    #[error(
        "the controller speaks protocol version {theirs}, this program {ours}: use programs of one release",
        ours = cosy_proto::PROTOCOL
    )]
    Version {
        /// Protocol version of the controller.
        theirs: u32,
    },
    /// The request is larger than a frame may be.
    #[error("the request is too large: {0}")]
    TooLarge(FrameError),
    /// The controller refused the request, for the reason given.
    #[error("{0}")]
    Refused(Refusal),
    /// The reply is of a kind that does not belong to the request.
    #[error("the controller gave an answer that does not fit the request")]
    Unexpected,
}

impl CallError {
    /// True when the controller cannot be reached or cannot answer now: the same request may
    /// succeed later.
    pub const fn is_unreachable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } => true,
            Self::Refused(refusal) => matches!(refusal.code, RefusalCode::Unavailable),
            Self::Garbage { .. } | Self::Version { .. } | Self::TooLarge(_) | Self::Unexpected => {
                false
            }
        }
    }
}

/// How long a request waits for its answer, and how long it is repeated.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Longest wait for an answer, and for the controller to accept the connection.
    pub answer_timeout: Duration,
    /// How long a controller that was lost in the middle of a request is tried again.
    pub reconnect_for: Duration,
    /// Pause between two tries after a loss.
    pub pause: Duration,
    /// Wait for a controller that cannot be reached at first, or that answers `Unavailable`;
    /// `None`: the request fails at once.
    pub controller_wait: Option<ControllerWait>,
}

/// How long a command waits for a controller that cannot be reached.
#[derive(Clone, Copy, Debug)]
pub struct ControllerWait {
    /// From the first attempt to the last.
    pub limit: Duration,
    /// Line for the user, given to the caller's `notice` once, before the first pause.
    pub notice: &'static str,
}

/// Shortest and longest pause between two tries to reach a controller. In between, a pause is as
/// long as the wait so far.
const CONTROLLER_PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            answer_timeout: Duration::from_secs(60),
            reconnect_for: Duration::from_secs(30),
            pause: Duration::from_millis(50),
            controller_wait: None,
        }
    }
}

/// Sends requests to one controller, on one connection as long as it lasts.
pub struct Caller {
    path: PathBuf,
    retry: RetryPolicy,
    stream: Option<UnixStream>,
    /// The connection has carried an answer, and no request was sent on it since.
    idle: bool,
    /// Given the line that the connection was lost, once in the life of the caller.
    notice: Box<dyn FnMut(&str)>,
    loss_reported: bool,
}

/// The frame of a request of this process: marked where [`cluster::as_user`] says so.
pub fn request_frame(request: Request, key: Option<RequestKey>) -> RequestFrame {
    RequestFrame {
        as_user: cluster::as_user(),
        ..RequestFrame::new(request, key)
    }
}

/// Why one attempt to send a request and read its answer failed.
enum AttemptError {
    /// No connection was made: nothing was sent.
    Connect(io::Error),
    /// The connection broke; whether the request was carried out is not known.
    Lost(String),
    /// Another attempt would fail in the same way.
    Final(CallError),
}

impl Caller {
    /// For the controller behind the socket `path`; `notice` is given the lines that the user
    /// should see: that the connection was lost, that the controller is waited for.
    pub fn new(path: &Path, retry: RetryPolicy, notice: impl FnMut(&str) + 'static) -> Self {
        Self {
            path: path.to_owned(),
            retry,
            stream: None,
            idle: false,
            notice: Box::new(notice),
            loss_reported: false,
        }
    }

    /// Sends `request` and gives its answer; one that changes something gets a new key.
    ///
    /// # Errors
    /// [`CallError`]; a refusal is one too.
    pub fn ask(&mut self, request: Request) -> Result<Reply, CallError> {
        let key = request.changes().then(new_key);
        self.ask_with_key(request, key)
    }

    /// The same with a given key, so that a request that changes something can be repeated later
    /// and on another connection.
    ///
    /// # Errors
    /// [`CallError`]; a refusal is one too.
    pub fn ask_with_key(
        &mut self,
        request: Request,
        key: Option<RequestKey>,
    ) -> Result<Reply, CallError> {
        let endless = matches!(request, Request::Wait { .. });
        let outcome = if request.changes() {
            "; whether the request was carried out is not known"
        } else {
            ""
        };
        let frame = frame::encode(&request_frame(request, key), FRAME_BYTES)
            .map_err(CallError::TooLarge)?;
        let mut lost_since: Option<Instant> = None;
        let mut unreachable_since: Option<Instant> = None;
        loop {
            let started = Instant::now();
            // The controller may have closed an idle connection: that is no loss.
            let was_idle = std::mem::take(&mut self.idle);
            let why = match self.attempt(&frame, endless) {
                Ok(answer) => {
                    self.idle = true;
                    match self.check_reply(answer) {
                        Err(CallError::Refused(refusal))
                            if refusal.code == RefusalCode::Unavailable
                                && self.waits_for_controller(&mut unreachable_since) =>
                        {
                            continue;
                        }
                        judged => return judged,
                    }
                }
                Err(AttemptError::Final(e)) => return Err(e),
                Err(AttemptError::Connect(_))
                    if lost_since.is_none()
                        && self.waits_for_controller(&mut unreachable_since) =>
                {
                    continue;
                }
                Err(AttemptError::Connect(cause)) if lost_since.is_none() => {
                    return Err(CallError::Unreachable {
                        path: self.path_text(),
                        cause,
                    });
                }
                Err(AttemptError::Connect(e)) => e.to_string(),
                Err(AttemptError::Lost(_)) if was_idle => {
                    self.stream = None;
                    continue;
                }
                Err(AttemptError::Lost(why)) => why,
            };
            self.stream = None;
            if endless && started.elapsed() > self.retry.reconnect_for {
                // The controller was found again after the loss, and this wait is a new one.
                lost_since = None;
            }
            let since = *lost_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= self.retry.reconnect_for {
                return Err(CallError::Lost {
                    path: self.path_text(),
                    why,
                    seconds: self.retry.reconnect_for.as_secs(),
                    outcome,
                });
            }
            self.report_loss(&why);
            std::thread::sleep(self.retry.pause);
        }
    }

    /// Pauses before the controller is tried again; false when [`ControllerWait::limit`] is over.
    fn waits_for_controller(&mut self, since: &mut Option<Instant>) -> bool {
        let Some(wait) = self.retry.controller_wait else {
            return false;
        };
        let first = since.is_none();
        let waited = since.get_or_insert_with(Instant::now).elapsed();
        if waited >= wait.limit {
            return false;
        }
        if first {
            (self.notice)(wait.notice);
        }
        let [shortest, longest] = CONTROLLER_PAUSES;
        std::thread::sleep(waited.clamp(shortest, longest).min(wait.limit - waited));
        true
    }

    /// The connection, when it still stands, for a conversation that goes on after the answer.
    pub fn into_stream(self) -> Option<UnixStream> {
        let stream = self.stream?;
        stream.set_read_timeout(None).ok()?;
        Some(stream)
    }

    fn report_loss(&mut self, why: &str) {
        if !self.loss_reported {
            self.loss_reported = true;
            let seconds = self.retry.reconnect_for.as_secs();
            (self.notice)(&format!(
                "lost the controller ({why}); trying to reach it again for {seconds} s"
            ));
        }
    }

    fn path_text(&self) -> String {
        self.path.display().to_string()
    }

    fn attempt(&mut self, frame: &[u8], endless: bool) -> Result<ReplyFrame, AttemptError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let stream = cluster::connect(&self.path, self.retry.answer_timeout)
                    .map_err(AttemptError::Connect)?;
                none.insert(stream)
            }
        };
        let timeout = (!endless).then_some(self.retry.answer_timeout);
        let lost = |e: io::Error| AttemptError::Lost(io_message(&e));
        stream.set_read_timeout(timeout).map_err(lost)?;
        // The end of the connection shows itself when reading: there may be a refusal
        // to read even where writing failed.
        let written = stream.write_all(frame);
        let mut reader = DeadlineReader {
            stream,
            deadline: timeout.map(|t| Instant::now() + 2 * t),
        };
        let garbage = |cause| {
            AttemptError::Final(CallError::Garbage {
                path: self.path.display().to_string(),
                cause,
            })
        };
        match frame::read_with(&mut reader, FRAME_BYTES, decode_reply) {
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(Some(Err(theirs))) => Err(AttemptError::Final(CallError::Version { theirs })),
            Ok(None) => Err(written
                .map_or_else(lost, |()| AttemptError::Lost("it closed the connection".to_owned()))),
            Err(FrameError::Io(e)) => Err(lost(e)),
            Err(e @ FrameError::Truncated) => Err(AttemptError::Lost(e.to_string())),
            Err(
                e @ (FrameError::TooLong { .. }
                | FrameError::TooMany { .. }
                | FrameError::Malformed(_)),
            ) => Err(garbage(e)),
        }
    }

    /// What rules tell the user comes first.
    fn check_reply(&mut self, answer: ReplyFrame) -> Result<Reply, CallError> {
        if !cosy_proto::understands(answer.version) {
            return Err(CallError::Version {
                theirs: answer.version,
            });
        }
        for line in &answer.notices {
            (self.notice)(line);
        }
        match answer.reply {
            Reply::Refused(refusal) => Err(CallError::Refused(refusal)),
            reply => Ok(reply),
        }
    }
}

/// The answer in a frame's body, or the other version that it is of.
fn decode_reply(body: &[u8]) -> Result<Result<ReplyFrame, u32>, FrameError> {
    match frame::decode(body) {
        Ok(answer) => Ok(Ok(answer)),
        Err(e) => client::foreign(body).map(Err).ok_or(e),
    }
}

fn io_message(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer".to_owned(),
        _ => e.to_string(),
    }
}

/// A key for a request: 16 random bytes.
///
/// # Panics
/// When the system gives no random numbers.
pub fn new_key() -> RequestKey {
    let mut key = [0; 16];
    let mut filled = 0;
    while filled < key.len() {
        match rustix::rand::getrandom(&mut key[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => panic!("the system gives no random numbers: {e}"),
        }
    }
    RequestKey(key)
}

/// A stream whose reads fail after a deadline, even when bytes keep coming one by one.
struct DeadlineReader<'a> {
    stream: &'a mut UnixStream,
    deadline: Option<Instant>,
}

impl Read for DeadlineReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.deadline.is_some_and(|at| Instant::now() > at) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc;

    const QUICK: RetryPolicy = RetryPolicy {
        answer_timeout: Duration::from_secs(20),
        reconnect_for: Duration::from_secs(20),
        pause: Duration::from_millis(1),
        controller_wait: None,
    };

    fn pong() -> ReplyFrame {
        ReplyFrame::new(Reply::Pong {
            cluster: "c".into(),
            version: "0".into(),
            now: cosy_model::Time(0),
            set_aside: Vec::new(),
        })
    }

    /// Lets `serve` play the controller while `request` is asked.
    fn check(
        retry: RetryPolicy,
        request: Request,
        serve: impl FnOnce(UnixListener) + Send + 'static,
    ) -> (Result<Reply, CallError>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let controller = std::thread::spawn(move || serve(listener));
        let (tx, rx) = mpsc::channel();
        let mut caller = Caller::new(&path, retry, move |t| tx.send(t.to_owned()).unwrap());
        let answer = caller.ask(request);
        drop(caller);
        controller.join().unwrap();
        (answer, rx.iter().collect())
    }

    fn read_request(stream: &mut UnixStream) -> RequestFrame {
        frame::read(stream, FRAME_BYTES).unwrap().unwrap()
    }

    fn reply(stream: &mut UnixStream, answer: &ReplyFrame) {
        frame::write(stream, answer, FRAME_BYTES).unwrap();
    }

    #[test]
    fn the_same_key_after_a_loss() {
        let (answer, notices) = check(QUICK, Request::Reload, |listener| {
            let first = read_request(&mut listener.accept().unwrap().0);
            // The second one dies in the middle of its answer.
            let (mut stream, _) = listener.accept().unwrap();
            assert_eq!(read_request(&mut stream), first);
            stream.write_all(&[9, 0, 0, 0, 1]).unwrap();
            drop(stream);
            let (mut stream, _) = listener.accept().unwrap();
            assert_eq!(read_request(&mut stream), first);
            assert!(first.key.is_some());
            reply(&mut stream, &pong());
        });
        assert_eq!(answer.unwrap(), pong().reply);
        assert_eq!(notices.len(), 1, "{notices:?}");
    }

    #[test]
    fn a_connection_that_was_closed_between_two_questions_is_no_loss() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let (closed, wait) = mpsc::channel();
        let controller = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                read_request(&mut stream);
                reply(&mut stream, &pong());
                drop(stream);
                closed.send(()).unwrap();
            }
        });
        let (tx, notices) = mpsc::channel();
        let mut caller = Caller::new(&path, QUICK, move |t| tx.send(t.to_owned()).unwrap());
        for _ in 0..2 {
            assert_eq!(caller.ask(Request::Ping).unwrap(), pong().reply);
            wait.recv().unwrap();
        }
        drop(caller);
        controller.join().unwrap();
        assert_eq!(notices.iter().count(), 0);
    }

    #[test]
    fn reads_carry_no_key() {
        let (answer, notices) = check(QUICK, Request::Ping, |listener| {
            let (mut stream, _) = listener.accept().unwrap();
            assert_eq!(read_request(&mut stream).key, None);
            reply(&mut stream, &pong());
        });
        assert!(answer.is_ok() && notices.is_empty());
    }

    #[test]
    fn silence_ends() {
        let retry = RetryPolicy {
            answer_timeout: Duration::from_millis(30),
            reconnect_for: Duration::ZERO,
            pause: Duration::ZERO,
            controller_wait: None,
        };
        let (done, wait) = mpsc::channel::<()>();
        let (answer, _) = check(retry, Request::Reload, move |listener| {
            let held = listener.accept().unwrap();
            std::thread::spawn(move || {
                let _ = wait.recv();
                drop(held);
            });
        });
        drop(done);
        let text = answer.unwrap_err().to_string();
        assert!(text.contains("does not answer") && text.contains("not known"), "{text}");
    }

    #[test]
    fn garbage_is_final() {
        for bytes in [
            &[255; 8][..],
            &[3, 0, 0, 0, 1, 2, 3],
            b"HTTP/1.1 200 OK\r\n",
        ] {
            let (answer, _) = check(QUICK, Request::Reload, move |listener| {
                let (mut stream, _) = listener.accept().unwrap();
                read_request(&mut stream);
                stream.write_all(bytes).unwrap();
            });
            assert!(matches!(answer, Err(CallError::Garbage { .. })), "{bytes:?} {answer:?}");
        }
    }

    #[test]
    fn nobody_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let mut caller = Caller::new(&path, QUICK, |_| ());
        let error = caller.ask(Request::Ping).unwrap_err();
        assert!(error.is_unreachable());
        assert!(error.to_string().contains("is cosyd running?"));
    }

    #[test]
    fn far_versions() {
        let (answer, _) = check(QUICK, Request::Ping, |listener| {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            let answer = ReplyFrame {
                version: cosy_proto::PROTOCOL + 7,
                ..pong()
            };
            reply(&mut stream, &answer);
        });
        assert!(matches!(answer, Err(CallError::Version { .. })));
    }

    #[test]
    fn an_answer_that_only_the_next_version_has() {
        #[derive(serde::Serialize)]
        struct NewerReply {
            version: u32,
            reply: &'static str,
        }
        let (answer, _) = check(QUICK, Request::Ping, |listener| {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            let answer = NewerReply {
                version: cosy_proto::PROTOCOL + 1,
                reply: "dance",
            };
            stream
                .write_all(&frame::encode(&answer, 1000).unwrap())
                .unwrap();
        });
        let error = answer.unwrap_err().to_string();
        assert!(error.contains("use programs of one release"), "{error}");
    }
}
