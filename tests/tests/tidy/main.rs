//! The source keeps its shape: no long functions and files, no import cycles, no fields of
//! state that a whole crate may write to, no comments of one word, no panics in daemons, no
//! imports through walls, and nothing at the top of the tree that has no reason to be there.
//!
//! What does not hold yet stands in `tests/tidy.txt` with its figure and a reason. A figure
//! there is exact: whoever makes it worse is told so, and whoever makes it better writes the
//! better one down, so that it cannot grow again. Code of tests is not looked at.
//!
//! Sources are read as text that `cargo fmt` has set; nothing here knows types.

#![allow(clippy::unwrap_used, reason = "what cannot be read fails the test")]

mod handed_out;
mod imports;
mod source;
mod top;

use imports::{Imports, cycles, imports};
use source::{Line, Source, sources};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Most lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES: usize = 70;
/// The only file of the controller that makes keys of the order in which jobs are served.
const ORDER_KEYS: &str = "crates/control/src/queues/order.rs";
/// The only file that writes names of variables of ours.
const VARIABLES: &str = "crates/model/src/variables.rs";
/// Packages that no product is made of.
const ONLY_TESTS: [&str; 2] = ["tests", "crates/skip"];
/// Most lines of a file, tests inside it not counted.
const FILE_LINES: usize = 600;
/// Packages whose code must not end the process it runs in.
const DAEMONS: [&str; 12] = [
    "cosyd",
    "noded",
    "crates/config",
    "crates/control",
    "crates/lease",
    "crates/model",
    "crates/plugin",
    "crates/policy",
    "crates/proto",
    "crates/rules",
    "crates/sched",
    "crates/view",
];
/// What ends the process, or the turn.
const PANICS: [&str; 5] = [
    ".unwrap()",
    "panic!(",
    "unreachable!(",
    "todo!(",
    "unimplemented!(",
];

/// Folders of a package that know nothing of each other. What several of them use is beside
/// them and knows none of them.
struct Walls {
    package: &'static str,
    /// The folders, as first words of modules.
    folders: &'static [&'static str],
    /// The modules over the folders, which alone may know them; nobody else names these.
    above: &'static [&'static str],
}

const WALLS: [Walls; 2] = [ROOMS, COMMANDS];

/// No room knows the procedures.
const ROOMS: Walls = Walls {
    package: "crates/control",
    folders: &[],
    above: &["controller", "invariants", "procedures"],
};

const COMMANDS: Walls = Walls {
    package: "cli",
    folders: &["native", "slurm"],
    above: &["commands", "completion"],
};

#[test]
fn the_source_keeps_its_shape() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = sources(root);
    assert!(sources.len() > 300, "only {} sources were found", sources.len());
    let found = figures(&sources);
    let text = std::fs::read_to_string(root.join("tests/tidy.txt")).unwrap();
    let complaints = compare(&found, &exceptions(&text));
    assert!(complaints.is_empty(), "\n{complaints}");
}

/// Rule and place, with the figure.
type Figures = BTreeMap<(String, String), usize>;

/// What differs between the figures and the list, a line each.
fn compare(found: &Figures, listed: &Figures) -> String {
    let mut out = String::new();
    for ((rule, place), figure) in found {
        let _ = match listed.get(&(rule.clone(), place.clone())) {
            None => writeln!(out, "{rule} {place} {figure}: more than the rule allows"),
            Some(listed) if listed < figure => {
                writeln!(out, "{rule} {place} {figure}: {listed} before, so it got worse")
            }
            Some(listed) if listed > figure => {
                writeln!(
                    out,
                    "{rule} {place} {figure}: better than the list says, so write {figure} there"
                )
            }
            Some(_) => Ok(()),
        };
    }
    for (rule, place) in listed.keys().filter(|key| !found.contains_key(*key)) {
        let _ = writeln!(out, "{rule} {place}: it holds now, so take it off the list");
    }
    out
}

/// The list: `rule place figure reason`, `#` for comments.
fn exceptions(text: &str) -> Figures {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    let entry = |line: &str| {
        let mut words = line.split_whitespace();
        let mut word = || words.next().map(str::to_owned);
        let (rule, place, figure) = (word(), word(), word());
        let figure = figure.and_then(|f| f.parse().ok());
        let reason = words.next();
        let entry = rule.zip(place).zip(figure).filter(|_| reason.is_some());
        entry.unwrap_or_else(|| panic!("tests/tidy.txt: not 'rule place figure reason': {line}"))
    };
    lines.map(entry).collect()
}

