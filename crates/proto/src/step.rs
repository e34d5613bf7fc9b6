//! Frames of a step: between its command and its supervisors, and between supervisors.
//!
//! Four bytes of length (little endian, without header), one byte of kind, then the rest.
//! Output and input travel as plain bytes; everything else as MessagePack. Lengths are
//! checked before memory is taken, and a buffer grows with the bytes that arrive.
//!
//! ```text
//! kind  0  Up::Output   rank u32, stream u8 (0 output, 1 error), bytes
//!       1  Up           MessagePack
//!       2  Down::Stdin  bytes
//!       3  Down         MessagePack
//!       4  Link         MessagePack: acknowledgement and resumption of a hop
//! ```
//!
//! On a connection that starts with MessagePack ([`cosy_model::step::StepAsk`],
//! [`cosy_model::step::StepAnswer`], in frames of [`crate::frame`]), these follow after
//! `Created`.

use crate::frame::{FrameError, decode};
use cosy_model::limits;
use cosy_model::step::{DownFrame, Stream, UpFrame};
use serde::{Deserialize, Serialize};

/// Bytes of a frame's header.
pub const HEADER: usize = 5;
/// Kind of a frame of output, see [`output`].
pub const OUTPUT: u8 = 0;
const UP: u8 = 1;
const STDIN: u8 = 2;
const DOWN: u8 = 3;
const LINK: u8 = 4;

/// Between the two ends of one hop of the tree, where daemons carry the bytes: so that a
/// hop that broke (a daemon was restarted) goes on where it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// How many frames of [`UpFrame`] or [`DownFrame`] were received in all: they need not be
    /// kept.
    Received(u64),
    /// First frame in both directions after a new connection: so many were received;
    /// what follows are those after them.
    Resume(u64),
}

/// What goes between the nodes of a step, and to its command: words and bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StepFrame {
    /// Towards the command.
    Up(UpFrame),
    /// Towards the tasks.
    Down(DownFrame),
    /// About the hop itself.
    Link(Link),
}

impl From<UpFrame> for StepFrame {
    fn from(up: UpFrame) -> Self {
        Self::Up(up)
    }
}

impl From<DownFrame> for StepFrame {
    fn from(down: DownFrame) -> Self {
        Self::Down(down)
    }
}

/// Appends the frame of `rank`'s output to `buffer`.
pub fn put_output(buffer: &mut Vec<u8>, rank: u32, stream: Stream, bytes: &[u8]) {
    put_header(buffer, OUTPUT, 5 + bytes.len());
    buffer.extend_from_slice(&rank.to_le_bytes());
    buffer.push(match stream {
        Stream::Output => 0,
        Stream::Error => 1,
    });
    buffer.extend_from_slice(bytes);
}

fn put_header(buffer: &mut Vec<u8>, kind: u8, length: usize) {
    buffer.extend_from_slice(&(length as u32).to_le_bytes());
    buffer.push(kind);
}

/// Appends a frame to `buffer`.
///
/// # Errors
/// Longer than [`limits::STEP_FRAME`].
pub fn put(buffer: &mut Vec<u8>, frame: &StepFrame) -> Result<(), FrameError> {
    let at = buffer.len();
    let result = match frame {
        StepFrame::Up(UpFrame::Output {
            rank,
            stream,
            bytes,
        }) => {
            put_output(buffer, *rank, *stream, bytes);
            Ok(())
        }
        StepFrame::Down(DownFrame::Stdin { bytes }) => {
            put_header(buffer, STDIN, bytes.len());
            buffer.extend_from_slice(bytes);
            Ok(())
        }
        StepFrame::Up(up) => put_packed(buffer, UP, up),
        StepFrame::Down(down) => put_packed(buffer, DOWN, down),
        StepFrame::Link(link) => put_packed(buffer, LINK, link),
    };
    let length = buffer.len() - at - HEADER.min(buffer.len() - at);
    let limit = limits::STEP_FRAME;
    let result = match result {
        Ok(()) if length > limit => Err(FrameError::TooLong { length, limit }),
        other => other,
    };
    if result.is_err() {
        buffer.truncate(at);
    }
    result
}

