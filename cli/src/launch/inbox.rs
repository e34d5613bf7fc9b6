//! What comes on the connection to a step: first answers of the node daemon, then frames of the
//! step's supervisor.
//!
//! One large buffer, out of which output is written without being copied.

use cosy_model::limits::FRAME_BYTES;
use cosy_model::step::StepAnswer;
use cosy_proto::frame::{self, FrameError};
use cosy_proto::step;
use std::io::{self, Read};
use std::ops::Range;

/// Bytes that one read takes at most, and by which the buffer grows.
const READ: usize = 1 << 20;

/// Bytes that were read and not handled yet.
#[derive(Debug, Default)]
pub struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    /// Nothing has come yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads once, blocking; gives the number of bytes, 0 at the end of the connection.
    ///
    /// # Errors
    /// Errors of the connection, also `WouldBlock` when it has a time limit.
    pub fn fill(&mut self, from: &mut impl Read) -> io::Result<usize> {
        self.make_room();
        loop {
            match from.read(&mut self.buffer[self.end..]) {
                Ok(n) => {
                    self.end += n;
                    return Ok(n);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Makes room for the next read: moves the bytes to the front, or makes the buffer larger. It
    /// grows with the bytes that have come, never with the length that a frame announces.
    fn make_room(&mut self) {
        if self.buffer.is_empty() {
            // Fresh pages, which cost nothing before bytes come.
            self.buffer = vec![0; READ];
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start > 0 && self.buffer.len() - self.end < READ / 2 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() - self.end < READ / 2 {
            self.buffer.resize(self.buffer.len() + READ, 0);
        }
    }

    /// The next answer; `None` when more bytes are needed.
    ///
    /// # Errors
    /// Not an answer.
    pub fn answer(&mut self) -> Result<Option<StepAnswer>, FrameError> {
        let waiting = &self.buffer[self.start..self.end];
        let Some(header) = waiting.first_chunk::<{ frame::HEADER }>() else {
            return Ok(None);
        };
        let (length, limit) = (u32::from_le_bytes(*header) as usize, FRAME_BYTES);
        if length > limit {
            return Err(FrameError::TooLong { length, limit });
        }
        let Some(body) = waiting.get(frame::HEADER..frame::HEADER + length) else {
            return Ok(None);
        };
        let answer = frame::decode(body)?;
        self.start += frame::HEADER + length;
        Ok(Some(answer))
    }

    /// Takes the next frame of the step: its kind and the range of its body for [`Self::bytes`], valid
    /// until the next [`Self::fill`]. `None` when more bytes are needed.
    ///
    /// # Errors
    /// Too long, or of no known kind.
    pub fn frame(&mut self) -> Result<Option<(u8, Range<usize>)>, FrameError> {
        let waiting = &self.buffer[self.start..self.end];
        let Some((kind, body)) = step::first_raw(waiting)? else {
            return Ok(None);
        };
        let from = self.start + step::HEADER;
        let place = from..from + body.len();
        self.start = place.end;
        Ok(Some((kind, place)))
    }

    /// The bytes of a range that [`Self::frame`] gave.
    pub fn bytes(&self, place: Range<usize>) -> &[u8] {
        self.buffer.get(place).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_model::step::{Stream, UpFrame};
    use cosy_proto::step::StepFrame;
    use proptest::prelude::*;

    /// A reader that gives at most so many bytes in one read.
    struct ChunkedReader<'a>(&'a [u8], usize);

    impl Read for ChunkedReader<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(into.len());
            into[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn hostile_lengths() {
        let mut inbox = Inbox::new();
        inbox.fill(&mut ChunkedReader(&[255; 8], 8)).unwrap();
        assert!(inbox.answer().is_err());
        assert!(inbox.frame().is_err());
        assert!(inbox.buffer.len() <= 2 * READ);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: 32, ..ProptestConfig::default() })]
        #[test]
        fn answers_then_frames_cut_anywhere(
            sizes in proptest::collection::vec(0usize..100_000, 0..20),
            piece in 1usize..300_000,
        ) {
            let piece = piece.max(200);
            let mut bytes = frame::encode(&StepAnswer::Done, FRAME_BYTES).unwrap();
            for (rank, size) in sizes.iter().enumerate() {
                step::put_output(&mut bytes, rank as u32, Stream::Output, &vec![rank as u8; *size]);
            }
            let end = StepFrame::Up(UpFrame::StdinTaken { bytes: 3 });
            step::put(&mut bytes, &end).unwrap();
            let mut reader = ChunkedReader(&bytes, piece);
            let mut inbox = Inbox::new();
            while inbox.answer().unwrap().is_none() {
                prop_assert!(inbox.fill(&mut reader).unwrap() > 0);
            }
            let mut got = Vec::new();
            loop {
                while let Some((kind, place)) = inbox.frame().unwrap() {
                    if kind == step::OUTPUT {
                        let (rank, _, body) = step::output(inbox.bytes(place)).unwrap();
                        prop_assert!(body.iter().all(|b| u32::from(*b) == rank));
                        got.push(body.len());
                    } else {
                        prop_assert_eq!(inbox.bytes(place).len() + step::HEADER,
                            { let mut b = Vec::new(); step::put(&mut b, &end).unwrap(); b.len() });
                    }
                }
                if inbox.fill(&mut reader).unwrap() == 0 {
                    break;
                }
            }
            prop_assert_eq!(got, sizes);
        }
    }
}
