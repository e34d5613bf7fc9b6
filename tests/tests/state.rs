//! What an earlier release left in the middle of its work is shown by this one as it was by that one.
//!
//! `tests/tools/make-state.py` makes the fixtures and tells what is in them: for a new release run it
//! with that release's programs, and name the folder here, in `cosyd/src/store/earlier_tests.rs` and in
//! `noded/src/spool/earlier_tests.rs`, which look at every row and every record. What is shown otherwise on
//! purpose is in the fixture's `changes.txt`, with the reason.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_tests::{programs, run, system};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const FIXTURES: [&str; 1] = ["state-0.1.0-schema-12"];

/// The script's exit code where something is missing that it needs.
const CANNOT: i32 = 77;

#[test]
fn what_an_earlier_release_left_is_shown_as_by_it() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in FIXTURES {
        let fixture = here.join("fixtures").join(name);
        let mut script = Command::new("python3");
        let arguments = [here.join("tools/make-state.py"), "--show".into()];
        script.args(arguments).arg(programs::folder()).arg(&fixture);
        let shown = run::run(&mut script);
        if shown.code == CANNOT {
            return system::skip(shown.err.trim());
        }
        let shown = shown.expect(0).out;
        let was = fs::read_to_string(fixture.join("shown.txt")).unwrap();
        let changes = fs::read_to_string(fixture.join("changes.txt")).unwrap_or_default();
        let wanted: Vec<&str> = changes.lines().filter(|l| !l.starts_with('#')).collect();
        let found = differences(&was, &shown);
        let is_new = |line: &&String| !wanted.contains(&line.as_str());
        let new: Vec<&String> = found.iter().filter(is_new).collect();
        let gone: Vec<&&str> = wanted
            .iter()
            .filter(|w| !found.iter().any(|f| f == *w))
            .collect();
        assert!(
            new.is_empty() && gone.is_empty(),
            "{name}: shown otherwise: {new:#?}\nin changes.txt and not so: {gone:#?}"
        );
    }
}

/// What differs, a line each, with the command that said it.
fn differences(was: &str, is: &str) -> Vec<String> {
    let (was, is) = (sections(was), sections(is));
    let asked = |all: &[(&str, Vec<&str>)]| all.iter().map(|s| s.0.to_owned()).collect::<Vec<_>>();
    if asked(&was) != asked(&is) {
        return vec![format!("{:?} and now {:?}", asked(&was), asked(&is))];
    }
    let both = was.iter().zip(&is);
    both.flat_map(|((command, old), (_, new))| {
        let lines = lines_that_differ(old, new);
        // Without its arguments, which have dates.
        let words: Vec<&str> = command.split(' ').take(2).collect();
        let command = words.join(" ");
        lines
            .into_iter()
            .map(move |line| format!("{command}: {line}"))
    })
    .collect()
}

fn lines_that_differ(was: &[&str], is: &[&str]) -> Vec<String> {
    if was.len() == is.len() {
        let pairs = was.iter().zip(is).filter(|(was, is)| was != is);
        return pairs
            .flat_map(|(old, new)| fields_that_differ(was, old, new))
            .collect();
    }
    let gone = was.iter().filter(|line| !is.contains(line));
    let more = is.iter().filter(|line| !was.contains(line));
    gone.map(|line| format!("- {line}"))
        .chain(more.map(|line| format!("+ {line}")))
        .collect()
}

/// Fields of two records, or the whole lines where they are none.
fn fields_that_differ(all: &[&str], was: &str, is: &str) -> Vec<String> {
    let titles = all.first().copied().unwrap_or_default();
    let (Some(old), Some(new)) = (fields(titles, was), fields(titles, is)) else {
        return vec![format!("- {was}"), format!("+ {is}")];
    };
    let id = ["id", "JOBID", "JobID", "seq", "ID", "name"]
        .iter()
        .find_map(|title| old.get(*title));
    let id = id.map(String::as_str).unwrap_or_default();
    let nothing = "nothing".to_owned();
    let names = old
        .keys()
        .chain(new.keys().filter(|name| !old.contains_key(*name)));
    names
        .filter(|name| old.get(*name) != new.get(*name))
        .map(|name| {
            let value = |of: &BTreeMap<String, String>| of.get(name).unwrap_or(&nothing).clone();
            format!("{id} {name}: {} -> {}", value(&old), value(&new))
        })
        .collect()
}

/// What stands in a line of JSON or of a table with bars, by name.
fn fields(titles: &str, line: &str) -> Option<BTreeMap<String, String>> {
    if let Ok(Json::Object(members)) = serde_json::from_str(line) {
        return Some(
            members
                .into_iter()
                .map(|(k, v)| (k, v.to_string()))
                .collect(),
        );
    }
    let (titles, cells): (Vec<&str>, Vec<&str>) =
        (titles.split('|').collect(), line.split('|').collect());
    let is_table = titles.len() > 1 && titles.len() == cells.len();
    let owned = |(title, cell): (&str, &str)| (title.to_owned(), cell.to_owned());
    is_table.then(|| titles.into_iter().zip(cells).map(owned).collect())
}

/// Commands, each with the lines that it printed.
fn sections(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command, Vec::new())),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => {}
        }
    }
    all
}

#[test]
fn differences_are_told_with_their_command() {
    let check = |was: &str, is: &str, want: &[&str]| assert_eq!(differences(was, is), want);
    let was = "$ a b c\n1\n2\n$ d\n{\"id\": 3, \"x\": 4, \"y\": 5}\n$ e\nJobID|x\n6|7\n";
    check(was, was, &[]);
    check(was, &was.replace("\n2\n", "\n8\n"), &["a b: - 2", "a b: + 8"]);
    check(was, &was.replace("\n2\n", "\n"), &["a b: - 2"]);
    check(
        was,
        &was.replace("\n1\n2\n", "\n2\n1\n"),
        &["a b: - 1", "a b: + 2", "a b: - 2", "a b: + 1"],
    );
    check(
        was,
        &was.replace("\"x\": 4", "\"z\": 4"),
        &["d: 3 x: 4 -> nothing", "d: 3 z: nothing -> 4"],
    );
    check(was, &was.replace("|7", "|8"), &["e: 6 x: 7 -> 8"]);
    assert_eq!(differences(was, "$ a b c\n1\n2\n").len(), 1);
}
