//! Keys of options in the source: the texts by which options are read, and by which they name each
//! other.

use std::path::{Path, PathBuf};

/// Methods and functions whose argument is a key.
const READERS: [&str; 13] = [
    "get_flag",
    "get_one",
    "get_many",
    "get_raw",
    "contains_id",
    "value_source",
    "try_get_one",
    "try_get_many",
    "try_contains_id",
    "overrides_with",
    "conflicts_with",
    "requires",
    "required_unless_present",
];
/// The same for several at once.
const READERS_OF_SEVERAL: [&str; 4] = [
    "overrides_with_all",
    "conflicts_with_all",
    "requires_all",
    "required_unless_present_any",
];

/// Files and folders below `src`, with their text: code of tests left out, blanks made one.
pub fn sources(names: &[&str]) -> Vec<(String, String)> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut open: Vec<PathBuf> = names.iter().map(|name| top.join(name)).collect();
    let mut all = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            open.extend(entries.map(|e| e.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let words: Vec<&str> = code.split_whitespace().collect();
        let name = path.strip_prefix(&top).unwrap().display().to_string();
        all.push((name, words.join(" ").replace("( ", "(").replace("[ ", "[")));
    }
    all
}

/// Each key in such a text.
pub fn of(text: &str) -> Vec<&str> {
    let closures = closures(text);
    let literals = text.match_indices('"').filter_map(|(at, _)| {
        let (word, _) = text[at + 1..].split_once('"')?;
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let key = !word.is_empty() && word.bytes().all(plain);
        (key && is_read(&text[..at], &closures)).then_some(word)
    });
    literals.collect()
}

/// Closures that read what they are called with: `let text = |name| m.get_one(name)`.
fn closures(text: &str) -> Vec<&str> {
    let bindings = text.match_indices("let ").filter_map(|(at, _)| {
        let (name, value) = text[at + 4..].split_once(" = ")?;
        let value = value.strip_prefix("|name")?;
        let body = value.split(';').next()?;
        let reads = ["m.", "matches.", "m, name", "matches, name"];
        let reads = reads.iter().any(|r| body.contains(r));
        reads.then_some(name)
    });
    bindings.collect()
}

/// Whether what stands before a text makes it a key.
fn is_read(before: &str, closures: &[&str]) -> bool {
    let word_before = |text: &str, word: &str| {
        let rest = text.strip_suffix(word);
        rest.is_some_and(|r| !r.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    if ["m, ", "matches, "].iter().any(|m| word_before(before, m)) {
        return true;
    }
    let several = before.rfind("([").filter(|at| !before[*at..].contains(']'));
    if let Some(at) = several {
        return READERS_OF_SEVERAL
            .iter()
            .any(|r| word_before(&before[..at], r));
    }
    let Some(callee) = before.strip_suffix('(') else {
        return false;
    };
    let callee = match callee.rfind("::<").filter(|_| callee.ends_with('>')) {
        Some(at) => &callee[..at],
        None => callee,
    };
    READERS
        .iter()
        .chain(closures)
        .any(|r| word_before(callee, r))
}

#[test]
fn keys_are_found() {
    let check = |text: &str, want: &[&str]| assert_eq!(of(text), want, "{text}");
    check("m.get_flag(\"all\")", &["all"]);
    check("m.get_one::<Vec<Option<u32>>>(\"a-b\").copied()", &["a-b"]);
    check("take(&mut self.x, m, \"x\"); list(matches, \"y\")", &["x", "y"]);
    check("let t = |name| m.get_one(name); (t(\"z\"), u(\"v\"))", &["z"]);
    check("a.conflicts_with_all([\"b\", \"c\"]).help(\"d\")", &["b", "c"]);
    check("value(\"new\", \"N\", \"help\") + from(item, \"no\")", &[]);
}
