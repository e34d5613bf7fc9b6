//! One question to the controller and its answer, whatever happens in between.
//!
//! When the connection is lost in the middle (a restart of the controller), the same
//! question is asked again for a while; one that changes something carries the same key
//! each time, so that it is carried out once. Nothing here waits forever, except for an
//! answer to [`Request::Wait`].

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

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody listens at the socket.
    #[error("cannot reach the controller at {path}: {cause}; is cosyd running?")]
    Unreachable {
        /// The socket that was tried.
        path: String,
        /// What the system says.
        cause: io::Error,
    },
    /// Lost in the middle and not found again.
    #[error(
        "lost the controller at {path} ({why}) and could not reach it again within {seconds} s{outcome}"
    )]
    Lost {
        /// The socket that was tried.
        path: String,
        /// The last trouble.
        why: String,
        /// How long it was tried.
        seconds: u64,
        /// What that means for a request that changes something.
        outcome: &'static str,
    },
    /// Not an answer of this protocol.
    #[error("the controller at {path} gave no understandable answer: {cause}")]
    Garbage {
        /// The socket that was tried.
        path: String,
        /// What is wrong with it.
        cause: FrameError,
    },
    /// Too far apart.
    #[error(
        "the controller speaks protocol version {theirs}, this program {ours}: use programs of one release",
        ours = cosy_proto::PROTOCOL
    )]
    Version {
        /// Version of the controller.
        theirs: u32,
    },
    /// Too large to be sent.
    #[error("the request is too large: {0}")]
    TooLarge(FrameError),
    /// The controller said no.
    #[error("{0}")]
    Refused(Refusal),
    /// An answer to another question.
    #[error("the controller gave an answer that does not fit the request")]
    Unexpected,
}

impl CallError {
    /// Nobody answers, or nobody who can answer now: the same question may go well later on.
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

/// How long to wait for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For an answer, and for the controller to accept the question.
    pub answer: Duration,
    /// For the controller to come back.
    pub retry: Duration,
    /// Between two tries.
    pub pause: Duration,
    /// For a controller that is not there when it is first asked, or cannot take anything now.
    pub absent: Option<Absent>,
}

/// How long a command waits for a controller that is not there.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    /// From the first attempt to the last.
    pub wait: Duration,
    /// Said once before it waits.
    pub says: &'static str,
}

/// The first and the longest pause between tries to find a controller that is not there.
const ABSENT_PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

impl Default for Patience {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(60),
            retry: Duration::from_secs(30),
            pause: Duration::from_millis(50),
            absent: None,
        }
    }
}

/// Asks one controller, on one connection as long as it lasts.
pub struct Caller {
    path: PathBuf,
    patience: Patience,
    stream: Option<UnixStream>,
    /// The connection has carried an answer, and nothing was asked since.
    kept: bool,
    /// Told once that the connection was lost.
    notice: Box<dyn FnMut(&str)>,
    told: bool,
}

/// A question as this process asks it: [`cluster::AS_USER_VARIABLE`] counts.
pub fn question(request: Request, key: Option<RequestKey>) -> RequestFrame {
    RequestFrame {
        as_user: cluster::as_user(),
        ..RequestFrame::new(request, key)
    }
}

enum Trouble {
    Connect(io::Error),
    Lost(String),
    Final(CallError),
}

impl Caller {
    /// Asks the controller behind the socket `path`; `notice` is given the line that
    /// says that the connection was lost.
    pub fn new(path: &Path, patience: Patience, notice: impl FnMut(&str) + 'static) -> Self {
        Self {
            path: path.to_owned(),
            patience,
            stream: None,
            kept: false,
            notice: Box::new(notice),
            told: false,
        }
    }

    /// Asks; a request that changes something gets a key of its own.
    ///
    /// # Errors
    /// [`CallError`]; a refusal is one too.
    pub fn ask(&mut self, request: Request) -> Result<Reply, CallError> {
        let key = request.changes().then(new_key);
        self.ask_with(request, key)
    }

