//! Frames: four bytes of length (little endian), then a MessagePack map.
//!
//! The length is checked against a limit before anything is allocated, and the buffer
//! grows with the bytes that arrive, not with the length that was promised.

use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, Read, Write};

/// Bytes of a frame's header.
pub const HEADER: usize = 4;
/// Shorter bodies are copied instead of taking the decoder's memory with them, in bytes.
const COPIED: usize = 64 << 10;

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than allowed.
    #[error("a message of {length} bytes is longer than the {limit} allowed")]
    TooLong {
        /// Promised length in bytes.
        length: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// More values than allowed.
    #[error("a message has more than the {most} values allowed")]
    TooMany {
        /// Values that a message may have.
        most: usize,
    },
    /// The bytes do not have the form of a message.
    #[error("not a message of this protocol: {0}")]
    Malformed(String),
    /// The peer closed in the middle of a frame.
    #[error("the connection ended in the middle of a message")]
    Truncated,
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The whole frame for a message.
///
/// # Errors
/// [`FrameError::TooLong`] when it would pass `limit` bytes.
pub fn encode<T: Serialize>(message: &T, limit: usize) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; HEADER];
    let mut serializer = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
    message
        .serialize(&mut serializer)
        .map_err(|e| FrameError::Malformed(e.to_string()))?;
    let length = bytes.len() - HEADER;
    if length > limit {
        return Err(FrameError::TooLong { length, limit });
    }
    bytes[..HEADER].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// The message in a frame's body (without header).
///
/// # Errors
/// [`FrameError::Malformed`].
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(body);
    deserializer.set_max_depth(64);
    let message =
        T::deserialize(&mut deserializer).map_err(|e| FrameError::Malformed(e.to_string()))?;
    Ok(message)
}

/// Number of values in a frame's body, names of fields not counted: what it takes in memory
/// grows with them, however few bytes they are. Looks at each once and keeps nothing; of a body
/// that is no message it counts what there is. It ends where there are more than `most`, names
/// of fields counted too, of which a message has fewer than values.
///
/// # Errors
/// There are more.
pub fn values(body: &[u8], most: usize) -> Result<usize, FrameError> {
    let (mut at, mut all, mut names) = (0, 0_usize, 0_usize);
    while let Some(value) = Value::at(&body[at..]) {
        all += 1;
        names = names.saturating_add(value.names);
        if all > most.saturating_mul(2) {
            return Err(FrameError::TooMany { most });
        }
        at = at.saturating_add(value.bytes);
        if at >= body.len() {
            break;
        }
    }
    match all - names.min(all) {
        values if values <= most => Ok(values),
        _ => Err(FrameError::TooMany { most }),
    }
}

/// Whether a body is one value from its first byte to its last, whatever it says.
pub fn is_whole(body: &[u8]) -> bool {
    let (mut at, mut missing) = (0, 1_usize);
    while missing > 0 {
        let Some(value) = body.get(at..).and_then(Value::at) else {
            return false;
        };
        at = at.saturating_add(value.bytes);
        missing = (missing - 1).saturating_add(value.holds);
    }
    at == body.len()
}

/// The head of a MessagePack value, with what belongs to it alone.
struct Value {
    /// Its bytes, without the values that it holds.
    bytes: usize,
    /// Values that it holds, names of fields among them.
    holds: usize,
    /// Names of fields that it holds.
    names: usize,
}

impl Value {
    /// Source: the MessagePack specification, "Formats".
    fn at(body: &[u8]) -> Option<Self> {
        let marker = *body.first()?;
        let length = |bytes: usize| {
            let digits = body.get(1..=bytes)?;
            Some(
                digits
                    .iter()
                    .fold(0, |n: usize, b| (n << 8) | usize::from(*b)),
            )
        };
        let holds = |bytes: usize, holds: usize, names: usize| {
            Some(Self {
                bytes,
                holds,
                names,
            })
        };
        let plain = |bytes: usize| holds(bytes, 0, 0);
        let text = |head: usize| plain(length(head)?.saturating_add(1 + head));
        let extension = |head: usize| plain(length(head)?.saturating_add(2 + head));
        let list = |head: usize| holds(1 + head, length(head)?, 0);
        let map = |head: usize| {
            let names = length(head)?;
            holds(1 + head, names.saturating_mul(2), names)
        };
        match marker {
            0x80..=0x8f => {
                let names = usize::from(marker & 0x0f);
                holds(1, 2 * names, names)
            }
            0x90..=0x9f => holds(1, usize::from(marker & 0x0f), 0),
            0xa0..=0xbf => plain(1 + usize::from(marker & 0x1f)),
            0x00..=0x7f | 0xc0..=0xc3 | 0xe0..=0xff => plain(1),
            0xc4 | 0xd9 => text(1),
            0xc5 | 0xda => text(2),
            0xc6 | 0xdb => text(4),
            0xc7 => extension(1),
            0xc8 => extension(2),
            0xc9 => extension(4),
            0xcc | 0xd0 => plain(2),
            0xcd | 0xd1 => plain(3),
            0xca | 0xce | 0xd2 => plain(5),
            0xcb | 0xcf | 0xd3 => plain(9),
            0xd4..=0xd8 => plain(2 + (1 << (marker - 0xd4))),
            0xdc => list(2),
            0xdd => list(4),
            0xde => map(2),
            0xdf => map(4),
        }
    }
}

