//! Bytes of a terminal as keys.
//!
//! Whether an escape is a key of its own or the beginning of one is told by what follows at once.

use ratatui_termion::termion::event::{Event, Key, parse_event};
use std::io;

/// Bytes of a key, at most: what is longer is none.
const LONGEST: usize = 32;

/// Bytes that have come and are no whole key yet.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
}

impl Input {
    /// More bytes have come: the keys that are whole.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.bytes.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some(length) = whole(&self.bytes) {
            let rest = self.bytes.split_off(length);
            let key = std::mem::replace(&mut self.bytes, rest);
            keys.extend(key_of(&key));
        }
        keys
    }

    /// Something has come that may go on.
    pub fn is_waiting(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Nothing more has come: what is there is taken as it is.
    pub fn end(&mut self) -> Vec<Key> {
        let bytes = std::mem::take(&mut self.bytes);
        match bytes.strip_prefix(b"\x1b") {
            Some(rest) => {
                let mut input = Self::default();
                let mut keys = vec![Key::Esc];
                keys.extend(input.push(rest));
                keys
            }
            None => Vec::new(),
        }
    }
}

/// Length of the key that the bytes begin with; `None`: it is not whole.
fn whole(bytes: &[u8]) -> Option<usize> {
    let length = match *bytes {
        [] | [0x1b] | [0x1b, b'[' | b'O'] => return None,
        [0x1b, b'[', b'[', ..] => 4,
        [0x1b, b'[', b'M', ..] => 6,
        [0x1b, b'[', ref rest @ ..] => {
            let end = rest.iter().position(|byte| (b'@'..=b'~').contains(byte));
            match end {
                Some(end) => end + 3,
                None if bytes.len() > LONGEST => bytes.len(),
                None => return None,
            }
        }
        [0x1b, b'O', ..] => 3,
        // Nothing here has a meaning with Alt: two keys came at once.
        [0x1b, ..] => 1,
        [first, ..] => width(first),
    };
    (bytes.len() >= length).then_some(length)
}

/// Bytes of the character that begins so.
const fn width(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

/// The key of these bytes; `None`: none that is known.
fn key_of(bytes: &[u8]) -> Option<Key> {
    let (first, rest) = bytes.split_first()?;
    if (*first, rest) == (0x1b, &[]) {
        return Some(Key::Esc);
    }
    let mut rest = rest.iter().map(|byte| io::Result::Ok(*byte));
    match parse_event(*first, &mut rest) {
        Ok(Event::Key(key)) => Some(key),
        Ok(Event::Mouse(_) | Event::Unsupported(_)) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(parts: &[&[u8]], want: &[Key], waiting: bool) {
        let mut input = Input::default();
        let keys: Vec<Key> = parts.iter().flat_map(|part| input.push(part)).collect();
        assert_eq!((keys.as_slice(), input.is_waiting()), (want, waiting), "{parts:?}");
    }

    #[test]
    fn keys() {
        check(
            &[b"aQ/\r\t"],
            &[
                Key::Char('a'),
                Key::Char('Q'),
                Key::Char('/'),
                Key::Char('\n'),
                Key::Char('\t'),
            ],
            false,
        );
        check(&[b"\x1b[A\x1b[B\x1bOA"], &[Key::Up, Key::Down], false);
        check(&[b"\x1b[5~\x1b[H\x1b[4~"], &[Key::PageUp, Key::Home, Key::End], false);
        check(&[b"\x03\x1a\x7f"], &[Key::Ctrl('c'), Key::Ctrl('z'), Key::Backspace], false);
        check(&["\u{e9}\u{8ba1}".as_bytes()], &[Key::Char('\u{e9}'), Key::Char('\u{8ba1}')], false);
    }

    /// A line over a network may cut keys into pieces.
    #[test]
    fn keys_in_pieces() {
        check(&[b"\x1b", b"[", b"A"], &[Key::Up], false);
        check(&[b"\x1b[", b"5", b"~q"], &[Key::PageUp, Key::Char('q')], false);
        check(&[b"\xc3", b"\xa9"], &[Key::Char('\u{e9}')], false);
        check(&[b"\x1b"], &[], true);
    }

    #[test]
    fn an_escape_alone() {
        let mut input = Input::default();
        assert!(input.push(b"\x1b").is_empty());
        assert_eq!(input.end(), [Key::Esc]);
        assert!(!input.is_waiting());
        check(&[b"\x1b\x1b"], &[Key::Esc], true);
        check(&[b"\x1bq\x1b\x1b[A"], &[Key::Esc, Key::Char('q'), Key::Esc, Key::Up], false);
        assert!(input.push(b"\xc3").is_empty());
        assert!(input.end().is_empty() && !input.is_waiting());
    }

    proptest! {
        #[test]
        fn whatever_comes(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8)) {
            let mut input = Input::default();
            for part in &parts {
                input.push(part);
                prop_assert!(input.bytes.len() <= LONGEST + 40);
            }
            input.end();
            prop_assert!(!input.is_waiting());
        }
    }
}