fn put_packed<T: Serialize>(buffer: &mut Vec<u8>, kind: u8, message: &T) -> Result<(), FrameError> {
    let at = buffer.len();
    put_header(buffer, kind, 0);
    rmp_serde::encode::write_named(buffer, message)
        .map_err(|e| FrameError::Malformed(e.to_string()))?;
    let length = (buffer.len() - at - HEADER) as u32;
    buffer[at..at + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// The first frame in `bytes` and how long it is with its header; `None` when more bytes
/// are needed.
///
/// # Errors
/// Too long, or no frame.
pub fn first(bytes: &[u8]) -> Result<Option<(StepFrame, usize)>, FrameError> {
    let Some((kind, body)) = first_raw(bytes)? else {
        return Ok(None);
    };
    Ok(Some((frame(kind, body)?, HEADER + body.len())))
}

/// Kind and body of the first frame; `None` when more bytes are needed.
///
/// # Errors
/// Too long, or of no known kind.
pub fn first_raw(bytes: &[u8]) -> Result<Option<(u8, &[u8])>, FrameError> {
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let [a, b, c, d, kind] = *header;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let limit = match kind {
        OUTPUT => limits::STEP_CHUNK + 5,
        STDIN => limits::STEP_CHUNK,
        UP | DOWN => limits::STEP_FRAME,
        LINK => 64,
        _ => return Err(FrameError::Malformed(format!("frame of kind {kind}"))),
    };
    if length > limit {
        return Err(FrameError::TooLong { length, limit });
    }
    Ok(bytes.get(HEADER..HEADER + length).map(|body| (kind, body)))
}

/// The frame of that kind with that body, as [`first_raw`] gives them.
///
/// # Errors
/// No frame.
pub fn frame(kind: u8, body: &[u8]) -> Result<StepFrame, FrameError> {
    match kind {
        OUTPUT => {
            let (rank, stream, bytes) = output(body)?;
            Ok(StepFrame::Up(UpFrame::Output {
                rank,
                stream,
                bytes: bytes.to_vec(),
            }))
        }
        STDIN => Ok(StepFrame::Down(DownFrame::Stdin {
            bytes: body.to_vec(),
        })),
        UP => Ok(StepFrame::Up(decode(body)?)),
        DOWN => Ok(StepFrame::Down(decode(body)?)),
        _ => Ok(StepFrame::Link(decode(body)?)),
    }
}

/// Rank, stream and bytes in the body of a frame of output (kind 0).
///
/// # Errors
/// Too short, or of no known stream.
pub fn output(body: &[u8]) -> Result<(u32, Stream, &[u8]), FrameError> {
    let bad = || FrameError::Malformed("frame of output".to_owned());
    let (head, bytes) = body.split_at_checked(5).ok_or_else(bad)?;
    let rank = u32::from_le_bytes(*head.first_chunk().ok_or_else(bad)?);
    let stream = match head[4] {
        0 => Stream::Output,
        1 => Stream::Error,
        _ => return Err(bad()),
    };
    Ok((rank, stream, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::step::TaskEnd;
    use proptest::prelude::*;

    #[test]
    fn frames_come_back() {
        let frames = [
            StepFrame::Up(UpFrame::Output {
                rank: 7,
                stream: Stream::Error,
                bytes: vec![1, 2, 3],
            }),
            StepFrame::Up(UpFrame::TaskEnded {
                rank: 1,
                end: TaskEnd {
                    exit_code: 3,
                    signal: 0,
                    failure: None,
                },
            }),
            StepFrame::Down(DownFrame::Stdin { bytes: vec![9; 10] }),
            StepFrame::Down(DownFrame::Signal { signal: 2 }),
            StepFrame::Link(Link::Resume(5)),
        ];
        let mut bytes = Vec::new();
        for frame in &frames {
            put(&mut bytes, frame).unwrap();
        }
        let mut rest = &bytes[..];
        for frame in frames {
            assert!(first(&rest[..4]).unwrap().is_none());
            let (got, length) = first(rest).unwrap().unwrap();
            assert_eq!(got, frame);
            rest = &rest[length..];
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn long_frames_are_refused_before_they_are_read() {
        let mut bytes = u32::MAX.to_le_bytes().to_vec();
        bytes.push(UP);
        assert!(matches!(first(&bytes), Err(FrameError::TooLong { .. })));
        assert!(first(&[0, 0, 0, 0, 77]).is_err());
        let long = StepFrame::Up(UpFrame::Gather {
            round: 0,
            parts: vec![(0, cosy_model::OsText(vec![0; limits::STEP_FRAME]))],
        });
        let mut buffer = vec![1];
        assert!(put(&mut buffer, &long).is_err());
        assert_eq!(buffer, [1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn hostile_bytes_give_errors(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = first(&bytes);
            let framed = [&(bytes.len() as u32).to_le_bytes()[..], &[bytes.len() as u8 % 6], &bytes].concat();
            let _ = first(&framed);
        }
    }
}
