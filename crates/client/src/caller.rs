//! One request to the controller and its answer, also when the connection is lost in between.
//!
//! After a loss (a restart of the controller) the same request is sent again for a while; one that
//! changes something carries the same key each time, so that it is carried out once. The same holds
//! where several sockets lead to controllers of the cluster, of which one leads: they are asked in
//! turn until one of them answers, and while none of them leads, for a while. Where the one that was
//! asked is silent, [`silence`](crate::silence) looks whether another one leads. Nothing here waits forever, except
//! for an answer to [`Request::Wait`].

use crate::cluster;
use crate::error::CallError;
use crate::silence::{Failed, Looks, Ways};
use crate::wire::{DeadlineReader, decode_reply, request_frame};
use cosy_model::api::{Reply, Request};
use cosy_model::limits::FRAME_BYTES;
use cosy_model::{Refusal, RefusalCode, Uid};
use cosy_proto::client::{ReplyFrame, RequestFrame, RequestKey};
use cosy_proto::frame::{self, FrameError};
use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a request waits for its answer, and how long it is repeated.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Longest wait for an answer, and for the controller to accept the connection.
    pub answer_timeout: Duration,
    /// How long a controller that was lost in the middle of a request is tried again, and how long
    /// controllers that all stand by are asked again.
    pub reconnect_for: Duration,
    /// Pause between two tries after a loss.
    pub pause: Duration,
    /// When it looks elsewhere where there are several sockets.
    pub looks: Looks,
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

/// Shortest and longest pause between two tries while no controller leads. In between, a pause is
/// as long as that has been so.
const STANDBY_PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            answer_timeout: Duration::from_secs(60),
            reconnect_for: Duration::from_secs(30),
            pause: Duration::from_millis(50),
            looks: Looks::USUAL,
            controller_wait: None,
        }
    }
}

/// Sends requests to the controller, on one connection as long as it lasts.
pub struct Caller {
    /// Where it may be; at least one.
    sockets: Vec<PathBuf>,
    /// The one of them that is asked: the connection is to it.
    current: usize,
    retry: RetryPolicy,
    stream: Option<UnixStream>,
    /// The connection has carried an answer, and no request was sent on it since.
    idle: bool,
    /// Given the line that the connection was lost, once in the life of the caller.
    notice: Box<dyn FnMut(&str)>,
    loss_reported: bool,
    /// Where none leads, one that stands by may answer what changes nothing.
    stale_ok: bool,
    stale_reported: bool,
    /// Whom the requests are for, when not for the user of this process.
    for_user: Option<Uid>,
}

/// Why one attempt to send a request and read its answer failed.
enum AttemptError {
    /// No connection was made: nothing was sent.
    Connect(io::Error),
    /// The connection broke; whether the request was carried out is not known.
    Lost(String),
    /// Nothing comes, and behind the socket of this number a controller leads.
    Silent(usize),
    /// Another attempt would fail in the same way.
    Final(CallError),
}

/// Why a socket has no answer now.
enum NoAnswer {
    /// No connection was made: nothing was sent.
    Connect(io::Error),
    /// The connection broke; whether the request was carried out is not known.
    Lost(String),
    /// The same, since nothing came; behind the socket of this number a controller leads.
    Silent(usize),
    /// The controller there cannot answer now, or stands by; nothing was changed.
    Refused(Refusal),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(e) => e.fmt(f),
            Self::Lost(why) => f.write_str(why),
            Self::Silent(_) => f.write_str(SILENCE),
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

/// Why a controller that does not answer was lost.
const SILENCE: &str = "it does not answer";

impl Failed {
    fn or(self, system: impl FnOnce(io::Error) -> AttemptError) -> AttemptError {
        match self {
            Self::System(e) => system(e),
            Self::LedBy(leader) => AttemptError::Silent(leader),
        }
    }
}

impl NoAnswer {
    /// It is about the controller behind the socket, which was there a moment ago.
    const fn is_of_controller(&self) -> bool {
        match self {
            Self::Connect(_) => false,
            Self::Lost(_) | Self::Silent(_) | Self::Refused(_) => true,
        }
    }
}

/// Why the sockets that were asked in turn have no answer, by the number of each.
type Round = Vec<(usize, NoAnswer)>;

/// Since when a request is repeated, and why.
#[derive(Default)]
struct Course {
    lost: Option<Instant>,
    standby: Option<Instant>,
    unreachable: Option<Instant>,
    /// End of the sentence when it is given up: that its outcome is unknown.
    outcome: &'static str,
}

impl Caller {
    /// For the controller behind the socket `path`; `notice` is given the lines that the user
    /// should see: that the connection was lost, that the controller is waited for.
    pub fn new(path: &Path, retry: RetryPolicy, notice: impl FnMut(&str) + 'static) -> Self {
        Self::of_sockets(vec![path.to_owned()], retry, notice)
    }

