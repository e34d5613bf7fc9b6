//! `cadm account dump` and `load`: accounts, users and qualities of service as one file that people
//! read and edit.
//!
//! What a file names is afterwards as the file says, also where it says nothing of a limit; what it
//! does not name stays, but with `--prune`. All of it is done, or nothing.

mod difference;
mod present;
mod read;
mod site;
mod write;

use crate::native::arg::flag;
use crate::native::change;
use crate::{Context, exit, output};
use clap::{Arg, ArgMatches, Command};
use cosy_model::api::{Reply, Request};
use cosy_model::limits;
use std::io::Read;

/// Longest file that is read, in bytes.
const LONGEST: u64 = 64 << 20;
/// Lines of changes that are shown.
const SHOWN: usize = 1000;

fn file(help: &'static str, required: bool) -> Arg {
    Arg::new("file")
        .value_name("FILE")
        .help(help)
        .required(required)
}

/// The command line of `cadm account dump`.
pub fn dump_command() -> Command {
    Command::new("dump")
        .about("Write accounts, users and qualities of service to a file that 'load' reads")
        .arg(file("File (default: standard output)", false))
}

/// The command line of `cadm account load`.
pub fn load_command() -> Command {
    super::changing("load", "Make accounts, users and qualities of service as a file says")
        .arg(file("File of 'cadm account dump'; - is standard input", true))
        .arg(flag("prune", "Also remove what the file does not name"))
}

/// Runs `cadm account dump`.
///
/// # Errors
/// A refusal, no controller, or a file that cannot be written.
pub fn dump(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let text = write::text(&present::site(context)?);
    match m.get_one::<String>("file").filter(|path| *path != "-") {
        None => output::print(&text),
        Some(path) => std::fs::write(path, text)
            .map_err(|e| anyhow::anyhow!("{path} cannot be written: {e}"))?,
    }
    Ok(exit::OK)
}

/// Runs `cadm account load`.
///
/// # Errors
/// A file that is wrong, a refusal, or no controller.
pub fn load(context: &Context, m: &ArgMatches) -> anyhow::Result<u8> {
    let path = super::named(m, "file");
    let text = text_of(&path).map_err(|why| anyhow::anyhow!("{path} cannot be read: {why}"))?;
    let from = match path.as_str() {
        "-" => "standard input",
        path => path,
    };
    let wrong = |why: String| exit::usage(format!("{from}: {why}; nothing was changed"));
    let wanted = read::site(&text).map_err(wrong)?;
    let present = present::site(context)?;
    let all = difference::between(&present, &wanted, m.get_flag("prune")).map_err(wrong)?;
    if all.len() > limits::POLICY_CHANGES {
        return Err(wrong(format!(
            "it would make {} changes, {} can be made at once: load it in parts",
            all.len(),
            limits::POLICY_CHANGES
        )));
    }
    let as_json = m.get_flag("json");
    if all.is_empty() {
        if !as_json {
            output::print("everything is as the file says\n");
        }
        return Ok(exit::OK);
    }
    let (changes, lines): (Vec<_>, Vec<String>) = all.into_iter().unzip();
    let dry_run = m.get_flag("dry-run");
    let reply = context.ask(Request::ChangePolicy { changes, dry_run })?;
    if !as_json {
        output::print(&shown(&lines, dry_run));
    }
    match reply {
        Reply::Done { refused, .. } if refused.is_empty() && (dry_run || !as_json) => Ok(exit::OK),
        reply => change::report(context, reply, as_json),
    }
}

fn shown(lines: &[String], dry_run: bool) -> String {
    let mut text: String = lines
        .iter()
        .take(SHOWN)
        .map(|line| format!("{line}\n"))
        .collect();
    if lines.len() > SHOWN {
        text.push_str(&format!("and {} more\n", lines.len() - SHOWN));
    }
    let count = lines.len();
    text.push_str(&match dry_run {
        true => format!("changes: {count}; without --dry-run they would be made\n"),
        false => format!("changes made: {count}\n"),
    });
    text
}

fn text_of(path: &str) -> Result<String, String> {
    let input: Box<dyn Read> = match path {
        "-" => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(path).map_err(|e| e.to_string())?),
    };
    let mut text = String::new();
    input
        .take(LONGEST + 1)
        .read_to_string(&mut text)
        .map_err(|e| e.to_string())?;
    match text.len() as u64 > LONGEST {
        true => Err(format!("it is longer than {} MiB", LONGEST >> 20)),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests;
