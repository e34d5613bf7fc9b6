//! Output of many tasks on one descriptor: raw, in whole lines, or with the task's rank
//! before each line.
//!
//! Pure. Nothing is lost, changed or reordered within a task and stream; lines of several
//! tasks are never mixed, unless a line is longer than [`LINE_BYTES`]. The first pieces of
//! a line are kept until its end comes.

use cosy_model::step::Stream;
use std::collections::BTreeMap;

/// A longer line is written in pieces.
pub const LINE_BYTES: usize = 64 << 10;

/// How output is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// As the bytes come.
    Raw,
    /// In whole lines, so that those of two tasks do not mix.
    Whole,
    /// In whole lines, each after the rank in so many columns.
    Label(usize),
}

/// Output that is on its way.
#[derive(Debug)]
pub struct Lines {
    style: Style,
    tails: BTreeMap<(u32, u8), Tail>,
}

/// The beginning of a line that has no end yet.
#[derive(Debug, Default)]
struct Tail {
    bytes: Vec<u8>,
    /// A first piece of this line was written already.
    begun: bool,
}

impl Lines {
    /// Nothing is on its way.
    pub const fn new(style: Style) -> Self {
        Self {
            style,
            tails: BTreeMap::new(),
        }
    }

    /// True when bytes can be written just as they are, whosever they are.
    pub fn passes(&self) -> bool {
        self.style == Style::Raw
    }

    /// Output of a task; what is to be written is added to `out`.
    pub fn feed(&mut self, rank: u32, stream: Stream, bytes: &[u8], out: &mut Vec<u8>) {
        match self.style {
            Style::Raw => out.extend_from_slice(bytes),
            Style::Whole => self.whole(key(rank, stream), bytes, out),
            Style::Label(width) => self.labelled(key(rank, stream), bytes, width, out),
        }
    }

    fn whole(&mut self, key: (u32, u8), bytes: &[u8], out: &mut Vec<u8>) {
        let end = bytes
            .iter()
            .rposition(|b| *b == b'\n')
            .map_or(0, |at| at + 1);
        let (lines, rest) = bytes.split_at(end);
        if !lines.is_empty() {
            if let Some(tail) = self.tails.remove(&key) {
                out.extend_from_slice(&tail.bytes);
            }
            out.extend_from_slice(lines);
        }
        if !rest.is_empty() {
            let tail = self.tails.entry(key).or_default();
            tail.bytes.extend_from_slice(rest);
            if tail.bytes.len() > LINE_BYTES {
                out.append(&mut tail.bytes);
            }
        }
    }

    fn labelled(&mut self, key: (u32, u8), bytes: &[u8], width: usize, out: &mut Vec<u8>) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let whole = piece.ends_with(b"\n");
            if !whole {
                let tail = self.tails.entry(key).or_default();
                tail.bytes.extend_from_slice(piece);
                if tail.bytes.len() > LINE_BYTES {
                    label(key.0, width, tail, out);
                }
                continue;
            }
            match self.tails.remove(&key) {
                Some(mut tail) => label(key.0, width, &mut tail, out),
                None => put_label(key.0, width, out),
            }
            out.extend_from_slice(piece);
        }
    }

    /// What tasks left unfinished: to be written at the end. With labels each gets a line
    /// of its own.
    pub fn finish(&mut self, stream: Stream, out: &mut Vec<u8>) {
        let which = key(0, stream).1;
        let tails = std::mem::take(&mut self.tails);
        for (key, mut tail) in tails {
            if key.1 != which {
                self.tails.insert(key, tail);
                continue;
            }
            if let Style::Label(width) = self.style {
                if !tail.bytes.is_empty() || tail.begun {
                    label(key.0, width, &mut tail, out);
                    out.push(b'\n');
                }
            } else {
                out.append(&mut tail.bytes);
            }
        }
    }
}

const fn key(rank: u32, stream: Stream) -> (u32, u8) {
    match stream {
        Stream::Output => (rank, 0),
        Stream::Error => (rank, 1),
    }
}

