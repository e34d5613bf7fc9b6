//! `cadm store`: hands its words on to `cosyd store`, which knows the stores.

use crate::native::arg::{flag, value};
use crate::native::program;
use clap::{Arg, ArgMatches, Command};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;

const AFTER: &str = "\
Carried out by the program cosyd on this host, as the user who calls it: without a controller, so \
that it also works where none starts.";

const COPY_AFTER: &str = "\
STORE is a configuration, whose store is meant, or sqlite:PATH, or postgres:CONNECTION. Stop all \
controllers first; jobs go on. What was interrupted is gone on with when the same is said again. At \
the end all rows of both are compared, and the exit code is 1 where any differs.

  cadm store copy --from /etc/cosy/cosy.toml --to /etc/cosy/postgres.toml";

const CHECK_AFTER: &str = "\
A line for each fault: where, what, and what to do. A controller may run meanwhile. The exit code is 1 \
where there is any.

  cadm store check
  cadm store check sqlite:/backup/cosy-2026-03-01";

const BACKUP_AFTER: &str = "\
The file is a store of its own, with old jobs out of archives too, as of one moment; it is written while \
the controller runs, for nobody else to read, and has its name once it is whole and on the disk.

  cadm store backup /backup/cosy-$(date +%F)";

const RESTORE_AFTER: &str = "\
Into a store of either kind, whichever the backup was made of. Stop all controllers first. The \
controller then holds all jobs that wait in the backup, because nobody knows which of them have run \
since (held_restored): look at them, then 'cosy release' or 'ccancel'.

  cadm store restore /backup/cosy-2026-03-01 --replace";

/// The command line of `cadm store`.
pub fn command() -> Command {
    let store = |long: &'static str, help: &'static str| value(long, "STORE", help);
    let config = || store("config", "Of which store (default: that of /etc/cosy/cosy.toml)");
    let file = |help: &'static str| {
        Arg::new("file")
            .value_name("FILE")
            .help(help)
            .required(true)
            .value_parser(clap::value_parser!(OsString))
    };
    let name = || value("name", "NAME", "Which [[controller]] of the configuration this is");
    let missing =
        || flag("without-missing-archives", "Leave out old jobs in archives whose files are gone");
    Command::new("store")
        .about("Move, check and back up the controller's state")
        .after_help(AFTER)
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("copy")
                .about("Copy a whole store into an empty one: between SQLite and PostgreSQL")
                .after_help(COPY_AFTER)
                .arg(store("from", "What is copied").required(true))
                .arg(store("to", "Where it is copied to").required(true))
                .arg(flag("anew", "Remove what an interrupted copy has left, and begin anew"))
                .arg(missing())
                .arg(name()),
        )
        .subcommand(
            Command::new("check")
                .about("Look for what does not fit together in a store")
                .after_help(CHECK_AFTER)
                .arg(
                    Arg::new("store")
                        .value_name("STORE")
                        .help("Which one (default: that of /etc/cosy/cosy.toml)")
                        .value_parser(clap::value_parser!(OsString)),
                )
                .arg(name()),
        )
        .subcommand(
            Command::new("backup")
                .about("Write everything into one file")
                .after_help(BACKUP_AFTER)
                .arg(file("The new file"))
                .arg(config())
                .arg(flag("replace", "Replace a file that is there"))
                .arg(missing())
                .arg(name()),
        )
        .subcommand(
            Command::new("restore")
                .about("Put a backup into the place of the store")
                .after_help(RESTORE_AFTER)
                .arg(file("The backup"))
                .arg(config())
                .arg(flag(
                    "replace",
                    "Replace what is in the store; a store in a file is kept beside, with the date",
                ))
                .arg(flag(
                    "nothing-since",
                    "Nothing has happened since the backup was made: no job is held",
                ))
                .arg(missing())
                .arg(name()),
        )
}

/// Runs `cadm store`: becomes `cosyd store`.
///
/// # Errors
/// There is no such program.
pub fn run((verb, m): (&str, &ArgMatches)) -> anyhow::Result<u8> {
    let program = program::find("cosyd")?;
    let mut command = std::process::Command::new(&program);
    command.args(words(verb, m));
    let failed = command.exec();
    Err(anyhow::Error::new(failed).context(format!("cannot execute {}", program.display())))
}

/// The same words for `cosyd`.
fn words(verb: &str, m: &ArgMatches) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["store".into(), verb.into()];
    for key in ["file", "store"] {
        let given = m.try_get_one::<OsString>(key).ok().flatten();
        words.extend(given.cloned());
    }
    for key in ["from", "to", "config", "name"] {
        if let Ok(Some(given)) = m.try_get_one::<String>(key) {
            words.push(format!("--{key}={given}").into());
        }
    }
    for key in [
        "anew",
        "replace",
        "nothing-since",
        "without-missing-archives",
    ] {
        if let Ok(Some(true)) = m.try_get_one::<bool>(key) {
            words.push(format!("--{key}").into());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_handed_on() {
        let check = |line: &str, want: &str| {
            let given = line.split(' ').map(str::to_owned);
            let matches = command().try_get_matches_from(given).unwrap();
            let (verb, m) = matches.subcommand().unwrap();
            let words = words(verb, m).into_iter();
            let words: Vec<String> = words.map(|word| word.into_string().unwrap()).collect();
            assert_eq!(words.join(" "), want);
        };
        check(
            "store copy --from a.toml --to postgres:host=/x --anew --name c1",
            "store copy --from=a.toml --to=postgres:host=/x --name=c1 --anew",
        );
        check("store check", "store check");
        check("store check sqlite:/x", "store check sqlite:/x");
        check(
            "store backup f --config c --replace --without-missing-archives",
            "store backup f --config=c --replace --without-missing-archives",
        );
        check(
            "store restore f --replace --nothing-since",
            "store restore f --replace --nothing-since",
        );
        for bad in [
            "store",
            "store copy --from a",
            "store backup",
            "store check a b",
        ] {
            assert!(command().try_get_matches_from(bad.split(' ')).is_err(), "{bad}");
        }
    }
}
