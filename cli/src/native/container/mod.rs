//! `cosy container-enter` and `cosy container-bundle`: what node daemons and scripts of container plugins
//! execute, as the job's user, so that a program runs in a container (`docs/containers.md`). Users do not
//! call them.

mod bundle;
mod config;
mod enter;
mod mounts;

use crate::native::arg::{command as base, list, value};
use crate::native::submit::options::words;
use crate::{Context, exit};
use clap::{ArgMatches, Command};
use cosy_model::variables;
use std::ffi::OsString;
use std::path::PathBuf;

/// The command line of `cosy container-enter`.
pub fn enter_command() -> Command {
    base("container-enter", "Run a program in the container that its variables describe")
        .override_usage("cosy container-enter -- COMMAND [ARG]...")
        .arg(words("Program and its arguments").value_name("COMMAND"))
}

/// Runs `cosy container-enter`; comes back only with an error.
///
/// # Errors
/// What is missing here or wrong with the container: exit code 125.
pub fn enter(_: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let Err(why) = enter::enter(&list(matches, "words"));
    Err(cannot(&why))
}

/// The command line of `cosy container-bundle`.
pub fn bundle_command() -> Command {
    let path =
        |long, name, help| value(long, name, help).value_parser(clap::value_parser!(PathBuf));
    base("container-bundle", "Write the OCI configuration of a program's container")
        .override_usage(
            "cosy container-bundle --into DIR (--rootfs DIR | --from BUNDLE) -- COMMAND [ARG]...",
        )
        .arg(path("into", "DIR", "Where config.json is written").required(true))
        .arg(path("rootfs", "DIR", "Root file system").conflicts_with("from"))
        .arg(path("image", "FILE", "The image's configuration as JSON"))
        .arg(path("from", "BUNDLE", "OCI bundle to be changed"))
        .arg(words("Program and its arguments").value_name("COMMAND"))
}

/// Runs `cosy container-bundle`.
///
/// # Errors
/// What cannot be read or written, or is no bundle: exit code 125.
pub fn bundle(_: &Context, matches: &ArgMatches) -> anyhow::Result<u8> {
    let path = |name| matches.get_one::<PathBuf>(name).cloned();
    let paths = bundle::BundlePaths {
        into: path("into").unwrap_or_default(),
        rootfs: path("rootfs"),
        image: path("image"),
        from: path("from"),
    };
    let words: Vec<OsString> = list(matches, "words");
    bundle::write(&paths, &words).map_err(|why| cannot(&why))?;
    Ok(exit::OK)
}

fn cannot(why: &str) -> anyhow::Error {
    let node = std::env::var(variables::NODENAME).unwrap_or_default();
    exit::error(exit::NO_CONTAINER, format!("container on {node}: {why}"))
}