/// All that is beyond a rule.
fn figures(sources: &[Source]) -> Figures {
    let mut found = Figures::new();
    for source in sources {
        let keys = source
            .lines
            .iter()
            .filter(|l| !l.test && l.code.contains("OrderKey {"));
        let keys = keys.count();
        if keys > 0 && source.path.starts_with("crates/control/") && source.path != ORDER_KEYS {
            found.insert(("order-keys".into(), source.path.clone()), keys);
        }
        let names = variable_names(source);
        let product = !ONLY_TESTS.contains(&source.package.as_str());
        if names > 0 && product && source.path != VARIABLES {
            found.insert(("variable-names".into(), source.path.clone()), names);
        }
        let lines = source.lines.iter().filter(|l| !l.test).count();
        if lines > FILE_LINES {
            found.insert(("file".into(), source.path.clone()), lines);
        }
        for (name, lines) in functions(source) {
            if lines > FUNCTION_LINES {
                let place = format!("{}:{name}", source.path);
                found.insert(("function".into(), place), lines);
            }
        }
        let daemon = DAEMONS.contains(&source.package.as_str());
        let counts = [
            ("panics", if daemon { panics(source) } else { 0 }),
            ("open-fields", open_fields(source)),
            ("short-docs", short_docs(source)),
        ];
        for (rule, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            *found
                .entry((rule.into(), source.package.clone()))
                .or_default() += count;
        }
    }
    for (place, fields) in handed_out::handed_out(sources) {
        found.insert(("handed-out".into(), place), fields);
    }
    let mut packages: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        packages.entry(&source.package).or_default().push(source);
    }
    for (package, sources) in packages {
        let imports = imports(&sources);
        for walls in WALLS.iter().filter(|w| w.package == package) {
            for through in walls.broken(&imports) {
                found.insert(("wall".into(), format!("{package}:{through}")), 1);
            }
        }
        for cycle in cycles(&imports) {
            let first = cycle.first().cloned().unwrap_or_default();
            found.insert(("cycle".into(), format!("{package}:{first}")), cycle.len());
        }
    }
    found
}

impl Walls {
    /// Imports through a wall: `module->module`.
    fn broken(&self, imports: &Imports) -> Vec<String> {
        let first = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
        let behind = |module: &str| {
            let first = first(module);
            let apart = self.folders.iter().chain(self.above);
            apart.copied().find(|name| *name == first)
        };
        let mut broken = Vec::new();
        for (module, theirs) in imports {
            if self.above.contains(&&*first(module)) {
                continue;
            }
            let through = theirs.iter().filter(|other| {
                let there = behind(other);
                there.is_some() && there != behind(module)
            });
            broken.extend(through.map(|other| format!("{module}->{other}")));
        }
        broken
    }
}

/// Names of functions with their lines.
fn functions(source: &Source) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, line) in source.lines.iter().enumerate().filter(|(_, l)| !l.test) {
        let Some(name) = function_name(&line.code) else {
            continue;
        };
        let indent = line.code.len() - line.code.trim_start().len();
        // Set by `cargo fmt`: a body ends in the column in which its function begins.
        let ends = |l: &Line| {
            let brace = l.code.trim_end();
            brace.len() == indent + 1 && brace.ends_with('}')
                || brace.ends_with(';') && l.code.len() - l.code.trim_start().len() == indent
        };
        let one = line.code.trim_end().ends_with(['}', ';']);
        let rest = source.lines[at + 1..].iter().position(ends);
        let lines = if one { 1 } else { rest.map_or(1, |n| n + 2) };
        found.push((name, lines));
    }
    found
}

fn function_name(code: &str) -> Option<String> {
    let mut words = code.split_whitespace();
    loop {
        match words.next()? {
            "fn" => break,
            "const" | "async" | "unsafe" | "extern" | "\"\"" | "pub" => {}
            word if word.starts_with("pub(") => {}
            _ => return None,
        }
    }
    let name = words.next()?;
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    Some(name[..end.unwrap_or(name.len())].to_owned())
}

fn panics(source: &Source) -> usize {
    let code = source
        .lines
        .iter()
        .filter(|l| !l.test)
        .map(|l| l.code.as_str());
    code.map(|code| {
        PANICS
            .iter()
            .map(|p| code.matches(p).count())
            .sum::<usize>()
            + indexing(code)
    })
    .sum()
}

/// `a[b]` in a line, but for slices of everything and attributes.
fn indexing(code: &str) -> usize {
    let bytes = code.as_bytes();
    let opens = bytes.iter().enumerate().filter(|(_, b)| **b == b'[');
    let names = opens.filter(|(at, _)| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let index =
            before.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b')' | b']'));
        index && !code[*at..].starts_with("[..]")
    });
    names.count()
}

/// Texts that begin with the name of a variable of ours.
fn variable_names(source: &Source) -> usize {
    let lines = source.lines.iter().filter(|l| !l.test);
    let texts = lines.flat_map(|l| &l.texts);
    texts.filter(|text| text.starts_with("COSY_")).count()
}

