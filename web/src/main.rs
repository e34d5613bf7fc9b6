//! `cosy-web`: the web page of Cosy, its REST interfaces and its metrics.

use anyhow::{Context, bail};
use cosy_web::config::{self, Config};
use cosy_web::daemon;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code for a command line that makes no sense.
const USAGE: u8 = 2;

const HELP: &str = "\
cosy-web - the web page of Cosy, its REST interfaces and its metrics

usage: cosy-web --config FILE [options]

  --config FILE      configuration (default /etc/cosy/web.toml)
  --check            check the configuration, say every fault, and exit
  --log LEVEL        error, warn, info, debug or trace (default: the configuration's)
  --ready-fd N       write a line to this file descriptor when requests are answered
  --lifeline-fd N    stop when this pipe's other end is closed
  -h, --help         this text
  -V, --version      version

It asks the controller for the users who look at the page; [web] in cosy.toml names the user that
it runs as. SIGTERM stops it; nothing of the cluster depends on it.
Exit codes: 0 stopped or configuration fine, 1 failure, 2 usage.
";

/// How it is to run.
struct Options {
    config: PathBuf,
    check: bool,
    log: Option<String>,
    daemon: daemon::Options,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("cosy-web: {e}; see cosy-web --help");
            return ExitCode::from(USAGE);
        }
    };
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("cosy-web: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> anyhow::Result<()> {
    let config = config::read(&options.config)
        .map_err(|faults| anyhow::anyhow!("the configuration has faults:\n{faults}"))?;
    if options.check {
        println!("{}: no faults", options.config.display());
        return Ok(());
    }
    let config = Config {
        log: options.log.unwrap_or(config.log),
        ..config
    };
    daemon::run(options.daemon, config)
}

/// `None` when help or version was asked for and printed.
fn options(mut args: impl Iterator<Item = String>) -> anyhow::Result<Option<Options>> {
    let mut options = Options {
        config: PathBuf::from("/etc/cosy/web.toml"),
        check: false,
        log: None,
        daemon: daemon::Options::default(),
    };
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
            "--log" => options.log = Some(value()?),
            "--ready-fd" => options.daemon.ready_fd = Some(fd(&value()?)?),
            "--lifeline-fd" => options.daemon.lifeline_fd = Some(fd(&value()?)?),
            "--check" => options.check = true,
            "-h" | "--help" => {
                print!("{HELP}");
                return Ok(None);
            }
            "-V" | "--version" => {
                println!("cosy-web {}", env!("CARGO_PKG_VERSION"));
                return Ok(None);
            }
            other => bail!("'{other}' is no option"),
        }
    }
    Ok(Some(options))
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
