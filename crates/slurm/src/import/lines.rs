//! The lines of Slurm's files: comments, continued lines, `Name=value` words. Source:
//! slurm.conf(5).

use std::fmt;
use std::sync::Arc;

/// Longest file that is read, in bytes.
pub const FILE_BYTES: usize = 16 << 20;
/// Longest line that is read, with those that continue it, in bytes.
pub const LINE_BYTES: usize = 4 << 20;

/// Where a line stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Name of the file, as it is told.
    pub file: Arc<str>,
    /// Number of the line, from 1.
    pub number: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.number)
    }
}

/// Why nothing is imported.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Fault {
    /// Where it is wrong.
    pub place: Place,
    /// What is wrong, and what works.
    pub what: String,
}

impl Fault {
    /// A fault of that line.
    pub fn new(place: &Place, what: impl Into<String>) -> Self {
        let place = place.clone();
        let what = what.into();
        Self { place, what }
    }
}

/// Lines of one file that stand together. Bytes that are no UTF-8 are replacement characters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    /// Place of its first line.
    pub place: Place,
    /// The lines as they are in the file.
    pub text: String,
}

impl Piece {
    /// A whole file.
    pub fn file(name: &str, text: &str) -> Self {
        Self {
            place: Place {
                file: name.into(),
                number: 1,
            },
            text: text.to_owned(),
        }
    }

    /// Its lines with their places; line ends of DOS are none of the line.
    pub fn lines(&self) -> impl Iterator<Item = (Place, &str)> {
        let lines = self.text.lines().enumerate();
        lines.map(|(at, line)| {
            let place = Place {
                file: Arc::clone(&self.place.file),
                number: self.place.number + at,
            };
            (place, line)
        })
    }
}

/// The words of one line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Line {
    /// Where it begins.
    pub place: Place,
    /// Names and values in their order; quotes taken off.
    pub words: Vec<(String, String)>,
}

impl Line {
    /// The value of the first word with that name, in letters of any case.
    pub fn get(&self, name: &str) -> Option<&str> {
        let is = |(n, _): &&(String, String)| n.eq_ignore_ascii_case(name);
        self.words.iter().find(is).map(|(_, v)| v.as_str())
    }

    /// True when it begins with that word.
    pub fn begins(&self, name: &str) -> bool {
        let first = self.words.first();
        first.is_some_and(|(n, _)| n.eq_ignore_ascii_case(name))
    }
}

/// All lines that say something; a line ending with `\` goes on in the next.
///
/// # Errors
/// A line that is no text, or a quote that is not closed.
pub fn read(pieces: &[Piece]) -> Result<Vec<Line>, Fault> {
    let mut lines = Vec::new();
    let (mut whole, mut first) = (String::new(), Place::default());
    for (place, line) in pieces.iter().flat_map(Piece::lines) {
        if whole.is_empty() {
            first = place.clone();
        }
        let line = without_comment(text(&place, line)?);
        utf8(&place, &line)?;
        if whole.len() + line.len() > LINE_BYTES {
            return Err(too_long(&first));
        }
        if let Some(part) = line.trim_end().strip_suffix('\\') {
            whole.push_str(part);
            whole.push(' ');
            continue;
        }
        whole.push_str(&line);
        lines.extend(line_of(first.clone(), &whole)?);
        whole.clear();
    }
    lines.extend(line_of(first, &whole)?);
    Ok(lines)
}

fn line_of(place: Place, whole: &str) -> Result<Option<Line>, Fault> {
    let words = words(whole).ok_or_else(|| Fault::new(&place, "a quote is not closed"))?;
    Ok((!words.is_empty()).then_some(Line { place, words }))
}

/// A line that is text.
///
/// # Errors
/// It is too long, or has control characters.
pub fn text<'a>(place: &Place, line: &'a str) -> Result<&'a str, Fault> {
    if line.len() > LINE_BYTES {
        return Err(too_long(place));
    }
    let odd = |c: &char| c.is_control() && *c != '\t' && *c != '\r';
    match line.chars().find(odd) {
        None => Ok(line),
        Some(c) => Err(Fault::new(
            place,
            format!("character {} is none of a text: is this the right file?", c.escape_unicode()),
        )),
    }
}

/// What it says can be read.
///
/// # Errors
/// It had bytes that are no UTF-8.
pub fn utf8(place: &Place, line: &str) -> Result<(), Fault> {
    match line.contains(char::REPLACEMENT_CHARACTER) {
        false => Ok(()),
        true => Err(Fault::new(
            place,
            "letters that are no UTF-8: convert the file with 'iconv -f latin1 -t utf8' first (comments may have any)",
        )),
    }
}

fn too_long(place: &Place) -> Fault {
    Fault::new(
        place,
        format!("a line of more than {} MiB: is this the right file?", LINE_BYTES >> 20),
    )
}

/// `\#` stands for a `#` that begins no comment.
fn without_comment(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'#') => {
                out.push('#');
                chars.next();
            }
            '#' => break,
            c => out.push(c),
        }
    }
    out
}

/// Names and values; `None` where a quote is not closed.
fn words(line: &str) -> Option<Vec<(String, String)>> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars().chain([' ']) {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    let (name, value) = word.split_once('=').unwrap_or((word.as_str(), ""));
                    words.push((name.to_owned(), value.to_owned()));
                    word.clear();
                }
            }
            c => word.push(c),
        }
    }
    (!quoted).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines() {
        let text = "# head\nClusterName=a # b\n\nNodeName=n[1-2] CPUs=4 \\\r\n  Feature=\"a,b c\" X=\\#1\r\ninclude /x/y\n";
        let all = read(&[Piece::file("s.conf", text)]).unwrap();
        let shown: Vec<String> = all
            .iter()
            .map(|l| format!("{}:{:?}", l.place, l.words))
            .collect();
        assert_eq!(
            shown,
            [
                r#"s.conf:2:[("ClusterName", "a")]"#,
                r##"s.conf:4:[("NodeName", "n[1-2]"), ("CPUs", "4"), ("Feature", "a,b c"), ("X", "#1")]"##,
                r#"s.conf:6:[("include", ""), ("/x/y", "")]"#,
            ]
        );
        assert_eq!(all[1].get("cpus"), Some("4"));
        assert!(all[1].begins("nodename"));
    }

    #[test]
    fn what_is_no_text() {
        let check = |text: &str, want: &str| {
            let fault = read(&[Piece::file("s.conf", text)])
                .unwrap_err()
                .to_string();
            assert!(fault.contains(want), "{fault}");
        };
        check("A=1\nB=\u{0}x\n", "s.conf:2: character \\u{0} is none");
        check("A=\u{fffd}\n", "s.conf:1: letters that are no UTF-8");
        check("A=1\nB=\"x\nC=2\n", "s.conf:2: a quote is not closed");
        check(&format!("A={}\n", "x".repeat(LINE_BYTES)), "s.conf:1: a line of more than 4 MiB");
        let many = format!("A={}\\\n", "x".repeat(LINE_BYTES / 2)).repeat(3);
        check(&many, "s.conf:1: a line of more than 4 MiB");
        // Remarks may be of any letters.
        assert!(read(&[Piece::file("s.conf", "A=1 # \u{fffd}\n")]).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_text(text in "[a-zA-Z=\"\\\\# \n]{0,80}") {
            let lines = read(&[Piece::file("s.conf", &text)]).unwrap_or_default();
            prop_assert!(lines.iter().all(|l| !l.words.is_empty()));
        }
    }
}
