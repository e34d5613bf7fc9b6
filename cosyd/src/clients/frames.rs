//! Frames of requests and answers: read with patience, counted, understood, written at the
//! rate that the peer has to take them.

use crate::budget::Share;
use crate::deadline::within;
use cosy_model::api::{Reply, Request};
use cosy_model::{Refusal, RefusalCode, limits};
use cosy_proto::client::{self, ReplyFrame, RequestFrame};
use cosy_proto::frame::{self, Body, Decoder};
use std::time::{Duration, Instant};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;

/// An answer must be taken at this rate at least, in bytes in a second.
pub(super) const TAKE_RATE: usize = 64 << 10;

/// A whole frame of an answer, counted until it is taken.
#[derive(Debug)]
pub struct Encoded {
    /// Frame with its header, ready to be written.
    pub bytes: Vec<u8>,
    /// What it is counted as; dropped with it.
    pub share: Option<Share>,
}

/// Whether a read brought bytes or the end.
#[derive(PartialEq)]
pub(super) enum ReadEnd {
    /// Bytes have come, perhaps not a whole frame.
    Some,
    /// The peer has closed its end, or was silent for too long between two requests.
    Over,
}

fn invalid(e: frame::FrameError) -> Refusal {
    let code = match &e {
        frame::FrameError::TooMany { .. } => RefusalCode::TooMany,
        frame::FrameError::TooLong { .. }
        | frame::FrameError::Malformed(_)
        | frame::FrameError::Truncated
        | frame::FrameError::Io(_) => RefusalCode::Invalid,
    };
    Refusal::new(code, e.to_string())
}

/// How many values a request has.
pub(super) fn count(body: Body) -> Result<(Body, usize), Refusal> {
    let values = frame::values(&body, limits::REQUEST_VALUES).map_err(invalid)?;
    Ok((body, values))
}

/// Reads what is there, waiting until then.
pub(super) async fn read(
    stream: &UnixStream,
    decoder: &mut Decoder,
    until: Option<Instant>,
) -> Result<ReadEnd, Refusal> {
    let between = decoder.is_empty();
    match within(until, arrived(stream, decoder)).await {
        Ok(Ok(0) | Err(_)) => Ok(ReadEnd::Over),
        Ok(Ok(_)) => Ok(ReadEnd::Some),
        Err(_) if between => Ok(ReadEnd::Over),
        Err(_) => Err(Refusal::invalid("the request did not come to its end")),
    }
}

/// The question in a frame's body.
pub(super) fn understand(body: &[u8]) -> Result<RequestFrame, Refusal> {
    frame::decode(body).map_err(|e| match client::foreign(body) {
        Some(theirs) => Refusal::new(
            RefusalCode::Version,
            format!(
                "this command speaks protocol version {theirs}, the controller {}, which does not know this request: use programs of one release",
                cosy_proto::PROTOCOL
            ),
        ),
        None => Refusal::invalid(e.to_string()),
    })
}