    /// Asks with a key of the caller's own, so that it can repeat the question later on and
    /// on another connection; for a request that changes something.
    ///
    /// # Errors
    /// [`CallError`]; a refusal is one too.
    pub fn ask_with(
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
        let frame =
            frame::encode(&question(request, key), FRAME_BYTES).map_err(CallError::TooLarge)?;
        let mut lost: Option<Instant> = None;
        let mut absent: Option<Instant> = None;
        loop {
            let started = Instant::now();
            // One that was silent for long may have been closed: that is no trouble.
            let kept = std::mem::take(&mut self.kept);
            let why = match self.attempt(&frame, endless) {
                Ok(answer) => {
                    self.kept = true;
                    match self.judge(answer) {
                        Err(CallError::Refused(refusal))
                            if refusal.code == RefusalCode::Unavailable
                                && self.waits(&mut absent) =>
                        {
                            continue;
                        }
                        judged => return judged,
                    }
                }
                Err(Trouble::Final(e)) => return Err(e),
                Err(Trouble::Connect(_)) if lost.is_none() && self.waits(&mut absent) => continue,
                Err(Trouble::Connect(cause)) if lost.is_none() => {
                    return Err(CallError::Unreachable {
                        path: self.shown(),
                        cause,
                    });
                }
                Err(Trouble::Connect(e)) => e.to_string(),
                Err(Trouble::Lost(_)) if kept => {
                    self.stream = None;
                    continue;
                }
                Err(Trouble::Lost(why)) => why,
            };
            self.stream = None;
            if endless && started.elapsed() > self.patience.retry {
                // It had been found again and waited for long since.
                lost = None;
            }
            let since = *lost.get_or_insert_with(Instant::now);
            if since.elapsed() >= self.patience.retry {
                return Err(CallError::Lost {
                    path: self.shown(),
                    why,
                    seconds: self.patience.retry.as_secs(),
                    outcome,
                });
            }
            self.tell(&why);
            std::thread::sleep(self.patience.pause);
        }
    }

    /// Waits a while for a controller that is not there; false when that has been long enough.
    fn waits(&mut self, since: &mut Option<Instant>) -> bool {
        let Some(absent) = self.patience.absent else {
            return false;
        };
        let first = since.is_none();
        let waited = since.get_or_insert_with(Instant::now).elapsed();
        if waited >= absent.wait {
            return false;
        }
        if first {
            (self.notice)(absent.says);
        }
        let [shortest, longest] = ABSENT_PAUSES;
        std::thread::sleep(waited.clamp(shortest, longest).min(absent.wait - waited));
        true
    }

    /// The connection, when it still stands: for a conversation that goes on.
    pub fn into_stream(self) -> Option<UnixStream> {
        let stream = self.stream?;
        stream.set_read_timeout(None).ok()?;
        Some(stream)
    }

    fn tell(&mut self, why: &str) {
        if !self.told {
            self.told = true;
            let seconds = self.patience.retry.as_secs();
            (self.notice)(&format!(
                "lost the controller ({why}); trying to reach it again for {seconds} s"
            ));
        }
    }

    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn attempt(&mut self, frame: &[u8], endless: bool) -> Result<ReplyFrame, Trouble> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let stream =
                    cluster::connect(&self.path, self.patience.answer).map_err(Trouble::Connect)?;
                none.insert(stream)
            }
        };
        let timeout = (!endless).then_some(self.patience.answer);
        let lost = |e: io::Error| Trouble::Lost(plain(&e));
        stream.set_read_timeout(timeout).map_err(lost)?;
        // The end of the connection shows itself when reading: there may be a refusal
        // to read even where writing failed.
        let written = stream.write_all(frame);
        let mut reader = Bounded {
            stream,
            until: timeout.map(|t| Instant::now() + 2 * t),
        };
        let garbage = |cause| {
            Trouble::Final(CallError::Garbage {
                path: self.path.display().to_string(),
                cause,
            })
        };
        match frame::read_with(&mut reader, FRAME_BYTES, understand) {
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(Some(Err(theirs))) => Err(Trouble::Final(CallError::Version { theirs })),
            Ok(None) => Err(written
                .map_or_else(lost, |()| Trouble::Lost("it closed the connection".to_owned()))),
            Err(FrameError::Io(e)) => Err(lost(e)),
            Err(e @ FrameError::Truncated) => Err(Trouble::Lost(e.to_string())),
            Err(
                e @ (FrameError::TooLong { .. }
                | FrameError::TooMany { .. }
                | FrameError::Malformed(_)),
            ) => Err(garbage(e)),
        }
    }

    fn judge(&self, answer: ReplyFrame) -> Result<Reply, CallError> {
        if !cosy_proto::understands(answer.version) {
            return Err(CallError::Version {
                theirs: answer.version,
            });
        }
        match answer.reply {
            Reply::Refused(refusal) => Err(CallError::Refused(refusal)),
            reply => Ok(reply),
        }
    }
}

