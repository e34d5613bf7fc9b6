//! `cosy generate man DIR`, `cosy generate completions DIR`: for packages and `make
//! install`. `cosy completion SHELL`: for everybody else. `cosy generate options DIR`: the
//! table of Slurm's options that stands in the documentation.

use crate::native::arg;
use crate::native::entry::Entry;
use crate::native::shell_scripts::{self as scripts, Shell};
use crate::{exit, output};
use anyhow::Context as _;
use clap::{Arg, ArgMatches, Command};
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
    let own = own_names(commands);
    let slurm: Vec<&str> = commands.slurm.iter().map(|(name, _)| *name).collect();
    for shell in Shell::ALL {
        let folders = [
            (dir.join(shell.name()), scripts::files(shell, &own)),
            (dir.join("slurm").join(shell.name()), scripts::slurm_files(shell, &slurm)),
        ];
        for (folder, files) in folders {
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot make '{}'", folder.display()))?;
            for (name, text) in files {
                write(&folder.join(name), text.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// The names that commands of Cosy's own are called by.
fn own_names(commands: &CommandList) -> Vec<&'static str> {
    let short = commands.native.iter().filter_map(|e| e.short);
    std::iter::once("cosy").chain(short).collect()
}

/// The command line of `cosy completion`.
pub fn completion_command() -> Command {
    arg::command("completion", "Print the script with which a shell completes options and names")
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .help("The shell that is to read it")
                .required(true)
                .value_parser(Shell::ALL.map(Shell::name)),
        )
        .after_help(
            "Where Cosy is installed with 'make install' shells find it by themselves. Elsewhere:\n\n\
             \x20 source <(cosy completion bash)     in ~/.bashrc\n\
             \x20 source <(cosy completion zsh)      in ~/.zshrc, behind 'compinit'\n\
             \x20 cosy completion fish | source      in ~/.config/fish/config.fish\n\n\
             Besides options it completes queues, own jobs, reservations, nodes, workflows and \
             accounts, which the controller is asked for. Slurm's names are completed where they \
             are this program.",
        )
}

/// Runs `cosy completion`.
///
/// # Errors
/// None: it only prints.
pub fn completion(matches: &ArgMatches, commands: &CommandList) -> anyhow::Result<u8> {
    let shell = matches.get_one::<String>("shell");
    let named = |name: &String| Shell::ALL.into_iter().find(|s| s.name() == name);
    let shell = shell.and_then(named).unwrap_or(Shell::Bash);
    let mut names = own_names(commands);
    let slurm = commands.slurm.iter().map(|(name, _)| *name);
    names.extend(slurm.filter(|name| is_this_program(name)));
    output::print(&scripts::sourced(shell, &names));
    Ok(exit::OK)
}

/// Whether a shell that is told this name starts this program.
fn is_this_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|p| p.is_file());
    let own = std::env::current_exe().and_then(|p| p.canonicalize());
    found
        .and_then(|p| p.canonicalize().ok())
        .zip(own.ok())
        .is_some_and(|(a, b)| a == b)
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
            "fish/cstat.fish",
            "zsh/_cosy",
            "slurm/bash/sbatch.bash",
        ] {
            assert!(dir.path().join(file).metadata().unwrap().len() > 100, "{file}");
        }
    }
}
