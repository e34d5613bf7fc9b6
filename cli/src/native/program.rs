//! Where the other programs of Cosy are.

use anyhow::Context as _;
use std::path::{Path, PathBuf};

/// The program of that name beside this one, else in `PATH`.
///
/// # Errors
/// It is in neither.
pub fn find(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    let folder = own.parent().unwrap_or(Path::new("/")).to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(folder)
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
        .and_then(|program| program.canonicalize().ok())
        .with_context(|| format!("there is no {name} beside this program nor in PATH"))
}
