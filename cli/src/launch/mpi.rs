//! How the tasks of a step find each other: as named, else as the job or its queue says
//! (`COSY_MPI`), else found out from the libraries that the program was linked with.

use crate::exit;
use cosy_model::step::{StepCommand, StepProgram, Wireup};
use cosy_model::{OsText, variables};
use cosy_plugin::{NAME_BYTES, Plugins};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A name of a plugin or of a wire-up.
///
/// # Errors
/// Not a name.
pub fn parse(text: &str) -> Result<String, String> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if !text.is_empty() && text.len() <= NAME_BYTES && text.bytes().all(fine) {
        return Ok(text.to_owned());
    }
    Err("a name is needed: none, pmi, pmix, or that of a plugin".to_owned())
}

/// The plugins that this program finds.
pub fn plugins() -> Plugins {
    let variable = std::env::var_os(variables::PLUGIN_PATH).filter(|v| !v.is_empty());
    let program = std::env::current_exe().ok();
    Plugins::search(variable.as_deref(), program.as_deref())
}

/// The wire-up of a step with these programs. One task alone needs none that was not
/// asked for.
///
/// # Errors
/// The plugin does not exist or is broken.
pub fn wireup(
    choice: Option<&str>,
    alone: bool,
    programs: &[StepProgram],
    workdir: &OsText,
) -> anyhow::Result<Wireup> {
    let chosen = std::env::var(variables::MPI).ok().filter(|v| !v.is_empty());
    let choice = choice.or(chosen.as_deref());
    if choice.is_none() && alone {
        return Ok(Wireup::None);
    }
    let files = files(programs, Path::new(OsStr::from_bytes(&workdir.0)));
    cosy_plugin::wireup(&plugins(), choice, &files)
        .map_err(|e| exit::error(exit::FAILED, e.to_string()))
}

/// The files that would be executed, as far as they can be told here.
fn files(programs: &[StepProgram], workdir: &Path) -> Vec<PathBuf> {
    let names: BTreeSet<&[u8]> = programs
        .iter()
        .filter_map(|p| match &p.command {
            StepCommand::Run { argv, .. } => argv.first().map(|a| a.0.as_slice()),
            StepCommand::Receive { .. } => None,
        })
        .collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    names
        .into_iter()
        .filter_map(|name| program_file(OsStr::from_bytes(name), workdir, &path))
        .collect()
}

/// The file of a program: its path from `workdir`, or the first of that name in the folders of
/// `path`.
pub fn program_file(name: &OsStr, workdir: &Path, path: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(workdir.join(name));
    }
    std::env::split_paths(path)
        .map(|folder| workdir.join(folder).join(name))
        .find(|p| p.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn which_files() {
        let check = |name: &str, want: Option<&str>| {
            let path = OsString::from("/no/such:/bin:/usr/bin");
            let got = program_file(OsStr::new(name), Path::new("/w"), &path);
            assert_eq!(got.as_deref(), want.map(Path::new), "{name}");
        };
        check("./a.out", Some("/w/./a.out"));
        check("/x/y", Some("/x/y"));
        check("sh", Some("/bin/sh"));
        check("no-such-program", None);
    }

    #[test]
    fn names() {
        let check = |text: &str, fine: bool| assert_eq!(parse(text).is_ok(), fine, "{text}");
        check("openmpi", true);
        check("a b", false);
        check("../x", false);
        check("", false);
    }
}
