//! Where the programs under test are, and that they are of the present sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// Names the folder of the programs; nothing is then built.
pub const FOLDER_VARIABLE: &str = "COSY_BIN_DIR";
/// Names the folder of the same programs of the release before, for tests of upgrades.
pub const EARLIER_FOLDER_VARIABLE: &str = "COSY_OLD_BIN_DIR";
/// Names of the programs that are built together.
const PROGRAMS: [&str; 6] = [
    "cosy",
    "cosyd",
    "noded",
    "cosy-web",
    "cosy-lua",
    "libpam_cosy.so",
];

/// The folder of `cosy`, `cosyd` and `noded`; built with cargo when one is missing or
/// older than the sources.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(find)
}

/// The folder of `cosy`, `cosyd` and `noded` of the release before, where there is one.
pub fn earlier_folder() -> Option<PathBuf> {
    std::env::var_os(EARLIER_FOLDER_VARIABLE)
        .filter(|v| !v.is_empty())
        .map(PathBuf::from)
}

fn find() -> PathBuf {
    if let Some(folder) = std::env::var_os(FOLDER_VARIABLE).filter(|v| !v.is_empty()) {
        return folder.into();
    }
    let me = std::env::current_exe().expect("a program knows where it is");
    let folder = me.parent().expect("a program is in a folder");
    // Programs are in TARGET/PROFILE, tests in TARGET/PROFILE/deps.
    let folder = match folder.ends_with("deps") {
        true => folder.parent().expect("TARGET/PROFILE").to_owned(),
        false => folder.to_owned(),
    };
    if is_stale(&folder) {
        build(&folder);
    }
    for name in PROGRAMS {
        let path = folder.join(name);
        assert!(path.exists(), "{} was not built", path.display());
    }
    folder
}

fn is_stale(folder: &Path) -> bool {
    let oldest = PROGRAMS
        .iter()
        .map(|name| modified(&folder.join(name)))
        .min()
        .flatten();
    let root = workspace();
    let newest = ["cosyd", "noded", "cli", "web", "crates"]
        .iter()
        .filter_map(|part| newest_below(&root.join(part)))
        .max();
    match (oldest, newest) {
        (Some(oldest), Some(newest)) => oldest < newest,
        (None, _) => true,
        (Some(_), None) => false,
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package is in the workspace")
        .to_owned()
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|m| m.modified()).ok()
}

fn newest_below(folder: &Path) -> Option<SystemTime> {
    fs::read_dir(folder)
        .ok()?
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() && name != "tests" && name != "target" {
                newest_below(&path)
            } else if path
                .extension()
                .is_some_and(|e| e == "rs" || e == "sql" || e == "lua")
            {
                modified(&path)
            } else {
                None
            }
        })
        .max()
}

fn build(folder: &Path) {
    let target = folder.parent().expect("TARGET/PROFILE");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Of fewer packages, libraries would have other features and be compiled once more.
    command
        .args(["build", "--quiet", "--workspace", "--bins", "--lib"])
        .arg("--target-dir")
        .arg(target)
        .current_dir(workspace());
    if folder.ends_with("release") {
        command.arg("--release");
    }
    let status = command.status().expect("cargo can be run");
    assert!(status.success(), "the programs under test do not build");
}
