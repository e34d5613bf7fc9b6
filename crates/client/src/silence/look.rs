//! The same look for a command that has other things to wait for: it goes on in pieces, none of which
//! waits for an answer.

use super::said::{Said, said};
use crate::cluster;
use crate::wire::{reply_that_has_come, request_frame};
use cosy_model::api::Request;
use cosy_model::limits::FRAME_BYTES;
use cosy_proto::frame::{self, Decoder};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks whether an answer has come.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for a place in a queue of connections: one that has none is silent.
const CONNECT: Duration = Duration::from_millis(100);

/// How often a command that stays with a controller looks whether that is still there.
#[derive(Clone, Copy, Debug)]
pub struct Rhythm {
    /// Between two looks.
    pub every: Duration,
    /// How long each controller is waited for.
    pub wait: Duration,
}

impl Rhythm {
    /// As all commands do. A job whose command has lost its controller is given up only after
    /// `attend_grace`, 60 s by default.
    pub const USUAL: Self = Self {
        every: Duration::from_secs(10),
        wait: Duration::from_millis(1500),
    };
}

/// Looks whether the controller behind one of several sockets is still there, and where not, who leads.
#[derive(Debug)]
pub struct Watch {
    rhythm: Rhythm,
    /// Behind which socket the controller is.
    current: usize,
    stage: Stage,
    /// When to go on.
    at: Instant,
}

/// Where a look stands.
#[derive(Debug)]
enum Stage {
    /// None is under way.
    Resting,
    /// The one behind that socket is asked.
    Asking(usize, Option<Question>),
}

impl Watch {
    /// Of the controller behind that socket.
    pub fn new(current: usize, rhythm: Rhythm) -> Self {
        Self {
            rhythm,
            current,
            stage: Stage::Resting,
            at: Instant::now() + rhythm.every,
        }
    }

    /// When [`Self::go_on`] is to be called.
    pub const fn at(&self) -> Instant {
        self.at
    }

    /// Goes on; where the controller is silent and another leads, the number of that one's socket.
    pub fn go_on(&mut self, sockets: &[PathBuf]) -> Option<usize> {
        let now = Instant::now();
        if now < self.at {
            return None;
        }
        self.at = now + PAUSE;
        let (socket, said) = match &mut self.stage {
            Stage::Resting => {
                self.ask(self.current, sockets);
                return None;
            }
            Stage::Asking(socket, question) => {
                let answer = question
                    .as_mut()
                    .map_or(Some(Said::Nothing), Question::answer);
                (*socket, answer?)
            }
        };
        match said {
            Said::Leads if socket == self.current => self.rest(),
            Said::Leads => return Some(socket),
            Said::Nothing | Said::StandsBy | Said::CannotAnswer(_) => {
                let others = (0..sockets.len()).filter(|at| *at != self.current);
                let asked = (socket != self.current).then_some(socket);
                match others
                    .into_iter()
                    .find(|at| asked.is_none_or(|asked| *at > asked))
                {
                    Some(next) => self.ask(next, sockets),
                    None => self.rest(),
                }
            }
        }
        None
    }

    fn rest(&mut self) {
        self.stage = Stage::Resting;
        self.at = Instant::now() + self.rhythm.every;
    }

    fn ask(&mut self, socket: usize, sockets: &[PathBuf]) {
        let question = sockets
            .get(socket)
            .and_then(|path| Question::ask(path, self.rhythm.wait).ok());
        self.stage = Stage::Asking(socket, question);
    }
}

/// A ping that is under way.
#[derive(Debug)]
struct Question {
    stream: UnixStream,
    decoder: Decoder,
    until: Instant,
}

impl Question {
    fn ask(path: &Path, wait: Duration) -> io::Result<Self> {
        let mut stream = cluster::connect(path, CONNECT)?;
        stream.set_nonblocking(true)?;
        let frame = frame::encode(&request_frame(Request::Ping, None), FRAME_BYTES)
            .map_err(io::Error::other)?;
        // A new connection has room for so little.
        stream.write_all(&frame)?;
        Ok(Self {
            stream,
            decoder: Decoder::new(FRAME_BYTES),
            until: Instant::now() + wait,
        })
    }

