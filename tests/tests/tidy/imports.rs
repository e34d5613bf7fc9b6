//! Which modules of a crate name each other, and where that goes round in a circle.

use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Modules with the modules that they name.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

/// What each module of one crate names of the others.
pub fn imports(sources: &[&Source]) -> Imports {
    let modules: BTreeSet<String> = sources.iter().map(|s| s.module.join("::")).collect();
    let mut on: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for source in sources {
        let names = on.entry(source.module.join("::")).or_default();
        for path in handed_on(source) {
            if let Some(name) = path.last() {
                names.insert(name.clone(), path.clone());
            }
        }
    }
    let mut imports = Imports::new();
    for source in sources {
        let own = source.module.join("::");
        let theirs = imports.entry(own.clone()).or_default();
        for mut path in named(source, &modules) {
            // What a parent hands on is where it was made.
            for _ in 0..4 {
                let (module, left) = longest(&modules, &path);
                let made = left.first().and_then(|name| on.get(&module)?.get(name));
                match made {
                    Some(made) if *made != path => path = made.clone(),
                    _ => break,
                }
            }
            let (module, _) = longest(&modules, &path);
            if module != own && !module.is_empty() {
                theirs.insert(module);
            }
        }
    }
    imports.remove("");
    imports
}

/// The module that a path leads to, and what is left of the path.
fn longest(modules: &BTreeSet<String>, path: &[String]) -> (String, Vec<String>) {
    for length in (0..=path.len()).rev() {
        let module = path[..length].join("::");
        if modules.contains(&module) {
            return (module, path[length..].to_vec());
        }
    }
    (String::new(), path.to_vec())
}

/// Paths inside the crate that a file names, whole from the crate's root.
fn named(source: &Source, modules: &BTreeSet<String>) -> Vec<Vec<String>> {
    let text = source.code();
    let below = |name: &str| {
        let module = [&source.module[..], &[name.to_owned()]].concat();
        modules.contains(&module.join("::"))
    };
    let mut found = Vec::new();
    let mut word_begins = None;
    for (at, c) in text.char_indices() {
        if c.is_alphanumeric() || c == '_' {
            word_begins = word_begins.or(Some(at));
            continue;
        }
        let Some(begin) = word_begins.take() else {
            continue;
        };
        let word = &text[begin..at];
        // `pub(in crate::room)` says who may look in, and names nothing.
        let outside = text[..begin].ends_with("::") || text[..begin].ends_with("pub(in ");
        // Only links in comments see it.
        let for_links = text[..begin].ends_with("#[cfg(doc)]\nuse ");
        let is_path = text[at..].starts_with("::") && !outside && !for_links;
        if is_path && (matches!(word, "crate" | "super" | "self") || below(word)) {
            let paths = tree(&text[begin..]).0;
            found.extend(paths.into_iter().map(|path| whole(&source.module, path)));
        }
    }
    found
}

/// Paths that a file hands on with `pub use`, whole from the crate's root.
fn handed_on(source: &Source) -> Vec<Vec<String>> {
    let text = source.code();
    let mut found = Vec::new();
    for (at, _) in text.match_indices("use ") {
        let line = text[..at].rfind('\n').map_or(0, |n| n + 1);
        if text[line..at].trim_start().starts_with("pub") {
            let paths = tree(&text[at + 4..]).0;
            found.extend(paths.into_iter().map(|path| whole(&source.module, path)));
        }
    }
    found
}

/// A path from the crate's root.
fn whole(module: &[String], path: Vec<String>) -> Vec<String> {
    let mut at: Vec<String> = module.to_vec();
    for (n, word) in path.iter().enumerate() {
        match word.as_str() {
            "crate" if n == 0 => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            _ => at.push(word.clone()),
        }
    }
    at
}

/// The paths of `a::{b, c::d}` at the beginning of a text, and how many bytes they take.
fn tree(text: &str) -> (Vec<Vec<String>>, usize) {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut stem: Vec<String> = Vec::new();
    loop {
        while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        if bytes.get(at) == Some(&b'{') {
            at += 1;
            let mut all = Vec::new();
            loop {
                while bytes
                    .get(at)
                    .is_some_and(|b| b.is_ascii_whitespace() || *b == b',')
                {
                    at += 1;
                }
                match bytes.get(at) {
                    Some(b'}') => return (all, at + 1),
                    None => return (all, at),
                    Some(_) => {}
                }
                let (inner, taken) = tree(&text[at..]);
                if taken == 0 {
                    return (all, at);
                }
                all.extend(inner.into_iter().map(|p| [stem.clone(), p].concat()));
                at += taken;
            }
        }
        let word = bytes[at..]
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
            .count();
        stem.push(text[at..at + word].to_owned());
        at += word;
        if bytes.get(at) == Some(&b'*') {
            at += 1;
        }
        if !text[at..].starts_with("::") || text[at..].starts_with("::<") {
            // A name given with `as` is passed over.
            if let Some(rest) = text[at..].strip_prefix(" as ") {
                at += 4 + rest
                    .bytes()
                    .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
                    .count();
            }
            stem.retain(|w| !w.is_empty());
            return (vec![stem], at);
        }
        at += 2;
    }
}

/// Modules that import each other, straight or over others; sorted.
pub fn cycles(imports: &Imports) -> Vec<Vec<String>> {
    let reach = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(module) = open.pop() {
            for next in imports.get(module).into_iter().flatten() {
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|m| (m, reach(m))).collect();
    let mut done = BTreeSet::new();
    let mut cycles = Vec::new();
    for module in imports.keys() {
        let both = |other: &&&String| reached.get(**other).is_some_and(|r| r.contains(module));
        let ring: Vec<String> = reached[module]
            .iter()
            .filter(both)
            .map(|m| (*m).clone())
            .collect();
        if ring.len() > 1 && done.insert(ring.clone()) {
            cycles.push(ring);
        }
    }
    cycles
}

#[test]
fn cycles_are_found_through_what_is_handed_on() {
    let source = |module: &str, text: &str| Source {
        path: format!("{module}.rs"),
        package: "p".into(),
        module: module
            .split("::")
            .filter(|w| !w.is_empty())
            .map(str::to_owned)
            .collect(),
        lines: crate::source::read(text),
    };
    let sources = [
        source("", "mod a;\nmod b;\npub use a::{A, One as Two};\n"),
        source("a", "use crate::b::{c::D, B};\npub struct A;\n"),
        source("b", "pub mod c;\npub struct B;\n"),
        source("b::c", "use crate::A;\nfn f() { super::B::new() }\n"),
        source("d", "#[cfg(doc)]\nuse crate::b::B;\nuse crate::a::A;\n"),
    ];
    let all: Vec<&Source> = sources.iter().collect();
    let imports = imports(&all);
    let of = |module: &str| {
        imports[module]
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
    };
    assert_eq!((of("a"), of("b::c"), of("d")), (vec!["b", "b::c"], vec!["a", "b"], vec!["a"]));
    assert_eq!(cycles(&imports), [["a", "b::c"]]);
}
