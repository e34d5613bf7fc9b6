//! `cadm import-slurm`: reads a `slurm.conf` with the files that it includes and writes a
//! `cosy.toml`; what could not be carried over goes to standard error, one line each.

use crate::{Context, exit, output};
use anyhow::Context as _;
use clap::{Arg, ArgMatches, Command};
use cosy_slurm::import::{self, lines::FILE_BYTES};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// How deep files may include others.
const DEEPEST: usize = 8;

/// The command line of `cadm import-slurm`.
pub fn command() -> Command {
    let file = |name: &'static str| Arg::new(name).value_name("FILE");
    let path = || clap::value_parser!(PathBuf);
    Command::new("import-slurm")
        .about("Write a cosy.toml that does what a slurm.conf does")
        .arg(
            Arg::new("conf")
                .value_name("SLURM.CONF")
                .help("Slurm's configuration")
                .required(true)
                .value_parser(path()),
        )
        .arg(
            file("accounts")
                .long("accounts")
                .help("Accounts and users, as 'sacctmgr dump CLUSTER' writes them")
                .value_parser(path()),
        )
        .arg(
            file("output")
                .short('o')
                .long("output")
                .help("Write to this file, which must not exist (default: standard output)")
                .value_parser(path()),
        )
}

/// Runs `cadm import-slurm`.
///
/// # Errors
/// A file that cannot be read or written.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let path = |name: &str| matches.get_one::<PathBuf>(name);
    let Some(conf) = path("conf") else {
        return Err(exit::usage("which slurm.conf?"));
    };
    let dump = path("accounts").map(|p| read(p)).transpose()?;
    let imported = import::import(&read_with_includes(conf, 0)?, dump.as_deref());
    match path("output") {
        Some(to) => write(to, &imported.toml)?,
        None => output::print(&imported.toml),
    }
    for note in &imported.notes {
        output::complain(context.program(), note);
    }
    Ok(exit::OK)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let named = || format!("cannot read {}", path.display());
    let most = FILE_BYTES as u64;
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(named)?;
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .with_context(named)?;
    if bytes.len() > FILE_BYTES {
        anyhow::bail!("{} is larger than {FILE_BYTES} bytes", path.display());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of a file, with included files in place of the lines that include them. The line of a
/// file that does not exist stays, so that it is reported.
fn read_with_includes(path: &Path, depth: usize) -> anyhow::Result<String> {
    let mut text = String::new();
    for line in read(path)?.lines() {
        let included = line
            .split_once(char::is_whitespace)
            .filter(|(word, _)| word.eq_ignore_ascii_case("include"))
            .map(|(_, file)| path.parent().unwrap_or(Path::new(".")).join(file.trim()));
        match included.filter(|file| depth < DEEPEST && file.is_file()) {
            Some(file) => text.push_str(&read_with_includes(&file, depth + 1)?),
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
        if text.len() > FILE_BYTES {
            anyhow::bail!("{} and what it includes are too large", path.display());
        }
    }
    Ok(text)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let named = || format!("cannot write {}", path.display());
    let mut file = File::create_new(path).with_context(named)?;
    file.write_all(text.as_bytes()).with_context(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_files() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        put("nodes.conf", "NodeName=n1 CPUs=2\nInclude slurm.conf\n");
        let conf = put("slurm.conf", "ClusterName=a\nInclude nodes.conf\nInclude gone\n");
        let text = read_with_includes(&conf, DEEPEST - 1).unwrap();
        assert_eq!(text, "ClusterName=a\nNodeName=n1 CPUs=2\nInclude slurm.conf\nInclude gone\n");
        assert!(read_with_includes(&conf, 0).is_ok());
        assert!(write(&conf, "x").is_err(), "an old file is kept");
    }
}
