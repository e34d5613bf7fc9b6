//! Files that commands write, one of which may be standard output.

use anyhow::{Context, bail};
use clap::ArgMatches;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Options of all commands that name files to read.
const INPUTS: [&str; 6] = ["workload", "sacct", "policy", "against", "sp2", "ctc"];

/// The files that a command writes its results to.
pub struct Output {
    /// Options with the files that they name.
    files: Vec<(&'static str, String)>,
    /// Whether standard output is taken by one of them.
    taken: bool,
}

impl Output {
    /// What was asked for with `names`.
    ///
    /// # Errors
    /// Two of them want standard output or the same file, one would overwrite what is read,
    /// or one is in a folder that there is not: better said before a long replay than after it.
    pub fn of(options: &ArgMatches, names: &[&'static str]) -> anyhow::Result<Self> {
        let file = |name: &&'static str| Some((*name, options.get_one::<String>(name)?.clone()));
        let files: Vec<_> = names.iter().filter_map(file).collect();
        for (at, (name, file)) in files.iter().enumerate() {
            let same = files[..at].iter().find(|(_, other)| other == file);
            match same {
                Some(_) if file == "-" => {
                    bail!("only one of the files can be '-', standard output")
                }
                Some((other, _)) => bail!("--{other} and --{name} both name '{file}'"),
                None => reachable(file)?,
            }
            for input in INPUTS {
                if is_file_of(options, input, file) {
                    bail!("--{name} would overwrite '{file}', which --{input} reads");
                }
            }
        }
        let taken = files.iter().any(|(_, file)| file == "-");
        Ok(Self { files, taken })
    }

    /// Writes what `make` gives, if `name` was asked for.
    ///
    /// # Errors
    /// Those of `make`, and of the file with its path.
    pub fn put(
        &mut self,
        name: &str,
        make: impl FnOnce() -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let Some((_, path)) = self.files.iter().find(|(option, _)| *option == name) else {
            return Ok(());
        };
        let text = make().with_context(|| format!("--{name}"))?;
        if path == "-" {
            return print(&text);
        }
        write(Path::new(path), &text)
    }

    /// Prints `text` unless standard output is taken.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn finish(self, text: &str) -> anyhow::Result<()> {
        if self.taken { Ok(()) } else { print(text) }
    }
}

/// True when the option `input` names an existing file, and `file` is that one.
fn is_file_of(options: &ArgMatches, input: &str, file: &str) -> bool {
    let named = options.try_get_one::<String>(input).ok().flatten();
    let known = |path: &str| Path::new(path).canonicalize().ok();
    let read = named.and_then(|named| known(named));
    read.is_some_and(|read| known(file) == Some(read))
}

fn reachable(file: &str) -> anyhow::Result<()> {
    let folder = Path::new(file).parent();
    match folder.filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        Some(folder) => bail!("cannot write '{file}': '{}' is no folder", folder.display()),
        None => Ok(()),
    }
}

/// Writes a file anew.
///
/// # Errors
/// What the file system says, with the path.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let made = File::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
    made.with_context(|| format!("cannot write '{}'", path.display()))
}

/// Prints to standard output.
///
/// # Errors
/// What the system says; a reader that has left is an error, not a panic.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let done = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    done.context("cannot write to standard output")
}