/// Fields that the whole crate may write to.
fn open_fields(source: &Source) -> usize {
    let field = |line: &&Line| {
        let code = line.code.trim();
        let Some(rest) = code.strip_prefix("pub(crate) ") else {
            return false;
        };
        let name = rest.split(':').next().unwrap_or_default();
        rest.contains(": ") && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    source
        .lines
        .iter()
        .filter(|l| !l.test)
        .filter(field)
        .count()
}

/// Comments that document with one word.
fn short_docs(source: &Source) -> usize {
    let docs = source.lines.split(|l| l.doc.is_none());
    let short = |block: &&[Line]| {
        let words = block
            .iter()
            .filter_map(|l| l.doc.as_deref())
            .flat_map(str::split_whitespace);
        !block.is_empty() && block.iter().all(|l| !l.test) && words.count() <= 1
    };
    docs.filter(short).count()
}

#[test]
fn literals_and_comments_are_no_code() {
    let text = "let a = \"fn b() {\"; // x.unwrap()\nlet c = '\"'; let d: &'static str = r#\"[0]\"#;\n/// Which.\nfn e<'a>(f: &'a [u8]) {\n    f[0];\n}\n#[cfg(test)]\nmod tests {\n    fn g() {\n        h(r#\"\n\"#);\n        panic!();\n    }\n}\n";
    let lines = source::read(text);
    let code: Vec<&str> = lines.iter().map(|l| l.code.as_str()).collect();
    assert_eq!(code[0], "let a = \"\"; ");
    assert_eq!(code[1], "let c = ' '; let d: &static str = \"\";");
    assert_eq!(lines[2].doc.as_deref(), Some(" Which."));
    let tests: Vec<bool> = lines.iter().map(|l| l.test).collect();
    assert_eq!(tests.iter().filter(|t| **t).count(), 8);
    assert!(tests[6..].iter().all(|t| *t));
    let source = Source {
        path: "x.rs".into(),
        package: "cosyd".into(),
        module: vec!["x".into()],
        lines,
    };
    assert_eq!((panics(&source), short_docs(&source)), (1, 1));
    assert_eq!(source.lines[0].texts, ["fn b() {"]);
    assert_eq!(source.lines[1].texts, ["[0]"]);
    assert_eq!(functions(&source), [("e".to_owned(), 3)]);
}

#[test]
fn names_of_variables_are_found() {
    let check = |text: &str, want: usize| {
        let source = Source {
            path: "x.rs".into(),
            package: "cosyd".into(),
            module: Vec::new(),
            lines: source::read(text),
        };
        assert_eq!(variable_names(&source), want, "{text}");
    };
    check("let a = f(\"COSY_TASKS\", b\"COSY_NODES=\"); // \"COSY_QOS\"", 2);
    check("let a = r#\"COSY_TASKS=1\"#;", 1);
    check("let a = \"$COSY_TASKS\"; let b = \"SLURM_NTASKS\";", 0);
    check("#[test]\nfn a() {\n    b(\"COSY_TASKS\");\n}", 0);
}

#[test]
fn the_list_is_exact() {
    let listed =
        exceptions("# comment\nfile a.rs 700 has no seam\npanics cosyd 3 ids are checked\n");
    let figures = |pairs: &[(&str, &str, usize)]| -> Figures {
        let pair =
            |(rule, place, n): &(&str, &str, usize)| ((rule.to_string(), place.to_string()), *n);
        pairs.iter().map(pair).collect()
    };
    assert_eq!(compare(&figures(&[("file", "a.rs", 700), ("panics", "cosyd", 3)]), &listed), "");
    let told = compare(&figures(&[("file", "a.rs", 701), ("file", "b.rs", 900)]), &listed);
    assert!(
        told.contains("a.rs 701: 700 before") && told.contains("b.rs 900: more than"),
        "{told}"
    );
    assert!(told.contains("panics cosyd: it holds now"), "{told}");
}

#[test]
fn imports_through_walls_are_found() {
    let pairs = [
        ("above", "a::x"),
        ("above", "b"),
        ("a::x", "a"),
        ("a::x", "b::y"),
        ("a::x", "beside"),
        ("a", "above"),
        ("b", "a::x"),
        ("beside", "b::y"),
        ("abc", "beside"),
    ];
    let mut imports = Imports::new();
    for (module, other) in pairs {
        let theirs = imports.entry(module.to_owned()).or_default();
        theirs.insert(other.to_owned());
    }
    let walls = Walls {
        package: "p",
        folders: &["a", "b"],
        above: &["above"],
    };
    let want = ["a->above", "a::x->b::y", "b->a::x", "beside->b::y"];
    assert_eq!(walls.broken(&imports), want);
}

/// Documents for those who work on the source.
const DOCUMENTS: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// What a document names as a file or folder of this source.
fn paths_named(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|name| {
        let first = name.split('/').next().unwrap_or_default();
        let plain = !name.contains([' ', '*', '<', ':']) && name.contains('/');
        plain
            && [
                "crates", "cosyd", "noded", "cli", "tests", "docs", "etc", "plugins",
            ]
            .contains(&first)
    })
}

#[test]
fn paths_in_documents_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for document in DOCUMENTS {
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        let all: Vec<&str> = paths_named(&text).collect();
        assert!(all.len() > 10, "{document} names only {all:?}");
        let lost: Vec<&&str> = all.iter().filter(|p| !root.join(p).exists()).collect();
        assert!(lost.is_empty(), "{document} names what there is not: {lost:?}");
    }
}
