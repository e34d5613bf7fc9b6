//! The help texts of `sbatch`, `srun` and `salloc`, made from the table of options.

use super::Program;
use super::table::{self, Entry, Status};
use std::fmt::Write as _;

/// Where the explanations begin, as in the original.
const COLUMN: usize = 30;
/// Widest line of the short form.
const WIDTH: usize = 84;

fn what_follows(program: Program) -> &'static str {
    match program {
        Program::Sbatch => "script [args...]",
        Program::Srun => "program [args...]",
        Program::Salloc => "[command [args...]]",
    }
}

/// What `--help` prints.
pub fn help(program: Program) -> String {
    let mut text = format!(
        "Usage: {} [OPTIONS...] {}\n\nOptions:\n",
        program.name(),
        what_follows(program)
    );
    for entry in table::entries(program) {
        let spelled = spelling(entry);
        let gap = if spelled.len() < COLUMN {
            COLUMN - spelled.len()
        } else {
            1
        };
        let _ = writeln!(
            text,
            "{spelled}{:gap$}{}{}",
            "",
            entry.about,
            remark(entry.status)
        );
    }
    text
}

fn spelling(entry: &Entry) -> String {
    let short = entry.opt.short.map_or_else(
        || "    ".to_owned(),
        |letter| format!("-{}, ", char::from(letter)),
    );
    format!("  {short}--{}{}", entry.opt.long, entry.value)
}

fn remark(status: Status) -> &'static str {
    match status {
        Status::Done => "",
        Status::Accepted(_) | Status::Ignored(_) => " (without effect here)",
        Status::Refused(_) => " (not available here)",
    }
}

/// What `--usage` prints.
pub fn usage(program: Program) -> String {
    let start = format!("Usage: {}", program.name());
    let indent = start.len();
    let mut text = String::new();
    let mut line = start;
    let words = table::entries(program)
        .map(|e| format!("[--{}{}]", e.opt.long, e.value))
        .chain([what_follows(program).to_owned()]);
    for word in words {
        if line.len() + 1 + word.len() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = " ".repeat(indent);
        }
        line.push(' ');
        line.push_str(&word);
    }
    text + &line + "\n"
}

/// The options as a table in Markdown, for the documentation.
pub fn markdown() -> String {
    let mut text = String::from("| option | of | what becomes of it |\n|---|---|---|\n");
    for entry in &table::TABLE {
        let short = entry
            .opt
            .short
            .map_or_else(String::new, |letter| format!("`-{}`, ", char::from(letter)));
        let value = entry.value.replace('|', "\\|");
        let status = status(entry);
        let _ = writeln!(
            text,
            "| {short}`--{}{value}` | {} | {status} |",
            entry.opt.long,
            entry.of.names()
        );
    }
    text
}

/// What becomes of an option.
fn status(entry: &Entry) -> String {
    match entry.status {
        Status::Done => format!("done: {}", entry.about),
        Status::Accepted(why) => format!("accepted without effect: {why}"),
        Status::Ignored(why) => format!("accepted with one line on standard error: {why}"),
        Status::Refused(why) => format!("refused: {why}"),
    }
}

/// Each option as it is spelled, with the commands that have it, and what becomes of it.
pub fn statuses() -> impl Iterator<Item = (String, String)> {
    table::TABLE.iter().map(|entry| {
        let short = entry.opt.short;
        let short = short.map_or_else(String::new, |letter| format!("-{}, ", char::from(letter)));
        let option = format!("{short}--{}{}", entry.opt.long, entry.value);
        (option, format!("{} ({})", status(entry), entry.of.names()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_listed() {
        for program in [Program::Sbatch, Program::Srun, Program::Salloc] {
            let (help, usage) = (help(program), usage(program));
            for entry in table::entries(program) {
                let spelled = format!("--{}{}", entry.opt.long, entry.value);
                assert!(help.contains(&spelled), "{spelled}");
                assert!(usage.contains(&format!("[{spelled}]")), "{spelled}");
            }
            assert!(help.starts_with(&format!("Usage: {} ", program.name())));
            assert!(usage.lines().all(|l| l.len() <= WIDTH), "{usage}");
        }
    }

    #[test]
    fn documentation() {
        assert_eq!(markdown().lines().count(), table::TABLE.len() + 2);
    }
}