    /// The same for a controller behind one of `sockets`, of which there is at least one: where one
    /// of them does not lead to it now, the next is asked.
    pub fn of_sockets(
        sockets: Vec<PathBuf>,
        retry: RetryPolicy,
        notice: impl FnMut(&str) + 'static,
    ) -> Self {
        Self {
            sockets,
            current: 0,
            retry,
            stream: None,
            idle: false,
            notice: Box::new(notice),
            loss_reported: false,
            stale_ok: cluster::stale_ok(),
            stale_reported: false,
            for_user: None,
        }
    }

    /// Requests from now on are for that user; the controller judges whether this process may
    /// speak for others.
    pub const fn speak_for(&mut self, user: Option<Uid>) {
        self.for_user = user;
    }

    /// Where none leads, one that stands by may answer what changes nothing; the user is told how old
    /// the answer is.
    pub fn accept_stale(&mut self) {
        self.stale_ok = true;
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
        let mut course = Course::default();
        if request.changes() {
            course.outcome = "; whether the request was carried out is not known";
        }
        let stale_ok = self.stale_ok && !request.changes() && !endless;
        let mut frame = request_frame(request, key);
        frame.for_user = self.for_user;
        let encode = |frame: &RequestFrame| frame::encode(frame, FRAME_BYTES);
        let bytes = encode(&frame).map_err(CallError::TooLarge)?;
        frame.stale_ok = true;
        let to_standbys = stale_ok.then(|| encode(&frame)).transpose();
        let to_standbys = to_standbys.map_err(CallError::TooLarge)?;
        loop {
            let round = match self.ask_all(&bytes, endless, &mut course) {
                Ok(judged) => return judged,
                Err(round) => round,
            };
            if let Some(bytes) = &to_standbys
                && course.standby.is_some()
                && let Ok(judged) = self.ask_all(bytes, endless, &mut course)
            {
                return judged;
            }
            self.pause(round, &mut course)?;
        }
    }

    /// Asks at each socket in turn; gives what is final, or why none has an answer.
    fn ask_all(
        &mut self,
        frame: &[u8],
        endless: bool,
        course: &mut Course,
    ) -> Result<Result<Reply, CallError>, Round> {
        let mut round = Round::new();
        for _ in 0..self.sockets.len() {
            match self.ask_here(frame, endless, course) {
                // A node may not pass on everything: what the controller said itself counts.
                Ok(Err(CallError::Refused(refusal)))
                    if refusal.code == RefusalCode::Forbidden
                        && course.standby.is_none()
                        && round.iter().any(|(_, why)| why.is_of_controller()) =>
                {
                    round.push((self.current, NoAnswer::Refused(refusal)));
                }
                Ok(judged) => return Ok(judged),
                Err(NoAnswer::Silent(leader)) => {
                    round.push((self.current, NoAnswer::Silent(leader)));
                    self.go_elsewhere(leader);
                    continue;
                }
                Err(why) => round.push((self.current, why)),
            }
            self.turn_to((self.current + 1) % self.sockets.len());
        }
        Err(round)
    }

