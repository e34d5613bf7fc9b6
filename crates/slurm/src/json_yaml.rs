//! JSON and YAML as Slurm 22.05 writes them (`--json`, `--yaml`): a tree with keys in the
//! order in which they are given, and its two spellings. Sources: captures of `squeue
//! --json`, `squeue --yaml`, `sinfo --json`.
//!
//! Knows nothing of what is told. Both spellings are what their standards allow, for every
//! text: what Slurm's own YAML gets wrong (the indentation of its first key) is put right.

use std::fmt::Write;

/// Anything that JSON and YAML can both say.
#[derive(Clone, PartialEq, Debug)]
pub enum Data {
    /// `null` in both spellings.
    Null,
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Number(i64),
    /// A number that Slurm tells as a fraction.
    Real(f64),
    /// Text, quoted where its spelling needs that.
    Text(String),
    /// One after another.
    List(Vec<Data>),
    /// Entries in the order in which they are printed.
    Map(Vec<(Key, Data)>),
}

/// The name of a value.
pub type Key = std::borrow::Cow<'static, str>;

impl From<&str> for Data {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Data {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Data {
    fn from(n: i64) -> Self {
        Self::Number(n)
    }
}

impl From<bool> for Data {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<Option<i64>> for Data {
    fn from(n: Option<i64>) -> Self {
        n.map_or(Self::Null, Self::Number)
    }
}

/// A map out of names and values.
pub fn map<const N: usize>(entries: [(&'static str, Data); N]) -> Data {
    let entries = entries.into_iter().map(|(k, v)| (Key::Borrowed(k), v));
    Data::Map(entries.collect())
}

/// Language of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spelling {
    /// RFC 8259, indented as Slurm does (`--json`).
    Json,
    /// YAML 1.2 in blocks (`--yaml`).
    Yaml,
}

/// What stands above every answer, as of that release (`22.05.11`).
pub fn meta(release: &str) -> Data {
    let mut numbers = release.split('.').map(|n| n.parse::<i64>().unwrap_or(0));
    let mut next = || Data::Number(numbers.next().unwrap_or(0));
    let (major, minor, micro) = (next(), next(), next());
    map([
        (
            "plugin",
            map([
                ("type", "openapi/v0.0.38".into()),
                ("name", "Slurm OpenAPI v0.0.38".into()),
            ]),
        ),
        (
            "Slurm",
            map([
                ("version", map([("major", major), ("micro", micro), ("minor", minor)])),
                ("release", release.into()),
            ]),
        ),
    ])
}

/// A long answer is handed on in pieces of about so many bytes.
const PIECE: usize = 64 << 10;

/// A whole answer: what stands above it, no errors, and `list` under `name`. The list is
/// written one by one and given to `print` piece by piece: it may be long.
pub fn answer(
    spelling: Spelling,
    release: &str,
    name: &'static str,
    list: impl Iterator<Item = Data>,
    mut print: impl FnMut(&str),
) {
    let mut list = list.peekable();
    let mut out = String::with_capacity(2 * PIECE);
    let mut hand_on = |out: &mut String, least: usize| {
        if out.len() >= least {
            print(out);
            out.clear();
        }
    };
    match spelling {
        Spelling::Json => {
            out.push_str("{\n  \"meta\": ");
            json(&mut out, &meta(release), 1);
            out.push_str(",\n  \"errors\": [\n  ],\n  ");
            let _ = write!(out, "\"{name}\": [");
            let mut first = true;
            for item in list {
                out.push_str(if first { "\n    " } else { ",\n    " });
                first = false;
                json(&mut out, &item, 2);
                hand_on(&mut out, PIECE);
            }
            out.push_str("\n  ]\n}");
        }
        Spelling::Yaml => {
            out.push_str("%YAML 1.1\n--- !!map\n");
            let head = map([("meta", meta(release)), ("errors", Data::List(Vec::new()))]);
            entries(&mut out, &head, 0);
            let empty = list.peek().is_none();
            let _ = writeln!(out, "!!str {name}: !!seq{}", if empty { " []" } else { "" });
            for item in list {
                out.push('-');
                yaml(&mut out, &item, 2);
                hand_on(&mut out, PIECE);
            }
            out.push_str("...\n");
        }
    }
    hand_on(&mut out, 0);
}

/// One value in one spelling, with the line feed that Slurm gives it.
pub fn whole(spelling: Spelling, data: &Data) -> String {
    let mut out = String::new();
    match spelling {
        Spelling::Json => json(&mut out, data, 0),
        Spelling::Yaml => {
            out.push_str("%YAML 1.1\n---");
            yaml(&mut out, data, 0);
            out.push_str("...\n");
        }
    }
    out
}

fn indent(out: &mut String, depth: usize) {
    const BLANKS: &str = "                                ";
    out.push('\n');
    match BLANKS.get(..2 * depth) {
        Some(blanks) => out.push_str(blanks),
        None => out.extend(std::iter::repeat_n("  ", depth)),
    }
}

fn json(out: &mut String, data: &Data, depth: usize) {
    match data {
        Data::Null => out.push_str("null"),
        Data::Flag(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Data::Number(n) => {
            let _ = write!(out, "{n}");
        }
        // JSON has no infinite numbers.
        Data::Real(n) if !n.is_finite() => out.push_str("null"),
        Data::Real(n) => {
            let _ = write!(out, "{n:?}");
        }
        Data::Text(text) => json_text(out, text),
        Data::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                indent(out, depth + 1);
                json(out, item, depth + 1);
            }
            indent(out, depth);
            out.push(']');
        }
        Data::Map(items) => {
            out.push('{');
            for (at, (key, item)) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                indent(out, depth + 1);
                json_text(out, key);
                out.push_str(": ");
                json(out, item, depth + 1);
            }
            indent(out, depth);
            out.push('}');
        }
    }
}

fn json_text(out: &mut String, text: &str) {
    out.push('"');
    // What needs no escape is copied as a whole.
    let special = |b: u8| b < b' ' || matches!(b, b'"' | b'\\' | b'/');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(special) {
        out.push_str(&rest[..at]);
        json_escape(out, rest.as_bytes()[at]);
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

fn json_escape(out: &mut String, byte: u8) {
    match byte {
        b'"' => out.push_str("\\\""),
        b'\\' => out.push_str("\\\\"),
        b'/' => out.push_str("\\/"),
        b'\n' => out.push_str("\\n"),
        b'\r' => out.push_str("\\r"),
        b'\t' => out.push_str("\\t"),
        0x8 => out.push_str("\\b"),
        0xc => out.push_str("\\f"),
        other => {
            let _ = write!(out, "\\u{other:04x}");
        }
    }
}

/// A value after its key or dash, with the line feed behind it; `depth` is where what it
/// holds stands, in blanks.
fn yaml(out: &mut String, data: &Data, depth: usize) {
    match data {
        Data::List(items) if items.is_empty() => out.push_str(" !!seq []\n"),
        Data::Map(items) if items.is_empty() => out.push_str(" !!map {}\n"),
        Data::List(items) => {
            out.push_str(" !!seq\n");
            // The dashes of a list stand below its key.
            let dash = depth.saturating_sub(2);
            for item in items {
                out.extend(std::iter::repeat_n(' ', dash));
                out.push('-');
                yaml(out, item, dash + 2);
            }
        }
        Data::Map(_) => {
            out.push_str(" !!map\n");
            entries(out, data, depth);
        }
        Data::Null => out.push_str(" !!null null\n"),
        Data::Flag(flag) => {
            let _ = writeln!(out, " !!bool {flag}");
        }
        Data::Number(n) => {
            let _ = writeln!(out, " !!int {n}");
        }
        Data::Real(n) if !n.is_finite() => out.push_str(" !!null null\n"),
        Data::Real(n) => {
            let _ = writeln!(out, " !!float {n:.6}");
        }
        Data::Text(text) if text.is_empty() => out.push_str(" !!null null\n"),
        Data::Text(text) => {
            out.push_str(" !!str ");
            yaml_text(out, text);
            out.push('\n');
        }
    }
}

fn entries(out: &mut String, data: &Data, depth: usize) {
    let Data::Map(items) = data else { return };
    for (key, item) in items {
        out.extend(std::iter::repeat_n(' ', depth));
        out.push_str("!!str ");
        yaml_text(out, key);
        out.push(':');
        yaml(out, item, depth + 2);
    }
}

/// Plain where that is safe in a block, else quoted.
fn yaml_text(out: &mut String, text: &str) {
    let special = "-?:,[]{}#&*!|>'\"%@` ";
    let plain = !text.starts_with(|c: char| special.contains(c))
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.contains(|c: char| c.is_control() || !c.is_ascii());
    if plain {
        out.push_str(text);
    } else if text.contains(|c: char| c.is_control() || ('\u{2028}'..='\u{2029}').contains(&c)) {
        yaml_escaped(out, text);
    } else {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    }
}

fn yaml_escaped(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || ('\u{2028}'..='\u{2029}').contains(&c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Data {
        map([
            ("account", "".into()),
            ("path", "/tmp/x".into()),
            ("batch", true.into()),
            ("cost", Data::Real(1.0)),
            ("none", Data::Null),
            ("flags", Data::List(Vec::new())),
            ("show", Data::List(vec!["ALL".into(), 3.into()])),
            ("nodes", Data::List(vec![map([("name", "n1".into())])])),
        ])
    }

    fn answer(
        spelling: Spelling,
        release: &str,
        name: &'static str,
        list: impl Iterator<Item = Data>,
    ) -> String {
        let mut whole = String::new();
        super::answer(spelling, release, name, list, |piece| whole.push_str(piece));
        whole
    }

    #[test]
    fn long_answers_come_in_pieces() {
        let list = || (0..5000).map(|_| sample());
        let whole = answer(Spelling::Json, "1.2.3", "jobs", list());
        let read: serde_json::Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(read["jobs"].as_array().map(Vec::len), Some(5000));
        let mut longest = 0;
        let longer = |piece: &str| longest = longest.max(piece.len());
        super::answer(Spelling::Yaml, "1.2.3", "jobs", list(), longer);
        assert!((PIECE..PIECE + 1000).contains(&longest), "{longest}");
    }

    #[test]
    fn as_captured() {
        let json = answer(Spelling::Json, "22.05.11", "jobs", [sample()].into_iter());
        let want = r#"{
  "meta": {
    "plugin": {
      "type": "openapi\/v0.0.38",
      "name": "Slurm OpenAPI v0.0.38"
    },
    "Slurm": {
      "version": {
        "major": 22,
        "micro": 11,
        "minor": 5
      },
      "release": "22.05.11"
    }
  },
  "errors": [
  ],
  "jobs": [
    {
      "account": "",
      "path": "\/tmp\/x",
      "batch": true,
      "cost": 1.0,
      "none": null,
      "flags": [
      ],
      "show": [
        "ALL",
        3
      ],
      "nodes": [
        {
          "name": "n1"
        }
      ]
    }
  ]
}"#;
        assert_eq!(json, want);
        let yaml = answer(Spelling::Yaml, "22.05.11", "jobs", [sample()].into_iter());
        let want = "%YAML 1.1
--- !!map
!!str meta: !!map
  !!str plugin: !!map
    !!str type: !!str openapi/v0.0.38
    !!str name: !!str Slurm OpenAPI v0.0.38
  !!str Slurm: !!map
    !!str version: !!map
      !!str major: !!int 22
      !!str micro: !!int 11
      !!str minor: !!int 5
    !!str release: !!str 22.05.11
!!str errors: !!seq []
!!str jobs: !!seq
- !!map
  !!str account: !!null null
  !!str path: !!str /tmp/x
  !!str batch: !!bool true
  !!str cost: !!float 1.000000
  !!str none: !!null null
  !!str flags: !!seq []
  !!str show: !!seq
  - !!str ALL
  - !!int 3
  !!str nodes: !!seq
  - !!map
    !!str name: !!str n1
...
";
        assert_eq!(yaml, want);
    }

    #[test]
    fn nothing_to_tell() {
        let json = answer(Spelling::Json, "1.2.3", "jobs", std::iter::empty());
        assert!(json.ends_with("\"jobs\": [\n  ]\n}"), "{json}");
        let yaml = answer(Spelling::Yaml, "1.2.3", "jobs", std::iter::empty());
        assert!(yaml.ends_with("!!str jobs: !!seq []\n...\n"), "{yaml}");
    }

    #[test]
    fn texts_that_need_quotes() {
        let check = |text: &str, want: &str| {
            let mut out = String::new();
            yaml_text(&mut out, text);
            assert_eq!(out, want);
        };
        check("cpu=1,mem=100M", "cpu=1,mem=100M");
        check("n[5-8]", "n[5-8]");
        check("*", "'*'");
        check("it's: so", "'it''s: so'");
        check("a\nb", "\"a\\nb\"");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_comes_back(text in "\\PC{0,20}|[\\x00-\\x7f]{0,20}", real: f64) {
            let data = map([("t", text.as_str().into()), ("r", Data::Real(real))]);
            let read: serde_json::Value = serde_json::from_str(&whole(Spelling::Json, &data)).unwrap();
            prop_assert_eq!(read["t"].as_str(), Some(text.as_str()));
            let yaml = whole(Spelling::Yaml, &data);
            prop_assert!(yaml.lines().count() == 5, "{}", yaml);
        }
    }
}
