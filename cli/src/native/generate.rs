//! `cosy generate man DIR`, `cosy generate completions DIR`: for packages and `make
//! install`. `cosy generate options DIR`: the table of Slurm's options that stands in the
//! documentation.

use crate::exit;
use crate::native::arg;
use crate::native::entry::Entry;
use anyhow::Context as _;
use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;
use clap_mangen::roff::{Roff, bold, roman};
use std::fs;
use std::path::{Path, PathBuf};

/// The commands that pages and completions are about.
pub struct CommandList {
    /// Commands of Cosy's own.
    pub native: &'static [Entry],
    /// Slurm's: name, and what it does in a few words.
    pub slurm: Vec<(&'static str, &'static str)>,
}

/// The command line of `cosy generate`.
pub fn command() -> Command {
    arg::command("generate", "Write manual pages, completions, or the table of Slurm's options")
        .arg(
            Arg::new("what")
                .value_name("man|completions|options")
                .help("What to write")
                .required(true)
                .value_parser(["man", "completions", "options"]),
        )
        .arg(
            Arg::new("dir")
                .value_name("DIR")
                .help("Where to write it; made when missing")
                .required(true)
                .value_parser(clap::value_parser!(PathBuf)),
        )
}

/// Runs `cosy generate`.
///
/// # Errors
/// A file cannot be written.
pub fn run(matches: &ArgMatches, commands: &CommandList) -> anyhow::Result<u8> {
    let dir = matches
        .get_one::<PathBuf>("dir")
        .cloned()
        .unwrap_or_default();
    fs::create_dir_all(&dir).with_context(|| format!("cannot make '{}'", dir.display()))?;
    match matches.get_one::<String>("what").map(String::as_str) {
        Some("man") => manuals(&dir, commands)?,
        Some("options") => {
            let text = cosy_slurm::submit::help::markdown();
            write(&dir.join("slurm-options.md"), text.as_bytes())?;
        }
        _ => completions(&dir, commands)?,
    }
    Ok(exit::OK)
}

/// `cosy` with all its commands.
fn full_command(native: &[Entry]) -> Command {
    let mut whole = arg::command("cosy", "The commands of the batch system Cosy");
    for e in native.iter().filter(|e| e.shown) {
        whole = whole.subcommand((e.build)());
    }
    whole
}

/// The commands with a page or completions of their own, by the name of these.
fn each(native: &[Entry]) -> Vec<(String, Command)> {
    let mut all = vec![("cosy".to_owned(), full_command(native))];
    for e in native.iter().filter(|e| e.shown) {
        let called = e.short.unwrap_or(e.name);
        let page = e
            .short
            .map_or_else(|| format!("cosy-{}", e.name), str::to_owned);
        let bin = e
            .short
            .map_or_else(|| format!("cosy {}", e.name), str::to_owned);
        let command = (e.build)().name(called).display_name(page.clone());
        all.push((page, command.bin_name(bin)));
    }
    all
}

fn manuals(dir: &Path, commands: &CommandList) -> anyhow::Result<()> {
    for (page, command) in each(commands.native) {
        for (page, part) in parts(&page, &command) {
            manual(dir, &page, part)?;
        }
        manual(dir, &page, command)?;
    }
    // `cosy submit` is described where `csub` is.
    for e in commands.native.iter().filter(|e| e.shown) {
        if let Some(short) = e.short {
            let link = format!(".so man1/{short}.1\n");
            write(&dir.join(format!("cosy-{}.1", e.name)), link.as_bytes())?;
        }
    }
    write(&dir.join("cosy-slurm.1"), slurm(&commands.slurm).as_bytes())
}

/// One page for all commands with Slurm's names: pages of their own could take the place of
/// another Slurm's.
fn slurm(commands: &[(&str, &str)]) -> String {
    let mut page = Roff::new();
    page.control("TH", ["cosy-slurm", "1", "", env!("CARGO_PKG_VERSION")]);
    page.control("SH", ["NAME"]);
    page.text([roman("cosy-slurm - Slurm's commands, as Cosy has them")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "Scripts and tools written for Slurm find these commands under the names they know. \
         Each lists its options with --help. What is done differently is told in \
         coming-from-slurm.md, which is installed with the other texts.",
    )]);
    page.control("SH", ["COMMANDS"]);
    for (name, about) in commands {
        page.control("TP", []);
        page.text([bold(*name)]);
        page.text([roman(*about)]);
    }
    page.control("SH", ["OPTIONS OF SBATCH, SRUN AND SALLOC"]);
    for (option, status) in cosy_slurm::submit::help::statuses() {
        page.control("TP", []);
        page.text([bold(option)]);
        page.text([roman(status)]);
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([roman("cosy(1), csub(1), cstat(1), cresv(1)")]);
    page.render()
}

/// The subcommands of a command like `cresv`, each with the name of its page.
fn parts(page: &str, command: &Command) -> Vec<(String, Command)> {
    if page == "cosy" {
        return Vec::new();
    }
    let bin = command.get_bin_name().unwrap_or(page);
    let part = |sub: &Command| {
        let (own, called) =
            (format!("{page}-{}", sub.get_name()), format!("{bin} {}", sub.get_name()));
        let sub = sub.clone().display_name(own.clone()).bin_name(called);
        (own, sub.version(env!("CARGO_PKG_VERSION")))
    };
    command.get_subcommands().map(part).collect()
}

fn manual(dir: &Path, page: &str, command: Command) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command)
        .title(page)
        .render(&mut text)?;
    write(&dir.join(format!("{page}.1")), &text)
}

fn completions(dir: &Path, commands: &CommandList) -> anyhow::Result<()> {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let into = dir.join(shell.to_string());
        fs::create_dir_all(&into)?;
        for (name, mut command) in each(commands.native) {
            if name.starts_with("cosy-") {
                continue;
            }
            clap_complete::generate_to(shell, &mut command, &name, &into)
                .with_context(|| format!("cannot write completions to '{}'", into.display()))?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write '{}'", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::command_list;

    #[test]
    fn documentation_has_the_options_as_they_are() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/coming-from-slurm.md");
        let page = fs::read_to_string(page).unwrap();
        let table = cosy_slurm::submit::help::markdown();
        assert!(page.contains(&table), "put `cosy generate options` there");
    }

    #[test]
    fn slurms_commands_have_a_page() {
        let commands = command_list().slurm;
        let page = slurm(&commands);
        for (name, about) in commands {
            let entry = format!("\\fB{name}\\fR\n{about}\n");
            assert!(page.contains(&entry), "{name}");
        }
        assert!(page.contains("\\-\\-constraint=LIST"), "{page}");
    }

    #[test]
    fn pages_and_completions() {
        let dir = tempfile::tempdir().unwrap();
        manuals(dir.path(), &command_list()).unwrap();
        completions(dir.path(), &command_list()).unwrap();
        for file in [
            "cosy.1",
            "csub.1",
            "cosy-hold.1",
            "cosy-slurm.1",
            "cresv.1",
            "cresv-quote.1",
            "bash/cresv.bash",
            "bash/csub.bash",
            "fish/cosy.fish",
            "zsh/_cstat",
        ] {
            assert!(dir.path().join(file).metadata().unwrap().len() > 100, "{file}");
        }
    }
}
