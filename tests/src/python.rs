//! Python with packages that tests need: environments of their own beside the programs,
//! made where that is not done yet.

use crate::{programs, system};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A set of packages.
#[derive(Clone, Copy, Debug)]
pub struct Packages {
    /// Name of the environment's folder.
    pub name: &'static str,
    /// What pip is asked for.
    pub wanted: &'static [&'static str],
    /// What can be imported then.
    pub modules: &'static str,
}

/// The interpreter of an environment that has these packages. `None`, and a sentence,
/// where they cannot be installed.
///
/// # Panics
/// When there is no room beside the programs.
pub fn with_or_skip(packages: Packages) -> Option<PathBuf> {
    let folder = programs::folder().join("python").join(packages.name);
    fs::create_dir_all(&folder).expect("a folder beside the programs");
    let lock = File::create(folder.join("lock")).expect("a lock");
    let _held = Flock::lock(lock, FlockArg::LockExclusive).expect("a lock");
    let python = folder.join("bin/python");
    let ready = there(&python, packages) || (make(&folder, packages) && there(&python, packages));
    if !ready {
        system::skip(&format!("{} cannot be installed", packages.wanted.join(" ")));
    }
    ready.then_some(python)
}

fn there(python: &Path, packages: Packages) -> bool {
    let line = format!("import {}", packages.modules);
    works(Command::new(python).args(["-c", &line]))
}

fn make(folder: &Path, packages: Packages) -> bool {
    let pip = ["-m", "pip", "install", "--quiet", "--retries", "1"];
    works(Command::new("python3").args(["-m", "venv"]).arg(folder))
        && works(
            Command::new(folder.join("bin/python"))
                .args(pip)
                .args(packages.wanted),
        )
}

fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
