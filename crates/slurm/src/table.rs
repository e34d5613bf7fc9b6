//! Tables of options with a short description each: what is read and what `--help` and
//! `--usage` tell come from the same rows, so that neither can miss one.

use crate::getopt::{Argument, Opt};

/// Where the description of an option begins.
const COLUMN: usize = 34;
/// Longest line of a synopsis.
const LINE: usize = 80;

/// An option and what is told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// How it is spelled.
    pub opt: Opt,
    /// What its value is called; empty without one.
    pub value: &'static str,
    /// What it does, in a few words; empty: it is not listed.
    pub about: &'static str,
}

impl Row {
    /// An option without a value.
    pub const fn flag(short: u8, long: &'static str, about: &'static str) -> Self {
        let (opt, value) = (Opt::both(short, long, Argument::Nothing), "");
        Self { opt, value, about }
    }

    /// An option with a value.
    pub const fn value(
        short: u8,
        long: &'static str,
        value: &'static str,
        about: &'static str,
    ) -> Self {
        let opt = Opt::both(short, long, Argument::Value);
        Self { opt, value, about }
    }

    /// An option without a value that has no letter.
    pub const fn long_flag(long: &'static str, about: &'static str) -> Self {
        let (opt, value) = (Opt::long(long, Argument::Nothing), "");
        Self { opt, value, about }
    }

    /// An option with a value that has no letter.
    pub const fn long_value(long: &'static str, value: &'static str, about: &'static str) -> Self {
        let opt = Opt::long(long, Argument::Value);
        Self { opt, value, about }
    }

    /// The same option with a value that may be left out.
    pub const fn perhaps(self) -> Self {
        let opt = Opt {
            argument: Argument::Perhaps,
            ..self.opt
        };
        Self { opt, ..self }
    }

    /// Another spelling of the option `name`: accepted and not listed.
    pub const fn also(self, name: &'static str) -> Self {
        Self {
            opt: self.opt.known_as(name),
            value: self.value,
            about: "",
        }
    }

    /// One that is accepted and not listed.
    pub const fn hidden(opt: Opt) -> Self {
        let (value, about) = ("", "");
        Self { opt, value, about }
    }

    /// Both spellings and the value, `-A, --account=NAME`.
    fn spelled(&self) -> String {
        let short = match self.opt.short {
            Some(letter) if !self.opt.long.is_empty() => format!("-{}, ", char::from(letter)),
            Some(letter) => format!("-{}", char::from(letter)),
            None => "    ".to_owned(),
        };
        let long = match self.opt.long {
            "" => String::new(),
            long => format!("--{long}"),
        };
        match (self.opt.argument, self.value) {
            (Argument::Nothing, _) | (_, "") => format!("{short}{long}"),
            (Argument::Value, value) => format!("{short}{long}={value}"),
            (Argument::Perhaps, value) => format!("{short}{long}[={value}]"),
        }
    }

    /// A line of the list of options.
    fn line(&self) -> String {
        let spelled = format!("  {}", self.spelled());
        let gap = match spelled.len() + 2 > COLUMN {
            true => format!("\n{:COLUMN$}", ""),
            false => " ".repeat(COLUMN - spelled.len()),
        };
        format!("{spelled}{gap}{}\n", self.about)
    }

    /// ` [-A NAME]`, or by its name where it has no letter.
    fn short_form(&self) -> String {
        // Brackets around the whole are enough.
        let value = self.value.replace(['[', ']'], "");
        let value = match self.opt.argument {
            Argument::Nothing => String::new(),
            Argument::Value => format!(" {value}"),
            Argument::Perhaps => format!("={value}"),
        };
        match self.opt.short {
            Some(short) if self.opt.argument != Argument::Perhaps => {
                format!(" [-{}{value}]", char::from(short))
            }
            Some(_) | None => format!(" [--{}{value}]", self.opt.long),
        }
    }
}

