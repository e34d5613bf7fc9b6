//! The help texts of `sbatch`, `srun` and `salloc`, made from the table of options; the short
//! form has the words that the original's has ([`super::synopsis`]).

use super::Program;
use super::synopsis;
use super::table::{self, OptionEntry, OptionSupport};
use std::fmt::Write as _;

/// Where the explanations begin, as in the original.
const COLUMN: usize = 30;
/// Headings of the list, and the option that each begins with. Clients look for some of them.
const SECTIONS: [(&str, &str); 7] = [
    ("account", "Parallel run options:"),
    ("cluster-constraint", "Constraint options:"),
    ("exact", "Consumable resources related options:"),
    ("sockets-per-node", "Affinity/Multi-core options:"),
    ("cpus-per-gpu", "GPU scheduling options:"),
    ("help", "Help options:"),
    ("version", "Other options:"),
];

fn what_follows(program: Program) -> &'static str {
    match program {
        Program::Sbatch => "script [args...]",
        Program::Srun => "program [args...]",
        Program::Salloc => "[command [args...]]",
    }
}

/// What `--help` prints.
pub fn help(program: Program) -> String {
    let mut text = format!("Usage: {} [OPTIONS...] {}\n", program.name(), what_follows(program));
    let mut last = "";
    for (entry, section) in sections().filter(|(entry, _)| entry.of.has(program)) {
        if section != last {
            let _ = writeln!(text, "\n{section}");
            last = section;
        }
        let spelled = spelling(entry);
        let gap = if spelled.len() < COLUMN {
            COLUMN - spelled.len()
        } else {
            1
        };
        let _ = writeln!(text, "{spelled}{:gap$}{}{}", "", entry.about, remark(entry.status));
    }
    text
}

/// All options, each with the heading that it stands under.
fn sections() -> impl Iterator<Item = (&'static OptionEntry, &'static str)> {
    let mut section = SECTIONS[0].1;
    table::TABLE.iter().map(move |entry| {
        let begins = SECTIONS.iter().find(|(first, _)| *first == entry.opt.long);
        section = begins.map_or(section, |(_, heading)| heading);
        (entry, section)
    })
}

fn spelling(entry: &OptionEntry) -> String {
    let short = entry
        .opt
        .short
        .map_or_else(|| "    ".to_owned(), |letter| format!("-{}, ", char::from(letter)));
    format!("  {short}--{}{}", entry.opt.long, entry.value)
}

fn remark(status: OptionSupport) -> &'static str {
    match status {
        OptionSupport::Done => "",
        OptionSupport::Accepted(_) | OptionSupport::Ignored(_) => " (without effect here)",
        OptionSupport::Refused(_) => " (not available here)",
    }
}

/// What `--usage` prints.
pub fn usage(program: Program) -> String {
    let start = format!("Usage: {}", program.name());
    let indent = format!("\n{:1$}", "", start.len() + 1);
    format!("{start} {}\n", synopsis::lines(program).join(&indent))
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
fn status(entry: &OptionEntry) -> String {
    match entry.status {
        OptionSupport::Done => format!("done: {}", entry.about),
        OptionSupport::Accepted(why) => format!("accepted without effect: {why}"),
        OptionSupport::Ignored(why) => format!("accepted with one line on standard error: {why}"),
        OptionSupport::Refused(why) => format!("refused: {why}"),
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
            let help = help(program);
            for entry in table::entries(program) {
                let spelled = format!("--{}{}", entry.opt.long, entry.value);
                assert!(help.contains(&spelled), "{spelled}");
            }
            assert!(help.starts_with(&format!("Usage: {} ", program.name())));
            for (_, heading) in SECTIONS {
                assert_eq!(help.matches(heading).count(), 1, "{heading}");
            }
        }
    }

    #[test]
    fn headings_begin_with_options_that_there_are() {
        for (first, _) in SECTIONS {
            assert!(table::TABLE.iter().any(|e| e.opt.long == first), "{first}");
        }
    }

    #[test]
    fn usages() {
        let text = usage(Program::Sbatch);
        assert!(
            text.starts_with("Usage: sbatch [-N nnodes] [-n ntasks]\n              [-c ncpus]")
        );
        assert!(text.ends_with("\n              executable [args...]\n"), "{text}");
    }

    #[test]
    fn documentation() {
        assert_eq!(markdown().lines().count(), table::TABLE.len() + 2);
    }
}
