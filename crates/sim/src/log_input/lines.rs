//! Bounded lines of a text that may be packed with gzip.

use super::{MAX_LINE_BYTES, MAX_SKIPPED_BYTES};
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// What some editors put before the first line of a text.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// The text of `input`, unpack if it begins as gzip does.
pub fn unpack<'a>(input: impl BufRead + 'a) -> Box<dyn BufRead + 'a> {
    let (head, input) = peek(input, GZIP_MAGIC.len());
    match head == GZIP_MAGIC {
        true => Box::new(BufReader::new(MultiGzDecoder::new(input))),
        false => input,
    }
}

/// The first bytes of `input`, at most as many, and all of it again. What goes wrong in the
/// first bytes goes wrong again there.
pub fn peek<'a>(
    mut input: impl BufRead + 'a,
    most_bytes: usize,
) -> (Vec<u8>, Box<dyn BufRead + 'a>) {
    let mut head = Vec::new();
    let most = most_bytes as u64;
    let error = input.by_ref().take(most).read_to_end(&mut head).err();
    let whole = Cursor::new(head.clone())
        .chain(BufReader::new(DeferredError(error)))
        .chain(input);
    (head, Box::new(whole))
}

/// Gives the error that an earlier read met, once: the reader itself may not say it again.
struct DeferredError(Option<io::Error>);

impl Read for DeferredError {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// One line, or what is there instead.
#[derive(Debug)]
pub enum Line<'a> {
    /// A line without its end.
    Text(&'a [u8]),
    /// Longer than [`MAX_LINE_BYTES`]; it was skipped.
    TooLong,
    /// The packed text ends early or is damaged; nothing follows.
    CutOff(io::Error),
    /// The text is at its end.
    End,
}

/// Reads a text line by line, none longer than [`MAX_LINE_BYTES`].
pub struct Lines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `input`, from its first.
    pub fn new(input: R) -> Self {
        Self {
            input,
            line: Vec::new(),
            number: 0,
        }
    }

    /// The number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line.
    ///
    /// # Errors
    /// Those of the system, and a line beyond [`MAX_SKIPPED_BYTES`]; a damaged packed text
    /// is none.
    pub fn read(&mut self) -> io::Result<Line<'_>> {
        self.line.clear();
        self.number += 1;
        let most = MAX_LINE_BYTES as u64 + 1;
        let mut bounded = self.input.by_ref().take(most);
        match bounded.read_until(b'\n', &mut self.line) {
            Ok(0) => Ok(Line::End),
            Ok(_) if self.line.len() > MAX_LINE_BYTES && !self.line.ends_with(b"\n") => {
                self.skip_rest()
            }
            Ok(_) => {
                let line = without_end(&self.line);
                let is_first = self.number == 1;
                let marked = line.strip_prefix(&BYTE_ORDER_MARK).filter(|_| is_first);
                Ok(Line::Text(marked.unwrap_or(line)))
            }
            Err(error) => damaged(error),
        }
    }

    fn skip_rest(&mut self) -> io::Result<Line<'_>> {
        let mut rest = MAX_SKIPPED_BYTES;
        loop {
            let held = match self.input.fill_buf() {
                Ok(held) => held,
                Err(error) => return damaged(error),
            };
            let end = held.iter().position(|byte| *byte == b'\n');
            let (skipped, over) = match end {
                Some(at) => (at + 1, true),
                None => (held.len(), held.is_empty()),
            };
            self.input.consume(skipped);
            if over {
                return Ok(Line::TooLong);
            }
            let left = rest.checked_sub(skipped);
            let endless = || io::Error::other(format!("line {} does not end", self.number));
            rest = left.ok_or_else(endless)?;
        }
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The unpacking reports damage with these kinds; plain files never do.
fn damaged<'a>(error: io::Error) -> io::Result<Line<'a>> {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData => {
            Ok(Line::CutOff(error))
        }
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_is_an_error() {
        let mut lines = Lines::new(BufReader::new(io::repeat(0)));
        let error = lines.read().unwrap_err();
        assert_eq!(error.to_string(), "line 1 does not end");
    }

    fn check(text: &[u8], expected: &[&str]) {
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        loop {
            match lines.read().unwrap() {
                Line::Text(line) => found.push(String::from_utf8(line.to_vec()).unwrap()),
                Line::TooLong => found.push("too long".to_owned()),
                Line::CutOff(_) => panic!("plain text is never cut off"),
                Line::End => break,
            }
        }
        assert_eq!(found, expected);
        assert_eq!(lines.number(), expected.len() as u64 + 1);
    }

    #[test]
    fn lines() {
        check(b"", &[]);
        check(b"a\r\n\nb", &["a", "", "b"]);
        check("\u{feff}a\n\u{feff}b".as_bytes(), &["a", "\u{feff}b"]);
        let longest = "x".repeat(MAX_LINE_BYTES);
        check(format!("{longest}\nb\n").as_bytes(), &[&longest, "b"]);
        check(format!("{longest}x\nb\n").as_bytes(), &["too long", "b"]);
        check(longest.repeat(5).as_bytes(), &["too long"]);
    }
}
