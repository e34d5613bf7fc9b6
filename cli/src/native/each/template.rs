//! The command of each task: words with places in braces, which stand for the task's input.
//!
//! Nothing is read by a shell: a word stays one word, whatever the input holds.

use super::task::Input;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What a place in a word stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// `{}`: the input.
    Input,
    /// `{.}`: the input without its extension.
    Stem,
    /// `{/}`: the input without its directories.
    Name,
    /// `{//}`: the directory of the input.
    Directory,
    /// `{/.}`: the input without directories and extension.
    NameStem,
    /// `{#}`: the number of the task, from 1.
    Number,
    /// `{%}`: the place on the node that the task runs in, from 1.
    Slot,
    /// `{3}`: a column of the input, from 1.
    Column(usize),
}

impl Place {
    fn parse(text: &[u8]) -> Option<Self> {
        match text {
            b"" => Some(Self::Input),
            b"." => Some(Self::Stem),
            b"/" => Some(Self::Name),
            b"//" => Some(Self::Directory),
            b"/." => Some(Self::NameStem),
            b"#" => Some(Self::Number),
            b"%" => Some(Self::Slot),
            digits => {
                let number: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
                let plain = digits.iter().all(u8::is_ascii_digit);
                (plain && number > 0).then_some(Self::Column(number))
            }
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(Vec<u8>),
    Place(Place),
}

/// One word.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Word {
    pieces: Vec<Piece>,
}

impl Word {
    /// Reads a word. Braces around anything else than a place stay what they are.
    pub fn parse(text: &OsStr) -> Self {
        let mut pieces = Vec::new();
        let mut plain = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((first, tail)) = rest.split_first() {
            let end = tail
                .iter()
                .position(|b| *b == b'}')
                .filter(|_| *first == b'{');
            let place = end.and_then(|end| Some((Place::parse(tail.get(..end)?)?, end)));
            match place {
                Some((place, end)) => {
                    if !plain.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    }
                    pieces.push(Piece::Place(place));
                    rest = tail.get(end + 1..).unwrap_or_default();
                }
                None => {
                    plain.push(*first);
                    rest = tail;
                }
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Self { pieces }
    }

    /// Whether the word says anything of the task.
    pub fn has_place(&self) -> bool {
        self.pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Place(_)))
    }

    /// Whether a place names a column.
    pub fn has_column(&self) -> bool {
        let column = |piece: &Piece| matches!(piece, Piece::Place(Place::Column(_)));
        self.pieces.iter().any(column)
    }

    /// Whether each task's word is another one, wherever it runs.
    pub fn tells_tasks_apart(&self) -> bool {
        let apart = |piece: &Piece| matches!(piece, Piece::Place(place) if !matches!(place, Place::Slot | Place::Directory));
        self.pieces.iter().any(apart)
    }

    /// The word for a task. A column that the input does not have is empty.
    pub fn fill(&self, input: &Input<'_>) -> OsString {
        let mut all = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => all.extend_from_slice(text),
                Piece::Place(place) => put(&mut all, *place, input),
            }
        }
        OsString::from_vec(all)
    }
}

fn put(all: &mut Vec<u8>, place: Place, input: &Input<'_>) {
    let text = input.text;
    match place {
        Place::Input => all.extend_from_slice(text),
        Place::Stem => all.extend_from_slice(stem(text)),
        Place::Name => all.extend_from_slice(name(text)),
        Place::Directory => all.extend_from_slice(directory(text)),
        Place::NameStem => all.extend_from_slice(stem(name(text))),
        Place::Number => all.extend_from_slice(input.number.to_string().as_bytes()),
        Place::Slot => all.extend_from_slice(input.slot.to_string().as_bytes()),
        Place::Column(number) => all.extend_from_slice(input.column(number)),
    }
}

fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|b| *b == b'/').next().unwrap_or(path)
}

fn directory(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|b| *b == b'/') {
        Some(0) => b"/",
        Some(at) => &path[..at],
        None => b".",
    }
}

/// Without the extension; a name that begins with its only dot has none.
fn stem(path: &[u8]) -> &[u8] {
    let begins = path.len() - name(path).len();
    match path.iter().rposition(|b| *b == b'.') {
        Some(at) if at > begins => &path[..at],
        _ => path,
    }
}

/// The command of all tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    words: Vec<Word>,
}

impl Template {
    /// Reads a command. Where no word has a place for the input, it comes last, as with `xargs`.
    pub fn parse(words: &[OsString]) -> Self {
        let mut words: Vec<Word> = words.iter().map(|word| Word::parse(word)).collect();
        if !words.iter().any(Word::has_place) {
            words.push(Word {
                pieces: vec![Piece::Place(Place::Input)],
            });
        }
        Self { words }
    }

    /// Whether a place names a column.
    pub fn has_column(&self) -> bool {
        self.words.iter().any(Word::has_column)
    }

    /// The command of a task: its program and arguments.
    pub fn fill(&self, input: &Input<'_>) -> Vec<OsString> {
        self.words.iter().map(|word| word.fill(input)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(words: &[&str], text: &str) -> Vec<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let input = Input {
            number: 7,
            slot: 3,
            text: text.as_bytes(),
            separator: Some(b","),
        };
        let all = Template::parse(&words).fill(&input);
        all.into_iter().map(|w| w.into_string().unwrap()).collect()
    }

    #[test]
    fn places_are_filled() {
        let check = |word: &str, text: &str, want: &str| {
            assert_eq!(filled(&["p", word, "{#}"], text)[1], want, "{word} of {text}");
        };
        check("{}", "a b;$(c)", "a b;$(c)");
        check("x{}y{}z", "1", "x1y1z");
        check("{.}", "d.x/a.tar.gz", "d.x/a.tar");
        check("{.}", "d.x/a", "d.x/a");
        check("{.}", ".profile", ".profile");
        check("{/}", "d/e/a.txt", "a.txt");
        check("{//}", "d/e/a.txt", "d/e");
        check("{//}", "a.txt", ".");
        check("{//}", "/a.txt", "/");
        check("{/.}", "d/e/a.txt", "a");
        check("{#}-{%}", "", "7-3");
        check("{2}:{1}:{3}", "a,b", "b:a:");
        // Nothing else in braces is a place.
        check("{a}{0}{ }{", "x", "{a}{0}{ }{");
        check("{{}}", "x", "{x}");
        check("${}", "x", "$x");
    }

    #[test]
    fn the_input_comes_last_where_it_has_no_place() {
        assert_eq!(filled(&["gzip", "-9"], "a b"), ["gzip", "-9", "a b"]);
        assert_eq!(filled(&["echo", "{#}"], "a b"), ["echo", "7"]);
    }
}
