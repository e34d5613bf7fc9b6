//! Structs that a function hands out to be written to: what their fields are, only their room
//! may change.

use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Packages with rooms.
const ROOMS: [&str; 1] = ["crates/control"];

/// Fields that anybody may write to who was handed their struct, by struct: `package:Struct`.
pub fn handed_out(sources: &[Source]) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for package in ROOMS {
        let codes: Vec<String> = sources
            .iter()
            .filter(|source| source.package == package)
            .map(Source::code)
            .collect();
        let names: BTreeSet<&str> = codes.iter().flat_map(|code| returned_mut(code)).collect();
        for code in &codes {
            for (name, fields) in open_structs(code) {
                if fields > 0 && names.contains(name) {
                    found.insert(format!("{package}:{name}"), fields);
                }
            }
        }
    }
    found
}

/// Names of types of which a function that is not its room's alone tells `&mut`.
fn returned_mut(code: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices("->") {
        let begin = code[..at].rfind("fn ").unwrap_or(0);
        let line = code[..begin].rfind('\n').map_or(0, |n| n + 1);
        let before = code[line..begin].trim_start();
        if !before.starts_with("pub ") && !before.starts_with("pub(crate) ") {
            continue;
        }
        let rest = &code[at..];
        let end = rest.find(['{', ';']).unwrap_or(rest.len());
        for (mark, _) in rest[..end].match_indices("mut ") {
            let name = &rest[mark + 4..end];
            let length = name
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(name.len());
            names.push(&name[..length]);
        }
    }
    names
}

/// Structs with how many fields of each are open to the crate or to all.
fn open_structs(code: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("struct ") {
        let rest = &code[at + 7..];
        let length = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let body = match rest.find(['{', ';', '(']) {
            Some(open) if rest[open..].starts_with('{') => &rest[open..],
            Some(_) | None => continue,
        };
        let body = &body[..body.find("\n}").unwrap_or(body.len())];
        let open = body.lines().map(str::trim).filter(|line| {
            line.starts_with("pub(crate) ") && line.contains(": ")
                || line.starts_with("pub ") && line.contains(": ")
        });
        found.push((&rest[..length], open.count()));
    }
    found
}

#[test]
fn structs_that_are_handed_out_are_found() {
    let source = |text: &str| Source {
        path: "x.rs".into(),
        package: "crates/control".into(),
        module: Vec::new(),
        lines: crate::source::read(text),
    };
    let text = "\
pub(crate) struct Open {
    pub a: u32,
    pub(crate) b: Vec<u32>,
    pub(in crate::x) c: u32,
    d: u32,
}
pub(crate) struct Closed {
    a: u32,
}
pub(crate) struct Kept {
    pub a: u32,
}
";
    let functions = "\
pub fn a(&mut self) -> Option<&mut Open> {
}
pub(crate) fn b<'a>(&'a mut self) -> &'a mut Closed {
}
pub fn c(&mut self, d: &mut Kept) -> u32 {
}
fn e(&mut self) -> &mut Kept {
}
pub(in crate::x) fn f(&mut self) -> &mut Kept {
}
";
    let found = handed_out(&[source(text), source(functions)]);
    assert_eq!(found, BTreeMap::from([("crates/control:Open".to_owned(), 2)]));
}
