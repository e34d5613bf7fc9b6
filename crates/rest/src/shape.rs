//! The shapes of records: which fields each has in which version, and of which type.
//!
//! `shapes.txt` is the only place that says so. What is answered is laid into a shape field by field
//! ([`crate::json`]), so that every field of the interface is there, of the type that it has there, and
//! none beside them.

use crate::version::ApiVersion;
use std::sync::OnceLock;

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A text.
    Text,
    /// A whole number.
    Int,
    /// A number.
    Real,
    /// True or false.
    Flag,
    /// `{set, infinite, number}` with a whole number of so many bits.
    Number(u8),
    /// The same with any number.
    Fraction,
    /// Any object.
    Map,
    /// A value of any kind.
    Any,
}

/// What stands at a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One value.
    One(Kind),
    /// Values of one type, one after another.
    Several(Kind),
    /// An object.
    Record(Vec<Field>),
    /// Objects, one after another.
    Records(Vec<Field>),
}

/// A field of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What stands there.
    pub shape: Shape,
    /// The only texts that may stand there; empty: any.
    pub words: Vec<&'static str>,
}

/// The records of one version.
#[derive(Debug)]
pub struct Shapes {
    records: Vec<(&'static str, Vec<Field>)>,
}

const TEXT: &str = include_str!("shapes.txt");

impl Shapes {
    /// The shapes of a version.
    pub fn of(version: ApiVersion) -> &'static Self {
        static ALL: [OnceLock<Shapes>; 3] = [OnceLock::new(), OnceLock::new(), OnceLock::new()];
        let at = match version {
            ApiVersion::V42 => &ALL[0],
            ApiVersion::V43 => &ALL[1],
            ApiVersion::V44 => &ALL[2],
        };
        at.get_or_init(|| Self::read(version))
    }

    /// The fields of a record; none of one that is not there.
    pub fn record(&self, name: &str) -> &[Field] {
        let found = self.records.iter().find(|(own, _)| *own == name);
        found.map_or(&[], |(_, fields)| fields)
    }

    /// Names of all records.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.records.iter().map(|(name, _)| *name)
    }

    fn read(version: ApiVersion) -> Self {
        let mut records: Vec<(&'static str, Vec<Field>)> = Vec::new();
        let mut lists_of_tres = Vec::new();
        for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
            if let Some(field) = line.strip_prefix("  ") {
                let (Some((name, fields)), Some(line)) = (records.last_mut(), Line::read(field))
                else {
                    continue;
                };
                if !is_in(line.versions, version) {
                    continue;
                }
                if line.kind == "[tres]" {
                    lists_of_tres.push((*name, line.path));
                }
                put(fields, &line, version);
            } else if !line.is_empty() {
                records.push((line, Vec::new()));
            }
        }
        let mut all = Self { records };
        let tres = all.record("tres").to_vec();
        for (name, path) in lists_of_tres {
            if let Some((_, fields)) = all.records.iter_mut().find(|(own, _)| *own == name) {
                fill(fields, path, &tres);
            }
        }
        all
    }
}

/// A line of the file: path, type, versions, words.
struct Line {
    path: &'static str,
    kind: &'static str,
    versions: &'static str,
    words: &'static str,
}

impl Line {
    fn read(text: &'static str) -> Option<Self> {
        let (head, words) = text.split_once(" = ").unwrap_or((text, ""));
        let (path, rest) = head.split_once(' ')?;
        let (kind, versions) = rest.split_once(" @").unwrap_or((rest, ""));
        Some(Self {
            path,
            kind,
            versions,
            words,
        })
    }
}

/// Whether a list of versions, which is empty for all, has this one.
fn is_in(versions: &str, version: ApiVersion) -> bool {
    let number = version.number().to_string();
    versions.is_empty() || versions.split(',').any(|own| own == number)
}

fn shape(kind: &str) -> Shape {
    let one = |kind: &str| match kind {
        "int" => Kind::Int,
        "real" => Kind::Real,
        "flag" => Kind::Flag,
        "n16" => Kind::Number(16),
        "n32" => Kind::Number(32),
        "n64" => Kind::Number(64),
        "nreal" => Kind::Fraction,
        "map" => Kind::Map,
        "any" => Kind::Any,
        _ => Kind::Text,
    };
    match kind.strip_prefix('[').and_then(|k| k.strip_suffix(']')) {
        Some("tres") => Shape::Records(Vec::new()),
        Some(each) => Shape::Several(one(each)),
        None => Shape::One(one(kind)),
    }
}