    /// What has been said; `None` while it may still come.
    fn answer(&mut self) -> Option<Said> {
        match reply_that_has_come(&mut self.stream, &mut self.decoder) {
            Ok(Some(answer)) => Some(said(Some(answer.reply))),
            Ok(None) => (self.until <= Instant::now()).then_some(Said::Nothing),
            Err(_) => Some(Said::Nothing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::api::Reply;
    use cosy_model::{Refusal, RefusalCode, Time};
    use cosy_proto::client::{ReplyFrame, RequestFrame};
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::JoinHandle;

    const QUICK: Rhythm = Rhythm {
        every: Duration::from_millis(20),
        wait: Duration::from_millis(300),
    };

    fn leads() -> Reply {
        Reply::Pong {
            cluster: "c".into(),
            version: "0".into(),
            now: Time(0),
            set_aside: Vec::new(),
            clocks: Vec::new(),
        }
    }

    fn refused(code: RefusalCode) -> Reply {
        Reply::Refused(Refusal::new(code, "no"))
    }

    /// Sockets in a folder, and who answers behind them, until it is dropped.
    struct Sockets {
        folder: tempfile::TempDir,
        paths: Vec<PathBuf>,
        silent: Vec<UnixListener>,
        threads: Vec<JoinHandle<()>>,
    }

    impl Sockets {
        /// Behind each one who says that, or nothing.
        fn of(all: Vec<Option<Reply>>) -> (Self, Vec<Arc<AtomicUsize>>) {
            let mut sockets = Self {
                folder: tempfile::tempdir().unwrap(),
                paths: Vec::new(),
                silent: Vec::new(),
                threads: Vec::new(),
            };
            let mut asked = Vec::new();
            for (at, says) in all.into_iter().enumerate() {
                let path = sockets.folder.path().join(at.to_string());
                let listener = UnixListener::bind(&path).unwrap();
                sockets.paths.push(path);
                let count = Arc::new(AtomicUsize::new(0));
                asked.push(count.clone());
                match says {
                    None => sockets.silent.push(listener),
                    Some(says) => sockets.threads.push(std::thread::spawn(move || {
                        for stream in listener.incoming() {
                            let mut stream = stream.unwrap();
                            let Ok(Some(frame)) =
                                frame::read::<RequestFrame>(&mut stream, FRAME_BYTES)
                            else {
                                return;
                            };
                            assert_eq!(frame.request, Request::Ping);
                            count.fetch_add(1, Ordering::Relaxed);
                            let answer = ReplyFrame::new(says.clone());
                            let _ = frame::write(&mut stream, &answer, FRAME_BYTES);
                        }
                    })),
                }
            }
            (sockets, asked)
        }

        /// Looks until it is over or another is found.
        fn watch(&self, current: usize, mut over: impl FnMut() -> bool) -> Option<usize> {
            let until = Instant::now() + Duration::from_secs(30);
            let mut watch = Watch::new(current, QUICK);
            while !over() {
                assert!(Instant::now() < until, "it takes too long");
                std::thread::sleep(watch.at().saturating_duration_since(Instant::now()));
                if let Some(found) = watch.go_on(&self.paths) {
                    return Some(found);
                }
            }
            None
        }
    }

    impl Drop for Sockets {
        fn drop(&mut self) {
            for path in &self.paths {
                // Who comes and says nothing ends the thread.
                let _ = UnixStream::connect(path);
            }
            for thread in self.threads.drain(..) {
                let _ = thread.join();
            }
        }
    }

    #[test]
    fn a_silent_one_is_left_for_the_one_that_leads() {
        let (sockets, _) =
            Sockets::of(vec![refused(RefusalCode::Standby).into(), None, leads().into()]);
        assert_eq!(sockets.watch(1, || false), Some(2));
    }

    #[test]
    fn one_that_has_gone_or_stands_by_is_left_too() {
        let (sockets, _) = Sockets::of(vec![leads().into(), refused(RefusalCode::Standby).into()]);
        assert_eq!(sockets.watch(1, || false), Some(0));
        assert_eq!(sockets.watch(7, || false), Some(0));
    }

    /// Another way to the same leader is no reason to take it.
    #[test]
    fn the_one_that_leads_is_not_left() {
        let (sockets, asked) = Sockets::of(vec![leads().into(), leads().into()]);
        let count = asked[0].clone();
        assert_eq!(sockets.watch(0, || count.load(Ordering::Relaxed) > 3), None);
        assert_eq!(asked[1].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn where_nobody_leads_it_is_looked_again() {
        let unavailable = refused(RefusalCode::Unavailable);
        let (sockets, asked) = Sockets::of(vec![None, unavailable.into()]);
        let count = asked[1].clone();
        assert_eq!(sockets.watch(0, || count.load(Ordering::Relaxed) > 2), None);
    }
}