/// Waits for bytes and gives them to the decoder; tells how many, 0 at the end of the stream.
/// A connection that is silent holds no memory for bytes to come.
async fn arrived(stream: &UnixStream, decoder: &mut Decoder) -> std::io::Result<usize> {
    loop {
        stream.readable().await?;
        match decoder.fill(|chunk| stream.try_read(chunk)) {
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

/// Bytes that are kept free for an answer of that kind while it is made: as rows and as a
/// frame. 0 for those that are short.
pub(super) fn room_for(request: &Request) -> u64 {
    let page = 2 * limits::PAGE_BYTES as u64;
    let whole = 2 * limits::REPLY_BYTES as u64;
    let list = |in_pages: bool| if in_pages { page } else { whole };
    match request {
        Request::Jobs { filter, .. } | Request::History { filter, .. } => list(filter.pages),
        Request::Steps { pages, .. } => list(*pages),
        Request::Explain { .. }
        | Request::Script { .. }
        | Request::Queues
        | Request::Nodes
        | Request::Triggers
        | Request::Events { .. }
        | Request::Ledger { .. }
        | Request::Quote { .. }
        | Request::Reservations { .. }
        | Request::PlanFlow { .. }
        | Request::Flows { .. }
        | Request::PlanChart { .. }
        | Request::Policy(_)
        | Request::Accounts { .. } => page,
        Request::Ping
        | Request::Meter
        | Request::TryRules { .. }
        | Request::Settings
        | Request::Submit(_)
        | Request::Allocate(_)
        | Request::Attend { .. }
        | Request::Finish { .. }
        | Request::Entry { .. }
        | Request::Pass { .. }
        | Request::Cancel { .. }
        | Request::Hold { .. }
        | Request::Release { .. }
        | Request::Requeue { .. }
        | Request::Suspend { .. }
        | Request::Resume { .. }
        | Request::Notify { .. }
        | Request::Top { .. }
        | Request::Change { .. }
        | Request::Wait { .. }
        | Request::SetTrigger(_)
        | Request::ClearTriggers { .. }
        | Request::NodeControl { .. }
        | Request::QueueControl { .. }
        | Request::SetQueue { .. }
        | Request::DeleteQueue { .. }
        | Request::UseLicense { .. }
        | Request::Reload
        | Request::JoinToken { .. }
        | Request::Reserve { .. }
        | Request::Confirm { .. }
        | Request::CancelReservation { .. }
        | Request::ExtendReservation { .. }
        | Request::ShortenReservation { .. }
        | Request::ShareReservation { .. }
        | Request::AlterReservation { .. }
        | Request::SubmitFlow { .. }
        | Request::ConfirmFlow { .. }
        | Request::CancelFlow { .. }
        | Request::AccountControl { .. }
        | Request::Archive { .. }
        | Request::Controllers
        | Request::HandOver { .. }
        | Request::ChangePolicy { .. } => 0,
    }
}

impl Encoded {
    /// A refusal, which is short.
    pub fn refused(refusal: Refusal) -> Self {
        Self {
            bytes: encode(Reply::Refused(refusal)),
            share: None,
        }
    }
}

/// Writes bytes to a peer that takes some of them at least every `patience`, and all of them at
/// [`TAKE_RATE`].
///
/// # Errors
/// The connection broke, or the peer is too slow.
pub async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    patience: Duration,
) -> std::io::Result<()> {
    let slow = || std::io::Error::from(std::io::ErrorKind::TimedOut);
    let seconds = u64::try_from(bytes.len() / TAKE_RATE).unwrap_or(0);
    let until = tokio::time::Instant::now() + patience + Duration::from_secs(seconds);
    let mut left = bytes;
    while !left.is_empty() {
        let next = until.min(tokio::time::Instant::now() + patience);
        let written = tokio::time::timeout_at(next, stream.write(left)).await;
        match written.map_err(|_| slow())?? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            n => left = &left[n..],
        }
    }
    let next = tokio::time::Instant::now() + patience;
    tokio::time::timeout_at(next, stream.flush())
        .await
        .map_err(|_| slow())?
}

/// The frame of an answer; an answer that is too large becomes a refusal.
pub fn encode(reply: Reply) -> Vec<u8> {
    encode_with(reply, Vec::new())
}

/// The same with what rules tell the user beside it.
pub(super) fn encode_with(reply: Reply, notices: Vec<String>) -> Vec<u8> {
    encode_frame(&ReplyFrame {
        notices,
        ..ReplyFrame::new(reply)
    })
}

/// The same of a controller that stands by, as of so long ago.
pub(super) fn encode_stale(reply: Reply, age: Duration) -> Vec<u8> {
    encode_frame(&ReplyFrame {
        stale_ms: u64::try_from(age.as_millis()).ok(),
        ..ReplyFrame::new(reply)
    })
}

fn encode_frame(answer: &ReplyFrame) -> Vec<u8> {
    match frame::encode(answer, limits::REPLY_BYTES) {
        Ok(bytes) => bytes,
        Err(e) => {
            let refusal = Refusal::new(
                RefusalCode::TooMany,
                format!("the answer is too large ({e}): ask for less at once"),
            );
            let answer = ReplyFrame::new(Reply::Refused(refusal));
            frame::encode(&answer, limits::REPLY_BYTES).unwrap_or_default()
        }
    }
}

/// Returns when the peer has closed its end while it should be waiting.
pub(super) async fn hung_up(stream: &UnixStream) {
    loop {
        match stream.ready(tokio::io::Interest::READABLE).await {
            Ok(ready) if ready.is_read_closed() => return,
            Ok(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            Err(_) => return,
        }
    }
}
