//! The web page in a browser, as people use it: `tests/browser/page.mjs` inside `cosy dev --web`.
//!
//! With `COSY_PICTURES=FOLDER` it leaves the pictures there that documentation has.

#![allow(clippy::unwrap_used, reason = "in tests it says where")]

use cosy_tests::page::at_home_in;
use cosy_tests::run::{finish, spawn};
use cosy_tests::{programs, system};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Files of the scripts; the first two say what they need.
const FILES: [&str; 6] = [
    "package.json",
    "package-lock.json",
    "common.mjs",
    "page.mjs",
    "interactive.mjs",
    "program.py",
];

/// A folder with the script and what it needs; `None`, and a sentence, where that cannot be had.
fn folder() -> Option<PathBuf> {
    let there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    for program in ["node", "npm", "chromium"] {
        if !there(program) {
            system::skip(&format!("there is no {program}: the web page is tried in no browser"));
            assert!(
                std::env::var_os("CI").is_none(),
                "'make test' should have installed {program}"
            );
            return None;
        }
    }
    let folder = programs::folder().join("browser");
    fs::create_dir_all(&folder).unwrap();
    let _held =
        Flock::lock(File::create(folder.join("lock")).unwrap(), FlockArg::LockExclusive).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser");
    let wanted = fs::read(source.join(FILES[1])).unwrap();
    let made = fs::read(folder.join("made-of")).is_ok_and(|made| made == wanted);
    for file in FILES {
        fs::copy(source.join(file), folder.join(file)).unwrap();
    }
    if !made {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(&folder);
        let output = npm.output().unwrap();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            system::skip(&format!("what drives the browser cannot be installed: {said}"));
            assert!(std::env::var_os("CI").is_none(), "{said}");
            return None;
        }
        fs::write(folder.join("made-of"), wanted).unwrap();
    }
    Some(folder)
}

#[test]
fn the_page_in_a_browser() {
    in_browser("page.mjs");
}

#[test]
fn shells_and_programs_in_a_browser() {
    in_browser("interactive.mjs");
}

fn in_browser(script: &str) {
    let Some(folder) = folder() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut words = at_home_in(dir.path());
    words.push(programs::folder().join("cosy").into());
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args([
            "dev", "--quiet", "--nodes", "3", "--cores", "2", "--memory", "2G", "--web", "--dir",
        ])
        .arg(dir.path().join("cluster"))
        .args(["--", "node"])
        .arg(folder.join(script))
        .args(std::env::var_os("COSY_PICTURES"))
        .current_dir(dir.path());
    let output = finish(spawn(&mut command), b"", Duration::from_secs(400));
    assert_eq!(output.code, 0, "{}\n{}", output.out, output.err);
    assert!(output.out.ends_with("all parts hold\n"), "{}", output.out);
}