/// The words of a line that there are in this version; blanks are written as `_`.
fn words(text: &'static str, version: ApiVersion) -> Vec<&'static str> {
    let own = |word: &'static str| {
        let (word, versions) = word.split_once('@').unwrap_or((word, ""));
        is_in(versions, version).then_some(word)
    };
    text.split(' ')
        .filter(|w| !w.is_empty())
        .filter_map(own)
        .collect()
}

/// Puts a field where its path says.
fn put(fields: &mut Vec<Field>, line: &Line, version: ApiVersion) {
    let (parents, name) = line.path.rsplit_once('.').unwrap_or(("", line.path));
    if let Some(fields) = within(fields, parents) {
        fields.push(Field {
            name,
            shape: shape(line.kind),
            words: words(line.words, version),
        });
    }
}

/// The fields at a path, which are made where there are none.
fn within<'f>(fields: &'f mut Vec<Field>, path: &'static str) -> Option<&'f mut Vec<Field>> {
    if path.is_empty() {
        return Some(fields);
    }
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let (name, several) = match first.strip_suffix("[]") {
        Some(name) => (name, true),
        None => (first, false),
    };
    let at = fields.iter().position(|field| field.name == name);
    let at = at.unwrap_or_else(|| {
        let shape = match several {
            true => Shape::Records(Vec::new()),
            false => Shape::Record(Vec::new()),
        };
        fields.push(Field {
            name,
            shape,
            words: Vec::new(),
        });
        fields.len() - 1
    });
    match &mut fields.get_mut(at)?.shape {
        Shape::Record(below) | Shape::Records(below) => within(below, rest),
        Shape::One(_) | Shape::Several(_) => None,
    }
}

/// Gives the list at a path its fields.
fn fill(fields: &mut [Field], path: &'static str, tres: &[Field]) {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let name = first.strip_suffix("[]").unwrap_or(first);
    let Some(field) = fields.iter_mut().find(|field| field.name == name) else {
        return;
    };
    match &mut field.shape {
        Shape::Records(below) if rest.is_empty() => *below = tres.to_vec(),
        Shape::Record(below) | Shape::Records(below) => fill(below, rest, tres),
        Shape::One(_) | Shape::Several(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves of a record: fields that have no fields themselves.
    fn leaves(fields: &[Field]) -> usize {
        let one = |field: &Field| match &field.shape {
            Shape::Record(below) | Shape::Records(below) => leaves(below),
            Shape::One(_) | Shape::Several(_) => 1,
        };
        fields.iter().map(one).sum()
    }

    #[test]
    fn every_line_is_read() {
        for version in ApiVersion::ALL {
            let lines = TEXT.lines().filter_map(|l| l.strip_prefix("  "));
            let own = lines
                .filter_map(Line::read)
                .filter(|l| is_in(l.versions, version));
            let count: usize = own.map(|l| if l.kind == "[tres]" { 4 } else { 1 }).sum();
            let shapes = Shapes::of(version);
            let read: usize = shapes.names().map(|n| leaves(shapes.record(n))).sum();
            assert_eq!(read, count, "{version:?}");
            assert!(count > 900, "{version:?} has {count}");
        }
    }

    #[test]
    fn versions_differ() {
        let has = |version, record: &str, name: &str| {
            Shapes::of(version)
                .record(record)
                .iter()
                .any(|f| f.name == name)
        };
        assert!(!has(ApiVersion::V42, "job", "stdout_expanded"));
        assert!(has(ApiVersion::V43, "job", "stdout_expanded"));
        assert!(!has(ApiVersion::V43, "license", "Nodes"));
        assert!(has(ApiVersion::V44, "license", "Nodes"));
        let state = |version| {
            let job = Shapes::of(version).record("job");
            job.iter()
                .find(|f| f.name == "job_state")
                .unwrap()
                .words
                .clone()
        };
        assert!(!state(ApiVersion::V43).contains(&"EXPEDITING"));
        assert!(state(ApiVersion::V44).contains(&"EXPEDITING"));
        assert!(state(ApiVersion::V42).contains(&"PENDING"));
    }
}