    /// Asks at the current socket; gives what is final.
    fn ask_here(
        &mut self,
        frame: &[u8],
        endless: bool,
        course: &mut Course,
    ) -> Result<Result<Reply, CallError>, NoAnswer> {
        loop {
            let started = Instant::now();
            // The controller may have closed an idle connection: that is no loss.
            let was_idle = std::mem::take(&mut self.idle);
            match self.attempt(frame, endless) {
                Ok(answer) => {
                    self.idle = true;
                    return match self.check_reply(answer) {
                        Err(CallError::Refused(refusal)) if may_answer_later(refusal.code) => {
                            if refusal.code == RefusalCode::Standby {
                                course.standby.get_or_insert_with(Instant::now);
                            }
                            Err(NoAnswer::Refused(refusal))
                        }
                        judged => Ok(judged),
                    };
                }
                Err(AttemptError::Final(e)) => return Ok(Err(e)),
                Err(AttemptError::Connect(e)) => return Err(NoAnswer::Connect(e)),
                Err(AttemptError::Lost(_)) if was_idle => self.stream = None,
                Err(AttemptError::Lost(why)) => {
                    self.note_loss(endless.then_some(started), course);
                    return Err(NoAnswer::Lost(why));
                }
                Err(AttemptError::Silent(leader)) => {
                    self.note_loss(endless.then_some(started), course);
                    return Err(NoAnswer::Silent(leader));
                }
            }
        }
    }

    /// The connection was lost; `started`: since when a wait without end has lasted.
    fn note_loss(&mut self, started: Option<Instant>, course: &mut Course) {
        self.stream = None;
        if started.is_some_and(|at| at.elapsed() > self.retry.reconnect_for) {
            // The controller was found again after the loss, and this wait is a new one.
            (course.lost, course.standby) = (None, None);
        }
        course.lost.get_or_insert_with(Instant::now);
    }

    /// Turns from the silent one to where a controller leads.
    fn go_elsewhere(&mut self, leader: usize) {
        let (silent, leads) = (self.path_text(self.current), self.path_text(leader));
        (self.notice)(&format!(
            "the controller at {silent} does not answer; asking the one that leads at {leads}"
        ));
        self.turn_to(leader);
    }

    fn turn_to(&mut self, next: usize) {
        if next != self.current {
            (self.current, self.stream, self.idle) = (next, None, false);
        }
    }

    /// Pauses before all are asked again.
    ///
    /// # Errors
    /// They are not: the request is given up.
    fn pause(&mut self, round: Round, course: &mut Course) -> Result<(), CallError> {
        let alone = self.sockets.len() == 1 && course.standby.is_none();
        let refused_alone = alone && matches!(round.first(), Some((_, NoAnswer::Refused(_))));
        let since = course.lost.or(course.standby);
        let Some(since) = since.filter(|_| !refused_alone) else {
            return match self.waits_for_controller(&mut course.unreachable) {
                true => Ok(()),
                false => Err(self.unreachable(round)),
            };
        };
        let said = self.said(&round);
        if since.elapsed() >= self.retry.reconnect_for {
            return match course.lost {
                None if self.waits_for_controller(&mut course.unreachable) => Ok(()),
                None => Err(CallError::NoLeader {
                    said,
                    seconds: self.retry.reconnect_for.as_secs(),
                }),
                Some(_) => Err(CallError::Lost {
                    path: self.path_text(lost_at(&round)),
                    why: said,
                    seconds: self.retry.reconnect_for.as_secs(),
                    outcome: course.outcome,
                }),
            };
        }
        self.report(&said, course);
        std::thread::sleep(match course.standby {
            Some(_) => since.elapsed().clamp(STANDBY_PAUSES[0], STANDBY_PAUSES[1]),
            None => self.retry.pause,
        });
        Ok(())
    }

    /// What each socket said: alone where there is one.
    fn said(&self, round: &Round) -> String {
        match round.as_slice() {
            [(_, why)] if self.sockets.len() == 1 => why.to_string(),
            all => {
                let each = all
                    .iter()
                    .map(|(socket, why)| format!("{}: {why}", self.path_text(*socket)));
                each.collect::<Vec<_>>().join("; ")
            }
        }
    }

