//! Values laid into shapes, as JSON.
//!
//! What is told comes as a tree in the words of Slurm's older JSON ([`cosy_slurm::json_yaml`]), in which
//! `squeue --json` and its like tell it. Each value becomes what its place wants: a number a `{set,
//! infinite, number}`, a word a list of one, `null` what is not set. What is not told stands there as
//! Slurm tells it where it is not in use.

use crate::shape::{Field, Kind, Shape};
use cosy_slurm::json_yaml::{Data, Key};
use std::fmt::Write;

/// A length or number without bound.
pub const INFINITE: Data = Data::Real(f64::INFINITY);

/// What a tree has that its shape has no place for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misfit {
    /// Name of the field.
    pub field: String,
    /// What is the matter.
    pub why: &'static str,
}

/// Writes one object; what does not fit is left out, noted, and told as where it is not in use.
pub fn record(out: &mut String, fields: &[Field], data: &Data, misfits: &mut Vec<Misfit>) {
    let entries = match data {
        Data::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    out.push('{');
    let (mut next, mut used) = (0, 0);
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        text(out, field.name);
        out.push(':');
        let found = find(entries, field.name, next);
        if let Some(found) = found {
            next = found + 1;
            used += 1;
        }
        let value = found
            .and_then(|found| entries.get(found))
            .map(|entry| &entry.1);
        put(out, field, value.unwrap_or(&Data::Null), misfits);
    }
    out.push('}');
    if used < entries.len() {
        let known = |key: &Key| fields.iter().any(|field| field.name == key);
        let beside = entries.iter().filter(|(key, _)| !known(key));
        misfits.extend(beside.map(|(key, _)| Misfit {
            field: key.to_string(),
            why: "has no place",
        }));
    }
}

/// Where a name stands; both sides are in nearly the same order, so that one looks on from the last.
fn find(entries: &[(Key, Data)], name: &str, from: usize) -> Option<usize> {
    let is = |entry: &(Key, Data)| entry.0 == name;
    let after = entries.get(from..).unwrap_or_default();
    match after.iter().position(is) {
        Some(at) => Some(from + at),
        None => entries.iter().take(from).position(is),
    }
}

fn put(out: &mut String, field: &Field, value: &Data, misfits: &mut Vec<Misfit>) {
    let fits = match (&field.shape, value) {
        (Shape::One(kind), value) => one(out, *kind, value),
        (Shape::Several(kind), Data::List(values)) => {
            // Clients with lists of words of their own take no others.
            let known = |value: &&Data| {
                field.words.is_empty() || words(value).all(|w| is_known(&field.words, w))
            };
            several(out, *kind, values.iter().filter(known))
        }
        (Shape::Several(_), Data::Text(word)) if word.is_empty() => {
            several(out, Kind::Text, [].iter())
        }
        (Shape::Several(kind), Data::Null) => several(out, *kind, [].iter()),
        (Shape::Several(kind), one) => several(out, *kind, std::iter::once(one)),
        (Shape::Record(fields), Data::Map(_) | Data::Null) => {
            record(out, fields, value, misfits);
            true
        }
        (Shape::Record(fields), _) => {
            record(out, fields, &Data::Null, misfits);
            false
        }
        (Shape::Records(fields), Data::List(all)) => {
            records(out, fields, all, misfits);
            true
        }
        (Shape::Records(_), other) => {
            out.push_str("[]");
            *other == Data::Null
        }
    };
    let named = field.words.is_empty() || words(value).all(|word| is_known(&field.words, word));
    if !fits || !named {
        misfits.push(Misfit {
            field: field.name.to_owned(),
            why: if fits {
                "has another word"
            } else {
                "is of another type"
            },
        });
    }
}

fn words(value: &Data) -> impl Iterator<Item = &str> {
    let all = match value {
        Data::List(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    all.iter().filter_map(|one| match one {
        Data::Text(text) if !text.is_empty() => Some(text.as_str()),
        _ => None,
    })
}

/// Blanks in words are underscores in the list.
fn is_known(known: &[&str], word: &str) -> bool {
    let same = |own: &&&str| {
        own.len() == word.len()
            && own
                .bytes()
                .zip(word.bytes())
                .all(|(a, b)| a == b || (a == b'_' && b == b' '))
    };
    known.iter().any(|own| same(&own))
}

fn records(out: &mut String, fields: &[Field], all: &[Data], misfits: &mut Vec<Misfit>) {
    out.push('[');
    for (at, data) in all.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        record(out, fields, data, misfits);
    }
    out.push(']');
}

fn several<'d>(out: &mut String, kind: Kind, values: impl Iterator<Item = &'d Data>) -> bool {
    out.push('[');
    let mut fits = true;
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(',');
        }
        fits &= one(out, kind, value);
    }
    out.push(']');
    fits
}

/// Writes one value; false where it is of another type, in place of which nothing is told.
fn one(out: &mut String, kind: Kind, value: &Data) -> bool {
    match (kind, value) {
        (Kind::Text, Data::Text(value)) => text(out, value),
        (Kind::Text, Data::Number(n)) => text(out, &n.to_string()),
        (Kind::Text, other) => {
            out.push_str("\"\"");
            return *other == Data::Null;
        }
        (Kind::Int, value) => {
            let n = if let Data::Number(n) = value { *n } else { 0 };
            let _ = write!(out, "{n}");
            return matches!(value, Data::Number(_) | Data::Null);
        }
        (Kind::Real, value) => {
            real(out, number(value).unwrap_or(0.0));
            return matches!(value, Data::Number(_) | Data::Real(_) | Data::Null);
        }
        (Kind::Flag, value) => {
            out.push_str(if *value == Data::Flag(true) {
                "true"
            } else {
                "false"
            });
            return matches!(value, Data::Flag(_) | Data::Null);
        }
        (Kind::Number(bits), value) => return bounded(out, bits, value),
        (Kind::Fraction, value) => {
            let set = number(value);
            wrapped(out, set.is_some(), *value == INFINITE, |out| {
                real(out, set.filter(|n| n.is_finite()).unwrap_or(0.0));
            });
            return set.is_some() || *value == Data::Null;
        }
        (Kind::Map, other) => {
            out.push_str("{}");
            return *other == Data::Null;
        }
        (Kind::Any, other) => {
            out.push_str("null");
            return *other == Data::Null;
        }
    }
    true
}

