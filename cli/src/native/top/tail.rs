//! The last lines of a file that grows, as a terminal may show them.
//!
//! It is handed bytes as they come. Of colours and moves of the cursor nothing is left; what overwrites a line
//! (bars of progress do) takes its place.

use crate::output::harmless;
use std::collections::VecDeque;

/// Lines that are kept.
const LINES: usize = 2000;
/// Bytes of a line that are kept.
const LINE_BYTES: usize = 8 << 10;
/// Columns between two tab stops.
const TAB: usize = 8;

/// The last lines of a file.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    lines: VecDeque<String>,
    /// The line that has no end yet.
    open: Vec<u8>,
}

impl Tail {
    /// The file goes on with these bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match part.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let room = LINE_BYTES.saturating_sub(self.open.len());
            // What overwrites the line begins behind the last carriage return.
            let begins = text.iter().rposition(|byte| *byte == b'\r');
            match begins.filter(|at| *at + 1 < text.len()) {
                Some(at) => {
                    self.open.clear();
                    self.open.extend(text.iter().skip(at).take(LINE_BYTES));
                }
                None => self.open.extend(text.iter().take(room)),
            }
            if ends {
                let line = clean(&std::mem::take(&mut self.open));
                self.lines.push_back(line);
            }
        }
        let beyond = self.lines.len().saturating_sub(LINES);
        self.lines.drain(..beyond);
    }

    /// So many lines are there, the one without an end too.
    pub fn len(&self) -> usize {
        self.lines.len() + usize::from(!self.open.is_empty())
    }

    /// The lines from one on.
    pub fn from(&self, first: usize) -> impl Iterator<Item = String> {
        let open = (!self.open.is_empty()).then(|| clean(&self.open));
        self.lines.iter().cloned().chain(open).skip(first)
    }
}

/// A line without what would change a terminal.
fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches('\r');
    let text = text.rsplit_once('\r').map_or(text, |(_, last)| last);
    let mut line = String::with_capacity(text.len());
    let mut width = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.next_if_eq(&'[').is_some() => {
                // Parameters, then one letter.
                while chars.next_if(|c| (' '..='?').contains(c)).is_some() {}
                let _ = chars.next_if(|c| ('@'..='~').contains(c));
            }
            '\t' => {
                let blanks = TAB - width % TAB;
                line.extend(std::iter::repeat_n(' ', blanks));
                width += blanks;
            }
            c => {
                line.push(harmless(c));
                width += unicode_width::UnicodeWidthChar::width(c).unwrap_or(1);
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parts: &[&[u8]], want: &[&str]) {
        let mut tail = Tail::default();
        parts.iter().for_each(|part| tail.push(part));
        let got: Vec<String> = tail.from(0).collect();
        assert_eq!(got, want);
        assert_eq!(tail.len(), want.len());
    }

    #[test]
    fn lines_as_they_come() {
        check(&[b"one\ntw", b"o\nthr"], &["one", "two", "thr"]);
        check(&[b"\n\n"], &["", ""]);
        check(
            &[
                "\u{e9}".as_bytes().split_at(1).0,
                "\u{e9}".as_bytes().split_at(1).1,
            ],
            &["\u{e9}"],
        );
        check(&[b"\xff\n"], &["\u{fffd}"]);
        check(&[], &[]);
    }

    #[test]
    fn nothing_changes_the_terminal() {
        check(&[b"\x1b[31mred\x1b[0m \x1b[2Jx\x1b]0;title\x07\n"], &["red x?]0;title?"]);
        check(&["exe\u{202e}gpj\u{9b}31m\n".as_bytes()], &["exe?gpj?31m"]);
        check(&[b"a\tb\n"], &["a       b"]);
        check(&[b"\x1b["], &[""]);
        check(&[b"\x1b[12;", b"3Hx\n"], &["x"]);
    }

    #[test]
    fn bars_of_progress() {
        check(&[b"10%\r", b"20%\r", b"30%"], &["30%"]);
        check(&[b"10%\r20%\r\nnext\r\n"], &["20%", "next"]);
    }

    #[test]
    fn long_files_and_lines() {
        let mut tail = Tail::default();
        for n in 0..5000 {
            tail.push(format!("{n}\n").as_bytes());
        }
        assert_eq!((tail.len(), tail.from(0).next().as_deref()), (LINES, Some("3000")));
        let mut tail = Tail::default();
        for _ in 0..100 {
            tail.push(&[b'x'; 4096]);
        }
        assert_eq!(tail.from(0).next().map(|line| line.len()), Some(LINE_BYTES));
        for _ in 0..100 {
            tail.push(&[b"\r".as_slice(), &[b'y'; 40_000]].concat());
        }
        assert!(
            tail.from(0)
                .next()
                .is_some_and(|line| line.len() <= LINE_BYTES)
        );
    }
}
