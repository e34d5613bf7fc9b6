//! What stands at the top of the tree, and why. Whatever else turns up there has come with a
//! commit by mistake: a scratch folder, a log, a program that somebody has built.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Every entry of the top level with its reason.
const TOP: [(&str, &str); 28] = [
    (".cargo", "settings of Cargo that every build needs"),
    (".ci", "what must pass before a change is taken"),
    (".config", "settings of nextest"),
    (".gitignore", "what a build and scratch work leave"),
    ("ARCHITECTURE.md", "the map of the source"),
    ("CHANGELOG.md", "what users see of each release"),
    ("CONTRIBUTING.md", "how to build, test and change it"),
    ("Cargo.lock", "the versions that were tested"),
    ("Cargo.toml", "the workspace"),
    ("LICENSE", "the terms"),
    ("Makefile", "build, test and install in one word each"),
    ("README.md", "what it is, for whom, the first two commands"),
    ("cli", "package: all commands"),
    ("clippy.toml", "what lints ban in the whole workspace"),
    ("cosyd", "package: the controller daemon"),
    ("crates", "packages: the libraries and the simulator"),
    ("demo", "what `make demo` runs"),
    ("docs", "the guides of users and administrators, and figures"),
    ("etc", "example configuration"),
    ("fuzz", "package outside the workspace: fuzz targets"),
    ("noded", "package: the node daemon and its shepherds"),
    ("plugins", "scripts that fit a job to an MPI"),
    ("rustfmt.toml", "how `cargo fmt` sets the source"),
    ("systemd", "units of both daemons"),
    ("tests", "package: tests and benchmarks with real daemons"),
    ("web", "package: the program of the web page, and the page"),
    // Not part of the source, but of a folder that git knows nothing of.
    ("target", "what Cargo builds; ignored"),
    ("tmp", "scratch files; ignored"),
];

#[test]
fn the_top_of_the_tree_has_what_it_should() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let found = committed(root);
    let complaints = compare(&found.clone().unwrap_or_else(|| present(root)));
    assert!(complaints.is_empty(), "\n{complaints}");
    let ignored = std::fs::read_to_string(root.join(".gitignore")).unwrap();
    for scratch in ["/target", "/tmp/"] {
        assert!(ignored.lines().any(|l| l == scratch), "{scratch}");
    }
    for scratch in ["target", "tmp"] {
        let taken = found.as_ref().is_some_and(|f| f.contains(scratch));
        assert!(!taken, "{scratch} is committed, and is to be ignored");
    }
}

/// What the entries have beyond the list and what they lack of it, a line each.
fn compare(found: &BTreeSet<String>) -> String {
    let listed = |name: &str| TOP.iter().any(|(entry, _)| *entry == name);
    let more = found.iter().filter(|name| !listed(name));
    let more = more.map(|name| {
        format!("{name}: no entry of the top level; remove it, or list it in tests/tests/tidy/top.rs with its reason\n")
    });
    let needed = TOP.iter().filter(|(_, why)| !why.ends_with("ignored"));
    let lost = needed.filter(|(name, _)| !found.contains(*name));
    let lost = lost.map(|(name, why)| format!("{name} ({why}): listed, but not there\n"));
    more.chain(lost).collect()
}

/// First parts of all paths in git's index. `None`: these sources are no checkout, or git is
/// missing or refuses.
fn committed(root: &Path) -> Option<BTreeSet<String>> {
    if !root.join(".git").exists() {
        return None;
    }
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["ls-files", "-z"]);
    let listed = git.output().ok().filter(|o| o.status.success())?;
    let listed = String::from_utf8(listed.stdout).unwrap();
    let paths = listed.split('\0').filter(|path| !path.is_empty());
    let first = paths.map(|path| path.split('/').next().unwrap_or_default().to_owned());
    Some(first.collect())
}

/// The folder's entries.
fn present(root: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name != ".git" && !name.ends_with(".profraw"))
        .collect()
}

#[test]
fn what_should_not_be_at_the_top_is_named() {
    let mut found: BTreeSet<String> = TOP.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(compare(&found), "");
    found.remove("target");
    assert_eq!(compare(&found), "");
    found.insert("loop.log".to_owned());
    found.remove("docs");
    let told = compare(&found);
    assert!(told.contains("loop.log: no entry of the top level"), "{told}");
    assert!(told.contains("docs (the guides"), "{told}");
}