/// Bytes of one read in [`Decoder::fill`].
const CHUNK: usize = 16 << 10;

/// The body of a frame, with memory of its own.
#[derive(Debug)]
pub struct Body {
    bytes: Vec<u8>,
    /// Offset of the body in `bytes`.
    from: usize,
}

impl std::ops::Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, from: 0 }
    }
}

/// Cuts a stream of bytes into frame bodies.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    buffer: Vec<u8>,
    start: usize,
}

impl Decoder {
    /// A decoder that refuses frames of more than `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            start: 0,
        }
    }

    /// Changes the limit for the frames to come (after a handshake).
    pub const fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Adds bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && (self.start == self.buffer.len() || self.start > 64 << 10) {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Adds what one read gives: `read` fills a piece of the stack and tells how much of it.
    ///
    /// # Errors
    /// That of `read`.
    pub fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        let mut chunk = [0; CHUNK];
        let n = read(&mut chunk)?;
        self.push(&chunk[..n]);
        Ok(n)
    }

    /// The next whole frame body, `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] as soon as the header is there.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let waiting = &self.buffer[self.start..];
        let Some(header) = waiting.first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*header) as usize;
        if length > self.limit {
            return Err(FrameError::TooLong {
                length,
                limit: self.limit,
            });
        }
        if waiting.len() < HEADER + length {
            return Ok(None);
        }
        let from = self.start + HEADER;
        self.start = from + length;
        Ok(Some(&self.buffer[from..from + length]))
    }

    /// The same as [`Self::next_frame`], with memory of its own: of a long frame that nothing
    /// follows it is the decoder's, and no byte is copied.
    ///
    /// # Errors
    /// As [`Self::next_frame`].
    pub fn next_body(&mut self) -> Result<Option<Body>, FrameError> {
        let Some(body) = self.next_frame()? else {
            return Ok(None);
        };
        let length = body.len();
        if !self.is_empty() || length < COPIED {
            let from = self.start - length;
            return Ok(Some(self.buffer[from..self.start].to_vec().into()));
        }
        let bytes = std::mem::take(&mut self.buffer);
        let from = std::mem::take(&mut self.start) - length;
        Ok(Some(Body { bytes, from }))
    }

    /// Bytes of the frame that has begun, its header with it, as far as its header is there.
    pub fn promised(&self) -> Option<usize> {
        let header = self.buffer[self.start..].first_chunk::<HEADER>()?;
        Some(HEADER + u32::from_le_bytes(*header) as usize)
    }

    /// What came after the last whole frame: for a stream that goes on in another form.
    pub fn into_rest(mut self) -> Vec<u8> {
        self.buffer.drain(..self.start);
        self.buffer
    }

    /// True when no part of a frame waits: the stream may end here.
    pub const fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }

    /// Bytes of frames that are not whole yet.
    pub const fn buffered(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Takes out what came after the last frame given: the connection goes on otherwise.
    pub fn rest(&mut self) -> Vec<u8> {
        let rest = self.buffer.split_off(self.start);
        self.buffer.clear();
        self.start = 0;
        rest
    }

    /// Gives memory of past large frames back.
    pub fn shrink(&mut self) {
        if self.is_empty() {
            self.buffer = Vec::new();
            self.start = 0;
        }
    }
}

/// Writes one message (blocking).
///
/// # Errors
/// [`FrameError`] of encoding or of the stream.
pub fn write<T: Serialize>(
    stream: &mut impl Write,
    message: &T,
    limit: usize,
) -> Result<(), FrameError> {
    stream.write_all(&encode(message, limit)?)?;
    Ok(())
}

/// Reads one message (blocking); `None` at a clean end of the stream.
///
/// # Errors
/// [`FrameError`] of decoding or of the stream.
pub fn read<T: DeserializeOwned>(
    stream: &mut impl Read,
    limit: usize,
) -> Result<Option<T>, FrameError> {
    read_with(stream, limit, decode)
}