    /// Why the first of the sockets has no answer: the others are there for when it does not lead.
    fn unreachable(&self, round: Round) -> CallError {
        let first = round.into_iter().min_by_key(|(socket, _)| *socket);
        match first {
            Some((socket, NoAnswer::Connect(cause))) => CallError::Unreachable {
                path: self.path_text(socket),
                cause,
            },
            Some((_, NoAnswer::Refused(refusal))) => CallError::Refused(refusal),
            Some((socket, why @ (NoAnswer::Lost(_) | NoAnswer::Silent(_)))) => {
                CallError::Unreachable {
                    path: self.path_text(socket),
                    cause: io::Error::other(why.to_string()),
                }
            }
            None => CallError::Unexpected,
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

    /// Where the controller may be, the place that gave the last answer first.
    pub fn sockets(&self) -> Vec<PathBuf> {
        let mut all = self.sockets.clone();
        all.rotate_left(self.current);
        all
    }

    /// The connection, when it still stands, for a conversation that goes on after the answer.
    pub fn into_stream(self) -> Option<UnixStream> {
        let stream = self.stream?;
        stream.set_read_timeout(None).ok()?;
        Some(stream)
    }

    fn report(&mut self, said: &str, course: &Course) {
        if !std::mem::replace(&mut self.loss_reported, true) {
            let seconds = self.retry.reconnect_for.as_secs();
            (self.notice)(&match course.lost {
                Some(_) => {
                    format!(
                        "lost the controller ({said}); trying to reach it again for {seconds} s"
                    )
                }
                None => format!("no controller leads now ({said}); asking again for {seconds} s"),
            });
        }
    }

    fn path_text(&self, socket: usize) -> String {
        let path = self.sockets.get(socket);
        path.map_or_else(String::new, |path| path.display().to_string())
    }

    fn attempt(&mut self, frame: &[u8], endless: bool) -> Result<ReplyFrame, AttemptError> {
        let limit = self.retry.answer_timeout;
        let place = (self.sockets.as_slice(), self.current);
        let mut ways = Ways::new(place, self.retry.looks, &mut self.notice);
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => ways
                .connect(limit)
                .map_err(|e| e.or(AttemptError::Connect))?,
        };
        let lost = |e: io::Error| AttemptError::Lost(io_message(&e));
        // The end of the connection shows itself when reading: there may be a refusal
        // to read even where writing failed.
        let written = match ways.write(&mut stream, frame, limit) {
            Err(Failed::System(e)) => Err(e),
            Err(led) => return Err(led.or(lost)),
            Ok(()) => Ok(()),
        };
        let timeout = (!endless).then_some(limit);
        let first = ways.await_answer(&stream, timeout);
        first.map_err(|e| e.or(lost))?;
        stream.set_read_timeout(timeout).map_err(lost)?;
        let mut reader = DeadlineReader::new(&mut stream, timeout.map(|t| 2 * t));
        let garbage = |cause| {
            AttemptError::Final(CallError::Garbage {
                path: self.path_text(self.current),
                cause,
            })
        };
        match frame::read_with(&mut reader, FRAME_BYTES, decode_reply) {
            Ok(Some(Ok(answer))) => {
                self.stream = Some(stream);
                Ok(answer)
            }
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
        if let Some(ms) = answer.stale_ms
            && !std::mem::replace(&mut self.stale_reported, true)
        {
            (self.notice)(&format!(
                "no controller leads; one that stands by answers, as of {} s ago",
                ms.div_ceil(1000)
            ));
        }
        match answer.reply {
            Reply::Refused(refusal) => Err(CallError::Refused(refusal)),
            reply => Ok(reply),
        }
    }
}

/// The same request may have another answer here later, and elsewhere now.
const fn may_answer_later(code: RefusalCode) -> bool {
    matches!(code, RefusalCode::Unavailable | RefusalCode::Standby)
}

/// The socket at which the connection was lost, else the last that was asked.
fn lost_at(round: &Round) -> usize {
    let lost = round
        .iter()
        .find(|(_, why)| matches!(why, NoAnswer::Lost(_) | NoAnswer::Silent(_)));
    lost.or(round.last()).map_or(0, |(socket, _)| *socket)
}

fn io_message(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => SILENCE.to_owned(),
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

#[cfg(test)]
mod tests;
