//! The command `cosy-sim calibrate`.

use std::process::ExitCode;

/// Its options.
pub fn command() -> clap::Command {
    clap::Command::new("calibrate")
}

/// Runs it.
pub fn run(_options: &clap::ArgMatches) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not there yet")
}
