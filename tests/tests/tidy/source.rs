//! Source files as text, without what is written in comments and literals.

use std::path::{Path, PathBuf};

/// One source file.
pub struct Source {
    /// From the top of the tree.
    pub path: String,
    /// The package's folder.
    pub package: String,
    /// Its module, as a path in the crate: empty for the crate itself.
    pub module: Vec<String>,
    /// All lines of the file, from the first.
    pub lines: Vec<Line>,
}

/// One line without what is written in comments and literals.
#[derive(Default)]
pub struct Line {
    /// The code of the line, without comments and what is in quotes.
    pub code: String,
    /// The text of a comment that documents (`///`).
    pub doc: Option<String>,
    /// Texts in quotes that begin in it, as far as they go in it.
    pub texts: Vec<String>,
    /// It begins inside a comment or a text of an earlier line.
    pub inside: bool,
    /// It belongs to a test.
    pub test: bool,
}

impl Source {
    /// Its code, without that of tests.
    pub fn code(&self) -> String {
        let lines = self.lines.iter().filter(|l| !l.test);
        lines.flat_map(|l| [l.code.as_str(), "\n"]).collect()
    }
}

/// All sources of the packages, tests left out.
pub fn sources(root: &Path) -> Vec<Source> {
    let mut packages: Vec<PathBuf> = ["cosyd", "noded", "cli", "tests"]
        .map(|p| root.join(p))
        .to_vec();
    packages.extend(
        std::fs::read_dir(root.join("crates"))
            .unwrap()
            .map(|d| d.unwrap().path()),
    );
    packages.sort();
    let mut sources = Vec::new();
    for package in packages {
        let name = package.strip_prefix(root).unwrap().to_str().unwrap();
        let top = package.join("src");
        let mut open = vec![top.clone()];
        while let Some(dir) = open.pop() {
            let mut entries: Vec<PathBuf> = std::fs::read_dir(&dir)
                .unwrap()
                .map(|d| d.unwrap().path())
                .collect();
            entries.sort();
            for path in entries {
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|e| e == "rs") {
                    sources.extend(source(root, name, &top, &path));
                }
            }
        }
    }
    sources
}

fn source(root: &Path, package: &str, top: &Path, path: &Path) -> Option<Source> {
    let inside = path.strip_prefix(top).unwrap().with_extension("");
    let mut module: Vec<String> = inside
        .iter()
        .map(|w| w.to_str().unwrap().to_owned())
        .collect();
    if module.iter().any(|w| w == "tests" || w.ends_with("_tests")) {
        return None;
    }
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    let lines = read(&std::fs::read_to_string(path).unwrap());
    Some(Source {
        path: path
            .strip_prefix(root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned(),
        package: package.to_owned(),
        module,
        lines,
    })
}

/// Lines with comments and literals taken out, and with those of tests marked.
pub fn read(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut state = State::Code;
    for text in text.lines() {
        let mut line = Line {
            inside: state != State::Code,
            ..Line::default()
        };
        if state == State::Code {
            line.doc = text.trim_start().strip_prefix("///").map(str::to_owned);
        }
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let rest = &text[at..];
            state = match state {
                State::Code if rest.starts_with("//") => break,
                State::Code if rest.starts_with("/*") => State::Comment,
                State::Code if c == '"' => {
                    line.code.push_str("\"\"");
                    line.texts.push(quoted(&rest[1..]));
                    State::Text
                }
                State::Code
                    if raw_hashes(rest).is_some()
                        && !line
                            .code
                            .ends_with(|c: char| c.is_alphanumeric() || c == '_') =>
                {
                    line.code.push_str("\"\"");
                    let hashes = raw_hashes(rest).unwrap_or(0);
                    for _ in 0..=hashes {
                        chars.next();
                    }
                    line.texts.push(quoted(&rest[hashes + 2..]));
                    State::Raw(hashes)
                }
                State::Code if c == '\'' => {
                    let length = literal(rest);
                    for _ in 1..length {
                        chars.next();
                    }
                    if length > 0 {
                        line.code.push_str("' '");
                    }
                    State::Code
                }
                State::Code => {
                    line.code.push(c);
                    State::Code
                }
                State::Comment if rest.starts_with("*/") => {
                    chars.next();
                    State::Code
                }
                State::Text if c == '\\' => {
                    chars.next();
                    State::Text
                }
                State::Text if c == '"' => State::Code,
                State::Raw(n) if c == '"' && rest[1..].starts_with(&"#".repeat(n)) => {
                    for _ in 0..n {
                        chars.next();
                    }
                    State::Code
                }
                other => other,
            };
        }
        lines.push(line);
    }
    mark_tests(&mut lines);
    lines
}

/// To the next quote, or the end of the line.
fn quoted(rest: &str) -> String {
    rest.split('"').next().unwrap_or_default().to_owned()
}

/// Where the reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    Comment,
    Text,
    Raw(usize),
}

/// How many `#` a raw string has that begins here.
fn raw_hashes(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('r')?;
    let hashes = rest.bytes().take_while(|b| *b == b'#').count();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// Characters of a literal that begins with `'`; none for a lifetime.
fn literal(text: &str) -> usize {
    let mut chars = text.chars().skip(1);
    match chars.next() {
        Some('\\') => text
            .chars()
            .skip(3)
            .position(|c| c == '\'')
            .map_or(0, |n| n + 4),
        Some(_) if chars.next() == Some('\'') => 3,
        _ => 0,
    }
}

/// What stands behind `#[cfg(test)]`, to the brace in the column of the attribute.
fn mark_tests(lines: &mut [Line]) {
    let mut at = 0;
    while at < lines.len() {
        let code = lines[at].code.trim_end();
        let indent = code.len() - code.trim_start().len();
        if !code.trim_start().starts_with("#[cfg(test)]")
            && !code.trim_start().starts_with("#[test]")
        {
            at += 1;
            continue;
        }
        loop {
            lines[at].test = true;
            let code = lines[at].code.trim_end();
            let column = code.len() - code.trim_start().len();
            let here = column == indent && !code.is_empty() && !lines[at].inside;
            at += 1;
            if at >= lines.len() || here && (code.ends_with(';') || code.ends_with('}')) {
                break;
            }
        }
    }
}