/// What the parser needs of the rows.
pub fn opts(rows: &[Row]) -> Vec<Opt> {
    rows.iter().map(|r| r.opt).collect()
}

/// Options about the text itself: they have a heading of their own, which clients look for.
const HELP: [&str; 2] = ["help", "usage"];

/// The text of `--help`: how it is called, then each option; the description of one with a
/// long name stands below it.
pub fn help(usage: &str, rows: &[Row]) -> String {
    let listed = rows.iter().filter(|r| !r.about.is_empty());
    let (about_help, others): (Vec<&Row>, Vec<&Row>) =
        listed.partition(|r| HELP.contains(&r.opt.long));
    let mut text = format!("Usage: {usage}\n");
    others.iter().for_each(|row| text.push_str(&row.line()));
    if !about_help.is_empty() {
        text.push_str("\nHelp options:\n");
    }
    about_help.iter().for_each(|row| text.push_str(&row.line()));
    text
}

/// The text of `--usage`: how it is called, with the letters and names of the options in the
/// place of `[OPTIONS]`.
pub fn usage(usage: &str, rows: &[Row]) -> String {
    let listed = || rows.iter().filter(|r| !r.about.is_empty());
    let letters: String = listed()
        .filter_map(|r| r.opt.short.map(char::from))
        .collect();
    let names = listed().filter(|r| r.opt.short.is_none());
    let mut words: Vec<String> = names.map(|r| format!("[--{}]", r.opt.long)).collect();
    if !letters.is_empty() {
        words.insert(0, format!("[-{letters}]"));
    }
    format!("Usage: {}\n", usage.replacen("[OPTIONS]", &words.join(" "), 1))
}

/// The text of `--usage` of commands that show: all options in a row, on lines of at most 80
/// characters.
pub fn synopsis(program: &str, rows: &[Row]) -> String {
    let mut text = format!("Usage: {program}");
    let indent = text.len();
    let mut line = indent;
    for row in rows.iter().filter(|r| !r.about.is_empty()) {
        let word = row.short_form();
        if line + word.len() > LINE {
            text.push_str(&format!("\n{:indent$}", ""));
            line = indent;
        }
        line += word.len();
        text.push_str(&word);
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let rows = [
            Row::value(b'n', "name", "NAME", "which"),
            Row::long_flag("me", "own"),
            Row::hidden(Opt::long("ctld", Argument::Nothing)),
        ];
        assert_eq!(
            help("prog [OPTIONS]", &rows),
            "Usage: prog [OPTIONS]\n  -n, --name=NAME                 which\n      --me                        own\n"
        );
        assert_eq!(usage("prog [OPTIONS] FILE", &rows), "Usage: prog [-n] [--me] FILE\n");
    }

    #[test]
    fn texts_of_commands_that_show() {
        let table = [
            Row::flag(b'h', "noheader", "no headings"),
            Row::value(b'j', "job", "ID[,...]", "these jobs"),
            Row::value(b'J', "jobs", "ID", "").also("job"),
            Row::long_flag("help", "this help"),
            Row::long_flag("json", "JSON"),
            Row::long_value("a-very-long-option", "SOME-LONG-VALUE", "long").perhaps(),
        ];
        let want = [
            "Usage: squeue [OPTIONS]",
            "  -h, --noheader                  no headings",
            "  -j, --job=ID[,...]              these jobs",
            "      --json                      JSON",
            "      --a-very-long-option[=SOME-LONG-VALUE]",
            "                                  long",
            "",
            "Help options:",
            "      --help                      this help",
        ];
        let text = help("squeue [OPTIONS]", &table);
        assert_eq!(text.lines().collect::<Vec<_>>(), want);
        assert_eq!(
            synopsis("squeue", &table),
            "Usage: squeue [-h] [-j ID,...] [--help] [--json]\n              [--a-very-long-option=SOME-LONG-VALUE]\n"
        );
    }
}
