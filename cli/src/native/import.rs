//! `cadm import-slurm`: reads a `slurm.conf` with the files that it includes, what stands beside it,
//! and the accounts; writes a `cosy.toml` and a file of accounts. What could not be carried over
//! goes to standard error, one line each. Everything is read before anything is written.

use crate::{Context, exit, output};
use anyhow::Context as _;
use clap::{Arg, ArgMatches, Command};
use cosy_slurm::import::lines::{FILE_BYTES, Piece, Place};
use cosy_slurm::import::{self, Sources, qos};
use cosy_slurm::sacctmgr::load;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How deep files may include others.
const DEEPEST: usize = 8;
/// Most files that are included.
const MOST_INCLUDED: usize = 1000;

/// The command line of `cadm import-slurm`.
pub fn command() -> Command {
    let file = |name: &'static str, help: String| {
        Arg::new(name)
            .long(name)
            .value_name("FILE")
            .help(help)
            .value_parser(clap::value_parser!(PathBuf))
    };
    let beside = |name: &str| {
        format!("Slurm's {name} (default: the one beside SLURM.CONF, if there is one)")
    };
    Command::new("import-slurm")
        .about("Write a cosy.toml, and a file of accounts, that do what a cluster with Slurm does")
        .arg(
            Arg::new("conf")
                .value_name("SLURM.CONF")
                .help("Slurm's configuration")
                .required(true)
                .value_parser(clap::value_parser!(PathBuf)),
        )
        .arg(file("gres", beside("gres.conf")))
        .arg(file("topology", beside("topology.conf")))
        .arg(
            file(
                "accounts",
                "Accounts, users and limits, as 'sacctmgr dump CLUSTER file=FILE' writes them".into(),
            )
            .requires("policy"),
        )
        .arg(
            file(
                "qos",
                format!("Qualities of service, as '{} > FILE' writes them", qos::command()),
            )
            .requires("policy"),
        )
        .arg(
            file("output", "Write the configuration to this file, which must not exist (default: standard output)".into())
                .short('o'),
        )
        .arg(file(
            "policy",
            "Write accounts, users and qualities of service to this file, which must not exist; 'sacctmgr load FILE' takes it".into(),
        ))
}

/// Runs `cadm import-slurm`.
///
/// # Errors
/// A file that cannot be read, is wrong, or cannot be written.
pub fn run(context: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let path = |name: &str| matches.get_one::<PathBuf>(name).map(PathBuf::as_path);
    let Some(conf) = path("conf") else {
        return Err(exit::usage("which slurm.conf?"));
    };
    let beside = |name: &str, file: &str| match path(name) {
        Some(named) => read_with_includes(named),
        None => {
            let usual = conf.parent().unwrap_or(Path::new("")).join(file);
            match usual.is_file() {
                true => read_with_includes(&usual),
                false => Ok(Vec::new()),
            }
        }
    };
    let accounts = path("accounts").map(|p| whole(p, load::LONGEST));
    let qos = path("qos").map(|p| whole(p, FILE_BYTES));
    let lua = conf
        .parent()
        .unwrap_or(Path::new(""))
        .join("job_submit.lua");
    let lua = lua.canonicalize().ok().filter(|lua| lua.is_file());
    let imported = import::import(&Sources {
        conf: &read_with_includes(conf)?,
        lua: lua.as_ref().and_then(|lua| lua.to_str()),
        gres: &beside("gres", "gres.conf")?,
        topology: &beside("topology", "topology.conf")?,
        accounts: accounts.transpose()?.as_ref(),
        qos: qos.transpose()?.as_ref(),
    })?;
    let files = [
        path("output").map(|to| (to, imported.toml.as_str())),
        path("policy").zip(imported.accounts.as_deref()),
    ];
    write(&files.into_iter().flatten().collect::<Vec<_>>())?;
    if path("output").is_none() {
        output::print(&imported.toml);
    }
    for note in &imported.notes {
        output::complain(context.program(), note);
    }
    if !imported.closed.is_empty() {
        let text = format!(
            "for root and administrators alone until you say who else may use them: queue {}",
            imported.closed.join(", ")
        );
        output::complain(context.program(), &text);
    }
    Ok(exit::OK)
}

fn whole(path: &Path, most: usize) -> anyhow::Result<Piece> {
    Ok(Piece::file(&path.display().to_string(), &read(path, most)?))
}