/// Reads one frame (blocking) and gives what `understand` makes of its body; `None` at a clean
/// end of the stream.
///
/// # Errors
/// [`FrameError`] of `understand` or of the stream.
pub fn read_with<T>(
    stream: &mut impl Read,
    limit: usize,
    understand: impl FnOnce(&[u8]) -> Result<T, FrameError>,
) -> Result<Option<T>, FrameError> {
    // Most messages are short. A long one is read in larger pieces.
    const SHORT: usize = 16 << 10;
    const LONG: usize = 256 << 10;
    let mut decoder = Decoder::new(limit);
    let mut chunk = vec![0u8; SHORT];
    loop {
        if let Some(body) = decoder.next_frame()? {
            return understand(body).map(Some);
        }
        if decoder.buffered() >= SHORT && chunk.len() < LONG {
            chunk.resize(LONG, 0);
        }
        let n = match stream.read(&mut chunk) {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e.into()),
        };
        if n == 0 {
            return if decoder.is_empty() {
                Ok(None)
            } else {
                Err(FrameError::Truncated)
            };
        }
        decoder.push(&chunk[..n]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_come_back_whole() {
        let frame = encode(&vec![1u32, 2, 3], 100).unwrap();
        let mut d = Decoder::new(100);
        for byte in &frame {
            assert!(d.next_frame().unwrap().is_none());
            d.push(&[*byte]);
        }
        let body = d.next_frame().unwrap().unwrap();
        assert_eq!(decode::<Vec<u32>>(body).unwrap(), [1, 2, 3]);
        assert!(d.is_empty());
    }

    #[test]
    fn values_are_counted() {
        use cosy_model::api::{JobField, JobFilter, Request};
        let count = |request: Request| {
            let frame = encode(&crate::client::RequestFrame::new(request, None), 1 << 20).unwrap();
            values(&frame[HEADER..], 1_000_000).unwrap()
        };
        let small = count(Request::Ping);
        assert!(small <= 5, "{small}");
        let users = |n| {
            let filter = JobFilter {
                users: vec![String::new(); n],
                ..JobFilter::default()
            };
            count(Request::History {
                filter,
                fields: vec![JobField::Id; 7],
            })
        };
        let few = users(0);
        assert!(few < 40, "{few}");
        assert_eq!(users(100_000), few + 100_000);
        // Numbers, bytes, floats, nothing and what is cut.
        let all = (1_u64, -5_i8, 1.5_f64, u64::MAX, None::<u8>, (300_u16, true, "x".repeat(300)));
        let frame = encode(&all, 1000).unwrap();
        assert_eq!(values(&frame[HEADER..], 10).unwrap(), 10);
        assert!(values(&frame[HEADER..], 9).is_err());
        for body in [
            &[][..],
            &[0xdf, 0xff, 0xff, 0xff, 0xff],
            &[0xdb, 0xff, 0xff],
            &[0xc9],
        ] {
            let _ = values(body, 10);
        }
        assert_eq!(values(&[0x91; 5000], 5000).unwrap(), 5000);
        assert!(values(&[0x91; 5000], 4999).is_err());
    }

    /// A body is taken without a copy where nothing follows it, and is the same in any case.
    #[test]
    fn bodies_have_memory_of_their_own() {
        let long = vec![7u8; 2 * COPIED];
        let frame = encode(&long, 1 << 20).unwrap();
        let mut d = Decoder::new(1 << 20);
        d.push(&frame);
        let place = d.buffer.as_ptr() as usize + HEADER;
        let body = d.next_body().unwrap().unwrap();
        assert_eq!(body.as_ptr() as usize, place);
        assert_eq!(decode::<Vec<u8>>(&body).unwrap(), long);
        assert!(d.is_empty() && d.next_body().unwrap().is_none());
        let short = encode(&3u32, 100).unwrap();
        d.push(&frame);
        d.push(&short);
        for _ in 0..2 {
            assert!(d.next_body().unwrap().is_some());
            d.push(&short);
        }
        for _ in 0..2 {
            let body = d.next_body().unwrap().unwrap();
            assert_eq!(decode::<u32>(&body).unwrap(), 3);
        }
        assert!(d.next_body().unwrap().is_none());
    }

    #[test]
    fn long_frames_are_refused_before_they_are_read() {
        let mut d = Decoder::new(10);
        d.push(&11u32.to_le_bytes());
        assert!(matches!(d.next_frame(), Err(FrameError::TooLong { .. })));
        assert!(encode(&vec![0u8; 100], 10).is_err());
    }

    proptest! {
        #[test]
        fn hostile_bytes_give_errors(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<crate::client::RequestFrame>(&bytes);
            let _ = decode::<crate::client::ReplyFrame>(&bytes);
            let _ = decode::<crate::link::FromNode>(&bytes);
            let _ = decode::<crate::link::ToNode>(&bytes);
            let mut d = Decoder::new(1000);
            d.push(&bytes);
            while let Ok(Some(_)) = d.next_frame() {}
        }

        #[test]
        fn cut_anywhere(parts in proptest::collection::vec(proptest::collection::vec(any::<u32>(), 0..20), 1..6), cut in 1usize..30) {
            let mut stream = Vec::new();
            for p in &parts {
                stream.extend(encode(p, 1000).unwrap());
            }
            let mut d = Decoder::new(1000);
            let mut out: Vec<Vec<u32>> = Vec::new();
            for chunk in stream.chunks(cut) {
                d.push(chunk);
                while let Some(body) = d.next_frame().unwrap() {
                    out.push(decode(body).unwrap());
                }
            }
            prop_assert_eq!(out, parts);
        }
    }
}
