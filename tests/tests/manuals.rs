//! The manual pages of the daemons name the options that these have.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_tests::programs;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The long options in a text.
fn options(text: &str) -> BTreeSet<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
    let words = text.split(word);
    let long = words.filter(|w| w.starts_with("--") && w.len() > 2);
    long.map(str::to_owned).collect()
}

fn told(program: &str, words: &[&str]) -> String {
    let mut command = Command::new(programs::folder().join(program));
    let output = command.args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn check(page: &str, help: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/man");
    let text = std::fs::read_to_string(path.join(page)).unwrap();
    // Fonts stand beside the words, and a dash is not to be broken or drawn.
    let plain = text.replace("\\fB", " ").replace("\\fR", " ");
    let plain = plain.replace("\\fI", " ").replace("\\-", "-");
    assert_eq!(options(&plain), options(help), "{page}");
}

#[test]
fn daemons_have_pages_with_all_options() {
    check("cosyd.8", &(told("cosyd", &[]) + &told("cosyd", &["store"])));
    check("noded.8", &(told("noded", &[]) + &told("noded", &["join"])));
    check("cosy-web.8", &told("cosy-web", &[]));
}
