//! How a daemon reads its configuration file, a TOML text: every fault is told with file and
//! line, all of them at once, and with what may have been meant.
//!
//! A daemon describes its file as types that serde reads, refuses fields it does not know,
//! keeps the places of values ([`Spanned`], [`Raw`]), and checks these with a [`Check`].
//! Knows no key of any file.

use cosy_model::near::nearest;
use cosy_model::{MiB, Span, expand};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::io::Read as _;
use std::path::Path;
use std::str::FromStr;
use toml::Spanned;
use toml::de::DeTable;

/// Most faults that are told of entries that do not fit.
const FAULTS: usize = 100;
/// Most lines of a value that is passed over.
const VALUE_LINES: usize = 100;

/// A value with its place in the file.
pub type Raw = Spanned<toml::Value>;

/// All faults of a file, one line each: `FILE:LINE: what`, or `FILE: what` of the whole file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Faults(pub Vec<String>);

/// A size as text with a unit, or as a number of MiB.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Size {
    /// Text with a unit.
    Text(String),
    /// A number without unit, in MiB.
    Number(u64),
}

/// The text of a configuration file that is not longer than `most` bytes.
///
/// # Errors
/// The file cannot be read, is no UTF-8 or too long.
pub fn read(file: &Path, most: u64) -> Result<String, Faults> {
    let fault = |what: String| Faults(vec![format!("{}: {what}", file.display())]);
    let opened = std::fs::File::open(file).map_err(|e| fault(e.to_string()))?;
    let mut text = String::new();
    let read = opened.take(most + 1).read_to_string(&mut text);
    match read.map_err(|e| fault(e.to_string()))? as u64 {
        length if length > most => {
            Err(fault(format!("more than {most} bytes are more than a configuration has")))
        }
        _ => Ok(text),
    }
}

/// Collects the faults of one file with their lines.
pub struct Check<'a> {
    file: &'a Path,
    text: &'a str,
    several: &'a [&'a str],
    /// With their lines; 0 is the whole file.
    faults: Vec<(usize, String)>,
}

impl<'a> Check<'a> {
    /// No faults yet. Of the tables in `several` there can be more than one, each beginning
    /// with `[[name]]`.
    pub fn new(file: &'a Path, text: &'a str, several: &'a [&'a str]) -> Self {
        Self {
            file,
            text,
            several,
            faults: Vec::new(),
        }
    }

    /// The file as it was named.
    pub fn file(&self) -> &'a Path {
        self.file
    }

    /// The line of a place in the text, from 1.
    pub fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().get(..at.min(self.text.len()));
        let newlines = before.unwrap_or_default().iter().filter(|b| **b == b'\n');
        1 + newlines.count()
    }

    /// A fault at a place in the text.
    pub fn fault(&mut self, at: usize, what: impl Display) {
        let line = self.line(at);
        let fault = format!("{}:{line}: {what}", self.file.display());
        self.faults.push((line, fault));
    }

    /// A fault of the file as a whole.
    pub fn file_fault(&mut self, what: impl Display) {
        let fault = format!("{}: {what}", self.file.display());
        self.faults.push((0, fault));
    }

    /// The faults of another file, which is named at a place in this one.
    pub fn include(&mut self, at: usize, other: Check<'_>) {
        let line = self.line(at);
        let faults = other.into_faults().0.into_iter();
        self.faults.extend(faults.map(|fault| (line, fault)));
    }

    /// True while nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.faults.is_empty()
    }

    /// All faults in the order of their lines.
    pub fn into_faults(mut self) -> Faults {
        self.faults.sort();
        Faults(self.faults.into_iter().map(|(_, fault)| fault).collect())
    }

    /// The file as far as it can be read: an entry that does not fit is noted as a fault and then
    /// passed over, so that all faults are known at once. `None` when nothing can be made of
    /// the rest.
    pub fn deserialize<T: DeserializeOwned>(&mut self) -> Option<T> {
        let mut text = self.text.to_owned();
        while self.faults.len() < FAULTS {
            let e = match toml::from_str(&text) {
                Ok(file) => return Some(file),
                Err(e) => e,
            };
            let at = e.span().map_or(0, |s| s.start);
            let start = text
                .get(..at)
                .and_then(|t| t.rfind('\n'))
                .map_or(0, |n| n + 1);
            let line = text.get(start..).and_then(|t| t.lines().next());
            let line = line.unwrap_or_default().trim().to_owned();
            self.fault(at, with_hint(e.message(), &line, self.several));
            if line.starts_with('[') || !line.contains('=') {
                return None;
            }
            text = without_entry(text, start)?;
        }
        None
    }

    /// A value that is written as text.
    pub fn parse<T: FromStr<Err: Display>>(&mut self, text: &Spanned<String>) -> Option<T> {
        match text.get_ref().parse() {
            Ok(value) => Some(value),
            Err(e) => {
                self.fault(text.span().start, e);
                None
            }
        }
    }

    /// A length of time; `otherwise` where there is none that can be read.
    pub fn span(&mut self, text: Option<&Spanned<String>>, otherwise: Span) -> Span {
        text.and_then(|t| self.parse(t)).unwrap_or(otherwise)
    }

    /// A size, if there is one that can be read.
    pub fn size(&mut self, size: Option<&Spanned<Size>>) -> Option<MiB> {
        let size = size?;
        match size.get_ref() {
            Size::Number(n) => Some(MiB(*n)),
            Size::Text(t) => match t.parse() {
                Ok(m) => Some(m),
                Err(e) => {
                    self.fault(size.span().start, e);
                    None
                }
            },
        }
    }

    /// The names of a host list.
    pub fn hosts(&mut self, list: &Spanned<String>) -> Vec<String> {
        expand(list.get_ref()).unwrap_or_else(|e| {
            self.fault(list.span().start, e);
            Vec::new()
        })
    }
}