fn label(rank: u32, width: usize, tail: &mut Tail, out: &mut Vec<u8>) {
    if !tail.begun {
        put_label(rank, width, out);
    }
    tail.begun = true;
    out.append(&mut tail.bytes);
}

fn put_label(rank: u32, width: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{rank:>width$}: ").as_bytes());
}

/// Columns that the highest rank of so many tasks needs.
pub fn width(tasks: u32) -> usize {
    tasks.saturating_sub(1).checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(style: Style, pieces: &[(u32, &str)]) -> String {
        let mut lines = Lines::new(style);
        let mut out = Vec::new();
        for (rank, text) in pieces {
            lines.feed(*rank, Stream::Output, text.as_bytes(), &mut out);
        }
        lines.finish(Stream::Output, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn styles() {
        let check = |style, pieces: &[(u32, &str)], want: &str| {
            assert_eq!(written(style, pieces), want, "{pieces:?}");
        };
        let mixed: &[(u32, &str)] = &[(0, "a"), (1, "x\ny"), (0, "b\nc"), (1, "\n"), (0, "d")];
        check(Style::Raw, mixed, "ax\nyb\nc\nd");
        check(Style::Whole, mixed, "x\nab\ny\ncd");
        check(Style::Label(2), mixed, " 1: x\n 0: ab\n 1: y\n 0: cd\n");
        check(Style::Label(1), &[(3, "\n\nx")], "3: \n3: \n3: x\n");
        check(Style::Label(1), &[(3, "")], "");
    }

    #[test]
    fn streams_are_apart() {
        let mut lines = Lines::new(Style::Label(1));
        let mut out = Vec::new();
        lines.feed(0, Stream::Output, b"a", &mut out);
        lines.feed(0, Stream::Error, b"b\n", &mut out);
        lines.feed(0, Stream::Error, b"c", &mut out);
        lines.finish(Stream::Output, &mut out);
        lines.finish(Stream::Error, &mut out);
        assert_eq!(out, b"0: b\n0: a\n0: c\n");
    }

    #[test]
    fn endless_lines_are_not_kept() {
        for style in [Style::Whole, Style::Label(1)] {
            let mut lines = Lines::new(style);
            let mut out = Vec::new();
            for _ in 0..100 {
                lines.feed(0, Stream::Output, &[b'x'; 10_000], &mut out);
            }
            assert!(out.len() > 900_000);
            lines.finish(Stream::Output, &mut out);
            let x = out.iter().filter(|b| **b == b'x').count();
            assert_eq!(x, 1_000_000);
        }
    }

    #[test]
    fn widths() {
        let check = |tasks, want| assert_eq!(width(tasks), want, "{tasks}");
        check(0, 1);
        check(1, 1);
        check(10, 1);
        check(11, 2);
        check(100, 2);
        check(101, 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// Each task's bytes come out whole and in order, however they are cut.
        #[test]
        fn nothing_is_lost(pieces in proptest::collection::vec((0u32..3, "[ab\n]{0,6}"), 0..40)) {
            let pieces: Vec<(u32, &str)> = pieces.iter().map(|(r, t)| (*r, t.as_str())).collect();
            let out = written(Style::Label(1), &pieces);
            for rank in 0..3 {
                let sent: String = pieces.iter().filter(|p| p.0 == rank).map(|p| p.1).collect();
                let mark = format!("{rank}: ");
                let got: String = out
                    .lines()
                    .filter_map(|l| l.strip_prefix(&mark))
                    .map(|l| format!("{l}\n"))
                    .collect();
                let whole = if sent.is_empty() || sent.ends_with('\n') { sent } else { sent + "\n" };
                prop_assert_eq!(got, whole);
            }
            let sent: usize = pieces.iter().map(|p| p.1.len()).sum();
            prop_assert_eq!(written(Style::Raw, &pieces).len(), sent);
            prop_assert_eq!(written(Style::Whole, &pieces).len(), sent);
        }
    }
}
