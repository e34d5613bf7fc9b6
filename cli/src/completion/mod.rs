//! What a shell offers when a key is pressed in the middle of a command line: `cosy __complete`,
//! which the scripts of [`crate::native::shell_scripts`] call.
//!
//! `cosy __complete SHELL WORD LINE` is for bash, which hands over the line up to the cursor and
//! which part of its last word it looks at; `cosy __complete SHELL -- WORDS` for those that split
//! the line themselves. The first line of the answer says what is wanted (`names`, `files`,
//! `folders`, `programs`, `users`), the others are names, each with what is told of it behind a
//! tabulator. Nothing is ever said on standard error, and it takes a second at most.

pub mod grammar;
pub mod line;
pub mod names;
pub mod place;
pub mod slurm_grammar;

use crate::{commands, exit, output, slurm};
use grammar::{Grammar, Kind, of_clap};
use names::Candidate;
use place::Wanted;
use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// The command that the scripts of shells call.
pub const HIDDEN_NAME: &str = "__complete";

/// How long a shell waits at most, whatever the controller does.
const LONGEST: Duration = Duration::from_secs(1);

/// Answers a shell; gives the exit code.
pub fn main(args: &[OsString]) -> u8 {
    let args: Vec<String> = args
        .iter()
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    let (tell, told) = mpsc::channel();
    // It is left alone when its time is over: the program ends.
    std::thread::spawn(move || tell.send(answer(&args)));
    if let Ok(text) = told.recv_timeout(LONGEST) {
        output::print(&text);
    }
    exit::OK
}

fn answer(args: &[String]) -> String {
    let (words, seen) = match args {
        [_, dashes, words @ ..] if dashes == "--" => (words.to_vec(), None),
        [_, word, line] => (line::words(line), Some(word.as_str())),
        _ => return String::new(),
    };
    let Some(asked) = asked(&words) else {
        return String::new();
    };
    let current = words.last().map(String::as_str).unwrap_or_default();
    let mode = mode(&asked.kinds);
    let mut all = match mode {
        "names" => names::of(&asked.kinds, &asked.begun),
        _ => Vec::new(),
    };
    // A shell that looks at the end of the word wants no more than its end.
    let unseen = seen
        .and_then(|seen| current.strip_suffix(seen))
        .unwrap_or_default();
    for one in &mut all {
        let whole = format!("{}{}", asked.before, one.value);
        one.value = whole.strip_prefix(unseen).unwrap_or(&whole).to_owned();
    }
    text(mode, &all)
}

fn text(mode: &str, all: &[Candidate]) -> String {
    let mut text = format!("{mode}\n");
    for one in all {
        text.push_str(&one.value);
        if !one.about.is_empty() {
            text.push('\t');
            text.push_str(&one.about);
        }
        text.push('\n');
    }
    text
}

/// What the shell itself knows, and what is asked for here.
fn mode(kinds: &[Kind]) -> &'static str {
    match kinds {
        [Kind::File] => "files",
        [Kind::Folder] => "folders",
        [Kind::Program] => "programs",
        [Kind::User] => "users",
        _ => "names",
    }
}

/// What is wanted at the end of these words. What stands before the command, as `env` or `A=1`, is
/// passed over.
fn asked(words: &[String]) -> Option<Wanted> {
    let (current, before) = words.split_last()?;
    let called = |word: &String| Path::new(word).file_name()?.to_str().map(str::to_owned);
    let is_known = |name: &str| {
        name == "cosy" || slurm::by_name(name).is_some() || commands::by_short_name(name).is_some()
    };
    let named = |(at, word)| called(word).filter(|n| is_known(n)).map(|name| (at, name));
    let (at, name) = before.iter().enumerate().find_map(named)?;
    let mut before = before.get(at + 1..)?;
    let grammar = match name.as_str() {
        "cosy" => match before.split_first() {
            None => overview(),
            Some((sub, rest)) => {
                before = rest;
                grammar_of(sub)?
            }
        },
        name => grammar_of(name)?,
    };
    Some(place::wanted(&grammar, before, current))
}

/// The commands behind `cosy`.
fn overview() -> Grammar {
    let shown = commands::ALL.iter().filter(|e| e.shown);
    let all = shown.map(|e| {
        let about = (e.build)().get_about().map(ToString::to_string);
        (e.name.to_owned(), about.unwrap_or_default(), Grammar::default())
    });
    Grammar {
        commands: all.collect(),
        ..Grammar::default()
    }
}

fn grammar_of(name: &str) -> Option<Grammar> {
    let own = commands::by_name(name).or_else(|| commands::by_short_name(name));
    match own {
        Some(entry) => Some(of_clap(&(entry.build)(), entry.name)),
        None => slurm::by_name(name).map(|e| slurm_grammar::of(e.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(args: &[&str]) -> Vec<String> {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        answer(&args).lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_needs_no_controller() {
        let all = lines(&["fish", "--", "cosy", "re"]);
        assert_eq!(all[0], "names");
        assert!(all.iter().any(|l| l.starts_with("release\t")), "{all:?}");
        assert!(all.iter().all(|l| !l.starts_with("generate")), "{all:?}");
        let all = lines(&["fish", "--", "csub", "--reser"]);
        assert!(all[1].starts_with("--reservation\t"), "{all:?}");
        assert_eq!(lines(&["fish", "--", "sbatch", ""]), ["files"]);
        assert_eq!(lines(&["fish", "--", "sbatch", "-u", ""]), ["files"]);
        assert_eq!(lines(&["fish", "--", "squeue", "-u", ""]), ["users"]);
        assert_eq!(lines(&["fish", "--", "A=1", "/x/srun", ""]), ["programs"]);
        assert_eq!(lines(&["fish", "--", "csub", "-D", ""]), ["folders"]);
        assert_eq!(lines(&["fish", "--", "ls", ""]), [""; 0]);
        assert_eq!(lines(&["fish"]), [""; 0]);
    }

    /// Bash looks at what follows the last `=` or `:`.
    #[test]
    fn bash_gets_the_end_of_the_word() {
        let check = |word: &str, line: &str, want: &str| {
            let all = lines(&["bash", word, line]);
            assert_eq!(all.last().map(String::as_str), Some(want), "{line}");
        };
        check("runn", "cstat --state=runn", "running");
        check("waiting,runn", "cstat --state=waiting,runn", "waiting,running");
        check("--state=runn", "cstat --state=runn", "--state=running");
        check("runn", "env A='b c' cstat -s runn", "running");
    }
}