fn number(value: &Data) -> Option<f64> {
    match value {
        Data::Number(n) => Some(*n as f64),
        Data::Real(n) => Some(*n),
        Data::Null | Data::Flag(_) | Data::Text(_) | Data::List(_) | Data::Map(_) => None,
    }
}

fn wrapped(out: &mut String, set: bool, infinite: bool, number: impl FnOnce(&mut String)) {
    let _ = write!(out, "{{\"set\":{set},\"infinite\":{infinite},\"number\":");
    number(out);
    out.push('}');
}

/// The greatest numbers of each size mean something else in Slurm.
fn bounded(out: &mut String, bits: u8, value: &Data) -> bool {
    let most = match bits {
        16 => i64::from(u16::MAX) - 2,
        32 => i64::from(u32::MAX) - 2,
        _ => i64::MAX,
    };
    let (set, n) = match value {
        Data::Number(n) => (true, (*n).clamp(0, most)),
        _ => (false, 0),
    };
    wrapped(out, set, *value == INFINITE, |out| {
        let _ = write!(out, "{n}");
    });
    set || *value == INFINITE || *value == Data::Null
}

fn real(out: &mut String, n: f64) {
    // JSON has no word for what is none or has no bound.
    let n = if n.is_finite() { n } else { 0.0 };
    let _ = write!(out, "{n:?}");
}

/// A quoted text.
pub fn text(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') {
        let (plain, special) = rest.split_at(at);
        out.push_str(plain);
        let mut letters = special.chars();
        match letters.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\n') => out.push_str("\\n"),
            Some('\t') => out.push_str("\\t"),
            Some(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            None => {}
        }
        rest = letters.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use cosy_slurm::json_yaml::map;

    fn field(name: &'static str, shape: Shape) -> Field {
        Field {
            name,
            shape,
            words: Vec::new(),
        }
    }

    #[test]
    fn values_become_what_their_place_wants() {
        let check = |shape: Shape, value: Data, want: &str, fits: bool| {
            let (mut out, mut misfits) = (String::new(), Vec::new());
            record(&mut out, &[field("a", shape)], &map([("a", value)]), &mut misfits);
            assert_eq!((out, misfits.is_empty()), (format!("{{\"a\":{want}}}"), fits));
        };
        let one = |kind| Shape::One(kind);
        check(one(Kind::Text), "x\"\u{1}é\n".into(), r#""x\"\u0001é\n""#, true);
        check(one(Kind::Text), Data::Null, r#""""#, true);
        check(one(Kind::Text), true.into(), r#""""#, false);
        check(one(Kind::Int), 5.into(), "5", true);
        check(one(Kind::Int), "5".into(), "0", false);
        check(one(Kind::Real), 5.into(), "5.0", true);
        check(one(Kind::Flag), true.into(), "true", true);
        check(one(Kind::Number(32)), 5.into(), r#"{"set":true,"infinite":false,"number":5}"#, true);
        check(
            one(Kind::Number(16)),
            70_000.into(),
            r#"{"set":true,"infinite":false,"number":65533}"#,
            true,
        );
        check(one(Kind::Number(64)), INFINITE, r#"{"set":false,"infinite":true,"number":0}"#, true);
        check(
            one(Kind::Fraction),
            Data::Null,
            r#"{"set":false,"infinite":false,"number":0.0}"#,
            true,
        );
        check(Shape::Several(Kind::Text), "RUNNING".into(), r#"["RUNNING"]"#, true);
        check(Shape::Several(Kind::Text), "".into(), "[]", true);
        check(Shape::Several(Kind::Text), Data::Null, "[]", true);
        let below = Shape::Record(vec![field("b", one(Kind::Int))]);
        check(below.clone(), Data::Null, r#"{"b":0}"#, true);
        check(below, 3.into(), r#"{"b":0}"#, false);
    }

    #[test]
    fn what_has_no_place_is_noted() {
        let fields = [field("a", Shape::One(Kind::Int))];
        let mut misfits = Vec::new();
        record(&mut String::new(), &fields, &map([("b", 1.into()), ("a", 2.into())]), &mut misfits);
        assert_eq!(misfits.len(), 1);
        assert_eq!(misfits[0].field, "b");
        let mut worded = fields;
        worded[0].shape = Shape::Several(Kind::Text);
        worded[0].words = vec!["Not_Set", "UP"];
        let mut check = |word: &str, fits: bool| {
            misfits.clear();
            record(&mut String::new(), &worded, &map([("a", word.into())]), &mut misfits);
            assert_eq!(misfits.is_empty(), fits, "{word}");
        };
        check("UP", true);
        check("Not Set", true);
        check("DOWN", false);
    }

    #[test]
    fn texts_are_json() {
        for given in ["", "a", "\"", "\\", "\u{7f}\r\u{0}", "日本\u{2028}"] {
            let mut out = String::new();
            text(&mut out, given);
            assert_eq!(serde_json::from_str::<String>(&out).unwrap(), given);
        }
    }
}