/// The answer in a frame's body, or the other version that it is of.
fn understand(body: &[u8]) -> Result<Result<ReplyFrame, u32>, FrameError> {
    match frame::decode(body) {
        Ok(answer) => Ok(Ok(answer)),
        Err(e) => client::foreign(body).map(Err).ok_or(e),
    }
}

fn plain(e: &io::Error) -> String {
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

/// A stream that gives up at a time, even when bytes keep dripping.
struct Bounded<'a> {
    stream: &'a mut UnixStream,
    until: Option<Instant>,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.until.is_some_and(|until| Instant::now() > until) {
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

    const QUICK: Patience = Patience {
        answer: Duration::from_secs(20),
        retry: Duration::from_secs(20),
        pause: Duration::from_millis(1),
        absent: None,
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
        patience: Patience,
        request: Request,
        serve: impl FnOnce(UnixListener) + Send + 'static,
    ) -> (Result<Reply, CallError>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let controller = std::thread::spawn(move || serve(listener));
        let (tx, rx) = mpsc::channel();
        let mut caller = Caller::new(&path, patience, move |t| tx.send(t.to_owned()).unwrap());
        let answer = caller.ask(request);
        drop(caller);
        controller.join().unwrap();
        (answer, rx.iter().collect())
    }

    fn hear(stream: &mut UnixStream) -> RequestFrame {
        frame::read(stream, FRAME_BYTES).unwrap().unwrap()
    }

    fn say(stream: &mut UnixStream, answer: &ReplyFrame) {
        frame::write(stream, answer, FRAME_BYTES).unwrap();
    }

    #[test]
    fn the_same_key_after_a_loss() {
        let (answer, told) = check(QUICK, Request::Reload, |listener| {
            let first = hear(&mut listener.accept().unwrap().0);
            // The second one dies in the middle of its answer.
            let (mut stream, _) = listener.accept().unwrap();
            assert_eq!(hear(&mut stream), first);
            stream.write_all(&[9, 0, 0, 0, 1]).unwrap();
            drop(stream);
            let (mut stream, _) = listener.accept().unwrap();
            assert_eq!(hear(&mut stream), first);
            assert!(first.key.is_some());
            say(&mut stream, &pong());
        });
        assert_eq!(answer.unwrap(), pong().reply);
        assert_eq!(told.len(), 1, "{told:?}");
    }

    #[test]
    fn a_connection_that_was_closed_between_two_questions_is_no_trouble() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let (closed, wait) = mpsc::channel();
        let controller = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                hear(&mut stream);
                say(&mut stream, &pong());
                drop(stream);
                closed.send(()).unwrap();
            }
        });
        let (tx, told) = mpsc::channel();
        let mut caller = Caller::new(&path, QUICK, move |t| tx.send(t.to_owned()).unwrap());
        for _ in 0..2 {
            assert_eq!(caller.ask(Request::Ping).unwrap(), pong().reply);
            wait.recv().unwrap();
        }
        drop(caller);
        controller.join().unwrap();
        assert_eq!(told.iter().count(), 0);
    }

    #[test]
    fn reads_carry_no_key() {
        let (answer, told) = check(QUICK, Request::Ping, |listener| {
            let (mut stream, _) = listener.accept().unwrap();
            assert_eq!(hear(&mut stream).key, None);
            say(&mut stream, &pong());
        });
        assert!(answer.is_ok() && told.is_empty());
    }

    #[test]
    fn silence_ends() {
        let patience = Patience {
            answer: Duration::from_millis(30),
            retry: Duration::ZERO,
            pause: Duration::ZERO,
            absent: None,
        };
        let (done, wait) = mpsc::channel::<()>();
        let (answer, _) = check(patience, Request::Reload, move |listener| {
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
                hear(&mut stream);
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
            hear(&mut stream);
            let answer = ReplyFrame {
                version: cosy_proto::PROTOCOL + 7,
                ..pong()
            };
            say(&mut stream, &answer);
        });
        assert!(matches!(answer, Err(CallError::Version { .. })));
    }

    #[test]
    fn an_answer_that_only_the_next_version_has() {
        #[derive(serde::Serialize)]
        struct Later {
            version: u32,
            reply: &'static str,
        }
        let (answer, _) = check(QUICK, Request::Ping, |listener| {
            let (mut stream, _) = listener.accept().unwrap();
            hear(&mut stream);
            let answer = Later {
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
