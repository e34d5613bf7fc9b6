//! The connection by which a command stays with its job: the controller tells on it when
//! the job starts and when it ends, and its end is the end of the job.
//!
//! [`Attendant::pause`] waits; who waits for more than that asks [`Attendant::fd`] and
//! [`Attendant::deadline`] for what.
//! When the controller is gone (a restart), it is looked for until it is there again.

use crate::launch::intake::Intake;
use crate::output;
use cosy_client::cluster;
use cosy_model::api::{EndedJob, Reply, Request};
use cosy_model::limits::FRAME_BYTES;
use cosy_model::step::AllocationEndpoint;
use cosy_model::{JobId, OsText, Refusal, RefusalCode, Time};
use cosy_proto::client::ReplyFrame;
use cosy_proto::frame::{self, Decoder};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks for a controller that is gone.
const AGAIN: Duration = Duration::from_millis(250);
/// For a place in the controller's queue of connections.
const CONNECT: Duration = Duration::from_secs(2);

/// An allocation that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocated {
    /// Its first node and how to reach it.
    pub entry: AllocationEndpoint,
    /// Its latest end.
    pub until: Option<Time>,
    /// Variables for what runs in it, `NAME=value` separated by NUL.
    pub variables: OsText,
}

/// What the controller tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// The job has started.
    Allocated(Box<Allocated>),
    /// The job has ended.
    Ended(EndedJob),
    /// The controller does not let us stay with it.
    Refused(Refusal),
}

/// Stays with one job.
pub struct Attendant {
    program: String,
    path: PathBuf,
    job: JobId,
    started: bool,
    stream: Option<UnixStream>,
    decoder: Decoder,
    /// When the controller is looked for again.
    again: Option<Instant>,
    told: bool,
    over: bool,
}

impl Attendant {
    /// Stays with `job` on this connection; `started`: only its end is of interest.
    pub fn new(
        program: &str,
        path: &Path,
        stream: Option<UnixStream>,
        job: JobId,
        started: bool,
    ) -> Self {
        let mut attendant = Self {
            program: program.to_owned(),
            path: path.to_owned(),
            job,
            started,
            stream: None,
            decoder: Decoder::new(FRAME_BYTES),
            again: None,
            told: false,
            over: false,
        };
        match stream {
            Some(stream) => attendant.ask(stream),
            None => attendant.again = Some(Instant::now()),
        }
        attendant
    }

    /// Id of the job that is attended.
    pub const fn job(&self) -> JobId {
        self.job
    }

    /// The connection: as long as this is open, the command is there, whatever becomes of
    /// the attendant. To be held until the job has been given back, else the end of the
    /// connection ends it before.
    pub fn presence(&self) -> Option<UnixStream> {
        self.stream.as_ref()?.try_clone().ok()
    }

    /// Readable when there is news.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(AsFd::as_fd)
    }

    /// When [`Self::turn`] has something to do though nothing came.
    pub const fn deadline(&self) -> Option<Instant> {
        self.again
    }

    /// Waits until the controller says something, a signal comes in, or the first of
    /// `moments` is there.
    pub fn pause(&self, intake: Option<&Intake>, moments: &[Option<Instant>]) {
        let until = moments.iter().copied().chain([self.deadline()]);
        let timeout = until
            .flatten()
            .min()
            .map(|at| at.saturating_duration_since(Instant::now()))
            .and_then(|t| Timespec::try_from(t).ok());
        let signals = intake.map(Intake::fd);
        let mut fds: Vec<PollFd<'_>> = signals
            .into_iter()
            .chain(self.fd())
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let _ = poll(&mut fds, timeout.as_ref());
    }

    /// Takes what has come, and looks for a controller that is gone.
    pub fn turn(&mut self) -> Option<News> {
        if self.over {
            return None;
        }
        if self.again.is_some_and(|at| at <= Instant::now()) {
            self.again = Some(Instant::now() + AGAIN);
            if let Ok(stream) = cluster::connect(&self.path, CONNECT) {
                self.ask(stream);
            }
        }
        match self.read() {
            Ok(Some(answer)) => self.news(answer.reply),
            Ok(None) => None,
            Err(why) => {
                self.lost(&why);
                None
            }
        }
    }

    /// The end of the job, when it is told within this time.
    pub fn end_within(&mut self, patience: Duration) -> Option<EndedJob> {
        let until = Instant::now() + patience;
        loop {
            match self.turn() {
                Some(News::Ended(job)) => return Some(job),
                Some(News::Refused(_)) => return None,
                Some(News::Allocated(_)) | None => {}
            }
            let now = Instant::now();
            if now >= until || self.over {
                return None;
            }
            self.pause(None, &[Some(until)]);
        }
    }

    fn ask(&mut self, mut stream: UnixStream) {
        let request = Request::Attend {
            job: self.job,
            started: self.started,
        };
        self.decoder = Decoder::new(FRAME_BYTES);
        let asked = stream
            .set_nonblocking(false)
            .map_err(Into::into)
            .and_then(|()| {
                frame::write(&mut stream, &cosy_client::question(request, None), FRAME_BYTES)
            })
            .and_then(|()| Ok(stream.set_nonblocking(true)?));
        match asked {
            Ok(()) => {
                self.stream = Some(stream);
                self.again = None;
            }
            Err(e) => self.lost(&e.to_string()),
        }
    }

    fn lost(&mut self, why: &str) {
        self.stream = None;
        self.again = Some(Instant::now() + AGAIN);
        if !self.told {
            self.told = true;
            let text = format!("lost the controller ({why}); trying to reach it again");
            output::complain(&self.program, &text);
        }
    }

    fn read(&mut self) -> Result<Option<ReplyFrame>, String> {
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        let mut chunk = [0; 16 << 10];
        loop {
            if let Some(body) = self.decoder.next_frame().map_err(|e| e.to_string())? {
                return frame::decode(body).map(Some).map_err(|e| e.to_string());
            }
            match stream.read(&mut chunk) {
                Ok(0) => return Err("it closed the connection".to_owned()),
                Ok(n) => self.decoder.push(&chunk[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) => return Err(e.to_string()),
            }
        }
    }

    fn news(&mut self, reply: Reply) -> Option<News> {
        self.told = false;
        match reply {
            Reply::Allocated {
                entry,
                until,
                variables,
            } => {
                self.started = true;
                if let Some(stream) = self.stream.take() {
                    self.ask(stream);
                }
                Some(News::Allocated(Box::new(Allocated {
                    entry,
                    until,
                    variables,
                })))
            }
            Reply::Said(text) => {
                let plain = text.replace(char::is_control, "?");
                output::complain(&self.program, &plain);
                if let Some(stream) = self.stream.take() {
                    self.ask(stream);
                }
                None
            }
            Reply::Ended(ended) => {
                self.close();
                ended.into_iter().next().map(News::Ended)
            }
            Reply::Refused(refusal) if refusal.code == RefusalCode::Unavailable => {
                self.lost(&refusal.message);
                None
            }
            Reply::Refused(refusal) => {
                self.close();
                Some(News::Refused(refusal))
            }
            _ => {
                self.close();
                let text = "the controller gave an answer that does not fit the request";
                Some(News::Refused(Refusal::invalid(text)))
            }
        }
    }

    fn close(&mut self) {
        self.over = true;
        self.stream = None;
        self.again = None;
    }
}
