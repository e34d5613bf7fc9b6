//! The command `cosy-sim pages man|completions DIR`: for packages and `make install`.

use super::output::write;
use anyhow::Context;
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Its options. It is not shown to users.
pub fn command() -> Command {
    Command::new("pages")
        .about("Write manual pages or completions")
        .hide(true)
        .arg(
            Arg::new("what")
                .value_name("man|completions")
                .help("What to write")
                .required(true)
                .value_parser(["man", "completions"]),
        )
        .arg(
            Arg::new("dir")
                .value_name("DIR")
                .help("Where to write it; made when missing")
                .required(true)
                .value_parser(value_parser!(PathBuf)),
        )
}

/// Writes pages or completions of `whole`, the program with all its commands.
///
/// # Errors
/// What the file system says.
pub fn run(options: &ArgMatches, whole: Command) -> anyhow::Result<ExitCode> {
    let dir: PathBuf = options.get_one("dir").cloned().unwrap_or_default();
    match options.get_one::<String>("what").map(String::as_str) {
        Some("man") => manuals(&dir, whole)?,
        _ => completions(&dir, whole)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A page for the program, and one for each command.
fn manuals(dir: &Path, mut whole: Command) -> anyhow::Result<()> {
    make(dir)?;
    whole.build();
    manual(dir, "cosy-sim", whole.clone())?;
    let shown = whole
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    for command in shown.filter(|command| command.get_name() != "help") {
        let page = format!("cosy-sim-{}", command.get_name());
        let called = format!("cosy-sim {}", command.get_name());
        let command = command.clone().display_name(page.clone()).bin_name(called);
        manual(dir, &page, command)?;
    }
    Ok(())
}

fn manual(dir: &Path, page: &str, command: Command) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.disable_help_subcommand(true))
        .title(page)
        .render(&mut text)?;
    write(&dir.join(format!("{page}.1")), &String::from_utf8_lossy(&text))
}

fn completions(dir: &Path, mut whole: Command) -> anyhow::Result<()> {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let into = dir.join(shell.to_string());
        make(&into)?;
        clap_complete::generate_to(shell, &mut whole, "cosy-sim", &into)
            .with_context(|| format!("cannot write completions to '{}'", into.display()))?;
    }
    Ok(())
}

fn make(dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make '{}'", dir.display()))
}