fn read(path: &Path, most: usize) -> anyhow::Result<String> {
    let named = || format!("cannot read {}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(named)?;
    file.take(most as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(named)?;
    if bytes.len() > most {
        anyhow::bail!("{} is larger than {} MiB", path.display(), most >> 20);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A file, with included files in place of the lines that include them. The line of a file that
/// does not exist stays, so that it is reported.
fn read_with_includes(path: &Path) -> anyhow::Result<Vec<Piece>> {
    let mut all = Included::default();
    all.read(path)?;
    Ok(all.pieces)
}

#[derive(Default)]
struct Included {
    pieces: Vec<Piece>,
    /// Files that are being read, the outermost first.
    open: Vec<PathBuf>,
    files: usize,
    bytes: usize,
}

impl Included {
    fn read(&mut self, path: &Path) -> anyhow::Result<()> {
        let name = path.display();
        let text = read(path, FILE_BYTES)?;
        self.files += 1;
        self.bytes += text.len();
        if self.bytes > FILE_BYTES || self.files > MOST_INCLUDED {
            anyhow::bail!(
                "{name}: with this file more than {MOST_INCLUDED} files or {} MiB are included",
                FILE_BYTES >> 20
            );
        }
        self.open
            .push(path.canonicalize().unwrap_or(path.to_owned()));
        let file: Arc<str> = name.to_string().into();
        let mut piece = Piece::default();
        for (at, line) in text.lines().enumerate() {
            let place = Place {
                file: Arc::clone(&file),
                number: at + 1,
            };
            let included = line
                .trim()
                .split_once(char::is_whitespace)
                .filter(|(word, _)| word.eq_ignore_ascii_case("include"))
                .map(|(_, file)| path.parent().unwrap_or(Path::new(".")).join(file.trim()));
            if let Some(included) = included.filter(|file| file.is_file()) {
                self.pieces.push(std::mem::take(&mut piece));
                self.include(&place, &included)?;
                continue;
            }
            if piece.text.is_empty() {
                piece.place = place;
            }
            piece.text.push_str(line);
            piece.text.push('\n');
        }
        self.pieces.push(piece);
        self.open.pop();
        Ok(())
    }

    fn include(&mut self, place: &Place, file: &Path) -> anyhow::Result<()> {
        let whole = file.canonicalize().unwrap_or(file.to_owned());
        if self.open.contains(&whole) {
            anyhow::bail!("{place}: {} includes itself, at once or by others", file.display());
        }
        if self.open.len() >= DEEPEST {
            anyhow::bail!("{place}: files that include files are read to a depth of {DEEPEST}");
        }
        self.read(file)
    }
}

/// Writes all of these files, which must not be there, or none.
fn write(files: &[(&Path, &str)]) -> anyhow::Result<()> {
    let mut made = Vec::new();
    for (path, text) in files {
        let named = || format!("cannot write {}", path.display());
        let written = File::create_new(path)
            .inspect(|_| made.push(*path))
            .and_then(|mut file| file.write_all(text.as_bytes()));
        if let Err(e) = written {
            for path in made {
                // What was made here and is incomplete without the rest.
                std::fs::remove_file(path).ok();
            }
            return Err(e).with_context(named);
        }
    }
    Ok(())
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
        put("nodes.conf", "# nodes\r\nNodeName=n1 CPUs=2\r\n");
        let conf =
            put("slurm.conf", "ClusterName=a\n  Include nodes.conf\nInclude gone\nKillWait=3\n");
        let pieces = read_with_includes(&conf).unwrap();
        let lines = pieces.iter().flat_map(Piece::lines);
        let lines: Vec<String> = lines
            .map(|(place, line)| {
                let file = Path::new(&*place.file)
                    .file_name()
                    .unwrap()
                    .to_string_lossy();
                format!("{file}:{} {line}", place.number)
            })
            .collect();
        assert_eq!(
            lines,
            [
                "slurm.conf:1 ClusterName=a",
                "nodes.conf:1 # nodes",
                "nodes.conf:2 NodeName=n1 CPUs=2",
                "slurm.conf:3 Include gone",
                "slurm.conf:4 KillWait=3",
            ]
        );
        let fails = |path: &Path, want: &str| {
            let why = read_with_includes(path).unwrap_err().to_string();
            assert!(why.contains(want), "{why}");
        };
        put("b.conf", "\nInclude c.conf\n");
        put("c.conf", "Include b.conf\n");
        fails(&folder.path().join("b.conf"), "c.conf:1: ");
        fails(&folder.path().join("b.conf"), "b.conf includes itself");
        for at in 0..10 {
            put(&format!("d{at}.conf"), &format!("Include d{}.conf\n", at + 1));
        }
        put("d10.conf", "");
        fails(&folder.path().join("d0.conf"), "d7.conf:1: files that include files");
        put("twice.conf", &"Include nodes.conf\n".repeat(MOST_INCLUDED));
        fails(&folder.path().join("twice.conf"), "more than 1000 files");
    }

    #[test]
    fn all_files_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        std::fs::write(&two, "old").unwrap();
        assert!(write(&[(&one, "x"), (&two, "y")]).is_err());
        assert!(!one.exists(), "half of it would be left");
        assert_eq!(std::fs::read_to_string(&two).unwrap(), "old");
        std::fs::remove_file(&two).unwrap();
        assert!(write(&[(&one, "x"), (&two, "y")]).is_ok());
    }
}
