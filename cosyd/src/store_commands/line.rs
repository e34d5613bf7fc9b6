//! The command line of `cosyd store`.

use crate::store::content::MissingArchives;
use anyhow::{Context, bail};
use std::path::PathBuf;

/// What is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Command {
    Copy { from: String, to: String },
    Check,
    Backup { file: PathBuf },
    Restore { file: PathBuf },
}

/// All of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub(super) command: Command,
    pub(super) config: String,
    pub(super) name: Option<String>,
    pub(super) anew: bool,
    pub(super) replace: bool,
    pub(super) nothing_since: bool,
    pub(super) missing: MissingArchives,
}

/// Words and options as they came.
#[derive(Default)]
struct Words {
    plain: Vec<String>,
    from: Option<String>,
    to: Option<String>,
    config: Option<String>,
    name: Option<String>,
    flags: Vec<String>,
}

/// `None` when help was asked for.
pub(super) fn read(args: impl Iterator<Item = String>) -> anyhow::Result<Option<Line>> {
    let Some(words) = words(args)? else {
        return Ok(None);
    };
    let mut plain = words.plain.into_iter();
    let verb = plain
        .next()
        .context("what? copy, check, backup or restore")?;
    let mut file = |what: &str| {
        let file = plain.next();
        file.map(PathBuf::from)
            .with_context(|| format!("{verb} needs the name of the {what}"))
    };
    let (command, takes) = match verb.as_str() {
        "copy" => {
            let from = words.from.clone().context("copy needs --from STORE")?;
            let to = words.to.clone().context("copy needs --to STORE")?;
            (Command::Copy { from, to }, &["--anew", MISSING][..])
        }
        "check" => (Command::Check, &[][..]),
        "backup" => {
            let file = file("new file")?;
            (Command::Backup { file }, &["--replace", MISSING][..])
        }
        "restore" => {
            let file = file("backup")?;
            (Command::Restore { file }, &["--replace", "--nothing-since", MISSING][..])
        }
        other => bail!("'{other}' is not copy, check, backup or restore"),
    };
    if let Some(flag) = words.flags.iter().find(|f| !takes.contains(&f.as_str())) {
        bail!("{verb} has no {flag}");
    }
    if verb != "copy" && (words.from.is_some() || words.to.is_some()) {
        bail!("only copy has --from and --to");
    }
    let place = match verb.as_str() {
        "check" => plain.next(),
        _ => None,
    };
    if let Some(more) = plain.next() {
        bail!("what is '{more}'?");
    }
    if place.is_some() && words.config.is_some() || verb == "copy" && words.config.is_some() {
        bail!("--config says again where the store is");
    }
    let has = |flag: &str| words.flags.iter().any(|f| f == flag);
    Ok(Some(Line {
        command,
        config: place
            .or(words.config)
            .unwrap_or_else(|| "/etc/cosy/cosy.toml".to_owned()),
        name: words.name,
        anew: has("--anew"),
        replace: has("--replace"),
        nothing_since: has("--nothing-since"),
        missing: match has(MISSING) {
            true => MissingArchives::LeftOut,
            false => MissingArchives::Refused,
        },
    }))
}

const MISSING: &str = "--without-missing-archives";

fn words(mut args: impl Iterator<Item = String>) -> anyhow::Result<Option<Words>> {
    let mut words = Words::default();
    while let Some(arg) = args.next() {
        if !arg.starts_with('-') {
            words.plain.push(arg);
            continue;
        }
        let (name, inline) = match arg.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (arg, None),
        };
        let slot = match name.as_str() {
            "-h" | "--help" => return Ok(None),
            "--from" => &mut words.from,
            "--to" => &mut words.to,
            "--config" => &mut words.config,
            "--name" => &mut words.name,
            _ if inline.is_none() => {
                words.flags.push(name);
                continue;
            }
            _ => bail!("'{name}' takes no value"),
        };
        let value = inline.or_else(|| args.next());
        *slot = Some(value.with_context(|| format!("{name} needs a value"))?);
    }
    Ok(Some(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> anyhow::Result<Option<Line>> {
        read(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn lines() {
        let good = |text: &str| line(text).unwrap().unwrap();
        let copy = good("copy --from a.toml --to=postgres:host=/x --anew");
        let (from, to) = ("a.toml".to_owned(), "postgres:host=/x".to_owned());
        assert_eq!(copy.command, Command::Copy { from, to });
        assert!(copy.anew && copy.missing == MissingArchives::Refused);
        assert_eq!(good("check sqlite:/x").config, "sqlite:/x");
        assert_eq!(good("check").config, "/etc/cosy/cosy.toml");
        assert_eq!(good("check --config c").config, "c");
        let restore = good("restore f --replace --nothing-since --without-missing-archives");
        assert!(restore.replace && restore.nothing_since);
        assert_eq!(restore.missing, MissingArchives::LeftOut);
        assert_eq!(line("copy --help").unwrap(), None);
        for bad in [
            "",
            "move",
            "copy --from a",
            "copy --to a",
            "copy --from a --to b c",
            "copy --from a --to b --replace",
            "copy --from a --to b --config c",
            "check --anew",
            "check a b",
            "check a --config b",
            "backup",
            "backup a --nothing-since",
            "backup a --from b",
            "restore",
            "restore a --replace=yes",
            "restore a --config",
        ] {
            assert!(line(bad).is_err(), "{bad}");
        }
    }
}
