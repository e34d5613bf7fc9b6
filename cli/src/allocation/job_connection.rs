//! The connection that ties a job to its command: the controller reports on it when the job starts
//! and when it ends, and the job ends when the command closes it.
//!
//! [`JobConnection::wait`] waits for the next event; a command that waits for other events too
//! waits on [`JobConnection::fd`] until [`JobConnection::deadline`] at most, and then calls
//! [`JobConnection::poll`]. After the loss of the controller (a restart) the connection is made
//! again, as long as it takes. Where there are several controllers, one that stands still is left for
//! the one that leads.

use crate::launch::signal_pipe::SignalPipe;
use crate::output;
use cosy_client::{Rhythm, Watch, cluster, reply_that_has_come};
use cosy_model::api::{EndedJob, Reply, Request};
use cosy_model::limits::FRAME_BYTES;
use cosy_model::step::AllocationEndpoint;
use cosy_model::{JobId, OsText, Refusal, RefusalCode, Time};
use cosy_proto::client::ReplyFrame;
use cosy_proto::frame::{self, Decoder};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Pause between two tries to reach the controller again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);
/// Longest wait for a place in the controller's queue of connections.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// An allocation that has started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocated {
    /// Job, nodes, and how the first node is reached.
    pub entry: AllocationEndpoint,
    /// When its time limit ends it; `None` without a limit.
    pub until: Option<Time>,
    /// Variables for what runs in it, `NAME=value` separated by NUL.
    pub variables: OsText,
}

/// What the controller reports about the job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobEvent {
    /// The job has started; steps can be started in it.
    Allocated(Box<Allocated>),
    /// The job has ended, before or after its start.
    Ended(EndedJob),
    /// The controller refuses to report on the job; nothing more comes.
    Refused(Refusal),
}

/// The connection to the controller for one job.
pub struct JobConnection {
    program: String,
    /// Where the controller may be; at least one.
    sockets: Vec<PathBuf>,
    /// Which of them is tried next.
    next_socket: usize,
    /// Which of them the connection goes to.
    current_socket: usize,
    /// While connected, whether that one is still there; only where there are several.
    watch: Option<Watch>,
    job: JobId,
    started: bool,
    stream: Option<UnixStream>,
    decoder: Decoder,
    /// When the next try to reach the controller again is due; `None` while connected.
    reconnect_at: Option<Instant>,
    loss_reported: bool,
    /// The end of the job, or a refusal, has come: nothing more does.
    ended: bool,
}

impl JobConnection {
    /// Has events of `job` reported on `stream`, or on a new connection without one; `started`: the
    /// job has started, and only its end is reported.
    pub fn new(
        program: &str,
        sockets: Vec<PathBuf>,
        stream: Option<UnixStream>,
        job: JobId,
        started: bool,
    ) -> Self {
        let mut job_connection = Self {
            program: program.to_owned(),
            sockets,
            next_socket: 0,
            current_socket: 0,
            watch: None,
            job,
            started,
            stream: None,
            decoder: Decoder::new(FRAME_BYTES),
            reconnect_at: None,
            loss_reported: false,
            ended: false,
        };
        match stream {
            Some(stream) => job_connection.attend(stream),
            None => job_connection.reconnect_at = Some(Instant::now()),
        }
        job_connection
    }

    /// Id of the job.
    pub const fn job(&self) -> JobId {
        self.job
    }

    /// A second handle of the connection, which keeps the job alive when this value is dropped. Hold
    /// it until the job has been given back: otherwise the job ends as cancelled.
    pub fn keep_alive(&self) -> Option<UnixStream> {
        self.stream.as_ref()?.try_clone().ok()
    }

