//! `cosyd`: the controller daemon of Cosy.

use anyhow::{Context, bail};
use cosyd::config;
use cosyd::daemon::{self, Options};
use cosyd::offline::{self, OfflineCommand};
use cosyd::output::print;
use cosyd::store_commands;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code for a command line that makes no sense.
const USAGE: u8 = 2;

const HELP: &str = "\
cosyd - the controller daemon of Cosy

usage: cosyd --config FILE [options]
       cosyd store copy|check|backup|restore ...   (see cosyd store --help)

  --config FILE      configuration (default /etc/cosy/cosy.toml)
  --name NAME        which [[controller]] of the configuration this is (default:
                     the one with the host's name)
  --check            check the configuration, say every fault, and exit
  --set-aside        list what of the store is set aside and why, and exit
  --put-back N       put that back, to be taken up at the next start, and exit
  --give-up N        give that up for good, and exit
  --compact          write the database anew without free room, and exit; the
                     daemon must be stopped, and the disk have room for a copy
  --log LEVEL        error, warn, info, debug or trace (default: the configuration's)
  --ready-fd N       write a line to this file descriptor when commands are answered
  --lifeline-fd N    stop when this pipe's other end is closed
  -h, --help         this text
  -V, --version      version

SIGHUP reads the configuration again, SIGTERM stops the daemon; jobs go on.
Exit codes: 0 stopped or configuration fine, 1 failure, 2 usage.
";

fn main() -> ExitCode {
    cosyd::allocator::give_large_blocks_back();
    if std::env::args().nth(1).is_some_and(|word| word == "store") {
        return store_commands::main(std::env::args().skip(2));
    }
    let options = match options(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("cosyd: {e}; see cosyd --help");
            return ExitCode::from(USAGE);
        }
    };
    let (options, offline) = options;
    match run(&options, offline) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("cosyd: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options, offline: Option<OfflineCommand>) -> anyhow::Result<()> {
    let config = config::read_as(&options.config, options.name.as_deref()).map_err(|faults| {
        let lines = faults.0.join("\n");
        anyhow::anyhow!("the configuration has faults:\n{lines}")
    })?;
    if options.check {
        let mut text = format!("{}: no faults\n", options.config.display());
        for line in cosy_control::reservations_in_words(&config.cluster) {
            text.push_str(&line);
            text.push('\n');
        }
        return Ok(print(&text)?);
    }
    match offline {
        Some(command) => offline::run(&config, command),
        None => daemon::run(options, config),
    }
}

fn number(text: &str) -> anyhow::Result<u64> {
    text.parse()
        .with_context(|| format!("'{text}' is no number of what is set aside"))
}

/// How the daemon is to run, or what is done to its store instead.
type CommandLine = (Options, Option<OfflineCommand>);

/// `None` when help or version was asked for and printed.
fn options(mut args: impl Iterator<Item = String>) -> anyhow::Result<Option<CommandLine>> {
    let mut options = Options {
        config: PathBuf::from("/etc/cosy/cosy.toml"),
        name: None,
        check: false,
        log: None,
        ready_fd: None,
        lifeline_fd: None,
    };
    let mut offline = None;
    while let Some(arg) = args.next() {
        let (name, inline) = match arg.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (arg, None),
        };
        let mut value = || {
            inline
                .clone()
                .or_else(|| args.next())
                .with_context(|| format!("{name} needs a value"))
        };
        match name.as_str() {
            "--config" => options.config = PathBuf::from(value()?),
            "--name" => options.name = Some(value()?),
            "--log" => options.log = Some(value()?),
            "--ready-fd" => options.ready_fd = Some(fd(&value()?)?),
            "--lifeline-fd" => options.lifeline_fd = Some(fd(&value()?)?),
            "--check" => options.check = true,
            "--set-aside" => offline = Some(OfflineCommand::ListSetAside),
            "--put-back" => offline = Some(OfflineCommand::PutBack(number(&value()?)?)),
            "--give-up" => offline = Some(OfflineCommand::GiveUp(number(&value()?)?)),
            "--compact" => offline = Some(OfflineCommand::Compact),
            "-h" | "--help" => {
                print(HELP)?;
                return Ok(None);
            }
            "-V" | "--version" => {
                print(concat!("cosyd ", env!("CARGO_PKG_VERSION"), "\n"))?;
                return Ok(None);
            }
            other => bail!("'{other}' is no option"),
        }
    }
    Ok(Some((options, offline)))
}

fn fd(text: &str) -> anyhow::Result<i32> {
    let fd: i32 = text
        .parse()
        .with_context(|| format!("'{text}' is no file descriptor"))?;
    if fd < 3 {
        bail!("file descriptor {fd} is in use already");
    }
    Ok(fd)
}
