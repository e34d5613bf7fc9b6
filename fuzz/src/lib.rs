//! Fuzz targets for what faces hostile bytes: one module for each door.
//!
//! What comes in is cut into [`pieces`], so that the fuzzer can change one message without
//! spoiling the next. Each is decoded as the daemons decode it, and what passes is given to
//! the code behind, down to the controller with its invariants and a restart from the store.

pub mod judge;
pub mod link;
pub mod local;
pub mod peer;
pub mod pmi;
pub mod pmix;
pub mod rest;
pub mod seeds;

#[path = "../../crates/control/tests/world/mod.rs"]
mod world;

use cosy_proto::frame::{self, Decoder};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most pieces of one input.
const PIECES: usize = 16;

/// Pieces of an input: two bytes of length (little endian) before each; the last one may be
/// cut short.
pub fn pieces(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while all.len() < PIECES
        && let Some((length, rest)) = bytes.split_first_chunk::<2>()
    {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        all.push(piece);
        bytes = rest;
    }
    all
}

/// The reverse of [`pieces`].
pub fn joined(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in pieces {
        let length = u16::try_from(piece.len()).expect("a seed is short");
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(piece);
    }
    bytes
}

/// A message in a frame of its own, which arrives in two parts; what was read is written
/// and read again.
fn message<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(body: &[u8]) -> Option<T> {
    let mut decoder = Decoder::new(cosy_model::limits::FRAME_BYTES);
    let framed = [&(body.len() as u32).to_le_bytes()[..], body].concat();
    let (first, second) = framed.split_at(framed.len() / 2);
    decoder.push(first);
    assert!(decoder.next_frame().expect("half a frame is none").is_none());
    decoder.push(second);
    let whole = decoder.next_frame().expect("it fits").expect("it is whole");
    let message: T = frame::decode(whole).ok()?;
    let again = frame::encode(&message, usize::MAX >> 1).expect("what was read can be written");
    let again: T = frame::decode(&again[frame::HEADER..]).expect("what was written can be read");
    assert_eq!(message, again);
    Some(message)
}

/// Bytes as they are on a stream: any of the decoders' errors, never more than the limit.
fn stream(bytes: &[u8], limit: usize) {
    let mut decoder = Decoder::new(limit);
    for chunk in bytes.chunks(7) {
        decoder.push(chunk);
        loop {
            match decoder.next_frame() {
                Ok(Some(body)) => assert!(body.len() <= limit),
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}