    /// The descriptor to wait on, readable when an event has come; `None` while not connected.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(AsFd::as_fd)
    }

    /// When [`Self::poll`] must be called even though nothing has come.
    pub fn deadline(&self) -> Option<Instant> {
        let watch = self.watch.as_ref().map(Watch::at);
        self.reconnect_at.into_iter().chain(watch).min()
    }

    /// Waits until something comes from the controller, a signal arrives, or the first of
    /// `deadlines` has passed.
    pub fn wait(&self, signals: Option<&SignalPipe>, deadlines: &[Option<Instant>]) {
        let until = deadlines.iter().copied().chain([self.deadline()]);
        let timeout = until
            .flatten()
            .min()
            .map(|at| at.saturating_duration_since(Instant::now()))
            .and_then(|t| Timespec::try_from(t).ok());
        let signals = signals.map(SignalPipe::fd);
        let mut fds: Vec<PollFd<'_>> = signals
            .into_iter()
            .chain(self.fd())
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let _ = poll(&mut fds, timeout.as_ref());
    }

    /// The event that has come, if any; tries to reach a lost controller when that is due. Does not
    /// block for longer than one connect.
    pub fn poll(&mut self) -> Option<JobEvent> {
        if self.ended {
            return None;
        }
        if self.reconnect_at.is_some_and(|at| at <= Instant::now()) {
            self.reconnect_at = Some(Instant::now() + RECONNECT_PAUSE);
            // Where the controller here is gone or stands by, another socket may lead to the leader.
            let path = self.sockets.get(self.next_socket).cloned();
            self.current_socket = self.next_socket;
            self.next_socket = (self.next_socket + 1) % self.sockets.len().max(1);
            if let Ok(stream) = cluster::connect(&path.unwrap_or_default(), CONNECT_TIMEOUT) {
                self.attend(stream);
            }
        }
        match self.read() {
            Ok(Some(answer)) => self.event(answer.reply),
            Ok(None) => {
                self.look_for_another();
                None
            }
            Err(why) => {
                self.lost(&why);
                None
            }
        }
    }

    /// How the job ended, when that is reported within `timeout`.
    pub fn wait_for_end(&mut self, timeout: Duration) -> Option<EndedJob> {
        let until = Instant::now() + timeout;
        loop {
            match self.poll() {
                Some(JobEvent::Ended(job)) => return Some(job),
                Some(JobEvent::Refused(_)) => return None,
                Some(JobEvent::Allocated(_)) | None => {}
            }
            let now = Instant::now();
            if now >= until || self.ended {
                return None;
            }
            self.wait(None, &[Some(until)]);
        }
    }

    /// Where the controller stands still and another leads, the connection is made to that one.
    fn look_for_another(&mut self) {
        let watch = self.watch.as_mut();
        if let Some(leader) = watch.and_then(|watch| watch.go_on(&self.sockets)) {
            self.lost("it does not answer, and another leads");
            self.next_socket = leader;
            self.reconnect_at = Some(Instant::now());
        }
    }

    fn attend(&mut self, mut stream: UnixStream) {
        let request = Request::Attend {
            job: self.job,
            started: self.started,
        };
        self.decoder = Decoder::new(FRAME_BYTES);
        let sent = stream
            .set_nonblocking(false)
            .map_err(Into::into)
            .and_then(|()| {
                frame::write(&mut stream, &cosy_client::request_frame(request, None), FRAME_BYTES)
            })
            .and_then(|()| Ok(stream.set_nonblocking(true)?));
        match sent {
            Ok(()) => {
                self.stream = Some(stream);
                self.reconnect_at = None;
                let several = self.sockets.len() > 1;
                self.watch = several.then(|| Watch::new(self.current_socket, Rhythm::USUAL));
            }
            Err(e) => self.lost(&e.to_string()),
        }
    }

    fn lost(&mut self, why: &str) {
        self.stream = None;
        self.watch = None;
        self.reconnect_at = Some(Instant::now() + RECONNECT_PAUSE);
        if !self.loss_reported {
            self.loss_reported = true;
            let text = format!("lost the controller ({why}); trying to reach it again");
            output::complain(&self.program, &text);
        }
    }

    fn read(&mut self) -> Result<Option<ReplyFrame>, String> {
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        reply_that_has_come(stream, &mut self.decoder)
    }

    fn event(&mut self, reply: Reply) -> Option<JobEvent> {
        if let Reply::Refused(refusal) = &reply
            && matches!(refusal.code, RefusalCode::Unavailable | RefusalCode::Standby)
        {
            self.lost(&refusal.message);
            return None;
        }
        self.loss_reported = false;
        match reply {
            Reply::Allocated {
                entry,
                until,
                variables,
            } => {
                self.started = true;
                if let Some(stream) = self.stream.take() {
                    self.attend(stream);
                }
                Some(JobEvent::Allocated(Box::new(Allocated {
                    entry,
                    until,
                    variables,
                })))
            }
            Reply::Said(text) => {
                let plain = text.replace(char::is_control, "?");
                output::complain(&self.program, &plain);
                if let Some(stream) = self.stream.take() {
                    self.attend(stream);
                }
                None
            }
            Reply::Ended(ended) => {
                self.close();
                ended.into_iter().next().map(JobEvent::Ended)
            }
            Reply::Refused(refusal) => {
                self.close();
                Some(JobEvent::Refused(refusal))
            }
            _ => {
                self.close();
                let text = "the controller gave an answer that does not fit the request";
                Some(JobEvent::Refused(Refusal::invalid(text)))
            }
        }
    }

    fn close(&mut self) {
        self.ended = true;
        self.stream = None;
        self.watch = None;
        self.reconnect_at = None;
    }
}