/// The text without the entry whose first line begins at `start`. Blanks keep all other
/// places where they are. `None` when the rest is no TOML.
fn without_entry(mut text: String, start: usize) -> Option<String> {
    // As to its grammar: a number that is too large for a value is TOML all the same.
    let was_toml = DeTable::parse(&text).is_ok();
    // A value may go on over several lines; what was no TOML before may go on for ever.
    let most = if was_toml { VALUE_LINES } else { 1 };
    let mut start = start;
    for _ in 0..most {
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let end = start + rest.find('\n').unwrap_or(rest.len());
        text.replace_range(start..end, &" ".repeat(end - start));
        if DeTable::parse(&text).is_ok() {
            return Some(text);
        }
        start = end + 1;
    }
    None
}

/// What is wrong with a line, and what may have been meant.
fn with_hint(message: &str, line: &str, several: &[&str]) -> String {
    // `[queue]` itself, or the first `[[queue]]` behind it, where it is there already.
    let one = line.starts_with('[') && !line.starts_with("[[");
    let again = line.starts_with("[[") && message.contains("duplicate key");
    let table = line.trim_start_matches('[').split(']').next();
    if let Some(table) = table.filter(|table| (one || again) && several.contains(table)) {
        return format!("write [[{table}]] instead of [{table}]: there can be several");
    }
    let key = line.split('=').next().unwrap_or_default().trim();
    if message.starts_with("invalid type") && several.contains(&key) {
        return format!("{key} must be tables, each beginning with [[{key}]]");
    }
    let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_value = message.starts_with("invalid type") || message.starts_with("invalid value");
    if is_value && !key.is_empty() && key.chars().all(is_key) {
        let words = message
            .replace("expected a sequence", "expected a list like [\"a\", \"b\"]")
            .replace("expected a map", "expected a table like {a = 1}");
        return format!("{key}: {words}");
    }
    // "unknown field `coors`, expected one of `names`, `cores`"
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names
        .next()
        .filter(|_| message.starts_with("unknown field"));
    match unknown.and_then(|unknown| nearest(unknown, names)) {
        Some(near) => format!("{message}; did you mean `{near}`?"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        names: Vec<String>,
        cores: Option<u32>,
        #[serde(default)]
        disk: Vec<BTreeMap<String, u32>>,
    }

    fn faults(text: &str) -> Vec<String> {
        let mut check = Check::new(Path::new("x"), text, &["disk"]);
        if let Some(file) = check.deserialize::<File>() {
            check.file_fault(format!("{} {:?} {}", file.names.len(), file.cores, file.disk.len()));
        }
        check.into_faults().0
    }

    #[test]
    fn what_does_not_fit_is_told_and_passed_over() {
        let check = |text: &str, want: &[&str]| {
            let got = faults(text);
            assert_eq!(got.len(), want.len(), "{text}: {got:?}");
            for (fault, want) in got.iter().zip(want) {
                assert!(fault.starts_with(want), "{text}: {fault} is not {want}");
            }
        };
        check("names = ['a']\n[[disk]]\na = 1", &["x: 1 None 1"]);
        check("coors = 1\nname = 2", &["x: 0", "x:1: unknown", "x:2: unknown"]);
        // A value of several lines is passed over whole.
        check(
            "sizes = [\n1,\n2\n]\ncores = 'x'",
            &[
                "x: 0",
                "x:1: unknown field `sizes`",
                "x:5: cores: invalid type",
            ],
        );
        check("cores = 'x'\nnames = [1]\n", &["x: 0", "x:1:", "x:2:"]);
        // A number that nothing can hold hides no other fault.
        check(
            "able = 1\ncores = 99999999999999999999",
            &["x: 0", "x:1: unknown field", "x:2: cores: invalid"],
        );
        // What never was TOML is passed over by the line.
        check("a = = 1\nb = 2", &["x: 0", "x:1:", "x:2: unknown field `b`"]);
        check("sizes = [\n1,\ncores = 1", &["x:"]);
        check("[[disk", &["x:1:"]);
        check("\u{0}", &["x:1:"]);
        check("", &["x: 0 None 0"]);
    }

    #[test]
    fn hints() {
        let check = |text: &str, want: &str| {
            let got = faults(text);
            assert!(got.iter().any(|t| t.contains(want)), "{text}: {got:?}");
        };
        check("coors = 1", "did you mean `cores`?");
        check(
            "names = 3",
            "x:1: names: invalid type: integer `3`, expected a list like [\"a\", \"b\"]",
        );
        check("[disk]\na = 1", "x:1: write [[disk]] instead of [disk]");
        check("disk = 3", "x:1: disk must be tables, each beginning with [[disk]]");
    }

    #[test]
    fn no_more_is_told_than_somebody_reads() {
        let text: String = (0..1000).map(|n| format!("x{n} = 1\n")).collect();
        assert_eq!(faults(&text).len(), FAULTS);
    }

    #[test]
    fn a_file_has_a_length() {
        let long = read(Path::new("/dev/zero"), 1000).unwrap_err();
        assert_eq!(long.0, ["/dev/zero: more than 1000 bytes are more than a configuration has"]);
        assert_eq!(read(Path::new("/dev/null"), 1000), Ok(String::new()));
        let none = read(Path::new("/none"), 1000).unwrap_err().0;
        assert!(none[0].starts_with("/none: No such file"), "{none:?}");
    }
}
